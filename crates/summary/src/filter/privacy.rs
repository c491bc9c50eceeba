//! What a filter reveals, in numbers.

use super::format::{Head, Kind};
use super::hash::HashFunction;

/// Keys that one core can hash and look up per second: assumes 100 ns each.
pub const TRIES_PER_SECOND: f64 = 10e6;
/// URIs in a public crawl of the whole Web.
pub const DICTIONARY: f64 = 3e9;
/// Prior probabilities that something is held.
pub const PRIORS: [f64; 3] = [0.001, 0.01, 0.1];

/// What a filter reveals.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Whether a secret is needed for lookups.
    pub keyed: bool,
    /// Whether the file contains hashes, which have no false positives.
    pub exact: bool,
    /// The false positive rate.
    pub rate: f64,
    /// For each of [`PRIORS`], the probability that something called present is held.
    pub posteriors: [f64; 3],
    /// The number of false positives in a dictionary of URIs that are not held.
    pub dictionary_false: f64,
    /// Core seconds to look up the whole dictionary; `None` if that needs the secret.
    pub dictionary_seconds: Option<f64>,
}

/// The posterior probability that something is held, given its prior probability and that a filter
/// with this rate calls it present.
pub fn posterior(prior: f64, rate: f64) -> f64 {
    prior / (prior + rate * (1.0 - prior))
}

impl Exposure {
    /// That of a file with this head.
    pub fn of(head: &Head) -> Exposure {
        let keyed = head.hash == HashFunction::SipHash;
        Exposure {
            keyed,
            exact: head.kind == Kind::Hashes,
            rate: head.rate,
            posteriors: PRIORS.map(|prior| posterior(prior, head.rate)),
            dictionary_false: DICTIONARY * head.rate,
            dictionary_seconds: (!keyed).then_some(DICTIONARY / TRIES_PER_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deniability_is_that_of_bayes() {
        for (prior, rate, expected) in [
            (0.01, 0.0625, 0.14),
            (0.01, 0.01, 0.50),
            (0.01, 0.0066, 0.60),
            (0.01, 1.0 / 256.0, 0.72),
            (0.1, 0.01, 0.92),
        ] {
            assert!(
                (posterior(prior, rate) - expected).abs() < 0.005,
                "{prior} {rate}"
            );
        }
        assert_eq!(posterior(0.01, 0.0), 1.0);
    }
}
