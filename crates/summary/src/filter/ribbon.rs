//! A homogeneous ribbon filter of one shard: any width from 1 to 32 bits, integer or not, and the
//! same bytes for the same hashes in any order.
//!
//! A shard is a table of *rows*, each `width` bits wide. A hash selects some of 128 neighbouring
//! rows, given by a *start* and 128 *coefficients*. The rows are filled so that for every held hash
//! the XOR of its selected rows is zero; for any other hash it is zero by chance, once in 2^width.
//! That is a system of linear equations whose right-hand sides are all zero, so it always has a
//! solution, and building never fails. It is solved in two steps:
//!
//! - *banding* brings the equations into echelon form, one by one. An equation that depends on those
//!   before it is satisfied with them and is left out;
//! - *back substitution* goes through the rows from the last to the first. A row that no equation
//!   begins with is random, any other follows from the rows below it.
//!
//! (Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021; Dillinger,
//! Hübschle-Schneider, Sanders and Walzer, "Fast succinct retrieval and approximate membership using
//! ribbon", 2022.)
//!
//! A width of 7.6 bits means that 60% of the rows have eight columns and the first 40% have seven.
//! A hash is checked in as many columns as the block of its first row has.
//!
//! # How many rows
//!
//! Where there are more equations than 128 rows can absorb, rows are forced to zero, and everything
//! that selects only them is called present. So the rate depends on how far the equations lag
//! behind their starts, which is a random walk: over a whole shard its deviations grow with the
//! root of the number of keys, and a filter that leaves room for them takes 3 to 5% more than
//! necessary.
//!
//! Here, starts are balanced. A shard is divided into *buckets* of up to 1,024 keys by hash, and
//! for each boundary one byte gives its deviation from where it would be if all buckets had the
//! same number of keys. So the walk restarts in every bucket, and one extra row for every 64 keys
//! is more than enough at every width, and for shards of every size. A few more rows than keys are
//! needed in any case, because a random equation depends on the others with a probability of about
//! one in 2^(rows - keys).

use super::hash::{Hash, high, low, spread};
use crate::error::{Error, Result};

/// The maximum width of rows.
pub const WIDEST: u8 = 32;

/// The number of rows that an equation may select.
const SPAN: u32 = 128;

/// The maximum number of keys in a bucket. Smaller buckets would need fewer rows but more bytes for
/// their boundaries.
const BUCKET: u64 = 1024;

/// Bucket boundaries are stored in units of this many rows.
const UNIT: i64 = 8;

/// One extra row for this many keys. Fewer would be enough, and are used where the table of shards
/// weighs more, but the fewer there are, the longer banding takes.
const KEYS_PER_SPARE_ROW: u64 = 64;
const KEYS_PER_SPARE_ROW_IF_NARROW: u64 = 128;

/// The number of extra rows of a shard beyond its width: a random equation is less likely to depend
/// on the others than to hold by chance, by this many powers of two.
const MARGIN: u64 = 12;

/// Starts are drawn from a range that is longer by this many rows at either end, and then clamped:
/// otherwise fewer equations would reach the first and the last rows.
const OVERHANG: u32 = 32;

/// The minimum number of keys in a shard, if there are that many. A shard is built by one thread,
/// fetched by one request and covered by one checksum.
const SHARD: u64 = 1 << 15;

/// The maximum size of a [`Workshop`] in bytes per hash.
pub(crate) const WORKSHOP_PER_HASH: usize = 20;

/// The number of shards for this many keys. At least one.
pub(crate) fn shards(keys: u64) -> u64 {
    (keys / SHARD).max(1)
}

/// The number of rows of a shard with this many keys.
pub(crate) fn rows(keys: u64, width: u8) -> u64 {
    if keys == 0 {
        return 0;
    }
    let each = match width {
        ..3 => KEYS_PER_SPARE_ROW_IF_NARROW,
        _ => KEYS_PER_SPARE_ROW,
    };
    let spare = (keys / each).max(u64::from(width) + MARGIN);
    // A column ends on a byte boundary.
    (keys + spare).next_multiple_of(8)
}

/// The number of bytes for the bucket boundaries of a shard with this many keys.
pub(crate) fn boundaries(keys: u64) -> u64 {
    buckets(keys).saturating_sub(1)
}

