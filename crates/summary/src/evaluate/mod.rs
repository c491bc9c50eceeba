//! How good summaries are: what they cost, and how often they are right about real lookups.
//!
//! ```text
//! lookups ─► SURTs, sorted ─┐
//!                           ├─► who is truly held ─► compare with what each summary says
//! holdings, sorted ─────────┘
//! ```
//!
//! Lookups and holdings are sorted once and joined; each summary is then read once.

mod later;
mod lookups;
mod truth;

pub use later::{Foreseen, Later, foresee, later};
pub use lookups::{Lookups, Shape};
pub use truth::{Holdings, truth_of_held};

use waypost_surt::Dialect;

use crate::error::{Error, Result};
use crate::frequency::{Frequency, Sureness};
use crate::summary::{Answer, Presence, Summary};

/// How often a summary was right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// Rightly called present.
    pub true_positives: u64,
    /// Wrongly called present.
    pub false_positives: u64,
    /// Rightly called absent.
    pub true_negatives: u64,
    /// Wrongly called absent.
    pub false_negatives: u64,
    /// Outside the summary's scope. They are sent on, and counted above as called present.
    pub unknown: u64,
}

impl Confusion {
    /// Counts lookups with the same truth and the same answer. What is unknown is sent on, as if it
    /// were present.
    pub fn count(&mut self, held: bool, answer: Presence, times: u64) {
        self.add(held, answer.is_possible(), times);
        if answer == Presence::Unknown {
            self.unknown += times;
        }
    }

    fn add(&mut self, held: bool, called_present: bool, times: u64) {
        *match (held, called_present) {
            (true, true) => &mut self.true_positives,
            (false, true) => &mut self.false_positives,
            (false, false) => &mut self.true_negatives,
            (true, false) => &mut self.false_negatives,
        } += times;
    }

    /// All lookups.
    pub fn lookups(&self) -> u64 {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// Lookups rightly called present or absent / all lookups.
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.true_positives + self.true_negatives, self.lookups())
    }

    /// Lookups truly present / lookups called present.
    pub fn precision(&self) -> Option<f64> {
        ratio(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// Lookups called present / lookups truly present.
    pub fn recall(&self) -> Option<f64> {
        ratio(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// Lookups called absent / all lookups: requests that need not be made.
    pub fn saved(&self) -> Option<f64> {
        ratio(self.true_negatives + self.false_negatives, self.lookups())
    }
}

/// `None` of nothing at all.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A summary, judged by one sample of lookups.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// How often it was right.
    pub confusion: Confusion,
    /// The same when keys with fewer captures are ignored, for each least number asked for.
    pub by_frequency: Vec<(u64, Confusion)>,
    /// Lookups that were wrongly called absent, as they were asked.
    pub false_negatives: Vec<Vec<u8>>,
    /// Lookups that have no SURT, and so no answer.
    pub rejected: u64,
}

/// Judges a summary by lookups whose truth is known.
///
/// # Errors
/// When the summary cannot be read, or its SURTs are of another dialect than the holdings'.
pub fn judge(
    summary: &dyn Summary,
    lookups: &Lookups,
    held: &[bool],
    weighted: bool,
    least: &[u64],
) -> Result<Verdict> {
    let dialect: Dialect = summary.about().dialect;
    if dialect != lookups.dialect() {
        return Err(Error::invalid(format!(
            "its SURTs are of the dialect {dialect}, but the lookups were read under {}",
            lookups.dialect()
        )));
    }
    let answers = summary.lookup_all(&lookups.lookups())?;
    let mut verdict = Verdict {
        confusion: Confusion::default(),
        by_frequency: least
            .iter()
            .map(|least| (*least, Confusion::default()))
            .collect(),
        false_negatives: Vec::new(),
        rejected: lookups.rejected(weighted),
    };
    for (((uri, _, times), answer), held) in lookups.iter().zip(&answers).zip(held) {
        let times = if weighted { times } else { 1 };
        verdict.confusion.count(*held, answer.presence(), times);
        for (least, confusion) in &mut verdict.by_frequency {
            let presence = match answer {
                Answer::Present(found) if !may_have(&found.frequency, *least) => Presence::Absent,
                answer => answer.presence(),
            };
            confusion.count(*held, presence, times);
        }
        if *held && *answer == Answer::Absent {
            verdict.false_negatives.push(uri.to_vec());
        }
    }
    Ok(verdict)
}

/// Whether there may be so many captures. What is not known may be anything.
fn may_have(frequency: &Frequency, least: u64) -> bool {
    frequency
        .captures
        .is_none_or(|captures| captures.value >= least || captures.sureness == Sureness::AtLeast)
}

/// Which of some points nothing beats: no other is both cheaper and better. Points are cost and
/// quality.
pub fn frontier(points: &[(f64, f64)]) -> Vec<bool> {
    points
        .iter()
        .map(|(cost, quality)| {
            !points.iter().any(|(other_cost, other_quality)| {
                other_cost <= cost
                    && other_quality >= quality
                    && (other_cost < cost || other_quality > quality)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_definitions() {
        let mut confusion = Confusion::default();
        confusion.count(true, Presence::Present, 3);
        confusion.count(false, Presence::Unknown, 1);
        confusion.count(false, Presence::Absent, 4);
        confusion.count(true, Presence::Absent, 2);
        assert_eq!(confusion.unknown, 1);
        assert_eq!(confusion.lookups(), 10);
        assert_eq!(confusion.accuracy(), Some(0.7));
        assert_eq!(confusion.precision(), Some(0.75));
        assert_eq!(confusion.recall(), Some(0.6));
        assert_eq!(confusion.saved(), Some(0.6));
        assert_eq!(Confusion::default().accuracy(), None);
    }

    #[test]
    fn nothing_on_the_frontier_is_beaten() {
        let points = [(1.0, 0.5), (2.0, 0.4), (3.0, 0.9), (1.0, 0.5), (3.0, 0.8)];
        assert_eq!(frontier(&points), [true, false, true, true, false]);
    }
}
