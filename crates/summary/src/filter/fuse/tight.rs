//! Filters with fewer slots: what peeling leaves is solved.
//!
//! Peeling needs about 1.125 slots a hash if there are millions of them, and more the fewer there are:
//! 1.2 for forty thousand, 1.3 for five thousand. But the equations have solutions long before peeling
//! finds one: three slots a hash are enough as long as there are less than 0.917 hashes a slot, for a
//! few thousand as for millions. So peeling takes out what it can, and what is left is solved by
//! elimination. The slots of a hash lie within three segments: in their order the equations are a
//! narrow band, and an elimination in that order stays within it. Segments are small, so that the two
//! at the ends, where slots are hardly used, are small, too; but no smaller than that two hashes rarely
//! share all three slots. Who reads such a filter sees a geometry like any other.

use super::{Built, Geometry, Workshop, fingerprint, seed};
use crate::filter::bits;
use crate::filter::hash::Hash;

/// Keys in a shard, at least, where there are as many. More would not be denser, and take longer.
const SHARD: u64 = 1 << 18;

/// Larger segments take more time and memory to solve than they save in seeds.
const LARGEST_LOG: u8 = 9;

/// Hashes for each slot, but for the slots at the ends.
const LOAD: f64 = 0.915;

/// Pairs of hashes that share all three slots, as many as may be expected: with one, a seed fails.
const PAIRS: f64 = 0.5;

/// Seeds that are tried at one size before a larger one. Two of three succeed, and of unlucky sizes
/// one of five.
const PATIENCE: u16 = 48;

/// Shards for so many keys. Never none.
pub(crate) fn shards(keys: u64) -> u64 {
    (keys / SHARD).max(1)
}

/// The bytes of all slots for so many keys, if the first tries succeed.
pub(crate) fn bytes(keys: u64, width: u8) -> u64 {
    let shards = shards(keys);
    let slots = Geometry::tight((keys / shards) as usize, 0).slots();
    shards.saturating_mul(bits::bytes_for(slots, width).unwrap_or(u64::MAX / 2))
}

/// Bytes that building takes for each hash, at most.
pub(crate) const WORKSHOP_PER_HASH: usize = super::WORKSHOP_PER_HASH + 240;

impl Geometry {
    /// What has room for `keys` with most seeds, and grows with every `enlarged`.
    fn tight(keys: usize, enlarged: u16) -> Geometry {
        if keys == 0 {
            return Geometry {
                segment_log: 0,
                segments: 0,
            };
        }
        let n = keys as f64;
        let log = (n / (2.0 * PAIRS / LOAD)).sqrt().max(1.0).log2().ceil();
        let segment_log = (log as u8).min(LARGEST_LOG);
        let slots = n / LOAD * 1.02f64.powi(i32::from(enlarged));
        // Half of an end counts.
        let segments = slots / f64::from(1u32 << segment_log) - 0.5;
        Geometry {
            segment_log,
            segments: segments.ceil().max(1.0) as u32 + u32::from(enlarged),
        }
    }
}

impl Workshop {
    /// As [`build`](Workshop::build), in fewer slots.
    pub(crate) fn build_tight(
        &mut self,
        hashes: &[Hash],
        width: u8,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        for attempt in 0..u16::MAX {
            let geometry = Geometry::tight(hashes.len(), attempt / PATIENCE);
            if u32::try_from(geometry.slots()).is_err() {
                return None;
            }
            let rest = match self.peel(hashes, geometry, seed(attempt)) {
                true => Some(Rest::default()),
                false => self.rest(hashes.len(), geometry),
            };
            if let Some(rest) = rest {
                self.slots.clear();
                self.slots.resize(geometry.slots() as usize, 0);
                rest.fill(&mut self.slots, width);
                self.fill(geometry, width);
                bits::pack(&self.slots, width, out);
                return Some(Built { geometry, attempt });
            }
        }
        None
    }

    /// Solves what peeling left of so many hashes. `None` if it has no solution.
    fn rest(&mut self, hashes: usize, geometry: Geometry) -> Option<Rest> {
        // Of what was peeled, one slot is left by all.
        let counts = &self.counts;
        let taken = |place: u64| counts[place as usize] >> 2 > 0;
        self.mixed
            .retain(|&mixed| geometry.places(mixed).into_iter().all(taken));
        if self.mixed.len() + self.peeled.len() != hashes {
            return None;
        }
        self.mixed
            .sort_unstable_by_key(|&mixed| (geometry.places(mixed)[0], mixed));
        let mut rest = Rest::new(geometry);
        for &mixed in &self.mixed {
            if !rest.add(geometry.places(mixed), fingerprint(mixed)) {
                return None;
            }
        }
        Some(rest)
    }
}

