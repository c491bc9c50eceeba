//! What was decided about a lookup, and about each archive.

use std::sync::Arc;
use std::time::Duration;

use waypost_summary::{Frequency, Presence};

use super::learned::Expectation;
use super::rules::Hindrance;

/// Which archives are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// All archives of the registry: those that are asked first, in the order in which they are to be
    /// asked, then those that are asked if the first had nothing, then the others.
    pub choices: Vec<Choice>,
}

impl Decision {
    /// The archives that are asked first.
    pub fn asked(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(|choice| choice.asked)
    }

    /// The archives that are asked if the first had nothing.
    pub fn asked_later(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(|choice| choice.later)
    }
}

/// What was decided about an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its place in the registry.
    pub archive: usize,
    /// Whether it is asked.
    pub asked: bool,
    /// Whether it is asked if those that are asked first have nothing.
    pub later: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// What its summaries say.
    pub presence: Presence,
    /// The summary that decides.
    pub summary: Option<Arc<str>>,
    /// The key of that summary that decides.
    pub key: Option<Vec<u8>>,
    /// The frequency of that key.
    pub frequency: Option<Frequency>,
    /// The age of that summary.
    pub age: Option<Duration>,
    /// Why a summary that can't be trusted can't.
    pub problem: Option<Arc<str>>,
    /// How many mementos are expected; `None` if nothing is known.
    pub estimate: Option<f64>,
    /// How long the archive is expected to take.
    pub latency: Option<Duration>,
    /// How far its mementos are at least away from the datetime that is asked for.
    pub away: Duration,
    /// The share of its captures under the key that are what the client prefers, if that is known.
    pub share: Option<f64>,
    /// The learned chance that it has something, if that may leave it out.
    pub(super) chance: Option<f64>,
}

/// Why an archive is asked or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has no summary, or none that covers the lookup.
    Unknown,
    /// All summaries that cover the lookup are older than the registry allows.
    Stale,
    /// A summary can't be read or trusted.
    Damaged,
    /// A keyed filter can't be read without its secret.
    NeedsSecret,
    /// A summary says that it may hold something.
    Present,
    /// A summary says that it holds nothing.
    Absent,
    /// A summary says that it holds nothing, but it is asked to see whether that is true.
    Probe,
    /// Its patterns in the registry exclude the URI.
    Pattern,
    /// It has no captures of that time, according to the registry.
    Period,
    /// It does not show captures of that time yet, according to the registry.
    Embargo,
    /// A summary says that it has something, but nothing that is near that time.
    Time,
    /// It has seldom had anything like this, and the configuration accepts a recall below 1.
    Unlikely,
    /// Others are more promising.
    Rest,
    /// The client did not select it.
    NotSelected,
}

impl Reason {
    /// The reason in a word.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Unknown => "unknown",
            Reason::Stale => "stale",
            Reason::Damaged => "damaged",
            Reason::NeedsSecret => "needs-secret",
            Reason::Present => "present",
            Reason::Absent => "absent",
            Reason::Probe => "probe",
            Reason::Pattern => "pattern",
            Reason::Period => "period",
            Reason::Embargo => "embargo",
            Reason::Time => "time",
            Reason::Unlikely => "unlikely",
            Reason::Rest => "rest",
            Reason::NotSelected => "not-selected",
        }
    }
}

impl Choice {
    pub(super) fn unknown(archive: usize) -> Choice {
        Choice {
            archive,
            asked: false,
            later: false,
            reason: Reason::Unknown,
            presence: Presence::Unknown,
            summary: None,
            key: None,
            frequency: None,
            age: None,
            problem: None,
            estimate: None,
            latency: None,
            away: Duration::ZERO,
            share: None,
            chance: None,
        }
    }

    /// When it is asked: first, later, or not at all.
    pub(super) fn round(&self) -> u8 {
        match (self.asked, self.later) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    }

    /// Others come first.
    pub(super) fn postpone(&mut self, reason: Reason) {
        self.asked = false;
        self.later = true;
        self.reason = reason;
    }

    /// A rule of the registry keeps it from being asked first.
    pub(super) fn hinder(&mut self, hindrance: Hindrance, away: Duration) {
        self.away = self.away.max(away);
        self.asked = false;
        self.later = hindrance != Hindrance::Pattern;
        self.reason = match hindrance {
            Hindrance::Pattern => Reason::Pattern,
            Hindrance::Period => Reason::Period,
            Hindrance::Embargo => Reason::Embargo,
        };
        if hindrance == Hindrance::Pattern {
            self.presence = Presence::Absent;
            self.estimate = Some(0.0);
        }
    }

    /// A summary can't answer. Another one still may.
    pub(super) fn blame(&mut self, reason: Reason, summary: &Arc<str>) {
        self.reason = reason;
        self.summary = Some(Arc::clone(summary));
    }

    /// Estimates the number of mementos from the frequency of the key and from what was learned.
    pub(super) fn expect(&mut self, expected: &Expectation, probability: f64) {
        let counted = self.frequency.and_then(|frequency| {
            let captures = frequency.captures?.value as f64;
            let exact = self.key.as_ref().is_some_and(|key| !key.ends_with(b"*"));
            match frequency.urirs {
                Some(urirs) if urirs.value > 0 => Some(captures / urirs.value as f64),
                _ => exact.then_some(captures),
            }
        });
        let mementos = counted.or(expected.mementos);
        self.estimate = match self.presence {
            Presence::Absent => Some(0.0),
            Presence::Present => {
                // What the client does not prefer is still better than nothing.
                let liked = self.share.map_or(1.0, |share| share.max(0.01));
                Some(liked * mementos.unwrap_or(1.0) * expected.chance.unwrap_or(1.0))
            }
            Presence::Unknown => {
                let chance = expected
                    .chance
                    .or((probability > 0.0).then_some(probability.min(1.0)));
                chance.map(|chance| chance * mementos.unwrap_or(1.0))
            }
        };
    }
}

/// Leaves out the least likely archives, as long as all of them together are not expected to hold more
/// than what the recall allows to miss.
pub(super) fn leave_out_unlikely(choices: &mut [Choice], recall: f64) {
    let regular = |choice: &Choice| choice.asked && choice.reason != Reason::Probe;
    // Those about which too little is known may hold anything.
    let chance = |choice: &Choice| choice.chance.unwrap_or(1.0);
    let total: f64 = choices.iter().filter(|c| regular(c)).map(chance).sum();
    let mut may_miss = (1.0 - recall) * total;
    let mut order: Vec<usize> = (0..choices.len())
        .filter(|&at| regular(&choices[at]) && choices[at].chance.is_some())
        .collect();
    order.sort_by(|&a, &b| chance(&choices[a]).total_cmp(&chance(&choices[b])));
    for at in order {
        may_miss -= chance(&choices[at]);
        if may_miss < 0.0 {
            break;
        }
        choices[at].asked = false;
        choices[at].reason = Reason::Unlikely;
    }
}
