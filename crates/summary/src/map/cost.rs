//! The map of least cost: optimal pruning of the tree, for several prices in one walk.
//!
//! A map costs its rows, and λ for every false positive that is to be expected. At each place it is
//! known what is the least that the place and all below it can cost if the nearest row above says
//! nothing (or is a void), and if it is a wildcard:
//!
//! ```text
//! own(absent)  = 1 + λ·asked, if something is held here, else 0
//! own(open)    = λ·asked, or a void here for its price
//! stay(s)      = own(s) + Σ cost(s) of the children   (+ λ·prior, if open)
//! cost(absent) = min( stay(absent), 1 + stay(open) )            a wildcard row
//! cost(open)   = min( stay(open), void price + stay(absent) )   a void for the subtree
//! ```
//!
//! Each λ gives the cheapest map of its size. Rows that the map came with bind: a wildcard cannot be
//! undone, and a void is kept, with everything below it as it is.

use waypost_surt::Reach;

use super::decision::{Decisions, GIVEN_VOID, GIVEN_WILDCARD, ROLL, VOID_BELOW, VOID_HERE};
use super::papers::is_public_suffix;
use super::pass::Pass;
use super::prior::{Learning, Prior, class};
use super::row::Row;
use super::sample::Asked;
use super::tree::{Part, Place, Visitor};
use crate::error::Result;

/// Where wildcards may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Top {
    /// At registered domains and below: public suffixes are kept.
    Domains,
    /// At hosts of two labels and below.
    SecondLevel,
    /// At top-level domains, too.
    TopLevel,
    /// Anywhere: `*` is a map.
    Everything,
}

impl Top {
    pub(crate) fn allows(self, place: &Place<'_>) -> bool {
        place.can_roll()
            && match place.part {
                Part::Root => self == Top::Everything,
                Part::Host if place.level == 1 => self >= Top::TopLevel,
                Part::Host => self >= Top::SecondLevel || !is_public_suffix(place.stem),
                _ => true,
            }
    }
}

/// What things cost.
#[derive(Clone, Debug)]
pub(crate) struct Prices<'a> {
    pub(crate) prior: &'a Prior,
    pub(crate) top: Top,
    /// What a void costs, in rows. `None`: there are none but those that the map came with.
    pub(crate) void: Option<f64>,
    /// How much of the lookups set aside counts.
    pub(crate) aside: f64,
}

/// Rows and their cost for each λ.
#[derive(Clone, Copy)]
struct Lanes<const L: usize> {
    cost: [f64; L],
    keys: [f64; L],
}

impl<const L: usize> Lanes<L> {
    const ZERO: Lanes<L> = Lanes { cost: [0.0; L], keys: [0.0; L] };

    #[inline]
    fn add(&mut self, other: &Lanes<L>) {
        for l in 0..L {
            self.cost[l] += other.cost[l];
            self.keys[l] += other.keys[l];
        }
    }
}

/// What is known of a place.
pub(crate) struct Costed<const L: usize> {
    held: bool,
    wildcard: bool,
    void: bool,
    void_below: bool,
    /// Something is held here or below.
    holds: bool,
    labelled: bool,
    /// Children that hold something.
    children: u32,
    /// Lookups in vain at the place itself, and at and below places that hold nothing.
    asked: f64,
    stray: f64,
    /// If nothing is said above, and below a wildcard.
    absent: Lanes<L>,
    open: Lanes<L>,
    /// Rows below a void that the map came with, which stay as they are, and the lookups they get.
    locked_keys: f64,
    locked_asked: f64,
}

/// Finds the least cost for `L` prices at once.
pub(crate) struct Cost<'a, const L: usize> {
    prices: Prices<'a>,
    lambdas: [f64; L],
    /// Decisions are kept for the first price.
    pub(crate) decisions: Option<Decisions>,
    pub(crate) learning: Option<Learning>,
    pub(crate) keys: [f64; L],
    pub(crate) costs: [f64; L],
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
    pub(crate) held: u64,
}

