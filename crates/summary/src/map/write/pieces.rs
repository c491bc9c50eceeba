//! The papers' rule on all cores: the map is cut into pieces, each is compacted by itself, and the
//! results are written in order.
//!
//! A piece decides about its own nodes. It has only a part of the nodes that it shares with other
//! pieces, so whether these roll up is decided when their last part is known, or when there are
//! already too many children. Until then, the rows below them [wait](super::held). What the pieces
//! cannot decide is left to a [single thread](super::once): it also reports errors with the numbers
//! of their lines.

use std::path::Path;

use waypost_io::pipeline::Pool;

use super::held::{HeldRows, NodeId};
use super::once::{Once, SharedPart, Tally};
use super::queue::{Kind, Queue, Section};
use super::{Style, Summed};
use crate::error::{Error, Result};
use crate::map::compact::SourceMap;
use crate::map::solve::papers::{Cut, Cuts, Papers};
use crate::map::tree::cut::{Borders, Sharing};
use crate::map::tree::{Part, TreeNode};
use crate::ukvs::RowWriter;

/// A compacted piece.
struct CompactedPiece {
    borders: Borders,
    lines: Vec<u8>,
    sections: Vec<Section>,
    shared: Vec<SharedPart>,
}

/// Memory that is used for one piece after the other.
#[derive(Default)]
struct Buffers {
    queues: Pool<Option<Queue>>,
    lines: Pool<Vec<u8>>,
}

/// A shared node.
struct Shared {
    id: NodeId,
    stem: Vec<u8>,
    part: Part,
    cut: Cut,
    parent: Option<NodeId>,
    tally: Tally,
    /// The number of rows that waited before it was opened.
    from: usize,
}

impl Shared {
    /// Whether the pieces after one with these borders may have rows of it.
    fn is_open_after(&self, borders: &Borders) -> bool {
        borders.leave_open(&self.stem, self.part)
    }
}

/// The result of compacting in pieces.
pub(crate) struct Whole {
    pub(crate) rows: u64,
    pub(crate) rolled: u64,
    pub(crate) written: Summed,
    pub(crate) bytes: u64,
}

/// Compacts a map in pieces. `None` if that is not possible, or if the map has just been tidied:
/// nothing was written then.
pub(crate) fn compact(
    given: &mut SourceMap,
    papers: &Papers,
    head: &[u8],
    out: &Path,
) -> Result<Option<Whole>> {
    let lines = RowWriter::create(out, head, given.room.threads)?;
    let mut assembly = Assembly {
        cuts: Cuts::new(papers),
        lines,
        open: Vec::new(),
        next: 0,
        held: HeldRows::new(&given.room.temporary),
        written: Summed::default(),
        rolled: 0,
        lacks_place: false,
    };
    let buffers = Buffers::default();
    let walked = given.walk_pieces(
        Sharing::Prefixes,
        None,
        |piece| {
            let queue = buffers.queues.get();
            let queue = queue.unwrap_or_else(|| Queue::to_bytes(Style::Published));
            Ok(Once::in_piece(papers, piece.borders.clone(), queue))
        },
        |once| Ok(finish(once, &buffers)),
        |piece| {
            let lines = assembly.take(piece)?;
            buffers.lines.put(lines);
            Ok(())
        },
    );
    let rows = match walked {
        Ok(Some(rows)) => rows,
        Ok(None) => return Ok(None),
        Err(_) if assembly.lacks_place => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Whole {
        rows,
        rolled: assembly.rolled,
        written: assembly.written,
        bytes: assembly.lines.finish()?.bytes_out,
    }))
}

/// What becomes of a piece that has been walked. `None` if it takes more than this piece.
fn finish(once: Once, buffers: &Buffers) -> Option<CompactedPiece> {
    let Once {
        mut queue,
        piece,
        shared,
        gave_up,
        ..
    } = once;
    let borders = piece.filter(|_| !gave_up)?;
    let mut lines = buffers.lines.get();
    let sections = queue.take_sections(&mut lines);
    buffers.queues.put(Some(queue));
    Some(CompactedPiece {
        borders,
        lines,
        sections,
        shared,
    })
}

/// The rows of all pieces, in order.
struct Assembly {
    cuts: Cuts,
    lines: RowWriter,
    /// Shared nodes that may have rows in the next piece, parents first.
    open: Vec<Shared>,
    next: NodeId,
    held: HeldRows,
    written: Summed,
    rolled: u64,
    /// The wildcard of a node belongs in a piece before its first row.
    lacks_place: bool,
}

