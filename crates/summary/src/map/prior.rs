//! How many lookups in vain to expect at places of which no lookup is known.
//!
//! Each place that holds something expects lookups of children that it does not have: more if it has
//! many children, for a place that has many is asked for many others. What a subtree expects is the
//! sum over its places. It must be a sum: any function of a whole subtree that grows more slowly than
//! the subtree would make either everything or nothing roll up.
//!
//! With lookups, what to expect is learned from them: the mean of all places alike (hosts or paths,
//! of the same depth, with about as many children, on sites that are asked for about as much), mixed
//! with what was asked at the place itself. How much a site is asked for is taken from one half of the
//! lookups and what that leads to from the other: else every lookup would explain itself.

use super::tree::Part;

/// Classes of depth, and of children by powers of two.
const DEPTHS: usize = 6;
const SIZES: usize = 16;
const PARTS: usize = 3;

/// Classes of how much a site is asked for; 0 is not known.
pub(crate) const DENSITIES: usize = 8;
const CLASSES: usize = DENSITIES * PARTS * DEPTHS * SIZES;

/// What to expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Lookups in vain below a place with so many children, by class.
    rates: Vec<f64>,
    /// Lookups in vain at a place that is held itself: those with another query.
    here: f64,
    /// How many places' worth of evidence the class has against the place itself.
    strength: f64,
    /// What the means of the half that taught are multiplied with.
    scale: f64,
    /// If it is a power of the children: the rate, the exponent, and the powers of small numbers.
    power: Option<(f64, f64, [f64; SMALL])>,
}

/// Children of which there are seldom more.
const SMALL: usize = 32;

/// How much the mean of places alike counts against what was seen at a place.
const STRENGTH: f64 = 0.3;

/// Without lookups: how many of them to expect at a held place itself for one of a child that it does
/// not have.
const HERE: f64 = 0.1;

/// Half of the lookups teach the means, and all are to be expected.
const SCALE: f64 = 2.0;

/// A class of places.
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

/// The class of a site with so many lookups in vain and so many rows.
pub(crate) fn density(asked: f64, rows: f64) -> u8 {
    if asked <= 0.0 {
        return 1;
    }
    let ratio = asked / rows.max(1.0);
    // From 1/64 on in steps of four.
    let step = ((ratio * 64.0).log2() / 2.0).floor() + 3.0;
    step.clamp(2.0, DENSITIES as f64 - 1.0) as u8
}

impl Default for Prior {
    fn default() -> Prior {
        Prior::power(0.02, 0.5)
    }
}

impl Prior {
    /// `rate · (children + 1)^exponent` at every place.
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

    /// To be learned from lookups: means of places alike, times `scale`, count for `strength`
    /// of what was seen at a place.
    pub fn to_learn(strength: f64, scale: f64) -> Prior {
        Prior {
            rates: Vec::new(),
            here: 0.0,
            strength,
            scale,
            power: None,
        }
    }

    /// Whether it is to be learned.
    pub(crate) fn is_to_learn(&self) -> bool {
        self.power.is_none()
    }

    /// As it is, or learned, if there is something to learn from.
    pub(crate) fn or_learned(given: Option<&Prior>, learning: Option<&Learning>) -> Prior {
        match (given, learning) {
            (Some(prior), Some(learning)) => learning.finish(prior.scale, prior.strength),
            (Some(prior), None) => prior.clone(),
            (None, Some(learning)) => learning.finish(SCALE, STRENGTH),
            (None, None) => Prior::default(),
        }
    }

    /// How many lookups in vain more than the `seen` ones to expect at a place. Less than none where
    /// many were seen: the next sample will have fewer.
    #[inline]
    pub(crate) fn more(&self, class: usize, children: u32, stem: &[u8], seen: f64) -> f64 {
        self.expected(class, children, stem) - (1.0 - self.trust()) * seen
    }

    /// How many lookups in vain to expect at a held place itself, beside those that were seen.
    #[inline]
    pub(crate) fn here(&self) -> f64 {
        self.here
    }

    /// How much a lookup that was seen counts for the next sample.
    #[inline]
    pub(crate) fn trust(&self) -> f64 {
        match self.power {
            Some(_) => 1.0,
            None => 1.0 / (1.0 + self.strength),
        }
    }

    /// How many lookups in vain to expect at a place beside those that were seen there, each of
    /// which counts by [`trust`](Prior::trust).
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
            // A node with one child or none has nothing to save by rolling up.
            if children < 2 {
                return rate * power;
            }
            // Thousands of nodes are similar. A grain of difference lets some of them roll up and
            // others not, so that every budget can be spent.
            return rate * power * (1.0 + 0.01 * grain(stem));
        }
        self.of_class(class)
    }

    /// The same for a node of a class, if it is not a power of its children.
    #[inline]
    pub(crate) fn of_class(&self, class: usize) -> f64 {
        let rate = self.rates.get(class).copied().unwrap_or(0.0);
        rate * (1.0 - self.trust())
    }
}

/// How much of a stem its grain depends on: hashing all of the stem at each of a million nodes on
/// one path would take time quadratic in its length.
const GRAIN_BYTES: usize = 4096;

/// A number from 0 to 1 that is as good as random, but always the same for a stem.
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
    /// Held places, and lookups in vain at themselves.
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
    /// A place and the lookups in vain whose nearest place with holdings it is.
    #[inline]
    pub(crate) fn add(&mut self, class: usize, seen: f64) {
        self.places[class] += 1.0;
        self.seen[class] += seen;
    }

    /// A held place and the lookups in vain at itself.
    #[inline]
    pub(crate) fn add_held(&mut self, seen: f64) {
        self.held += 1.0;
        self.seen_here += seen;
    }

    /// The mean of each class, times the share of the lookups that it was learned from; of small
    /// classes, drawn towards that of all depths.
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
