//! Judging choices by lookups that had no part in them.

use waypost_surt::Reach;

use super::choice::{Choices, Said};
use super::cost::CHANCES;
use crate::error::Result;
use crate::map::pass::Pass;
use crate::map::row::Row;
use crate::map::sample::Asked;
use crate::map::tree::{Place, Visitor};

/// Adds up the chances that lookups set aside are wrongly called present.
pub(crate) struct Judge<'a> {
    choices: &'a Choices,
    pub(crate) wrong: f64,
}

/// What is said below a place, and of the place itself.
pub(crate) struct Judged {
    below: Said,
    here: Said,
    held: bool,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(choices: &'a Choices) -> Judge<'a> {
        Judge {
            choices,
            wrong: 0.0,
        }
    }
}

impl Visitor for Judge<'_> {
    type Node = Judged;

    fn open(&mut self, place: Place<'_>, parent: Option<&Judged>) -> Judged {
        let above = parent.map_or(Said::Absent, |parent| parent.below);
        let choice = self.choices.get(place.id);
        let below = match choice.given_void {
            true => Said::Absent,
            false => choice.below(above).unwrap_or(above),
        };
        Judged {
            below,
            here: choice.here(below).unwrap_or(below),
            held: false,
        }
    }

    fn close(&mut self, _: Place<'_>, _: Judged, _: Option<&mut Judged>) {}
}

impl Pass for Judge<'_> {
    fn row(&mut self, node: &mut Judged, row: &Row<'_>, reach: Reach) -> Result<()> {
        node.held |= reach == Reach::Exact && !row.frequency.is_void();
        Ok(())
    }

    fn lookups(&mut self, node: &mut Judged, asked: &Asked) {
        if asked.labelled || !node.held {
            self.wrong += CHANCES[node.here.state()] * asked.aside;
        }
    }
}
