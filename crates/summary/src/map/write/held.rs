//! Rows in order, of which some wait: a node above them may still roll up.

use std::ops::Range;
use std::path::Path;

use super::Summed;
use crate::error::Result;
use crate::map::solve::Tape;

/// The number of a shared node.
pub(super) type NodeId = usize;

/// Rows that wait, and places for wildcards among them.
pub(super) struct HeldRows {
    items: Vec<Item>,
    /// Lines of earlier pieces.
    tape: Tape,
}

struct Item {
    /// The nearest node at or above it that is open.
    owner: NodeId,
    written: Summed,
    content: Content,
}

enum Content {
    /// Lines of the last piece.
    Lines(Range<usize>),
    /// A chunk of the tape.
    Chunk(usize),
    /// For the wildcard of the owner.
    Place,
    Wildcard(Vec<u8>),
    Dropped,
}

impl Item {
    fn drop_rows(&mut self) {
        self.written = Summed::default();
        self.content = Content::Dropped;
    }
}

impl HeldRows {
    /// No rows. Beyond a megabyte, they spill to `folder`.
    pub(super) fn new(folder: &Path) -> HeldRows {
        HeldRows {
            items: Vec::new(),
            tape: Tape::new(folder),
        }
    }

    /// The number of items. Each section, place and wildcard is one, even after it was dropped.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The number of items before the first whose owner is undecided.
    pub(super) fn decided(&self, is_undecided: impl Fn(NodeId) -> bool) -> usize {
        let waits =
            |item: &Item| !matches!(item.content, Content::Dropped) && is_undecided(item.owner);
        let first = self.items.iter().position(waits);
        first.unwrap_or(self.items.len())
    }

    /// Adds lines of the last piece, or a place for the wildcard of their owner.
    pub(super) fn push(&mut self, owner: NodeId, lines: Option<Range<usize>>, written: Summed) {
        self.items.push(Item {
            owner,
            written,
            content: lines.map_or(Content::Place, Content::Lines),
        });
    }

    /// Drops the rows of some nodes, except for a place for the wildcard of the first.
    pub(super) fn drop_rows(&mut self, from: usize, nodes: &[NodeId]) {
        for item in &mut self.items[from..] {
            let stays =
                matches!(item.content, Content::Place) && nodes.first() == Some(&item.owner);
            if nodes.contains(&item.owner) && !stays {
                item.drop_rows();
            }
        }
    }

    /// Gives the rows of a node that does not roll up to its parent.
    pub(super) fn give(&mut self, from: usize, node: NodeId, parent: NodeId) {
        for item in &mut self.items[from..] {
            if item.owner == node {
                item.owner = parent;
                if matches!(item.content, Content::Place) {
                    item.drop_rows();
                }
            }
        }
    }

    /// Puts the wildcard of a node in its place, and gives it to the parent. `false` if there is no
    /// place.
    pub(super) fn place(
        &mut self,
        from: usize,
        node: NodeId,
        parent: NodeId,
        line: Vec<u8>,
        written: Summed,
    ) -> bool {
        let is_place =
            |item: &&mut Item| item.owner == node && matches!(item.content, Content::Place);
        let Some(item) = self.items[from..].iter_mut().find(is_place) else {
            return false;
        };
        *item = Item {
            owner: parent,
            written,
            content: Content::Wildcard(line),
        };
        true
    }

    /// Writes the first items, which can no longer be dropped, and keeps what is left of the last
    /// piece, whose lines are given.
    pub(super) fn release(
        &mut self,
        count: usize,
        lines: &[u8],
        mut sink: impl FnMut(&[u8], &Summed) -> Result<()>,
    ) -> Result<()> {
        let mut chunk = Vec::new();
        for item in self.items.drain(..count) {
            let rows = match &item.content {
                Content::Lines(range) => &lines[range.clone()],
                Content::Chunk(number) => {
                    self.tape.read(*number, &mut chunk)?;
                    &chunk
                }
                Content::Wildcard(line) => line,
                Content::Place | Content::Dropped => continue,
            };
            sink(rows, &item.written)?;
        }
        let on_tape = |item: &Item| matches!(item.content, Content::Chunk(_));
        if !self.items.iter().any(on_tape) {
            self.tape.clear();
        }
        for item in &mut self.items {
            if let Content::Lines(range) = &item.content {
                let number = self.tape.chunks();
                self.tape.push(&lines[range.clone()])?;
                item.content = Content::Chunk(number);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_written_do_not_stay_on_the_tape() {
        let folder = tempfile::tempdir().unwrap();
        let mut held = HeldRows::new(folder.path());
        let mut out = Vec::new();
        for node in 0..5 {
            // Each piece decides about the rows of the piece before, and ends with rows that wait.
            held.push(node, Some(0..4), Summed::default());
            let count = held.decided(|owner| owner == node);
            let sink = |rows: &[u8], _: &Summed| {
                out.extend_from_slice(rows);
                Ok(())
            };
            held.release(count, b"a 1\n", sink).unwrap();
            assert_eq!((held.len(), held.tape.chunks()), (1, 1));
        }
        assert_eq!(out, b"a 1\na 1\na 1\na 1\n");
    }
}
