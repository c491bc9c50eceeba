//! Sizes of filters and numbers of shards.

use super::bloom;
use super::format::{Kind, PADDED_FROM};
use super::ribbon::{self, WIDEST, Width};
use crate::error::{Error, Result};

/// The size or rate requested by the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// At most this false positive rate.
    Rate(f64),
    /// Bits per key: of a row (ribbon, from 1 to 32, without overhead), or in total (Bloom).
    Bits(f64),
    /// At most this many bytes in total.
    Bytes(u64),
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::Rate(1.0 / 256.0)
    }
}

/// Keys in a shard of hashes.
const HASHES_SHARD: u64 = 1 << 16;
/// Blocks in a shard of a Bloom filter: a mebibyte.
pub(crate) const BLOOM_SHARD: u64 = 1 << 14;

/// The number of shards of a file of this many hashes. At least one.
pub(crate) fn shards_of_hashes(hashes: u64) -> u64 {
    (hashes / HASHES_SHARD).max(1)
}

/// The size of a file without metadata and padding, in bytes: exact for hashes and Bloom filters,
/// within a thousandth for ribbon filters.
pub fn file_size(kind: Kind, keys: u64, bits: f64) -> u64 {
    match kind {
        Kind::Ribbon => {
            let width = Width::of_bits(bits.clamp(1.0, WIDEST.into())).unwrap_or(Width::whole(1));
            part_size(keys, width).saturating_add(128)
        }
        Kind::Bloom => bloom_size(bloom::blocks_for(keys, bits)),
        Kind::Hashes => keys
            .saturating_mul(16)
            .saturating_add(128 + shards_of_hashes(keys) * 32),
    }
}

/// The size of a part of a ribbon filter in bytes: all keys of one width, with their table entries.
/// A file has 128 bytes more, however many parts it has.
pub(crate) fn part_size(keys: u64, width: Width) -> u64 {
    ribbon::bytes(keys, width)
        .saturating_add(ribbon::shards(keys, width.columns()).saturating_mul(32))
}

/// The same for a Bloom filter with this many blocks.
pub(crate) fn bloom_size(blocks: u64) -> u64 {
    128 + blocks.div_ceil(BLOOM_SHARD) * 32 + blocks * 64
}

