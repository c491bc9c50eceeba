//! A part of the input that fits in memory: its bytes and where its lines begin.

use rayon::prelude::*;

use super::strings::{self, Entry, SLACK};
use super::tournament::SortedLines;
use crate::error::Result;

/// The maximum size of a chunk: offsets of lines have 32 bits.
pub(crate) const LARGEST: usize = u32::MAX as usize - SLACK;

/// Lines in memory: filled, sorted, read in order, and filled again.
pub(crate) struct Chunk {
    /// Allocated whole and zeroed by the system; pages that are never filled take no memory.
    data: Vec<u8>,
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

impl Chunk {
    /// A chunk that takes at most `budget` bytes.
    pub(crate) fn new(budget: usize) -> Chunk {
        let budget = budget.min(LARGEST);
        Chunk {
            data: vec![0; budget + SLACK],
            filled: 0,
            cut: 0,
            lines: 0,
            entries: Vec::new(),
            budget,
            resident: 0,
        }
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
            self.data = Vec::new();
            self.data = vec![0; self.budget + SLACK];
            self.resident = 0;
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

    /// Space to read into. Empty when the chunk is full.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let used = self.filled + self.lines * size_of::<Entry>();
        // Small pieces, so that the memory taken by short lines is noticed in time.
        let piece = (self.budget / 32).clamp(4 * 1024, 512 * 1024);
        let free = self.budget.saturating_sub(used).min(piece);
        &mut self.data[self.filled..self.filled + free]
    }

    /// Takes `read` bytes of [`Chunk::space`].
    pub(crate) fn take(&mut self, read: usize) {
        let new = &self.data[self.filled..self.filled + read];
        if let Some(last) = memchr::memrchr(b'\n', new) {
            self.lines += memchr::memchr_iter(b'\n', new).count();
            self.cut = self.filled + last + 1;
        }
        self.filled += read;
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
        self.entries.clear();
        self.entries.reserve_exact(self.lines);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &self.data[..self.cut]) {
            let length = (end - start) as u32;
            self.entries
                .push(Entry::new(&self.data, start as u32, length));
            start = end + 1;
        }
        strings::sort(&self.data, &mut self.entries);
        if unique {
            let data = &self.data;
            self.entries
                .dedup_by(|later, earlier| later.line(data) == earlier.line(data));
        }
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
