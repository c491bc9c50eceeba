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
use super::prior::{Learning, Prior, class, density};
use super::row::Row;
use super::sample::Asked;
use super::second::{Names, Seconds};
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
    /// How much lookups that teach and those set aside count.
    pub(crate) teach: f64,
    pub(crate) aside: f64,
    /// How much each site is asked for, in the order of the walk.
    pub(crate) densities: &'a [u8],
}

/// Rows and their cost for each λ.
#[derive(Clone, Copy)]
struct Lanes<const L: usize> {
    cost: [f64; L],
    keys: [f64; L],
}

impl<const L: usize> Lanes<L> {
    const ZERO: Lanes<L> = Lanes {
        cost: [0.0; L],
        keys: [0.0; L],
    };

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
    /// Rows of the place itself, one for each second key.
    own: u32,
    /// URI-Rs of the place itself.
    urirs: u64,
    /// Second keys here and below.
    seconds: Seconds,
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
    /// The same below a wildcard that the map came with: what is held there is not known, so no void
    /// may be learned there.
    given_keys: f64,
    given_asked: f64,
}

/// Finds the least cost for `L` prices at once.
pub(crate) struct Cost<'a, const L: usize> {
    prices: Prices<'a>,
    lambdas: [f64; L],
    /// Decisions are kept for the first price.
    pub(crate) decisions: Option<Decisions>,
    pub(crate) learning: Option<Learning>,
    /// What is rolled up, if that is not to be found but to be priced.
    pub(crate) forced: Option<&'a Decisions>,
    pub(crate) keys: [f64; L],
    pub(crate) costs: [f64; L],
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
    names: Names,
    /// Sites opened, and how much the last one is asked for.
    sites: usize,
    density: u8,
}

