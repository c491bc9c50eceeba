//! What a filter gives away, in numbers.

use super::format::{Head, Kind};
use super::hash::HashFunction;

/// Keys that one core is taken to hash and look up in a second: 100 ns each, an assumption.
pub const TRIES_PER_SECOND: f64 = 10e6;
/// URIs in a crawl of the whole Web, as anybody can download it.
pub const DICTIONARY: f64 = 3e9;
/// How likely it is thought that something is held, before the filter is asked.
pub const PRIORS: [f64; 3] = [0.001, 0.01, 0.1];

/// What a filter gives away.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Whether nothing can be looked up without a secret.
    pub keyed: bool,
    /// Whether the file holds hashes, which never call present what is not held.
    pub exact: bool,
    /// The rate of false positives.
    pub rate: f64,
    /// For each of [`PRIORS`], how sure one is after the filter said present.
    pub posteriors: [f64; 3],
    /// Of a dictionary of URIs that are not held, how many are called present all the same.
    pub dictionary_false: f64,
    /// Core seconds to look all of the dictionary up; `None` if that takes the key.
    pub dictionary_seconds: Option<f64>,
}

/// How sure one is that something is held that was thought to be with probability `prior` and is
/// called present by a filter of this rate.
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