fn buckets(keys: u64) -> u64 {
    keys.div_ceil(BUCKET)
}

/// The size in bytes of this many rows, where those of the first `narrow` blocks have one column
/// less.
pub(crate) fn bytes_of_rows(rows: u64, columns: u8, narrow: u64) -> u64 {
    (rows / 8)
        .saturating_mul(u64::from(columns))
        .saturating_sub(8 * narrow)
}

/// The width of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Width {
    /// The columns of the widest rows, from 1 to [`WIDEST`].
    columns: u8,
    /// The share of rows that have one column less.
    narrow: f64,
}

impl Width {
    /// All rows have this many columns.
    pub fn whole(columns: u8) -> Width {
        Width {
            columns: columns.clamp(1, WIDEST),
            narrow: 0.0,
        }
    }

    /// This many columns on average. `None` if that is less than one or more than [`WIDEST`].
    pub fn of_bits(bits: f64) -> Option<Width> {
        (1.0..=f64::from(WIDEST)).contains(&bits).then(|| Width {
            columns: bits.ceil() as u8,
            narrow: bits.ceil() - bits,
        })
    }

    /// The narrowest width with at most this false positive rate. `None` if there is no such width.
    pub fn of_rate(rate: f64) -> Option<Width> {
        if rate >= 0.5 {
            return (rate < 1.0).then_some(Width::whole(1));
        }
        let columns = (-rate.log2()).ceil();
        (columns <= f64::from(WIDEST)).then(|| Width {
            columns: columns as u8,
            narrow: (rate * columns.exp2() - 1.0).clamp(0.0, 1.0),
        })
    }

    /// The columns of the widest rows.
    pub fn columns(self) -> u8 {
        self.columns
    }

    /// The mean number of columns.
    pub fn bits(self) -> f64 {
        f64::from(self.columns) - self.narrow
    }

    /// The false positive rate.
    pub fn rate(self) -> f64 {
        rate(self.columns, self.narrow)
    }
}

/// The false positive rate if a share of lookups checks one column less.
pub(crate) fn rate(columns: u8, narrow: f64) -> f64 {
    0.5f64.powi(columns.into()) * (1.0 + narrow)
}

/// The size in bytes of this many keys at a width, integer or not, including bucket boundaries and
/// excluding table entries.
///
/// Exact for one shard. For several, which have about the same number of keys each, it is the
/// expected value.
pub fn bytes(keys: u64, width: Width) -> u64 {
    let shards = shards(keys);
    let (each, rest) = (keys / shards, keys % shards);
    let bytes = |keys| {
        let rows = rows(keys, width.columns);
        let narrow = (rows as f64 * width.narrow / 64.0) as u64;
        bytes_of_rows(rows, width.columns, narrow) + boundaries(keys)
    };
    (shards - rest)
        .saturating_mul(bytes(each))
        .saturating_add(rest.saturating_mul(bytes(each + 1)))
}

/// The shard of a hash among this many, and its position in the shard as a fraction of 2^64.
#[inline(always)]
pub(crate) fn shard_of(hash: Hash, shards: u64) -> (u64, u64) {
    let product = u128::from(high(hash)) * u128::from(shards);
    ((product >> 64) as u64, product as u64)
}

/// The coefficients of a hash. They depend only on its lower half: the upper half determines the
/// start.
#[inline(always)]
fn coefficients(hash: Hash) -> u128 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let lower = fold(low(hash) ^ 0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93);
    let upper = fold(low(hash) ^ 0xbf58_476d_1ce4_e5b9, 0xa076_1d64_78bd_642f);
    u128::from(upper) << 64 | u128::from(lower) | 1
}

