//! The map of least cost: optimal pruning of the tree.
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
//! undone, and a void is kept, with everything below it as it is. One walk makes an [`Outline`] of all
//! that does not depend on λ, from which the least cost at any λ is found without the map.

use std::path::Path;

use waypost_surt::Reach;

use super::beside::{Beside, Own, Size, Sums};
use super::decision::{GIVEN_VOID, GIVEN_WILDCARD, ROLL};
use super::outline::{Choosing, Line, Outline};
use super::papers::is_public_suffix;
use super::pass::Pass;
use super::prior::{Learning, Prior, class};
use super::row::Row;
use super::sample::Asked;
use super::second::{Names, Seconds};
use super::tree::{Part, Place, Visitor};
use crate::error::{Error, Result};

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
    pub(crate) const ALL: [Top; 4] = [
        Top::Domains,
        Top::SecondLevel,
        Top::TopLevel,
        Top::Everything,
    ];

    /// How far up wildcards must be allowed to stand for one at a place. To know domains from public
    /// suffixes takes its time: without `domains`, all hosts of two labels and more are one.
    pub(crate) fn of(place: &Place<'_>, domains: bool) -> Option<Top> {
        let top = match place.part {
            Part::Root => Top::Everything,
            Part::Host if place.level == 1 => Top::TopLevel,
            Part::Host if !domains || is_public_suffix(place.stem) => Top::SecondLevel,
            _ => Top::Domains,
        };
        place.can_roll().then_some(top)
    }

    /// Whether a wildcard may stand at a place.
    pub(crate) fn allows(self, place: &Place<'_>) -> bool {
        Top::of(place, self == Top::Domains).is_some_and(|top| self >= top)
    }
}

/// What lookups in vain are to be expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) prior: &'a Prior,
    /// How much lookups that teach and those set aside count.
    pub(crate) teach: f64,
    pub(crate) aside: f64,
    /// How much each site is asked for, in the order of the walk.
    pub(crate) densities: &'a [u8],
}

/// What is known of a place.
#[derive(Default)]
pub(crate) struct Gathered {
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
    /// What is below and not in the outline, and whether something below is in it.
    line: Line,
    outlined: bool,
    /// Rows below a void that the map came with, which stay as they are, and the lookups they get.
    locked: Size,
    /// The same below a wildcard that the map came with: what is held there is not known, so no void
    /// may be learned there.
    given: Size,
    papers: Sums,
}

/// Gathers what the map of least cost depends on, but for the price.
pub(crate) struct Gather<'a> {
    expected: Expected<'a>,
    /// Voids may be learned.
    voids: bool,
    /// Domains are to be known from public suffixes.
    domains: bool,
    outline: Option<Outline>,
    pub(crate) beside: Option<Beside>,
    pub(crate) learning: Option<Learning>,
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
    names: Names,
    /// Sites opened, and how much the last one is asked for.
    sites: usize,
    density: u8,
    error: Option<Error>,
}

impl<'a> Gather<'a> {
    /// Gathers nothing but the number of URI-Rs.
    pub(crate) fn new(expected: Expected<'a>) -> Gather<'a> {
        Gather {
            expected,
            voids: false,
            domains: false,
            outline: None,
            beside: None,
            learning: None,
            has_ports: false,
            urirs: 0,
            names: Names::default(),
            sites: 0,
            density: 0,
            error: None,
        }
    }

    /// With an outline, whose file is put in `folder`.
    pub(crate) fn with_outline(self, voids: bool, domains: bool, folder: &Path) -> Gather<'a> {
        Gather {
            voids,
            domains,
            outline: Some(Outline::new(folder)),
            ..self
        }
    }

    /// The outline, if there is to be one.
    ///
    /// # Errors
    /// When its file could not be written.
    pub(crate) fn outline(&mut self) -> Result<Option<Outline>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut outline = self.outline.take();
        if let Some(outline) = &mut outline {
            outline.finish()?;
        }
        Ok(outline)
    }

    /// What there is to choose at a place, and whether it is to be kept.
    fn choosing(&self, place: &Place<'_>, node: &Gathered, prior: f64) -> (Choosing, bool) {
        let rows = node.seconds.rows();
        let mut choosing = Choosing {
            id: place.id,
            slot: place.slot,
            parent: place.parent,
            rows,
            ..Choosing::default()
        };
        let is_root = place.part == Part::Root;
        let line = |absent: Size, open: Size| Line {
            absent_rows: absent.rows as u64,
            absent_wrong: absent.wrong,
            open_rows: open.rows as u64,
            open_wrong: open.wrong,
        };
        if node.void_below {
            choosing.line = line(node.locked, node.locked);
            choosing.given = GIVEN_VOID | if node.wildcard { GIVEN_WILDCARD } else { 0 };
            return (choosing, true);
        }
        if node.wildcard {
            choosing.line = line(node.given, node.given);
            choosing.line.absent_rows += rows;
            choosing.given = ROLL | GIVEN_WILDCARD;
            return (choosing, true);
        }
        choosing.line = node.line;
        choosing.line.open_wrong += prior;
        if node.void {
            choosing.line.absent_rows += 1;
            choosing.line.open_rows += 1;
        } else {
            let asked = node.in_vain();
            if node.held {
                choosing.line.absent_rows += u64::from(node.own);
                choosing.line.absent_wrong += asked;
            }
            if self.voids && !node.held && !is_root {
                choosing.here = asked;
            } else {
                choosing.line.open_wrong += asked;
            }
        }
        if node.holds {
            choosing.top = Top::of(place, self.domains);
        }
        choosing.can_void = self.voids && place.can_roll() && !is_root;
        let stays = choosing.top.is_none() || choosing.line.stays(rows);
        let keep = is_root || node.outlined || self.voids || !stays;
        (choosing, keep)
    }

    /// Lookups in vain to be expected beside those that were seen.
    #[inline]
    fn prior(&self, place: &Place<'_>, node: &Gathered) -> f64 {
        if !node.holds {
            return 0.0;
        }
        let class = class(place.part, place.level, node.children, self.density);
        let prior = self.expected.prior;
        prior.more(class, node.children, place.stem, node.stray)
    }
}

