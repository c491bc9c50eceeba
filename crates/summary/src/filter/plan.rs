//! Estimates of the sizes of an archive's filters, now and as it grows.

use super::bloom;
use super::format::Kind;
use super::size::{self, Budget, bloom_size, file_size};
use crate::error::Result;

/// An archive and its requirements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// URI-Rs held now.
    pub uris: u64,
    /// URI-Rs added every year.
    pub growth: u64,
    /// How many years to look ahead.
    pub years: u32,
    /// The false positive rate.
    pub rate: f64,
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Its description.
    pub name: String,
    /// Bytes, for each requested year.
    pub bytes: Vec<u64>,
    /// The false positive rate, for each of them.
    pub rates: Vec<f64>,
}

/// Expected keys in each of the paper's filters.
const PAPERS_KEYS: u64 = 200_000_000;
/// The paper's filters, one for each hexadecimal digit.
const PAPERS_FILTERS: u64 = 16;
/// The paper's hash functions.
const PAPERS_HASHES: i32 = 5;

impl Wish {
    /// Keys after this many years.
    pub fn keys(&self, years: u32) -> u64 {
        self.uris
            .saturating_add(self.growth.saturating_mul(u64::from(years)))
    }

    /// The options, each evaluated after these numbers of years.
    ///
    /// # Errors
    /// If the rate is invalid.
    pub fn ways(&self, years: &[u32]) -> Result<Vec<Way>> {
        let keys: Vec<u64> = years.iter().map(|&year| self.keys(year)).collect();
        let mut ways = Vec::new();
        let width = size::width(Budget::Rate(self.rate), 1)?;
        ways.push(Way {
            name: format!("ribbon, {:.1} bits, rebuilt as it grows", width.bits()),
            bytes: keys
                .iter()
                .map(|&keys| file_size(Kind::Ribbon, keys, width.bits()))
                .collect(),
            rates: vec![width.rate(); keys.len()],
        });
        let blocks = |keys| size::blocks(Budget::Rate(self.rate), keys, 0);
        let rate =
            |blocks, keys: u64| bloom::expected_rate(blocks as f64 * 512.0 / keys.max(1) as f64);
        let anew = keys
            .iter()
            .map(|&keys| Ok((blocks(keys)?, keys)))
            .collect::<Result<Vec<(u64, u64)>>>()?;
        ways.push(Way {
            name: "bloom, rebuilt as it grows".to_owned(),
            bytes: anew.iter().map(|&(blocks, _)| bloom_size(blocks)).collect(),
            rates: anew
                .iter()
                .map(|&(blocks, keys)| rate(blocks, keys))
                .collect(),
        });
        let last = blocks(self.keys(self.years))?;
        ways.push(Way {
            name: format!("bloom, sized for {} years and added to", self.years),
            bytes: vec![bloom_size(last); keys.len()],
            rates: keys.iter().map(|&keys| rate(last, keys)).collect(),
        });
        ways.push(Way {
            name: "hashes, the private master copy".to_owned(),
            bytes: keys
                .iter()
                .map(|&keys| file_size(Kind::Hashes, keys, 0.0))
                .collect(),
            rates: keys
                .iter()
                .map(|&keys| keys as f64 * 0.5f64.powi(128))
                .collect(),
        });
        ways.push(self.papers(&keys));
        ways.push(Way {
            name: "no filter can be smaller than".to_owned(),
            bytes: keys
                .iter()
                .map(|&keys| (keys as f64 * -self.rate.log2() / 8.0).ceil() as u64)
                .collect(),
            rates: vec![self.rate; keys.len()],
        });
        Ok(ways)
    }

    /// The paper's design: 16 Bloom filters of 200 million keys each, with five hash functions,
    /// selected by the first digit of the URI's MD5.
    fn papers(&self, keys: &[u64]) -> Way {
        let each = papers_bits(self.rate);
        Way {
            name: "the paper's 16 filters".to_owned(),
            bytes: vec![PAPERS_FILTERS * each.div_ceil(8); keys.len()],
            rates: keys
                .iter()
                .map(|&keys| {
                    let load = keys as f64 / PAPERS_FILTERS as f64 / each as f64;
                    (1.0 - (-f64::from(PAPERS_HASHES) * load).exp()).powi(PAPERS_HASHES)
                })
                .collect(),
        }
    }
}

/// Bits of one of the paper's filters: what its library allocates for that many keys at a rate with
/// five hash functions.
fn papers_bits(rate: f64) -> u64 {
    let hashes = f64::from(PAPERS_HASHES);
    let fill = rate.powf(1.0 / hashes);
    (hashes * PAPERS_KEYS as f64 / -(1.0 - fill).ln()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_filters_are_as_large_as_it_says() {
        // 246 MB each, 3.8 GB for sixteen (in powers of 1,024, 3.67).
        assert_eq!(papers_bits(0.01) / 8 / 100_000, 2462);
        let wish = Wish {
            uris: 800_000_000,
            growth: 200_000_000,
            years: 10,
            rate: 0.01,
        };
        let ways = wish.ways(&[0, 10]).unwrap();
        let papers = ways
            .iter()
            .find(|way| way.name.starts_with("the paper"))
            .unwrap();
        assert!(
            (3.7e9..4.0e9).contains(&(papers.bytes[0] as f64)),
            "{:?}",
            papers.bytes
        );
        // 50 million keys in each now, 175 million in ten years.
        assert!(
            papers.rates[0] < 1e-4 && papers.rates[1] < 0.01,
            "{:?}",
            papers.rates
        );
        let ribbon = &ways[0];
        assert!(ribbon.bytes[1] < papers.bytes[1] && ribbon.rates[1] <= 0.01);
    }

    #[test]
    fn growth_beyond_all_bounds_does_not_overflow() {
        let wish = Wish {
            uris: u64::MAX,
            growth: u64::MAX,
            years: u32::MAX,
            rate: 0.01,
        };
        assert_eq!(wish.keys(7), u64::MAX);
        assert!(wish.ways(&[0, u32::MAX]).is_ok());
    }
}
