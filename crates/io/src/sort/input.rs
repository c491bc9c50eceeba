//! Reads sources into chunks, on several threads where a file can be split.
//!
//! A plain file is read in parts at their offsets. The members of a gzip file are found without
//! inflating them, then inflated in parallel and copied into the chunk. Everything else, and a gzip file
//! from the first piece on that is not a member, is a [`Stream`] that one thread reads.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use libdeflater::Decompressor;

use super::chunk::{Chunk, Filled};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::members;
use crate::opened::FileSection;
use crate::pipeline::panicked;
use crate::progress::Progress;
use crate::ranged::FileReader;
use crate::source::Source;
use crate::stream::Stream;

/// Groups of gzip members: about this much inflated.
const GROUP: usize = 1 << 20;

/// With less memory, gzip files are read as streams.
const ENOUGH_MEMORY: usize = 64 << 20;

/// A source that is being read.
pub(super) struct Input<'a> {
    source: &'a Source,
    progress: &'a Progress,
    threads: usize,
    way: Way,
}

/// How a source is read.
enum Way {
    /// A plain file, and the offset of what was not read yet.
    File(FileSection, u64),
    Members(Box<Members>),
    Stream(Box<Stream>),
}

impl<'a> Input<'a> {
    /// Opens a source, to be read with some of `memory`.
    pub(super) fn open(
        source: &'a Source,
        memory: usize,
        threads: usize,
        progress: &'a Progress,
    ) -> Result<Input<'a>> {
        if let Some((file, start)) = source.plain()? {
            return Ok(Input {
                source,
                progress,
                threads,
                way: Way::File(file, start),
            });
        }
        // A pipe can be opened only once at a time.
        let file = source.file()?;
        let mut stream = source.open()?;
        let way = match (stream.compression(), file) {
            (Compression::Gzip, Some(file)) if memory >= ENOUGH_MEMORY && threads > 1 => {
                let (_, error) = stream.read_full(&mut [0; 4]);
                if stream.had_byte_order_mark() || error.is_some() {
                    Way::Stream(Box::new(source.open()?.reporting_to(progress)))
                } else {
                    let packed = (memory / 64).clamp(2 * members::LARGEST, 16 << 20);
                    let members = Members::new(file.reader(0), packed, memory / 16);
                    Way::Members(Box::new(members))
                }
            }
            _ => Way::Stream(Box::new(stream.reporting_to(progress))),
        };
        Ok(Input {
            source,
            progress,
            threads,
            way,
        })
    }

    /// Reads into `chunk`, which is not full. Damage is an error after everything before it was read.
    pub(super) fn read(&mut self, chunk: &mut Chunk) -> (Filled, Option<Error>) {
        let filled = match &mut self.way {
            Way::File(file, at) => {
                let read = read_file(file, *at, self.source, chunk, self.threads);
                if let Ok(filled) = &read {
                    *at += filled.bytes as u64;
                    self.progress.add(filled.bytes as u64);
                }
                read
            }
            Way::Members(_) => self.read_members(chunk),
            Way::Stream(stream) => {
                let (bytes, error) = stream.read_full(chunk.space());
                chunk.take(bytes);
                let ended = bytes == 0 && error.is_none();
                return (Filled { bytes, ended }, error);
            }
        };
        match filled {
            Ok(filled) => (filled, None),
            Err(error) => (Filled::default(), Some(error)),
        }
    }

    fn read_members(&mut self, chunk: &mut Chunk) -> Result<Filled> {
        let Way::Members(members) = &mut self.way else {
            return Ok(Filled::default());
        };
        if members.taken == members.inflated() {
            let before = members.offset;
            let next = members.next(self.threads);
            let next = next.map_err(|error| error.in_file(self.source))?;
            self.progress.add(members.offset - before);
            match next {
                Next::Batch => {}
                Next::End => {
                    return Ok(Filled {
                        bytes: 0,
                        ended: true,
                    });
                }
                Next::Stream => {
                    let offset = members.offset;
                    let stream = self.source.gzip_at(offset)?.members_end_lines();
                    let stream = stream.reporting_to(self.progress);
                    self.way = Way::Stream(Box::new(stream));
                    return Ok(Filled::default());
                }
            }
        }
        let left = members.inflated() - members.taken;
        let (from, batch) = (members.taken, &*members);
        let copy = |at: usize, space: &mut [u8]| Ok(batch.copy(from + at, space));
        let mut filled = chunk.fill(left, self.threads, copy)?;
        members.taken += filled.bytes;
        filled.ended = false;
        Ok(filled)
    }
}

fn read_file(
    file: &FileSection,
    at: u64,
    source: &Source,
    chunk: &mut Chunk,
    threads: usize,
) -> Result<Filled> {
    // Past its length, there is more only if the file has grown.
    let most = match usize::try_from(file.length.saturating_sub(at)) {
        Ok(0) => chunk.space().len(),
        Ok(left) => left,
        Err(_) => usize::MAX,
    };
    chunk.fill(most, threads, |offset, space| {
        let at = at + offset as u64;
        let (read, error) = file.reader(at).read_full(space);
        match error {
            Some(error) => Err(cannot_read(error).in_file(source).at_byte(at)),
            None => Ok(read),
        }
    })
}

