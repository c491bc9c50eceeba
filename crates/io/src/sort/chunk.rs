//! A part of the input that fits in memory: its bytes and where its lines begin.

use std::sync::{Mutex, PoisonError};
use std::thread;

use memmap2::MmapMut;
use rayon::prelude::*;

use super::strings::{self, Entry, SLACK};
use super::tournament::SortedLines;
use crate::error::{Error, ErrorKind, Result};
use crate::mapped;
use crate::pipeline::panicked;

/// How many bytes a thread searches for lines at a time.
const SEARCHED: usize = 1 << 20;

/// A thread that helps to fill a chunk should have this many parts to fill: starting it takes as long
/// as reading a small one.
const PARTS: usize = 4;

/// The maximum size of a chunk: offsets of lines have 32 bits.
pub(crate) const LARGEST: usize = u32::MAX as usize - SLACK;

/// Lines in memory: filled, sorted, read in order, and filled again.
pub(crate) struct Chunk {
    /// Allocated whole; pages that are never filled take no memory.
    data: MmapMut,
    /// How much of `data` is filled.
    filled: usize,
    /// The end of the last whole line in `data`; what follows is the start of a line.
    cut: usize,
    /// How many whole lines there are. They are looked for when they are sorted, by another thread
    /// than the one that reads.
    lines: usize,
    entries: Vec<Entry>,
    /// Bytes that `data` and `entries` may take together.
    budget: usize,
    /// The maximum that was filled since the memory was allocated: pages stay resident.
    resident: usize,
}

/// What was read into a chunk.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// How many bytes.
    pub(crate) bytes: usize,
    /// Whether there are no more.
    pub(crate) ended: bool,
}

/// Bytes that were read, and the lines that end there.
struct Part {
    /// How many bytes were wanted, and how many there were.
    size: usize,
    read: usize,
    lines: usize,
    /// The end of the last whole line.
    cut: usize,
}

impl Part {
    fn new(space: &[u8], read: usize) -> Part {
        let bytes = &space[..read];
        Part {
            size: space.len(),
            read,
            lines: memchr::memchr_iter(b'\n', bytes).count(),
            cut: memchr::memrchr(b'\n', bytes).map_or(0, |last| last + 1),
        }
    }
}

impl Chunk {
    /// A chunk that takes at most `budget` bytes.
    pub(crate) fn new(budget: usize) -> Result<Chunk> {
        let budget = budget.min(LARGEST);
        let data = mapped::zeroed(budget + SLACK).map_err(|source| {
            let doing = "get memory";
            Error::new(ErrorKind::Io { doing, source })
        })?;
        Ok(Chunk {
            data,
            filled: 0,
            cut: 0,
            lines: 0,
            entries: Vec::new(),
            budget,
            resident: 0,
        })
    }

    /// Empties it, but for the bytes that follow the last whole line of `other`.
    pub(crate) fn start_with_rest_of(&mut self, other: &mut Chunk) {
        self.clear();
        let rest = &other.data[other.cut..other.filled];
        self.data[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
        other.filled = other.cut;
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.resident = self.resident.max(self.filled);
        // Otherwise long lines followed by many short ones would keep both kinds of memory.
        if self.resident + self.entries.capacity() * size_of::<Entry>() > self.budget / 8 * 9 {
            self.entries = Vec::new();
            if let Ok(data) = mapped::zeroed(self.data.len()) {
                self.data = data;
                self.resident = 0;
            }
        }
        self.entries.clear();
        self.filled = 0;
        self.cut = 0;
        self.lines = 0;
    }

    /// How many lines it holds.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// How many bytes it may still take, with the entries of its lines.
    pub(crate) fn free(&self) -> usize {
        let used = self.filled + self.lines * size_of::<Entry>();
        self.budget.saturating_sub(used)
    }

    /// How much is read at a time: little, so that the memory taken by short lines is noticed in time.
    fn part(&self) -> usize {
        (self.budget / 32).clamp(4 * 1024, 512 * 1024)
    }

    /// Space to read into. Empty when the chunk is full.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let free = self.free().min(self.part());
        &mut self.data[self.filled..self.filled + free]
    }

