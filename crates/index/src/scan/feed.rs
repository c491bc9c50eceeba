//! Splits sources into work, on its own thread.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use waypost_io::members::LARGEST;
use waypost_io::{Compression, Error, ErrorKind, FileSection, Result, Source, Stream, members};

use crate::kind::{FileKind, Sample};
use crate::layout::FileLayout;

/// Blocks of plain files: small enough to stay in a core's cache between reading and parsing, and large
/// enough that handing them over and merging their results is little work for one thread.
const BLOCK: usize = 512 * 1024;
/// Groups of gzip members: about this much inflated, so that it is parsed while still in the cache.
const GROUP: usize = 1024 * 1024;
/// How much of a gzip file is read at a time: so little that it is inflated while still in the cache.
const CHUNK: usize = 1024 * 1024;
/// Room before it for a member that starts in what was read before.
const ROOM: usize = 512 * 1024;
/// How many threads read a gzip file: one is too slow for many workers.
const READERS: usize = 2;
/// How many parts of a plain file are sent at a time.
const PARTS: usize = 64;
/// How much is read at most to find the end of a member: two of the largest.
const LARGEST_CHUNK: usize = 2 * LARGEST;

/// A reusable buffer. Its length never shrinks, so that it need not be cleared.
pub(super) type Buffer = Vec<u8>;

/// How many unused buffers are kept: as many as 64 threads use at a time. Getting memory again takes longer.
const MOST_UNUSED: usize = 256;

/// Unused buffers.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Buffer>>);

impl Pool {
    pub(super) fn take(&self, size: usize) -> Buffer {
        let waiting = self.0.lock().ok().and_then(|mut pool| pool.pop());
        match waiting {
            Some(mut buffer) => {
                buffer.resize(buffer.len().max(size), 0);
                buffer
            }
            // Not by `resize`: new pages are zero already.
            None => vec![0; size],
        }
    }

    pub(super) fn give(&self, buffer: Buffer) {
        // One huge member should not keep its memory for the rest of the run.
        if buffer.len() <= 4 * GROUP
            && let Ok(mut pool) = self.0.lock()
            && pool.len() < MOST_UNUSED
        {
            pool.push(buffer);
        }
    }

    /// Returns a shared buffer, which takes effect when its last user does so.
    pub(super) fn give_shared(&self, buffer: Arc<Buffer>) {
        if let Some(buffer) = Arc::into_inner(buffer) {
            self.give(buffer);
        }
    }
}

/// A message to the merger, in the order of the input.
pub(super) enum Fed {
    /// A source starts.
    Begin {
        layout: FileLayout,
        compression: Compression,
    },
    /// Some of its bytes, in batches: every message may have to wake the merger.
    Work(Vec<Work>),
    /// The source ends, possibly because of damage.
    End { damage: Option<Error> },
    /// The feed stops because of an error.
    Failed(Error),
}

/// Bytes that a worker can read by itself.
pub(super) enum Work {
    /// A part of a plain file.
    Part {
        file: Arc<File>,
        offset: u64,
        len: usize,
    },
    /// Bytes that were already read.
    Bytes {
        buffer: Buffer,
        len: usize,
        /// Number of bytes of the source.
        stored: u64,
    },
    /// Members of a gzip file.
    Members {
        chunk: Arc<Buffer>,
        /// Their offset in the chunk.
        start: usize,
        /// Their ranges, relative to that offset.
        pieces: Vec<Range<usize>>,
        /// Their offset in the file.
        offset: u64,
    },
}

/// Splits sources into work.
pub(super) struct Feed<'a> {
    pub(super) sources: &'a [Source],
    pub(super) pool: &'a Pool,
    pub(super) block: Option<usize>,
    /// The source whose members cannot be separated; the merger continues with it alone.
    pub(super) given_up: &'a AtomicUsize,
    pub(super) sender: Sender<Fed>,
}

/// The merger has stopped.
struct Hung;

