//! Which lookups are held.

use std::sync::Arc;

use rayon::prelude::*;
use waypost_io::{Phase, Progress, Source};
use waypost_surt::Policy;

use super::lookups::Lookups;
use crate::error::{Error, Result};
use crate::filter::{Filter, Hasher};
use crate::holdings::{Held, Holdings, Input, Pass, Reading, Reduce, Run, reduce};
use crate::profile::Profile;
use crate::summary::{Answer, Summary};

impl Holdings {
    /// For each sample of lookups, which of them are held; and the total number of held URI-Rs.
    ///
    /// # Errors
    /// If the holdings can't be read.
    pub fn truth(&self, samples: &[Lookups]) -> Result<(Vec<Vec<bool>>, Arc<Reading>)> {
        let (captures, reading) = self.captures(samples)?;
        Ok((captures.into_iter().map(held).collect(), reading))
    }

    /// For each sample of lookups, how many captures of each are held; and the total number of held
    /// URI-Rs. Where the holdings have no captures, one stands for any number.
    ///
    /// # Errors
    /// If the holdings can't be read.
    pub fn captures(&self, samples: &[Lookups]) -> Result<(Vec<Vec<u64>>, Arc<Reading>)> {
        if let [source] = &self.input().sources[..]
            && source.path().is_file()
            && Profile::is_one(source)?
        {
            return self.selected(truth_of_profile(source, samples)?, samples);
        }
        if let [source] = &self.input().sources[..]
            && let Some(hashes) = Filter::of_hashes(source)?
        {
            return self.selected(truth_of_hashes(&hashes, samples)?, samples);
        }
        let Input {
            resources,
            progress,
            ..
        } = self.input();
        self.held(|held| captures_of_held(held, samples, resources.memory, progress))
    }

    /// The truth of holdings whose URI-Rs are not read, without what the filters leave out.
    fn selected(
        &self,
        (mut truths, reading): (Vec<Vec<u64>>, Arc<Reading>),
        samples: &[Lookups],
    ) -> Result<(Vec<Vec<u64>>, Arc<Reading>)> {
        let mut select = self.input().select.clone();
        select.dialect(self.input().dialect);
        for (truth, lookups) in truths.iter_mut().zip(samples) {
            for (captures, (_, surt, _)) in truth.iter_mut().zip(lookups.iter()) {
                *captures *= u64::from(select.accepts_uri(surt, surt));
            }
        }
        Ok((truths, reading))
    }
}

/// Which lookups have captures.
fn held(captures: Vec<u64>) -> Vec<bool> {
    captures
        .into_par_iter()
        .map(|captures| captures > 0)
        .collect()
}

fn truth_of_profile(source: &Source, samples: &[Lookups]) -> Result<(Vec<Vec<u64>>, Arc<Reading>)> {
    let profile = Profile::of(source)?;
    if profile.policy() != Policy::Whole {
        return Err(Error::invalid(format!(
            "a profile of {} does not say which URIs are held: give the index, a list of URIs, or a profile of URIR",
            profile.policy()
        ))
        .in_file(source));
    }
    let mut truths = Vec::new();
    for lookups in samples {
        let dialect = profile.about().dialect;
        if dialect != lookups.dialect() {
            return Err(Error::invalid(format!(
                "its SURTs are of the dialect {dialect}, but the lookups were read under {}",
                lookups.dialect()
            ))
            .in_file(source));
        }
        let answers = profile.lookup_all(&lookups.lookups())?;
        let captures = |answer: &Answer| match answer.found() {
            Some(found) => found.frequency.captures.map_or(1, |n| n.value.max(1)),
            None => 0,
        };
        truths.push(answers.iter().map(captures).collect());
    }
    let reading = Reading {
        urirs: profile.size().keys,
        ..Reading::default()
    };
    Ok((truths, Arc::new(reading)))
}

fn truth_of_hashes(hashes: &Filter, samples: &[Lookups]) -> Result<(Vec<Vec<u64>>, Arc<Reading>)> {
    let mut truths = Vec::new();
    for lookups in samples {
        let dialect = hashes.head().dialect;
        if dialect != lookups.dialect() {
            return Err(Error::invalid(format!(
                "its SURTs are of the dialect {dialect}, but the lookups were read under {}",
                lookups.dialect()
            ))
            .in_file(hashes.name()));
        }
        let asked = lookups
            .par_iter()
            .map(|(_, surt, _)| Hasher::Public.hash(surt));
        let mut held = Vec::new();
        hashes.contains_all(&asked.collect::<Vec<_>>(), &mut held)?;
        truths.push(held.into_iter().map(u64::from).collect());
    }
    let reading = Reading {
        urirs: hashes.head().count,
        ..Reading::default()
    };
    Ok((truths, Arc::new(reading)))
}

/// For each sample of lookups, which of them are in the gathered holdings.
///
/// # Errors
/// If spilled rows can't be read.
pub fn truth_of_held(
    held_urirs: &mut Held,
    samples: &[Lookups],
    memory: usize,
    progress: &Progress,
) -> Result<Vec<Vec<bool>>> {
    let captures = captures_of_held(held_urirs, samples, memory, progress)?;
    Ok(captures.into_iter().map(held).collect())
}

/// For each sample of lookups, how many captures of each are in the gathered holdings.
fn captures_of_held(
    held: &mut Held,
    samples: &[Lookups],
    memory: usize,
    progress: &Progress,
) -> Result<Vec<Vec<u64>>> {
    let mut truths: Vec<Vec<u64>> = samples
        .iter()
        .map(|lookups| vec![0; lookups.len()])
        .collect();
    let join = Join { samples };
    let pass = Pass {
        memory: memory / 8,
        piece: 1 << 18,
        phase: Phase::LookingUp,
        progress,
    };
    reduce(held, &join, pass, |found, _| {
        for (truth, found) in truths.iter_mut().zip(found.held) {
            for (lookup, captures) in found {
                truth[lookup] = captures;
            }
        }
        Ok(())
    })?;
    Ok(truths)
}

/// Joins sorted holdings with sorted lookups.
struct Join<'a> {
    samples: &'a [Lookups],
}

/// The result of joining consecutive URI-Rs with the lookups of each sample.
struct Found {
    /// The next lookup that may match.
    next: Option<Vec<usize>>,
    /// Held lookups, with their captures.
    held: Vec<Vec<(usize, u64)>>,
}

impl Reduce for Join<'_> {
    type Part = Found;

    fn part(&self) -> Found {
        Found {
            next: None,
            held: vec![Vec::new(); self.samples.len()],
        }
    }

    fn run(&self, found: &mut Found, run: &Run) {
        let next = found.next.get_or_insert_with(|| {
            self.samples
                .iter()
                .map(|lookups| lookups.first_not_below(&run.surt))
                .collect()
        });
        for ((lookups, held), next) in self.samples.iter().zip(&mut found.held).zip(next) {
            while *next < lookups.len() && lookups.surt(*next) < &run.surt[..] {
                *next += 1;
            }
            // Several spellings of a URI can have the same SURT.
            while *next < lookups.len() && lookups.surt(*next) == run.surt {
                held.push((*next, run.counts.captures.max(1)));
                *next += 1;
            }
        }
    }
}
