//! A binary fuse filter of one shard: any width from 1 to 16 bits, packed, the same bytes for the
//! same hashes.
//!
//! Every hash has three slots, one in each of three neighbouring segments, and a fingerprint. The
//! slots are filled so that those of a hash that is held, xored, give its fingerprint; those of any
//! other hash do so by chance, once in 2^width. Filling is solving a system of equations by
//! *peeling*: a slot that only one hash has left can be chosen last to make it right, so that hash is
//! taken out, which frees other slots. With about 1.13 slots a hash this nearly always works out; when
//! it does not, another seed is tried. (Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than
//! Xor Filters", 2022.)

pub(crate) mod tight;

use super::bits;
use super::hash::{Hash, high, low, spread};

/// The widest fingerprint.
pub const WIDEST: u8 = 16;

/// Segments have at most 2^18 slots: the two places in a segment come from 18 bits each.
pub(crate) const LARGEST_SEGMENT: u8 = 18;

/// Seeds that are tried at one size before a larger one.
const PATIENCE: u16 = 24;

/// How slots are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// A segment has `1 << segment_log` slots.
    pub(crate) segment_log: u8,
    /// How many segments the first of a hash's slots may be in; there are two more.
    pub(crate) segments: u32,
}

impl Geometry {
    /// What has room for `keys` nearly always, and grows with every `enlarged`.
    fn of(keys: usize, enlarged: u32) -> Geometry {
        if keys == 0 {
            return Geometry {
                segment_log: 0,
                segments: 0,
            };
        }
        let n = keys as f64;
        // Both formulas are from the paper; large segments peel better, small ones waste less.
        let segment_log =
            ((n.ln() / 3.33f64.ln() + 2.25).floor().max(0.0) as u8).min(LARGEST_SEGMENT);
        let factor = (0.875 + 0.25 * 1e6f64.ln() / n.max(2.0).ln()).max(1.125);
        let slots = (n * factor * 1.05f64.powi(enlarged as i32)).ceil();
        let segments = (slots / f64::from(1u32 << segment_log)).ceil() as u32;
        Geometry {
            segment_log,
            segments: segments.saturating_sub(2).max(1),
        }
    }

    /// How many slots there are.
    pub(crate) fn slots(self) -> u64 {
        if self.segments == 0 {
            return 0;
        }
        (u64::from(self.segments) + 2) << self.segment_log
    }

    #[inline]
    fn places(self, mixed: u64) -> [u64; 3] {
        let span = u64::from(self.segments) << self.segment_log;
        places(mixed, span, self.segment_log)
    }
}

/// The three slots of a hash, the first of them among `span`.
#[inline]
fn places(mixed: u64, span: u64, segment_log: u8) -> [u64; 3] {
    let length = 1u64 << segment_log;
    let mask = length - 1;
    let first = spread(mixed, span);
    [
        first,
        (first + length) ^ ((mixed >> 18) & mask),
        (first + 2 * length) ^ (mixed & mask),
    ]
}

/// The slots that a filter of so many hashes has, if the first tries succeed.
pub(crate) fn slots_for(keys: usize) -> u64 {
    Geometry::of(keys, 0).slots()
}

