//! The Shapiro–Wilk test of normality, by Royston's approximation (Applied Statistics 44, 1995).

use super::normal;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shapiro {
    /// The statistic, at most 1. Values near 1 agree with a normal distribution.
    pub w: f64,
    /// The probability of a smaller statistic for a normal distribution.
    pub p: f64,
}

/// The value of a polynomial, lowest coefficient first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Tests 3 to 5000 values. `None` for fewer or more, or if all are equal.
pub fn shapiro(values: &[f64]) -> Option<Shapiro> {
    let count = values.len();
    if !(3..=5000).contains(&count) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = count as f64;
    let weights = weights(count);
    let mean = sorted.iter().sum::<f64>() / n;
    let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    if squares <= 0.0 || sorted[count - 1] - sorted[0] <= 0.0 {
        return None;
    }
    let sum: f64 = weights
        .iter()
        .enumerate()
        .map(|(at, weight)| weight * (sorted[count - 1 - at] - sorted[at]))
        .sum();
    let w = (sum * sum / squares).min(1.0);
    Some(Shapiro {
        w,
        p: probability(w, n),
    })
}

/// The weights of the larger half of the values.
fn weights(count: usize) -> Vec<f64> {
    let n = count as f64;
    if count == 3 {
        return vec![0.5f64.sqrt()];
    }
    let half = count / 2;
    let m: Vec<f64> = (1..=half)
        .map(|i| normal::quantile((i as f64 - 0.375) / (n + 0.25)))
        .collect();
    let squares = 2.0 * m.iter().map(|m| m * m).sum::<f64>();
    let root = squares.sqrt();
    let x = 1.0 / n.sqrt();
    let first = polynomial(
        &[0.0, 0.221_157, -0.147_981, -2.071_19, 4.434_685, -2.706_056],
        x,
    ) - m[0] / root;
    let mut weights = vec![first];
    let factor = if count > 5 {
        let second = polynomial(
            &[
                0.0, 0.042_981, -0.293_762, -1.752_461, 5.682_633, -3.582_633,
            ],
            x,
        ) - m[1] / root;
        weights.push(second);
        ((squares - 2.0 * m[0] * m[0] - 2.0 * m[1] * m[1])
            / (1.0 - 2.0 * first * first - 2.0 * second * second))
            .sqrt()
    } else {
        ((squares - 2.0 * m[0] * m[0]) / (1.0 - 2.0 * first * first)).sqrt()
    };
    weights.extend(m[weights.len()..].iter().map(|m| -m / factor));
    weights
}

fn probability(w: f64, n: f64) -> f64 {
    if n == 3.0 {
        let least = 0.75f64.sqrt().asin();
        return (6.0 / std::f64::consts::PI * (w.sqrt().asin() - least)).clamp(0.0, 1.0);
    }
    let y = (1.0 - w).ln();
    let (y, mean, deviation) = if n <= 11.0 {
        let gamma = polynomial(&[-2.273, 0.459], n);
        if y >= gamma {
            return 1e-99;
        }
        (
            -(gamma - y).ln(),
            polynomial(&[0.544, -0.399_78, 0.025_054, -6.714e-4], n),
            polynomial(&[1.3822, -0.778_57, 0.062_767, -0.002_032_2], n).exp(),
        )
    } else {
        let x = n.ln();
        (
            y,
            polynomial(&[-1.5861, -0.310_82, -0.083_751, 0.003_891_5], x),
            polynomial(&[-0.4803, -0.082_676, 0.003_030_2], x).exp(),
        )
    };
    normal::upper((y - mean) / deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_and_constant_values_cannot_be_tested() {
        assert_eq!(shapiro(&[1.0, 2.0]), None);
        assert_eq!(shapiro(&[1.0; 9]), None);
        assert_eq!(shapiro(&[1.0, f64::NAN, 2.0]), None);
    }

    #[test]
    fn a_straight_line_of_quantiles_is_normal_and_a_steep_one_is_not() {
        let normal: Vec<f64> = (1..100)
            .map(|i| super::normal::quantile(f64::from(i) / 100.0))
            .collect();
        assert!(shapiro(&normal).unwrap().p > 0.9);
        let steep: Vec<f64> = (1..100).map(|i| f64::from(i).exp()).collect();
        assert!(shapiro(&steep).unwrap().p < 1e-10);
    }
}
