//! The filtered map of least cost: optimal pruning of the tree with what the nearest row above says as
//! the state, for several prices in one walk.
//!
//! A map costs its bytes, and λ for every false positive that is to be expected. With `g` URIs held at
//! a place and `a` lookups in vain to be expected there, and `p(s)` the chance that a lookup in vain is
//! called present where `s` is said (0, 2^-bits, 1):
//!
//! ```text
//! own(s)  = bytes(s)·g + λ·a·p(s), impossible if nothing is said and something held;
//!           or an exact row, that says the best there is
//! stay(s) = own(s) + Σ cost(s) of the children + λ·prior·p(s)
//! cost(s) = min( stay(s), a wildcard row + min over t of stay(t) )
//! ```
//!
//! A row may be a void: it says that nothing is there. Where a row stands that turns lookups away was
//! chosen because of these lookups, so the next sample has fewer of them there: of `k`, as of things
//! whose numbers fall with their square, k²/(k+1) are to be expected, and the rest came by chance. A
//! row that says less than what is said above it pays for that.
//!
//! Newcomers are what an archive will hold tomorrow. What is said `s` misses them with the chance
//! 1 - p(s), and each that is missed has a price, too.

use waypost_surt::Reach;

use super::choice::{ABSENT, Choice, Choices, OPEN, STATES, Said};
use super::price::Prices;
use crate::error::Result;
use crate::map::cost::Top;
use crate::map::pass::Pass;
use crate::map::prior::{Prior, class};
use crate::map::row;
use crate::map::sample::Asked;
use crate::map::tree::{Part, Place, Visitor};
use crate::map::write::Counting;

/// The chance that a lookup in vain is called present, by what is said.
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

/// What everything is priced by, but for λ.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) prices: &'a Prices,
    pub(crate) prior: &'a Prior,
    /// How much each site is asked for, in the order of the walk.
    pub(crate) densities: &'a [u8],
    pub(crate) top: Top,
    pub(crate) max_width: u8,
    pub(crate) counting: Counting,
    /// What a newcomer that is missed costs, in false positives.
    pub(crate) miss: f64,
    /// How much of what was seen once is held to be chance.
    pub(crate) luck: f64,
    /// Whether lookups that were set aside count, too.
    pub(crate) aside: bool,
}

/// What something costs, and of what that is made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sum {
    /// Bytes, and λ for each false positive, and what missed newcomers cost.
    pub(crate) cost: f64,
    pub(crate) bytes: f64,
    /// Newcomers to be missed.
    pub(crate) missed: f64,
}

impl Sum {
    #[inline]
    fn add(&mut self, other: &Sum) {
        self.cost += other.cost;
        self.bytes += other.bytes;
        self.missed += other.missed;
    }

    #[inline]
    fn plus(mut self, other: Sum) -> Sum {
        self.add(&other);
        self
    }

    fn row(bytes: f64) -> Sum {
        Sum {
            cost: bytes,
            bytes,
            ..Sum::default()
        }
    }

    #[inline]
    fn wrong(wrong: f64, lambda: f64) -> Sum {
        Sum {
            cost: lambda * wrong,
            ..Sum::default()
        }
    }
}

type Lanes<const L: usize> = [[Sum; L]; STATES];

/// What is known of a place.
pub(crate) struct Costed<const L: usize> {
    /// URI-Rs held at exactly the place.
    here: f64,
    held: bool,
    wildcard: Option<f64>,
    void: bool,
    void_below: bool,
    /// Something is held here or below.
    holds: bool,
    labelled: bool,
    /// Children that hold something.
    children: u32,
    /// URI-Rs held here and below, but for those below voids that the map came with.
    count: f64,
    /// Lookups in vain to be expected at the place itself, and here and below.
    asked: f64,
    below: f64,
    /// Newcomers to be expected here and below that no place below speaks for.
    fresh: f64,
    /// The children, by what is said above.
    sums: Lanes<L>,
    /// Below a void that the map came with all rows stay as they are.
    locked: f64,
    locked_asked: f64,
    /// Below a wildcard that the map came with only its voids stay.
    given: f64,
    given_asked: f64,
}