impl<'a, const L: usize> Cost<'a, L> {
    pub(crate) fn new(prices: Prices<'a>, lambdas: [f64; L]) -> Cost<'a, L> {
        Cost {
            prices,
            lambdas,
            decisions: None,
            learning: None,
            keys: [0.0; L],
            costs: [0.0; L],
            has_ports: false,
            urirs: 0,
            held: 0,
        }
    }

    /// The least cost of a place: if nothing is said above, and below a wildcard.
    fn least(&mut self, place: &Place<'_>, node: &Costed<L>) -> (Lanes<L>, Lanes<L>) {
        let asked = if node.labelled || !node.held { node.asked } else { 0.0 };
        if node.void_below {
            let mut kept = Lanes::ZERO;
            for l in 0..L {
                kept.keys[l] = node.locked_keys;
                kept.cost[l] = node.locked_keys + self.lambdas[l] * node.locked_asked;
            }
            self.decide(place, GIVEN_VOID | if node.wildcard { GIVEN_WILDCARD } else { 0 });
            return (kept, kept);
        }
        let prior = if node.holds && !node.wildcard {
            self.prices.prior.more(class(place.part, place.level, node.children), node.stray)
        } else {
            0.0
        };
        let (mut absent, mut open) = (node.absent, node.open);
        let mut decision = 0;
        let allowed = self.prices.top.allows(place);
        for l in 0..L {
            let lambda = self.lambdas[l];
            open.cost[l] += lambda * prior;
            if node.void {
                absent.keys[l] += 1.0;
                absent.cost[l] += 1.0;
                open.keys[l] += 1.0;
                open.cost[l] += 1.0;
            } else {
                if node.held {
                    absent.keys[l] += 1.0;
                    absent.cost[l] += 1.0 + lambda * asked;
                }
                match self.prices.void {
                    Some(price) if !node.held && !node.wildcard && price < lambda * asked && place.part != Part::Root => {
                        open.keys[l] += 1.0;
                        open.cost[l] += price;
                        decision |= VOID_HERE;
                    }
                    _ => open.cost[l] += lambda * asked,
                }
            }
            let (stay_absent, stay_open) = ((absent.cost[l], absent.keys[l]), (open.cost[l], open.keys[l]));
            if node.wildcard || (node.holds && allowed && 1.0 + stay_open.0 < stay_absent.0) {
                absent.cost[l] = 1.0 + stay_open.0;
                absent.keys[l] = 1.0 + stay_open.1;
                decision |= ROLL;
            }
            if let Some(price) = self.prices.void
                && !node.wildcard
                && place.can_roll()
                && place.part != Part::Root
                && price + stay_absent.0 < stay_open.0
            {
                open.cost[l] = price + stay_absent.0;
                open.keys[l] = 1.0 + stay_absent.1;
                decision |= VOID_BELOW;
            }
        }
        if node.wildcard {
            decision |= GIVEN_WILDCARD;
        }
        self.decide(place, decision);
        (absent, open)
    }

    fn decide(&mut self, place: &Place<'_>, decision: u8) {
        if let Some(decisions) = &mut self.decisions {
            decisions.set(place.id, decision);
        }
    }
}

impl<const L: usize> Visitor for Cost<'_, L> {
    type Node = Costed<L>;

    fn open(&mut self, place: Place<'_>, _: Option<&Costed<L>>) -> Costed<L> {
        self.has_ports |= place.part == Part::Port;
        Costed {
            held: false,
            wildcard: false,
            void: false,
            void_below: false,
            holds: false,
            labelled: false,
            children: 0,
            asked: 0.0,
            stray: 0.0,
            absent: Lanes::ZERO,
            open: Lanes::ZERO,
            locked_keys: 0.0,
            locked_asked: 0.0,
        }
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, mut node: Costed<L>, parent: Option<&mut Costed<L>>) {
        node.holds |= node.held || node.wildcard;
        let rows = u8::from(node.held || node.void) + u8::from(node.wildcard || node.void_below);
        node.locked_keys += f64::from(rows);
        if node.held && node.labelled {
            node.locked_asked += node.asked;
        }
        if let Some(learning) = &mut self.learning
            && node.holds
        {
            learning.add(class(place.part, place.level, node.children), node.stray);
        }
        let (absent, open) = self.least(&place, &node);
        let Some(parent) = parent else {
            self.keys = absent.keys;
            self.costs = absent.cost;
            return;
        };
        parent.absent.add(&absent);
        parent.open.add(&open);
        parent.locked_keys += node.locked_keys;
        parent.locked_asked += node.locked_asked;
        if node.holds {
            parent.holds = true;
            parent.children += 1;
        } else {
            parent.stray += node.stray + node.asked;
        }
    }
}

impl<const L: usize> Pass for Cost<'_, L> {
    #[inline]
    fn row(&mut self, node: &mut Costed<L>, row: &Row<'_>, reach: Reach) -> Result<()> {
        match (reach, row.frequency.is_void()) {
            (Reach::Exact, false) => node.held = true,
            (Reach::Exact, true) => node.void = true,
            (_, false) => node.wildcard = true,
            (_, true) => node.void_below = true,
        }
        if !row.frequency.is_void() {
            self.held += 1;
            self.urirs += row.frequency.urirs.map_or(1, |urirs| urirs.value.max(1));
        }
        Ok(())
    }

    #[inline]
    fn lookups(&mut self, node: &mut Costed<L>, asked: &Asked) {
        node.asked += asked.absent + self.prices.aside * asked.aside;
        node.labelled |= asked.labelled;
    }
}
