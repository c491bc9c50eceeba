//! Optimal pruning of the tree; the state is what the nearest row above says.
//!
//! With `g` URI-Rs held at a node, `a` misses expected there, and `p(s)` the probability that a
//! miss is called present in state `s` (0, 2^-bits, 1):
//!
//! ```text
//! own(s)  = keys(s)·g + λ·a·p(s), impossible if nothing is said and something held;
//!           or an exact row, that says the best there is
//! stay(s) = own(s) + Σ cost(s) of the children + λ·prior·p(s)
//! cost(s) = min( stay(s), a wildcard row + min over t of stay(t) )
//! ```
//!
//! A plain map has the states absent and open, and its size is its number of rows; a filtered map
//! has widths of 1 to 16 bits between them, and its size is in bytes. A row may be a void, which
//! says that nothing is held. Rows of the input map are binding: a wildcard can't be undone, and a
//! void is kept, with everything below it unchanged.
//!
//! A row that turns misses away was placed because of these misses, so the next sample will have
//! fewer of them there: of `k`, k²/(k+1) are expected again (for counts that follow an
//! inverse-square law), and the rest were chance. A row that calls less present than the row above
//! it pays for that.
//!
//! Newcomers are what an archive will add. In state `s`, a newcomer is called absent with
//! probability 1 - p(s), and that has a price, too.

use std::path::Path;

use super::choice::{CHANCES, Choice, NO_ROW, OPEN, STATES, Table};
use super::fold::Folded;
use super::outline::{
    FOLDED, HELD, HOLDS, Own, ROOT, Reader, SHARED, Section, VOID, VOID_BELOW, WILDCARD,
};
use super::parts::{self, Pack, Parts, changed};
use super::solution::{SectionChoices, Solution};
use super::spine::Outline;
use super::tape::Tape;
use super::terms::{Terms, VoidPrice};
use crate::error::Result;
use crate::map::write::Counting;

/// The least cost, and the size of the map that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Value {
    pub(crate) cost: f64,
    pub(crate) size: f64,
}

impl Value {
    const ZERO: Value = Value {
        cost: 0.0,
        size: 0.0,
    };

    #[inline]
    fn add(&mut self, other: Value, times: f64) {
        self.cost += times * other.cost;
        self.size += times * other.size;
    }
}

/// A value for each of `N` states.
#[derive(Clone, Copy, Debug)]
struct Values<const N: usize> {
    cost: [f64; N],
    size: [f64; N],
}

impl<const N: usize> Values<N> {
    const ZERO: Values<N> = Values::same(Value::ZERO);

    const fn same(value: Value) -> Values<N> {
        Values {
            cost: [value.cost; N],
            size: [value.size; N],
        }
    }

    #[inline]
    fn add(&mut self, other: &Values<N>, times: f64) {
        for rank in 0..N {
            self.cost[rank] += times * other.cost[rank];
            self.size[rank] += times * other.size[rank];
        }
    }

    #[inline]
    fn set(&mut self, rank: usize, value: Value) {
        self.cost[rank] = value.cost;
        self.size[rank] = value.size;
    }

    #[inline]
    fn get(&self, rank: usize) -> Value {
        Value {
            cost: self.cost[rank],
            size: self.size[rank],
        }
    }
}

/// The totals below a node, or at and below it, for `N` states.
#[derive(Clone, Copy, Debug)]
struct Below<const N: usize> {
    /// By the state above.
    values: Values<N>,
    /// URI-Rs, excluding those below voids of the input map.
    count: f64,
    /// Misses, as far as they were seen, and all that are expected.
    misses: f64,
    expected: f64,
    /// Rows below a void of the input map, all of which stay, and their misses.
    locked: Value,
    /// The same below a wildcard of the input map: only its voids stay.
    given: Value,
}

impl<const N: usize> Below<N> {
    const NOTHING: Below<N> = Below {
        values: Values::ZERO,
        count: 0.0,
        misses: 0.0,
        expected: 0.0,
        locked: Value::ZERO,
        given: Value::ZERO,
    };

    #[inline]
    fn add(&mut self, other: &Below<N>, times: f64) {
        self.values.add(&other.values, times);
        self.count += times * other.count;
        self.misses += times * other.misses;
        self.expected += times * other.expected;
        self.locked.add(other.locked, times);
        self.given.add(other.given, times);
    }

