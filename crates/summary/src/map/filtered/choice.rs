//! What was decided for each place, whatever the rows above it say.
//!
//! Deciding ends at a place and does not know yet what the rows above it will say, so it decides for
//! every case. Few of these decisions are different: each is kept once, and places name theirs.

use std::collections::HashMap;

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
    /// The number of each place's choice; the default one takes no room at the end.
    places: Vec<u32>,
    different: Vec<Choice>,
    numbers: HashMap<Choice, u32>,
    /// The last one: many places alike follow each other.
    last: u32,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            places: Vec::new(),
            different: vec![Choice::default()],
            numbers: HashMap::from([(Choice::default(), 0)]),
            last: 0,
        }
    }
}

impl Choices {
    pub(crate) fn set(&mut self, id: usize, choice: Choice) {
        if choice == self.different[self.last as usize] {
            return self.put(id, self.last);
        }
        let number = match self.numbers.get(&choice) {
            Some(&number) => number,
            None => {
                let number = self.different.len() as u32;
                self.different.push(choice);
                self.numbers.insert(choice, number);
                number
            }
        };
        self.last = number;
        self.put(id, number);
    }

    fn put(&mut self, id: usize, number: u32) {
        if id >= self.places.len() {
            if number == 0 {
                return;
            }
            // A quarter more, not twice as much.
            let length = (id + 1).max(self.places.len() + self.places.len() / 4);
            self.places.reserve_exact(length - self.places.len());
            self.places.resize(length, 0);
        }
        self.places[id] = number;
    }

    pub(crate) fn get(&self, id: usize) -> &Choice {
        let number = self.places.get(id).copied().unwrap_or(0);
        &self.different[number as usize]
    }
}
