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

use super::choice::{ABSENT, CHANCES, Choice, Choices, NO_ROW, OPEN, STATES, Table};
use super::numbers::Numbers;
use super::outline::{
    BY_POWER, HELD, HOLDS, LABELLED, Outline, Own, ROOT, Reader, VOID, VOID_BELOW, WILDCARD,
};
use crate::error::{Error, Result};
use crate::map::prior::Prior;
use crate::map::tape::Tape;
use crate::map::top::Top;
use crate::map::write::Counting;

/// The price of a row: a constant, plus a part that grows with its last label or segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowPrice {
    pub(crate) row: f64,
    pub(crate) byte: f64,
}

impl RowPrice {
    /// Every row costs 1.
    pub(crate) const ONE: RowPrice = RowPrice {
        row: 1.0,
        byte: 0.0,
    };

    #[inline]
    pub(crate) fn of(self, own: &Own, rows: u64) -> f64 {
        (self.row + self.byte * f64::from(own.length)) * rows as f64
    }
}

/// The price of a void.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VoidPrice {
    /// No voids except those of the input map.
    Never,
    /// The price of any other row.
    Row,
    /// This price, though its size is one row.
    Fixed(f64),
}

/// The prices and weights of an optimisation.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    /// The price of a false positive.
    pub(crate) lambda: f64,
    /// The available states, in order of the probability that a miss is called present.
    pub(crate) states: Vec<usize>,
    pub(crate) row: RowPrice,
    pub(crate) void: VoidPrice,
    /// The size of a URI-R in a filter, by state.
    pub(crate) keys: [f64; STATES],
    pub(crate) prior: &'a Prior,
    /// Whether misses are shrunk towards the mean where they were seen: those at held nodes have a
    /// floor, and the others are weighted by the trust in them. If not, they count as seen, and the
    /// nearest node that holds something expects fewer.
    pub(crate) smooth: bool,
    /// The weight of held-out misses.
    pub(crate) aside: f64,
    pub(crate) top: Top,
    pub(crate) counting: Counting,
    /// The price of a newcomer that is called absent, in false positives.
    pub(crate) miss: f64,
    /// How much of what was seen once is attributed to chance.
    pub(crate) luck: f64,
}

/// The states absent and open, with filters of some widths between them.
pub(crate) fn states(widths: impl DoubleEndedIterator<Item = u8>) -> Vec<usize> {
    let widths = widths.rev().map(usize::from);
    [ABSENT].into_iter().chain(widths).chain([OPEN]).collect()
}

impl Terms<'_> {
    /// Expected misses at a node itself, and in addition to those seen at and below it.
    #[inline]
    pub(crate) fn misses(&self, own: &Own) -> (f64, f64) {
        let mut asked = own.asked + self.aside * own.aside;
        if own.is(HELD) {
            if !own.is(LABELLED) {
                asked = 0.0;
            }
            if self.smooth {
                // However few: otherwise keys without a filter would have no false positives.
                asked += self.prior.here();
            }
        } else if self.smooth {
            // The rest is included in the expectation of the nearest node that holds something.
            asked *= self.prior.trust();
        }
        let mut prior = match (own.is(BY_POWER), own.is(HOLDS)) {
            (true, _) => own.expected,
            (false, true) => self.prior.of_class(usize::from(own.class)),
            (false, false) => 0.0,
        };
        if !self.smooth && own.is(HOLDS) {
            let stray = own.stray + self.aside * own.stray_aside;
            prior -= (1.0 - self.prior.trust()) * stray;
        }
        (asked, prior)
    }

    /// How many of these misses are attributed to chance where a row turns them away.
    #[inline]
    fn luck(&self, misses: f64) -> f64 {
        self.lambda * self.luck * misses / (misses + 1.0)
    }
}

/// The least cost, and the size of the map that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Value {
    pub(crate) cost: f64,
    pub(crate) size: f64,
}

