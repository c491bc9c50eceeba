//! Reads a section of a remote file from its start to its end, in large ranges that are fetched concurrently.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, bounded};

use crate::error::{Error, ErrorKind, Result};
use crate::ranged::RangeRead;

/// The size of a range: large enough that its latency does not matter.
const RANGE: u64 = 4 << 20;

/// A reader that is ahead of what was read by up to `connections` ranges.
pub(crate) struct AheadReader {
    bytes: Arc<dyn RangeRead>,
    connections: usize,
    end: u64,
    /// Where the next range to be requested starts.
    next: u64,
    pending: VecDeque<Receiver<Result<Vec<u8>>>>,
    current: Vec<u8>,
    at: usize,
}

impl AheadReader {
    pub(crate) fn new(bytes: Arc<dyn RangeRead>, connections: usize) -> Result<AheadReader> {
        let size = bytes.size()?;
        Ok(AheadReader::of_section(bytes, connections, 0, size))
    }

    /// Reads the bytes from `start` to `end`, which must be in the file.
    pub(crate) fn of_section(
        bytes: Arc<dyn RangeRead>,
        connections: usize,
        start: u64,
        end: u64,
    ) -> AheadReader {
        AheadReader {
            bytes,
            connections: connections.max(1),
            end,
            next: start,
            pending: VecDeque::new(),
            current: Vec::new(),
            at: 0,
        }
    }

    /// Requests ranges until enough are pending.
    fn request(&mut self) -> Result<()> {
        while self.pending.len() < self.connections && self.next < self.end {
            let (start, length) = (self.next, RANGE.min(self.end - self.next));
            let (send, receive) = bounded(1);
            let bytes = Arc::clone(&self.bytes);
            let fetch = move || {
                let mut buffer = vec![0; length as usize];
                let read = bytes.read_at(start, &mut buffer).map(|()| buffer);
                // Nobody waits for it if the reader was dropped.
                let _ = send.send(read);
            };
            thread::Builder::new()
                .name("waypost-fetch".to_owned())
                .spawn(fetch)
                .map_err(|error| {
                    Error::io("start a thread for", Path::new(self.bytes.name()), error)
                })?;
            self.next += length;
            self.pending.push_back(receive);
        }
        Ok(())
    }
}

impl Read for AheadReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            self.request()?;
            let Some(first) = self.pending.pop_front() else {
                return Ok(0);
            };
            let lost = |_| Error::new(ErrorKind::EndsEarly).in_file(self.bytes.name());
            self.current = first.recv().map_err(lost)??;
            self.at = 0;
        }
        let rest = &self.current[self.at..];
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}
