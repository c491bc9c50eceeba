//! Subtrees in which nothing is rolled up, whatever the price.
//!
//! A wildcard saves rows and costs false positives. Where it would save none, as for a site with one
//! page, the subtree stays as it is at every price, and its cost is a straight line: its rows, plus
//! λ for every miss that they call present. Such lines are added up while the outline is built, and
//! the subtree itself is left out. This is possible only where rolling up is all there is to choose:
//! in maps without filters and without learned voids.

use super::outline::{BY_POWER, FOLDED, HELD, HOLDS, Own, ROOT, VOID, VOID_BELOW, WILDCARD};

/// The sum of such subtrees, by what the nearest row above them says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Folded {
    /// Rows, and misses that are called present, if nothing is said above.
    pub(crate) absent_rows: u64,
    pub(crate) absent_wrong: f64,
    /// The same below a wildcard. The rows are voids of the input map.
    pub(crate) open_rows: u64,
    pub(crate) open_wrong: f64,
    /// Misses below a wildcard of the input map, which expects none besides those that were seen.
    pub(crate) given_wrong: f64,
}

impl Folded {
    #[inline]
    pub(crate) fn add(&mut self, other: &Folded) {
        self.absent_rows += other.absent_rows;
        self.absent_wrong += other.absent_wrong;
        self.open_rows += other.open_rows;
        self.open_wrong += other.open_wrong;
        self.given_wrong += other.given_wrong;
    }

    /// Adds a node whose children have this sum. `misses` are those at the node itself, and those
    /// expected in addition. `None` if rows of the input map decide about the node.
    #[inline]
    pub(crate) fn with(&self, own: &Own, (asked, prior): (f64, f64)) -> Option<Folded> {
        let bound = own.is(WILDCARD | VOID_BELOW | ROOT);
        if bound || own.fresh != 0.0 || own.flags & (HELD | VOID) == HELD | VOID {
            return None;
        }
        let mut folded = *self;
        folded.open_wrong += prior;
        if own.is(VOID) {
            folded.absent_rows += 1;
            folded.open_rows += 1;
        } else {
            folded.open_wrong += asked;
            folded.given_wrong += asked;
            if own.is(HELD) {
                folded.absent_rows += own.exact_rows.max(1);
                folded.absent_wrong += asked;
            }
        }
        Some(folded)
    }

    /// Whether a node with this sum, its own included, stays as it is at every price.
    #[inline]
    pub(crate) fn stays(&self, own: &Own) -> bool {
        let rolls = own.top.is_some() && own.is(HOLDS);
        !rolls
            || (own.wildcard_rows + self.open_rows >= self.absent_rows
                && self.open_wrong >= self.absent_wrong)
    }
}

impl Own {
    /// What is left of a node that was added to a sum: the choice to roll it up.
    pub(crate) fn folded(&self) -> Own {
        Own {
            flags: self.flags & HOLDS | BY_POWER | FOLDED,
            top: self.top,
            wildcard_rows: self.wildcard_rows,
            length: self.length,
            ..Own::default()
        }
    }
}
