//! Optimal pruning of the tree, with what the nearest row above says as the state.
//!
//! With `g` URI-Rs held at a node and `a` misses to be expected there, and `p(s)` the chance that a miss
//! is called present where `s` is said (0, 2^-bits, 1):
//!
//! ```text
//! own(s)  = keys(s)·g + λ·a·p(s), impossible if nothing is said and something held;
//!           or an exact row, that says the best there is
//! stay(s) = own(s) + Σ cost(s) of the children + λ·prior·p(s)
//! cost(s) = min( stay(s), a wildcard row + min over t of stay(t) )
//! ```
//!
//! A plain map has the states absent and open, its size is its rows; a filtered map has widths of 1 to
//! 16 bits between them, its size is in bytes. A row may be a void: it says that nothing is there. Rows
//! that the map came with bind: a wildcard cannot be undone, and a void is kept, with everything below
//! it as it is.
//!
//! Where a row stands that turns misses away was chosen because of these misses, so the next sample has
//! fewer of them there: of `k`, as of things whose numbers fall with their square, k²/(k+1) are to be
//! expected, and the rest came by chance. A row that says less than what is said above it pays for that.
//!
//! Newcomers are what an archive will hold tomorrow. What is said `s` misses them with the chance
//! 1 - p(s), and each that is missed has a price, too.

use super::choice::{ABSENT, CHANCES, Choice, Choices, OPEN, STATES, Table};
use super::numbers::Numbers;
use super::outline::{
    BY_POWER, HELD, HOLDS, LABELLED, Outline, Own, ROOT, Reader, VOID, VOID_BELOW, WILDCARD,
};
use crate::error::{Error, Result};
use crate::map::prior::Prior;
use crate::map::tape::Tape;
use crate::map::top::Top;
use crate::map::write::Counting;

/// What a row costs: something, and more if its last label or segment is long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowPrice {
    pub(crate) row: f64,
    pub(crate) byte: f64,
}

impl RowPrice {
    /// Rows are counted.
    pub(crate) const ONE: RowPrice = RowPrice {
        row: 1.0,
        byte: 0.0,
    };

    #[inline]
    pub(crate) fn of(self, own: &Own, rows: u64) -> f64 {
        (self.row + self.byte * f64::from(own.length)) * rows as f64
    }
}

/// What a void costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VoidPrice {
    /// There are none but those that the map came with.
    Never,
    /// As much as any row.
    Row,
    /// So much, though it is one row.
    Fixed(f64),
}

/// What everything is priced by.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    /// What a false positive costs.
    pub(crate) lambda: f64,
    /// What rows can say, in the order of the chance that a miss is called present.
    pub(crate) states: Vec<usize>,
    pub(crate) row: RowPrice,
    pub(crate) void: VoidPrice,
    /// What a URI-R takes in a filter, by state.
    pub(crate) keys: [f64; STATES],
    pub(crate) prior: &'a Prior,
    /// Whether misses at held nodes have a floor, however few were seen.
    pub(crate) floor: bool,
    /// How much misses that were set aside count.
    pub(crate) aside: f64,
    pub(crate) top: Top,
    pub(crate) counting: Counting,
    /// What a newcomer that is missed costs, in false positives.
    pub(crate) miss: f64,
    /// How much of what was seen once is held to be chance.
    pub(crate) luck: f64,
}

/// The states absent and open, with filters of some widths between them.
pub(crate) fn states(widths: impl DoubleEndedIterator<Item = u8>) -> Vec<usize> {
    let widths = widths.rev().map(usize::from);
    [ABSENT].into_iter().chain(widths).chain([OPEN]).collect()
}

impl Terms<'_> {
    /// Misses to be expected at a node itself, and beside those that were seen at and below it.
    #[inline]
    pub(crate) fn misses(&self, own: &Own) -> (f64, f64) {
        let mut asked = own.asked + self.aside * own.aside;
        if own.is(HELD) {
            if !own.is(LABELLED) {
                asked = 0.0;
            }
            if self.floor {
                // However little: else keys without a filter would be free of false positives.
                asked += self.prior.here();
            }
        } else {
            // The rest is in what is expected at the nearest node that holds something.
            asked *= self.prior.trust();
        }
        let prior = match (own.is(BY_POWER), own.is(HOLDS)) {
            (true, _) => own.expected,
            (false, true) => self.prior.of_class(usize::from(own.class)),
            (false, false) => 0.0,
        };
        (asked, prior)
    }

    /// How many of some misses came by chance to where a row now turns them away.
    #[inline]
    fn luck(&self, misses: f64) -> f64 {
        self.lambda * self.luck * misses / (misses + 1.0)
    }
}