    /// Reads about as much as it has space for, but at most `most` bytes, on several threads. `read`
    /// fills a buffer with the bytes at an offset from here, with fewer only at the end.
    pub(crate) fn fill(
        &mut self,
        most: usize,
        threads: usize,
        read: impl Fn(usize, &mut [u8]) -> Result<usize> + Sync,
    ) -> Result<Filled> {
        let (free, part) = (self.free(), self.part());
        // Entries need space, too: as much as for the lines so far, or not more than for an eighth.
        let expected = match self.lines {
            0 => free / 8,
            lines => {
                let used = self.filled + lines * size_of::<Entry>();
                (free as u128 * self.filled as u128 / used as u128) as usize
            }
        };
        let size = expected.max(part).min(free).min(most);
        let space = &mut self.data[self.filled..self.filled + size];
        let parts: Vec<_> = space.chunks_mut(part).enumerate().collect();
        let helpers = (parts.len() / PARTS).min(threads).saturating_sub(1);
        let queue = Mutex::new(parts.into_iter());
        let work = || {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, space)) = next else {
                    return done;
                };
                let counted = read(number * part, space).map(|read| Part::new(space, read));
                done.push((number, counted));
            }
        };
        let mut parts = thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mut parts = work();
            for helper in helpers {
                parts.extend(helper.join().map_err(|_| panicked())?);
            }
            Ok::<_, crate::Error>(parts)
        })?;
        parts.sort_unstable_by_key(|&(number, _)| number);
        let mut filled = Filled::default();
        for (_, part) in parts {
            // Lines are shorter than expected. The rest is read again.
            if self.free() == 0 {
                break;
            }
            let part = part?;
            filled.bytes += part.read;
            self.count(&part);
            if part.read < part.size {
                filled.ended = true;
                break;
            }
        }
        Ok(filled)
    }

    /// Takes `read` bytes of [`Chunk::space`].
    pub(crate) fn take(&mut self, read: usize) {
        let part = Part::new(&self.data[self.filled..self.filled + read], read);
        self.count(&part);
    }

    fn count(&mut self, part: &Part) {
        self.lines += part.lines;
        if part.lines > 0 {
            self.cut = self.filled + part.cut;
        }
        self.filled += part.read;
    }

    /// Ends an unfinished line: the last line of a file may have no newline.
    pub(crate) fn end_line(&mut self) {
        if self.cut < self.filled {
            // There is always room: more than a newline follows the last byte to be filled.
            self.data[self.filled] = b'\n';
            self.filled += 1;
            self.cut = self.filled;
            self.lines += 1;
        }
    }

    /// Discards an unfinished line.
    pub(crate) fn drop_unfinished(&mut self) {
        self.filled = self.cut;
    }

    /// How long the unfinished line at the end is.
    pub(crate) fn unfinished(&self) -> usize {
        self.filled - self.cut
    }

    /// Sorts the lines; with `unique`, keeps one of each.
    pub(crate) fn sort(&mut self, unique: bool) {
        self.find_lines();
        strings::sort(&self.data, &mut self.entries);
        if unique {
            self.keep_one_of_each();
        }
    }

    /// Removes all but one of equal lines, which are adjacent.
    fn keep_one_of_each(&mut self) {
        let (data, entries) = (&self.data, &self.entries);
        let is_first = |at: usize| at == 0 || entries[at].line(data) != entries[at - 1].line(data);
        let kept: Vec<bool> = (0..entries.len()).into_par_iter().map(is_first).collect();
        let mut kept = kept.into_iter();
        self.entries.retain(|_| kept.next().unwrap_or(true));
    }

    /// Makes entries of all lines, on all threads.
    fn find_lines(&mut self) {
        let data = &self.data[..];
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < self.cut {
            let from = (start + SEARCHED).min(self.cut) - 1;
            let feed = memchr::memchr(b'\n', &data[from..self.cut]);
            let end = feed.map_or(self.cut, |at| from + at + 1);
            pieces.push(start..end);
            start = end;
        }
        let counts: Vec<usize> = pieces
            .par_iter()
            .map(|piece| memchr::memchr_iter(b'\n', &data[piece.clone()]).count())
            .collect();
        self.entries.clear();
        self.entries.reserve_exact(self.lines);
        self.entries.resize(self.lines, Entry::default());
        let mut rest = &mut self.entries[..];
        let mut places = Vec::new();
        for count in counts {
            let (entries, others) = rest.split_at_mut(count);
            places.push(entries);
            rest = others;
        }
        pieces
            .into_par_iter()
            .zip(places)
            .for_each(|(piece, entries)| {
                let mut start = piece.start;
                let feeds = memchr::memchr_iter(b'\n', &data[piece.clone()]);
                for (entry, feed) in entries.iter_mut().zip(feeds) {
                    let end = piece.start + feed;
                    *entry = Entry::new(data, start as u32, (end - start) as u32);
                    start = end + 1;
                }
            });
    }

    /// The sorted lines, in parts of about the same number.
    pub(crate) fn parts(
        &self,
        parts: usize,
    ) -> impl IndexedParallelIterator<Item = impl Iterator<Item = &[u8]>> {
        let lines = self.entries.len().div_ceil(parts.max(1)).max(1);
        self.entries
            .par_chunks(lines)
            .map(|part| part.iter().map(|entry| entry.line(&self.data)))
    }

    /// How many bytes its lines have.
    pub(crate) fn size(&self) -> u64 {
        self.cut as u64
    }

    /// Sorted lines that each stand for about `share` bytes.
    pub(crate) fn sample(&self, share: u64) -> impl Iterator<Item = &[u8]> {
        let samples = (self.size() / share.max(1)).max(1);
        let step = (self.entries.len() as u64 / samples).max(1);
        let lines = self.entries.iter().step_by(step as usize);
        lines.map(|entry| entry.line(&self.data))
    }
}