/// The width of rows that a budget allows for this many keys. For a budget of bytes it is
/// approximate: the sizes of shards are not known before they are built.
///
/// # Errors
/// If no width fits.
pub(crate) fn width(budget: Budget, keys: u64) -> Result<Width> {
    match budget {
        Budget::Rate(rate) => {
            check_rate(rate)?;
            Width::of_rate(rate).ok_or_else(|| {
                Error::invalid(format!(
                    "a rate of {rate:e} is too small: a ribbon filter has at most {WIDEST} bits for \
                     each key, which gives {:e}; hashes have no false positives",
                    Width::whole(WIDEST).rate()
                ))
            })
        }
        Budget::Bits(bits) => Width::of_bits(bits).ok_or_else(|| {
            Error::invalid(format!(
                "invalid number of bits {bits}: a ribbon filter has 1 to {WIDEST} for each key"
            ))
        }),
        Budget::Bytes(bytes) => {
            let size = |bits| file_size(Kind::Ribbon, keys, bits);
            let (mut low, mut high) = (1.0, f64::from(WIDEST));
            if size(low) > bytes {
                return Err(Error::invalid(format!(
                    "{keys} keys do not fit in {bytes} bytes: the smallest filter takes {}",
                    size(low)
                )));
            }
            if size(high) <= bytes {
                return Ok(Width::whole(WIDEST));
            }
            for _ in 0..40 {
                let middle = (low + high) / 2.0;
                if size(middle) <= bytes {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            Ok(Width::of_bits(low).unwrap_or(Width::whole(1)))
        }
    }
}

/// The number of blocks that a budget allows for this many keys, in a file with this much metadata.
///
/// # Errors
/// If the budget is invalid.
pub(crate) fn blocks(budget: Budget, keys: u64, metadata: u64) -> Result<u64> {
    Ok(match budget {
        Budget::Rate(rate) => {
            check_rate(rate)?;
            // The actual rate varies by chance around the expected one, by about one part in the
            // root of the number of blocks. Three times that is reserved.
            let blocks = bloom::blocks_for(keys, bloom::bits_for_rate(rate));
            let aside = (3.0 / (blocks as f64).sqrt()).min(0.5);
            bloom::blocks_for(keys, bloom::bits_for_rate(rate * (1.0 - aside)))
        }
        Budget::Bits(bits) => {
            if !(0.1..=2000.0).contains(&bits) {
                return Err(Error::invalid(format!(
                    "{bits} bits for each key make no filter"
                )));
            }
            bloom::blocks_for(keys, bits)
        }
        Budget::Bytes(bytes) => {
            // Each mebibyte of blocks has a table entry of 32 bytes, and a large file is padded.
            let room = bytes.saturating_sub(metadata).saturating_sub(128);
            let most = room / 64;
            let table = most.div_ceil(BLOOM_SHARD) * 32;
            let padding = if bytes >= PADDED_FROM { 63 } else { 0 };
            let blocks = room.saturating_sub(table + padding) / 64;
            if blocks == 0 {
                return Err(Error::invalid(format!(
                    "{bytes} bytes are too few for a filter"
                )));
            }
            blocks
        }
    })
}

fn check_rate(rate: f64) -> Result<()> {
    if rate > 0.0 && rate < 1.0 {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "a rate of false positives lies between 0 and 1 (100%): {rate} does not"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_the_width_that_keeps_it() {
        for (rate, columns, bits) in [
            (0.5, 1, 1.0),
            (0.1, 4, 3.4),
            (0.01, 7, 6.72),
            (0.004, 8, 7.976),
            (1.0 / 256.0, 8, 8.0),
            (0.0039, 9, 8.003_2),
            (0.9, 1, 1.0),
        ] {
            let width = super::width(Budget::Rate(rate), 1).unwrap();
            assert_eq!(width.columns(), columns, "{rate}");
            assert!((width.bits() - bits).abs() < 1e-9, "{rate}: {width:?}");
            assert!(width.rate() <= rate, "{rate}: {width:?}");
        }
        for wrong in [
            Budget::Rate(0.0),
            Budget::Rate(1e-10),
            Budget::Rate(f64::NAN),
            Budget::Bits(0.0),
            Budget::Bits(f64::NAN),
            Budget::Bits(33.0),
            Budget::Bytes(100),
        ] {
            assert!(super::width(wrong, 1000).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_budget_of_bytes_is_kept() {
        for keys in [1_000, 1_000_000, 200_000_000, 10_000_000_000] {
            let bytes = keys * 10 / 8;
            let width = super::width(Budget::Bytes(bytes), keys).unwrap();
            let size = file_size(Kind::Ribbon, keys, width.bits());
            assert!(
                size <= bytes && size + 16 + keys / 2_000 > bytes,
                "{keys}: {size} of {bytes}"
            );
            let blocks = super::blocks(Budget::Bytes(bytes), keys, 100).unwrap();
            let mut before = 228 + blocks.div_ceil(BLOOM_SHARD) * 32;
            if bytes >= PADDED_FROM {
                before = before.next_multiple_of(64);
            }
            let size = before + blocks * 64;
            assert!(
                size <= bytes && size + 300 > bytes,
                "{keys}: {size} of {bytes}"
            );
        }
    }

    #[test]
    fn sizes_beyond_two_to_the_32_are_right() {
        let keys = 10_000_000_000;
        assert_eq!(ribbon::shards(keys, 8), 305_175);
        let size = file_size(Kind::Ribbon, keys, 8.0) as f64;
        assert!((size * 8.0 / keys as f64) < 8.3, "{size}");
        assert_eq!(
            file_size(Kind::Hashes, keys, 0.0),
            128 + 152_587 * 32 + 160_000_000_000
        );
        assert_eq!(
            file_size(Kind::Bloom, keys, 12.0),
            128 + 14_306 * 32 + 15_000_000_000
        );
        assert!(file_size(Kind::Ribbon, u64::MAX, 16.0) > 1 << 60);
    }
}