    /// Adds folded subtrees: of a map without filters, so there are only the first and the last
    /// state.
    #[inline]
    fn fold(&mut self, folded: &Folded, terms: &Terms<'_>) {
        let value = |rows: u64, wrong: f64| {
            let size = terms.row.row * rows as f64;
            let cost = size + terms.lambda * wrong;
            Value { cost, size }
        };
        let absent = value(folded.absent_rows, folded.absent_wrong);
        let open = value(folded.open_rows, folded.open_wrong);
        for (rank, value) in [(NOTHING, absent), (N - 1, open)] {
            self.values.cost[rank] += value.cost;
            self.values.size[rank] += value.size;
        }
        self.locked.add(absent, 1.0);
        self.given
            .add(value(folded.open_rows, folded.given_wrong), 1.0);
        self.expected += folded.open_wrong;
    }
}

/// A row that may be written.
struct Row {
    price: f64,
    /// Its cost and size as a void.
    void: f64,
    void_size: f64,
    /// What it pays for calling less present than the row above it.
    luck: f64,
}

/// Nodes with more URI-Rs than `most` keep their previous choices.
#[derive(Clone, Copy)]
pub(crate) struct Frozen<'a> {
    pub(crate) solution: &'a Solution,
    pub(crate) most: f64,
}

/// The states to solve for, by rank, in order of the probability that a miss is called present. The
/// first is absent. The last is open, and so are all ranks that are left over.
struct Solver<'a, const N: usize> {
    terms: &'a Terms<'a>,
    states: [usize; N],
    chances: [f64; N],
    keys: [f64; N],
}

/// The rank of absent.
const NOTHING: usize = 0;
/// No row is written.
const NONE: u8 = NO_ROW;

/// Which rows are written, by rank.
struct Chosen<const N: usize> {
    wildcard: [u8; N],
    exact: [u8; N],
    given_wildcard: bool,
    given_void: bool,
}