impl<'a, const L: usize> Cost<'a, L> {
    pub(crate) fn new(prices: Prices<'a>, lambdas: [f64; L]) -> Cost<'a, L> {
        Cost {
            prices,
            lambdas,
            decisions: None,
            learning: None,
            forced: None,
            names: Names::default(),
            keys: [0.0; L],
            costs: [0.0; L],
            has_ports: false,
            urirs: 0,
            sites: 0,
            density: 0,
        }
    }

    /// The least cost of a place: if nothing is said above, and below a wildcard.
    fn least(&mut self, place: &Place<'_>, node: &Costed<L>) -> (Lanes<L>, Lanes<L>) {
        let asked = if node.labelled || !node.held {
            node.asked
        } else {
            0.0
        };
        if node.void_below {
            let mut kept = Lanes::ZERO;
            for l in 0..L {
                kept.keys[l] = node.locked_keys;
                kept.cost[l] = node.locked_keys + self.lambdas[l] * node.locked_asked;
            }
            self.decide(
                place,
                GIVEN_VOID | if node.wildcard { GIVEN_WILDCARD } else { 0 },
            );
            return (kept, kept);
        }
        let prior = if node.holds {
            let class = class(place.part, place.level, node.children, self.density);
            self.prices
                .prior
                .more(class, node.children, place.stem, node.stray)
        } else {
            0.0
        };
        let rows = node.seconds.rows();
        if node.wildcard {
            let (mut open, mut absent) = (Lanes::ZERO, Lanes::ZERO);
            for l in 0..L {
                open.keys[l] = node.given_keys;
                open.cost[l] = node.given_keys + self.lambdas[l] * node.given_asked;
                absent.keys[l] = rows + open.keys[l];
                absent.cost[l] = rows + open.cost[l];
            }
            self.decide(place, ROLL | GIVEN_WILDCARD);
            return (absent, open);
        }
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
                    absent.keys[l] += f64::from(node.own);
                    absent.cost[l] += f64::from(node.own) + lambda * asked;
                }
                match self.prices.void {
                    Some(price)
                        if !node.held && price < lambda * asked && place.part != Part::Root =>
                    {
                        open.keys[l] += 1.0;
                        open.cost[l] += price;
                        decision |= VOID_HERE;
                    }
                    _ => open.cost[l] += lambda * asked,
                }
            }
            let (stay_absent, stay_open) = (
                (absent.cost[l], absent.keys[l]),
                (open.cost[l], open.keys[l]),
            );
            let rolls = match self.forced {
                Some(forced) => forced.get(place.id) & ROLL != 0,
                None => node.holds && allowed && rows + stay_open.0 < stay_absent.0,
            };
            if rolls {
                absent.cost[l] = rows + stay_open.0;
                absent.keys[l] = rows + stay_open.1;
                decision |= ROLL;
            }
            if let Some(price) = self.prices.void
                && place.can_roll()
                && place.part != Part::Root
                && price + stay_absent.0 < stay_open.0
            {
                open.cost[l] = price + stay_absent.0;
                open.keys[l] = 1.0 + stay_absent.1;
                decision |= VOID_BELOW;
            }
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
        if place.part == Part::Site {
            // Sites follow each other: nothing of another is open.
            self.density = self.prices.densities.get(self.sites).copied().unwrap_or(0);
            self.sites += 1;
        }
        Costed {
            own: 0,
            urirs: 0,
            seconds: Seconds::default(),
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
            given_keys: 0.0,
            given_asked: 0.0,
        }
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, mut node: Costed<L>, parent: Option<&mut Costed<L>>) {
        node.holds |= node.held || node.wildcard;
        self.urirs += node.urirs;
        let rows = u8::from(node.held || node.void) + u8::from(node.wildcard || node.void_below);
        node.locked_keys += f64::from(rows);
        if node.held && node.labelled {
            node.locked_asked += node.asked;
        }
        if let Some(learning) = &mut self.learning
            && node.holds
        {
            learning.add(
                class(place.part, place.level, node.children, self.density),
                node.stray,
            );
        }
        if node.void_below {
            (node.given_keys, node.given_asked) = (node.locked_keys, node.locked_asked);
        } else if node.void {
            node.given_keys += 1.0;
        } else if node.labelled || !node.held {
            node.given_asked += node.asked;
        }
        let (absent, open) = self.least(&place, &node);
        let Some(parent) = parent else {
            self.keys = absent.keys;
            self.costs = absent.cost;
            return;
        };
        parent.seconds.add(&node.seconds);
        parent.absent.add(&absent);
        parent.open.add(&open);
        parent.locked_keys += node.locked_keys;
        parent.locked_asked += node.locked_asked;
        parent.given_keys += node.given_keys;
        parent.given_asked += node.given_asked;
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
            (Reach::Exact, false) => {
                node.held = true;
                node.own += 1;
            }
            (Reach::Exact, true) => node.void = true,
            (_, false) => node.wildcard = true,
            (_, true) => node.void_below = true,
        }
        let urirs = row.frequency.urirs.map_or(1, |urirs| urirs.value.max(1));
        if let Some(second) = &row.second {
            node.seconds.insert(self.names.number(second));
            // The same URI-Rs may be of several years.
            node.urirs = node.urirs.max(urirs);
        } else if !row.frequency.is_void() {
            node.urirs += urirs;
        }
        Ok(())
    }

    #[inline]
    fn lookups(&mut self, node: &mut Costed<L>, asked: &Asked) {
        node.asked += self.prices.teach * asked.absent + self.prices.aside * asked.aside;
        node.labelled |= asked.labelled;
    }
}

/// Counts what sites are asked for in vain, and their rows.
#[derive(Default)]
pub(crate) struct Sites {
    /// By lookups that teach, and by all.
    pub(crate) taught: Vec<u8>,
    pub(crate) all: Vec<u8>,
}

/// Rows, lookups in vain that teach, lookups in vain set aside.
#[derive(Default)]
pub(crate) struct Counted {
    rows: f64,
    held: bool,
    taught: f64,
    aside: f64,
    labelled: bool,
}

impl Visitor for Sites {
    type Node = Counted;

    fn open(&mut self, _: Place<'_>, _: Option<&Counted>) -> Counted {
        Counted::default()
    }

    fn close(&mut self, place: Place<'_>, mut node: Counted, parent: Option<&mut Counted>) {
        if node.held && !node.labelled {
            (node.taught, node.aside) = (0.0, 0.0);
        }
        if place.part == Part::Site {
            self.taught.push(density(node.taught, node.rows));
            self.all
                .push(density((node.taught + node.aside) / 2.0, node.rows));
        } else if let Some(parent) = parent {
            parent.rows += node.rows;
            parent.taught += node.taught;
            parent.aside += node.aside;
            parent.labelled |= node.labelled;
        }
    }
}

impl Pass for Sites {
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        if !row.frequency.is_void() {
            node.rows += 1.0;
            node.held |= reach == Reach::Exact;
        }
        Ok(())
    }

    fn lookups(&mut self, node: &mut Counted, asked: &Asked) {
        node.taught += asked.absent;
        node.aside += asked.aside;
        node.labelled |= asked.labelled;
    }
}
