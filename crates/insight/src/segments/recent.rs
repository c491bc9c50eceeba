//! Numbers of texts that were seen recently.
//!
//! Nearly every capture has a media type, a language and a folder that some capture shortly before it
//! had. Their texts have a fixed length here, so that finding them takes neither a loop nor a branch
//! that depends on how long they are, which a processor could not foresee.

/// The length of a text in words, with NULs before it.
pub(super) const WORDS: usize = 8;

/// The most bytes of a text.
pub(super) const LONGEST: usize = 8 * WORDS;

pub(super) type Key = [u64; WORDS];

/// A power of two: how many texts are remembered.
const SLOTS: usize = 1024;

/// Texts with their numbers. A text is in one of two places, or forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// Empty until there is a text.
    slots: Vec<(Key, Option<u32>)>,
}

impl Recent {
    #[inline(always)]
    pub(super) fn get(&self, key: &Key) -> Option<u32> {
        let slots = self.slots.first_chunk::<SLOTS>()?;
        let at = place(key);
        match (&slots[at], &slots[at ^ 1]) {
            ((text, number), _) | (_, (text, number)) if are_equal(text, key) => *number,
            _ => None,
        }
    }

    /// Remembers a text, if need be instead of the older of those that are in its places.
    #[inline(never)]
    pub(super) fn put(&mut self, key: Key, number: u32) {
        self.slots.resize(SLOTS, ([0; WORDS], None));
        let at = place(&key);
        // A text whose own place is the other one must not be lost while this one is free.
        if self.slots[at].1.is_some() {
            self.slots[at ^ 1] = self.slots[at];
        }
        self.slots[at] = (key, Some(number));
    }
}

/// Compares words: a call of `memcmp` would load them with larger vectors than they were just stored
/// with, for which processors have to wait.
#[inline(always)]
fn are_equal(a: &Key, b: &Key) -> bool {
    let pairs = a.iter().zip(b);
    pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// One of the two places of a text.
#[inline(always)]
fn place(key: &Key) -> usize {
    let (pairs, _) = key.as_chunks();
    let products = pairs.iter().map(|[a, b]| {
        // Numbers without a pattern, because texts have many NULs.
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xc2b2_ae3d_27d4_eb4f);
        product as u64 ^ (product >> 64) as u64
    });
    let hash = products.fold(0, |hash: u64, product| hash.rotate_left(1) ^ product);
    hash as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_texts_with_the_same_places_are_both_remembered() {
        let keys: Vec<Key> = (0..5_000).map(|number| [number; WORDS]).collect();
        for other in &keys[1..] {
            if place(other) / 2 == place(&keys[0]) / 2 {
                let mut recent = Recent::default();
                recent.put(keys[0], 1);
                recent.put(*other, 2);
                assert_eq!(recent.get(&keys[0]), Some(1));
                assert_eq!(recent.get(other), Some(2));
            }
        }
    }

    proptest! {
        #[test]
        fn a_number_is_that_of_its_text_or_forgotten(
            texts in prop::collection::vec((0u16..700, prop::bool::weighted(0.2)), 1..2_000),
        ) {
            let mut recent = Recent::default();
            for (text, is_new) in texts {
                let mut key = [0; WORDS];
                key[usize::from(text) % WORDS] = u64::from(text) << 48;
                let found = recent.get(&key);
                prop_assert!(found.is_none_or(|number| number == u32::from(text)));
                if is_new || found.is_none() {
                    recent.put(key, u32::from(text));
                    prop_assert_eq!(recent.get(&key), Some(u32::from(text)));
                }
            }
        }
    }
}