/// Equations in echelon form: each has a slot that is the first of no other.
#[derive(Default)]
struct Rest {
    /// Words of 64 slots that an equation can reach over.
    words: usize,
    /// The number of the equation that begins with a slot, from 1.
    first: Vec<u32>,
    /// The slots that are xored, from the word of the first on, and what they must be.
    equations: Vec<u64>,
    wanted: Vec<u16>,
    row: Vec<u64>,
}

impl Rest {
    fn new(geometry: Geometry) -> Rest {
        let words = (3usize << geometry.segment_log) / 64 + 2;
        Rest {
            words,
            first: vec![0; geometry.slots() as usize],
            row: vec![0; words],
            ..Rest::default()
        }
    }

    /// Adds an equation. `false` if it speaks of nothing but what others say already.
    fn add(&mut self, places: [u64; 3], fingerprint: u16) -> bool {
        let Rest { words, row, .. } = self;
        row.fill(0);
        let mut base = places[0] as usize / 64;
        for place in places {
            row[place as usize / 64 - base] |= 1 << (place % 64);
        }
        let mut wanted = fingerprint;
        loop {
            let Some(empty) = row.iter().position(|&word| word != 0) else {
                return false;
            };
            if empty > 0 {
                row.copy_within(empty.., 0);
                row[*words - empty..].fill(0);
                base += empty;
            }
            let first = base * 64 + row[0].trailing_zeros() as usize;
            let number = self.first[first] as usize;
            if number == 0 {
                self.wanted.push(wanted);
                self.first[first] = self.wanted.len() as u32;
                self.equations.extend_from_slice(row);
                return true;
            }
            let other = &self.equations[(number - 1) * *words..number * *words];
            for (word, other) in row.iter_mut().zip(other) {
                *word ^= other;
            }
            wanted ^= self.wanted[number - 1];
        }
    }

    /// Gives slots their values, the last first.
    fn fill(&self, slots: &mut [u16], width: u8) {
        let mask = bits::mask(width);
        for (first, &number) in self.first.iter().enumerate().rev() {
            let Some(number) = (number as usize).checked_sub(1) else {
                continue;
            };
            let equation = &self.equations[number * self.words..(number + 1) * self.words];
            let mut value = self.wanted[number];
            for (at, &word) in (first / 64..).zip(equation) {
                let mut left = word;
                while left != 0 {
                    // The first itself is still zero.
                    value ^= slots[at * 64 + left.trailing_zeros() as usize];
                    left &= left - 1;
                }
            }
            slots[first] = value & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{held, random};
    use super::*;

    #[test]
    fn filters_are_solved_at_every_size_and_few_need_more_slots_than_thought() {
        let hashes = random(520_000, 11);
        let mut workshop = Workshop::default();
        let mut out = Vec::new();
        let (mut thought, mut taken) = (0, 0);
        let sizes = (0..300)
            .chain((300..20_000).step_by(397))
            .chain([70_001, 520_000]);
        for size in sizes {
            let width = 1 + (size % 16) as u8;
            out.clear();
            let built = workshop
                .build_tight(&hashes[..size], width, &mut out)
                .unwrap();
            thought += bytes(size as u64, width);
            taken += out.len() as u64;
            assert!(
                hashes[..size]
                    .iter()
                    .all(|&hash| held(&built, width, &out, hash)),
                "{size}"
            );
            if size > 10_000 {
                let slots = built.geometry.slots() as f64;
                assert!(slots / (size as f64) < 1.13, "{size}: {slots}");
            }
        }
        assert!(
            taken >= thought && taken < thought + thought / 500,
            "{taken} for {thought}"
        );
    }

    #[test]
    fn equations_that_say_nothing_new_have_no_solution() {
        let geometry = Geometry {
            segment_log: 2,
            segments: 1,
        };
        let mut rest = Rest::new(geometry);
        assert!(rest.add([0, 4, 8], 3));
        assert!(rest.add([0, 5, 8], 1));
        assert!(rest.add([1, 4, 8], 2));
        assert!(!rest.add([1, 5, 8], 7));
    }
}