impl<'a, const N: usize> Solver<'a, N> {
    fn new(terms: &'a Terms<'a>) -> Solver<'a, N> {
        let states = std::array::from_fn(|rank| terms.states.get(rank).copied().unwrap_or(OPEN));
        Solver {
            terms,
            states,
            chances: states.map(|state| CHANCES[state]),
            keys: states.map(|state| terms.keys[state]),
        }
    }

    /// Converts choices from ranks to states.
    fn choice(&self, chosen: &Chosen<N>) -> Choice {
        let states = &self.states;
        let mut choice = Choice {
            given_wildcard: chosen.given_wildcard,
            given_void: chosen.given_void,
            ..Choice::default()
        };
        let of = |rank: u8| states.get(usize::from(rank)).map_or(NO_ROW, |&s| s as u8);
        for (rank, &state) in states.iter().enumerate() {
            choice.wildcard[state] = of(chosen.wildcard[rank]);
            choice.exact[state] = of(chosen.exact[rank]);
        }
        choice
    }

    /// The previous choices, by rank.
    fn frozen(&self, rows: &[u8; STATES]) -> [u8; N] {
        let rank_of = |state: u8| self.states.iter().position(|&s| s == usize::from(state));
        self.states
            .map(|state| rank_of(rows[state]).map_or(NONE, |rank| rank as u8))
    }

    /// The least cost of a node for each state above it, given what is below it.
    #[inline]
    fn node(&self, own: &Own, below: &mut Below<N>, frozen: Option<&Choice>) -> Chosen<N> {
        let terms = self.terms;
        let lambda = terms.lambda;
        let mut chosen = Chosen {
            wildcard: [NONE; N],
            exact: [NONE; N],
            given_wildcard: own.is(WILDCARD),
            given_void: own.is(VOID_BELOW),
        };
        if own.is(FOLDED) {
            self.wildcard(own, below, frozen, &mut chosen);
            return chosen;
        }
        let (asked, prior) = terms.expects.misses(own);
        below.misses += asked;
        below.expected += asked + prior;
        below.count += own.held as f64;
        let exact_row = terms.row.of(own, own.exact_rows.max(1));
        // Existing rows below a void or a wildcard.
        let there = u64::from(own.is(HELD) || own.is(VOID))
            + u64::from(own.is(WILDCARD) || own.is(VOID_BELOW));
        let there = terms.row.of(own, there);
        below.locked.size += there;
        below.locked.cost += there;
        if own.is(HELD) {
            below.locked.cost += lambda * asked;
        }
        if own.is(WILDCARD) {
            below.count = match terms.counting {
                Counting::Partition => below.count + own.given as f64,
                Counting::Accumulate => below.count.max(own.given as f64),
            };
        }
        if own.is(VOID_BELOW) {
            below.count = 0.0;
            below.given = below.locked;
            below.values = Values::same(below.locked);
            return chosen;
        }
        // Misses below an existing wildcard are kept as a cost of the state in which everything is
        // present.
        if own.is(VOID) {
            below.given.size += exact_row;
            below.given.cost += exact_row;
        } else {
            below.given.cost += lambda * asked;
        }
        if own.is(WILDCARD) {
            let row = terms.row.of(own, own.wildcard_rows);
            self.given_wildcard(below, prior, row, &mut chosen);
            return chosen;
        }
        // The node itself.
        let mut owns = Values::ZERO;
        if own.is(VOID) {
            owns = Values::same(Value {
                cost: exact_row,
                size: exact_row,
            });
        } else {
            let held = own.held as f64;
            for rank in 0..N {
                let size = self.keys[rank] * held;
                owns.size[rank] = size;
                owns.cost[rank] = size + lambda * self.chances[rank] * asked;
            }
            if own.is(HELD) && !own.is(ROOT) {
                owns.cost[NOTHING] = f64::INFINITY;
            }
            if !own.is(ROOT) && (own.is(HELD) || asked > 0.0 || frozen.is_some()) {
                let row = self.row(exact_row, own.is(HELD), !own.is(HELD), terms.luck(asked));
                let frozen = frozen.map(|frozen| self.frozen(&frozen.exact));
                self.rows(&mut owns, &row, frozen.as_ref(), &mut chosen.exact);
            }
        }
        let values = &mut below.values;
        for rank in 0..N {
            values.cost[rank] += owns.cost[rank] + lambda * self.chances[rank] * prior;
            values.size[rank] += owns.size[rank];
        }
        if own.fresh > 0.0 {
            for rank in 0..N {
                let missed = 1.0 - self.chances[rank];
                values.cost[rank] += lambda * terms.miss * missed * own.fresh;
            }
        }
        self.wildcard(own, below, frozen, &mut chosen);
        chosen
    }

    /// A row for everything at and below a node.
    #[inline]
    fn wildcard(
        &self,
        own: &Own,
        below: &mut Below<N>,
        frozen: Option<&Choice>,
        chosen: &mut Chosen<N>,
    ) {
        let Some(top) = own.top else {
            return;
        };
        let terms = self.terms;
        let price = terms.row.of(own, own.wildcard_rows);
        let opens = own.is(HOLDS) && terms.top >= top;
        let row = self.row(price, opens, !own.is(ROOT), terms.luck(below.misses));
        let frozen = frozen.map(|frozen| self.frozen(&frozen.wildcard));
        let (values, chosen) = (&mut below.values, &mut chosen.wildcard);
        self.rows(values, &row, frozen.as_ref(), chosen);
    }

    /// A wildcard of the input map: it gets the best state.
    fn given_wildcard(&self, below: &mut Below<N>, prior: f64, row: f64, chosen: &mut Chosen<N>) {
        let misses = below.given.cost - below.given.size + self.terms.lambda * prior;
        let mut says = Values::<N>::ZERO;
        let mut best = N - 1;
        for rank in (1..N).rev() {
            let size = self.keys[rank] * below.count + below.given.size;
            let cost = size + self.chances[rank] * misses;
            says.set(rank, Value { cost, size });
            if cost < says.cost[best] {
                best = rank;
            }
        }
        let mut with_row = says.get(best);
        with_row.add(
            Value {
                cost: row,
                size: row,
            },
            1.0,
        );
        for rank in 0..N {
            let stays = rank != NOTHING && says.cost[rank] <= with_row.cost;
            below
                .values
                .set(rank, if stays { says.get(rank) } else { with_row });
            if !stays {
                chosen.wildcard[rank] = best as u8;
            }
        }
    }

    #[inline]
    fn row(&self, price: f64, opens: bool, voids: bool, luck: f64) -> Row {
        let never = f64::INFINITY;
        Row {
            price: if opens { price } else { never },
            void: match (voids, self.terms.void) {
                (false, _) | (_, VoidPrice::Never) => never,
                (true, VoidPrice::Row) => price,
                (true, VoidPrice::Fixed(price)) => price,
            },
            void_size: price,
            luck,
        }
    }

    /// Writes a row where that is cheaper than none, with the cheapest state.
    ///
    /// A row with less than `s` pays `luck·(p(s) - p(t))`, one with more pays nothing. So the best
    /// of each kind is a minimum over the states before `s` and over those from `s` on.
    #[inline(always)]
    fn rows(
        &self,
        values: &mut Values<N>,
        row: &Row,
        frozen: Option<&[u8; N]>,
        chosen: &mut [u8; N],
    ) {
        if row.price == f64::INFINITY && row.void == f64::INFINITY {
            return;
        }
        let price = |rank: usize| if rank == NOTHING { row.void } else { row.price };
        let size = |rank: usize| match rank {
            NOTHING => row.void_size,
            _ => row.price,
        };
        let stays = *values;
        if let Some(frozen) = frozen {
            for rank in 0..N {
                let says = usize::from(frozen[rank]);
                if says < N && price(says).is_finite() {
                    let luck = row.luck * (self.chances[rank] - self.chances[says]).max(0.0);
                    values.cost[rank] = stays.cost[says] + price(says) + luck;
                    values.size[rank] = stays.size[says] + size(says);
                    chosen[rank] = says as u8;
                }
            }
            if stays.cost[NOTHING].is_finite() || values.cost[NOTHING].is_finite() {
                return;
            }
        }
        let mut more = [(f64::INFINITY, 0); N];
        let mut best = (f64::INFINITY, 0);
        for rank in (0..N).rev() {
            let cost = stays.cost[rank] + price(rank);
            if cost < best.0 {
                best = (cost, rank);
            }
            more[rank] = best;
        }
        let mut less = (f64::INFINITY, NOTHING);
        for rank in 0..N {
            let chance = row.luck * self.chances[rank];
            let mut best = more[rank];
            if less.0 + chance < best.0 {
                best = (less.0 + chance, less.1);
            }
            if best.0 < stays.cost[rank] {
                values.cost[rank] = best.0;
                values.size[rank] = stays.size[best.1] + size(best.1);
                chosen[rank] = best.1 as u8;
            }
            let cost = stays.cost[rank] + price(rank) - chance;
            if cost < less.0 {
                less = (cost, rank);
            }
        }
    }
}