/// The seed of a try.
pub(crate) fn seed(attempt: u16) -> u64 {
    // SplitMix64 of the number of the try.
    let mut z = (u64::from(attempt) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64 bits of a hash under a seed. Both halves go in, so that two hashes that agree here under one
/// seed do not under the next.
#[inline]
fn mix(hash: Hash, seed: u64) -> u64 {
    let product = u128::from(low(hash) ^ seed) * u128::from(high(hash) ^ 0xd6e8_feb8_6659_fd93);
    (product >> 64) as u64 ^ product as u64
}

/// The fingerprint, as wide as it can be.
#[inline]
fn fingerprint(mixed: u64) -> u16 {
    (mixed ^ (mixed >> 32)) as u16
}

/// A shard that was built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) geometry: Geometry,
    /// The seed's number.
    pub(crate) attempt: u16,
}

/// What building needs beside the hashes; used again for shard after shard.
#[derive(Default)]
pub(crate) struct Workshop {
    /// Mixed hashes, in the order of their first slots as far as caches care.
    mixed: Vec<u64>,
    /// For each slot, four times the hashes that have it, and which of their slots it is, xored.
    counts: Vec<u8>,
    /// For each slot, its mixed hashes, xored.
    sums: Vec<u64>,
    /// Slots with one hash left.
    alone: Vec<u32>,
    /// Hashes in the order they were peeled, and which of their slots was the reason.
    peeled: Vec<(u64, u8)>,
    slots: Vec<u16>,
}

/// Bytes of [`Workshop`] for each hash, at most.
pub(crate) const WORKSHOP_PER_HASH: usize = 44;

impl Workshop {
    /// Builds the filter of distinct hashes and appends its slots, packed. `None` only if all seeds
    /// at all sizes fail, which does not happen with distinct hashes.
    pub(crate) fn build(&mut self, hashes: &[Hash], width: u8, out: &mut Vec<u8>) -> Option<Built> {
        for attempt in 0..u16::MAX {
            let geometry = Geometry::of(hashes.len(), u32::from(attempt / PATIENCE));
            if u32::try_from(geometry.slots()).is_err() {
                return None;
            }
            if self.peel(hashes, geometry, seed(attempt)) {
                self.slots.clear();
                self.slots.resize(geometry.slots() as usize, 0);
                self.fill(geometry, width);
                bits::pack(&self.slots, width, out);
                return Some(Built { geometry, attempt });
            }
        }
        None
    }

    /// Whether every hash found a slot.
    fn peel(&mut self, hashes: &[Hash], geometry: Geometry, seed: u64) -> bool {
        let slots = geometry.slots() as usize;
        self.counts.clear();
        self.counts.resize(slots, 0);
        self.sums.clear();
        self.sums.resize(slots, 0);
        self.peeled.clear();
        if hashes.is_empty() {
            return true;
        }
        self.arrange(hashes, seed);
        for &mixed in &self.mixed {
            for (which, place) in geometry.places(mixed).into_iter().enumerate() {
                let place = place as usize;
                // More than 63 hashes in one slot: no such seed is worth going on with.
                let Some(count) = self.counts[place].checked_add(4) else {
                    return false;
                };
                self.counts[place] = count ^ which as u8;
                self.sums[place] ^= mixed;
            }
        }
        self.alone.clear();
        for (place, &count) in self.counts.iter().enumerate() {
            if count >> 2 == 1 {
                self.alone.push(place as u32);
            }
        }
        while let Some(place) = self.alone.pop() {
            let place = place as usize;
            let count = self.counts[place];
            if count >> 2 != 1 {
                continue;
            }
            let mixed = self.sums[place];
            let which = count & 3;
            self.peeled.push((mixed, which));
            for (other, place) in geometry.places(mixed).into_iter().enumerate() {
                let place = place as usize;
                // The slot itself is emptied, too: it may be on the stack twice.
                let count = self.counts[place].wrapping_sub(4) ^ other as u8;
                self.counts[place] = count;
                self.sums[place] ^= mixed;
                if count >> 2 == 1 {
                    self.alone.push(place as u32);
                }
            }
        }
        self.peeled.len() == hashes.len()
    }

    /// Mixes the hashes and puts those together whose slots are near each other.
    fn arrange(&mut self, hashes: &[Hash], seed: u64) {
        const BUCKETS: usize = 256;
        self.mixed.clear();
        if hashes.len() < 1 << 14 {
            self.mixed
                .extend(hashes.iter().map(|&hash| mix(hash, seed)));
            return;
        }
        let bucket = |mixed: u64| (mixed >> 56) as usize;
        let mut starts = [0usize; BUCKETS + 1];
        for &hash in hashes {
            starts[bucket(mix(hash, seed)) + 1] += 1;
        }
        for i in 0..BUCKETS {
            starts[i + 1] += starts[i];
        }
        self.mixed.resize(hashes.len(), 0);
        for &hash in hashes {
            let mixed = mix(hash, seed);
            let place = &mut starts[bucket(mixed)];
            self.mixed[*place] = mixed;
            *place += 1;
        }
    }

    /// Gives the slots their values, the last peeled hash first.
    fn fill(&mut self, geometry: Geometry, width: u8) {
        let mask = bits::mask(width);
        for &(mixed, which) in self.peeled.iter().rev() {
            let places = geometry.places(mixed);
            let own = places[usize::from(which)] as usize;
            // The slot is still zero, so all three can be xored.
            let others = places
                .iter()
                .fold(0, |xored, &place| xored ^ self.slots[place as usize]);
            self.slots[own] = (fingerprint(mixed) ^ others) & mask;
        }
    }
}

/// What a lookup needs to know of a shard: half a cache line, so that those of a large filter stay near.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Place {
    /// The bit where its slots begin.
    start: u64,
    seed: u64,
    /// In how many slots a hash may have its first. None if the shard holds nothing.
    span: u64,
    segment_log: u8,
    width: u8,
}

