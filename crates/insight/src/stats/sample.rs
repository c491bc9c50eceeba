//! A sample of URI-Rs whose hashes are small, with all of their captures.
//!
//! Whether a URI-R is in the sample depends only on its hash, so all of its captures are counted, and
//! samples of parts of an index merge into the sample of the whole. When the sample gets too large,
//! the limit of the hashes is halved. The sample that remains is the same whatever the order.

use std::collections::HashMap;

use waypost_io::Result;
use waypost_io::partial::{Decoder, Encoder};

/// The most URI-Rs in a sample.
pub(super) const MOST: usize = 1 << 16;
/// The most bytes of a sample, about.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// A URI-R of the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sampled {
    hash: u64,
    pub(super) captures: u64,
    /// The months of its captures, in order.
    pub(super) months: Vec<u32>,
}

/// URI-Rs with small hashes.
#[derive(Debug, Default)]
pub(super) struct UrirSample {
    /// How often the limit was halved.
    level: u32,
    urirs: HashMap<Vec<u8>, Sampled>,
    bytes: usize,
}

impl UrirSample {
    /// An empty sample whose limit was already halved so often.
    pub(super) fn at_level(level: u32) -> UrirSample {
        UrirSample {
            level,
            ..UrirSample::default()
        }
    }

    pub(super) fn level(&self) -> u32 {
        self.level
    }

    pub(super) fn len(&self) -> usize {
        self.urirs.len()
    }

    /// Whether a URI-R with this hash is in the sample.
    #[inline]
    pub(super) fn has_room_for(&self, hash: u64) -> bool {
        hash <= u64::MAX >> self.level
    }

    /// Adds captures of a URI-R.
    pub(super) fn add(&mut self, surt: &[u8], hash: u64, captures: u64, months: &[u32]) {
        if !self.has_room_for(hash) {
            return;
        }
        let sampled = match self.urirs.get_mut(surt) {
            Some(sampled) => sampled,
            None => {
                // The key and the entry of the table, about.
                self.bytes += surt.len() + 96;
                let sampled = self.urirs.entry(surt.to_vec()).or_default();
                sampled.hash = hash;
                sampled
            }
        };
        sampled.captures += captures;
        for month in months {
            if let Err(at) = sampled.months.binary_search(month) {
                sampled.months.insert(at, *month);
                self.bytes += size_of::<u32>();
            }
        }
        self.shrink();
    }

    /// Lowers the limit until the sample is small enough.
    fn shrink(&mut self) {
        while (self.urirs.len() > MOST || self.bytes > MOST_BYTES) && self.level < 63 {
            self.rise(self.level + 1);
        }
    }

    fn rise(&mut self, level: u32) {
        if level <= self.level {
            return;
        }
        self.level = level;
        let mut bytes = 0;
        self.urirs.retain(|surt, sampled| {
            let stays = sampled.hash <= u64::MAX >> level;
            if stays {
                bytes += surt.len() + 96 + sampled.months.len() * size_of::<u32>();
            }
            stays
        });
        self.bytes = bytes;
    }

    /// Adds another sample.
    pub(super) fn merge(&mut self, other: UrirSample) {
        self.rise(other.level);
        for (surt, sampled) in other.urirs {
            self.add(&surt, sampled.hash, sampled.captures, &sampled.months);
        }
    }

    /// The URI-Rs, in order.
    pub(super) fn sorted(self) -> Vec<(Vec<u8>, Sampled)> {
        let mut all: Vec<(Vec<u8>, Sampled)> = self.urirs.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    pub(super) fn encode(&self, out: &mut Encoder) {
        out.number(u64::from(self.level));
        out.number(self.urirs.len() as u64);
        for (surt, sampled) in &self.urirs {
            out.text(surt);
            out.number(sampled.hash);
            out.number(sampled.captures);
            out.number(sampled.months.len() as u64);
            sampled
                .months
                .iter()
                .for_each(|month| out.number(u64::from(*month)));
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<UrirSample> {
        let mut sample = UrirSample::at_level(from.number()?.min(63) as u32);
        for _ in 0..from.count()? {
            let surt = from.text()?;
            let (hash, captures) = (from.number()?, from.number()?);
            let mut months = Vec::new();
            for _ in 0..from.count()? {
                // No timestamp is later than the year 9999.
                months.push(from.number()?.min(119_999) as u32);
            }
            sample.add(surt, hash, captures, &months);
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn a_sample_does_not_depend_on_order_or_pieces() {
        let number = 3 * MOST as u64;
        let mut pieces: Vec<UrirSample> = (0..3).map(|_| UrirSample::default()).collect();
        let mut whole = UrirSample::default();
        for n in 0..number {
            let surt = format!("com,example)/{n}");
            let hash = xxh3_64(surt.as_bytes());
            let months = [24_000 + (n % 3) as u32];
            whole.add(surt.as_bytes(), hash, 1, &months);
            pieces[(n % 3) as usize].add(surt.as_bytes(), hash, 1, &months);
            // Another capture, in another piece.
            whole.add(surt.as_bytes(), hash, 2, &[24_010]);
            pieces[(n * 7 % 3) as usize].add(surt.as_bytes(), hash, 2, &[24_010]);
        }
        let mut merged = UrirSample::at_level(1);
        for piece in pieces.into_iter().rev() {
            let mut out = Encoder::new("sample", 1);
            piece.encode(&mut out);
            let bytes = out.finish();
            let mut from = Decoder::new(&bytes, "sample", 1).unwrap();
            merged.merge(UrirSample::decode(&mut from).unwrap());
        }
        assert_eq!(whole.level(), 2);
        assert_eq!(merged.level(), whole.level());
        let size = whole.len() as f64;
        assert!((size * 4.0 / number as f64 - 1.0).abs() < 0.03, "{size}");
        let (whole, merged) = (whole.sorted(), merged.sorted());
        assert!(whole == merged);
        assert!(whole.iter().all(|(_, sampled)| sampled.captures == 3));
        assert!(whole.iter().all(|(_, sampled)| sampled.months.len() == 2));
    }
}
