//! One pass over a map and its lookups collects everything that the least-cost map depends on,
//! except the price.

use std::path::Path;

use waypost_surt::Reach;

use super::beside::{Beside, Own, Size, Sums};
use super::outline::{
    BY_POWER, Children, HELD, HOLDS, LABELLED, Outline, Own as Noted, ROOT, VOID, VOID_BELOW,
    WILDCARD,
};
use super::prior::{Learning, Prior, class};
use super::sites::Sites;
use super::terms::Expects;
use super::top::Top;
use crate::error::{Error, Result};
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::sample::MissCounts;
use crate::map::tree::second::{Names, Seconds};
use crate::map::tree::{Part, TreeNode, Visitor};

/// The state of an open node.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Rows of the node itself, one for each second key.
    rows: u32,
    /// URI-Rs of the node itself, counted once each, and summed over all rows.
    urirs: u64,
    held_urirs: u64,
    /// URI-Rs of a wildcard of the input map.
    given_urirs: u64,
    /// Second keys at and below the node.
    seconds: Seconds,
    held: bool,
    wildcard: bool,
    void: bool,
    void_below: bool,
    /// Whether something is held at or below the node.
    holds: bool,
    labelled: bool,
    /// Children that hold something.
    children: u32,
    /// Misses at the node itself, and at and below children that hold nothing: training and
    /// held-out.
    asked: f64,
    aside: f64,
    stray: f64,
    stray_aside: f64,
    fresh: f64,
    outlined: Children,
    /// For the papers' rule: rows below a void and below a wildcard of the input map.
    locked: Size,
    given: Size,
    papers: Sums,
}

/// Collects the outline.
pub(crate) struct Gather<'a> {
    prior: &'a Prior,
    sites: &'a Sites,
    /// Whether subtrees that never roll up are folded. Rolling up has to be all there is to choose.
    pub(crate) folds: bool,
    /// Whether domains are distinguished from public suffixes.
    domains: bool,
    /// Whether misses below nodes that hold nothing are also recorded at the nearest node that
    /// holds something.
    pub(crate) strays: bool,
    outline: Option<Outline>,
    /// Computes on the way what the papers' rule would achieve.
    pub(crate) beside: Option<Beside>,
    /// Learns the prior from the held-out lookups.
    pub(crate) learning: Option<Learning>,
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
    names: Names,
    /// Number of sites opened, and how often the last one is looked up: by training lookups, and by
    /// all.
    opened: usize,
    taught: u8,
    density: u8,
    error: Option<Error>,
}

impl<'a> Gather<'a> {
    /// Collects only the number of URI-Rs.
    pub(crate) fn new(prior: &'a Prior, sites: &'a Sites) -> Gather<'a> {
        Gather {
            prior,
            sites,
            folds: false,
            domains: false,
            strays: false,
            outline: None,
            beside: None,
            learning: None,
            has_ports: false,
            urirs: 0,
            names: Names::default(),
            opened: 0,
            taught: 0,
            density: 0,
            error: None,
        }
    }

    /// Also builds an outline, whose file is in `folder`.
    pub(crate) fn with_outline(self, domains: bool, folder: &Path) -> Gather<'a> {
        Gather {
            domains,
            outline: Some(Outline::new(folder)),
            ..self
        }
    }

    /// The outline.
    ///
    /// # Errors
    /// If no outline was built, or its file could not be written.
    pub(crate) fn outline(&mut self) -> Result<Outline> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut outline = self
            .outline
            .take()
            .ok_or_else(|| Error::invalid("no outline was made"))?;
        outline.finish()?;
        Ok(outline)
    }

    /// The outline's record of a node.
    fn note(&self, place: &TreeNode<'_>, node: &Gathered) -> Noted {
        let mut flags = 0;
        let by_power = node.holds && !self.prior.is_to_learn();
        for (flag, is) in [
            (HELD, node.held),
            (WILDCARD, node.wildcard),
            (VOID, node.void),
            (VOID_BELOW, node.void_below),
            (HOLDS, node.holds),
            (LABELLED, node.labelled),
            (ROOT, place.part == Part::Root),
            (BY_POWER, by_power),
        ] {
            flags |= if is { flag } else { 0 };
        }
        let class = self.class(place, node, self.density);
        Noted {
            flags,
            top: Top::of(place, self.domains),
            held: node.held_urirs,
            given: node.given_urirs,
            exact_rows: u64::from(node.rows),
            wildcard_rows: node.seconds.rows(),
            asked: node.asked,
            aside: node.aside,
            stray: if self.strays { node.stray } else { 0.0 },
            stray_aside: if self.strays { node.stray_aside } else { 0.0 },
            fresh: node.fresh,
            class: match node.holds && !by_power {
                true => class as u16,
                false => 0,
            },
            expected: match by_power {
                true => self.prior.expected(class, node.children, place.stem),
                false => 0.0,
            },
            // All rows of a map without filters have the same price.
            length: if self.folds { 0 } else { last_part(place) },
        }
    }

    #[inline]
    fn class(&self, place: &TreeNode<'_>, node: &Gathered, density: u8) -> usize {
        class(place.part, place.level, node.children, density)
    }

    /// The node's role in the papers' rule.
    fn compare(
        &mut self,
        place: &TreeNode<'_>,
        node: &mut Gathered,
        parent: Option<&mut Gathered>,
    ) {
        let rows = u8::from(node.held || node.void) + u8::from(node.wildcard || node.void_below);
        node.locked.rows += f64::from(rows);
        if node.held && node.labelled {
            node.locked.wrong += node.asked + node.aside;
        }
        if node.void_below {
            node.given = node.locked;
        } else if node.void {
            node.given.rows += 1.0;
        } else {
            node.given.wrong += node.misses();
        }
        let prior = match node.holds {
            true => {
                let class = self.class(place, node, self.density);
                let stray = node.stray + node.stray_aside;
                self.prior.more(class, node.children, place.stem, stray)
            }
            false => 0.0,
        };
        let own = node.own(prior);
        let above = parent.map(|parent| {
            parent.locked.add(node.locked);
            parent.given.add(node.given);
            &mut parent.papers
        });
        if let Some(beside) = &mut self.beside {
            beside.close(place, &mut node.papers, own, above);
        }
    }
}