/// The least that something costs, and the size of the map that costs it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Value {
    pub(crate) cost: f64,
    pub(crate) size: f64,
}

/// What is known of what is below a node, or of it with what is below.
#[derive(Clone, Copy, Debug)]
struct Below {
    /// By what is said above.
    values: [Value; STATES],
    /// URI-Rs, but for those below voids that the map came with.
    count: f64,
    /// Misses, as far as they were seen, and all that are expected.
    misses: f64,
    expected: f64,
    /// Rows below a void that the map came with, which all stay, and the misses they get.
    locked: Value,
    /// The same below a wildcard that the map came with: only its voids stay.
    given: Value,
}

impl Below {
    const NOTHING: Below = Below {
        values: [Value {
            cost: 0.0,
            size: 0.0,
        }; STATES],
        count: 0.0,
        misses: 0.0,
        expected: 0.0,
        locked: Value {
            cost: 0.0,
            size: 0.0,
        },
        given: Value {
            cost: 0.0,
            size: 0.0,
        },
    };

    #[inline]
    fn add(&mut self, other: &Below, times: f64, states: &[usize]) {
        for &state in states {
            let value = &mut self.values[state];
            value.cost += times * other.values[state].cost;
            value.size += times * other.values[state].size;
        }
        self.count += times * other.count;
        self.misses += times * other.misses;
        self.expected += times * other.expected;
        for (sum, more) in [
            (&mut self.locked, other.locked),
            (&mut self.given, other.given),
        ] {
            sum.cost += times * more.cost;
            sum.size += times * more.size;
        }
    }
}

/// A row that may be written.
struct Row {
    price: f64,
    /// What it costs as a void, and takes.
    void: f64,
    void_size: f64,
    /// What it pays for saying less than what is said above it.
    luck: f64,
}

/// What was chosen before stays for nodes with more URI-Rs than `most`.
#[derive(Clone, Copy)]
pub(crate) struct Frozen<'a> {
    pub(crate) solution: &'a Solution,
    pub(crate) most: f64,
}

struct Solver<'a> {
    terms: &'a Terms<'a>,
}

