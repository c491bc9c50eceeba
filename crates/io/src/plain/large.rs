//! The rest of a large file, written by several threads past the cache of the system.
//!
//! The bytes are cut into parts that begin and end at multiples of [`ALIGNED`]: what is left of a buffer
//! is carried over to the next one.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::atomic::{ALIGNED, AtomicFile, Bypass, extend, write_at};
use crate::error::{Error, IoContext, Result};
use crate::meter;
use crate::ordered::{lost, spawn};

/// How much space is reserved at a time.
const SPACE: u64 = 256 << 20;

/// How many threads write large files: enough to keep a disk busy, and one for every four that work.
pub(super) fn count(threads: usize) -> usize {
    (threads / 4).clamp(8, 16)
}

/// Threads that write parts of large files.
pub struct Writers {
    parts: Option<Sender<Part>>,
    threads: Vec<JoinHandle<()>>,
    /// Buffers that were written.
    empty: Receiver<Vec<u8>>,
}

impl Writers {
    /// Starts them for files that so many threads make.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn start(threads: usize) -> Result<Writers> {
        Writers::with_queue(threads, 1)
    }

    /// The same with a queue of `waiting` parts.
    pub(super) fn with_queue(threads: usize, waiting: usize) -> Result<Writers> {
        let count = count(threads);
        let (parts, take) = bounded::<Part>(waiting);
        let (give_back, empty) = unbounded();
        let mut writers = Writers {
            parts: Some(parts),
            threads: Vec::new(),
            empty,
        };
        for _ in 0..count {
            let (take, give_back) = (take.clone(), give_back.clone());
            writers.threads.push(spawn("waypost-write", move || {
                for mut part in take {
                    if let Some(mut buffer) = meter::writing_by(count, || part.write()) {
                        buffer.clear();
                        // The receiver is gone if the writers were dropped.
                        let _ = give_back.send(buffer);
                    }
                }
            })?);
        }
        Ok(writers)
    }

    /// A buffer for reuse.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.empty.try_recv().unwrap_or_default()
    }

    /// Has a part written. Blocks while too many wait.
    fn give(&self, part: Part) -> bool {
        let parts = self.parts.as_ref();
        parts.is_some_and(|parts| parts.send(part).is_ok())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.parts = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Bytes to be written.
#[derive(Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    /// Where they begin.
    start: usize,
}

impl Buffer {
    /// An empty buffer whose bytes are aligned, as long as there are no more than `most`.
    pub(super) fn aligned(mut memory: Vec<u8>, most: usize) -> Buffer {
        memory.clear();
        memory.reserve(most + ALIGNED);
        let start = memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        memory.resize(start, 0);
        Buffer { memory, start }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.memory.truncate(self.start);
    }

    fn is_aligned(&self) -> bool {
        (self.bytes().as_ptr() as usize).is_multiple_of(ALIGNED)
    }

    /// Inserts bytes at the start, and moves the others so that all are aligned.
    fn move_behind(&mut self, first: &[u8]) {
        let used = self.start..self.memory.len();
        self.memory.reserve(first.len() + 2 * ALIGNED);
        let start = self.memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        let moved = start + first.len();
        let end = moved + used.len();
        self.memory.resize(end.max(used.end), 0);
        self.memory.copy_within(used, moved);
        self.memory[start..moved].copy_from_slice(first);
        self.memory.truncate(end);
        self.start = start;
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Buffer {
        Buffer { memory, start: 0 }
    }
}

/// A file whose start has been written.
pub(super) struct Large {
    output: AtomicFile,
    target: Arc<Target>,
    /// Where the next part begins.
    at: u64,
    /// What is to be written there first: less than [`ALIGNED`] bytes.
    carry: Vec<u8>,
    /// Where the reserved space ends.
    reserved: u64,
}

impl Large {
    /// Returns the file if it cannot be written past the cache.
    pub(super) fn new(mut output: AtomicFile) -> std::result::Result<Large, AtomicFile> {
        let Some(Bypass { file, at, carry }) = output.bypass_cache() else {
            return Err(output);
        };
        Ok(Large {
            output,
            target: Arc::new(Target {
                file,
                state: Mutex::default(),
                changed: Condvar::new(),
            }),
            at,
            carry,
            reserved: at,
        })
    }

    /// Has bytes written after those before. `false` if something could not be written.
    pub(super) fn give(&mut self, buffer: Buffer, writers: &Writers) -> bool {
        let bytes = buffer.bytes();
        let length = (self.carry.len() + bytes.len()) / ALIGNED * ALIGNED;
        if length == 0 {
            self.carry.extend_from_slice(bytes);
            return true;
        }
        let carry = bytes[length - self.carry.len()..].to_vec();
        let carry = std::mem::replace(&mut self.carry, carry);
        let part = Part::new(&self.target, self.at, carry, buffer, length);
        self.at += length as u64;
        if self.at > self.reserved {
            let more = self.at - self.reserved + SPACE;
            // If the disk is too full, writing says so when it is.
            let _ = extend(&self.target.file, self.reserved, more);
            self.reserved += more;
        }
        !self.target.state().failed && writers.give(part)
    }

    /// The last bytes that were given, if they fill no aligned block. They have to be given again, before
    /// those that follow.
    pub(super) fn take_carry(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.carry)
    }

    /// Waits until everything is written.
    pub(super) fn end(self) -> Result<AtomicFile> {
        let mut output = self.output;
        if let Err(error) = self.target.wait() {
            return Err(error.map_or_else(lost, |error| Error::io("write", output.path(), error)));
        }
        output.use_cache(self.at).doing("write", output.path())?;
        output
            .write_all(&self.carry)
            .doing("write", output.path())?;
        Ok(output)
    }
}

/// A file, and how far it is written.
struct Target {
    /// Past the cache.
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many parts are being written or wait.
    unwritten: usize,
    /// Whether a part could not be written.
    failed: bool,
    /// Why.
    error: Option<io::Error>,
}

impl Target {
    /// Ignores poisoning: a panic ends all threads anyway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left to write.
    fn wait(&self) -> std::result::Result<(), Option<io::Error>> {
        let mut state = self.state();
        while state.unwritten > 0 {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        match state.failed {
            true => Err(state.error.take()),
            false => Ok(()),
        }
    }
}

/// A part of a file.
struct Part {
    target: Arc<Target>,
    at: u64,
    /// The first bytes.
    carry: Vec<u8>,
    /// Those that follow, and more that do not belong to the part.
    buffer: Buffer,
    length: usize,
    written: bool,
}

impl Part {
    fn new(target: &Arc<Target>, at: u64, carry: Vec<u8>, buffer: Buffer, length: usize) -> Part {
        target.state().unwritten += 1;
        Part {
            target: Arc::clone(target),
            at,
            carry,
            buffer,
            length,
            written: false,
        }
    }

    /// Writes the part. Returns its memory, unless that failed.
    fn write(&mut self) -> Option<Vec<u8>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        // The disk reads from memory that is aligned as well.
        if !self.carry.is_empty() || !buffer.is_aligned() {
            buffer.move_behind(&self.carry);
        }
        match write_at(&self.target.file, &buffer.bytes()[..self.length], self.at) {
            Ok(()) => {
                self.written = true;
                Some(buffer.memory)
            }
            Err(error) => {
                self.target.state().error.get_or_insert(error);
                None
            }
        }
    }
}

/// Whatever becomes of a part, nobody waits for it any more.
impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.target.state();
        state.unwritten -= 1;
        state.failed |= !self.written;
        self.target.changed.notify_all();
    }
}
