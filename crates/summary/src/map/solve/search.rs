//! The price at which a budget is spent.

use crate::error::Result;

/// The interval that contains the wanted price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bracket {
    /// The highest price known to fit, if any does.
    pub(crate) low: Option<f64>,
    /// The lowest price known not to fit.
    pub(crate) high: Option<f64>,
}

/// The parameters of the search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) smallest: f64,
    pub(crate) largest: f64,
    /// The distance, in logarithms, at which two prices count as equal.
    pub(crate) near: f64,
    /// The tolerance: how far below zero `over` may be.
    pub(crate) spent: f64,
}

/// The maximum number of prices to try.
const TRIES: usize = 64;

/// Searches for the highest price at which `over` is not positive. `over` is the logarithm of how
/// much the map of a price exceeds the budget, and grows with the price; `None` ends the search.
/// `near` is the price to start with.
pub(crate) fn search(
    range: Range,
    near: Option<f64>,
    mut over: impl FnMut(f64) -> Result<Option<f64>>,
) -> Result<Bracket> {
    let (smallest, largest) = (range.smallest.ln(), range.largest.ln());
    let mut low: Option<(f64, f64)> = None;
    let mut high: Option<(f64, f64)> = None;
    let mut stride = 0.1;
    let mut next = near.map_or(smallest, |near| near.ln().clamp(smallest, largest));
    for turn in 0..TRIES {
        let Some(at) = over(next.exp())? else {
            break;
        };
        let found = Some((next, at));
        if at <= 0.0 {
            low = found;
            if at >= -range.spent {
                break;
            }
        } else {
            high = found;
        }
        next = match (low, high) {
            (Some(low), Some(high)) => {
                let width = high.0 - low.0;
                if width <= range.near {
                    break;
                }
                // Interpolates by size, but never at the ends, and bisects now and then.
                let share = match (width > 3.0) || turn % 3 == 2 {
                    true => 0.5,
                    false => (-low.1 / (high.1 - low.1)).clamp(0.08, 0.92),
                };
                low.0 + share * width
            }
            (Some(low), None) if low.0 >= largest => break,
            (None, Some(high)) if high.0 <= smallest => break,
            (Some(low), None) => (low.0 + stride).min(largest),
            (None, Some(high)) => (high.0 - stride).max(smallest),
            (None, None) => break,
        };
        stride *= 4.0;
    }
    Ok(Bracket {
        low: low.map(|(at, _)| at.exp()),
        high: high.map(|(at, _)| at.exp()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_largest_price_that_fits_is_found(steps in prop::collection::vec((-20.0..20.0f64, 0.0..3.0f64), 0..20), near in prop::option::of(1e-9..1e9f64), allowed in 0.1..30.0f64) {
            let size = |lambda: f64| 1.0 + steps.iter().filter(|(at, _)| lambda.ln() >= *at).map(|(_, step)| step).sum::<f64>();
            let range = Range { smallest: 1e-12, largest: 1e12, near: 1e-3, spent: 0.0 };
            let found = search(range, near, |lambda| Ok(Some((size(lambda) / allowed).ln()))).unwrap();
            match found.low {
                Some(low) => {
                    prop_assert!(size(low) <= allowed);
                    prop_assert!(low > 0.999e12 || size(low) == allowed || size(low * 1.01) > allowed || steps.iter().all(|(at, _)| *at < low.ln()), "{found:?}");
                }
                None => prop_assert!(size(1e-12) > allowed),
            }
        }
    }
}
