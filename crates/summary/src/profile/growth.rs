//! How profiles grow with the archive: captures, URI-Rs and keys as dated inputs accumulate.

use waypost_io::Source;
use waypost_surt::Policy;

use super::build::{Options, build};
use crate::about::Archive;
use crate::error::{Error, Result};
use crate::holdings::Input;
use crate::power::PowerFit;

/// The totals after an input was added.
#[derive(Clone, Debug)]
pub struct Step {
    /// The input.
    pub name: String,
    /// Captures of all inputs so far.
    pub captures: u64,
    /// URI-Rs of all inputs so far.
    pub urirs: u64,
    /// Keys of all inputs so far, in the order of the policies.
    pub keys: Vec<u64>,
}

/// Heaps' law, URI-Rs = K · captures^β, fitted to the logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heaps {
    /// K.
    pub k: f64,
    /// β.
    pub beta: f64,
}

/// How an archive grew.
#[derive(Clone, Debug)]
pub struct Growth {
    /// After each input.
    pub steps: Vec<Step>,
    /// Heaps' law, if there are at least two sizes to fit it to.
    pub heaps: Option<Heaps>,
    /// For each policy, the slope φ of keys over URI-Rs through the origin.
    pub costs: Vec<f64>,
}

/// Counts inputs cumulatively, in the given order.
///
/// # Errors
/// When an input cannot be read.
pub fn growth(input: &Input, policies: &[Policy]) -> Result<Growth> {
    if input.sources.is_empty() {
        return Err(Error::invalid("growth needs at least one input"));
    }
    let options = Options {
        policies: policies.to_vec(),
        archive: Archive::default(),
        date: None,
        folder: None,
        name: String::new(),
        gzip: false,
    };
    let mut steps = Vec::new();
    for count in 1..=input.sources.len() {
        let sources: Vec<Source> = input.sources[..count].to_vec();
        let name = sources[count - 1].to_string();
        let report = build(
            &Input {
                sources,
                ..input.clone()
            },
            &options,
            None,
        )?;
        steps.push(Step {
            name,
            captures: report.reading.captures,
            urirs: report.reading.urirs,
            keys: report
                .profiles
                .iter()
                .map(|profile| profile.size.keys)
                .collect(),
        });
    }
    let points: Vec<(f64, f64)> = steps
        .iter()
        .map(|step| (step.captures as f64, step.urirs as f64))
        .collect();
    let costs = (0..policies.len())
        .map(|policy| {
            slope(
                steps
                    .iter()
                    .map(|step| (step.urirs as f64, step.keys[policy] as f64)),
            )
        })
        .collect();
    Ok(Growth {
        heaps: heaps(&points),
        costs,
        steps,
    })
}

/// Least squares on the logarithms.
fn heaps(points: &[(f64, f64)]) -> Option<Heaps> {
    let law = PowerFit::new(points.iter().copied())?;
    Some(Heaps {
        k: law.factor,
        beta: law.exponent,
    })
}

/// The slope of the best-fitting line through the origin.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (xx, xy) = points.fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
    if xx > 0.0 { xy / xx } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_holds_is_found() {
        let points: Vec<(f64, f64)> = (1..20)
            .map(|i| f64::from(i) * 1000.0)
            .map(|captures| (captures, 2.686 * captures.powf(0.911)))
            .collect();
        let found = heaps(&points).unwrap();
        assert!((found.k - 2.686).abs() < 1e-6 && (found.beta - 0.911).abs() < 1e-9);
        assert_eq!(heaps(&points[..1]), None);
        assert!((slope([(1.0, 0.5), (4.0, 2.0)].into_iter()) - 0.5).abs() < 1e-12);
    }
}
