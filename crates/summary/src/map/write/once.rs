//! The papers' rule in a single pass, for maps of exact keys without voids.
//!
//! Rows are queued as they arrive. When a node turns out to have too many children, its rows are
//! removed from the queue and no more are added: from then on, only their sum is kept. So the queue
//! never holds more than a subtree that may still roll up, and nothing that was written has to be
//! remembered. Maps with voids or wildcards take [two passes](crate::map::solve::papers), and so do
//! maps that this pass gives up on.

use waypost_surt::Reach;

use super::pieces::is_torn;
use super::queue::{Kind, Queue};
use super::{Style, write_key};
use crate::error::Result;
use crate::frequency::Frequency;
use crate::map::solve::papers::{Cut, Cuts, Papers};
use crate::map::tree::pass::{Pass, has_host};
use crate::map::tree::row::Row;
use crate::map::tree::{Part, TreeNode, Visitor, is_border};

/// Decides and writes.
pub(crate) struct Once<'a> {
    cuts: Cuts,
    style: Style,
    pub(crate) queue: &'a mut Queue,
    /// Open nodes that may roll up.
    open: usize,
    /// The first row of a piece. The queue holds all of a piece, so that its rows may be queued in any
    /// order.
    piece: Option<Vec<u8>>,
    pub(crate) rolled: u64,
    /// Not eligible for the single-pass path.
    pub(crate) gave_up: bool,
    pub(crate) trace: Option<Vec<(u64, u64)>>,
    read: u64,
}

/// The state of an open node.
pub(crate) struct Counted {
    part: Part,
    cut: Cut,
    /// The length of its text.
    end: usize,
    /// Number of queued rows when it was opened.
    from: usize,
    children: u32,
    remainders: u32,
    own: bool,
    site: bool,
    /// It already has too many children.
    rolls: bool,
    /// If it is below a node that rolls up: the length of that one's text.
    covered_by: Option<usize>,
    /// Topmost nodes at and below it that roll up.
    rolled: u64,
    total: Option<Frequency>,
}

impl<'a> Once<'a> {
    pub(crate) fn new(
        papers: &Papers,
        style: Style,
        queue: &'a mut Queue,
        traced: bool,
    ) -> Once<'a> {
        Once {
            cuts: Cuts::new(papers),
            style,
            queue,
            open: 0,
            piece: None,
            rolled: 0,
            gave_up: false,
            trace: traced.then(Vec::new),
            read: 0,
        }
    }

    /// Decides about a piece that begins with this key, with a queue that holds all of it.
    pub(crate) fn in_piece(papers: &Papers, first: Vec<u8>, queue: &'a mut Queue) -> Once<'a> {
        Once {
            piece: Some(first),
            ..Once::new(papers, Style::Published, queue, false)
        }
    }

    /// Rolls up a node as soon as it has too many children.
    #[inline]
    fn look(&mut self, stem: &[u8], node: &mut Counted) {
        if node.rolls || !node.cut.exceeded(node.children, node.remainders) {
            return;
        }
        if self.cuts.keeps(node.part, stem) {
            node.cut = Cut::NEVER;
            // It was counted as a node that may roll up.
            self.open -= 1;
            return;
        }
        node.rolls = true;
        if node.covered_by.is_none() {
            self.take_back(stem, node);
        }
    }

    /// Rows of ports are not contiguous with the subtrees of their hosts.
    #[cold]
    fn open_port(&mut self, stem: &[u8]) {
        let host = memchr::memrchr(b':', stem).map_or(stem, |at| &stem[..at]);
        self.gave_up |= match &self.piece {
            Some(first) => is_torn(host, first),
            None => self.style == Style::Published,
        };
    }

    fn take_back(&mut self, stem: &[u8], node: &Counted) {
        let part = node.part;
        self.queue.take_back(node.from, |key| {
            let below = key.strip_prefix(stem);
            below.is_some_and(|below| is_border(part, below.first().copied()))
                // A key without a host only looks as if it were below one: `com,a:8`.
                && (part != Part::Host || key.ends_with(b",*") || has_host(key))
        });
    }
}

impl Counted {
    /// The length of the text of the node that covers what is below this one.
    #[inline]
    fn cover(&self) -> Option<usize> {
        self.covered_by.or_else(|| self.rolls.then_some(self.end))
    }
}

#[inline]
fn add(total: &mut Option<Frequency>, more: Frequency) {
    *total = Some(total.map_or(more, |sum| sum.plus(more)));
}

impl Visitor for Once<'_> {
    type Node = Counted;

    #[inline]
    fn open(&mut self, place: TreeNode<'_>, parent: Option<&Counted>) -> Counted {
        if place.part == Part::Port {
            self.open_port(place.stem);
        }
        let cut = self.cuts.of(&place);
        self.open += usize::from(cut.is_finite());
        Counted {
            part: place.part,
            cut,
            end: place.stem.len(),
            from: self.queue.waiting(),
            children: 0,
            remainders: 0,
            own: false,
            site: false,
            rolls: false,
            covered_by: parent.and_then(Counted::cover),
            rolled: 0,
            total: None,
        }
    }

    #[inline]
    fn close(&mut self, place: TreeNode<'_>, node: &mut Counted, parent: Option<&mut Counted>) {
        self.look(place.stem, node);
        self.open -= usize::from(node.cut.is_finite());
        if node.rolls && node.covered_by.is_none() {
            node.rolled = 1;
            // Nodes that were open at the time it rolled up have queued more rows.
            self.take_back(place.stem, node);
            let total = node.total.unwrap_or_default();
            self.queue.push(Kind::Wildcard, &total, None, None, |out| {
                place.write_wildcard(out);
            });
        }
        if self.open == 0 {
            self.queue.settle();
        }
        let Some(parent) = parent else {
            self.rolled = node.rolled;
            return;
        };
        parent.rolled += node.rolled;
        if let Some(total) = node.total {
            add(&mut parent.total, total);
        }
        match place.part {
            // A host's own pages are not a child of the host.
            Part::Site => parent.site = true,
            Part::Host | Part::Port => {
                parent.children += 1;
                parent.remainders += node.remainders + u32::from(node.site);
            }
            _ => {
                parent.children += 1;
                parent.remainders += node.remainders + u32::from(node.own);
            }
        }
        if parent.end <= place.stem.len() {
            let stem = &place.stem[..parent.end];
            self.look(stem, parent);
        }
    }
}

impl Pass for Once<'_> {
    #[inline]
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        self.read += 1;
        if reach != Reach::Exact || row.frequency.is_void() || row.second.is_some() {
            self.gave_up = true;
        }
        node.own = true;
        add(&mut node.total, row.frequency);
        if node.cover().is_none() {
            let style = self.style;
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
    fn covered_by(&self, node: &Counted) -> Option<usize> {
        node.cover()
    }

    fn gives_up(&self) -> bool {
        self.gave_up || self.queue.gave_up
    }
}
