//! The normal distribution.

use std::f64::consts::{PI, SQRT_2};

use super::special::erfc;

/// The probability of a value larger than `z`.
pub fn upper(z: f64) -> f64 {
    0.5 * erfc(z / SQRT_2)
}

/// The value that is larger than a share `p` of all values, for `p` between 0 and 1.
pub fn quantile(p: f64) -> f64 {
    if p.is_nan() || p <= 0.0 || p >= 1.0 {
        return match p {
            0.0 => f64::NEG_INFINITY,
            1.0 => f64::INFINITY,
            _ => f64::NAN,
        };
    }
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    // A rough start (Abramowitz and Stegun 26.2.23), then Halley's method.
    let t = (-2.0 * p.ln()).sqrt();
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = top / bottom - t;
    for _ in 0..4 {
        let error = upper(-z) - p;
        let step = error * (2.0 * PI).sqrt() * (z * z / 2.0).exp();
        z -= step / (1.0 + z * step / 2.0);
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_probabilities_are_inverse_to_each_other() {
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
        for z in [-8.0, -3.0, -0.5, 0.0, 0.7, 2.0, 5.0] {
            let back = quantile(upper(-z));
            assert!((back - z).abs() < 1e-9, "{z} {back}");
        }
        assert!(quantile(2.0).is_nan() && quantile(0.0).is_infinite());
    }
}
