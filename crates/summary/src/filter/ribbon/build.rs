//! Building a shard: balancing, banding and back substitution.

use super::bucket::{self, first_row, position};
use super::probe::coefficients;
use super::width::{Width, bytes_of_rows, rate, rows};
use crate::error::{Error, Result};
use crate::filter::hash::Hash;

/// The maximum size of a [`Workshop`] in bytes per hash.
pub(crate) const WORKSHOP_PER_HASH: usize = 10;

/// The result of building a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Built {
    pub(crate) rows: u32,
    /// The number of leading blocks with one column less.
    pub(crate) narrow: u32,
    /// The false positive rate.
    pub(crate) rate: f64,
}

/// How many times free rows are chosen, at most.
const SEEDS: u64 = 8;

/// Buffers for building, reused from shard to shard.
#[derive(Default)]
pub(crate) struct Workshop {
    /// For each row, the coefficients of the equation that starts with it, or zero.
    band: Vec<u64>,
    /// Number of keys in each bucket.
    keys: Vec<u32>,
    /// The first row of each bucket, and the end of the last one.
    starts: Vec<u32>,
}

impl Workshop {
    /// Builds one of `shards` shards from its hashes. Appends its rows to `out` and the stored starts
    /// of its `buckets` buckets to `stored`.
    ///
    /// Hashes may be in any order; sorted ones are faster.
    pub(crate) fn build(
        &mut self,
        hashes: &[Hash],
        (shards, buckets): (u64, u64),
        width: Width,
        out: &mut Vec<u8>,
        stored: &mut Vec<u8>,
    ) -> Result<Built> {
        let columns = width.columns();
        let too_many = || Error::invalid("too many keys for one shard");
        let keys = u32::try_from(hashes.len()).map_err(|_| too_many())?;
        let rows = u32::try_from(rows(keys.into(), columns)).map_err(|_| too_many())?;
        self.keys.clear();
        self.keys.resize(buckets as usize, 0);
        for &hash in hashes {
            let position = position(hash, shards, shards * buckets);
            self.keys[(position.bucket - position.shard * buckets) as usize] += 1;
        }
        let before = stored.len();
        bucket::balance(rows, &self.keys, stored);
        if rows == 0 {
            return Ok(Built::default());
        }
        self.starts.clear();
        bucket::starts(rows, buckets, &stored[before..], &mut self.starts);
        self.band(hashes, (shards, buckets), rows);
        let (narrow, share) = self.narrow(rows, width.narrow());
        let before = out.len();
        let length = bytes_of_rows(rows.into(), columns, narrow.into());
        out.resize(before + length as usize, 0);
        let substitute = match columns {
            1..=4 => substitute::<4>,
            5..=8 => substitute::<8>,
            9..=12 => substitute::<12>,
            13..=16 => substitute::<16>,
            17..=24 => substitute::<24>,
            _ => substitute::<32>,
        };
        // All rows may be zero from some row on, if the few free rows that matter there are. That is
        // one in hundreds of shards at one bit, and unheard of at eight; then others are tried.
        (0..SEEDS).any(|seed| {
            let out = &mut out[before..];
            substitute(&self.band, columns.into(), narrow as usize, seed, out)
        });
        Ok(Built {
            rows,
            narrow,
            rate: rate(columns, share),
        })
    }

    /// Brings the equations of the hashes into echelon form.
    fn band(&mut self, hashes: &[Hash], (shards, buckets): (u64, u64), rows: u32) {
        self.band.clear();
        self.band.resize(rows as usize, 0);
        let existing = match rows {
            64.. => u64::MAX,
            rows => (1 << rows) - 1,
        };
        for &hash in hashes {
            let position = position(hash, shards, shards * buckets);
            let bucket = (position.bucket - position.shard * buckets) as usize;
            let starts = [self.starts[bucket], self.starts[bucket + 1]];
            let row = first_row(starts, position.within, rows);
            insert(&mut self.band, row as usize, coefficients(hash) & existing);
        }
    }

