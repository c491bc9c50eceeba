//! Evaluating summaries: what they cost, and how often they are right about real lookups.
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
mod order;
mod tally;
mod truth;

pub use later::{Foreseen, Later, foresee, later};
pub use lookups::{Lookups, Shape};
pub use truth::truth_of_held;

use rayon::prelude::*;
use waypost_surt::Dialect;

use crate::error::{Error, Result};
use crate::frequency::{Frequency, Sureness};
use crate::summary::{Answer, Presence, Summary};

/// How often a summary was right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// Held and called present (true positives).
    pub true_positives: u64,
    /// Not held but called present (false positives).
    pub false_positives: u64,
    /// Not held and called absent (true negatives).
    pub true_negatives: u64,
    /// Held but called absent (false negatives).
    pub false_negatives: u64,
    /// Outside the summary's scope. They have to be sent to the archive, so they are counted above
    /// as called present.
    pub unknown: u64,
}

impl Confusion {
    /// Counts lookups with the same truth and the same answer. Unknown counts as present.
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

    fn join(&mut self, other: &Confusion) {
        self.true_positives += other.true_positives;
        self.false_positives += other.false_positives;
        self.true_negatives += other.true_negatives;
        self.false_negatives += other.false_negatives;
        self.unknown += other.unknown;
    }

    /// All lookups.
    pub fn lookups(&self) -> u64 {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// Lookups correctly called present or absent / all lookups.
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.true_positives + self.true_negatives, self.lookups())
    }

    /// Held lookups called present / lookups called present.
    pub fn precision(&self) -> Option<f64> {
        ratio(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// Held lookups called present / held lookups.
    pub fn recall(&self) -> Option<f64> {
        ratio(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// Lookups called absent / all lookups: requests saved.
    pub fn saved(&self) -> Option<f64> {
        ratio(self.true_negatives + self.false_negatives, self.lookups())
    }
}

/// `None` if the denominator is 0.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The evaluation of a summary on one sample of lookups.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// How often it was right.
    pub confusion: Confusion,
    /// The same if keys with fewer captures are ignored, for each requested minimum.
    pub by_frequency: Vec<(u64, Confusion)>,
    /// Held lookups that were called absent, as given.
    pub false_negatives: Vec<Vec<u8>>,
    /// Lookups without a SURT, and so without an answer.
    pub rejected: u64,
}

/// Evaluates a summary on lookups whose truth is known.
///
/// # Errors
/// If the summary can't be read, or its dialect differs from that of the holdings.
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
    let none = || Verdict::none(least);
    let mut verdict = (lookups.par_iter(), &answers, held)
        .into_par_iter()
        .fold(none, |mut verdict, ((uri, _, times), answer, held)| {
            verdict.count(uri, *held, answer, if weighted { times } else { 1 });
            verdict
        })
        .reduce(none, Verdict::join);
    verdict.rejected = lookups.rejected(weighted);
    Ok(verdict)
}

impl Verdict {
    /// Before any lookup.
    fn none(least: &[u64]) -> Verdict {
        Verdict {
            confusion: Confusion::default(),
            by_frequency: least
                .iter()
                .map(|least| (*least, Confusion::default()))
                .collect(),
            false_negatives: Vec::new(),
            rejected: 0,
        }
    }

    fn count(&mut self, uri: &[u8], held: bool, answer: &Answer, times: u64) {
        self.confusion.count(held, answer.presence(), times);
        for (least, confusion) in &mut self.by_frequency {
            let presence = match answer {
                Answer::Present(found) if !may_have(&found.frequency, *least) => Presence::Absent,
                answer => answer.presence(),
            };
            confusion.count(held, presence, times);
        }
        if held && *answer == Answer::Absent {
            self.false_negatives.push(uri.to_vec());
        }
    }

    /// Adds the verdict on the lookups that follow.
    fn join(mut self, later: Verdict) -> Verdict {
        self.confusion.join(&later.confusion);
        let both = self.by_frequency.iter_mut().zip(&later.by_frequency);
        both.for_each(|((_, earlier), (_, later))| earlier.join(later));
        self.false_negatives.extend(later.false_negatives);
        self.rejected += later.rejected;
        self
    }
}

/// Whether there may be this many captures. An unknown number may be anything.
fn may_have(frequency: &Frequency, least: u64) -> bool {
    frequency
        .captures
        .is_none_or(|captures| captures.value >= least || captures.sureness == Sureness::AtLeast)
}

/// Marks the points, given as cost and quality, that are on the Pareto front: no other point is
/// both cheaper and better.
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
