//! Maps that were found at some prices, to answer for the prices between them.
//!
//! The least cost is a concave function of the price, made of straight pieces: one for each map that
//! is best at some price. So a map that is best at two prices is best between them. And at the price
//! where the lines of two maps meet, a third map is better if any is best between them. A search
//! that closes in on such a price needs no more solutions.

use super::solver::Value;
use crate::error::Result;

/// The maps found so far, by price, in a search for the largest map of a size.
#[derive(Debug)]
pub(crate) struct Hull {
    allowed: f64,
    found: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    lambda: f64,
    value: Value,
    /// The price up to which this map is best, if the next map is best from there on.
    until: Option<f64>,
}

/// The least share of misses in a cost from which their number is known precisely enough.
const PRECISE: f64 = 1e-4;

/// How far beyond the first two prices to look.
const AHEAD: f64 = 1e9;

/// The maximum number of maps to try between two.
const CLOSING: usize = 24;

impl Hull {
    /// No maps yet. `allowed` is the size that is searched for.
    pub(crate) fn new(allowed: f64) -> Hull {
        Hull {
            allowed,
            found: Vec::new(),
        }
    }

    /// The size of the best map at a price. `solve` finds the best map; its cost has to be its size
    /// plus the price for every miss.
    pub(crate) fn size(
        &mut self,
        lambda: f64,
        mut solve: impl FnMut(f64) -> Result<Value>,
    ) -> Result<f64> {
        let at = self.found.partition_point(|found| found.lambda < lambda);
        if let Some(size) = self.known(at, lambda) {
            return Ok(size);
        }
        if self.found.len() == 1 && at == 1 {
            // Searches start at the smallest price, whose map is often best far beyond it.
            let ahead = lambda * AHEAD;
            let value = solve(ahead)?;
            self.insert(1, ahead, value);
            if let Some(size) = self.known(at, lambda) {
                return Ok(size);
            }
        }
        let value = solve(lambda)?;
        self.insert(at, lambda, value);
        let size = |at: usize| self.found.get(at).map(|found| found.value.size);
        let before = at.checked_sub(1).and_then(size);
        if before == Some(value.size) || size(at + 1) == Some(value.size) {
            self.close_in(solve)?;
        }
        Ok(value.size)
    }

    /// A map came twice, so there are few: finds the last one that fits, and the one after it.
    fn close_in(&mut self, mut solve: impl FnMut(f64) -> Result<Value>) -> Result<()> {
        let allowed = self.allowed;
        let fits = |found: &Found| found.value.size <= allowed;
        for _ in 0..CLOSING {
            let Some(last) = self.found.partition_point(fits).checked_sub(1) else {
                break;
            };
            let Some(meet) = self.meeting(last) else {
                break;
            };
            let third = solve(meet)?;
            let sizes = [last, last + 1].map(|at| self.found[at].value.size);
            if sizes.contains(&third.size) {
                self.found[last].until = Some(meet);
                break;
            }
            self.insert(last + 1, meet, third);
        }
        Ok(())
    }

    /// The price up to which the largest map that fits is best, if it is known, and if that map is
    /// smaller than allowed by more than `spent`, in logarithms: then no price gives a better one.
    pub(crate) fn end(&self, spent: f64) -> Option<f64> {
        let fits = |found: &Found| found.value.size <= self.allowed;
        let last = self.found[self.found.partition_point(fits).checked_sub(1)?];
        let wasteful = (last.value.size.max(0.5) / self.allowed).ln() < -spent;
        last.until.filter(|_| wasteful)
    }

    fn insert(&mut self, at: usize, lambda: f64, value: Value) {
        let until = None;
        self.found.insert(
            at,
            Found {
                lambda,
                value,
                until,
            },
        );
    }

    /// The size of the best map at a price between two maps, if it follows from them.
    fn known(&self, at: usize, lambda: f64) -> Option<f64> {
        let before = self.found.get(at.checked_sub(1)?)?;
        let next = self.found.get(at)?;
        if before.value.size == next.value.size {
            return Some(next.value.size);
        }
        match before.until? {
            until if lambda < until => Some(before.value.size),
            _ => Some(next.value.size),
        }
    }

    /// The price where the lines of a map and the next one meet, if it is known precisely and was
    /// not tried yet.
    fn meeting(&self, at: usize) -> Option<f64> {
        let (a, b) = (self.found.get(at)?, self.found.get(at + 1)?);
        if a.until.is_some() {
            return None;
        }
        let misses = |found: &Found| {
            let misses = found.value.cost - found.value.size;
            (misses > PRECISE * found.value.cost).then(|| misses / found.lambda)
        };
        let meet = (b.value.size - a.value.size) / (misses(a)? - misses(b)?);
        (meet > a.lambda && meet < b.lambda).then_some(meet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The best of some maps, of which each has a size and a number of misses.
    fn best(maps: &[(u32, u32)], lambda: f64) -> Value {
        let value = |&(size, misses): &(u32, u32)| Value {
            cost: f64::from(size) + lambda * f64::from(misses),
            size: f64::from(size),
        };
        let values = maps.iter().map(value);
        values
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
            .unwrap_or_default()
    }

    proptest! {
        #[test]
        fn what_follows_from_maps_is_what_solving_gives(
            maps in prop::collection::vec((1..1000u32, 1..1000u32), 1..12),
            prices in prop::collection::vec(1..2000u32, 1..60),
            allowed in 1..1000u32,
        ) {
            let mut hull = Hull::new(f64::from(allowed));
            for price in prices {
                // No price where the lines of two maps meet.
                let lambda = (f64::from(price) + 0.377_912) / 311.7;
                let size = hull.size(lambda, |lambda| Ok(best(&maps, lambda))).unwrap();
                prop_assert_eq!(size, best(&maps, lambda).size);
            }
        }

        #[test]
        fn closing_in_on_a_price_takes_few_solutions(maps in prop::collection::vec((1..1000u32, 1..1000u32), 2..12), at in 0.001..10.0f64) {
            let target = best(&maps, at).size;
            let mut hull = Hull::new(target);
            let (mut low, mut high) = (1e-6, 1e6);
            let mut solved = 0;
            for _ in 0..200 {
                let middle = f64::sqrt(low * high);
                let size = hull.size(middle, |lambda| {
                    solved += 1;
                    Ok(best(&maps, lambda))
                }).unwrap();
                *(if size <= target { &mut low } else { &mut high }) = middle;
            }
            prop_assert!(solved < 60, "{}", solved);
            if let Some(end) = hull.end(-f64::INFINITY) {
                prop_assert_eq!(best(&maps, end * (1.0 - 1e-9)).size, target);
                prop_assert!(best(&maps, end * (1.0 + 1e-9)).size > target);
            }
        }
    }
}
