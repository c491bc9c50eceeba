//! A blocked Bloom filter: blocks of 512 bits, in which a hash sets eight bits, one in each word.
//!
//! All bits of a hash are in one cache line, so a lookup costs one memory access, or one range of
//! 64 bytes over a network. Filters with the same number of blocks can be merged by bitwise or. The
//! drawback is that blocks fill unevenly: that takes a little more space than an unblocked Bloom
//! filter at one false positive in a hundred, and much more below one in two thousand.

use super::hash::{Hash, high, low, spread};

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// Words in a block, and bits set by a hash.
const WORDS: usize = 8;

/// The block of a hash.
#[inline]
pub(crate) fn block_of(hash: Hash, blocks: u64) -> u64 {
    spread(high(hash), blocks)
}

/// The bit of a hash in word `word` of its block.
#[inline]
fn bit(hash: Hash, word: usize) -> u64 {
    1 << ((low(hash) >> (6 * word)) & 63)
}

#[inline]
fn word(block: &[u8; BLOCK], index: usize) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    u64::from_le_bytes(words[index])
}

/// Sets the bits of a hash. Returns whether any of them was not set before.
#[inline]
pub(crate) fn insert(block: &mut [u8; BLOCK], hash: Hash) -> bool {
    let (words, _) = block.as_chunks_mut::<8>();
    let mut new = 0;
    for (index, bytes) in words.iter_mut().enumerate() {
        let (old, bit) = (u64::from_le_bytes(*bytes), bit(hash, index));
        new |= !old & bit;
        *bytes = (old | bit).to_le_bytes();
    }
    new != 0
}

/// Whether all bits of a hash are set.
#[inline]
pub(crate) fn contains(block: &[u8; BLOCK], hash: Hash) -> bool {
    let mut missing = 0;
    for index in 0..WORDS {
        missing |= !word(block, index) & bit(hash, index);
    }
    missing == 0
}

/// The false positive rate given the set bits: the mean over the blocks of the product of the
/// words' densities. `blocks` must be whole blocks.
pub(crate) fn exact_rate(blocks: &[u8]) -> f64 {
    let (blocks, _) = blocks.as_chunks::<BLOCK>();
    let sum: f64 = blocks
        .iter()
        .map(|block| {
            (0..WORDS)
                .map(|index| f64::from(word(block, index).count_ones()) / 64.0)
                .product::<f64>()
        })
        .sum();
    if blocks.is_empty() {
        0.0
    } else {
        sum / blocks.len() as f64
    }
}

/// Number of set bits.
pub(crate) fn ones(blocks: &[u8]) -> u64 {
    let (words, _) = blocks.as_chunks::<8>();
    words
        .iter()
        .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()))
        .sum()
}

/// The most likely number of keys that set this many bits in this many blocks.
pub(crate) fn keys_for(ones: u64, blocks: u64) -> u64 {
    let bits = blocks as f64 * 512.0;
    let unset = 1.0 - ones as f64 / bits;
    if blocks == 0 || ones == 0 {
        return 0;
    }
    // A key sets one of a word's 64 bits; keys are distributed over blocks as a Poisson process, so
    // a bit stays unset with probability exp(-keys/blocks/64).
    let keys = -unset.max(0.5 / bits).ln() * 64.0 * blocks as f64;
    keys.round() as u64
}

/// The expected false positive rate with this many bits per key.
pub fn expected_rate(bits_per_key: f64) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    // The number of keys in a block follows a Poisson distribution. Sum over all relevant terms.
    let mean = 512.0 / bits_per_key;
    let spread = 12.0 * mean.sqrt() + 12.0;
    let from = (mean - spread).max(0.0).floor() as u64;
    let mut sum = 0.0;
    let mut log_factorial: f64 = (1..=from).map(|i| (i as f64).ln()).sum();
    for keys in from..=(mean + spread) as u64 {
        if keys > from {
            log_factorial += (keys as f64).ln();
        }
        let weight = (keys as f64 * mean.ln() - mean - log_factorial).exp();
        let density = 1.0 - (63.0f64 / 64.0).powf(keys as f64);
        sum += weight * density.powi(8);
    }
    sum.min(1.0)
}