/// Random bits for a free row, which no equation determines.
fn random(row: usize) -> u64 {
    // SplitMix64.
    let mut z = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a lookup needs to know about a shard: half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub(crate) struct Place {
    /// The offset of its rows.
    start: u64,
    /// Number of rows. Zero if the shard is empty.
    rows: u32,
    /// Number of buckets. At least one.
    buckets: u32,
    /// Rows of a bucket if all had the same number, in 256ths.
    step: u32,
    /// The index of its first boundary among those of all shards; this boundary is always 0.
    first: u32,
    /// The number of leading blocks with one column less.
    narrow: u32,
    columns: u8,
}

impl Place {
    /// A shard with this many keys and rows, whose first `narrow` blocks have one column less. It
    /// starts at byte 0, and its boundaries at number 0.
    pub(crate) fn new(keys: u32, rows: u32, columns: u8, narrow: u32) -> Place {
        let buckets = buckets(u64::from(keys)).max(1) as u32;
        let mut place = Place {
            start: 0,
            rows,
            buckets,
            step: 0,
            first: 0,
            narrow,
            columns,
        };
        let step = (place.starts() << 8) / u64::from(buckets);
        // Buckets have at most 1,024 keys: only a hostile file has more rows for each.
        place.step = u32::try_from(step).unwrap_or(u32::MAX);
        place
    }

    /// The same shard with its rows at byte `start` and its boundaries at number `first`.
    pub(crate) fn at(self, start: u64, first: u32) -> Place {
        Place {
            start,
            first,
            ..self
        }
    }

    /// The same shard, loaded without the data before it.
    pub(crate) fn alone(self) -> Place {
        Place { start: 0, ..self }
    }

    /// The range from which starts are drawn before they are clamped.
    #[inline(always)]
    fn starts(&self) -> u64 {
        u64::from(self.rows.saturating_sub(SPAN)) + 1 + 2 * u64::from(OVERHANG)
    }

    /// The start of a bucket in that range.
    #[inline(always)]
    fn boundary(&self, bucket: u64, deviation: i8) -> i64 {
        ((bucket * u64::from(self.step)) >> 8) as i64 + i64::from(deviation) * UNIT
    }

    /// The first row that a hash may select, given its position in the shard.
    #[inline(always)]
    fn first_row(&self, position: u64, deviations: &[i8]) -> u32 {
        let product = u128::from(position) * u128::from(self.buckets);
        let (bucket, within) = ((product >> 64) as u64, product as u64);
        let at = self.first as usize + bucket as usize;
        let &[before, after] = deviations
            .get(at..)
            .and_then(<[i8]>::first_chunk::<2>)
            .unwrap_or(&[0; 2]);
        let begin = self.boundary(bucket, before);
        let length = (self.boundary(bucket + 1, after) - begin).max(0);
        let drawn = begin + spread(within, length as u64) as i64;
        let last = i64::from(self.rows.saturating_sub(SPAN));
        (drawn - i64::from(OVERHANG)).clamp(0, last) as u32
    }

    /// The coefficients of a hash, limited to the number of rows.
    #[inline(always)]
    fn coefficients(&self, hash: Hash) -> u128 {
        let all = coefficients(hash);
        match self.rows {
            SPAN.. => all,
            rows => all & ((1 << rows) - 1),
        }
    }

    /// What to check for a hash, given its position in the shard.
    #[inline(always)]
    pub(crate) fn probe(&self, hash: Hash, position: u64, deviations: &[i8]) -> Probe {
        let row = self.first_row(position, deviations);
        // Those beyond the last row need not be cleared: where there is no row, zeros are read.
        let coefficients = coefficients(hash);
        let (lower, upper) = (coefficients as u64, (coefficients >> 64) as u64);
        let shift = row % 64;
        let carried = |word: u64| (word >> 1) >> (63 - shift);
        Probe {
            start: self.start,
            rows: self.rows,
            block: row / 64,
            narrow: self.narrow,
            masks: Masks {
                first: lower << shift,
                second: upper << shift | carried(lower),
                third: carried(upper),
            },
            columns: self.columns,
        }
    }
}

/// The rows that a hash selects.
#[derive(Clone, Copy, Default)]
pub(crate) struct Probe {
    /// The offset of the rows of the shard.
    start: u64,
    /// Rows of the shard.
    rows: u32,
    /// The block of 64 rows that contains the first of them.
    block: u32,
    /// Which rows of this block and of the next two are selected.
    masks: Masks,
    narrow: u32,
    columns: u8,
}

impl Probe {
    /// Whether the hash may be held.
    #[inline(always)]
    pub(crate) fn answer(&self, bytes: &[u8]) -> bool {
        // Three whole blocks of as many columns each, but near an end of the shard or of its narrow part.
        let columns = self.columns_of(self.block);
        let narrow_ends = self.block < self.narrow && self.narrow <= self.block + 2;
        if self.block + 3 > self.rows / 64 || narrow_ends {
            return self.answer_at_edge(bytes);
        }
        let start = self.byte_of(self.block);
        let Some(blocks) = bytes.get(start..start + 24 * columns) else {
            // Cannot be: the table was checked against the length of the file.
            return true;
        };
        let (words, _) = blocks.as_chunks::<8>();
        let (first, rest) = words.split_at(columns);
        let (second, third) = rest.split_at(columns);
        is_zero(first, second, third, self.masks)
    }

    /// Where the blocks that are read differ, or the last of them has fewer rows.
    #[cold]
    #[inline(never)]
    fn answer_at_edge(&self, bytes: &[u8]) -> bool {
        if self.rows == 0 {
            return false;
        }
        let columns = self.columns_of(self.block);
        let mut blocks = [[[0; 8]; WIDEST as usize]; 3];
        let (whole, rest) = (self.rows / 64, self.rows as usize % 64 / 8);
        for (number, out) in (self.block..=whole).zip(&mut blocks) {
            let length = if number < whole { 8 } else { rest };
            let start = self.byte_of(number);
            for (at, out) in out[..columns].iter_mut().enumerate() {
                let start = start + at * length;
                match bytes.get(start..start + length) {
                    Some(column) => out[..length].copy_from_slice(column),
                    None => return true,
                }
            }
        }
        let [first, second, third] = blocks.each_ref().map(|block| &block[..columns]);
        is_zero(first, second, third, self.masks)
    }

    /// The columns of a block.
    #[inline(always)]
    fn columns_of(&self, block: u32) -> usize {
        usize::from(self.columns) - usize::from(block < self.narrow)
    }

    /// The offset of a block.
    #[inline(always)]
    fn byte_of(&self, block: u32) -> usize {
        let words = u64::from(block) * u64::from(self.columns) - u64::from(block.min(self.narrow));
        (self.start + 8 * words) as usize
    }

    /// Asks the processor to fetch what [`answer`](Probe::answer) will read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bytes: &[u8]) {
        let (start, length) = (self.byte_of(self.block), 24 * usize::from(self.columns));
        for line in (start..start + length).step_by(64) {
            waypost_io::mapped::prefetch(bytes, line);
        }
        waypost_io::mapped::prefetch(bytes, (start + length).saturating_sub(1));
    }
}