impl Solver<'_> {
    /// The least cost of a node by what is said above it, given what is below it.
    fn node(&self, own: &Own, below: &mut Below, frozen: Option<&Choice>) -> Choice {
        let terms = self.terms;
        let (lambda, states) = (terms.lambda, &terms.states[..]);
        let (asked, prior) = terms.misses(own);
        let mut choice = Choice {
            given_wildcard: own.is(WILDCARD),
            given_void: own.is(VOID_BELOW),
            ..Choice::default()
        };
        below.misses += asked;
        below.expected += asked + prior;
        below.count += own.held as f64;
        let exact_row = terms.row.of(own, own.exact_rows.max(1));
        let wildcard_row = terms.row.of(own, own.wildcard_rows);
        // Rows that are there already, below a void or a wildcard.
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
            for &state in states {
                below.values[state] = below.locked;
            }
            return choice;
        }
        // Misses below a given wildcard are kept as a cost where everything is present.
        if own.is(VOID) {
            below.given.size += exact_row;
            below.given.cost += exact_row;
        } else {
            below.given.cost += lambda * asked;
        }
        if own.is(WILDCARD) {
            self.given_wildcard(below, prior, wildcard_row, &mut choice);
            return choice;
        }
        // The node itself.
        let mut owns = [Value::default(); STATES];
        if own.is(VOID) {
            for &state in states {
                owns[state] = Value {
                    cost: exact_row,
                    size: exact_row,
                };
            }
        } else {
            for &state in states {
                let size = terms.keys[state] * own.held as f64;
                owns[state] = Value {
                    cost: size + lambda * CHANCES[state] * asked,
                    size,
                };
            }
            if own.is(HELD) && !own.is(ROOT) {
                owns[ABSENT].cost = f64::INFINITY;
            }
            if !own.is(ROOT) && (own.is(HELD) || asked > 0.0 || frozen.is_some()) {
                let row = self.row(exact_row, own.is(HELD), !own.is(HELD), terms.luck(asked));
                self.rows(
                    &mut owns,
                    &row,
                    frozen.map(|frozen| &frozen.exact),
                    &mut choice.exact,
                );
            }
        }
        for &state in states {
            let value = &mut below.values[state];
            value.cost += owns[state].cost + lambda * CHANCES[state] * prior;
            value.size += owns[state].size;
            if own.fresh > 0.0 {
                value.cost += lambda * terms.miss * (1.0 - CHANCES[state]) * own.fresh;
            }
        }
        // A row for all below it.
        if let Some(top) = own.top {
            let opens = own.is(HOLDS) && terms.top >= top;
            let row = self.row(wildcard_row, opens, !own.is(ROOT), terms.luck(below.misses));
            let frozen = frozen.map(|frozen| &frozen.wildcard);
            self.rows(&mut below.values, &row, frozen, &mut choice.wildcard);
        }
        choice
    }

    /// A wildcard that the map came with: it says the best there is.
    fn given_wildcard(&self, below: &mut Below, prior: f64, row: f64, choice: &mut Choice) {
        let terms = self.terms;
        let misses = below.given.cost - below.given.size + terms.lambda * prior;
        let mut says = [Value::default(); STATES];
        for &state in terms.states.iter().filter(|&&state| state != ABSENT) {
            let size = terms.keys[state] * below.count + below.given.size;
            says[state] = Value {
                cost: size + CHANCES[state] * misses,
                size,
            };
        }
        let mut best = OPEN;
        for &state in terms.states.iter().filter(|&&state| state != ABSENT) {
            if says[state].cost < says[best].cost {
                best = state;
            }
        }
        let with_row = Value {
            cost: says[best].cost + row,
            size: says[best].size + row,
        };
        for &state in &terms.states {
            let stays = state != ABSENT && says[state].cost <= with_row.cost;
            below.values[state] = if stays { says[state] } else { with_row };
            if !stays {
                choice.wildcard[state] = best as u8;
            }
        }
    }

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

    /// Where a row is cheaper than none, it is written, and says the cheapest there is.
    ///
    /// A row that says less than `s` pays `luck·(p(s) - p(t))`, one that says more pays nothing. So the
    /// best of each kind is a minimum over the states before `s` and over those from `s` on.
    fn rows(
        &self,
        values: &mut [Value; STATES],
        row: &Row,
        frozen: Option<&[u8; STATES]>,
        chosen: &mut [u8; STATES],
    ) {
        let states = &self.terms.states[..];
        let price = |state: usize| if state == ABSENT { row.void } else { row.price };
        let size = |state: usize| match state {
            ABSENT => row.void_size,
            _ => row.price,
        };
        let stays = *values;
        if let Some(frozen) = frozen {
            for &state in states {
                let says = usize::from(frozen[state]);
                if says < STATES && price(says).is_finite() {
                    let luck = row.luck * (CHANCES[state] - CHANCES[says]).max(0.0);
                    values[state] = Value {
                        cost: stays[says].cost + price(says) + luck,
                        size: stays[says].size + size(says),
                    };
                    chosen[state] = says as u8;
                }
            }
            if stays[ABSENT].cost.is_finite() || values[ABSENT].cost.is_finite() {
                return;
            }
        }
        let mut more = [(f64::INFINITY, OPEN); STATES];
        let mut best = (f64::INFINITY, OPEN);
        for &state in states.iter().rev() {
            let cost = stays[state].cost + price(state);
            if cost < best.0 {
                best = (cost, state);
            }
            more[state] = best;
        }
        let mut less = (f64::INFINITY, ABSENT);
        for &state in states {
            let chance = row.luck * CHANCES[state];
            let mut best = more[state];
            if less.0 + chance < best.0 {
                best = (less.0 + chance, less.1);
            }
            if best.0 < stays[state].cost {
                values[state] = Value {
                    cost: best.0,
                    size: stays[best.1].size + size(best.1),
                };
                chosen[state] = best.1 as u8;
            }
            let cost = stays[state].cost + price(state) - chance;
            if cost < less.0 {
                less = (cost, state);
            }
        }
    }
}

/// A map of least cost.
pub(crate) struct Solution {
    pub(crate) lambda: f64,
    pub(crate) value: Value,
    /// All misses that are expected.
    pub(crate) misses: f64,
    table: Table,
    /// The choices of the nodes on the tape, chunk by chunk, if they were kept.
    nodes: Option<Tape>,
    /// The choices of groups.
    groups: Vec<u32>,
}

