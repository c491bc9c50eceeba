//! How often each value occurs, and everything that follows from it exactly: mean, median, standard
//! deviation, Gini coefficient, Pareto point, curves.
//!
//! The number of distinct values grows only with the square root of their sum, so that billions of
//! values fit into little memory.

use std::collections::BTreeMap;

/// Values with their number of occurrences.
///
/// ```
/// use waypost_insight::numeric::histogram::Histogram;
///
/// let captures: Histogram = [1, 1, 1, 5].into_iter().collect();
/// assert_eq!((captures.count(), captures.sum(), captures.max()), (4, 8, 5));
/// assert_eq!((captures.mean(), captures.median()), (2.0, 1.0));
/// assert_eq!(captures.gini(), 0.375);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Occurrences of values below [`SMALL`], which are nearly all of them.
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
}

const SMALL: u64 = 1 << 10;

impl Histogram {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Adds a value several times.
    #[inline]
    pub fn add_times(&mut self, value: u64, times: u64) {
        if value < SMALL {
            let at = value as usize;
            if at >= self.small.len() {
                self.small.resize((at + 1).next_power_of_two(), 0);
            }
            self.small[at] += times;
        } else {
            *self.large.entry(value).or_default() += times;
        }
    }

    /// The distinct values and their occurrences, the smallest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone + '_ {
        let small = self.small.iter().enumerate();
        small
            .map(|(value, times)| (value as u64, *times))
            .filter(|(_, times)| *times > 0)
            .chain(self.large.iter().map(|(value, times)| (*value, *times)))
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.iter().map(|(_, times)| times).sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.iter().map(|(value, times)| value * times).sum()
    }

    /// The largest value; 0 if there are none.
    pub fn max(&self) -> u64 {
        self.iter().next_back().map_or(0, |(value, _)| value)
    }

    /// The smallest value; 0 if there are none.
    pub fn min(&self) -> u64 {
        self.iter().next().map_or(0, |(value, _)| value)
    }

    /// The mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        ratio(self.sum() as f64, self.count() as f64)
    }

    /// The value in the middle, or the mean of the two in the middle; 0 if there are none.
    pub fn median(&self) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        let at = |rank: u64| {
            let mut seen = 0;
            let found = self.iter().find(|(_, times)| {
                seen += times;
                seen > rank
            });
            found.map_or(0, |(value, _)| value)
        };
        (at((count - 1) / 2) as f64 + at(count / 2) as f64) / 2.0
    }

    /// The standard deviation of all values (divided by their number, not by one less).
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self
            .iter()
            .map(|(value, times)| (value as f64 - mean).powi(2) * times as f64)
            .sum();
        ratio(squares, self.count() as f64).sqrt()
    }

    /// The Gini coefficient: 0 if all values are equal, near 1 if one of them has everything.
    pub fn gini(&self) -> f64 {
        let (count, sum) = (i128::from(self.count()), i128::from(self.sum()));
        // The sum of (2i - n - 1) · x over the sorted values, i from 1.
        let mut weighted: i128 = 0;
        let mut before: i128 = 0;
        for (value, times) in self.iter() {
            let (value, times) = (i128::from(value), i128::from(times));
            // Twice the sum of the ranks of these values.
            let ranks = times * (2 * before + times + 1);
            weighted += (ranks - times * (count + 1)) * value;
            before += times;
        }
        ratio(weighted as f64, count as f64 * sum as f64)
    }

    /// The corners of the curve that says which share of the sum the largest values have: (share of
    /// values, share of the sum), from (0, 0) to (1, 1), straight in between.
    fn corners(&self) -> Vec<(f64, f64)> {
        let (count, sum) = (self.count() as f64, self.sum() as f64);
        let mut corners = vec![(0.0, 0.0)];
        let (mut values, mut total) = (0u64, 0u64);
        for (value, times) in self.iter().rev() {
            values += times;
            total += value * times;
            corners.push((ratio(values as f64, count), ratio(total as f64, sum)));
        }
        corners
    }

    /// The share p of the largest values that have 1 - p of the sum: 0.3 if the largest 30% have
    /// 70%. `None` without values.
    pub fn pareto(&self) -> Option<f64> {
        let corners = self.corners();
        corners.windows(2).find_map(|pair| {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            // Where x + y = 1 between the two corners.
            let (from, to) = (x0 + y0, x1 + y1);
            (from <= 1.0 && to >= 1.0 && to > from)
                .then(|| x0 + (x1 - x0) * (1.0 - from) / (to - from))
        })
    }

    /// The share of the sum that the largest values have, at `steps` + 1 evenly spaced shares of
    /// the values.
    pub fn curve(&self, steps: usize) -> Vec<(f64, f64)> {
        let corners = self.corners();
        if corners.len() < 2 {
            return Vec::new();
        }
        let mut at = 1;
        (0..=steps)
            .map(|step| {
                let x = step as f64 / steps.max(1) as f64;
                while at + 1 < corners.len() && corners[at].0 < x {
                    at += 1;
                }
                let ((x0, y0), (x1, y1)) = (corners[at - 1], corners[at]);
                let y = y0 + ratio((x - x0) * (y1 - y0), x1 - x0);
                (x, y.clamp(0.0, 1.0))
            })
            .collect()
    }
}

