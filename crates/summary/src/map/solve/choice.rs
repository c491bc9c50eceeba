//! The decision at each node, for every possible state above it.
//!
//! The solver works from the leaves up and does not yet know the rows above a node, so it decides
//! for every state. Few of these decisions are distinct: each is stored once, and nodes refer to it
//! by number.

use std::collections::HashMap;
use std::path::Path;

use super::coding::{number, push_number};
use super::numbers::Numbers;
use super::outline::Section;
use crate::error::Result;

/// The states of a node, given by the nearest row at or above it: nothing is present, a filter of
/// this many bits decides, or everything is present.
pub(crate) const STATES: usize = 18;
pub(crate) const ABSENT: usize = 0;
pub(crate) const OPEN: usize = 17;
/// The widest filter.
pub(crate) const WIDEST: u8 = 16;

/// The chance that a miss is called present, by state.
pub(crate) const CHANCES: [f64; STATES] = {
    let mut chances = [1.0; STATES];
    chances[ABSENT] = 0.0;
    let mut width = 1;
    while width < OPEN {
        chances[width] = 1.0 / (1u64 << width) as f64;
        width += 1;
    }
    chances
};

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// Nothing is present: a void.
    Absent,
    /// What is in the filter of this width is present.
    Filter(u8),
    /// Everything is present.
    Open,
}

impl Verdict {
    pub(crate) fn of(state: usize) -> Verdict {
        match state {
            ABSENT => Verdict::Absent,
            OPEN => Verdict::Open,
            width => Verdict::Filter(width as u8),
        }
    }

    pub(crate) fn state(self) -> usize {
        match self {
            Verdict::Absent => ABSENT,
            Verdict::Open => OPEN,
            Verdict::Filter(width) => usize::from(width),
        }
    }

    /// The width of the filter, if there is one.
    pub(crate) fn width(self) -> Option<u8> {
        match self {
            Verdict::Filter(width) => Some(width),
            _ => None,
        }
    }
}

/// No row is written.
pub(crate) const NO_ROW: u8 = u8::MAX;

/// The rows to write at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    /// By the state above: the state of the wildcard row, if one is written.
    pub(crate) wildcard: [u8; STATES],
    /// By the state here: the state of the exact row, if one is written.
    pub(crate) exact: [u8; STATES],
    /// The input map has a wildcard here, or a void for everything at and below the node.
    pub(crate) given_wildcard: bool,
    pub(crate) given_void: bool,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            wildcard: [NO_ROW; STATES],
            exact: [NO_ROW; STATES],
            given_wildcard: false,
            given_void: false,
        }
    }
}

impl Choice {
    /// Rolls up the node if nothing is said above it.
    pub(crate) fn roll() -> Choice {
        let mut choice = Choice::default();
        choice.wildcard[ABSENT] = OPEN as u8;
        choice
    }

    /// The state of the node's wildcard row, if one is written below `above`.
    pub(crate) fn below(&self, above: Verdict) -> Option<Verdict> {
        let state = self.wildcard[above.state()];
        (state != NO_ROW).then(|| Verdict::of(usize::from(state)))
    }

    /// The state of the node's exact row, if one is written where the state is `verdict`.
    pub(crate) fn here(&self, verdict: Verdict) -> Option<Verdict> {
        let state = self.exact[verdict.state()];
        (state != NO_ROW).then(|| Verdict::of(usize::from(state)))
    }
}

/// Distinct choices.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    different: Vec<Choice>,
    known: HashMap<Choice, u32>,
    /// The last one: adjacent nodes are often similar.
    last: u32,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            different: vec![Choice::default()],
            known: HashMap::from([(Choice::default(), 0)]),
            last: 0,
        }
    }
}

impl Table {
    /// The number of a choice.
    pub(crate) fn number(&mut self, choice: &Choice) -> u32 {
        if *choice != self.different[self.last as usize] {
            self.last = match self.known.get(choice) {
                Some(&number) => number,
                None => {
                    let number = self.different.len() as u32;
                    self.different.push(*choice);
                    self.known.insert(*choice, number);
                    number
                }
            };
        }
        self.last
    }

