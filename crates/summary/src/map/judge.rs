//! Judging decisions by lookups that had no part in them.

use waypost_surt::Reach;

use super::decision::{Decisions, GIVEN_VOID, GIVEN_WILDCARD, ROLL, VOID_BELOW, VOID_HERE};
use super::pass::Pass;
use super::row::Row;
use super::sample::Asked;
use super::tree::{Place, Visitor};
use crate::error::Result;

/// Counts lookups set aside that are wrongly called present.
pub(crate) struct Judge<'a> {
    decisions: &'a Decisions,
    pub(crate) false_positives: f64,
}

/// What is said at a place.
pub(crate) struct Said {
    /// The nearest wildcard or void.
    open: bool,
    /// No void was learned here.
    given: bool,
    void: bool,
    held: bool,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(decisions: &'a Decisions) -> Judge<'a> {
        Judge {
            decisions,
            false_positives: 0.0,
        }
    }
}

impl Visitor for Judge<'_> {
    type Node = Said;

    fn open(&mut self, place: Place<'_>, parent: Option<&Said>) -> Said {
        let decision = self.decisions.get(place.id);
        let (open, given) = parent.map_or((false, false), |parent| (parent.open, parent.given));
        let has = |what: u8| decision & what != 0;
        let (open, given) = match (open, given) {
            _ if has(GIVEN_VOID) => (false, true),
            (_, true) => (open, true),
            _ if has(GIVEN_WILDCARD) => (true, true),
            (false, _) => (has(ROLL), false),
            (true, _) => (!has(VOID_BELOW), false),
        };
        Said {
            open,
            given,
            void: open && !given && has(VOID_HERE),
            held: false,
        }
    }

    fn close(&mut self, _: Place<'_>, _: Said, _: Option<&mut Said>) {}
}

impl Pass for Judge<'_> {
    fn row(&mut self, node: &mut Said, row: &Row<'_>, reach: Reach) -> Result<()> {
        if reach == Reach::Exact {
            node.void |= row.frequency.is_void();
            node.held |= !row.frequency.is_void();
        }
        Ok(())
    }

    fn lookups(&mut self, node: &mut Said, asked: &Asked) {
        let in_vain = asked.labelled || !node.held;
        if in_vain && !node.void && (node.open || node.held) {
            self.false_positives += asked.aside;
        }
    }
}