/// A column of a block: a bit for each row.
type Column = [u8; 8];

/// Whether the selected rows of three blocks, xored, are zero in all columns.
#[inline(always)]
fn is_zero(first: &[Column], second: &[Column], third: &[Column], masks: Masks) -> bool {
    let four = |first: &[Column; 4], second: &[Column; 4], third: &[Column; 4]| {
        is_odd([
            masks.select(first[0], second[0], third[0]),
            masks.select(first[1], second[1], third[1]),
            masks.select(first[2], second[2], third[2]),
            masks.select(first[3], second[3], third[3]),
        ])
    };
    // A hash that is not held gets no further than the first four columns but once in 16.
    let fours = first.as_chunks::<4>().0.iter();
    let fours = fours.zip(second.as_chunks::<4>().0);
    for ((first, second), third) in fours.zip(third.as_chunks::<4>().0) {
        if four(first, second, third) {
            return false;
        }
    }
    if first.len().is_multiple_of(4) {
        return true;
    }
    // The last four overlap those before them.
    match (first.last_chunk(), second.last_chunk(), third.last_chunk()) {
        (Some(first), Some(second), Some(third)) => !four(first, second, third),
        _ => !first
            .iter()
            .zip(second)
            .zip(third)
            .any(|((first, second), third)| {
                masks.select(*first, *second, *third).count_ones() % 2 == 1
            }),
    }
}

/// Which rows of three blocks are selected.
#[derive(Clone, Copy, Default)]
struct Masks {
    first: u64,
    second: u64,
    third: u64,
}