fn cannot_read(source: io::Error) -> Error {
    let doing = "read";
    Error::new(ErrorKind::Io { doing, source })
}

/// The members of a gzip file, inflated in batches.
struct Members {
    file: FileReader,
    /// A part of the file, of which `packed[..end]` is filled.
    packed: Vec<u8>,
    end: usize,
    ended: bool,
    /// The offset in the file of `packed[0]`, where a member begins.
    offset: u64,
    /// How many bytes a batch may have.
    most: usize,
    /// The batch: buffers and how much of each is filled.
    groups: Vec<(Vec<u8>, usize)>,
    /// Where each group begins in the batch; then the end.
    starts: Vec<usize>,
    /// How much of the batch was copied to chunks.
    taken: usize,
    /// Whether something follows the batch that is not a member.
    broken: bool,
}

/// What follows in a gzip file.
enum Next {
    Batch,
    /// Something that is not a small member.
    Stream,
    End,
}

impl Members {
    fn new(file: FileReader, packed: usize, most: usize) -> Members {
        Members {
            file,
            packed: vec![0; packed],
            end: 0,
            ended: false,
            offset: 0,
            most,
            groups: Vec::new(),
            starts: vec![0],
            taken: 0,
            broken: false,
        }
    }

    /// The size of the batch.
    fn inflated(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Copies bytes of the batch from an offset on. Returns how many there were.
    fn copy(&self, mut at: usize, mut space: &mut [u8]) -> usize {
        let mut copied = 0;
        let first = self.starts.partition_point(|&start| start <= at);
        for (start, (group, filled)) in self.starts.iter().zip(&self.groups).skip(first - 1) {
            if space.is_empty() {
                break;
            }
            let from = &group[at - start..*filled];
            let now = from.len().min(space.len());
            let (here, rest) = std::mem::take(&mut space).split_at_mut(now);
            here.copy_from_slice(&from[..now]);
            space = rest;
            at += now;
            copied += now;
        }
        copied
    }

    /// Inflates the next batch.
    fn next(&mut self, threads: usize) -> Result<Next> {
        self.taken = 0;
        self.starts.truncate(1);
        if self.broken {
            return Ok(Next::Stream);
        }
        if !self.ended {
            let (read, error) = self.file.read_full(&mut self.packed[self.end..]);
            self.end += read;
            self.ended = self.end < self.packed.len();
            if let Some(error) = error {
                return Err(cannot_read(error).at_byte(self.offset + self.end as u64));
            }
        }
        if self.end == 0 {
            return Ok(Next::End);
        }
        let found = self.find();
        if found.is_empty() {
            return Ok(Next::Stream);
        }
        let done = self.inflate(&found, threads)?;
        self.packed.copy_within(done..self.end, 0);
        self.end -= done;
        self.offset += done as u64;
        Ok(Next::Batch)
    }

    /// Groups of members at the start of what was read: offsets, and ranges relative to them.
    fn find(&self) -> Vec<(usize, Vec<std::ops::Range<usize>>)> {
        let mut found = Vec::new();
        let (mut at, mut size) = (0, 0);
        while at < self.end && size < self.most {
            let bytes = &self.packed[at..self.end];
            let pieces = members::group(bytes, self.ended, GROUP);
            // A doubtful member is tried again with what follows it.
            let retry = at > 0 && !self.ended && members::is_doubtful(bytes, &pieces);
            let Some(last) = pieces.last().filter(|_| !retry) else {
                break;
            };
            size += members::announced(bytes, &pieces);
            let end = at + last.end;
            found.push((at, pieces));
            at = end;
        }
        found
    }

    /// Inflates groups on all threads into the batch. Returns the end of the last member in `packed`.
    fn inflate(
        &mut self,
        found: &[(usize, Vec<std::ops::Range<usize>>)],
        threads: usize,
    ) -> Result<usize> {
        let mut buffers = std::mem::take(&mut self.groups);
        buffers.resize_with(found.len(), Default::default);
        let packed = &self.packed[..];
        let queue = Mutex::new(found.iter().zip(buffers).enumerate());
        let work = || {
            let mut decompressor = Decompressor::new();
            let mut done = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, ((at, pieces), (mut buffer, _)))) = next else {
                    return done;
                };
                let bytes = &packed[*at..];
                let (filled, used) =
                    members::inflate(&mut decompressor, bytes, pieces, &mut buffer);
                done.push((number, buffer, filled, used));
            }
        };
        let mut done = thread::scope(|scope| {
            let helpers = found.len().min(threads) - 1;
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for helper in helpers {
                done.extend(helper.join().map_err(|_| panicked())?);
            }
            Ok::<_, Error>(done)
        })?;
        done.sort_unstable_by_key(|&(number, ..)| number);
        let mut end = 0;
        for ((_, buffer, filled, used), (at, pieces)) in done.into_iter().zip(found) {
            self.groups.push((buffer, filled));
            // What follows a piece that is not a member is left to a stream.
            if !self.broken {
                self.starts.push(self.inflated() + filled);
                let last = used.checked_sub(1).map_or(0, |last| pieces[last].end);
                end = at + last;
                self.broken = used < pieces.len();
            }
        }
        Ok(end)
    }
}
