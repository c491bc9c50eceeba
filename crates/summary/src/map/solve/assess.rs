//! The totals of a solution: its rows, the URI-Rs of every filter, and the lookups it answers
//! wrongly.
//!
//! The outline is read backwards, so that parents come before their children and the state above a
//! node is known. For groups, the number of occurrences below each state is added up first, and
//! then each group is handled once. All sections are handled at the same time, after the spine.

use super::choice::{ABSENT, CHANCES, Choice, NO_ROW, STATES};
use super::fold::Folded;
use super::outline::{HELD, LABELLED, Own, Reader, SHARED, Section, VOID, VOID_BELOW, WILDCARD};
use super::parts::{self, changed};
use super::solution::{SectionChoices, Solution};
use super::spine::Outline;
use super::terms::Terms;
use crate::error::Result;

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

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.rows += other.rows;
        for (keys, more) in self.keys.iter_mut().zip(other.keys) {
            *keys += more;
        }
        self.wrong += other.wrong;
        self.judged += other.judged;
        self.missed += other.missed;
    }

    /// Adds folded subtrees.
    fn folded(&mut self, terms: &Terms<'_>, folded: &Folded, above: Above) {
        let (rows, wrong) = match above {
            Above::State(ABSENT) | Above::Locked => (folded.absent_rows, folded.absent_wrong),
            Above::State(state) => (folded.open_rows, CHANCES[state] * folded.open_wrong),
            Above::SourceMap(state) => (folded.open_rows, CHANCES[state] * folded.given_wrong),
        };
        self.rows += terms.row.row * rows as f64;
        self.wrong += wrong;
    }

    /// Adds this many identical nodes, and returns the state below them.
    fn node(
        &mut self,
        terms: &Terms<'_>,
        own: &Own,
        above: Above,
        choice: &Choice,
        times: f64,
    ) -> Above {
        let totals = self;
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
    let mut totals = Totals::default();
    let mut spine = vec![Above::State(ABSENT); outline.spine.len()];
    for (at, node) in outline.spine.iter().enumerate().rev() {
        let above = node
            .parent
            .map_or(Above::State(ABSENT), |parent| spine[parent]);
        let choice = &solution.spine[at];
        spine[at] = totals.node(terms, &node.own, above, choice, 1.0);
        totals.folded(terms, &node.folded, spine[at]);
    }
    let work = |number: usize| {
        let section = &*outline.sections.get(number)?;
        let choices = &*solution.sections()?.get(number)?;
        let above = outline.shared[number].iter().map(|&node| spine[node]);
        let assess = Assess {
            section,
            choices,
            terms,
            totals: Totals::default(),
            below: vec![[0.0; STATES]; section.groups().len()],
        };
        assess.totals(above.collect())
    };
    parts::each(outline.len(), outline.threads, work, |_, more| {
        totals.add(&more);
        Ok(())
    })?;
    Ok(totals)
}

struct Assess<'a> {
    section: &'a Section,
    choices: &'a SectionChoices,
    terms: &'a Terms<'a>,
    totals: Totals,
    /// How many of each group are below each state.
    below: Vec<[f64; STATES]>,
}

impl Assess<'_> {
    /// The totals of a section, given the states of the nodes of the spine that it shares.
    fn totals(mut self, mut shared: Vec<Above>) -> Result<Totals> {
        let (section, solution) = (self.section, self.choices);
        let mut slots = vec![Above::State(ABSENT); section.slots()];
        let mut reader = Reader::default();
        let (mut choices, mut starts) = (Vec::new(), Vec::new());
        for chunk in (0..section.chunks()).rev() {
            section.read(chunk, &mut reader)?;
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
                let node = reader.next(slots.len())?.ok_or_else(changed)?;
                let below = if node.own.is(SHARED) {
                    shared.pop().ok_or_else(changed)?
                } else {
                    let above = match node.slot {
                        0 => Above::State(ABSENT),
                        _ => slots[node.parent],
                    };
                    let choice = solution.choice(&choices, at);
                    self.totals.node(self.terms, &node.own, above, choice, 1.0)
                };
                slots[node.slot] = below;
                self.totals.folded(self.terms, &node.folded, below);
                for &(group, times) in &node.groups {
                    self.group(group, f64::from(times), below);
                }
            }
        }
        for group in (0..section.groups().len()).rev() {
            for state in 0..STATES {
                let times = self.below[group][state];
                if times > 0.0 {
                    self.expand(group as u32, times, Above::State(state));
                }
            }
        }
        Ok(self.totals)
    }
    /// Adds a group of identical subtrees.
    fn group(&mut self, group: u32, times: f64, above: Above) {
        match above {
            Above::State(state) => self.below[group as usize][state] += times,
            _ => self.expand(group, times, above),
        }
    }

    fn expand(&mut self, group: u32, times: f64, above: Above) {
        let section = self.section;
        let Some(members) = section.groups().get(group as usize) else {
            return;
        };
        let choice = self.choices.group(group);
        let below = (self.totals).node(self.terms, &members.own, above, choice, times);
        for &(child, more) in section.children_of(members) {
            self.group(child, times * f64::from(more), below);
        }
    }
}