impl Assembly {
    /// Takes the next piece. Returns the buffer of its lines.
    fn take(&mut self, piece: CompactedPiece) -> Result<Vec<u8>> {
        let CompactedPiece {
            borders,
            mut lines,
            sections,
            shared,
        } = piece;
        let mut ids = Vec::with_capacity(shared.len());
        for part in shared {
            let id = self.add(part, &ids);
            ids.push(id);
        }
        for section in sections {
            let id = ids[usize::from(section.owner)];
            // A wildcard is covered only by those of the nodes above its own.
            let covering = match section.lines {
                Some(_) => Some(id),
                None => self.node(id).and_then(|node| node.parent),
            };
            if !self.is_covered(covering) {
                self.held.push(id, section.lines, section.written);
            }
        }
        while let Some(at) = self.next_to_close(&borders) {
            let node = self.open.remove(at);
            self.close(node)?;
        }
        self.release(&lines)?;
        lines.clear();
        Ok(lines)
    }

    /// Adds what a piece has of a shared node, given the other nodes of the piece so far.
    fn add(&mut self, part: SharedPart, ids: &[NodeId]) -> NodeId {
        let is_same = |node: &Shared| node.part == part.part && node.stem == part.stem;
        let at = self.open.iter().position(is_same);
        let at = at.unwrap_or_else(|| {
            let parent = part.parent.map(|number| ids[usize::from(number)]);
            self.open.push(Shared {
                id: self.next,
                stem: part.stem,
                part: part.part,
                cut: part.cut,
                parent,
                tally: Tally::default(),
                from: self.held.len(),
            });
            self.next += 1;
            self.open.len() - 1
        });
        self.open[at].tally.add(&part.tally);
        self.look(at);
        self.open[at].id
    }

    fn node(&self, id: NodeId) -> Option<&Shared> {
        self.open.iter().find(|node| node.id == id)
    }

    /// Whether a node or one above it rolls up.
    fn is_covered(&self, node: Option<NodeId>) -> bool {
        self.at_and_above(node).any(|node| node.tally.rolls)
    }

    /// An open node and the nodes above it.
    fn at_and_above(&self, node: Option<NodeId>) -> impl Iterator<Item = &Shared> {
        let first = node.and_then(|id| self.node(id));
        std::iter::successors(first, |node| node.parent.and_then(|id| self.node(id)))
    }

    /// Rolls up a node as soon as it has too many children, and drops the rows below it.
    fn look(&mut self, at: usize) {
        let node = &mut self.open[at];
        if node.tally.rolls || !node.tally.exceeds(node.cut) {
            return;
        }
        if self.cuts.keeps(node.part, &node.stem) {
            node.cut = Cut::NEVER;
            return;
        }
        node.tally.rolls = true;
        let (from, mut below) = (node.from, vec![node.id]);
        for node in &self.open {
            if node.parent.is_some_and(|parent| below.contains(&parent)) {
                below.push(node.id);
            }
        }
        self.held.drop_rows(from, &below);
    }

    /// The next of the nodes that have no rows after a piece: children first.
    fn next_to_close(&self, borders: &Borders) -> Option<usize> {
        let ended = (0..self.open.len()).filter(|&at| !self.open[at].is_open_after(borders));
        ended.max_by_key(|&at| self.open[at].stem.len())
    }

    /// Closes a node, all parts of which are known.
    fn close(&mut self, mut node: Shared) -> Result<()> {
        let Some(parent) = node.parent else {
            self.rolled = node.tally.rolled();
            return Ok(());
        };
        if !node.tally.rolls {
            self.held.give(node.from, node.id, parent);
        } else {
            let total = node.tally.roll();
            if !self.is_covered(Some(parent)) {
                let mut queue = Queue::to_bytes(Style::Published);
                let place = TreeNode::alone(&node.stem, node.part);
                queue.push(Kind::Wildcard, &total, None, None, |out| {
                    place.write_wildcard(out);
                });
                let (line, written) = queue.take_lines();
                let has_place = self.held.place(node.from, node.id, parent, line, written);
                if !has_place {
                    self.lacks_place = true;
                    return Err(Error::invalid("the map cannot be compacted in pieces"));
                }
            }
        }
        if let Some(at) = self.open.iter().position(|above| above.id == parent) {
            self.open[at].tally.join(node.part, &node.tally);
            self.look(at);
        }
        Ok(())
    }

    /// Writes all rows that no open node can cover any more.
    fn release(&mut self, lines: &[u8]) -> Result<()> {
        let may_roll = |node: &Shared| node.cut.is_finite();
        let count = (self.held).decided(|owner| self.at_and_above(Some(owner)).any(may_roll));
        let (out, written) = (&mut self.lines, &mut self.written);
        self.held.release(count, lines, |rows, summed| {
            written.add(summed);
            out.push_lines(rows)
        })?;
        for node in &mut self.open {
            node.from = node.from.saturating_sub(count);
        }
        Ok(())
    }
}
