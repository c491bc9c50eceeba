//! The outline of a map: a section for each of its pieces, and the spine, which has the nodes that
//! pieces share.
//!
//! The solver works on all sections at the same time and then on the spine, to which each section
//! hands over the costs below the nodes of the spine. What is chosen there goes the other way: from
//! the spine to the sections.

use std::path::Path;

use super::fold::Folded;
use super::outline::{Own, Section};
use super::parts::{Loan, Pack, Parts, changed};
use super::tape::Tape;
use crate::error::Result;

/// A node of the spine.
#[derive(Clone, Debug)]
pub(crate) struct SpineNode {
    pub(crate) own: Own,
    /// What is folded of the node itself.
    pub(crate) folded: Folded,
    /// Its parent, which comes later.
    pub(crate) parent: Option<usize>,
}

/// The outline of a map.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(super) sections: Parts<Section>,
    /// The groups of the nodes of each section that is packed.
    groups: Tape,
    /// Children before parents. Empty if the map was not cut.
    pub(super) spine: Vec<SpineNode>,
    /// For each section: the nodes of the spine that it shares, in the order of its tape.
    pub(super) shared: Vec<Vec<usize>>,
    pub(super) threads: usize,
}

impl Outline {
    /// The outline of a map that was not cut.
    pub(crate) fn whole(section: Section) -> Outline {
        Outline {
            sections: Parts::Whole(section),
            groups: Tape::in_memory(),
            spine: Vec::new(),
            shared: vec![Vec::new()],
            threads: 1,
        }
    }

    /// The outline of a map in pieces, without any so far. Data that exceeds the memory limit spills
    /// to `folder`.
    pub(crate) fn in_pieces(folder: &Path, threads: usize) -> Outline {
        Outline {
            sections: Parts::Packed(Tape::new(folder)),
            groups: Tape::new(folder),
            spine: Vec::new(),
            shared: Vec::new(),
            threads,
        }
    }

    /// Adds the next section, packed.
    pub(super) fn push(&mut self, packed: &PackedSection) -> Result<()> {
        if let Parts::Packed(tape) = &mut self.sections {
            tape.push(&packed.section)?;
        }
        self.groups.push(&packed.groups)?;
        self.shared.push(Vec::new());
        Ok(())
    }

    /// Whether the map was cut.
    pub(crate) fn is_in_pieces(&self) -> bool {
        matches!(self.sections, Parts::Packed(_))
    }

    /// The number of sections.
    pub(crate) fn len(&self) -> usize {
        self.sections.len()
    }

    /// A section, with the groups of its nodes.
    ///
    /// # Errors
    /// If a temporary file could not be read.
    pub(crate) fn grouped(&self, number: usize) -> Result<Loan<'_, Section>> {
        let mut section = self.sections.get(number)?;
        if let Loan::Read(section) = &mut section {
            let mut groups = Vec::new();
            self.groups.read(number, &mut groups)?;
            section.unpack_groups(&groups).ok_or_else(changed)?;
        }
        Ok(section)
    }
}

/// A section as it is put on tapes.
#[derive(Default)]
pub(crate) struct PackedSection {
    section: Vec<u8>,
    groups: Vec<u8>,
}

impl PackedSection {
    pub(crate) fn new(section: &Section) -> Result<PackedSection> {
        let mut packed = PackedSection::default();
        Pack::pack(section, &mut packed.section)?;
        section.pack_groups(&mut packed.groups);
        Ok(packed)
    }
}

impl Pack for Section {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        Section::pack(self, out)
    }

    fn unpack(bytes: &[u8]) -> Option<Section> {
        Section::unpack(bytes)
    }
}
