//! Expected misses of nodes for which there are no lookups.
//!
//! Each node that holds something expects misses for children that it does not have. A node with
//! many children expects more of them, because people also look for many others there. The
//! expectation of a subtree is the sum over its nodes. It has to be a sum: with any function of a
//! whole subtree that grows more slowly than the subtree, either everything or nothing would roll
//! up.
//!
//! If there are lookups, the expectation is learned from them: it is the mean of all similar nodes
//! (hosts or paths, of the same depth, with about as many children, on sites that are looked up
//! about as often), combined with the misses at the node itself. One half of the lookups determines
//! how often a site is looked up, and the other half what follows from that. Otherwise every lookup
//! would predict itself.

use crate::map::tree::Part;

/// Classes of depth, and of numbers of children by powers of two.
const DEPTHS: usize = 6;
const SIZES: usize = 16;
const PARTS: usize = 3;

/// Classes of how often a site is looked up; 0 is unknown.
pub(crate) const DENSITIES: usize = 8;
const CLASSES: usize = DENSITIES * PARTS * DEPTHS * SIZES;

/// The expected misses of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Misses below a node with this many children, by class.
    rates: Vec<f64>,
    /// Misses at a held node itself, that is, with a different query.
    here: f64,
    /// The weight of the class against the node itself, in nodes.
    strength: f64,
    /// Factor for the means, which are learned from only half of the lookups.
    scale: f64,
    /// If it is a power of the number of children: the rate, the exponent, and precomputed powers.
    power: Option<(f64, f64, [f64; SMALL])>,
}

/// Few nodes have more children than this.
const SMALL: usize = 32;

/// The weight of the mean of similar nodes against the misses seen at a node.
const STRENGTH: f64 = 0.3;

/// Without lookups: expected misses at a held node itself for each expected miss below it.
const HERE: f64 = 0.1;

/// The means are learned from half of the lookups, but all lookups are to be expected.
const SCALE: f64 = 2.0;

/// A class of nodes.
#[inline]
pub(crate) fn class(part: Part, level: u32, children: u32, density: u8) -> usize {
    let part = match part {
        Part::Root | Part::Host | Part::Port => 0,
        Part::Site => 1,
        _ => 2,
    };
    let density = if part == 0 { 0 } else { usize::from(density) };
    let depth = (level as usize).min(DEPTHS - 1);
    let size = (u32::BITS - children.leading_zeros()).min(SIZES as u32 - 1) as usize;
    ((density * PARTS + part) * DEPTHS + depth) * SIZES + size
}

/// The class of a site with this many misses and rows.
pub(crate) fn density(asked: f64, rows: f64) -> u8 {
    if asked <= 0.0 {
        return 1;
    }
    let ratio = asked / rows.max(1.0);
    // From 1/64 in steps of four.
    let step = ((ratio * 64.0).log2() / 2.0).floor() + 3.0;
    step.clamp(2.0, DENSITIES as f64 - 1.0) as u8
}

impl Default for Prior {
    fn default() -> Prior {
        Prior::power(0.02, 0.5)
    }
}

impl Prior {
    /// `rate · (children + 1)^exponent` at every node.
    pub fn power(rate: f64, exponent: f64) -> Prior {
        Prior {
            rates: Vec::new(),
            here: HERE * rate,
            strength: f64::INFINITY,
            scale: 1.0,
            power: Some((
                rate,
                exponent,
                std::array::from_fn(|children| (children as f64 + 1.0).powf(exponent)),
            )),
        }
    }

    /// A prior to be learned from lookups: the means of similar nodes, times `scale`, have the
    /// weight `strength` against the misses seen at a node.
    pub fn to_learn(strength: f64, scale: f64) -> Prior {
        Prior {
            rates: Vec::new(),
            here: 0.0,
            strength,
            scale,
            power: None,
        }
    }

    /// Whether it has to be learned.
    pub(crate) fn is_to_learn(&self) -> bool {
        self.power.is_none()
    }

    /// Learns the prior if it has to be learned and there is something to learn from.
    pub(crate) fn or_learned(given: Option<&Prior>, learning: Option<&Learning>) -> Prior {
        match (given, learning) {
            (Some(prior), Some(learning)) => learning.finish(prior.scale, prior.strength),
            (Some(prior), None) => prior.clone(),
            (None, Some(learning)) => learning.finish(SCALE, STRENGTH),
            (None, None) => Prior::default(),
        }
    }

    /// Expected misses of a node in addition to the `seen` ones. Negative where many were seen: the
    /// next sample will have fewer.
    #[inline]
    pub(crate) fn more(&self, class: usize, children: u32, stem: &[u8], seen: f64) -> f64 {
        self.expected(class, children, stem) - (1.0 - self.trust()) * seen
    }

    /// Expected misses at a held node itself, in addition to those seen.
    #[inline]
    pub(crate) fn here(&self) -> f64 {
        self.here
    }

