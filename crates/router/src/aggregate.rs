//! What the archives answered to a lookup, together.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_memento::Memento;

/// What the archives answered to a lookup, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Mementos without duplicates, by datetime; equal ones in the order of the registry.
    pub mementos: Vec<Found>,
    /// What became of each archive that was to be asked, in the order of the registry.
    pub outcomes: Vec<Outcome>,
    /// Archives that were not asked because of their summaries: their places, and what identifies the
    /// summaries.
    pub left_out: Vec<(usize, u64)>,
}

/// A memento and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The memento. What it was among those of its archive (first, last, …) is not kept.
    pub memento: Memento,
    /// The place of its archive in the registry.
    pub archive: usize,
}

/// What became of an archive that was to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its place in the registry.
    pub archive: usize,
    /// How long it took.
    pub took: Duration,
    /// What it answered.
    pub reply: Reply,
}

/// What an archive answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply {
    /// This number of mementos.
    Mementos(usize),
    /// This number of mementos, but there may be more: why.
    Partial(usize, String),
    /// It has none, and said so with this status.
    Nothing(u16),
    /// It failed with this status.
    Status(u16),
    /// It could not be reached, or its answer could not be read.
    Failed(String),
    /// It did not answer in time.
    Late,
    /// It was not asked, because of its limits or of earlier failures.
    Spared(String),
    /// It failed, but this number of mementos is known from an earlier answer: why it failed.
    Kept(usize, String),
}

impl Reply {
    /// Whether mementos of this archive may be missing.
    pub fn is_incomplete(&self) -> bool {
        !matches!(self, Reply::Mementos(_) | Reply::Nothing(_))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Mementos(count) => write!(f, "{count} mementos"),
            Reply::Partial(count, why) => write!(f, "only {count} mementos: {why}"),
            Reply::Nothing(status) => write!(f, "no mementos (status {status})"),
            Reply::Status(status) => write!(f, "status {status}"),
            Reply::Failed(why) => f.write_str(why),
            Reply::Late => f.write_str("no answer in time"),
            Reply::Spared(why) => write!(f, "not asked: {why}"),
            Reply::Kept(count, why) => write!(f, "{count} mementos of an earlier answer: {why}"),
        }
    }
}

impl Aggregate {
    /// The archives whose mementos may be missing.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let incomplete = |outcome: &&Outcome| outcome.reply.is_incomplete();
        let missing = self.outcomes.iter().filter(incomplete);
        missing.map(|outcome| outcome.archive)
    }

    /// Whether nothing is known: archives were to be asked, and none of them has answered.
    pub fn is_unknown(&self) -> bool {
        !self.outcomes.is_empty() && self.missing().count() == self.outcomes.len()
    }
}