impl Masks {
    /// The selected bits of a column, those of all blocks xored.
    #[inline(always)]
    fn select(self, first: Column, second: Column, third: Column) -> u64 {
        u64::from_le_bytes(first) & self.first
            ^ u64::from_le_bytes(second) & self.second
            ^ u64::from_le_bytes(third) & self.third
    }
}

/// Whether any of four words has an odd number of bits.
#[inline(always)]
fn is_odd([a, b, c, d]: [u64; 4]) -> bool {
    // Each word is folded to 16 bits, and all four go on together.
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    let folded = |a: u64, b: u64| {
        let both = (a ^ a >> 32) & 0xffff_ffff | (b ^ b << 32) & !0xffff_ffff;
        (both ^ both >> 16) & EVEN
    };
    let mut all = folded(a, b) | folded(c, d) << 16;
    for shift in [8, 4, 2, 1] {
        all ^= all >> shift;
    }
    all & 0x0001_0001_0001_0001 != 0
}

/// The result of building a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Built {
    pub(crate) rows: u32,
    /// The number of leading blocks with one column less.
    pub(crate) narrow: u32,
    /// The false positive rate.
    pub(crate) rate: f64,
}

/// Buffers for building, reused from shard to shard.
#[derive(Default)]
pub(crate) struct Workshop {
    /// For each row, the coefficients of the equation that starts with it, or zero.
    band: Vec<u128>,
    deviations: Vec<i8>,
    /// The first key of each bucket.
    starts: Vec<u64>,
}

impl Workshop {
    /// Builds one of `shards` shards from its hashes. Appends its rows to `rows` and its
    /// boundaries, without the first and the last, to `boundaries`.
    ///
    /// Hashes may be in any order; sorted ones are faster.
    pub(crate) fn build(
        &mut self,
        hashes: &[Hash],
        shards: u64,
        width: Width,
        out: &mut Vec<u8>,
        boundaries: &mut Vec<i8>,
    ) -> Result<Built> {
        if hashes.is_empty() {
            return Ok(Built::default());
        }
        let columns = width.columns;
        let too_many = || Error::invalid("too many keys for one shard");
        let keys = u32::try_from(hashes.len()).map_err(|_| too_many())?;
        let rows = u32::try_from(rows(keys.into(), columns)).map_err(|_| too_many())?;
        let place = Place::new(keys, rows, columns, 0);
        self.balance(&place, hashes, shards);
        boundaries.extend_from_slice(&self.deviations[1..self.deviations.len() - 1]);
        self.band.clear();
        self.band.resize(rows as usize, 0);
        for &hash in hashes {
            let (_, position) = shard_of(hash, shards);
            let row = place.first_row(position, &self.deviations);
            insert(&mut self.band, row as usize, place.coefficients(hash));
        }
        let (narrow, share) = self.narrow(&place, width.narrow);
        let before = out.len();
        out.resize(
            before + bytes_of_rows(rows.into(), columns, narrow.into()) as usize,
            0,
        );
        let substitute = match columns {
            1..=4 => substitute::<4>,
            5..=8 => substitute::<8>,
            9..=12 => substitute::<12>,
            13..=16 => substitute::<16>,
            17..=24 => substitute::<24>,
            _ => substitute::<32>,
        };
        let narrow_blocks = narrow as usize;
        substitute(
            &self.band,
            columns.into(),
            narrow_blocks,
            &mut out[before..],
        );
        Ok(Built {
            rows,
            narrow,
            rate: rate(columns, share),
        })
    }

    /// How many blocks can have one column less if at most this share of lookups may start there,
    /// and the actual share.
    fn narrow(&self, place: &Place, share: f64) -> (u32, f64) {
        const WHOLE: f64 = 18_446_744_073_709_551_616.0;
        let row = |position| place.first_row(position, &self.deviations);
        let blocks = row((share * WHOLE) as u64) / 64;
        // The first position whose row is no longer in these blocks: rows grow with positions.
        let (mut low, mut high) = (0, u64::MAX);
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
            _ => (blocks, low as f64 / WHOLE),
        }
    }

    /// Chooses the boundaries so that all buckets have rows in proportion to their keys.
    fn balance(&mut self, place: &Place, hashes: &[Hash], shards: u64) {
        let buckets = place.buckets as usize;
        self.starts.clear();
        self.starts.resize(buckets + 1, 0);
        for &hash in hashes {
            let bucket = spread(shard_of(hash, shards).1, buckets as u64);
            self.starts[bucket as usize + 1] += 1;
        }
        self.deviations.clear();
        self.deviations.push(0);
        let mut before = 0;
        for bucket in 1..buckets {
            before += self.starts[bucket];
            let even = place.boundary(bucket as u64, 0);
            let wanted = (before * place.starts() / hashes.len() as u64) as i64;
            let units = (wanted - even + UNIT / 2).div_euclid(UNIT);
            self.deviations
                .push(units.clamp(i8::MIN.into(), i8::MAX.into()) as i8);
        }
        self.deviations.push(0);
    }
}