/// Where reduction curves are sampled: they rise steeply at first.
const SHARES: [f64; 16] = [
    0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0,
];

impl Histogram {
    /// The share of `total` that is saved when each value, the largest first, becomes 1: at some
    /// shares of the values.
    pub fn reduction(&self, total: u64) -> Vec<(f64, f64)> {
        let count = self.count() as f64;
        if count == 0.0 {
            return Vec::new();
        }
        let (mut values, mut saved) = (0.0, 0.0);
        let mut runs = self.iter().rev();
        let mut run = (0.0, 0.0);
        SHARES
            .into_iter()
            .map(|share| {
                // The values of the current run that are rolled up at this share.
                loop {
                    let part = (share * count - values).min(run.1);
                    if share * count <= values + run.1 {
                        break (share, ratio(saved + part * run.0, total as f64));
                    }
                    values += run.1;
                    saved += run.0 * run.1;
                    run = match runs.next() {
                        Some((value, times)) => (value.saturating_sub(1) as f64, times as f64),
                        None => break (share, ratio(saved, total as f64)),
                    };
                }
            })
            .collect()
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.add(value);
        }
        histogram
    }
}

/// A quotient; 0 if the divisor is.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_size_are_counted() {
        let values = [0, 1, 1_023, 1_024, 1 << 40, 1 << 40];
        let histogram: Histogram = values.into_iter().collect();
        let found: Vec<(u64, u64)> = histogram.iter().collect();
        assert_eq!(
            found,
            [(0, 1), (1, 1), (1_023, 1), (1_024, 1), (1 << 40, 2)]
        );
        assert_eq!((histogram.min(), histogram.max()), (0, 1 << 40));
        assert_eq!(histogram.median(), 1_023.5);
    }

    #[test]
    fn measures_of_a_few_values_are_those_worked_out_by_hand() {
        let histogram: Histogram = [2, 4, 4, 4, 5, 5, 7, 9].into_iter().collect();
        assert_eq!(
            (histogram.mean(), histogram.median(), histogram.deviation()),
            (5.0, 4.5, 2.0)
        );
        // 9 of 40 in 1 of 8, 16 of 40 in 2 of 8, 21 in 3, 26 in 4: 3/8 + 21/40 = 0.9 and
        // 4/8 + 26/40 = 1.15, so 0.1 of the 0.25 between them.
        assert!((histogram.pareto().unwrap() - (0.375 + 0.125 * 0.4)).abs() < 1e-12);
        let curve = histogram.curve(8);
        assert_eq!((curve[0], curve[8]), ((0.0, 0.0), (1.0, 1.0)));
        assert!((curve[2].1 - 0.4).abs() < 1e-12);
    }

    #[test]
    fn reductions_take_the_largest_first() {
        // Of 10 nodes with 20 keys, the first tenth saves 9 and everything saves 10.
        let sizes: Histogram = [10, 2, 1, 1, 1, 1, 1, 1, 1, 1].into_iter().collect();
        let curve = sizes.reduction(20);
        let at = |share: f64| curve.iter().find(|point| point.0 == share).unwrap().1;
        assert_eq!((at(0.0), at(0.1), at(0.2), at(1.0)), (0.0, 0.45, 0.5, 0.5));
        assert!((at(0.05) - 0.225).abs() < 1e-12);
        assert!(Histogram::default().reduction(0).is_empty());
    }

    #[test]
    fn equal_values_have_no_inequality_and_nothing_is_no_error() {
        let equal: Histogram = [3; 10].into_iter().collect();
        assert_eq!((equal.gini(), equal.pareto()), (0.0, Some(0.5)));
        let none = Histogram::default();
        assert_eq!(
            (none.gini(), none.mean(), none.median(), none.deviation()),
            (0.0, 0.0, 0.0, 0.0)
        );
        assert_eq!((none.pareto(), none.curve(10)), (None, Vec::new()));
        // One that has everything.
        let one: Histogram = [0, 0, 0, 8].into_iter().collect();
        assert_eq!(one.gini(), 0.75);
    }
}
