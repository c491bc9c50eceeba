//! One pass over a map and its lookups collects everything that the least-cost map depends on,
//! except the price.

use std::path::Path;

use waypost_surt::Reach;

use super::beside::{Beside, Own, SharedSums, Size, Sums};
use super::fold::Folded;
use super::outline::{
    BY_POWER, Children, HELD, HOLDS, LABELLED, Own as Noted, ROOT, Section, VOID, VOID_BELOW,
    WILDCARD,
};
use super::prior::{Learning, Prior, class};
use super::sites::Sites;
use super::spine::{Outline, PackedSection, SpineNode};
use super::terms::Expects;
use super::top::Top;
use crate::error::{Error, Result};
use crate::map::compact::SourceMap;
use crate::map::tree::cut::{Borders, Handed, Sharing, join};
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::sample::{MissCounts, Sample};
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
    outline: Option<Section>,
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
    borders: Borders,
    /// What a piece has of shared nodes.
    shared: Vec<(Handed, SharedPart)>,
    torn: bool,
    error: Option<Error>,
}

/// What was counted in a map.
pub(crate) struct Counts {
    pub(crate) learning: Option<Learning>,
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
}

/// What a piece has of a shared node.
struct SharedPart {
    node: Gathered,
    papers: Option<SharedSums>,
    taught: u8,
    density: u8,
}

/// A shared node.
struct Shared {
    node: Gathered,
    stem: Vec<u8>,
    part: Part,
    depth: usize,
    taught: u8,
    density: u8,
    /// The pieces that have a part of it, and its number there.
    pieces: Vec<(usize, usize)>,
    /// Its children among the nodes of the spine.
    children: Vec<usize>,
}