/// Adds an equation to the band.
#[inline(always)]
fn insert(band: &mut [u128], mut row: usize, mut equation: u128) {
    loop {
        let slot = &mut band[row];
        if *slot == 0 {
            *slot = equation;
            return;
        }
        equation ^= *slot;
        let mut lower = equation as u64;
        if lower == 0 {
            if equation == 0 {
                return;
            }
            equation >>= 64;
            lower = equation as u64;
            row += 64;
        }
        let zeros = lower.trailing_zeros();
        // As `equation >>= zeros`, but without the case of 64 and more.
        let upper = (equation >> 64) as u64;
        let carried = (upper << 1) << (63 - zeros);
        equation = u128::from(upper >> zeros) << 64 | u128::from(lower >> zeros | carried);
        row += zeros as usize;
    }
}

/// Fills the rows from last to first, `MOST` columns at once, of which the first `columns` count,
/// and one less in the first `narrow` blocks.
///
/// Rows are stored in blocks of 64, column by column: a lookup reads three contiguous blocks and
/// takes the parity of three words for each column. The last block has the remaining rows, in whole
/// bytes.
fn substitute<const MOST: usize>(band: &[u128], columns: usize, narrow: usize, out: &mut [u8]) {
    // For each column the last 128 rows that were filled, the most recent one in the lowest bit.
    let (mut lower, mut upper) = ([0u64; MOST], [0u64; MOST]);
    for (number, block) in band.chunks(64).enumerate().rev() {
        for (at, &equation) in block.iter().enumerate().rev() {
            let (low, high) = (equation as u64, (equation >> 64) as u64);
            // An equation starts with a one, for the row itself.
            let chosen = if equation == 0 {
                random(number * 64 + at)
            } else {
                0
            };
            for column in 0..MOST {
                upper[column] = upper[column] << 1 | lower[column] >> 63;
                lower[column] <<= 1;
                let mut parity = lower[column] & low ^ upper[column] & high;
                parity ^= parity >> 32;
                parity ^= parity >> 16;
                parity ^= parity >> 8;
                parity ^= parity >> 4;
                parity ^= parity >> 2;
                parity ^= parity >> 1;
                lower[column] |= (parity ^ chosen >> column) & 1;
            }
        }
        let start = 8 * (number * columns - number.min(narrow));
        let here = columns - usize::from(number < narrow);
        let length = block.len() / 8;
        for (word, out) in lower.iter().zip(out[start..].chunks_mut(length).take(here)) {
            out.copy_from_slice(&word.to_le_bytes()[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Hasher;
    use proptest::prelude::*;

    /// A filter of several shards, without a file.
    struct Ribbon {
        shards: Vec<(Place, Vec<u8>, Vec<i8>)>,
        keys: u64,
    }

    impl Ribbon {
        fn new(hashes: &[Hash], shards: u64, width: Width) -> Ribbon {
            let mut workshop = Workshop::default();
            let shard = |number| {
                let own: Vec<Hash> = hashes
                    .iter()
                    .copied()
                    .filter(|&hash| shard_of(hash, shards).0 == number)
                    .collect();
                let (mut rows, mut inner) = (Vec::new(), Vec::new());
                let built = workshop
                    .build(&own, shards, width, &mut rows, &mut inner)
                    .unwrap();
                let (count, narrow) = (built.rows, built.narrow);
                assert_eq!(
                    rows.len() as u64,
                    bytes_of_rows(count.into(), width.columns, narrow.into())
                );
                assert_eq!(inner.len() as u64, boundaries(own.len() as u64));
                assert!(built.rate <= width.rate() * 1.000_001);
                let place = Place::new(own.len() as u32, count, width.columns, narrow);
                (place, rows, [vec![0], inner, vec![0]].concat())
            };
            Ribbon {
                shards: (0..shards).map(shard).collect(),
                keys: hashes.len() as u64,
            }
        }

        fn contains(&self, hash: Hash) -> bool {
            let (shard, position) = shard_of(hash, self.shards.len() as u64);
            let (place, rows, deviations) = &self.shards[shard as usize];
            place.probe(hash, position, deviations).answer(rows)
        }

        /// Bits of payload for each key.
        fn bits_per_key(&self) -> f64 {
            let bytes: usize = self
                .shards
                .iter()
                .map(|(_, rows, deviations)| rows.len() + deviations.len() - 2)
                .sum();
            bytes as f64 * 8.0 / self.keys as f64
        }

        /// How many of `tries` hashes that are not held are called present.
        fn false_positives(&self, tries: u64) -> u64 {
            (0..tries)
                .filter(|&number| self.contains(hash("out", number)))
                .count() as u64
        }
    }

    fn hash(stream: &str, number: u64) -> Hash {
        Hasher::Public.hash(format!("{stream}{number}").as_bytes())
    }

    fn hashes(stream: &str, count: u64) -> Vec<Hash> {
        let mut hashes: Vec<Hash> = (0..count).map(|number| hash(stream, number)).collect();
        hashes.sort_unstable();
        hashes
    }

    fn any_bits() -> impl Strategy<Value = f64> {
        prop_oneof![(1u8..=WIDEST).prop_map(f64::from), 1.0..f64::from(WIDEST)]
    }

    proptest! {
        #[test]
        fn every_hash_that_is_held_is_found(
            hashes in proptest::collection::vec(any::<u128>(), 0..3000),
            repeated in 0usize..100,
            bits in any_bits(),
            shards in 1u64..5,
        ) {
            let mut hashes = hashes;
            hashes.extend_from_within(..repeated.min(hashes.len()));
            let ribbon = Ribbon::new(&hashes, shards, Width::of_bits(bits).unwrap());
            for &hash in &hashes {
                prop_assert!(ribbon.contains(hash));
            }
        }

        /// Hashes that are no good: all in one place, all alike, or alike in one half.
        #[test]
        fn hashes_that_crowd_are_found(
            first in any::<u128>(),
            step in prop_oneof![Just(0u128), Just(1), Just(1 << 64), Just(1 << 100), any::<u128>()],
            count in 1u128..3000,
            bits in any_bits(),
        ) {
            let hashes: Vec<Hash> = (0..count)
                .map(|number| first.wrapping_add(step.wrapping_mul(number)))
                .collect();
            let ribbon = Ribbon::new(&hashes, 1, Width::of_bits(bits).unwrap());
            for &hash in &hashes {
                prop_assert!(ribbon.contains(hash));
            }
        }

        #[test]
        fn the_order_of_hashes_does_not_matter(
            count in 0u64..3000,
            bits in any_bits(),
            rotate in 0usize..3000,
        ) {
            let mut hashes = hashes("in", count);
            let width = Width::of_bits(bits).unwrap();
            let sorted = Ribbon::new(&hashes, 1, width);
            hashes.rotate_left(rotate.min(count as usize));
            hashes.reverse();
            let turned = Ribbon::new(&hashes, 1, width);
            prop_assert_eq!(&sorted.shards[0].1, &turned.shards[0].1);
            prop_assert_eq!(&sorted.shards[0].2, &turned.shards[0].2);
        }
    }

    #[test]
    fn nothing_is_held_where_nothing_was_inserted() {
        for width in [1, 8, 32] {
            let ribbon = Ribbon::new(&[], 3, Width::whole(width));
            assert_eq!(ribbon.false_positives(1000), 0);
        }
    }

    /// For each number of keys, many filters: what is rare in one shows in the sum.
    #[test]
    fn the_rate_is_two_to_the_minus_width_at_every_size() {
        for (keys, filters) in [
            (1, 300),
            (20, 300),
            (200, 100),
            (1000, 40),
            (1030, 40),
            (5000, 8),
            (40_000, 2),
        ] {
            for bits in [1.0, 1.3, 3.0, 4.0, 5.7, 7.0, 8.0, 11.0] {
                let width = Width::of_bits(bits).unwrap();
                let (mut found, mut tried) = (0, 0);
                for filter in 0..filters {
                    let held = hashes(&format!("in {filter} "), keys);
                    let tries = 200_000 / filters;
                    found += Ribbon::new(&held, 1, width).false_positives(tries);
                    tried += tries;
                }
                // Few rows cannot be cut finely: then more of them are wide.
                let blocks = keys as f64 / 64.0;
                let least = tried as f64 * rate(width.columns, width.narrow - 3.0 / blocks);
                let most = tried as f64 * width.rate();
                let deviations = match found as f64 {
                    found if width.narrow > 0.0 && found < most => {
                        ((found - least) / least.max(1.0).sqrt()).min(0.0)
                    }
                    found => (found - most) / most.sqrt(),
                };
                assert!(
                    deviations.abs() < 4.5,
                    "{keys} keys, {bits} bits: {deviations}"
                );
            }
        }
    }

    /// A random equation that depends on those of the keys is a false positive at any width: wide rows
    /// show how many there are.
    #[test]
    fn hardly_any_equation_depends_on_the_others() {
        for (keys, filters) in [(1000, 100), (4000, 25), (33_000, 3), (65_000, 1)] {
            let found: u64 = (0..filters)
                .map(|filter| {
                    let held = hashes(&format!("in {filter} "), keys);
                    Ribbon::new(&held, 1, Width::whole(20)).false_positives(1_000_000 / filters)
                })
                .sum();
            // One is expected by chance.
            assert!(found <= 8, "{keys} keys: {found}");
        }
    }

    #[test]
    fn sizes_are_within_four_percent_of_the_limit() {
        for columns in 1..=WIDEST {
            let width = Width::whole(columns);
            let over = |bits: f64| bits / f64::from(columns);
            for keys in [1000, 1500, 5000, 20_000, 40_000] {
                let bits = Ribbon::new(&hashes("in", keys), 1, width).bits_per_key();
                assert_eq!(bits, bytes(keys, width) as f64 * 8.0 / keys as f64);
                // Wide rows need some more, which matters if they are few.
                if columns <= 20 || keys > 1000 {
                    assert!(over(bits) < 1.0375, "{keys} keys, {columns} bits: {bits}");
                }
            }
            // With head and table, which large filters are not excused from.
            for keys in [100_000u64, 1_000_000, 180_000_000, 10_000_000_000] {
                let bytes =
                    crate::filter::file_size(crate::filter::Kind::Ribbon, keys, columns.into());
                let bits = bytes as f64 * 8.0 / keys as f64;
                assert!(over(bits) < 1.0375, "{keys} keys, {columns} bits: {bits}");
            }
        }
    }

    #[test]
    fn widths_in_between_cost_little_more_than_their_rates() {
        let keys = 40_000;
        for rate in [
            0.9,
            0.5,
            0.3,
            0.1,
            0.01,
            0.0066,
            0.0039,
            1.0 / 256.0,
            0.001,
            1e-9,
        ] {
            let width = Width::of_rate(rate).unwrap();
            assert!(width.rate() <= rate * 1.000_001, "{rate}");
            let bits = bytes(keys, width) as f64 * 8.0 / keys as f64;
            let limit = -rate.min(0.5).log2();
            // A mixture of two widths is not quite as good as one in between would be.
            assert!(bits < 1.03 * limit + 0.09, "{rate}: {bits} bits");
        }
        assert_eq!(Width::of_rate(1.0 / 256.0), Some(Width::whole(8)));
        assert_eq!(Width::of_rate(1e-10), None);
        assert_eq!(Width::of_bits(0.5), None);
        assert_eq!(Width::of_bits(32.5), None);
    }

    #[test]
    fn sizes_beyond_32_bits_are_counted() {
        assert!(bytes(10_000_000_000, Width::whole(9)) > 11_250_000_000);
        assert!(bytes(u64::MAX / 64, Width::whole(32)) > 1 << 58);
        assert_eq!(bytes(0, Width::whole(9)), 0);
    }
}
