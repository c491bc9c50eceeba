//! The hash by which a key is found: of any prefix of a text, eight bytes at a time.
//!
//! All keys that may match a lookup are prefixes of it. Whole words go into a state that every longer
//! prefix shares; what is left of the last word is added only to a prefix's own hash.

use waypost_surt::{Key, Reach};

/// Odd numbers without a pattern: parts of the golden ratio and of √2, √3, √5.
const WORD: u64 = 0x9e37_79b9_7f4a_7c15;
const LAST: u64 = 0x6a09_e667_f3bc_c909;
const PATHS: u64 = 0xbb67_ae85_84ca_a73b;
const HOSTS: u64 = 0x3c6e_f372_fe94_f82b;
const ALL: u64 = 0xa54f_f53a_5f1d_36f1;

/// The hashes of a text's prefixes, from short to long.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<'a> {
    text: &'a [u8],
    /// How many bytes the state covers: whole words.
    done: usize,
    state: u64,
}

impl<'a> Prefixes<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Prefixes<'a> {
        Prefixes {
            text,
            done: 0,
            state: LAST,
        }
    }

    /// The hash of the key whose stem is the first `end` bytes. No prefix may be shorter than the one
    /// before.
    #[inline]
    pub(crate) fn key(&mut self, end: usize, reach: Reach) -> u64 {
        while self.done + 8 <= end {
            self.state = mix(self.state ^ word(self.text, self.done), WORD);
            self.done += 8;
        }
        let left = end - self.done;
        let last = match left {
            0 => 0,
            _ => word(self.text, self.done) & (u64::MAX >> (64 - 8 * left)),
        };
        let reach = match reach {
            Reach::Exact => 0,
            Reach::Paths => PATHS,
            Reach::Hosts => HOSTS,
            Reach::All => ALL,
        };
        // The length tells a prefix from one that goes on with zeros.
        let hash = mix(self.state ^ last, WORD ^ end as u64);
        mix(hash ^ reach, LAST)
    }
}

/// The hash of a key.
#[inline]
pub(crate) fn hash_of(key: &Key<'_>) -> u64 {
    let stem = key.stem();
    Prefixes::new(stem).key(stem.len(), key.reach())
}

/// Eight bytes, or what there is, as a little-endian number.
#[inline]
fn word(text: &[u8], at: usize) -> u64 {
    match text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => u64::from_le_bytes(bytes),
        None => {
            let bytes = text.get(at..).unwrap_or_default();
            let last = bytes.iter().rev();
            last.fold(0, |word, &byte| word << 8 | u64::from(byte))
        }
    }
}

/// Both halves of a product, so that every bit depends on all bits.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    // A product of zero forgets what came before.
    ((product >> 64) as u64 ^ product as u64) ^ (a.rotate_left(32))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_prefix_has_the_same_hash_by_itself(text: Vec<u8>, ends in prop::collection::btree_set(0..64usize, 0..8)) {
            let mut prefixes = Prefixes::new(&text);
            for end in ends.into_iter().filter(|end| *end <= text.len()) {
                for reach in [Reach::Exact, Reach::Hosts] {
                    let alone = Prefixes::new(&text[..end]).key(end, reach);
                    prop_assert_eq!(prefixes.key(end, reach), alone);
                }
            }
        }
    }

    #[test]
    fn similar_keys_differ_in_the_home_and_in_the_fingerprint() {
        let (mut homes, mut fingerprints) = (HashSet::new(), HashSet::new());
        let keys = 50_000;
        for n in 0..keys {
            let key = format!("com,example)/{n:05}/page");
            let hash = hash_of(&Key::new(key.as_bytes()));
            homes.insert(hash >> 32);
            fingerprints.insert(hash & 0xff_ffff);
        }
        assert!(homes.len() > keys - 5);
        // By chance, 75 of 50,000 numbers of 24 bits occur before.
        assert!(fingerprints.len() > keys - 150, "{}", fingerprints.len());
        let zeros = [0; 40];
        let all: HashSet<u64> = (0..40)
            .map(|end| Prefixes::new(&zeros).key(end, Reach::Exact))
            .collect();
        assert_eq!(all.len(), 40);
    }
}
