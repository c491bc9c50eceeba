//! Student's t distribution.

use super::special::beta_inc;

/// The probability of a value at least as far from zero as `t`.
pub fn two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    beta_inc(degrees / 2.0, 0.5, degrees / (degrees + t * t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_met() {
        assert!((two_sided(2.0, 10.0) - 0.073_388_034_770_740_37).abs() < 1e-14);
        assert!((two_sided(0.0, 3.0) - 1.0).abs() < 1e-14);
        assert!((two_sided(30.0, 98.0) / 3.466_352_323_464_849e-51 - 1.0).abs() < 1e-12);
        assert!(two_sided(1.0, 0.0).is_nan());
    }
}