impl Feed<'_> {
    /// Runs until all sources are split or the merger stops.
    pub(super) fn run(self) {
        for (number, source) in self.sources.iter().enumerate() {
            match self.source(number, source) {
                Ok(Ok(())) => {}
                Ok(Err(Hung)) => return,
                Err(error) => {
                    let _ = self.sender.send(Fed::Failed(error));
                    return;
                }
            }
        }
    }

    fn send(&self, fed: Fed) -> Result<(), Hung> {
        self.sender.send(fed).map_err(|_| Hung)
    }

    /// Sends what was found, if anything.
    fn send_found(&self, found: &mut Vec<Work>) -> Result<(), Hung> {
        match found.is_empty() {
            true => Ok(()),
            false => self.send(Fed::Work(std::mem::take(found))),
        }
    }

    fn source(&self, number: usize, source: &Source) -> Result<Result<(), Hung>> {
        let regular = source.file()?;
        let mut stream = match &regular {
            Some(section) => Stream::new(source.to_string(), Box::new(section.reader(0)))?.text(),
            None => source.open()?,
        };
        // Workers read ranges and members again; everything read from a stream is passed on as work.
        let split = match stream.compression() {
            Compression::Plain | Compression::Gzip => regular,
            Compression::Zstd | Compression::Bzip2 => None,
        };
        let mut sample = Sample::new(&mut stream, split.is_none());
        let layout = match sample.kind() {
            FileKind::Index(layout) => *layout,
            FileKind::Empty | FileKind::List | FileKind::Text => FileLayout::detect(&sample.window),
            // Without a magic number, these bytes are bad lines.
            FileKind::Html | FileKind::Binary if !sample.by_magic => FileLayout::default(),
            other => return Err(other.instead_of("an index").in_file(source)),
        };
        let (all, error) = (sample.all.take(), sample.error.take());
        let begin = Fed::Begin {
            layout,
            compression: stream.compression(),
        };
        if self.send(begin).is_err() {
            return Ok(Err(Hung));
        }
        match (stream.compression(), split) {
            (Compression::Plain, Some(section)) => {
                let start = if stream.had_byte_order_mark() { 3 } else { 0 };
                Ok(self.parts(&section, start))
            }
            // The byte-order mark is skipped by the stream.
            (Compression::Gzip, Some(section))
                if !stream.had_byte_order_mark() && error.is_none() =>
            {
                self.members(number, source, &section)
            }
            (_, Some(section)) => {
                let file = Box::new(section.reader(0));
                let stream = Stream::new(source.to_string(), file)?.text();
                self.stream(stream, Vec::new(), 0, None, 0)
            }
            (_, None) => {
                let all = all.unwrap_or_default();
                let len = all.len();
                self.stream(stream, all, len, error, 0)
            }
        }
    }

    /// Ranges of a plain file.
    fn parts(&self, section: &FileSection, start: u64) -> Result<(), Hung> {
        let block = self.block.unwrap_or(BLOCK);
        let end = section.start + section.length;
        let mut offsets = (section.start + start..end).step_by(block);
        loop {
            let parts = offsets.by_ref().take(PARTS).map(|offset| Work::Part {
                file: Arc::clone(&section.file),
                offset,
                len: (end - offset).min(block as u64) as usize,
            });
            let parts: Vec<Work> = parts.collect();
            if parts.is_empty() {
                return self.send(Fed::End { damage: None });
            }
            self.send(Fed::Work(parts))?;
        }
    }

    /// The rest of a stream, of which `len` bytes were read already.
    fn stream(
        &self,
        mut stream: Stream,
        mut buffer: Buffer,
        mut len: usize,
        mut error: Option<Error>,
        mut stored: u64,
    ) -> Result<Result<(), Hung>> {
        let block = self.block.unwrap_or(BLOCK);
        // Nothing was read yet if a stream starts in the middle of its file.
        let mut fresh = len == 0 && error.is_none();
        loop {
            if len > 0 {
                let before = std::mem::replace(&mut stored, stream.source_position());
                let work = Work::Bytes {
                    buffer,
                    len,
                    stored: stored - before,
                };
                if self.send(Fed::Work(vec![work])).is_err() {
                    return Ok(Err(Hung));
                }
            } else {
                self.pool.give(buffer);
            }
            match error {
                Some(error) if error.is_damage() => {
                    return Ok(self.send(Fed::End {
                        damage: Some(error),
                    }));
                }
                Some(error) => return Err(error),
                None if len == 0 && !fresh => return Ok(self.send(Fed::End { damage: None })),
                None => fresh = false,
            }
            buffer = self.pool.take(block);
            (len, error) = stream.read_full(&mut buffer[..block]);
        }
    }

    /// The members of a gzip file, in groups, as long as they are small; then a stream.
    fn members(
        &self,
        number: usize,
        source: &Source,
        section: &FileSection,
    ) -> Result<Result<(), Hung>> {
        thread::scope(|threads| {
            let readers = std::array::from_fn(|first| {
                let (sender, chunks) = bounded(1);
                threads.spawn(move || self.read_ahead(section, first, &sender));
                chunks
            });
            self.group_members(number, source, Chunks { readers, next: 0 })
        })
    }

    /// Reads every second chunk from the number `first` on, or as many as there are readers, until the end of
    /// the file or until the receiver is dropped.
    fn read_ahead(&self, section: &FileSection, first: usize, sender: &Sender<Chunk>) {
        for number in (first as u64..).step_by(READERS) {
            let mut file = section.reader(number * CHUNK as u64);
            let mut buffer = self.pool.take(ROOM + CHUNK);
            let (filled, error) = file.read_full(&mut buffer[ROOM..ROOM + CHUNK]);
            let ended = filled < CHUNK;
            let chunk = Chunk {
                buffer,
                filled,
                error,
            };
            if sender.send(chunk).is_err() || ended {
                return;
            }
        }
    }

    fn group_members(
        &self,
        number: usize,
        source: &Source,
        mut chunks: Chunks,
    ) -> Result<Result<(), Hung>> {
        let group = self.block.unwrap_or(GROUP);
        let mut chunk = Arc::new(Vec::new());
        let (mut start, mut end) = (0, 0);
        // The offset of `start` in the file: always the start of a member, or of what should be one.
        let mut offset = 0u64;
        let mut ended = false;
        // The groups of a chunk are sent together, before the next chunk is waited for.
        let mut found = Vec::new();
        while self.given_up.load(Ordering::Relaxed) != number {
            let mut pieces = members::group(&chunk[start..end], ended, group);
            // A doubtful member is read again with what follows it.
            while !ended
                && end - start < LARGEST_CHUNK
                && (pieces.is_empty() || members::is_doubtful(&chunk[start..end], &pieces))
            {
                if self.send_found(&mut found).is_err() {
                    return Ok(Err(Hung));
                }
                let Some(next) = chunks.next() else {
                    break;
                };
                let left = end - start;
                if let Some(error) = next.error {
                    let kind = ErrorKind::Io {
                        doing: "read",
                        source: error,
                    };
                    let at = offset + (left + next.filled) as u64;
                    return Err(Error::new(kind).in_file(source).at_byte(at));
                }
                ended = next.filled < CHUNK;
                // The rest is copied to the next chunk, because workers may still read this one.
                let rest = &chunk[start..end];
                let (joined, at) = next.after(rest, self.pool);
                (start, end) = at;
                self.pool
                    .give_shared(std::mem::replace(&mut chunk, Arc::new(joined)));
                pieces = members::group(&chunk[start..end], ended, group);
            }
            if start == end {
                break;
            }
            let Some(used) = pieces.last().map(|piece| piece.end) else {
                // One huge member, or invalid data: inflate it here while others parse.
                self.pool.give_shared(chunk);
                if self.send_found(&mut found).is_err() {
                    return Ok(Err(Hung));
                }
                let stream = source.gzip_at(offset)?.text();
                return self.stream(stream, Vec::new(), 0, None, offset);
            };
            found.push(Work::Members {
                chunk: Arc::clone(&chunk),
                start,
                pieces,
                offset,
            });
            start += used;
            offset += used as u64;
        }
        self.pool.give_shared(chunk);
        let sent = self.send_found(&mut found);
        Ok(sent.and_then(|()| self.send(Fed::End { damage: None })))
    }
}

/// The chunks of a gzip file, in their order.
struct Chunks {
    readers: [Receiver<Chunk>; READERS],
    next: usize,
}

impl Chunks {
    fn next(&mut self) -> Option<Chunk> {
        let reader = &self.readers[self.next % READERS];
        self.next += 1;
        reader.recv().ok()
    }
}

/// Consecutive bytes of a gzip file.
struct Chunk {
    /// They follow some [`ROOM`].
    buffer: Buffer,
    filled: usize,
    error: Option<io::Error>,
}

impl Chunk {
    /// A buffer that has the bytes after `rest`, and where both begin and end.
    fn after(mut self, rest: &[u8], pool: &Pool) -> (Buffer, (usize, usize)) {
        if let Some(start) = ROOM.checked_sub(rest.len()) {
            self.buffer[start..ROOM].copy_from_slice(rest);
            return (self.buffer, (start, ROOM + self.filled));
        }
        let length = rest.len() + self.filled;
        let mut buffer = pool.take(length);
        buffer[..rest.len()].copy_from_slice(rest);
        buffer[rest.len()..length].copy_from_slice(&self.buffer[ROOM..ROOM + self.filled]);
        pool.give(self.buffer);
        (buffer, (0, length))
    }
}
