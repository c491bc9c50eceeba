//! Classic Bloom filters as Orestes has them, in the scheme of Los Alamos and Zagreb.
//!
//! Every URL goes into one of 1, 16, 32 or 256 filters by the first digits of its MD5. A filter is
//! an array of bits, of which a URL sets a few. Unlike other filters, these contain URLs as they are
//! spelled, not SURTs, and anyone with Orestes can read them.
//!
//! | file | subject |
//! |---|---|
//! | `hash.rs` | the positions of a URL |
//! | `export.rs` | filters from indexes and lists |
//! | `forms.rs` | the text form and the JSON of Orestes, read and written |
//! | `file.rs` | the file that filters are imported to, memory-mapped |
//! | `spelling.rs`, `summary.rs` | lookups |

mod export;
mod file;
mod forms;
mod hash;
mod spelling;
mod summary;

use std::fmt;

pub(crate) use export::hash_url;
pub use export::{ExportOptions, ExportReport, export};
pub use file::{Array, ClassicFilter, Writer};
pub use forms::{Form, ImportOptions, import};
pub use hash::Method;

use crate::error::{Error, Result};

/// Maximum number of bits of a filter: Orestes counts them with a signed 32-bit number.
pub const MOST_BITS: u64 = i32::MAX as u64;

/// Maximum number of bits that a URL sets.
pub const MOST_HASHES: u32 = 64;

/// How URLs are distributed over filters: by the first bits of their MD5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// All in one.
    One,
    /// By the first hexadecimal digit, as published.
    #[default]
    Sixteen,
    /// By the first digit and the highest bit of the second.
    ThirtyTwo,
    /// By the first two digits.
    All256,
}

impl Split {
    /// All of them.
    pub const ALL: [Split; 4] = [Split::One, Split::Sixteen, Split::ThirtyTwo, Split::All256];

    /// The number of filters.
    pub fn filters(self) -> usize {
        1 << self.bits()
    }

    fn bits(self) -> u32 {
        match self {
            Split::One => 0,
            Split::Sixteen => 4,
            Split::ThirtyTwo => 5,
            Split::All256 => 8,
        }
    }

    /// The split into this many filters.
    ///
    /// # Errors
    /// If it is not 1, 16, 32 or 256.
    pub fn of(filters: usize) -> Result<Split> {
        let mut all = Split::ALL.into_iter();
        all.find(|split| split.filters() == filters)
            .ok_or_else(|| Error::invalid(format!("{filters} filters: 1, 16, 32 or 256 are read")))
    }

    /// The name of a filter: the digits that the MD5 of its URLs starts with. Of 32, two filters
    /// share the first digit; the second is that of the first URL that could be in it.
    pub fn name(self, number: usize) -> String {
        match self {
            Split::One => "all".to_owned(),
            Split::Sixteen => format!("{number:x}"),
            Split::ThirtyTwo => format!("{:02x}", number << 3),
            Split::All256 => format!("{number:02x}"),
        }
    }

    /// The filter of a URL with this MD5.
    #[inline]
    fn filter_of(self, md5: &[u8; 16]) -> usize {
        usize::from(md5[0]) >> (8 - self.bits())
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filters().fmt(f)
    }
}

/// The size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of bits (`m`).
    pub bits: u64,
    /// Number of bits that a URL sets (`k`).
    pub hashes: u32,
}

impl Shape {
    /// The size for this many URLs at a false positive rate. Without `hashes`, the number that takes
    /// the least space.
    ///
    /// # Errors
    /// If Orestes cannot have a filter of that size. It would silently make a smaller one, with more
    /// false positives.
    pub fn for_rate(urls: u64, rate: f64, hashes: Option<u32>) -> Result<Shape> {
        let urls = urls.max(1) as f64;
        let ln2 = std::f64::consts::LN_2;
        let bits = match hashes {
            Some(hashes) => {
                let hashes = f64::from(hashes);
                (-hashes * urls / (1.0 - rate.powf(1.0 / hashes)).ln()).ceil()
            }
            None => (-urls * rate.ln() / (ln2 * ln2)).ceil(),
        };
        // Also false for NaN.
        if !(1.0..=MOST_BITS as f64).contains(&bits) {
            return Err(Error::invalid(format!(
                "a filter of {urls} URLs takes {bits} bits, but Orestes has at most {MOST_BITS}"
            )));
        }
        let hashes = hashes.unwrap_or((ln2 * bits / urls).ceil() as u32);
        Shape {
            bits: bits as u64,
            hashes,
        }
        .checked()
    }

    /// The expected false positive rate with this many URLs: `(1 - e^(-kn/m))^k`.
    pub fn rate(self, urls: u64) -> f64 {
        let hashes = f64::from(self.hashes);
        let load = hashes * urls as f64 / self.bits as f64;
        (1.0 - (-load).exp()).powf(hashes)
    }

    /// The number of bytes of its bits.
    pub fn bytes(self) -> u64 {
        self.bits.div_ceil(8)
    }

    pub(crate) fn checked(self) -> Result<Shape> {
        let Shape { bits, hashes } = self;
        if !(1..=MOST_BITS).contains(&bits) || !(1..=MOST_HASHES).contains(&hashes) {
            return Err(Error::format(format!(
                "a filter of {bits} bits with {hashes} hash functions: up to {MOST_BITS} and \
                 {MOST_HASHES} are possible"
            )));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_published_ones() {
        // 246 MB for 200 million URLs, 1% and five hash functions; 0.66% with 180 million.
        let shape = Shape::for_rate(200_000_000, 0.01, Some(5)).unwrap();
        assert_eq!(shape.bytes() / 100_000, 2_462);
        assert!((shape.rate(180_379_433) - 0.0066).abs() < 0.0001);
        // The file in the published sitemap is base64 of this many bits, and a few bytes more.
        let shape = Shape::for_rate(200_000_000, 0.01, None).unwrap();
        assert_eq!((shape.bits, shape.hashes), (1_917_011_676, 7));
        assert_eq!(shape.bytes().div_ceil(3) * 4 + 69, 319_502_017);
        assert!(Shape::for_rate(300_000_000, 0.01, None).is_err());
        assert!(Shape::for_rate(1, f64::NAN, None).is_err());
    }

    #[test]
    fn filters_are_named_after_digits_of_md5() {
        // md5("a") is 0cc175b9….
        let md5 = hash::md5(b"a");
        let of = |split: Split| split.name(split.filter_of(&md5));
        assert_eq!(
            Split::ALL.map(of),
            ["all", "0", "08", "0c"].map(str::to_owned)
        );
        assert_eq!(Split::Sixteen.name(15), "f");
        assert!(Split::of(17).is_err());
    }
}
