//! Fitting a power law: y = factor · x^exponent.

/// A fitted power law.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PowerFit {
    /// The value at x = 1.
    pub factor: f64,
    /// The slope on logarithmic axes.
    pub exponent: f64,
}

impl PowerFit {
    /// The line through the logarithms, by least squares. Points that are not above zero are left
    /// out. `None` if fewer than two different x are left.
    pub fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Option<PowerFit> {
        let logs: Vec<(f64, f64)> = points
            .into_iter()
            .filter(|(x, y)| *x > 0.0 && *y > 0.0)
            .map(|(x, y)| (x.ln(), y.ln()))
            .collect();
        let n = logs.len() as f64;
        let (sx, sy) = logs
            .iter()
            .fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x, sy + y));
        let (mx, my) = (sx / n, sy / n);
        let (sxx, sxy) = logs.iter().fold((0.0, 0.0), |(sxx, sxy), (x, y)| {
            (sxx + (x - mx) * (x - mx), sxy + (x - mx) * (y - my))
        });
        if logs.len() < 2 || sxx < 1e-12 {
            return None;
        }
        let exponent = sxy / sxx;
        Some(PowerFit {
            factor: (my - exponent * mx).exp(),
            exponent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_holds_is_found() {
        let law = |x: f64| (x, 16.329 * x.powf(-0.714));
        let points: Vec<(f64, f64)> = (1..7).map(|x| law(f64::from(x))).collect();
        let found = PowerFit::new(points.iter().copied()).unwrap();
        assert!((found.factor - 16.329).abs() < 1e-9 && (found.exponent + 0.714).abs() < 1e-9);
        assert_eq!(PowerFit::new([points[0], points[0]]), None);
        assert_eq!(PowerFit::new([points[0], (2.0, 0.0)]), None);
    }
}