/// What was collected of a piece.
struct GatheredPiece {
    borders: Borders,
    section: PackedSection,
    shared: Vec<(Handed, SharedPart)>,
    learning: Option<Learning>,
    has_ports: bool,
    urirs: u64,
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
            borders: Borders::default(),
            shared: Vec::new(),
            torn: false,
            error: None,
        }
    }

    /// Also builds an outline, whose file is in `folder`.
    pub(crate) fn build_outline(&mut self, domains: bool, folder: &Path) {
        self.domains = domains;
        self.outline = Some(Section::new(folder));
    }

    /// What was counted.
    pub(crate) fn counted(self) -> Counts {
        Counts {
            learning: self.learning,
            has_ports: self.has_ports,
            urirs: self.urirs,
        }
    }

    /// The outline.
    ///
    /// # Errors
    /// If no outline was built, or its file could not be written.
    pub(crate) fn outline(&mut self) -> Result<Outline> {
        self.section().map(Outline::whole)
    }

    fn section(&mut self) -> Result<Section> {
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

    /// Counts a node whose rows and lookups are all known.
    #[inline]
    fn tally(&mut self, place: &TreeNode<'_>, node: &mut Gathered) {
        node.holds |= node.held || node.wildcard;
        self.urirs += node.urirs;
        if node.holds && self.learning.is_some() {
            let class = self.class(place, node, self.taught);
            if let Some(learning) = &mut self.learning {
                learning.add(class, node.stray_aside);
                if node.held {
                    learning.add_held(if node.labelled { node.aside } else { 0.0 });
                }
            }
        }
    }

    /// Adds a node to its parent.
    #[inline]
    fn pass_on(
        &mut self,
        place: &TreeNode<'_>,
        node: &mut Gathered,
        mut parent: Option<&mut Gathered>,
    ) {
        if self.beside.is_some() {
            self.compare(place, node, parent.as_deref_mut());
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

    /// Hands over what a piece has of a shared node.
    fn hand_over(&mut self, place: &TreeNode<'_>, mut node: Gathered, handed: Handed) {
        let children = std::mem::take(&mut node.outlined);
        let at = (place.id, place.slot, place.parent);
        if let Some(outline) = &mut self.outline
            && let Err(error) = outline.push_shared(at, &children)
        {
            self.error.get_or_insert(error);
        }
        let papers = std::mem::take(&mut node.papers);
        let beside = self.beside.as_mut();
        let part = SharedPart {
            papers: beside.map(|beside| beside.hand_over(place.slot, papers)),
            node,
            taught: self.taught,
            density: self.density,
        };
        self.shared.push((handed, part));
    }

    /// Adds what a piece has of a shared node.
    fn take_over(&mut self, shared: &mut Shared, part: SharedPart) {
        if let (Some(beside), Some(papers)) = (&mut self.beside, &part.papers) {
            beside.take_over(shared.depth, &mut shared.node.papers, papers);
        }
        shared.node.add(&part.node);
    }

    /// Closes a shared node, all parts of which are known. Returns it as a node of the spine.
    fn close_shared(&mut self, shared: &mut Shared, parent: Option<&mut Gathered>) -> SpineNode {
        (self.taught, self.density) = (shared.taught, shared.density);
        let separator = if shared.part == Part::Path {
            b'/'
        } else {
            b','
        };
        let level = memchr::memchr_iter(separator, &shared.stem).count() as u32;
        let place = TreeNode {
            stem: &shared.stem,
            part: shared.part,
            level: match shared.part {
                Part::Host => level + 1,
                Part::Path => level,
                _ => 0,
            },
            id: 0,
            slot: shared.depth,
            parent: shared.depth.saturating_sub(1),
        };
        let node = &mut shared.node;
        self.tally(&place, node);
        let mut own = self.note(&place, node);
        let mut folded = Folded::default();
        if self.folds {
            let misses = Expects::plain(self.prior).misses(&own);
            if let Some(with_own) = folded.with(&own, misses) {
                folded = with_own;
                own = own.folded();
            }
        }
        self.pass_on(&place, node, parent);
        SpineNode {
            own,
            folded,
            parent: None,
        }
    }

    /// Collects the pieces of a map on all cores, with the sites of each piece. `prepare` is called
    /// for each piece and for what they share. `None` if the map cannot be cut.
    pub(crate) fn in_pieces(
        given: &mut SourceMap,
        sample: Option<&Sample>,
        prior: &'a Prior,
        sites: &'a [Sites],
        prepare: impl Fn(&mut Gather<'_>) + Sync,
    ) -> Result<Option<(Gather<'a>, Outline, u64)>> {
        let mut outline = Outline::in_pieces(&given.room.temporary, given.room.threads);
        let mut all = Gather::new(prior, Sites::none());
        prepare(&mut all);
        let is_outlined = all.outline.take().is_some();
        let mut open: Vec<Shared> = Vec::new();
        let done = given.walk_pieces(
            Sharing::Ancestors,
            sample,
            |piece| {
                let of_piece = sites.get(piece.number).unwrap_or(Sites::none());
                let mut gather = Gather::new(prior, of_piece);
                prepare(&mut gather);
                gather.outline = is_outlined.then(Section::of_piece);
                gather.borders = piece.borders.clone();
                Ok(gather)
            },
            |mut gather| {
                if gather.torn {
                    return Ok(None);
                }
                let section = match is_outlined {
                    true => PackedSection::new(&gather.section()?)?,
                    false => PackedSection::default(),
                };
                Ok(Some(GatheredPiece {
                    section,
                    borders: gather.borders,
                    shared: gather.shared,
                    learning: gather.learning,
                    has_ports: gather.has_ports,
                    urirs: gather.urirs,
                }))
            },
            |piece| {
                let number = outline.len();
                outline.push(&piece.section)?;
                all.has_ports |= piece.has_ports;
                all.urirs += piece.urirs;
                if let (Some(learning), Some(more)) = (&mut all.learning, &piece.learning) {
                    learning.add_all(more);
                }
                let mut started = piece.borders.started();
                let numbered = piece.shared.into_iter().enumerate();
                let numbered = numbered.map(|(at, (handed, part))| (handed, (at, part)));
                outline.shared[number].resize(numbered.len(), 0);
                join(
                    &mut open,
                    numbered,
                    &mut (&mut all, &mut outline),
                    |(all, _), (at, part)| {
                        let (depth, stem, of_tree) = started.next().unwrap_or((0, b"", Part::Root));
                        let mut shared = Shared {
                            node: Gathered::default(),
                            stem: stem.to_vec(),
                            part: of_tree,
                            depth,
                            taught: part.taught,
                            density: part.density,
                            pieces: vec![(number, at)],
                            children: Vec::new(),
                        };
                        all.take_over(&mut shared, part);
                        shared
                    },
                    |(all, _), shared, (at, part)| {
                        shared.pieces.push((number, at));
                        all.take_over(shared, part);
                    },
                    |(all, outline), mut shared, mut parent| {
                        let above = parent.as_deref_mut().map(|parent| &mut parent.node);
                        let node = all.close_shared(&mut shared, above);
                        let at = outline.spine.len();
                        outline.spine.push(node);
                        for (piece, number) in shared.pieces {
                            outline.shared[piece][number] = at;
                        }
                        for child in shared.children {
                            outline.spine[child].parent = Some(at);
                        }
                        if let Some(parent) = parent {
                            parent.children.push(at);
                        }
                    },
                )
            },
        )?;
        Ok(done.map(|rows| (all, outline, rows)))
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
    /// Adds what a piece has of the same node.
    fn add(&mut self, part: &Gathered) {
        self.rows += part.rows;
        self.urirs += part.urirs;
        self.held_urirs += part.held_urirs;
        self.given_urirs += part.given_urirs;
        self.seconds.add(&part.seconds);
        self.held |= part.held;
        self.wildcard |= part.wildcard;
        self.void |= part.void;
        self.void_below |= part.void_below;
        self.holds |= part.holds;
        self.labelled |= part.labelled;
        self.children += part.children;
        self.asked += part.asked;
        self.aside += part.aside;
        self.stray += part.stray;
        self.stray_aside += part.stray_aside;
        self.fresh += part.fresh;
        self.locked.add(part.locked);
        self.given.add(part.given);
    }

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
        self.torn |= self.borders.tears(&place);
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
        if let Some(handed) = self.borders.handed(&place) {
            self.hand_over(&place, std::mem::take(node), handed);
            return;
        }
        self.tally(&place, node);
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
        self.pass_on(&place, node, parent);
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
        self.torn || self.error.is_some()
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