impl Gathered {
    /// Misses at the node itself.
    #[inline]
    fn misses(&self) -> f64 {
        match self.labelled || !self.held {
            true => self.asked + self.aside,
            false => 0.0,
        }
    }

    /// The cost of the node without what is below it, under the papers' rule.
    fn own(&self, prior: f64) -> Own {
        if self.void_below {
            return Own::SourceMap(self.locked);
        }
        if self.wildcard {
            let rows = self.given.rows + self.seconds.rows() as f64;
            return Own::SourceMap(Size { rows, ..self.given });
        }
        let misses = if self.void { 0.0 } else { self.misses() };
        let size = match (self.void, self.held) {
            (true, _) => Size {
                rows: 1.0,
                wrong: 0.0,
            },
            (false, true) => Size {
                rows: f64::from(self.rows),
                wrong: misses,
            },
            (false, false) => Size::default(),
        };
        Own::Free {
            size,
            open: misses + prior,
            kept: self.given.rows,
        }
    }
}

impl Visitor for Gather<'_> {
    type Node = Gathered;

    #[inline]
    fn open(&mut self, place: TreeNode<'_>, _: Option<&Gathered>) -> Gathered {
        self.has_ports |= place.part == Part::Port;
        if place.part == Part::Site {
            // Sites don't overlap: no other site is open.
            let of = |densities: &[u8]| densities.get(self.opened).copied().unwrap_or(0);
            (self.taught, self.density) = (of(&self.sites.taught), of(&self.sites.all));
            self.opened += 1;
        }
        Gathered::default()
    }

    #[inline]
    fn close(
        &mut self,
        place: TreeNode<'_>,
        node: &mut Gathered,
        mut parent: Option<&mut Gathered>,
    ) {
        node.holds |= node.held || node.wildcard;
        self.urirs += node.urirs;
        if node.holds && self.learning.is_some() {
            let class = self.class(&place, node, self.taught);
            if let Some(learning) = &mut self.learning {
                learning.add(class, node.stray_aside);
                if node.held {
                    learning.add_held(if node.labelled { node.aside } else { 0.0 });
                }
            }
        }
        if self.outline.is_some() {
            let noted = self.note(&place, node);
            let children = std::mem::take(&mut node.outlined);
            let above = parent.as_deref_mut().map(|parent| &mut parent.outlined);
            let at = (place.id, place.slot, place.parent);
            let expects = Expects::plain(self.prior);
            let misses = self.folds.then(|| expects.misses(&noted));
            if let Some(outline) = &mut self.outline
                && let Err(error) = outline.push(at, &noted, children, misses, above)
            {
                self.error.get_or_insert(error);
            }
        }
        if self.beside.is_some() {
            self.compare(&place, node, parent.as_deref_mut());
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
            parent.stray_aside += node.stray_aside + node.aside;
        }
    }
}

impl Pass for Gather<'_> {
    #[inline]
    fn row(&mut self, node: &mut Gathered, row: &Row<'_>, reach: Reach) -> Result<()> {
        let void = row.frequency.is_void();
        match (reach, void) {
            (Reach::Exact, false) => {
                node.held = true;
                node.rows += 1;
                node.held_urirs += row.urirs();
            }
            (Reach::Exact, true) => node.void = true,
            (_, false) => {
                node.wildcard = true;
                node.given_urirs += row.urirs();
            }
            (_, true) => node.void_below = true,
        }
        if self.beside.is_some() {
            node.papers.counted.row(row, reach);
        }
        let urirs = row.frequency.urirs.map_or(1, |urirs| urirs.value.max(1));
        if let Some(second) = &row.second {
            node.seconds.insert(self.names.number(second));
            // The same URI-Rs may occur in several years.
            node.urirs = node.urirs.max(urirs);
        } else if !void {
            node.urirs += urirs;
        }
        Ok(())
    }

    #[inline]
    fn lookups(&mut self, node: &mut Gathered, asked: &MissCounts) {
        node.asked += asked.absent;
        node.aside += asked.aside;
        node.labelled |= asked.labelled;
        node.fresh += asked.fresh;
    }

    fn gives_up(&self) -> bool {
        self.error.is_some()
    }
}

/// The length of the last label or segment, rounded up to an even number so that similar nodes are
/// grouped.
#[inline]
fn last_part(place: &TreeNode<'_>) -> u8 {
    let stem = place.stem;
    let length = match place.part {
        Part::Root => 0,
        Part::Site => 1,
        Part::Host | Part::Port => {
            stem.len() - memchr::memrchr2(b',', b':', stem).map_or(0, |at| at + 1)
        }
        Part::Path | Part::Query | Part::Bare => {
            stem.len() - memchr::memrchr(b'/', stem).map_or(0, |at| at + 1)
        }
    };
    (length.next_multiple_of(2)).min(254) as u8
}