/// Finds the least cost for `L` prices at once.
pub(crate) struct Cost<'a, const L: usize> {
    terms: Terms<'a>,
    lambdas: [f64; L],
    /// What rows can say beside nothing.
    says: Vec<usize>,
    /// What was chosen before for places with more URI-Rs than this stays so.
    pub(crate) frozen: Option<(&'a Choices, f64)>,
    /// Choices are kept for the first price.
    pub(crate) choices: Option<Choices>,
    pub(crate) found: [Sum; L],
    pub(crate) has_ports: bool,
    sites: usize,
    density: u8,
}

impl<'a, const L: usize> Cost<'a, L> {
    pub(crate) fn new(terms: Terms<'a>, lambdas: [f64; L]) -> Cost<'a, L> {
        let says = (1..=terms.max_width)
            .filter(|&width| terms.prices.allows(width))
            .map(usize::from)
            .chain([OPEN])
            .collect();
        Cost {
            terms,
            lambdas,
            says,
            frozen: None,
            choices: None,
            found: [Sum::default(); L],
            has_ports: false,
            sites: 0,
            density: 0,
        }
    }

    /// What `count` URIs and `asked` lookups in vain cost where `state` is said.
    #[inline]
    fn say(&self, state: usize, count: f64, asked: f64, lambda: f64) -> Sum {
        let bytes = self.terms.prices.key(state) * count;
        Sum {
            cost: bytes + lambda * CHANCES[state] * asked,
            bytes,
            ..Sum::default()
        }
    }

    /// The least that is said with a row that says that something is there.
    fn best(&self, sums: &Lanes<L>, lane: usize) -> (usize, Sum) {
        let mut best = (OPEN, sums[OPEN][lane]);
        for &state in &self.says {
            if sums[state][lane].cost < best.1.cost {
                best = (state, sums[state][lane]);
            }
        }
        best
    }

    /// The least cost of a place by what is said above it.
    fn least(&self, place: &Place<'_>, node: &mut Costed<L>, lookups: f64) -> Choice {
        let mut choice = Choice {
            given_wildcard: node.wildcard.is_some(),
            given_void: node.void_below,
            ..Choice::default()
        };
        let states = || [ABSENT].into_iter().chain(self.says.iter().copied());
        if node.void_below {
            for lane in 0..L {
                let kept =
                    Sum::row(node.locked).plus(Sum::wrong(node.locked_asked, self.lambdas[lane]));
                for state in states() {
                    node.sums[state][lane] = kept;
                }
            }
            return choice;
        }
        let row = self.terms.prices.wildcard(place);
        if node.wildcard.is_some() {
            for lane in 0..L {
                let lambda = self.lambdas[lane];
                let mut sums = [[Sum::default(); L]; STATES];
                for &state in &self.says {
                    sums[state][lane] = self
                        .say(state, node.count, node.given_asked + lookups, lambda)
                        .plus(Sum::row(node.given));
                }
                let (best, sum) = self.best(&sums, lane);
                let sum = sum.plus(Sum::row(row));
                for state in states() {
                    let stays = state != ABSENT && sums[state][lane].cost <= sum.cost;
                    node.sums[state][lane] = if stays { sums[state][lane] } else { sum };
                    if lane == 0 && !stays {
                        choice.wildcard[state] = Some(Said::of(best));
                    }
                }
            }
            return choice;
        }
        let exact_row = self.terms.prices.exact(place);
        let (luck_here, luck_below) = (self.luck(node.asked), self.luck(node.below));
        let frozen = match self.frozen {
            Some((choices, most)) if node.count > most => Some(choices.get(place.id)),
            _ => None,
        };
        for lane in 0..L {
            let lambda = self.lambdas[lane];
            // The place itself.
            let mut owns = [Sum::default(); STATES];
            for state in states() {
                owns[state] = self.say(state, node.here, node.asked, lambda);
            }
            for state in states() {
                let mut own = owns[state];
                if node.void {
                    own = Sum::row(exact_row);
                } else if place.part != Part::Root {
                    if state == ABSENT && node.held {
                        own.cost = f64::INFINITY;
                    }
                    let row = Row {
                        bytes: exact_row,
                        luck: lambda * luck_here,
                        holds: node.held,
                        voids: !node.held,
                    };
                    let found = match frozen {
                        Some(frozen) => frozen.exact[state]
                            .map(|said| (said.state(), row.saying(said.state(), &owns, state))),
                        None => self.better(&row, &owns, state, own.cost),
                    };
                    if let Some((said, sum)) = found {
                        own = sum;
                        if lane == 0 {
                            choice.exact[state] = Some(Said::of(said));
                        }
                    }
                }
                let stay = &mut node.sums[state][lane];
                stay.add(&own);
                stay.add(&Sum::wrong(CHANCES[state] * lookups, lambda));
                if self.terms.miss > 0.0 {
                    let missed = (1.0 - CHANCES[state]) * node.fresh;
                    stay.missed += missed;
                    stay.cost += lambda * self.terms.miss * missed;
                }
            }
            // A row for all below it.
            if !self.terms.top.allows(place) {
                continue;
            }
            let row = Row {
                bytes: row,
                luck: lambda * luck_below,
                holds: node.holds,
                voids: place.part != Part::Root,
            };
            let stays: [Sum; STATES] = std::array::from_fn(|state| node.sums[state][lane]);
            for state in states() {
                let found = match frozen {
                    Some(frozen) => frozen.wildcard[state]
                        .map(|said| (said.state(), row.saying(said.state(), &stays, state))),
                    None => self.better(&row, &stays, state, stays[state].cost),
                };
                if let Some((said, sum)) = found {
                    node.sums[state][lane] = sum;
                    if lane == 0 {
                        choice.wildcard[state] = Some(Said::of(said));
                    }
                }
            }
        }
        choice
    }

    /// The cheapest that a row can say where `state` is said above it, if that is cheaper than `most`.
    #[inline]
    fn better(
        &self,
        row: &Row,
        sums: &[Sum; STATES],
        state: usize,
        most: f64,
    ) -> Option<(usize, Sum)> {
        let mut best = None;
        let mut least = most - row.bytes;
        if least <= 0.0 {
            // Nothing costs less than nothing.
            return None;
        }
        let mut try_to_say = |said: usize| {
            let cost = sums[said].cost + row.chance(said, state);
            if cost < least {
                least = cost;
                best = Some(said);
            }
        };
        if row.holds {
            self.says.iter().for_each(|&said| try_to_say(said));
        }
        if row.voids {
            try_to_say(ABSENT);
        }
        best.map(|said| (said, row.saying(said, sums, state)))
    }

    /// How many of some lookups in vain came by chance to where a row now turns them away.
    #[inline]
    fn luck(&self, asked: f64) -> f64 {
        self.terms.luck * asked / (asked + 1.0)
    }
}

/// A row that may be written.
struct Row {
    bytes: f64,
    luck: f64,
    /// Something is held where it speaks of.
    holds: bool,
    /// It may be a void.
    voids: bool,
}

impl Row {
    /// What it pays for saying less than what is said above it.
    #[inline]
    fn chance(&self, said: usize, above: usize) -> f64 {
        self.luck * (CHANCES[above] - CHANCES[said]).max(0.0)
    }

