//! A part of the input that fits in memory: its bytes and where its lines begin.

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
    }

    /// How many lines it holds.
    pub(crate) fn lines(&self) -> usize {
        self.entries.len()
    }

    /// Space to read into. Empty when the chunk is full.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let used = self.filled + self.entries.len() * size_of::<Entry>();
        // Small pieces, so that the memory taken by short lines is noticed in time.
        let piece = (self.budget / 32).clamp(4 * 1024, 512 * 1024);
        let free = self.budget.saturating_sub(used).min(piece);
        &mut self.data[self.filled..self.filled + free]
    }

    /// Takes `read` bytes of [`Chunk::space`] and cuts them into lines.
    pub(crate) fn take(&mut self, read: usize) {
        let from = self.filled;
        self.filled += read;
        let mut start = self.cut;
        // A full buffer is the wrong time to double the vector: it grows by eighths.
        for newline in memchr::memchr_iter(b'\n', &self.data[from..self.filled]) {
            let end = from + newline;
            if self.entries.len() == self.entries.capacity() {
                self.entries
                    .reserve_exact((self.entries.len() / 8).max(1024));
            }
            self.entries
                .push(Entry::new(&self.data, start as u32, (end - start) as u32));
            start = end + 1;
        }
        self.cut = start;
    }

    /// Ends an unfinished line: the last line of a file may have no newline.
    pub(crate) fn end_line(&mut self) {
        if self.cut < self.filled {
            let len = (self.filled - self.cut) as u32;
            self.entries
                .push(Entry::new(&self.data, self.cut as u32, len));
            // The next file's first line begins behind this one; no newline is needed between.
            self.cut = self.filled;
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
        strings::sort(&self.data, &mut self.entries);
        if unique {
            let data = &self.data;
            self.entries
                .dedup_by(|later, earlier| later.line(data) == earlier.line(data));
        }
    }

    /// The lines in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| entry.line(&self.data))
    }
}

/// The lines of a sorted chunk.
pub(crate) struct ChunkLines {
    chunk: Chunk,
    next: usize,
}

impl ChunkLines {
    pub(crate) fn new(chunk: Chunk) -> ChunkLines {
        ChunkLines { chunk, next: 0 }
    }
}

impl SortedLines for ChunkLines {
    fn line(&self) -> &[u8] {
        self.chunk.entries[self.next - 1].line(&self.chunk.data)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.next == self.chunk.entries.len() {
            return Ok(false);
        }
        self.next += 1;
        Ok(true)
    }
}