/// The totals below a node, or at and below it, for `N` states.
#[derive(Clone, Copy, Debug)]
struct Below<const N: usize> {
    /// By the state above.
    values: [Value; N],
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
        values: [Value {
            cost: 0.0,
            size: 0.0,
        }; N],
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
    fn add(&mut self, other: &Below<N>, times: f64) {
        for (value, more) in self.values.iter_mut().zip(&other.values) {
            value.cost += times * more.cost;
            value.size += times * more.size;
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
/// first is absent, the last open.
struct Solver<'a, const N: usize> {
    terms: &'a Terms<'a>,
    /// Number of ranks.
    ranks: usize,
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
        let mut solver = Solver {
            terms,
            ranks: terms.states.len().min(N),
            chances: [0.0; N],
            keys: [0.0; N],
        };
        for (rank, &state) in terms.states.iter().enumerate().take(N) {
            solver.chances[rank] = CHANCES[state];
            solver.keys[rank] = terms.keys[state];
        }
        solver
    }

    fn ranks(&self) -> std::ops::Range<usize> {
        0..self.ranks
    }

    /// Converts choices from ranks to states.
    fn choice(&self, chosen: &Chosen<N>) -> Choice {
        let states = &self.terms.states;
        let mut choice = Choice {
            given_wildcard: chosen.given_wildcard,
            given_void: chosen.given_void,
            ..Choice::default()
        };
        let of = |rank: u8| states.get(usize::from(rank)).map_or(NO_ROW, |&s| s as u8);
        for rank in self.ranks() {
            choice.wildcard[states[rank]] = of(chosen.wildcard[rank]);
            choice.exact[states[rank]] = of(chosen.exact[rank]);
        }
        choice
    }

    /// The previous choices, by rank.
    fn frozen(&self, rows: &[u8; STATES]) -> [u8; N] {
        let states = &self.terms.states;
        let rank_of = |state: u8| states.iter().position(|&s| s == usize::from(state));
        let mut frozen = [NONE; N];
        for rank in self.ranks() {
            frozen[rank] = rank_of(rows[states[rank]]).map_or(NONE, |rank| rank as u8);
        }
        frozen
    }

    /// The least cost of a node for each state above it, given what is below it.
    #[inline]
    fn node(&self, own: &Own, below: &mut Below<N>, frozen: Option<&Choice>) -> Chosen<N> {
        let terms = self.terms;
        let lambda = terms.lambda;
        let (asked, prior) = terms.misses(own);
        let mut chosen = Chosen {
            wildcard: [NONE; N],
            exact: [NONE; N],
            given_wildcard: own.is(WILDCARD),
            given_void: own.is(VOID_BELOW),
        };
        below.misses += asked;
        below.expected += asked + prior;
        below.count += own.held as f64;
        let exact_row = terms.row.of(own, own.exact_rows.max(1));
        let wildcard_row = terms.row.of(own, own.wildcard_rows);
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
            below.values = [below.locked; N];
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
            self.given_wildcard(below, prior, wildcard_row, &mut chosen);
            return chosen;
        }
        // The node itself.
        let mut owns = [Value::default(); N];
        if own.is(VOID) {
            owns = [Value {
                cost: exact_row,
                size: exact_row,
            }; N];
        } else {
            for rank in self.ranks() {
                let size = self.keys[rank] * own.held as f64;
                owns[rank] = Value {
                    cost: size + lambda * self.chances[rank] * asked,
                    size,
                };
            }
            if own.is(HELD) && !own.is(ROOT) {
                owns[NOTHING].cost = f64::INFINITY;
            }
            if !own.is(ROOT) && (own.is(HELD) || asked > 0.0 || frozen.is_some()) {
                let row = self.row(exact_row, own.is(HELD), !own.is(HELD), terms.luck(asked));
                let frozen = frozen.map(|frozen| self.frozen(&frozen.exact));
                self.rows(&mut owns, &row, frozen.as_ref(), &mut chosen.exact);
            }
        }
        for rank in self.ranks() {
            let value = &mut below.values[rank];
            value.cost += owns[rank].cost + lambda * self.chances[rank] * prior;
            value.size += owns[rank].size;
            if own.fresh > 0.0 {
                value.cost += lambda * terms.miss * (1.0 - self.chances[rank]) * own.fresh;
            }
        }
        // A row for everything below the node.
        if let Some(top) = own.top {
            let opens = own.is(HOLDS) && terms.top >= top;
            let row = self.row(wildcard_row, opens, !own.is(ROOT), terms.luck(below.misses));
            let frozen = frozen.map(|frozen| self.frozen(&frozen.wildcard));
            self.rows(
                &mut below.values,
                &row,
                frozen.as_ref(),
                &mut chosen.wildcard,
            );
        }
        chosen
    }

