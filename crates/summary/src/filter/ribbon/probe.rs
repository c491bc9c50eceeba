//! Looking up a hash in a shard.
//!
//! Rows are stored in blocks of 64, column by column, so 64 neighbouring rows lie in two adjacent
//! blocks. A lookup selects some of their bits in every column and checks that their number is even.
//! That is done for four columns at a time: all but one in 16 of the hashes that are not held are
//! found out by the first four.

use super::SPAN;
use super::bucket::{Position, first_row};
use super::width::WIDEST;
use crate::filter::hash::{Hash, low};

/// What a lookup needs to know about a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The offset of its rows.
    start: u64,
    /// Number of rows. Zero if the shard is empty.
    rows: u32,
    /// The number of leading blocks with one column less.
    narrow: u32,
}

impl Place {
    /// A shard whose rows start at byte `start`, with one column less in the first `narrow` blocks.
    pub(crate) fn new(start: u64, rows: u32, narrow: u32) -> Place {
        Place {
            start,
            rows,
            narrow,
        }
    }

    /// The same shard, loaded without the data before it.
    pub(crate) fn alone(self) -> Place {
        Place { start: 0, ..self }
    }

    /// What to check for a hash, given its position, and where its bucket and the next one start.
    #[inline(always)]
    pub(crate) fn probe(
        &self,
        hash: Hash,
        position: Position,
        starts: [u32; 2],
        columns: u8,
    ) -> Probe {
        let row = first_row(starts, position.within, self.rows);
        let (block, shift) = (row / 64, row % 64);
        // Coefficients beyond the last row need not be cleared: rows past the end read as zero.
        let coefficients = coefficients(hash);
        let words = u64::from(block) * u64::from(columns) - u64::from(block.min(self.narrow));
        Probe {
            at: self.start + 8 * words,
            first: coefficients << shift,
            second: (coefficients >> 1) >> (63 - shift),
            rows: self.rows - row / 64 * 64,
            columns: u32::from(columns) - u32::from(block < self.narrow),
        }
    }
}

/// The coefficients of a hash: its lower half. The upper half determines the start.
#[inline(always)]
pub(super) fn coefficients(hash: Hash) -> u64 {
    low(hash) | 1
}

/// The rows that a hash selects.
#[derive(Clone, Copy, Default)]
pub(crate) struct Probe {
    /// The offset of the block of 64 rows that contains the first of them.
    at: u64,
    /// Which rows of this block and of the next one are selected.
    first: u64,
    second: u64,
    /// The number of rows from the start of the block to the end of the shard.
    rows: u32,
    columns: u32,
}

/// A column of a block: one bit for each row.
type Column = [u8; 8];

impl Probe {
    /// Whether the hash may be held.
    #[inline(always)]
    pub(crate) fn answer(&self, bytes: &[u8]) -> bool {
        if self.rows < 2 * SPAN {
            return self.answer_at_end(bytes);
        }
        let (start, columns) = (self.at as usize, self.columns as usize);
        let Some(blocks) = bytes.get(start..start + 16 * columns) else {
            // The table was checked against the length of the file, so this is unreachable.
            return true;
        };
        let (words, _) = blocks.as_chunks::<8>();
        let (first, second) = words.split_at(columns);
        self.is_zero(first, second)
    }

    /// The last blocks of a shard: one of them may be shorter, or there may be only one.
    #[cold]
    #[inline(never)]
    fn answer_at_end(&self, bytes: &[u8]) -> bool {
        if self.rows == 0 {
            return false;
        }
        let columns = self.columns as usize;
        let mut blocks = [[[0; 8]; WIDEST as usize]; 2];
        let (mut rest, mut start) = (self.rows as usize, self.at as usize);
        for block in &mut blocks {
            let length = rest.min(64) / 8;
            for out in &mut block[..columns] {
                match bytes.get(start..start + length) {
                    Some(column) => out[..length].copy_from_slice(column),
                    None => return true,
                }
                start += length;
            }
            rest -= length * 8;
        }
        let [first, second] = blocks.each_ref().map(|block| &block[..columns]);
        self.is_zero(first, second)
    }

    /// Whether the XOR of the selected rows of two blocks is zero in all columns.
    #[inline(always)]
    fn is_zero(&self, first: &[Column], second: &[Column]) -> bool {
        let odd = |first: &[Column; 4], second: &[Column; 4]| {
            any_odd(std::array::from_fn(|column| {
                self.select(first[column], second[column])
            }))
        };
        let fours = first.as_chunks::<4>().0.iter();
        for (first, second) in fours.zip(second.as_chunks::<4>().0) {
            if odd(first, second) {
                return false;
            }
        }
        if first.len().is_multiple_of(4) {
            return true;
        }
        match (first.last_chunk(), second.last_chunk()) {
            // The last four overlap those before them.
            (Some(first), Some(second)) => !odd(first, second),
            _ => !first
                .iter()
                .zip(second)
                .any(|(&first, &second)| self.select(first, second).count_ones() % 2 == 1),
        }
    }

    /// The selected bits of a column, those of both blocks xored.
    #[inline(always)]
    fn select(&self, first: Column, second: Column) -> u64 {
        u64::from_le_bytes(first) & self.first ^ u64::from_le_bytes(second) & self.second
    }

    /// Asks the processor to fetch what [`answer`](Probe::answer) will read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bytes: &[u8]) {
        let (start, length) = (self.at as usize, 16 * self.columns as usize);
        for line in (start..start + length).step_by(64) {
            waypost_io::mapped::prefetch(bytes, line);
        }
        waypost_io::mapped::prefetch(bytes, (start + length).saturating_sub(1));
    }
}

/// Whether any of four words has an odd number of bits.
#[inline(always)]
fn any_odd(words: [u64; 4]) -> bool {
    // Every step halves the bits whose parity matters; they end up in the highest bit.
    let mut lanes = words.map(|word| (word ^ word >> 32) as u32);
    for shift in [16, 8, 4, 2, 1] {
        lanes = lanes.map(|lane| lane ^ lane << shift);
    }
    lanes.into_iter().fold(0, |all, lane| all | lane) >> 31 == 1
}
