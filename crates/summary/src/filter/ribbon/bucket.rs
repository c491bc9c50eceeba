//! Which shard, bucket and row a hash starts in.
//!
//! The upper half of a hash, read as a fraction, gives its bucket among those of all shards, and what
//! remains gives its row among those of the bucket. All shards of a filter have the same number of
//! buckets, so that only the last step depends on stored data.
//!
//! A bucket with more keys than others needs more rows. Where buckets start is stored as four bits
//! for each but the first: the difference, in units of eight rows, between the rows of the bucket
//! before it and the mean.

use super::SPAN;
use crate::filter::hash::{Hash, high, spread};

/// Starts are drawn from a range that is longer by this many rows at either end, and then clamped:
/// otherwise fewer equations would reach the first and the last rows.
const OVERHANG: u32 = 16;

/// Starts of buckets are stored in units of this many rows.
const UNIT: i64 = 8;

/// The stored value of a bucket with the mean number of rows.
const MEAN: i64 = 8;

/// The mean number of keys in a bucket. The wider the rows, the rarer false positives should be,
/// and the less the equations may crowd. Smaller buckets need more bytes for their starts.
fn keys_per_bucket(columns: u8) -> u64 {
    match columns {
        ..=10 => 256,
        11..=20 => 128,
        _ => 64,
    }
}

/// The number of buckets in each shard of a filter with this many keys. At least one.
pub(crate) fn buckets(keys: u64, shards: u64, columns: u8) -> u64 {
    keys.div_ceil(shards.saturating_mul(keys_per_bucket(columns)).max(1))
        .max(1)
}

/// The size in bytes of the stored starts of this many buckets.
pub(crate) fn bytes_of_starts(buckets: u64) -> u64 {
    (buckets - 1).div_ceil(2)
}

/// Where a hash belongs.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub(crate) shard: u64,
    /// The bucket among those of all shards.
    pub(crate) bucket: u64,
    /// The position in the bucket, as a fraction of 2^32.
    pub(super) within: u32,
}

/// Where a hash belongs, among this many shards with this many buckets in all.
#[inline(always)]
pub(crate) fn position(hash: Hash, shards: u64, buckets: u64) -> Position {
    let product = u128::from(high(hash)) * u128::from(buckets);
    Position {
        // Also the bucket divided by the buckets in a shard, but that would have to wait.
        shard: spread(high(hash), shards),
        bucket: (product >> 64) as u64,
        within: (product >> 32) as u32,
    }
}

/// The row in which a hash starts, given where its bucket and the next one start.
#[inline(always)]
pub(super) fn first_row([start, next]: [u32; 2], within: u32, rows: u32) -> u32 {
    let length = u64::from(next - start);
    let drawn = start + ((u64::from(within) * length) >> 32) as u32;
    drawn
        .saturating_sub(OVERHANG)
        .min(rows.saturating_sub(SPAN))
}

/// The range from which rows are drawn before they are clamped.
fn range(rows: u32) -> u64 {
    u64::from(rows.saturating_sub(SPAN)) + 1 + 2 * u64::from(OVERHANG)
}

/// Appends the starts of the buckets of a shard, and the end of the last one, to `out`: they never
/// decrease. `stored` has [`bytes_of_starts`] bytes.
pub(crate) fn starts(rows: u32, buckets: u64, stored: &[u8], out: &mut Vec<u32>) {
    let range = range(rows);
    let halves = stored.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let (mut last, mut deviation) = (0, 0);
    out.push(0);
    for (bucket, half) in (1..buckets).zip(halves) {
        deviation += i64::from(half) - MEAN;
        let even = (bucket * range / buckets) as i64;
        let start = even + deviation * UNIT;
        last = start.clamp(last, range as i64);
        out.push(last as u32);
    }
    out.push(range as u32);
}

/// Chooses where buckets with these numbers of keys start, so that each has rows in proportion to
/// its keys. Appends the stored form to `out`.
pub(super) fn balance(rows: u32, keys: &[u32], out: &mut Vec<u8>) {
    let (range, buckets) = (range(rows), keys.len() as u64);
    let all: u64 = keys.iter().map(|&keys| u64::from(keys)).sum();
    let (mut before, mut deviation) = (0, 0);
    let halves = (1..buckets).zip(keys).map(|(bucket, &keys)| {
        before += u64::from(keys);
        let even = (bucket * range / buckets) as i64;
        let wanted = (before * range / all.max(1)) as i64;
        let units = (wanted - even + UNIT / 2).div_euclid(UNIT);
        let half = (units - deviation).clamp(-MEAN, 15 - MEAN);
        deviation += half;
        (half + MEAN) as u8
    });
    let mut high = false;
    for half in halves {
        match out.last_mut() {
            Some(byte) if high => *byte |= half << 4,
            _ => out.push(half),
        }
        high = !high;
    }
}
