//! Descriptive statistics.

/// What scipy's `describe` computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Description {
    /// The number of values.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The unbiased variance.
    pub variance: f64,
    /// The skewness, of the values alone.
    pub skewness: f64,
    /// The excess kurtosis, of the values alone.
    pub kurtosis: f64,
}

/// Describes values. All are NaN where there are too few.
pub fn describe(values: &[f64]) -> Description {
    let count = values.len();
    let n = count as f64;
    let mean = values.iter().sum::<f64>() / n;
    let moment = |power: i32| {
        values
            .iter()
            .map(|value| (value - mean).powi(power))
            .sum::<f64>()
            / n
    };
    let (second, third, fourth) = (moment(2), moment(3), moment(4));
    Description {
        count,
        min: values.iter().copied().fold(f64::NAN, f64::min),
        max: values.iter().copied().fold(f64::NAN, f64::max),
        mean,
        variance: if count > 1 {
            second * n / (n - 1.0)
        } else {
            f64::NAN
        },
        skewness: third / second.powf(1.5),
        kurtosis: fourth / (second * second) - 3.0,
    }
}

/// The mean and the standard deviation of the values alone, as in the paper's figures 5 and 6.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / n).sqrt())
}
