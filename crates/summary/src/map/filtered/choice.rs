//! What was decided for each place, whatever the rows above it say.
//!
//! Deciding ends at a place and does not know yet what the rows above it will say, so it decides for
//! every case. Few of these decisions are different: each is kept once, and places name theirs.

use std::collections::HashMap;

use crate::map::decision::Decisions;

/// What a row can say, and what is the case where there is none: nothing is present, what a filter of
/// so many bits knows, everything.
pub(crate) const STATES: usize = 18;
pub(crate) const ABSENT: usize = 0;
pub(crate) const OPEN: usize = 17;
/// The widest filter.
pub(crate) const WIDEST: u8 = 16;

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Nothing is present: a void.
    Absent,
    /// What the filter of this width knows.
    Filter(u8),
    /// Everything is present.
    Open,
}

impl Said {
    pub(crate) fn of(state: usize) -> Said {
        match state {
            ABSENT => Said::Absent,
            OPEN => Said::Open,
            width => Said::Filter(width as u8),
        }
    }

    pub(crate) fn state(self) -> usize {
        match self {
            Said::Absent => ABSENT,
            Said::Open => OPEN,
            Said::Filter(width) => usize::from(width),
        }
    }

    /// The width of the filter, if there is one.
    pub(crate) fn width(self) -> Option<u8> {
        match self {
            Said::Filter(width) => Some(width),
            _ => None,
        }
    }
}

/// What is done at a place. Sets of states have a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    /// What the wildcard row says, if one is written, and below what it is.
    pub(crate) wildcard: u8,
    pub(crate) wildcard_in: u32,
    /// Below what a void is written for all here and below.
    pub(crate) void_below_in: u32,
    /// What the exact row says, if one is written, and where what is said.
    pub(crate) exact: u8,
    pub(crate) exact_in: u32,
    /// Where what is said a void is written for just this.
    pub(crate) void_here_in: u32,
    /// The map came with a wildcard, or with a void for all here and below.
    pub(crate) given_wildcard: bool,
    pub(crate) given_void: bool,
}

impl Choice {
    /// What the wildcard row of the place says, if one is written below `above`.
    pub(crate) fn below(&self, above: Said) -> Option<Said> {
        let bit = 1 << above.state();
        if self.void_below_in & bit != 0 {
            Some(Said::Absent)
        } else if self.wildcard_in & bit != 0 {
            Some(Said::of(usize::from(self.wildcard)))
        } else {
            None
        }
    }

    /// What the exact row of the place says, if one is written where `said` is said.
    pub(crate) fn here(&self, said: Said) -> Option<Said> {
        let bit = 1 << said.state();
        if self.void_here_in & bit != 0 {
            Some(Said::Absent)
        } else if self.exact_in & bit != 0 {
            Some(Said::of(usize::from(self.exact)))
        } else {
            None
        }
    }
}

/// The choices of all places.
#[derive(Debug)]
pub(crate) struct Choices {
    places: Decisions<u32>,
    different: Vec<Choice>,
    numbers: HashMap<Choice, u32>,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            places: Decisions::default(),
            different: vec![Choice::default()],
            numbers: HashMap::from([(Choice::default(), 0)]),
        }
    }
}

impl Choices {
    pub(crate) fn set(&mut self, id: usize, choice: Choice) {
        let number = match self.numbers.get(&choice) {
            Some(&number) => number,
            None => {
                let number = self.different.len() as u32;
                self.different.push(choice);
                self.numbers.insert(choice, number);
                number
            }
        };
        self.places.set(id, number);
    }

    pub(crate) fn get(&self, id: usize) -> &Choice {
        &self.different[self.places.get(id) as usize]
    }
}
