//! What the solver found: the least cost, and the choice of every node.

use std::path::Path;

use super::choice::{Choice, Choices, Table};
use super::coding::{number, push_number};
use super::numbers::Numbers;
use super::outline::{Reader, SHARED};
use super::parts::{Pack, Parts};
use super::solver::Value;
use super::spine::Outline;
use super::tape::Tape;
use crate::error::{Error, Result};

/// A least-cost map.
pub(crate) struct Solution {
    pub(crate) lambda: f64,
    pub(crate) value: Value,
    /// All expected misses.
    pub(crate) misses: f64,
    /// The choices of each section, if they were kept.
    pub(super) sections: Option<Parts<SectionChoices>>,
    /// The choices of the spine.
    pub(super) spine: Vec<Choice>,
}

impl Solution {
    /// The choices of the sections.
    ///
    /// # Errors
    /// If they were not kept.
    pub(super) fn sections(&self) -> Result<&Parts<SectionChoices>> {
        let sections = self.sections.as_ref();
        sections.ok_or_else(|| Error::invalid("choices were not kept"))
    }

    /// The choices of a section by node id, for the pass that writes.
    pub(crate) fn choices<'a>(
        &self,
        outline: &'a Outline,
        number: usize,
        folder: &Path,
    ) -> Result<Choices<'a>> {
        let section = &*outline.grouped(number)?;
        let chosen = self.sections()?.get(number)?;
        let mut numbers = Numbers::new(folder);
        let mut reader = Reader::default();
        let mut chunk = Vec::new();
        let mut shared = Vec::new();
        for at in 0..section.chunks() {
            section.read(at, &mut reader)?;
            chosen.read(at, &mut chunk)?;
            let mut bytes = chunk.chunks_exact(4);
            while let Some(node) = reader.next(section.slots())? {
                let mut number = [0; 4];
                number.copy_from_slice(bytes.next().unwrap_or(&[0; 4]));
                match node.own.is(SHARED) {
                    true => shared.push(node.id),
                    false => numbers.set(node.id, u32::from_le_bytes(number)),
                }
            }
        }
        let table = chosen.table.clone();
        if let Parts::Whole(section) = &outline.sections {
            numbers.intact()?;
            return Ok(Choices::of(table, numbers, section, chosen.groups.clone()));
        }
        for (id, group) in section.grouped_nodes() {
            let number = chosen.groups.get(group as usize);
            numbers.set(id, number.copied().unwrap_or(0));
        }
        let mut choices = Choices::numbered(table, numbers);
        for (id, &node) in shared.into_iter().zip(&outline.shared[number]) {
            choices.set(id, &self.spine[node]);
        }
        Ok(choices)
    }
}

/// The choices of a section.
#[derive(Debug)]
pub(crate) struct SectionChoices {
    pub(super) table: Table,
    /// Those of the nodes on the tape, chunk by chunk.
    pub(super) nodes: Tape,
    /// Those of groups.
    pub(super) groups: Vec<u32>,
}

impl SectionChoices {
    /// The choice of a group.
    pub(crate) fn group(&self, group: u32) -> &Choice {
        self.table
            .get(self.groups.get(group as usize).copied().unwrap_or(0))
    }

    /// Reads the choices of the nodes of a chunk.
    pub(crate) fn read(&self, chunk: usize, out: &mut Vec<u8>) -> Result<()> {
        self.nodes.read(chunk, out)
    }

    /// The choice of a node, given those of its chunk and its position in it.
    pub(crate) fn choice(&self, chunk: &[u8], at: usize) -> &Choice {
        let mut number = [0; 4];
        if let Some(bytes) = chunk.get(4 * at..4 * at + 4) {
            number.copy_from_slice(bytes);
        }
        self.table.get(u32::from_le_bytes(number))
    }
}

impl Pack for SectionChoices {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        self.table.pack(out);
        push_number(out, self.groups.len() as u64);
        for &group in &self.groups {
            push_number(out, u64::from(group));
        }
        push_number(out, self.nodes.chunks() as u64);
        let mut chunk = Vec::new();
        for at in 0..self.nodes.chunks() {
            self.nodes.read(at, &mut chunk)?;
            push_number(out, chunk.len() as u64);
            out.extend_from_slice(&chunk);
        }
        Ok(())
    }

    fn unpack(mut rest: &[u8]) -> Option<SectionChoices> {
        let rest = &mut rest;
        let table = Table::unpack(rest)?;
        let groups = (0..number(rest)?).map(|_| number(rest).map(|group| group as u32));
        let groups = groups.collect::<Option<_>>()?;
        let mut nodes = Tape::in_memory();
        for _ in 0..number(rest)? {
            let length = number(rest)? as usize;
            let (chunk, behind) = rest.split_at_checked(length)?;
            nodes.push(chunk).ok()?;
            *rest = behind;
        }
        Some(SectionChoices {
            table,
            nodes,
            groups,
        })
    }
}
