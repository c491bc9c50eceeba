//! How many lookups in vain to expect at places of which no lookup is known.
//!
//! Each place that holds something expects lookups of children that it does not have: more if it has
//! many children, for a place that has many is asked for many others. What a subtree expects is the
//! sum over its places. It must be a sum: any function of a whole subtree that grows more slowly than
//! the subtree would make either everything or nothing roll up.
//!
//! With lookups, what to expect is learned from them: the mean of all places alike (hosts or paths,
//! of the same depth and about as many children), mixed with what was asked at the place itself.

use super::tree::Part;

/// Classes of depth, and of children by powers of two.
const DEPTHS: usize = 6;
const SIZES: usize = 16;
const PARTS: usize = 3;

/// What to expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Lookups in vain below a place with so many children, by class.
    rates: Vec<f64>,
    /// How many places' worth of evidence the class has against the place itself.
    strength: f64,
}

/// A class of places.
#[inline]
pub(crate) fn class(part: Part, level: u32, children: u32) -> usize {
    let part = match part {
        Part::Root | Part::Host | Part::Port => 0,
        Part::Site => 1,
        _ => 2,
    };
    let depth = (level as usize).min(DEPTHS - 1);
    let size = (u32::BITS - children.leading_zeros()).min(SIZES as u32 - 1) as usize;
    (part * DEPTHS + depth) * SIZES + size
}

impl Default for Prior {
    fn default() -> Prior {
        Prior::power(0.02, 0.7)
    }
}

impl Prior {
    /// `rate · (children + 1)^exponent` at every place.
    pub fn power(rate: f64, exponent: f64) -> Prior {
        let rates = (0..PARTS * DEPTHS * SIZES)
            .map(|class| {
                let size = class % SIZES;
                // The middle of the class.
                let children = if size == 0 { 0.0 } else { 0.75 * 2f64.powi(size as i32) };
                rate * (children + 1.0).powf(exponent)
            })
            .collect();
        Prior { rates, strength: f64::INFINITY }
    }

    /// How many lookups in vain more than the `seen` ones to expect at a place. Less than none where
    /// many were seen: the next sample will have fewer.
    #[inline]
    pub(crate) fn more(&self, class: usize, seen: f64) -> f64 {
        let rate = self.rates.get(class).copied().unwrap_or(0.0);
        if self.strength.is_infinite() {
            rate
        } else {
            (rate - seen) * self.strength / (1.0 + self.strength)
        }
    }
}

/// Counts by class, to learn from.
#[derive(Clone, Debug)]
pub(crate) struct Learning {
    places: Vec<f64>,
    seen: Vec<f64>,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning {
            places: vec![0.0; PARTS * DEPTHS * SIZES],
            seen: vec![0.0; PARTS * DEPTHS * SIZES],
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

    /// The mean of each class; of small ones, drawn towards that of all depths.
    pub(crate) fn finish(&self, strength: f64) -> Prior {
        let mean = |places: f64, seen: f64, towards: f64| (seen + 20.0 * towards) / (places + 20.0);
        let all = mean(self.places.iter().sum(), self.seen.iter().sum(), 0.0);
        let rates = (0..self.places.len())
            .map(|class| {
                let size = class % SIZES;
                let part = class / (DEPTHS * SIZES);
                let alike = (0..DEPTHS).map(|depth| (part * DEPTHS + depth) * SIZES + size);
                let (mut places, mut seen) = (0.0, 0.0);
                for other in alike {
                    places += self.places[other];
                    seen += self.seen[other];
                }
                let towards = mean(places, seen, all);
                mean(self.places[class], self.seen[class], towards)
            })
            .collect();
        Prior { rates, strength }
    }
}
