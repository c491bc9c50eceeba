//! Which lookups are truly held.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use waypost_index::input::Source;
use waypost_surt::Policy;

use super::lookups::Lookups;
use crate::error::{Error, Result};
use crate::filter::{Filter, Hasher};
use crate::holdings::{self, Consumer, Input, Reading, Run};
use crate::profile::Profile;
use crate::summary::{Answer, Summary};

/// What is held: an index, a list of URIs, hashes of them, or a profile of whole URIs.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// Where to read them.
    pub input: Input,
}

impl Holdings {
    /// For each sample of lookups, which of them are held; and how many URI-Rs are held at all.
    ///
    /// # Errors
    /// When the holdings cannot be read.
    pub fn truth(&self, samples: &[Lookups]) -> Result<(Vec<Vec<bool>>, Reading)> {
        if let [Source::File(path)] = &self.input.sources[..]
            && path.is_file()
            && Profile::is_one(path)?
        {
            return truth_of_profile(path, samples);
        }
        if let [source] = &self.input.sources[..]
            && let Some(hashes) = Filter::of_hashes(source)?
        {
            return truth_of_hashes(&hashes, samples);
        }
        let join = Join {
            samples,
            held: samples
                .iter()
                .map(|lookups| (0..lookups.len()).map(|_| AtomicBool::new(false)).collect())
                .collect(),
        };
        let reading = holdings::read(&self.input, None, &join)?;
        let held = join
            .held
            .into_iter()
            .map(|held| held.into_iter().map(AtomicBool::into_inner).collect())
            .collect();
        Ok((held, reading))
    }
}

fn truth_of_profile(path: &Path, samples: &[Lookups]) -> Result<(Vec<Vec<bool>>, Reading)> {
    let profile = Profile::open(path)?;
    if profile.policy() != Policy::Whole {
        return Err(Error::invalid(format!(
            "a profile of {} does not say which URIs are held: give the index, a list of URIs, or a profile of URIR",
            profile.policy()
        ))
        .in_file(path.display()));
    }
    let mut truths = Vec::new();
    for lookups in samples {
        let dialect = profile.about().dialect;
        if dialect != lookups.dialect() {
            return Err(Error::invalid(format!(
                "its SURTs are of the dialect {dialect}, but the lookups were read under {}",
                lookups.dialect()
            ))
            .in_file(path.display()));
        }
        let answers = profile.lookup_all(&lookups.lookups())?;
        let held = |answer: &Answer| answer.found().is_some();
        truths.push(answers.iter().map(held).collect());
    }
    let reading = Reading {
        urirs: profile.size().keys,
        ..Reading::default()
    };
    Ok((truths, reading))
}

fn truth_of_hashes(hashes: &Filter, samples: &[Lookups]) -> Result<(Vec<Vec<bool>>, Reading)> {
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
        let asked = lookups.iter().map(|(_, surt, _)| Hasher::Public.hash(surt));
        let mut held = Vec::new();
        hashes.contains_all(&asked.collect::<Vec<_>>(), &mut held)?;
        truths.push(held);
    }
    let reading = Reading {
        urirs: hashes.head().count,
        ..Reading::default()
    };
    Ok((truths, reading))
}

/// Joins sorted holdings with sorted lookups.
struct Join<'a> {
    samples: &'a [Lookups],
    held: Vec<Vec<AtomicBool>>,
}

/// For each sample, the next lookup that may be met.
struct Cursor {
    next: Option<Vec<usize>>,
}

impl Consumer for Join<'_> {
    type Part = Cursor;

    fn part(&self) -> Cursor {
        Cursor { next: None }
    }

    fn run(&self, cursor: &mut Cursor, run: &Run) {
        let next = cursor.next.get_or_insert_with(|| {
            self.samples
                .iter()
                .map(|lookups| lookups.first_not_below(&run.surt))
                .collect()
        });
        for ((lookups, held), next) in self.samples.iter().zip(&self.held).zip(next) {
            while *next < lookups.len() && lookups.surt(*next) < &run.surt[..] {
                *next += 1;
            }
            // Several spellings of a URI have one SURT.
            while *next < lookups.len() && lookups.surt(*next) == run.surt {
                held[*next].store(true, Ordering::Relaxed);
                *next += 1;
            }
        }
    }

    fn take(&self, _: Cursor, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn restart(&self) -> Result<()> {
        // What was found to be held is held, in whatever order it came.
        Ok(())
    }
}
