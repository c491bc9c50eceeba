//! Maps that were found at some prices, to answer for the prices between them.
//!
//! The least cost is a concave function of the price, made of straight pieces: one for each map that
//! is best at some price. So a map that is best at two prices is best between them. And at the price
//! where the lines of two maps meet, a third map is better if any is best between them. A search
//! that closes in on such a price needs no more solutions.

use super::solver::Value;
use crate::error::Result;

/// The maps found so far, by price.
#[derive(Debug, Default)]
pub(crate) struct Hull {
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

impl Hull {
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
        let value = solve(lambda)?;
        self.insert(at, lambda, value);
        // If it is a known map, the search may be closing in on the price where it ends.
        let same = |a: usize, b: usize| {
            let size = |at: usize| self.found.get(at).map(|found| found.value.size);
            size(a).is_some() && size(a) == size(b)
        };
        let meeting = match at.checked_sub(1) {
            Some(before) if same(before, at) => at,
            Some(before) if same(at, at + 1) => before,
            _ => return Ok(value.size),
        };
        if let Some(meet) = self.meeting(meeting) {
            let third = solve(meet)?;
            let (first, next) = (self.found[meeting], self.found[meeting + 1]);
            if third.size == first.value.size || third.size == next.value.size {
                self.found[meeting].until = Some(meet);
            } else {
                self.insert(meeting + 1, meet, third);
            }
        }
        Ok(value.size)
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

    /// The price where the lines of a map and the next one meet, if it is known precisely.
    fn meeting(&self, at: usize) -> Option<f64> {
        let (a, b) = (self.found.get(at)?, self.found.get(at + 1)?);
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
        ) {
            let mut hull = Hull::default();
            for price in prices {
                // No price where the lines of two maps meet.
                let lambda = (f64::from(price) + 0.377_912) / 311.7;
                let size = hull.size(lambda, |lambda| Ok(best(&maps, lambda))).unwrap();
                prop_assert_eq!(size, best(&maps, lambda).size);
            }
        }

        #[test]
        fn closing_in_on_a_price_takes_few_solutions(maps in prop::collection::vec((1..1000u32, 1..1000u32), 2..12), at in 0.001..10.0f64) {
            let mut hull = Hull::default();
            let (mut low, mut high) = (1e-6, 1e6);
            let mut solved = 0;
            let target = best(&maps, at).size;
            for _ in 0..200 {
                let middle = f64::sqrt(low * high);
                let size = hull.size(middle, |lambda| {
                    solved += 1;
                    Ok(best(&maps, lambda))
                }).unwrap();
                *(if size <= target { &mut low } else { &mut high }) = middle;
            }
            prop_assert!(solved < 60, "{}", solved);
        }
    }
}
