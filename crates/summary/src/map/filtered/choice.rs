//! What was decided for each place, whatever the rows above it say.
//!
//! Deciding ends at a place and does not know yet what the rows above it will say, so it decides for
//! every case. Few of these decisions are different: each is kept once, and places name theirs by a
//! number. The numbers are kept as [`Decisions`] are, compressed, byte by byte: most are small, and the
//! same as their neighbours'.

use std::collections::HashMap;
use std::path::Path;

use crate::error::Result;
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

/// What is done at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    /// By what is said above: what a wildcard row says, if one is written.
    pub(crate) wildcard: [Option<Said>; STATES],
    /// By what is said here: what an exact row says, if one is written.
    pub(crate) exact: [Option<Said>; STATES],
    /// The map came with a wildcard, or with a void for all here and below.
    pub(crate) given_wildcard: bool,
    pub(crate) given_void: bool,
}

impl Choice {
    /// What the wildcard row of the place says, if one is written below `above`.
    pub(crate) fn below(&self, above: Said) -> Option<Said> {
        self.wildcard[above.state()]
    }

    /// What the exact row of the place says, if one is written where `said` is said.
    pub(crate) fn here(&self, said: Said) -> Option<Said> {
        self.exact[said.state()]
    }
}

/// The choices of all places.
#[derive(Debug)]
pub(crate) struct Choices {
    /// The bytes of the number of each place's choice, the lowest first.
    numbers: [Decisions; 4],
    different: Vec<Choice>,
    known: HashMap<Choice, u32>,
    /// The last one: many places alike follow each other.
    last: u32,
}

impl Choices {
    /// None yet. What does not fit into memory is put in `folder`.
    pub(crate) fn new(folder: &Path) -> Choices {
        Choices {
            numbers: std::array::from_fn(|_| Decisions::new(folder)),
            different: vec![Choice::default()],
            known: HashMap::from([(Choice::default(), 0)]),
            last: 0,
        }
    }

    /// Keeps the choice of a place, once for each.
    pub(crate) fn set(&mut self, id: usize, choice: Choice) {
        if choice != self.different[self.last as usize] {
            self.last = match self.known.get(&choice) {
                Some(&number) => number,
                None => {
                    let number = self.different.len() as u32;
                    self.different.push(choice);
                    self.known.insert(choice, number);
                    number
                }
            };
        }
        for (bytes, byte) in self.numbers.iter_mut().zip(self.last.to_le_bytes()) {
            bytes.set(id, byte);
        }
    }

    pub(crate) fn get(&self, id: usize) -> &Choice {
        let mut number = 0;
        for (at, bytes) in self.numbers.iter().enumerate() {
            // Higher bytes are zero as long as there are few choices.
            if at > 0 && self.different.len() >> (8 * at) == 0 {
                break;
            }
            number |= usize::from(bytes.get(id)) << (8 * at);
        }
        self.different.get(number).unwrap_or(&self.different[0])
    }

    /// Whether all that was set and got is right.
    ///
    /// # Errors
    /// When a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        self.numbers.iter().try_for_each(Decisions::intact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_different_choices_are_told_apart() {
        let choice = |number: usize| {
            let said = |digit: usize| (digit > 0).then(|| Said::of(digit));
            let mut choice = Choice::default();
            choice.wildcard[..3].copy_from_slice(&[
                said(number % 17),
                said(number / 17 % 17),
                said(number / 289 % 17),
            ]);
            choice
        };
        let of = |id: usize| choice(if id.is_multiple_of(3) { 0 } else { id % 4000 });
        let mut choices = Choices::new(&std::env::temp_dir());
        // Places are chosen for when they are closed: what is below before what is above.
        for id in (1..200_000).chain([0]) {
            choices.set(id, of(id));
        }
        assert!(choices.different.len() > 2000);
        assert!((0..200_000).all(|id| *choices.get(id) == of(id)));
        choices.intact().unwrap();
    }
}