    /// What everything costs if it says this.
    #[inline]
    fn saying(&self, said: usize, sums: &[Sum; STATES], above: usize) -> Sum {
        Sum {
            cost: sums[said].cost + self.bytes + self.chance(said, above),
            bytes: sums[said].bytes + self.bytes,
            missed: sums[said].missed,
        }
    }
}

impl<const L: usize> Visitor for Cost<'_, L> {
    type Node = Costed<L>;

    fn open(&mut self, place: Place<'_>, _: Option<&Costed<L>>) -> Costed<L> {
        self.has_ports |= place.part == Part::Port;
        if place.part == Part::Site {
            // Sites follow each other: nothing of another is open.
            self.density = self.terms.densities.get(self.sites).copied().unwrap_or(0);
            self.sites += 1;
        }
        Costed {
            here: 0.0,
            held: false,
            wildcard: None,
            void: false,
            void_below: false,
            holds: false,
            labelled: false,
            children: 0,
            count: 0.0,
            asked: 0.0,
            below: 0.0,
            fresh: 0.0,
            sums: [[Sum::default(); L]; STATES],
            locked: 0.0,
            locked_asked: 0.0,
            given: 0.0,
            given_asked: 0.0,
        }
    }

    fn close(&mut self, place: Place<'_>, mut node: Costed<L>, parent: Option<&mut Costed<L>>) {
        node.holds |= node.held || node.wildcard.is_some();
        if node.held && !node.labelled {
            node.asked = 0.0;
        }
        if node.held {
            // However little: else keys without a filter would be free of false positives at any price.
            node.asked += self.terms.prior.here();
        } else {
            // The rest is in what is expected at the nearest place that holds something.
            node.asked *= self.terms.prior.trust();
        }
        node.below += node.asked;
        let row = self.terms.prices.exact(&place);
        let rows =
            u8::from(node.held || node.void) + u8::from(node.wildcard.is_some() || node.void_below);
        node.locked += f64::from(rows) * row;
        if node.held {
            node.locked_asked += node.asked;
        }
        node.count += node.here;
        if let Some(count) = node.wildcard {
            node.count = match self.terms.counting {
                Counting::Partition => node.count + count,
                Counting::Accumulate => node.count.max(count),
            };
        }
        if node.void_below {
            node.count = 0.0;
            (node.given, node.given_asked) = (node.locked, node.locked_asked);
        } else if node.void {
            node.given += row;
        } else {
            node.given_asked += node.asked;
        }
        let expected = if node.holds {
            let class = class(place.part, place.level, node.children, self.density);
            self.terms.prior.expected(class, node.children, place.stem)
        } else {
            0.0
        };
        let choice = self.least(&place, &mut node, expected);
        if let Some(choices) = &mut self.choices {
            choices.set(place.id, choice);
        }
        let Some(parent) = parent else {
            self.found = node.sums[ABSENT];
            return;
        };
        for (sums, more) in parent.sums.iter_mut().zip(&node.sums) {
            for (sum, more) in sums.iter_mut().zip(more) {
                sum.add(more);
            }
        }
        parent.locked += node.locked;
        parent.locked_asked += node.locked_asked;
        parent.given += node.given;
        parent.given_asked += node.given_asked;
        parent.count += node.count;
        parent.below += node.below;
        if node.holds {
            parent.holds = true;
            parent.children += 1;
        }
    }
}

impl<const L: usize> Pass for Cost<'_, L> {
    fn row(&mut self, node: &mut Costed<L>, row: &row::Row<'_>, reach: Reach) -> Result<()> {
        match (reach, row.frequency.is_void()) {
            (Reach::Exact, false) => {
                node.held = true;
                node.here += row.urirs() as f64;
            }
            (Reach::Exact, true) => node.void = true,
            (_, false) => node.wildcard = Some(node.wildcard.unwrap_or(0.0) + row.urirs() as f64),
            (_, true) => node.void_below = true,
        }
        Ok(())
    }

    fn lookups(&mut self, node: &mut Costed<L>, asked: &Asked) {
        node.asked += asked.absent;
        if self.terms.aside {
            node.asked += asked.aside;
        }
        node.labelled |= asked.labelled;
        node.fresh += asked.fresh;
    }
}
