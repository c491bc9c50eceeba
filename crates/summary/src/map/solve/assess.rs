//! The totals of a solution: its rows, the URI-Rs of every filter, and the lookups it answers
//! wrongly.
//!
//! The outline is read backwards, so that parents come before their children and the state above a
//! node is known. For groups, the number of occurrences below each state is added up first, and
//! then each group is handled once.

use super::choice::{ABSENT, CHANCES, Choice, NO_ROW, STATES};
use super::fold::Folded;
use super::outline::{HELD, LABELLED, Outline, Own, Reader, VOID, VOID_BELOW, WILDCARD};
use super::solution::Solution;
use super::terms::Terms;
use crate::error::{Error, Result};

/// Totals of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// The size of the rows, by their price.
    pub(crate) rows: f64,
    /// URI-Rs by the state that decides them.
    pub(crate) keys: [f64; STATES],
    /// Expected misses that are called present.
    pub(crate) wrong: f64,
    /// Held-out misses that are called present.
    pub(crate) judged: f64,
    /// Expected newcomers that are called absent.
    pub(crate) missed: f64,
}

/// The state above a node.
#[derive(Clone, Copy)]
enum Above {
    State(usize),
    /// Set by a wildcard of the input map.
    SourceMap(usize),
    /// A void of the input map: all rows stay.
    Locked,
}

/// Adds up the totals of a solution.
pub(crate) fn assess(outline: &Outline, solution: &Solution, terms: &Terms<'_>) -> Result<Totals> {
    let mut assess = Assess {
        outline,
        solution,
        terms,
        totals: Totals::default(),
        below: vec![[0.0; STATES]; outline.groups().len()],
    };
    let mut slots = vec![Above::State(ABSENT); outline.slots()];
    let mut reader = Reader::default();
    let (mut choices, mut starts) = (Vec::new(), Vec::new());
    for chunk in (0..outline.chunks()).rev() {
        outline.read(chunk, &mut reader)?;
        solution.read(chunk, &mut choices)?;
        starts.clear();
        loop {
            let start = reader.position();
            if reader.next(slots.len())?.is_none() {
                break;
            }
            starts.push(start);
        }
        for (at, &start) in starts.iter().enumerate().rev() {
            reader.seek(start);
            let Some(node) = reader.next(slots.len())? else {
                return Err(Error::invalid("a temporary file was changed"));
            };
            let above = match node.slot {
                0 => Above::State(ABSENT),
                _ => slots[node.parent],
            };
            let below = assess.node(&node.own, above, solution.choice(&choices, at), 1.0);
            slots[node.slot] = below;
            assess.folded(&node.folded, below);
            for &(group, times) in &node.groups {
                assess.group(group, f64::from(times), below);
            }
        }
    }
    for group in (0..outline.groups().len()).rev() {
        for state in 0..STATES {
            let times = assess.below[group][state];
            if times > 0.0 {
                assess.expand(group as u32, times, Above::State(state));
            }
        }
    }
    Ok(assess.totals)
}

struct Assess<'a> {
    outline: &'a Outline,
    solution: &'a Solution,
    terms: &'a Terms<'a>,
    totals: Totals,
    /// How many of each group are below each state.
    below: Vec<[f64; STATES]>,
}

impl Assess<'_> {
    /// Adds a group of identical subtrees.
    fn group(&mut self, group: u32, times: f64, above: Above) {
        match above {
            Above::State(state) => self.below[group as usize][state] += times,
            _ => self.expand(group, times, above),
        }
    }

    /// Adds folded subtrees.
    fn folded(&mut self, folded: &Folded, above: Above) {
        let (rows, wrong) = match above {
            Above::State(ABSENT) | Above::Locked => (folded.absent_rows, folded.absent_wrong),
            Above::State(state) => (folded.open_rows, CHANCES[state] * folded.open_wrong),
            Above::SourceMap(state) => (folded.open_rows, CHANCES[state] * folded.given_wrong),
        };
        self.totals.rows += self.terms.row.row * rows as f64;
        self.totals.wrong += wrong;
    }

    fn expand(&mut self, group: u32, times: f64, above: Above) {
        let outline = self.outline;
        let Some(members) = outline.groups().get(group as usize) else {
            return;
        };
        let choice = *self.solution.group(group);
        let below = self.node(&members.own, above, &choice, times);
        for &(child, more) in &members.children {
            self.group(child, times * f64::from(more), below);
        }
    }

    /// Adds this many identical nodes, and returns the state below them.
    fn node(&mut self, own: &Own, above: Above, choice: &Choice, times: f64) -> Above {
        let terms = self.terms;
        let totals = &mut self.totals;
        let aside = match own.is(LABELLED) || !own.is(HELD) {
            true => times * own.aside,
            false => 0.0,
        };
        let (asked, prior) = terms.expects.misses(own);
        let (asked, prior) = (times * asked, times * prior);
        let held = times * own.held as f64;
        let price = |rows: u64| times * terms.row.of(own, rows);
        let state = match above {
            _ if own.is(VOID_BELOW) || matches!(above, Above::Locked) => {
                let there = u64::from(own.is(HELD) || own.is(VOID))
                    + u64::from(own.is(WILDCARD) || own.is(VOID_BELOW));
                totals.rows += price(there);
                if own.is(HELD) {
                    totals.wrong += asked;
                    totals.judged += aside;
                }
                return Above::Locked;
            }
            Above::SourceMap(state) => {
                if own.is(VOID) {
                    totals.rows += price(1);
                } else {
                    totals.keys[state] += held;
                    totals.wrong += CHANCES[state] * asked;
                    totals.judged += CHANCES[state] * aside;
                }
                return above;
            }
            Above::Locked => return above,
            Above::State(state) => state,
        };
        let below = match choice.wildcard[state] {
            NO_ROW => state,
            says => {
                totals.rows += price(own.wildcard_rows);
                usize::from(says)
            }
        };
        totals.missed += times * (1.0 - CHANCES[below]) * own.fresh;
        totals.wrong += CHANCES[below] * prior;
        if own.is(WILDCARD) {
            totals.keys[below] += times * own.given as f64;
            if !own.is(VOID) {
                totals.keys[below] += held;
                totals.wrong += CHANCES[below] * asked;
                totals.judged += CHANCES[below] * aside;
            }
            return Above::SourceMap(below);
        }
        let here = match choice.exact[below] {
            NO_ROW => below,
            says => {
                totals.rows += price(own.exact_rows.max(1));
                usize::from(says)
            }
        };
        if own.is(VOID) {
            totals.rows += price(1);
        } else {
            totals.keys[here] += held;
            totals.wrong += CHANCES[here] * asked;
            totals.judged += CHANCES[here] * aside;
        }
        Above::State(below)
    }
}
