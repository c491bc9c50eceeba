//! Looking up a hash in a shard.
//!
//! Rows are stored in blocks of 64, column by column, so 64 neighbouring rows lie in two adjacent
//! blocks. A lookup selects some of their bits in every column and checks that their number is even.
//! That is done for up to eight columns at a time.

use super::SPAN;
use super::bucket::{Position, first_row};
use super::processor::{Folded, Parity};
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
    ///
    /// `EIGHT` is for a part with eight columns in all blocks, which is the default. Known to the
    /// compiler, that takes a third less instructions.
    #[inline(always)]
    pub(crate) fn probe<const EIGHT: bool>(
        &self,
        hash: Hash,
        position: Position,
        starts: [u32; 2],
        columns: u8,
    ) -> Probe {
        let row = first_row(starts, position.within, self.rows);
        let (block, shift) = (row / 64, row % 64);
        let (columns, narrow) = match EIGHT {
            true => (8, 0),
            false => (columns, self.narrow),
        };
        let words = u64::from(block) * u64::from(columns) - u64::from(block.min(narrow));
        // Coefficients beyond the last row need not be cleared: rows past the end read as zero.
        let selected = u128::from(coefficients(hash)) << shift;
        Probe {
            at: self.start + 8 * words,
            first: selected as u64,
            second: (selected >> 64) as u64,
            rows: self.rows - row / 64 * 64,
            columns: u32::from(columns) - u32::from(block < narrow),
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
    /// The bytes that [`answer`](Probe::answer) reads. Empty if it needs none.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let rows = u64::from(self.rows.min(2 * SPAN));
        self.at..self.at + rows / 8 * u64::from(self.columns)
    }

    /// The same probe for the bytes of its range alone.
    pub(crate) fn alone(self) -> Probe {
        Probe { at: 0, ..self }
    }

    /// Whether the hash may be held.
    #[inline(always)]
    pub(crate) fn answer<P: Parity>(&self, bytes: &[u8]) -> bool {
        if self.rows < 2 * SPAN {
            return self.at_end(bytes);
        }
        let (start, columns) = (self.at as usize, self.columns as usize);
        let blocks = bytes.get(start..).and_then(|rest| rest.get(..16 * columns));
        let Some(blocks) = blocks else {
            // The table was checked against the length of the file, so this is unreachable.
            return true;
        };
        let (words, _) = blocks.as_chunks::<8>();
        let (first, second) = words.split_at(columns);
        self.is_zero::<P>(first, second)
    }

    /// The last blocks of a shard: one of them may be shorter, or there may be only one.
    #[cold]
    #[inline(never)]
    fn at_end(self, bytes: &[u8]) -> bool {
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
        self.is_zero::<Folded>(first, second)
    }

    /// Whether the XOR of the selected rows of two blocks is zero in all columns.
    ///
    /// Up to eight columns are checked without a branch that depends on them: one that is wrong once
    /// in a while costs more than the columns that it saves.
    #[inline(always)]
    fn is_zero<P: Parity>(&self, first: &[Column], second: &[Column]) -> bool {
        let odd = match first.len() {
            8 => self.any_odd::<P, 8>(first.first_chunk(), second.first_chunk()),
            4 => self.any_odd::<P, 4>(first.first_chunk(), second.first_chunk()),
            ..4 => {
                let mut odd = false;
                for (first, second) in first.iter().zip(second) {
                    odd |= self.any_odd::<P, 1>(Some(&[*first]), Some(&[*second]));
                }
                odd
            }
            // The last columns overlap those before them.
            5..8 => {
                self.any_odd::<P, 4>(first.first_chunk(), second.first_chunk())
                    | self.any_odd::<P, 4>(first.last_chunk(), second.last_chunk())
            }
            _ => {
                let (firsts, seconds) = (first.as_chunks::<8>().0, second.as_chunks::<8>().0);
                for (first, second) in firsts.iter().zip(seconds) {
                    if self.any_odd::<P, 8>(Some(first), Some(second)) {
                        return false;
                    }
                }
                self.any_odd::<P, 8>(first.last_chunk(), second.last_chunk())
            }
        };
        !odd
    }

    /// Whether the XOR of the selected rows is not zero in any of these columns, which are never
    /// `None`.
    #[inline(always)]
    fn any_odd<P: Parity, const N: usize>(
        &self,
        first: Option<&[Column; N]>,
        second: Option<&[Column; N]>,
    ) -> bool {
        let (Some(first), Some(second)) = (first, second) else {
            return false;
        };
        let mut words = [0; N];
        for column in 0..N {
            words[column] = self.select(first[column], second[column]);
        }
        P::any_odd(words)
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