    /// Appends all choices.
    pub(super) fn pack(&self, out: &mut Vec<u8>) {
        push_number(out, self.different.len() as u64);
        for choice in &self.different {
            out.extend_from_slice(&choice.wildcard);
            out.extend_from_slice(&choice.exact);
            out.push(u8::from(choice.given_wildcard) | u8::from(choice.given_void) << 1);
        }
    }

    /// Reads choices. `None` if the bytes are invalid.
    pub(super) fn unpack(rest: &mut &[u8]) -> Option<Table> {
        let mut table = Table {
            different: Vec::new(),
            known: HashMap::new(),
            last: 0,
        };
        for _ in 0..number(rest)? {
            let (bytes, behind) = rest.split_first_chunk::<{ 2 * STATES + 1 }>()?;
            let given = bytes[2 * STATES];
            let mut choice = Choice {
                given_wildcard: given & 1 != 0,
                given_void: given & 2 != 0,
                ..Choice::default()
            };
            choice.wildcard.copy_from_slice(&bytes[..STATES]);
            choice.exact.copy_from_slice(&bytes[STATES..2 * STATES]);
            table.different.push(choice);
            *rest = behind;
        }
        (!table.different.is_empty()).then_some(table)
    }

    pub(crate) fn get(&self, number: u32) -> &Choice {
        self.different
            .get(number as usize)
            .unwrap_or(&self.different[0])
    }
}

/// The choices of all nodes, by id.
#[derive(Debug)]
pub(crate) struct Choices<'a> {
    table: Table,
    numbers: Numbers,
    /// For grouped nodes: the outline, which knows the groups, and the choices of groups.
    groups: Option<(&'a Section, Vec<u32>)>,
}

impl<'a> Choices<'a> {
    /// No choices yet. Data that exceeds the memory limit spills to `folder`.
    pub(crate) fn new(folder: &Path) -> Choices<'a> {
        Choices {
            table: Table::default(),
            numbers: Numbers::new(folder),
            groups: None,
        }
    }

    /// With choices that are already numbered, and those of groups.
    pub(crate) fn of(
        table: Table,
        numbers: Numbers,
        outline: &'a Section,
        groups: Vec<u32>,
    ) -> Choices<'a> {
        Choices {
            table,
            numbers,
            groups: (!groups.is_empty()).then_some((outline, groups)),
        }
    }

    /// With choices that are already numbered, all of them by node.
    pub(crate) fn numbered(table: Table, numbers: Numbers) -> Choices<'a> {
        Choices {
            table,
            numbers,
            groups: None,
        }
    }

    /// Stores the choice of a node; each distinct choice only once.
    pub(crate) fn set(&mut self, id: usize, choice: &Choice) {
        let number = self.table.number(choice);
        self.numbers.set(id, number);
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> &Choice {
        if let Some((outline, groups)) = &self.groups
            && let Some(group) = outline.group_of(id)
        {
            return self
                .table
                .get(groups.get(group as usize).copied().unwrap_or(0));
        }
        self.table.get(self.numbers.get(id))
    }

    /// Whether everything was stored and read without errors.
    ///
    /// # Errors
    /// If a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        if let Some((outline, _)) = &self.groups {
            outline.intact()?;
        }
        self.numbers.intact()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_different_choices_are_told_apart() {
        let choice = |number: usize| {
            let digit = |digit: usize| if digit > 0 { digit as u8 } else { NO_ROW };
            let mut choice = Choice::default();
            choice.wildcard[..3].copy_from_slice(&[
                digit(number % 17),
                digit(number / 17 % 17),
                digit(number / 289 % 17),
            ]);
            choice
        };
        let of = |id: usize| choice(if id.is_multiple_of(3) { 0 } else { id % 4000 });
        let mut choices = Choices::new(&std::env::temp_dir());
        // A node is decided when it is closed: children before parents.
        for id in (1..200_000).chain([0]) {
            choices.set(id, &of(id));
        }
        assert!(choices.table.different.len() > 2000);
        assert!((0..200_000).all(|id| *choices.get(id) == of(id)));
        choices.intact().unwrap();
    }
}
