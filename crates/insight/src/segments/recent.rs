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

/// How many texts are remembered.
const MOST: usize = 1024;

/// A power of two: so many that few texts have the same place.
const PLACES: usize = 4 * MOST;

/// Texts with their numbers. A text is in one of two places, or forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// Which of the texts is in a place. Empty until there is a text.
    places: Vec<u16>,
    /// Side by side, so that all that are frequent fit in the fastest cache.
    texts: Vec<Text>,
    numbers: Vec<u32>,
    /// The text that is forgotten next, if there are as many as possible.
    oldest: usize,
}

/// A text, in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Text(Key);

impl Recent {
    #[inline(always)]
    pub(super) fn get(&self, key: &Key) -> Option<u32> {
        let places = self.places.first_chunk::<PLACES>()?;
        let number_at = |place: usize| {
            let at = usize::from(places[place]);
            let is_here = self
                .texts
                .get(at)
                .is_some_and(|Text(text)| are_equal(text, key));
            is_here.then(|| self.numbers[at])
        };
        let [first, second] = places_of(key);
        number_at(first).or_else(|| number_at(second))
    }

    /// Remembers a text, if need be instead of the oldest.
    #[inline(never)]
    pub(super) fn put(&mut self, key: Key, number: u32) {
        self.places.resize(PLACES, u16::MAX);
        let [place, _] = places_of(&key);
        // A text that is in its place moves to its other one.
        let old = self.places[place];
        if let Some(Text(text)) = self.texts.get(usize::from(old)) {
            let [first, second] = places_of(text);
            let other = if first == place { second } else { first };
            self.places[other] = old;
        }
        let at = if self.texts.len() < MOST {
            self.texts.push(Text(key));
            self.numbers.push(number);
            self.texts.len() - 1
        } else {
            let at = self.oldest;
            self.oldest = (at + 1) % MOST;
            (self.texts[at], self.numbers[at]) = (Text(key), number);
            at
        };
        self.places[place] = at as u16;
    }
}

/// Compares words: a call of `memcmp` would load them with larger vectors than they were just stored
/// with, for which processors have to wait.
#[inline(always)]
fn are_equal(a: &Key, b: &Key) -> bool {
    let pairs = a.iter().zip(b);
    pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// The two places of a text.
#[inline(always)]
fn places_of(key: &Key) -> [usize; 2] {
    let (pairs, _) = key.as_chunks();
    let products = pairs.iter().map(|[a, b]| {
        // Numbers without a pattern, because texts have many NULs.
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xc2b2_ae3d_27d4_eb4f);
        product as u64 ^ (product >> 64) as u64
    });
    let hash = products.fold(0, |hash: u64, product| hash.rotate_left(1) ^ product);
    [hash as usize % PLACES, (hash >> 32) as usize % PLACES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_with_the_same_place_are_all_remembered() {
        let keys = || (0..5_000).map(|number| [number; WORDS]);
        let [place, other] = places_of(&[0; WORDS]);
        let same = keys().filter(|key| places_of(key)[0] == place);
        let mut recent = Recent::default();
        let same: Vec<(Key, u32)> = same.zip(0..).take(2).collect();
        assert!(same.len() == 2 && other != place);
        for (key, number) in &same {
            recent.put(*key, *number);
        }
        for (key, number) in &same {
            assert_eq!(recent.get(key), Some(*number));
        }
    }

    proptest! {
        #[test]
        fn a_number_is_that_of_its_text_or_forgotten(
            texts in prop::collection::vec((0u16..2_000, prop::bool::weighted(0.2)), 1..6_000),
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