/// Bits per key for a false positive rate.
pub fn bits_for_rate(rate: f64) -> f64 {
    let (mut low, mut high) = (0.5, 2000.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if expected_rate(middle) > rate {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The number of blocks for this many keys at this many bits each. At least one, at most 2^57.
pub(crate) fn blocks_for(keys: u64, bits_per_key: f64) -> u64 {
    let blocks = (keys as f64 * bits_per_key / 512.0).ceil();
    (blocks as u64).clamp(1, 1 << 57)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Hasher;
    use proptest::prelude::*;

    fn hash(stream: &str, number: u64) -> Hash {
        Hasher::Public.hash(format!("{stream}{number}").as_bytes())
    }

    fn filled(keys: u64, blocks: u64) -> Vec<u8> {
        let mut bytes = vec![0; blocks as usize * BLOCK];
        for number in 0..keys {
            let hash = hash("in", number);
            let at = block_of(hash, blocks) as usize;
            insert(&mut bytes.as_chunks_mut::<BLOCK>().0[at], hash);
        }
        bytes
    }

    fn present(bytes: &[u8], blocks: u64, hash: Hash) -> bool {
        contains(
            &bytes.as_chunks::<BLOCK>().0[block_of(hash, blocks) as usize],
            hash,
        )
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found(hashes in proptest::collection::vec(any::<u128>(), 0..500), blocks in 1u64..20) {
            let mut bytes = vec![0; blocks as usize * BLOCK];
            for &hash in &hashes {
                insert(&mut bytes.as_chunks_mut::<BLOCK>().0[block_of(hash, blocks) as usize], hash);
            }
            for hash in hashes {
                prop_assert!(present(&bytes, blocks, hash));
            }
        }
    }

    #[test]
    fn rates_are_those_of_theory_and_the_exact_rate_is_that_of_the_bits() {
        let keys = 100_000;
        for (bits, published) in [(10.93, 0.00678), (12.0, 0.0042), (16.0, 0.00091)] {
            let blocks = blocks_for(keys, bits);
            let bytes = filled(keys, blocks);
            let expected = expected_rate(blocks as f64 * 512.0 / keys as f64);
            assert!(
                (expected / published - 1.0).abs() < 0.04,
                "{bits}: {expected}"
            );
            let exact = exact_rate(&bytes);
            assert!(
                (exact / expected - 1.0).abs() < 0.05,
                "{bits}: {exact} for {expected}"
            );
            let tries = 1_000_000;
            let found = (0..tries)
                .filter(|&n| present(&bytes, blocks, hash("out", n)))
                .count() as f64;
            let sigma = (exact * (1.0 - exact) * tries as f64).sqrt();
            assert!(
                (found - exact * tries as f64).abs() <= 3.0 * sigma,
                "{bits}: {found}"
            );
        }
    }

    #[test]
    fn sizes_are_found_from_rates_and_back() {
        for rate in [0.5, 0.0625, 0.01, 0.0066, 0.004, 0.001, 0.00001] {
            let bits = bits_for_rate(rate);
            assert!((expected_rate(bits) / rate - 1.0).abs() < 1e-6, "{rate}");
        }
        // From the table of the state of the art.
        assert!((bits_for_rate(0.01) - 10.10).abs() < 0.02);
        assert!((bits_for_rate(0.0625) - 6.66).abs() < 0.02);
    }

    #[test]
    fn keys_are_estimated_from_bits() {
        let bytes = filled(50_000, 1200);
        let estimate = keys_for(ones(&bytes), 1200) as f64;
        assert!((estimate / 50_000.0 - 1.0).abs() < 0.01, "{estimate}");
        assert_eq!(keys_for(0, 10), 0);
        assert_eq!(keys_for(0, 0), 0);
        assert!(keys_for(512, 1) > 100);
    }

    #[test]
    fn ten_billion_keys_have_blocks_enough() {
        assert_eq!(blocks_for(10_000_000_000, 12.0), 234_375_000);
        assert_eq!(block_of(u128::MAX, 234_375_000), 234_374_999);
        assert_eq!(blocks_for(0, 12.0), 1);
        assert_eq!(blocks_for(u64::MAX, 1e9), 1 << 57);
    }
}