    /// The weight of a miss that was seen, for the next sample.
    #[inline]
    pub(crate) fn trust(&self) -> f64 {
        match self.power {
            Some(_) => 1.0,
            None => 1.0 / (1.0 + self.strength),
        }
    }

    /// Expected misses of a node in addition to those seen, each of which counts by
    /// [`trust`](Prior::trust).
    #[inline]
    pub(crate) fn expected(&self, class: usize, children: u32, stem: &[u8]) -> f64 {
        if let Some((rate, exponent, powers)) = &self.power {
            if *rate == 0.0 {
                return 0.0;
            }
            let power = match powers.get(children as usize) {
                Some(power) => *power,
                None => f64::from(children + 1).powf(*exponent),
            };
            // A node with at most one child has nothing to save by rolling up.
            if children < 2 {
                return rate * power;
            }
            // Thousands of nodes are similar. A tiny difference lets some of them roll up and
            // others not, so that every budget can be spent.
            return rate * power * (1.0 + 0.01 * grain(stem));
        }
        self.of_class(class)
    }

    /// The same for a node of a class, unless the prior is a power of the number of children.
    #[inline]
    pub(crate) fn of_class(&self, class: usize) -> f64 {
        let rate = self.rates.get(class).copied().unwrap_or(0.0);
        rate * (1.0 - self.trust())
    }
}

/// How many bytes of a stem its grain depends on: hashing the whole stem at each of a million nodes
/// on one path would take time quadratic in its length.
const GRAIN_BYTES: usize = 4096;

/// A pseudorandom number from 0 to 1 that depends only on the stem.
fn grain(stem: &[u8]) -> f64 {
    let tail = &stem[stem.len().saturating_sub(GRAIN_BYTES)..];
    let seed = (stem.len() - tail.len()) as u64;
    (xxhash_rust::xxh3::xxh3_64_with_seed(tail, seed) >> 40) as f64 / (1u64 << 24) as f64
}

/// Counts by class, to learn from.
#[derive(Clone, Debug)]
pub(crate) struct Learning {
    places: Vec<f64>,
    seen: Vec<f64>,
    /// Held nodes, and the misses at these nodes themselves.
    held: f64,
    seen_here: f64,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning {
            places: vec![0.0; CLASSES],
            seen: vec![0.0; CLASSES],
            held: 0.0,
            seen_here: 0.0,
        }
    }
}

impl Learning {
    /// Adds a node and the misses whose nearest node with holdings it is.
    #[inline]
    pub(crate) fn add(&mut self, class: usize, seen: f64) {
        self.places[class] += 1.0;
        self.seen[class] += seen;
    }

    /// Adds what was counted in another piece.
    pub(crate) fn add_all(&mut self, other: &Learning) {
        for (sums, more) in [
            (&mut self.places, &other.places),
            (&mut self.seen, &other.seen),
        ] {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        }
        self.held += other.held;
        self.seen_here += other.seen_here;
    }

    /// Adds a held node and the misses at the node itself.
    #[inline]
    pub(crate) fn add_held(&mut self, seen: f64) {
        self.held += 1.0;
        self.seen_here += seen;
    }

    /// The mean of each class, times the share of the lookups that it was learned from. Means of
    /// small classes are drawn towards that of all depths.
    pub(crate) fn finish(&self, times: f64, strength: f64) -> Prior {
        let mean = |places: f64, seen: f64, towards: f64| (seen + 20.0 * towards) / (places + 20.0);
        let all = mean(self.places.iter().sum(), self.seen.iter().sum(), 0.0);
        let rates = (0..self.places.len())
            .map(|class| {
                let size = class % SIZES;
                let part = class / (DEPTHS * SIZES);
                // Of the same part and density.
                let alike = (0..DEPTHS).map(|depth| (part * DEPTHS + depth) * SIZES + size);
                let (mut places, mut seen) = (0.0, 0.0);
                for other in alike {
                    places += self.places[other];
                    seen += self.seen[other];
                }
                let towards = mean(places, seen, all);
                times * mean(self.places[class], self.seen[class], towards)
            })
            .collect();
        Prior {
            rates,
            here: times * self.seen_here / self.held.max(1.0),
            strength,
            scale: times,
            power: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grain_of_a_long_stem_is_that_of_its_end_and_length() {
        let long = |first: u8, length: usize| {
            let mut stem = vec![b'a'; length];
            stem[0] = first;
            stem
        };
        let (short, beyond) = (GRAIN_BYTES, GRAIN_BYTES + 1);
        assert_ne!(grain(&long(b'a', short)), grain(&long(b'b', short)));
        assert_eq!(grain(&long(b'a', beyond)), grain(&long(b'b', beyond)));
        assert_ne!(grain(&long(b'a', beyond)), grain(&long(b'a', beyond + 1)));
    }
}