/// Finds the least-cost map. Choices are kept if there is a folder for them.
pub(crate) fn solve(
    outline: &Outline,
    terms: &Terms<'_>,
    frozen: Option<Frozen<'_>>,
    keep: Option<&Path>,
) -> Result<Solution> {
    match terms.states.len() {
        ..=2 => solve_for::<2>(outline, terms, frozen, keep),
        3..=8 => solve_for::<8>(outline, terms, frozen, keep),
        _ => solve_for::<STATES>(outline, terms, frozen, keep),
    }
}

fn solve_for<const N: usize>(
    outline: &Outline,
    terms: &Terms<'_>,
    frozen: Option<Frozen<'_>>,
    keep: Option<&Path>,
) -> Result<Solution> {
    let solver = Solver::<N>::new(terms);
    let mut solution = Solution {
        lambda: terms.lambda,
        value: Value::default(),
        misses: 0.0,
        sections: None,
        spine: Vec::new(),
    };
    let mut found = |below: &Below<N>| {
        (solution.value, solution.misses) = (below.values.get(NOTHING), below.expected);
    };
    if !outline.is_in_pieces() {
        let section = outline.sections.get(0)?;
        let nodes = keep.map(Tape::new);
        let solved = solver.section(&section, 0, frozen, nodes)?;
        solved.root.iter().for_each(&mut found);
        solution.sections = solved.choices.map(Parts::Whole);
        return Ok(solution);
    }
    let mut packed = keep.map(Tape::new);
    // Partial sums are added in the order of the sections, whichever is solved first.
    let mut below = vec![Below::<N>::NOTHING; outline.spine.len()];
    let work = |number: usize| {
        let section = outline.sections.get(number)?;
        let nodes = keep.map(|_| Tape::in_memory());
        let solved = solver.section(&section, number, frozen, nodes)?;
        let mut bytes = Vec::new();
        if let Some(choices) = &solved.choices {
            choices.pack(&mut bytes)?;
        }
        Ok((solved.shared, bytes))
    };
    parts::each(
        outline.len(),
        outline.threads,
        work,
        |number, (shared, bytes)| {
            for (part, &node) in shared.iter().zip(&outline.shared[number]) {
                below[node].add(part, 1.0);
            }
            match &mut packed {
                Some(packed) => packed.push(&bytes),
                None => Ok(()),
            }
        },
    )?;
    let mut choices = Vec::with_capacity(outline.spine.len());
    for (at, node) in outline.spine.iter().enumerate() {
        let mut here = below[at];
        here.fold(&node.folded, terms);
        let count = here.count + node.own.held as f64;
        let frozen = frozen
            .filter(|frozen| count > frozen.most)
            .map(|frozen| &frozen.solution.spine[at]);
        let chosen = solver.node(&node.own, &mut here, frozen);
        choices.push(solver.choice(&chosen));
        match node.parent {
            Some(parent) => below[parent].add(&here, 1.0),
            None => found(&here),
        }
    }
    solution.spine = choices;
    solution.sections = packed.map(Parts::Packed);
    Ok(solution)
}

