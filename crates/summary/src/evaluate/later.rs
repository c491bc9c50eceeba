//! What an archive captured after a summary was built.
//!
//! Exact keys and filters don't cover it; a wildcard may happen to. So it is evaluated separately:
//! for everything in a later index, and for what was not held before.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lookups::Lookups;
use crate::error::Result;
use crate::holdings::{self, Input, Reading, Reduce, Run};
use crate::summary::Summary;

/// The maximum number of URI-Rs to look up. If there are more, a sample is chosen by hash.
const MOST: usize = 1_000_000;

/// What was captured later.
#[derive(Debug)]
pub struct Later {
    /// Its URI-Rs, or a sample of them.
    pub lookups: Lookups,
    /// The number of all its URI-Rs.
    pub urirs: u64,
    /// What was read.
    pub reading: Reading,
}

/// How much of what was captured later a summary calls present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// URI-Rs looked up, and those called present.
    pub all: (u64, u64),
    /// The same for those that were not held before.
    pub newcomers: (u64, u64),
}

impl Foreseen {
    /// Recall on everything captured later, and on newcomers; `None` if there is nothing to look
    /// up.
    pub fn recall(&self) -> (Option<f64>, Option<f64>) {
        let ratio = |(all, present)| super::ratio(present, all);
        (ratio(self.all), ratio(self.newcomers))
    }
}

/// Reads what was captured later.
///
/// # Errors
/// If it can't be read.
pub fn later(input: &Input) -> Result<Later> {
    let mut gathered = Gathered::new();
    let reading = holdings::read(input, &Sample, |part, _| {
        gathered.take(part);
        Ok(())
    })?;
    Ok(Later {
        lookups: Lookups::of_surts(&gathered.kept, input.dialect),
        urirs: gathered.urirs,
        reading,
    })
}

/// Looks up what was captured later. `held` says which of it was held before.
///
/// # Errors
/// When the summary cannot be read.
pub fn foresee(summary: &dyn Summary, later: &Lookups, held: &[bool]) -> Result<Foreseen> {
    let mut foreseen = Foreseen::default();
    for (answer, held) in summary.lookup_all(&later.lookups())?.iter().zip(held) {
        let count = |(all, present): &mut (u64, u64)| {
            *all += 1;
            *present += u64::from(answer.presence().is_possible());
        };
        count(&mut foreseen.all);
        if !held {
            count(&mut foreseen.newcomers);
        }
    }
    Ok(foreseen)
}

/// Keeps the URI-Rs with the lowest hashes, up to the maximum.
struct Sample;

struct Gathered {
    kept: Vec<Vec<u8>>,
    /// Hashes up to this one are kept.
    most: u64,
    urirs: u64,
}

impl Gathered {
    fn new() -> Gathered {
        Gathered {
            kept: Vec::new(),
            most: u64::MAX,
            urirs: 0,
        }
    }

    fn take(&mut self, part: Vec<Vec<u8>>) {
        self.urirs += part.len() as u64;
        let most = self.most;
        self.kept
            .extend(part.into_iter().filter(|surt| hash(surt) <= most));
        while self.kept.len() > MOST {
            self.most /= 2;
            let most = self.most;
            self.kept.retain(|surt| hash(surt) <= most);
        }
    }
}

fn hash(surt: &[u8]) -> u64 {
    xxh3_64_with_seed(surt, 0x0001_a7e4)
}

impl Reduce for Sample {
    type Part = Vec<Vec<u8>>;

    fn part(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn run(&self, part: &mut Vec<Vec<u8>>, run: &Run) {
        part.push(run.surt.clone());
    }
}
