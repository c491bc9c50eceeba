//! The papers' rule in a single pass, for maps of exact keys without voids.
//!
//! Rows are queued as they arrive. When a node turns out to have too many children, its rows are
//! removed from the queue and no more are added: from then on, only their sum is kept. So the queue
//! never holds more than a subtree that may still roll up, and nothing that was written has to be
//! remembered. Maps with voids or wildcards take [two passes](crate::map::solve::papers), and so do
//! maps that this pass gives up on.

use waypost_surt::Reach;

use super::queue::{Kind, Owner, Queue};
use super::{Style, write_key};
use crate::error::Result;
use crate::frequency::Frequency;
use crate::map::solve::papers::{Counted, Cut, Cuts, Papers};
use crate::map::tree::cut::Borders;
use crate::map::tree::pass::{Pass, has_host};
use crate::map::tree::row::Row;
use crate::map::tree::{Part, TreeNode, Visitor, is_border};

/// The most bytes that the texts of the shared nodes of a piece take together. Each text contains those
/// of the nodes above it, so a key of a megabyte with thousands of segments would take gigabytes.
const MOST_SHARED: usize = 1 << 17;

/// Decides and writes.
pub(crate) struct Once {
    cuts: Cuts,
    style: Style,
    pub(crate) queue: Queue,
    /// Open nodes that may roll up.
    open: usize,
    /// The ends of a piece. The queue holds all of a piece, so that its rows may be queued in any
    /// order.
    pub(super) piece: Option<Borders>,
    /// What a piece has of shared nodes, parents first. Rows are owned by the nearest shared node at
    /// or above their own.
    pub(super) shared: Vec<SharedPart>,
    pub(crate) rolled: u64,
    /// Not eligible for the single-pass path.
    pub(crate) gave_up: bool,
    pub(crate) trace: Option<Vec<(u64, u64)>>,
    read: u64,
}

/// The state of an open node.
pub(crate) struct OpenNode {
    part: Part,
    cut: Cut,
    /// The length of its text.
    end: usize,
    /// Number of queued rows when it was opened.
    from: usize,
    /// Its number among the shared nodes, or that of the nearest one above it.
    owner: Owner,
    is_shared: bool,
    tally: Tally,
    /// If it is below a node that rolls up: the length of that one's text.
    covered_by: Option<usize>,
}

/// What is counted of a node, or of the part of it that is in a piece.
#[derive(Default)]
pub(super) struct Tally {
    counted: Counted,
    total: Option<Frequency>,
    /// It already has too many children.
    pub(super) rolls: bool,
}

/// What a piece has of a shared node.
pub(super) struct SharedPart {
    pub(super) stem: Vec<u8>,
    pub(super) part: Part,
    pub(super) cut: Cut,
    /// The number of its parent.
    pub(super) parent: Option<Owner>,
    pub(super) tally: Tally,
}

impl Once {
    pub(crate) fn new(papers: &Papers, style: Style, queue: Queue, traced: bool) -> Once {
        Once {
            cuts: Cuts::new(papers),
            style,
            queue,
            open: 0,
            piece: None,
            shared: Vec::new(),
            rolled: 0,
            gave_up: false,
            trace: traced.then(Vec::new),
            read: 0,
        }
    }

    /// Decides about a piece, as far as that is possible without the others, with a queue that holds
    /// all of it.
    pub(crate) fn in_piece(papers: &Papers, borders: Borders, queue: Queue) -> Once {
        Once {
            piece: Some(borders),
            ..Once::new(papers, Style::Published, queue, false)
        }
    }

    /// Rolls up a node as soon as it has too many children.
    #[inline]
    fn look(&mut self, stem: &[u8], node: &mut OpenNode) {
        if node.tally.rolls || !node.cut.exceeded(&node.tally.counted) {
            return;
        }
        if self.cuts.keeps(node.part, stem) {
            node.cut = Cut::NEVER;
            // It was counted as a node that may roll up.
            self.open -= 1;
            return;
        }
        node.tally.rolls = true;
        if node.covered_by.is_none() {
            self.take_back(stem, node);
        }
    }

    fn take_back(&mut self, stem: &[u8], node: &OpenNode) {
        let part = node.part;
        self.queue.take_back(node.from, |key| {
            let below = key.strip_prefix(stem);
            below.is_some_and(|below| is_border(part, below.first().copied()))
                // A key without a host only looks as if it were below one: `com,a:8`.
                && (part != Part::Host || key.ends_with(b",*") || has_host(key))
        });
    }

    /// Starts the part of a node that may be shared: its parent is. Returns its number if it is.
    #[cold]
    fn open_shared(
        &mut self,
        place: &TreeNode<'_>,
        cut: Cut,
        parent: Option<Owner>,
    ) -> Option<Owner> {
        self.piece.as_ref().filter(|piece| piece.divide(place))?;
        let taken: usize = self.shared.iter().map(|part| part.stem.len()).sum();
        if taken + place.stem.len() > MOST_SHARED {
            self.gave_up = true;
            return None;
        }
        // The empty label has the same text as the root.
        self.gave_up |= place.part == Part::Host && place.stem.is_empty();
        let number = self.shared.len() as Owner;
        self.shared.push(SharedPart {
            stem: place.stem.to_vec(),
            part: place.part,
            cut,
            parent,
            tally: Tally::default(),
        });
        Some(number)
    }