/// Where to look for a hash, and what must be found there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Probe {
    /// The bits where the slots begin.
    slots: [u64; 3],
    /// What the slots, xored, must be. More than any can be if the shard holds nothing.
    wanted: u32,
    width: u8,
}

impl Place {
    /// Of a shard that begins at byte `start`.
    pub(crate) fn new(geometry: Geometry, attempt: u16, width: u8, start: u64) -> Place {
        Place {
            start: start.saturating_mul(8),
            seed: seed(attempt),
            span: u64::from(geometry.segments) << geometry.segment_log,
            segment_log: geometry.segment_log,
            width,
        }
    }

    /// The same shard, if it is at hand without what stands before it.
    pub(crate) fn alone(self) -> Place {
        Place { start: 0, ..self }
    }

    #[inline(always)]
    pub(crate) fn probe(&self, hash: Hash) -> Probe {
        let mixed = mix(hash, self.seed);
        let slots = places(mixed, self.span, self.segment_log);
        let nothing = u32::from(self.span == 0) << 31;
        Probe {
            slots: slots.map(|slot| self.start + slot * u64::from(self.width)),
            wanted: u32::from(fingerprint(mixed) & bits::mask(self.width)) | nothing,
            width: self.width,
        }
    }
}

impl Probe {
    /// Whether the hash may be held.
    #[inline(always)]
    pub(crate) fn answer(&self, bytes: &[u8]) -> bool {
        // All three are fetched before any is waited for.
        let [a, b, c] = self.slots;
        let xored = if self.width == 8 {
            let byte = |bit: u64| bytes.get((bit >> 3) as usize).copied().unwrap_or(0);
            u16::from(byte(a) ^ byte(b) ^ byte(c))
        } else {
            let slot = |bit| bits::get(bytes, self.width, bit);
            slot(a) ^ slot(b) ^ slot(c)
        };
        u32::from(xored) == self.wanted
    }

