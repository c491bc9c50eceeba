//! What was asked of each archive since the start, for the page.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{Decision, Outcome, Reason, Registry, Reply};

/// What was asked of each archive since the start.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    lookups: u64,
    archives: HashMap<String, Tally>,
}

/// What was asked of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Lookups for which it was asked.
    pub(crate) asked: u64,
    /// Those for which it had something.
    pub(crate) hits: u64,
    /// Lookups for which it was not asked, because of what is known about its holdings.
    pub(crate) spared: u64,
    took: Duration,
    answered: u64,
}

impl Tally {
    /// The mean time until it answered.
    pub(crate) fn latency(&self) -> Option<Duration> {
        let answered = u32::try_from(self.answered).ok();
        answered.and_then(|answered| self.took.checked_div(answered))
    }
}

impl Tallies {
    /// Counts what became of a lookup.
    pub(crate) fn add(&self, registry: &Registry, decision: &Decision, outcomes: &[Outcome]) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.lookups += 1;
        for choice in &decision.choices {
            let Some(archive) = registry.archives.get(choice.archive) else {
                continue;
            };
            let mut outcomes = outcomes.iter();
            let outcome = outcomes.find(|outcome| outcome.archive == choice.archive);
            if outcome.is_none() && choice.reason == Reason::NotSelected {
                continue;
            }
            let tally = counts.archives.entry(archive.id.clone()).or_default();
            let Some(outcome) = outcome else {
                tally.spared += 1;
                continue;
            };
            tally.asked += 1;
            let found = matches!(outcome.reply, Reply::Mementos(_) | Reply::Partial(..));
            tally.hits += u64::from(found);
            if found || matches!(outcome.reply, Reply::Nothing(_)) {
                tally.answered += 1;
                tally.took += outcome.took;
            }
        }
    }

    /// The number of lookups for which archives were to be asked.
    pub(crate) fn lookups(&self) -> u64 {
        let counts = self.counts.lock();
        counts.unwrap_or_else(PoisonError::into_inner).lookups
    }

    /// What was asked of an archive.
    pub(crate) fn of(&self, id: &str) -> Tally {
        let counts = self.counts.lock();
        let counts = counts.unwrap_or_else(PoisonError::into_inner);
        counts.archives.get(id).copied().unwrap_or_default()
    }
}