/// The lines of a sorted chunk, or a range of them.
pub(crate) struct ChunkLines<'a> {
    chunk: &'a Chunk,
    next: usize,
    end: usize,
}

impl<'a> ChunkLines<'a> {
    /// The lines from the first that is not less than `from` to the last that is less than `to`.
    pub(crate) fn new(chunk: &'a Chunk, from: &[u8], to: Option<&[u8]>) -> ChunkLines<'a> {
        let below = |bound: &[u8]| {
            let is_below = |entry: &Entry| entry.line(&chunk.data) < bound;
            chunk.entries.partition_point(is_below)
        };
        ChunkLines {
            chunk,
            next: below(from),
            end: to.map_or(chunk.entries.len(), below),
        }
    }
}

impl SortedLines for ChunkLines<'_> {
    fn line(&self) -> &[u8] {
        self.chunk.entries[self.next - 1].line(&self.chunk.data)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.next >= self.end {
            return Ok(false);
        }
        self.next += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fills chunks with `text`. Returns the sorted lines of each.
    fn chunks(text: &[u8], budget: usize, threads: usize) -> Vec<Vec<Vec<u8>>> {
        let read = |at: usize, space: &mut [u8]| {
            let rest = text.get(at..).unwrap_or_default();
            let now = rest.len().min(space.len());
            space[..now].copy_from_slice(&rest[..now]);
            Ok(now)
        };
        let mut chunks = Vec::new();
        let mut chunk = Chunk::new(budget).unwrap();
        let mut at = 0;
        loop {
            let filled = chunk
                .fill(usize::MAX, threads, |from, space| read(at + from, space))
                .unwrap();
            at += filled.bytes;
            if !filled.ended && chunk.free() > 0 {
                continue;
            }
            let mut next = Chunk::new(budget).unwrap();
            if filled.ended {
                chunk.end_line();
            } else {
                next.start_with_rest_of(&mut chunk);
            }
            chunk.sort(false);
            chunks.push(
                chunk
                    .entries
                    .iter()
                    .map(|e| e.line(&chunk.data).to_vec())
                    .collect(),
            );
            if filled.ended {
                return chunks;
            }
            chunk = next;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chunks_have_all_lines_in_order_and_do_not_depend_on_threads(
            lengths in prop::collection::vec(prop_oneof![0usize..4, 0usize..200, 0usize..5000], 0..400),
            budget in 32usize << 10..100 << 10,
            ended: bool,
        ) {
            let mut text = Vec::new();
            for (number, length) in lengths.iter().enumerate() {
                let line = format!("{:03}", number * 7919 % 1000).repeat(length.div_ceil(3));
                text.extend_from_slice(line.as_bytes());
                text.push(b'\n');
            }
            if !ended {
                text.extend_from_slice(b"last");
            }
            let found = chunks(&text, budget, 1);
            prop_assert_eq!(&found, &chunks(&text, budget, 5));
            prop_assert!(found.iter().all(|lines| lines.is_sorted()));
            let mut all = found.concat();
            all.sort();
            let whole = text.strip_suffix(b"\n").unwrap_or(&text);
            let mut expected: Vec<_> = whole.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            expected.sort();
            if text.is_empty() {
                expected.clear();
            }
            prop_assert_eq!(all, expected);
        }
    }
}
