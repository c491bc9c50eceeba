//! The prices and weights of an optimisation.

use super::choice::{ABSENT, OPEN, STATES};
use super::outline::{BY_POWER, HELD, HOLDS, LABELLED, Own};
use super::prior::Prior;
use super::top::Top;
use crate::map::write::Counting;

/// The price of a row: a constant, plus a part that grows with its last label or segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowPrice {
    pub(crate) row: f64,
    pub(crate) byte: f64,
}

impl RowPrice {
    /// Every row costs 1.
    pub(crate) const ONE: RowPrice = RowPrice {
        row: 1.0,
        byte: 0.0,
    };

    #[inline]
    pub(crate) fn of(self, own: &Own, rows: u64) -> f64 {
        (self.row + self.byte * f64::from(own.length)) * rows as f64
    }
}

/// The price of a void.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VoidPrice {
    /// No voids except those of the input map.
    Never,
    /// The price of any other row.
    Row,
    /// This price, though its size is one row.
    Fixed(f64),
}

/// The prices and weights of an optimisation.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    /// The price of a false positive.
    pub(crate) lambda: f64,
    /// The available states, in order of the probability that a miss is called present.
    pub(crate) states: Vec<usize>,
    pub(crate) row: RowPrice,
    pub(crate) void: VoidPrice,
    /// The size of a URI-R in a filter, by state.
    pub(crate) keys: [f64; STATES],
    pub(crate) expects: Expects<'a>,
    pub(crate) top: Top,
    pub(crate) counting: Counting,
    /// The price of a newcomer that is called absent, in false positives.
    pub(crate) miss: f64,
    /// How much of what was seen once is attributed to chance.
    pub(crate) luck: f64,
}

/// How the expected misses follow from those that were seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expects<'a> {
    pub(crate) prior: &'a Prior,
    /// Whether misses are shrunk towards the mean where they were seen: those at held nodes have a
    /// floor, and the others are weighted by the trust in them. If not, they count as seen, and the
    /// nearest node that holds something expects fewer.
    pub(crate) smooth: bool,
    /// The weight of held-out misses.
    pub(crate) aside: f64,
}

impl<'a> Expects<'a> {
    /// Those of a plain map: all misses count as seen.
    pub(crate) fn plain(prior: &'a Prior) -> Expects<'a> {
        Expects {
            prior,
            smooth: false,
            aside: 1.0,
        }
    }

    /// Expected misses at a node itself, and in addition to those seen at and below it.
    #[inline]
    pub(crate) fn misses(&self, own: &Own) -> (f64, f64) {
        let mut asked = own.asked + self.aside * own.aside;
        if own.is(HELD) {
            if !own.is(LABELLED) {
                asked = 0.0;
            }
            if self.smooth {
                // However few: otherwise keys without a filter would have no false positives.
                asked += self.prior.here();
            }
        } else if self.smooth {
            // The rest is included in the expectation of the nearest node that holds something.
            asked *= self.prior.trust();
        }
        let mut prior = match (own.is(BY_POWER), own.is(HOLDS)) {
            (true, _) => own.expected,
            (false, true) => self.prior.of_class(usize::from(own.class)),
            (false, false) => 0.0,
        };
        if !self.smooth && own.is(HOLDS) {
            let stray = own.stray + self.aside * own.stray_aside;
            prior -= (1.0 - self.prior.trust()) * stray;
        }
        (asked, prior)
    }
}

/// The states absent and open, with filters of some widths between them.
pub(crate) fn states(widths: impl DoubleEndedIterator<Item = u8>) -> Vec<usize> {
    let widths = widths.rev().map(usize::from);
    [ABSENT].into_iter().chain(widths).chain([OPEN]).collect()
}

impl Terms<'_> {
    /// How many of these misses are attributed to chance where a row turns them away.
    #[inline]
    pub(super) fn luck(&self, misses: f64) -> f64 {
        self.lambda * self.luck * misses / (misses + 1.0)
    }
}
