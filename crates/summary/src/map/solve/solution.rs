//! What the solver found: the least cost, and the choice of every node.

use std::path::Path;

use super::choice::{Choice, Choices, Table};
use super::numbers::Numbers;
use super::outline::{Outline, Reader};
use super::solver::Value;
use super::tape::Tape;
use crate::error::{Error, Result};

/// A least-cost map.
pub(crate) struct Solution {
    pub(crate) lambda: f64,
    pub(crate) value: Value,
    /// All expected misses.
    pub(crate) misses: f64,
    pub(super) table: Table,
    /// The choices of the nodes on the tape, chunk by chunk, if they were kept.
    pub(super) nodes: Option<Tape>,
    /// The choices of groups.
    pub(super) groups: Vec<u32>,
}

impl Solution {
    /// The choice of a group.
    pub(crate) fn group(&self, group: u32) -> &Choice {
        self.table
            .get(self.groups.get(group as usize).copied().unwrap_or(0))
    }

    /// Reads the choices of the nodes of a chunk.
    pub(crate) fn read(&self, chunk: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.nodes {
            Some(nodes) => nodes.read(chunk, out),
            None => Err(Error::invalid("choices were not kept")),
        }
    }

    /// The choice of a node, given those of its chunk and its position in it.
    pub(crate) fn choice(&self, chunk: &[u8], at: usize) -> &Choice {
        let mut number = [0; 4];
        if let Some(bytes) = chunk.get(4 * at..4 * at + 4) {
            number.copy_from_slice(bytes);
        }
        self.table.get(u32::from_le_bytes(number))
    }

    /// The choices by node id, for the pass that writes.
    pub(crate) fn choices<'a>(&self, outline: &'a Outline, folder: &Path) -> Result<Choices<'a>> {
        let mut numbers = Numbers::new(folder);
        let mut reader = Reader::default();
        let mut chunk = Vec::new();
        for at in 0..outline.chunks() {
            outline.read(at, &mut reader)?;
            self.read(at, &mut chunk)?;
            let mut bytes = chunk.chunks_exact(4);
            while let Some(node) = reader.next(outline.slots())? {
                let mut number = [0; 4];
                number.copy_from_slice(bytes.next().unwrap_or(&[0; 4]));
                numbers.set(node.id, u32::from_le_bytes(number));
            }
        }
        numbers.intact()?;
        let (table, groups) = (self.table.clone(), self.groups.clone());
        Ok(Choices::of(table, numbers, outline, groups))
    }
}
