//! Rank correlation: Spearman's coefficient, its p-value and its confidence interval.

use super::student;

/// A rank correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// The coefficient, from -1 to 1. NaN if there are fewer than three pairs, or one side is constant.
    pub r: f64,
    /// The probability of a coefficient at least as far from zero without any relation.
    pub p: f64,
    /// The number of pairs of which neither value is missing.
    pub pairs: usize,
}

impl Correlation {
    /// The interval that contains the true coefficient with probability 0.95: tanh(atanh(r) ±
    /// 1.96/√(n−3)).
    pub fn interval(&self) -> (f64, f64) {
        interval(self.r, self.pairs)
    }
}

/// See [`Correlation::interval`].
pub fn interval(r: f64, pairs: usize) -> (f64, f64) {
    if pairs <= 3 || r.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    // The quantile of the normal distribution for a share of 0.975.
    let reach = 1.959_963_984_540_054 / ((pairs - 3) as f64).sqrt();
    let z = r.atanh();
    ((z - reach).tanh(), (z + reach).tanh())
}

/// The rank correlation of two columns. Missing values are NaN: pairs with one are omitted.
pub fn spearman(x: &[f64], y: &[f64]) -> Correlation {
    let whole: Vec<(f64, f64)> = x
        .iter()
        .copied()
        .zip(y.iter().copied())
        .filter(|(x, y)| !x.is_nan() && !y.is_nan())
        .collect();
    let pairs = whole.len();
    if pairs < 3 {
        let (r, p) = (f64::NAN, f64::NAN);
        return Correlation { r, p, pairs };
    }
    let x = ranks(&whole.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let y = ranks(&whole.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let r = pearson(&x, &y);
    let degrees = (pairs - 2) as f64;
    let t = r * (degrees / ((1.0 + r) * (1.0 - r)).max(0.0)).sqrt();
    Correlation {
        r,
        p: student::two_sided(t, degrees),
        pairs,
    }
}

/// The ranks of values, from 1. Equal values share the average of their ranks.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        let same = order[start..]
            .iter()
            .take_while(|&&at| values[at] == value)
            .count()
            .max(1);
        let rank = start as f64 + (same as f64 + 1.0) / 2.0;
        for &at in &order[start..start + same] {
            ranks[at] = rank;
        }
        start += same;
    }
    ranks
}

/// The linear correlation of two columns of the same length. NaN if one of them is constant.
fn pearson(x: &[f64], y: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    if xx == 0.0 || yy == 0.0 {
        return f64::NAN;
    }
    (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_average_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(ranks(&[0.0, -0.0]), [1.5, 1.5]);
        assert_eq!(ranks(&[]), Vec::<f64>::new());
    }

    #[test]
    fn only_the_order_counts_and_missing_values_are_left_out() {
        let x = [1.0, 2.0, 3.0, 4.0, f64::NAN];
        let same = spearman(&x, &[1.0, 10.0, 100.0, 1000.0, 0.0]);
        assert_eq!((same.r, same.p, same.pairs), (1.0, 0.0, 4));
        let other = spearman(&x, &[9.0, 8.0, 7.0, 6.0, 100.0]);
        assert_eq!(other.r, -1.0);
        assert!(spearman(&x, &[1.0, 1.0, 1.0, 1.0, 1.0]).r.is_nan());
        assert!(spearman(&x[..2], &x[..2]).r.is_nan());
    }

    /// Figure 4 of the paper: "The worst error bar is just disjoint from the best"; the two are 0.898
    /// and 0.962 according to table 6, each over the 100 most frequent media types.
    #[test]
    fn the_intervals_of_the_papers_worst_and_best_segment_are_just_disjoint() {
        let (_, worst) = interval(0.898, 100);
        let (best, _) = interval(0.962, 100);
        assert!(worst < best && best - worst < 0.02, "{worst} {best}");
    }
}
