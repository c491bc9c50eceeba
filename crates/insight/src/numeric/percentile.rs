//! Percentiles. `docs/segments.md` defines the word; there are three kinds.

/// The percentile rank of `score` among `values`: the percentage of values that are smaller, where
/// values equal to it count as far as their average rank goes. As scipy's `percentileofscore`.
pub fn rank_of(values: &[f64], score: f64) -> f64 {
    if values.is_empty() || score.is_nan() {
        return f64::NAN;
    }
    let smaller = values.iter().filter(|value| **value < score).count();
    let not_larger = values.iter().filter(|value| **value <= score).count();
    let tie = usize::from(smaller < not_larger);
    (smaller + not_larger + tie) as f64 * 50.0 / values.len() as f64
}

/// The position of `score` in the range of `values`: 0 is the smallest, 100 the largest. The numbers of
/// the paper's figure 5 are these.
pub fn position_in_range(values: &[f64], score: f64) -> f64 {
    let min = values.iter().copied().fold(f64::NAN, f64::min);
    let max = values.iter().copied().fold(f64::NAN, f64::max);
    100.0 * (score - min) / (max - min)
}

/// Cuts ordered classes into percentile ranges: the number, from 1 to 100, of the range of each class.
/// The captures of a class go to one range: that of the percentage of captures up to its end.
pub fn ranges(counts: &[u64]) -> Vec<u8> {
    let total: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    let mut sum = 0u128;
    counts
        .iter()
        .map(|count| {
            sum += u128::from(*count);
            (100 * sum).div_ceil(total.max(1)).clamp(1, 100) as u8
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_a_value_is_the_share_below_it() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(rank_of(&values, 3.0), 75.0);
        assert_eq!(rank_of(&values, 2.5), 50.0);
        assert_eq!(rank_of(&values, 0.0), 0.0);
        assert_eq!(rank_of(&[1.0, 1.0], 1.0), 75.0);
        assert_eq!(position_in_range(&values, 2.5), 50.0);
    }

    #[test]
    fn classes_of_one_percent_get_a_range_each_and_large_ones_skip_some() {
        assert_eq!(ranges(&[1; 100]), (1..=100).collect::<Vec<u8>>());
        assert_eq!(ranges(&[50, 25, 25]), [50, 75, 100]);
        assert_eq!(ranges(&[]), Vec::<u8>::new());
        assert_eq!(ranges(&[0, 0]), [1, 1]);
    }
}
