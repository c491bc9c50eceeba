//! Widths of rows, the rates they give, and the sizes they need.

use super::bucket::{buckets, bytes_of_starts};

/// The maximum width of rows.
pub const WIDEST: u8 = 32;

/// One extra row for this many keys. Half as many are used where rows are narrow. But the fewer there
/// are, the longer banding takes.
const KEYS_PER_SPARE_ROW: u64 = 64;
const KEYS_PER_SPARE_ROW_IF_NARROW: u64 = 128;

/// The number of extra rows of a shard beyond its width: a random equation is less likely to depend
/// on the others than to hold by chance, by this many powers of two.
const MARGIN: u64 = 12;

/// The minimum number of keys in a shard, if there are that many. A shard is built by one thread,
/// fetched by one request and covered by one checksum.
const SHARD: u64 = 1 << 15;
const SHARD_IF_NARROW: u64 = 1 << 16;

/// Whether rows are so narrow that the table of shards and the buckets take a large share.
fn is_narrow(columns: u8) -> bool {
    columns < 3
}

/// The number of shards for this many keys. At least one.
pub(crate) fn shards(keys: u64, columns: u8) -> u64 {
    let each = match is_narrow(columns) {
        true => SHARD_IF_NARROW,
        false => SHARD,
    };
    (keys / each).max(1)
}

/// The number of rows of a shard with this many keys.
pub(super) fn rows(keys: u64, columns: u8) -> u64 {
    if keys == 0 {
        return 0;
    }
    let each = match is_narrow(columns) {
        true => KEYS_PER_SPARE_ROW_IF_NARROW,
        false => KEYS_PER_SPARE_ROW,
    };
    let spare = (keys / each).max(u64::from(columns) + MARGIN);
    // A column ends on a byte boundary.
    (keys + spare).next_multiple_of(8)
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

    /// The share of rows that have one column less.
    pub(super) fn narrow(self) -> f64 {
        self.narrow
    }
}

/// The false positive rate if a share of lookups checks one column less.
pub(super) fn rate(columns: u8, narrow: f64) -> f64 {
    0.5f64.powi(columns.into()) * (1.0 + narrow)
}

/// The size in bytes of this many keys at a width, integer or not, including the starts of buckets
/// and excluding table entries.
///
/// Exact for one shard. For several, which have about the same number of keys each, it is the
/// expected value.
pub fn bytes(keys: u64, width: Width) -> u64 {
    let shards = shards(keys, width.columns);
    let (each, rest) = (keys / shards, keys % shards);
    let starts = bytes_of_starts(buckets(keys, shards, width.columns));
    let bytes = |keys| {
        let rows = rows(keys, width.columns);
        let narrow = (rows as f64 * width.narrow / 64.0) as u64;
        bytes_of_rows(rows, width.columns, narrow) + starts
    };
    (shards - rest)
        .saturating_mul(bytes(each))
        .saturating_add(rest.saturating_mul(bytes(each + 1)))
}