impl Solution {
    /// The choice of a group.
    pub(crate) fn group(&self, group: u32) -> &Choice {
        self.table
            .get(self.groups.get(group as usize).copied().unwrap_or(0))
    }

    /// Reads the choices of the nodes of a chunk.
    pub(crate) fn read(&self, chunk: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.nodes {
            Some(nodes) => nodes.read(chunk, out),
            None => Err(Error::invalid("choices were not kept")),
        }
    }

    /// The choice of a node, given those of its chunk and its place in it.
    pub(crate) fn choice(&self, chunk: &[u8], at: usize) -> &Choice {
        let mut number = [0; 4];
        if let Some(bytes) = chunk.get(4 * at..4 * at + 4) {
            number.copy_from_slice(bytes);
        }
        self.table.get(u32::from_le_bytes(number))
    }

    /// The choices by the ids of nodes, for the walk that writes.
    pub(crate) fn choices<'a>(
        &self,
        outline: &'a Outline,
        folder: &std::path::Path,
    ) -> Result<Choices<'a>> {
        let mut numbers = Numbers::new(folder);
        let mut reader = Reader::default();
        let mut chunk = Vec::new();
        for at in 0..outline.chunks() {
            outline.read(at, &mut reader)?;
            self.read(at, &mut chunk)?;
            let mut bytes = chunk.chunks_exact(4);
            while let Some(node) = reader.next(outline.slots())? {
                let mut number = [0; 4];
                number.copy_from_slice(bytes.next().unwrap_or(&[0; 4]));
                numbers.set(node.id, u32::from_le_bytes(number));
            }
        }
        numbers.intact()?;
        let (table, groups) = (self.table.clone(), self.groups.clone());
        Ok(Choices::of(table, numbers, outline, groups))
    }
}

/// Finds the map of least cost. Choices are kept if there is a folder to put them in.
pub(crate) fn solve(
    outline: &Outline,
    terms: &Terms<'_>,
    frozen: Option<Frozen<'_>>,
    keep: Option<&std::path::Path>,
) -> Result<Solution> {
    let solver = Solver { terms };
    let states = &terms.states[..];
    let mut table = Table::default();
    let mut groups = Vec::new();
    let mut solved: Vec<Below> = Vec::with_capacity(outline.groups().len());
    for group in outline.groups() {
        let mut below = Below::NOTHING;
        for &(child, times) in &group.children {
            below.add(&solved[child as usize], f64::from(times), states);
        }
        let choice = solver.node(&group.own, &mut below, None);
        if keep.is_some() {
            groups.push(table.number(&choice));
        }
        solved.push(below);
    }
    let mut slots = vec![Below::NOTHING; outline.slots()];
    let mut nodes = keep.map(Tape::new);
    let mut reader = Reader::default();
    let (mut numbers, mut before) = (Vec::new(), Vec::new());
    let (mut value, mut misses) = (Value::default(), 0.0);
    for chunk in 0..outline.chunks() {
        outline.read(chunk, &mut reader)?;
        if let Some(frozen) = frozen {
            frozen.solution.read(chunk, &mut before)?;
        }
        numbers.clear();
        let mut at = 0;
        while let Some(node) = reader.next(slots.len())? {
            let mut below = std::mem::replace(&mut slots[node.slot], Below::NOTHING);
            for &(group, times) in &node.groups {
                let group = solved
                    .get(group as usize)
                    .ok_or_else(|| Error::invalid("a temporary file was changed"))?;
                below.add(group, f64::from(times), states);
            }
            let count = below.count + node.own.held as f64;
            let frozen = frozen
                .filter(|frozen| count > frozen.most)
                .map(|frozen| frozen.solution.choice(&before, at));
            let choice = solver.node(&node.own, &mut below, frozen);
            if nodes.is_some() {
                numbers.extend_from_slice(&table.number(&choice).to_le_bytes());
            }
            at += 1;
            match node.slot {
                0 => (value, misses) = (below.values[ABSENT], below.expected),
                _ => slots[node.parent].add(&below, 1.0, states),
            }
        }
        if let Some(nodes) = &mut nodes {
            nodes.push(&numbers)?;
        }
    }
    Ok(Solution {
        lambda: terms.lambda,
        value,
        misses,
        table,
        nodes,
        groups,
    })
}