    /// Ends the part of a shared node, whose wildcard may be added later.
    #[cold]
    fn close_shared(&mut self, place: &TreeNode<'_>, node: &mut OpenNode) {
        let has_place = |borders: &Borders| {
            let mut key = Vec::new();
            place.write_wildcard(&mut key);
            borders.contain(&key)
        };
        if node.cut.is_finite() && self.piece.as_ref().is_some_and(has_place) {
            self.queue.owner = node.owner;
            self.queue.push_place(|out| place.write_wildcard(out));
        }
        if let Some(shared) = self.shared.get_mut(usize::from(node.owner)) {
            shared.tally = std::mem::take(&mut node.tally);
        }
    }
}

impl OpenNode {
    /// The length of the text of the node that covers what is below this one.
    #[inline]
    fn cover(&self) -> Option<usize> {
        self.covered_by
            .or_else(|| self.tally.rolls.then_some(self.end))
    }
}

impl Tally {
    #[inline]
    fn add_total(&mut self, more: Frequency) {
        self.total = Some(self.total.map_or(more, |sum| sum.plus(more)));
    }

    /// Adds what another piece has of the same node.
    pub(super) fn add(&mut self, other: &Tally) {
        self.counted.add(&other.counted);
        if let Some(total) = other.total {
            self.add_total(total);
        }
    }

    /// Adds a child with everything below it.
    #[inline]
    pub(super) fn join(&mut self, part: Part, child: &Tally) {
        self.counted.join(part, &child.counted);
        if let Some(total) = child.total {
            self.add_total(total);
        }
    }

    pub(super) fn exceeds(&self, cut: Cut) -> bool {
        cut.exceeded(&self.counted)
    }

    /// Counts a node that rolls up as the topmost one that does.
    #[inline]
    pub(super) fn roll(&mut self) -> Frequency {
        self.counted.rolled = 1;
        self.total.unwrap_or_default()
    }

    pub(super) fn rolled(&self) -> u64 {
        self.counted.rolled
    }
}

impl Visitor for Once {
    type Node = OpenNode;

    #[inline]
    fn open(&mut self, place: TreeNode<'_>, parent: Option<&OpenNode>) -> OpenNode {
        // Rows of ports are not contiguous with the subtrees of their hosts.
        if place.part == Part::Port && self.piece.is_none() {
            self.gave_up |= self.style == Style::Published;
        }
        let cut = self.cuts.of(&place);
        let above = parent.map(|parent| parent.owner);
        let shared = match parent {
            Some(parent) if !parent.is_shared => None,
            _ => self.open_shared(&place, cut, above),
        };
        self.open += usize::from(cut.is_finite());
        OpenNode {
            part: place.part,
            cut,
            end: place.stem.len(),
            from: self.queue.waiting(),
            owner: shared.or(above).unwrap_or_default(),
            is_shared: shared.is_some(),
            tally: Tally::default(),
            covered_by: parent.and_then(OpenNode::cover),
        }
    }

    #[inline]
    fn close(&mut self, place: TreeNode<'_>, node: &mut OpenNode, parent: Option<&mut OpenNode>) {
        self.look(place.stem, node);
        self.open -= usize::from(node.cut.is_finite());
        if node.is_shared {
            self.close_shared(&place, node);
            return;
        }
        if node.tally.rolls && node.covered_by.is_none() {
            // Nodes that were open at the time it rolled up have queued more rows.
            self.take_back(place.stem, node);
            let total = node.tally.roll();
            self.queue.owner = node.owner;
            self.queue.push(Kind::Wildcard, &total, None, None, |out| {
                place.write_wildcard(out);
            });
        }
        if self.open == 0 {
            self.queue.settle();
        }
        let Some(parent) = parent else {
            self.rolled = node.tally.rolled();
            return;
        };
        parent.tally.join(place.part, &node.tally);
        if parent.end <= place.stem.len() {
            let stem = &place.stem[..parent.end];
            self.look(stem, parent);
        }
    }
}

impl Pass for Once {
    #[inline]
    fn row(&mut self, node: &mut OpenNode, row: &Row<'_>, reach: Reach) -> Result<()> {
        self.read += 1;
        if reach != Reach::Exact || row.frequency.is_void() || row.second.is_some() {
            self.gave_up = true;
        }
        node.tally.counted.own = true;
        node.tally.add_total(row.frequency);
        if node.cover().is_none() {
            let style = self.style;
            self.queue.owner = node.owner;
            self.queue
                .push(Kind::Exact, &row.frequency, None, None, |out| {
                    write_key(&row.key, style, out);
                });
            if self.open == 0 {
                self.queue.settle();
            }
        }
        if let Some(trace) = &mut self.trace
            && (self.read.is_power_of_two() || self.read.is_multiple_of(10_000))
        {
            trace.push((self.read, self.queue.count()));
        }
        Ok(())
    }

    #[inline]
    fn covered_by(&self, node: &OpenNode) -> Option<usize> {
        node.cover()
    }

    fn gives_up(&self) -> bool {
        self.gave_up || self.queue.gave_up
    }
}
