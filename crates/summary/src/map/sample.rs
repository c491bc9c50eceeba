//! A sample of lookups: which places were asked for, how often, and how often in vain.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, Ordering};

use waypost_surt::Surt;

use super::pass::place_of;

/// What was asked of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// Lookups in vain, those that teach.
    pub absent: f64,
    /// Lookups in vain that were set aside to judge voids by.
    pub aside: f64,
    /// Whether it was in vain is known. If not, what the map holds at the place decides.
    pub labelled: bool,
}

/// Lookups by place, in order.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    bytes: Vec<u8>,
    entries: Vec<(usize, usize, Asked)>,
    lookups: u64,
}

impl Sample {
    /// The places that were asked for, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Asked)> {
        self.entries
            .iter()
            .map(|(start, end, asked)| (&self.bytes[*start..*end], asked))
    }

    /// How many lookups were taken in.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Lookups that are being gathered and labelled.
#[derive(Debug, Default)]
pub struct Gathering {
    /// Whole SURTs, one behind the other.
    bytes: Vec<u8>,
    surts: Vec<(usize, usize)>,
    times: Vec<u32>,
    held: Vec<AtomicBool>,
    by_hash: std::collections::HashMap<u64, u32, Same>,
    labelled: bool,
}

/// Keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Same;

impl std::hash::BuildHasher for Same {
    type Hasher = SameHasher;

    fn build_hasher(&self) -> SameHasher {
        SameHasher(0)
    }
}

struct SameHasher(u64);

impl Hasher for SameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

impl Gathering {
    /// Takes in a lookup.
    pub fn add(&mut self, surt: &[u8]) {
        let hash = hash(surt);
        if let Some(&at) = self.by_hash.get(&hash) {
            self.times[at as usize] = self.times[at as usize].saturating_add(1);
            return;
        }
        let Ok(at) = u32::try_from(self.surts.len()) else {
            return;
        };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(surt);
        self.surts.push((start, self.bytes.len()));
        self.times.push(1);
        self.held.push(AtomicBool::new(false));
        self.by_hash.insert(hash, at);
    }

    /// From now on, what is not [held](Gathering::hold) was asked for in vain.
    pub fn label(&mut self) {
        self.labelled = true;
    }

    /// A URI-R that is held, by its whole SURT.
    #[inline]
    pub fn hold(&self, surt: &[u8]) {
        if let Some(&at) = self.by_hash.get(&hash(surt)) {
            self.held[at as usize].store(true, Ordering::Relaxed);
        }
    }

    /// The places. `aside` sets a half aside, chosen by a hash.
    pub fn finish(self, aside: bool) -> Sample {
        let mut order: Vec<(Vec<u8>, f64, f64)> = Vec::with_capacity(self.surts.len());
        let mut lookups = 0;
        for (at, &(start, end)) in self.surts.iter().enumerate() {
            let surt = &self.bytes[start..end];
            lookups += u64::from(self.times[at]);
            let mut key = Vec::with_capacity(surt.len() + 1);
            place_of(&Surt::new(surt), &mut key);
            // That somebody asks again and again says less than that many ask once.
            let weight = 1.0 + f64::from(self.times[at]).ln();
            let weight = if self.held[at].load(Ordering::Relaxed) { 0.0 } else { weight };
            // Not the bits that a user may have split the lookups by.
            let to_judge = aside && hash(surt).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
            order.push(if to_judge { (key, 0.0, weight) } else { (key, weight, 0.0) });
        }
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)));
        let mut sample = Sample { lookups, ..Sample::default() };
        for (key, absent, aside) in order {
            if let Some((start, end, asked)) = sample.entries.last_mut()
                && sample.bytes[*start..*end] == key[..]
            {
                asked.absent += absent;
                asked.aside += aside;
                continue;
            }
            let start = sample.bytes.len();
            sample.bytes.extend_from_slice(&key);
            let asked = Asked { absent, aside, labelled: self.labelled };
            sample.entries.push((start, sample.bytes.len(), asked));
        }
        sample
    }
}