impl Gathered {
    /// Lookups of the place itself that are in vain.
    #[inline]
    fn in_vain(&self) -> f64 {
        if self.labelled || !self.held {
            self.asked
        } else {
            0.0
        }
    }

    /// What the place costs beside what is below it, as the papers' rule has it.
    fn own(&self, prior: f64) -> Own {
        if self.void_below {
            return Own::Given(self.locked);
        }
        if self.wildcard {
            let rows = self.given.rows + self.seconds.rows() as f64;
            return Own::Given(Size { rows, ..self.given });
        }
        let asked = if self.void { 0.0 } else { self.in_vain() };
        let size = match (self.void, self.held) {
            (true, _) => Size {
                rows: 1.0,
                wrong: 0.0,
            },
            (false, true) => Size {
                rows: f64::from(self.own),
                wrong: asked,
            },
            (false, false) => Size::default(),
        };
        Own::Free {
            size,
            open: asked + prior,
            kept: self.given.rows,
        }
    }
}

impl Visitor for Gather<'_> {
    type Node = Gathered;

    #[inline]
    fn open(&mut self, place: Place<'_>, _: Option<&Gathered>) -> Gathered {
        self.has_ports |= place.part == Part::Port;
        if place.part == Part::Site {
            // Sites follow each other: nothing of another is open.
            let densities = self.expected.densities;
            self.density = densities.get(self.sites).copied().unwrap_or(0);
            self.sites += 1;
        }
        Gathered::default()
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, mut node: Gathered, mut parent: Option<&mut Gathered>) {
        node.holds |= node.held || node.wildcard;
        self.urirs += node.urirs;
        if let Some(learning) = &mut self.learning
            && node.holds
        {
            let class = class(place.part, place.level, node.children, self.density);
            learning.add(class, node.stray);
            if node.held {
                learning.add_held(node.in_vain());
            }
        }
        if self.outline.is_some() {
            self.put(&place, &mut node, parent.as_deref_mut());
        }
        let Some(parent) = parent else {
            return;
        };
        parent.seconds.add(&node.seconds);
        if node.holds {
            parent.holds = true;
            parent.children += 1;
        } else {
            parent.stray += node.stray + node.asked;
        }
    }
}

impl Gather<'_> {
    /// Puts a place into the outline, or adds what it costs to its parent's line.
    #[inline]
    fn put(&mut self, place: &Place<'_>, node: &mut Gathered, mut parent: Option<&mut Gathered>) {
        let rows = u8::from(node.held || node.void) + u8::from(node.wildcard || node.void_below);
        node.locked.rows += f64::from(rows);
        if node.held && node.labelled {
            node.locked.wrong += node.asked;
        }
        if node.void_below {
            node.given = node.locked;
        } else if node.void {
            node.given.rows += 1.0;
        } else {
            node.given.wrong += node.in_vain();
        }
        let prior = self.prior(place, node);
        let (choosing, keep) = self.choosing(place, node, prior);
        if let Some(parent) = &mut parent {
            parent.locked.add(node.locked);
            parent.given.add(node.given);
            match keep {
                true => parent.outlined = true,
                false => parent.line.add(&choosing.line),
            }
        }
        if keep
            && let Some(outline) = &mut self.outline
            && let Err(error) = outline.push(&choosing)
        {
            self.error.get_or_insert(error);
        }
        if let Some(beside) = &mut self.beside {
            let own = node.own(prior);
            let sums = std::mem::take(&mut node.papers);
            beside.close(place, sums, own, parent.map(|parent| &mut parent.papers));
        }
    }
}

impl Pass for Gather<'_> {
    #[inline]
    fn row(&mut self, node: &mut Gathered, row: &Row<'_>, reach: Reach) -> Result<()> {
        match (reach, row.frequency.is_void()) {
            (Reach::Exact, false) => {
                node.held = true;
                node.own += 1;
            }
            (Reach::Exact, true) => node.void = true,
            (_, false) => node.wildcard = true,
            (_, true) => node.void_below = true,
        }
        node.papers.counted.row(row, reach);
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
    fn lookups(&mut self, node: &mut Gathered, asked: &Asked) {
        node.asked += self.expected.teach * asked.absent + self.expected.aside * asked.aside;
        node.labelled |= asked.labelled;
    }

    fn gives_up(&self) -> bool {
        self.error.is_some()
    }
}