/// A section that was solved.
struct Solved<const N: usize> {
    /// What it has below each node of the spine, in the order of its tape.
    shared: Vec<Below<N>>,
    /// The root, if that is in the section.
    root: Option<Below<N>>,
    choices: Option<SectionChoices>,
}

impl<const N: usize> Solver<'_, N> {
    /// Solves a section. The choices of its nodes are written to `nodes`, if there is a tape.
    fn section(
        &self,
        section: &Section,
        number: usize,
        frozen: Option<Frozen<'_>>,
        mut nodes: Option<Tape>,
    ) -> Result<Solved<N>> {
        let mut table = Table::default();
        let mut groups = Vec::new();
        let mut solved: Vec<Below<N>> = Vec::with_capacity(section.groups().len());
        for group in section.groups() {
            let mut below = Below::NOTHING;
            for &(child, times) in section.children_of(group) {
                below.add(&solved[child as usize], f64::from(times));
            }
            let chosen = self.node(&group.own, &mut below, None);
            if nodes.is_some() {
                groups.push(table.number(&self.choice(&chosen)));
            }
            solved.push(below);
        }
        let frozen = match frozen {
            Some(frozen) => Some((frozen.solution.sections()?.get(number)?, frozen.most)),
            None => None,
        };
        let mut slots = vec![Below::<N>::NOTHING; section.slots()];
        let mut reader = Reader::default();
        let (mut numbers, mut before) = (Vec::new(), Vec::new());
        let (mut shared, mut root) = (Vec::new(), None);
        for chunk in 0..section.chunks() {
            section.read(chunk, &mut reader)?;
            if let Some((frozen, _)) = &frozen {
                frozen.read(chunk, &mut before)?;
            }
            numbers.clear();
            let mut at = 0;
            while let Some(node) = reader.next(slots.len())? {
                let (above, below) = slots.split_at_mut(node.slot);
                let below = &mut below[0];
                for &(group, times) in &node.groups {
                    let group = solved.get(group as usize).ok_or_else(changed)?;
                    below.add(group, f64::from(times));
                }
                below.fold(&node.folded, self.terms);
                let mut choice = 0;
                if node.own.is(SHARED) {
                    shared.push(*below);
                } else {
                    let count = below.count + node.own.held as f64;
                    let frozen = frozen
                        .as_ref()
                        .filter(|(_, most)| count > *most)
                        .map(|(frozen, _)| frozen.choice(&before, at));
                    let chosen = self.node(&node.own, below, frozen);
                    if nodes.is_some() {
                        choice = table.number(&self.choice(&chosen));
                    }
                    match above.get_mut(node.parent) {
                        Some(above) => above.add(below, 1.0),
                        None => root = Some(*below),
                    }
                }
                if nodes.is_some() {
                    numbers.extend_from_slice(&choice.to_le_bytes());
                }
                at += 1;
                *below = Below::NOTHING;
            }
            if let Some(nodes) = &mut nodes {
                nodes.push(&numbers)?;
            }
        }
        Ok(Solved {
            shared,
            root,
            choices: nodes.map(|nodes| SectionChoices {
                table,
                nodes,
                groups,
            }),
        })
    }
}