    /// Asks the processor to fetch what [`answer`](Probe::answer) will read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bytes: &[u8]) {
        for bit in self.slots {
            waypost_io::mapped::prefetch(bytes, (bit >> 3) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built(hashes: &[Hash], width: u8) -> (Built, Vec<u8>) {
        let mut out = Vec::new();
        let built = Workshop::default().build(hashes, width, &mut out).unwrap();
        assert_eq!(
            out.len(),
            bits::bytes_for(built.geometry.slots(), width).unwrap() as usize
        );
        (built, out)
    }

    pub(super) fn held(built: &Built, width: u8, slots: &[u8], hash: Hash) -> bool {
        Place::new(built.geometry, built.attempt, width, 0)
            .probe(hash)
            .answer(slots)
    }

    pub(super) fn random(count: u64, stream: u64) -> Vec<Hash> {
        let mut hashes: Vec<Hash> = (0..count)
            .map(|i| super::super::Hasher::Public.hash(format!("{stream}:{i}").as_bytes()))
            .collect();
        hashes.sort_unstable();
        hashes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn every_hash_is_found_in_any_set_at_any_width(
            set in proptest::collection::btree_set(any::<u128>(), 0..2000),
            width in 1u8..=16,
        ) {
            let hashes: Vec<Hash> = set.into_iter().collect();
            let (built, slots) = built(&hashes, width);
            for hash in hashes {
                prop_assert!(held(&built, width, &slots, hash));
            }
        }

        #[test]
        fn hashes_that_agree_in_one_half_do_no_harm(
            set in proptest::collection::btree_set(any::<u64>(), 0..500),
            upper in any::<bool>(),
        ) {
            let mut hashes: Vec<Hash> = set
                .into_iter()
                .map(|half| if upper { u128::from(half) << 64 | 7 } else { u128::from(half) | 7 << 64 })
                .collect();
            hashes.sort_unstable();
            let (built, slots) = built(&hashes, 8);
            for hash in hashes {
                prop_assert!(held(&built, 8, &slots, hash));
            }
        }
    }

    #[test]
    fn every_size_up_to_some_thousand_can_be_built() {
        let hashes = random(3000, 1);
        let mut workshop = Workshop::default();
        let mut out = Vec::new();
        for size in 0..hashes.len() {
            out.clear();
            let built = workshop.build(&hashes[..size], 8, &mut out).unwrap();
            assert!(
                hashes[..size]
                    .iter()
                    .all(|&hash| held(&built, 8, &out, hash)),
                "{size}"
            );
        }
    }

    #[test]
    fn a_large_shard_takes_less_than_nine_and_a_tenth_bits_at_width_eight() {
        let hashes = random(1 << 20, 2);
        let (built, slots) = built(&hashes, 8);
        let bits = slots.len() as f64 * 8.0 / hashes.len() as f64;
        assert!(bits < 9.1, "{bits}");
        assert_eq!(built.attempt, 0);
    }

    #[test]
    fn an_empty_shard_holds_nothing() {
        let (built, slots) = built(&[], 8);
        assert!(!held(&built, 8, &slots, 0));
        assert!(slots.is_empty());
    }

    #[test]
    fn false_positives_are_as_rare_as_the_width_promises() {
        let hashes = random(100_000, 3);
        let others = random(400_000, 4);
        for width in 1..=16 {
            let (built, slots) = built(&hashes, width);
            let found = others
                .iter()
                .filter(|&&hash| held(&built, width, &slots, hash))
                .count() as f64;
            let expected = others.len() as f64 / 2f64.powi(i32::from(width));
            let sigma = (expected * (1.0 - 2f64.powi(-i32::from(width)))).sqrt();
            assert!(
                (found - expected).abs() <= 3.0 * sigma,
                "width {width}: {found} for {expected}"
            );
        }
    }

    #[test]
    fn as_good_as_the_filter_of_xorf_at_the_same_size() {
        use xorf::Filter;
        let hashes = random(200_000, 5);
        let others = random(1_000_000, 6);
        let keys: Vec<u64> = hashes.iter().map(|&hash| low(hash)).collect();
        let theirs = xorf::BinaryFuse8::try_from(&keys).unwrap();
        let (built, slots) = built(&hashes, 8);
        assert!(
            hashes
                .iter()
                .all(|&hash| held(&built, 8, &slots, hash) && theirs.contains(&low(hash)))
        );
        assert!(
            slots.len() <= theirs.len() * 101 / 100,
            "{} and {}",
            slots.len(),
            theirs.len()
        );
        let ours = others
            .iter()
            .filter(|&&hash| held(&built, 8, &slots, hash))
            .count() as f64;
        let theirs = others
            .iter()
            .filter(|&&hash| theirs.contains(&low(hash)))
            .count() as f64;
        // Both are counts of the same expectation: their difference has twice the variance.
        let sigma = (2.0 * others.len() as f64 / 256.0).sqrt();
        assert!((ours - theirs).abs() <= 4.0 * sigma, "{ours} and {theirs}");
    }
}
