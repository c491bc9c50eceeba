//! Checking a filter: its checksums, that no held key is missing, and its false positive rate.

use rayon::prelude::*;

use super::hash::{Hash, Hasher};
use super::input::{self, Input, Reading};
use super::read::Filter;
use crate::error::{Error, Result};

/// The result of the check.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of intact shards.
    pub sound: u64,
    /// What is wrong with the others.
    pub damaged: Vec<Error>,
    /// The result for the holdings, if any were given.
    pub holdings: Option<Holdings>,
}

/// The result for the holdings.
#[derive(Debug)]
pub struct Holdings {
    /// What was read.
    pub reading: Reading,
    /// Distinct keys of the holdings.
    pub keys: u64,
    /// Keys that the filter calls absent.
    pub missing: u64,
    /// Number of keys tried that nobody holds.
    pub tried: u64,
    /// Those that the filter calls present.
    pub false_positives: u64,
}

impl Holdings {
    /// The measured false positive rate.
    pub fn rate(&self) -> f64 {
        self.false_positives as f64 / self.tried.max(1) as f64
    }

    /// The deviation of the measured rate from the stated one, in standard deviations.
    pub fn sigmas(&self, promised: f64) -> f64 {
        let expected = promised * self.tried as f64;
        let deviation = (expected * (1.0 - promised)).sqrt();
        (self.false_positives as f64 - expected) / deviation.max(1e-9)
    }
}

impl Report {
    /// Whether everything is right.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty()
            && self
                .holdings
                .as_ref()
                .is_none_or(|found| found.missing == 0)
    }
}

/// Checks every shard.
pub fn check(filter: &Filter) -> Report {
    let results: Vec<Result<()>> = (0..filter.shards())
        .into_par_iter()
        .map(|shard| filter.with_shard(shard, |_| ()))
        .collect();
    let shards = results.len() as u64;
    let damaged: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    Report {
        sound: shards - damaged.len() as u64,
        damaged,
        holdings: None,
    }
}

/// Looks up all held keys, and `tries` keys that nobody holds.
///
/// # Errors
/// When the holdings or the filter cannot be read.
pub fn check_holdings(filter: &Filter, mut input: Input<'_>, tries: u64) -> Result<Holdings> {
    let hasher = filter.hasher()?;
    input.hasher = hasher;
    input.dialect = filter.head().dialect;
    input.policy = filter.head().policy;
    let (run, reading) = input::read(input)?;
    let mut reader = run.reader();
    let mut missing = 0;
    loop {
        let seen = reader.peek()?;
        if seen.is_empty() {
            break;
        }
        let count = seen.len().min(1 << 20);
        missing += count as u64 - present(filter, &seen[..count])?;
        reader.take(count);
    }
    let mut false_positives = 0;
    let mut next = 0;
    while next < tries {
        let now = next..tries.min(next + (1 << 18));
        let hashes: Vec<Hash> = now
            .clone()
            .into_par_iter()
            .map(|n| nobodys(hasher, n))
            .collect();
        false_positives += present(filter, &hashes)?;
        next = now.end;
    }
    Ok(Holdings {
        reading,
        keys: run.count(),
        missing,
        tried: tries,
        false_positives,
    })
}

/// The hash of a string that isn't a SURT, so no archive can hold it.
fn nobodys(hasher: Hasher, number: u64) -> Hash {
    let mut text = *b"\0nobody has 00000000";
    text[12..].copy_from_slice(&number.to_be_bytes());
    hasher.hash(&text)
}

/// How many of the hashes are called present.
fn present(filter: &Filter, hashes: &[Hash]) -> Result<u64> {
    hashes
        .par_chunks(1 << 14)
        .map(|hashes| {
            let mut answers = Vec::new();
            filter.contains_all(hashes, &mut answers)?;
            Ok(answers.into_iter().filter(|&present| present).count() as u64)
        })
        .sum()
}
