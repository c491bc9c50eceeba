//! What the archives answered to a lookup, together.

use std::time::Duration;

use waypost_memento::Memento;

/// What the archives answered to a lookup, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Mementos without duplicates, by datetime; equal ones in the order of the registry.
    pub mementos: Vec<Found>,
    /// What became of each archive that was to be asked, in the order of the registry.
    pub outcomes: Vec<Outcome>,
}

/// A memento and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The memento.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// This number of mementos.
    Mementos(usize),
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
}

impl Reply {
    /// Whether mementos of this archive may be missing.
    pub fn is_incomplete(&self) -> bool {
        !matches!(self, Reply::Mementos(_) | Reply::Nothing(_))
    }
}

impl Aggregate {
    /// The archives whose mementos may be missing.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let incomplete = |outcome: &&Outcome| outcome.reply.is_incomplete();
        let missing = self.outcomes.iter().filter(incomplete);
        missing.map(|outcome| outcome.archive)
    }
}