    /// Whether the equation of a hash depends on those of the hashes that were built last.
    #[cfg(test)]
    pub(super) fn depends(&self, hash: Hash, (shards, buckets): (u64, u64)) -> bool {
        let position = position(hash, shards, shards * buckets);
        let bucket = (position.bucket - position.shard * buckets) as usize;
        let starts = [self.starts[bucket], self.starts[bucket + 1]];
        let mut row = first_row(starts, position.within, self.band.len() as u32) as usize;
        let mut equation = coefficients(hash);
        while equation != 0 {
            row += equation.trailing_zeros() as usize;
            equation >>= equation.trailing_zeros();
            if self.band[row] == 0 {
                return false;
            }
            equation ^= self.band[row];
        }
        true
    }

    /// How many blocks can have one column less if at most this share of lookups may start there,
    /// and the actual share.
    fn narrow(&self, rows: u32, share: f64) -> (u32, f64) {
        // Positions in the shard have 32 bits for the bucket and 32 for the position within.
        let buckets = (self.starts.len() - 1) as u64;
        let row = |position: u64| {
            let bucket = (position >> 32) as usize;
            let starts = [self.starts[bucket], self.starts[bucket + 1]];
            first_row(starts, position as u32, rows)
        };
        let all = buckets << 32;
        let wanted = (share * all as f64) as u64;
        let blocks = row(wanted.min(all - 1)) / 64;
        // The first position whose row is no longer in these blocks: rows grow with positions.
        let (mut low, mut high) = (0, wanted.min(all - 1));
        while low < high {
            let middle = low + (high - low) / 2;
            if row(middle) / 64 < blocks {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match blocks {
            0 => (0, 0.0),
            _ => (blocks, low as f64 / all as f64),
        }
    }
}

/// Adds an equation to the band.
#[inline(always)]
fn insert(band: &mut [u64], mut row: usize, mut equation: u64) {
    loop {
        let slot = &mut band[row];
        if *slot == 0 {
            *slot = equation;
            return;
        }
        equation ^= *slot;
        if equation == 0 {
            return;
        }
        let zeros = equation.trailing_zeros();
        equation >>= zeros;
        row += zeros as usize;
    }
}

/// Fills the rows from last to first, `MOST` columns at once, of which the first `columns` count,
/// and one less in the first `narrow` blocks.
///
/// Rows are stored in blocks of 64, column by column. The last block has the remaining rows, in
/// whole bytes.
///
/// Free rows depend on `seed`. Returns whether no column of a block is zero.
fn substitute<const MOST: usize>(
    band: &[u64],
    columns: usize,
    narrow: usize,
    seed: u64,
    out: &mut [u8],
) -> bool {
    let mut sound = true;
    // For each column the last 64 rows that were filled, the most recent one in the lowest bit.
    let mut filled = [0u64; MOST];
    for (number, block) in band.chunks(64).enumerate().rev() {
        for (at, &equation) in block.iter().enumerate().rev() {
            // An equation starts with a one, for the row itself.
            let free = match equation {
                0 => random(seed, number * 64 + at),
                _ => 0,
            };
            for (column, filled) in filled.iter_mut().enumerate() {
                *filled <<= 1;
                let mut parity = *filled & equation;
                parity ^= parity >> 32;
                parity ^= parity >> 16;
                parity ^= parity >> 8;
                parity ^= parity >> 4;
                parity ^= parity >> 2;
                parity ^= parity >> 1;
                *filled |= (parity ^ free >> column) & 1;
            }
        }
        let start = 8 * (number * columns - number.min(narrow));
        let here = columns - usize::from(number < narrow);
        let length = block.len() / 8;
        for (word, out) in filled
            .iter()
            .zip(out[start..].chunks_mut(length).take(here))
        {
            out.copy_from_slice(&word.to_le_bytes()[..length]);
            sound &= *word != 0;
        }
    }
    sound
}

/// Random bits for a free row, which no equation determines.
fn random(seed: u64, row: usize) -> u64 {
    // SplitMix64.
    let mut z = ((seed << 32) + row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