    /// A wildcard of the input map: it gets the best state.
    fn given_wildcard(&self, below: &mut Below<N>, prior: f64, row: f64, chosen: &mut Chosen<N>) {
        let misses = below.given.cost - below.given.size + self.terms.lambda * prior;
        let mut says = [Value::default(); N];
        let mut best = self.ranks - 1;
        for rank in (1..self.ranks).rev() {
            let size = self.keys[rank] * below.count + below.given.size;
            says[rank] = Value {
                cost: size + self.chances[rank] * misses,
                size,
            };
            if says[rank].cost < says[best].cost {
                best = rank;
            }
        }
        let with_row = Value {
            cost: says[best].cost + row,
            size: says[best].size + row,
        };
        for rank in self.ranks() {
            let stays = rank != NOTHING && says[rank].cost <= with_row.cost;
            below.values[rank] = if stays { says[rank] } else { with_row };
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
    #[inline]
    fn rows(
        &self,
        values: &mut [Value; N],
        row: &Row,
        frozen: Option<&[u8; N]>,
        chosen: &mut [u8; N],
    ) {
        let price = |rank: usize| if rank == NOTHING { row.void } else { row.price };
        let size = |rank: usize| match rank {
            NOTHING => row.void_size,
            _ => row.price,
        };
        let stays = *values;
        if let Some(frozen) = frozen {
            for rank in self.ranks() {
                let says = usize::from(frozen[rank]);
                if says < self.ranks && price(says).is_finite() {
                    let luck = row.luck * (self.chances[rank] - self.chances[says]).max(0.0);
                    values[rank] = Value {
                        cost: stays[says].cost + price(says) + luck,
                        size: stays[says].size + size(says),
                    };
                    chosen[rank] = says as u8;
                }
            }
            if stays[NOTHING].cost.is_finite() || values[NOTHING].cost.is_finite() {
                return;
            }
        }
        let mut more = [(f64::INFINITY, 0); N];
        let mut best = (f64::INFINITY, 0);
        for rank in self.ranks().rev() {
            let cost = stays[rank].cost + price(rank);
            if cost < best.0 {
                best = (cost, rank);
            }
            more[rank] = best;
        }
        let mut less = (f64::INFINITY, NOTHING);
        for rank in self.ranks() {
            let chance = row.luck * self.chances[rank];
            let mut best = more[rank];
            if less.0 + chance < best.0 {
                best = (less.0 + chance, less.1);
            }
            if best.0 < stays[rank].cost {
                values[rank] = Value {
                    cost: best.0,
                    size: stays[best.1].size + size(best.1),
                };
                chosen[rank] = best.1 as u8;
            }
            let cost = stays[rank].cost + price(rank) - chance;
            if cost < less.0 {
                less = (cost, rank);
            }
        }
    }
}

/// A least-cost map.
pub(crate) struct Solution {
    pub(crate) lambda: f64,
    pub(crate) value: Value,
    /// All expected misses.
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

    /// The choice of a node, given those of its chunk and its position in it.
    pub(crate) fn choice(&self, chunk: &[u8], at: usize) -> &Choice {
        let mut number = [0; 4];
        if let Some(bytes) = chunk.get(4 * at..4 * at + 4) {
            number.copy_from_slice(bytes);
        }
        self.table.get(u32::from_le_bytes(number))
    }

    /// The choices by node id, for the pass that writes.
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

/// Finds the least-cost map. Choices are kept if there is a folder for them.
pub(crate) fn solve(
    outline: &Outline,
    terms: &Terms<'_>,
    frozen: Option<Frozen<'_>>,
    keep: Option<&std::path::Path>,
) -> Result<Solution> {
    match terms.states.len() {
        ..=2 => solve_for::<2>(outline, terms, frozen, keep),
        _ => solve_for::<STATES>(outline, terms, frozen, keep),
    }
}

fn solve_for<const N: usize>(
    outline: &Outline,
    terms: &Terms<'_>,
    frozen: Option<Frozen<'_>>,
    keep: Option<&std::path::Path>,
) -> Result<Solution> {
    let solver = Solver::<N>::new(terms);
    let mut table = Table::default();
    let mut groups = Vec::new();
    let mut solved: Vec<Below<N>> = Vec::with_capacity(outline.groups().len());
    for group in outline.groups() {
        let mut below = Below::NOTHING;
        for &(child, times) in &group.children {
            below.add(&solved[child as usize], f64::from(times));
        }
        let chosen = solver.node(&group.own, &mut below, None);
        if keep.is_some() {
            groups.push(table.number(&solver.choice(&chosen)));
        }
        solved.push(below);
    }
    let mut slots = vec![Below::<N>::NOTHING; outline.slots()];
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
                below.add(group, f64::from(times));
            }
            let count = below.count + node.own.held as f64;
            let frozen = frozen
                .filter(|frozen| count > frozen.most)
                .map(|frozen| frozen.solution.choice(&before, at));
            let chosen = solver.node(&node.own, &mut below, frozen);
            if nodes.is_some() {
                let number = table.number(&solver.choice(&chosen));
                numbers.extend_from_slice(&number.to_le_bytes());
            }
            at += 1;
            match node.slot {
                0 => (value, misses) = (below.values[NOTHING], below.expected),
                _ => slots[node.parent].add(&below, 1.0),
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
