//! The outline of a map: what the solver reads instead of the map.
//!
//! It contains each node with its counts, in the order in which nodes are closed, a few bytes each.
//! Most subtrees are small and similar to thousands of others: a page with one URI-R and no
//! lookups, a site with one page. Identical small subtrees form a group, which is stored and solved
//! once. All other nodes are on a tape, which spills to a temporary file beyond a megabyte; the
//! number of groups is limited. So the outline takes no more memory for a larger map.
//!
//! A map that is walked in pieces has a section for each piece, with ids and groups of its own. Nodes
//! that several pieces share are the spine of the outline: sections have only what is below them.
//!
//! Where rolling up is all there is to choose, subtrees that never roll up are [folded](super::fold)
//! instead, and nothing is grouped.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::coding::{
    number, push_children, push_number, push_own, read_children, read_node, read_own,
};
use super::fold::Folded;
use super::numbers::Numbers;
use super::tape::Tape;
use super::top::Top;
use crate::error::{Error, Result};

/// How many bytes are written at once.
const CHUNK: usize = 1 << 18;

/// The maximum number of groups, and of nodes and distinct children in a group.
const MOST_GROUPS: usize = 1 << 16;
const MOST_NODES: u32 = 64;
const MOST_CHILDREN: usize = 12;

/// Something is held at exactly this node.
pub(crate) const HELD: u16 = 1;
/// The input map has a wildcard here, a void here, a void for everything at and below.
pub(crate) const WILDCARD: u16 = 2;
pub(crate) const VOID: u16 = 4;
pub(crate) const VOID_BELOW: u16 = 8;
/// Something is held at or below the node.
pub(crate) const HOLDS: u16 = 16;
/// It is known whether lookups of the node were misses.
pub(crate) const LABELLED: u16 = 32;
/// The root. It has no exact row and is not a void.
pub(crate) const ROOT: u16 = 64;
/// Expected misses are given directly, not by class.
pub(crate) const BY_POWER: u16 = 128;
/// What the node itself costs is folded; only the choice to roll it up is left.
pub(crate) const FOLDED: u16 = 256;
/// Not a node, but what a section has below a node of the spine: the end of that node in the section.
pub(crate) const SHARED: u16 = 512;

/// A node's own data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Own {
    pub(crate) flags: u16,
    /// The level that has to be allowed for a wildcard here. `None`: no wildcard is possible.
    pub(crate) top: Option<Top>,
    /// URI-Rs held at exactly this node, and those of a wildcard of the input map.
    pub(crate) held: u64,
    pub(crate) given: u64,
    /// Rows of the node alone, and of a wildcard here: one for each second key.
    pub(crate) exact_rows: u64,
    pub(crate) wildcard_rows: u64,
    /// Misses at exactly this node: training and held-out.
    pub(crate) asked: f64,
    pub(crate) aside: f64,
    /// The same at and below children that hold nothing.
    pub(crate) stray: f64,
    pub(crate) stray_aside: f64,
    /// Newcomers expected at and below the node, excluding those assigned to a node below.
    pub(crate) fresh: f64,
    /// The class of similar nodes, which gives the expected misses, or their number.
    pub(crate) class: u16,
    pub(crate) expected: f64,
    /// The approximate length of the last label or segment.
    pub(crate) length: u8,
}

impl Own {
    #[inline]
    pub(crate) fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A node on the tape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub(crate) id: usize,
    /// Its slot among the open nodes, and that of its parent.
    pub(crate) slot: usize,
    pub(crate) parent: usize,
    pub(crate) own: Own,
    /// Grouped children, and how many there are of each group.
    pub(crate) groups: Vec<(u32, u32)>,
    /// Folded children.
    pub(crate) folded: Folded,
}

/// The children of an open node that are grouped or folded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    groups: Vec<(u32, u32)>,
    folded: Folded,
    /// Number of nodes below.
    nodes: u32,
    /// Whether some child is on the tape.
    on_tape: bool,
}

impl Children {
    fn add(&mut self, group: u32, nodes: u32) {
        self.nodes = self.nodes.saturating_add(nodes);
        match self
            .groups
            .binary_search_by_key(&group, |&(group, _)| group)
        {
            Ok(at) => self.groups[at].1 += 1,
            Err(at) => self.groups.insert(at, (group, 1)),
        }
    }
}

/// A group of identical subtrees.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) own: Own,
    /// Its children among those of all groups.
    children: Range<usize>,
}

/// The outline of a whole map, or of a piece of one.
#[derive(Debug)]
pub(crate) struct Section {
    tape: Tape,
    chunk: Vec<u8>,
    /// The id of the last node in the chunk; ids are stored as differences.
    last: usize,
    slots: usize,
    groups: Vec<Group>,
    /// The children of groups: groups with lower numbers, and how many there are of each.
    children: Vec<(u32, u32)>,
    known: HashMap<Box<[u8]>, u32>,
    /// The group of each node, from 1.
    group_of: Numbers,
    key: Vec<u8>,
    /// The number of nodes.
    nodes: usize,
}

impl Section {
    /// An empty outline of a whole map. Data that exceeds the memory limit spills to `folder`.
    pub(crate) fn new(folder: &Path) -> Section {
        Section::on(Tape::new(folder))
    }

    /// An empty outline of a piece, in memory.
    pub(crate) fn of_piece() -> Section {
        Section::on(Tape::in_memory())
    }

    fn on(tape: Tape) -> Section {
        let group_of = Numbers::new(tape.folder());
        Section {
            tape,
            chunk: Vec::with_capacity(CHUNK + 128),
            last: 0,
            slots: 1,
            groups: Vec::new(),
            children: Vec::new(),
            known: HashMap::new(),
            group_of,
            key: Vec::new(),
            nodes: 0,
        }
    }

    /// Adds a node that is closed, and records it with its parent. If subtrees are folded, `misses`
    /// are the expected misses of the node.
    pub(crate) fn push(
        &mut self,
        (id, slot, parent): (usize, usize, usize),
        own: &Own,
        mut children: Children,
        misses: Option<(f64, f64)>,
        mut above: Option<&mut Children>,
    ) -> Result<()> {
        self.nodes = self.nodes.max(id + 1);
        let mut own = *own;
        if let Some(misses) = misses
            && let Some(folded) = children.folded.with(&own, misses)
        {
            if !children.on_tape
                && folded.stays(&own)
                && let Some(above) = above.as_deref_mut()
            {
                above.folded.add(&folded);
                return Ok(());
            }
            children.folded = folded;
            own = own.folded();
        }
        let own = &own;
        let small = misses.is_none()
            && !children.on_tape
            && children.nodes < MOST_NODES
            && children.groups.len() <= MOST_CHILDREN
            && !own.is(ROOT);
        if small && let Some(group) = self.group(own, &children) {
            self.group_of.set(id, group + 1);
            if let Some(above) = above {
                above.add(group, children.nodes + 1);
            }
            return Ok(());
        }
        if let Some(above) = above {
            above.on_tape = true;
        }
        self.push_node((id, slot, parent), own, &children)
    }

    /// Adds what is below a node of the spine, all of which is known.
    pub(crate) fn push_shared(
        &mut self,
        at: (usize, usize, usize),
        children: &Children,
    ) -> Result<()> {
        self.nodes = self.nodes.max(at.0 + 1);
        let own = Own {
            flags: SHARED,
            wildcard_rows: 1,
            ..Own::default()
        };
        self.push_node(at, &own, children)
    }

    fn push_node(
        &mut self,
        (id, slot, parent): (usize, usize, usize),
        own: &Own,
        children: &Children,
    ) -> Result<()> {
        let step = id as i64 - self.last as i64;
        self.last = id;
        let out = &mut self.chunk;
        push_number(out, ((step << 1) ^ (step >> 63)) as u64);
        push_number(out, slot as u64);
        push_number(out, (slot - parent) as u64);
        push_own(own, out);
        push_children(&children.groups, &children.folded, out);
        self.slots = self.slots.max(slot + 1);
        if self.chunk.len() >= CHUNK {
            self.tape.push(&self.chunk)?;
            self.chunk.clear();
            self.last = 0;
        }
        Ok(())
    }

    /// The group of subtrees identical to this one. `None` if there is no such group and no room
    /// for a new one.
    fn group(&mut self, own: &Own, children: &Children) -> Option<u32> {
        self.key.clear();
        push_own(own, &mut self.key);
        push_children(&children.groups, &children.folded, &mut self.key);
        if let Some(&group) = self.known.get(&self.key[..]) {
            return Some(group);
        }
        if self.groups.len() >= MOST_GROUPS {
            return None;
        }
        let group = self.groups.len() as u32;
        self.known.insert(self.key[..].into(), group);
        let start = self.children.len();
        self.children.extend_from_slice(&children.groups);
        self.groups.push(Group {
            own: *own,
            children: start..self.children.len(),
        });
        Some(group)
    }

    /// Writes the last chunk.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.tape.push(&self.chunk)?;
        self.chunk = Vec::new();
        self.known = HashMap::new();
        self.intact()
    }

    /// The groups, each after its children.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The children of a group.
    #[inline]
    pub(crate) fn children_of(&self, group: &Group) -> &[(u32, u32)] {
        &self.children[group.children.clone()]
    }

    /// The group of a node, if it is in one.
    #[inline]
    pub(crate) fn group_of(&self, id: usize) -> Option<u32> {
        self.group_of.get(id).checked_sub(1)
    }

    /// The nodes in groups, with their groups.
    pub(crate) fn grouped_nodes(&self) -> impl Iterator<Item = (usize, u32)> {
        let nodes = if self.groups.is_empty() {
            0
        } else {
            self.nodes
        };
        (0..nodes).filter_map(|id| self.group_of(id).map(|group| (id, group)))
    }

    /// The maximum number of nodes open at once.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.tape.chunks()
    }

    /// Seeks to the start of a chunk.
    pub(crate) fn read(&self, chunk: usize, reader: &mut Reader) -> Result<()> {
        self.tape.read(chunk, &mut reader.bytes)?;
        reader.at = 0;
        reader.last = 0;
        Ok(())
    }

    /// Appends the outline of a piece, except for the groups of nodes.
    pub(crate) fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        push_number(out, self.slots as u64);
        push_number(out, self.groups.len() as u64);
        for group in &self.groups {
            push_own(&group.own, out);
            push_children(self.children_of(group), &Folded::default(), out);
        }
        push_number(out, self.chunks() as u64);
        let mut chunk = Vec::new();
        for number in 0..self.chunks() {
            self.tape.read(number, &mut chunk)?;
            push_number(out, chunk.len() as u64);
            out.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Reads the outline of a piece. `None` if the bytes are invalid.
    pub(crate) fn unpack(mut rest: &[u8]) -> Option<Section> {
        let rest = &mut rest;
        let mut section = Section::of_piece();
        section.slots = number(rest)? as usize;
        let mut read = Vec::new();
        for _ in 0..number(rest)? {
            let own = read_own(rest)?;
            read_children(rest, &mut read)?;
            let start = section.children.len();
            section.children.extend_from_slice(&read);
            let children = start..section.children.len();
            section.groups.push(Group { own, children });
        }
        for _ in 0..number(rest)? {
            let length = number(rest)? as usize;
            let (chunk, behind) = rest.split_at_checked(length)?;
            section.tape.push(chunk).ok()?;
            *rest = behind;
        }
        Some(section)
    }

    /// Appends the groups of the nodes of a piece, compressed: only the pass that writes needs them.
    pub(crate) fn pack_groups(&self, out: &mut Vec<u8>) {
        if self.groups.is_empty() {
            return;
        }
        let mut numbers = Vec::with_capacity(2 * self.nodes);
        for id in 0..self.nodes {
            push_number(&mut numbers, u64::from(self.group_of.get(id)));
        }
        push_number(out, self.nodes as u64);
        push_number(out, numbers.len() as u64);
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        let start = out.len();
        out.resize(start + compressor.deflate_compress_bound(numbers.len()), 0);
        // The bound is large enough for any numbers.
        let size = compressor.deflate_compress(&numbers, &mut out[start..]);
        out.truncate(start + size.unwrap_or(0));
    }

    /// Reads the groups of the nodes of a piece. `None` if the bytes are invalid.
    pub(crate) fn unpack_groups(&mut self, mut rest: &[u8]) -> Option<()> {
        if self.groups.is_empty() {
            return Some(());
        }
        let rest = &mut rest;
        self.nodes = number(rest)? as usize;
        let mut numbers = vec![0; number(rest)? as usize];
        Decompressor::new()
            .deflate_decompress(rest, &mut numbers)
            .ok()?;
        let mut numbers = &numbers[..];
        for id in 0..self.nodes {
            self.group_of.set(id, number(&mut numbers)? as u32);
        }
        Some(())
    }

    /// Whether everything was stored and read without errors.
    ///
    /// # Errors
    /// If a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        self.group_of.intact()
    }
}

/// Reads the nodes of a chunk in the order in which they were closed: children before parents.
#[derive(Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    at: usize,
    last: usize,
    node: Node,
}

impl Reader {
    /// The next node of the chunk.
    ///
    /// # Errors
    /// If the temporary file was modified.
    #[inline]
    pub(crate) fn next(&mut self, slots: usize) -> Result<Option<&Node>> {
        let mut rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let changed = || Error::invalid("a temporary file was changed");
        read_node(&mut rest, &mut self.last, &mut self.node)
            .filter(|()| self.node.slot < slots)
            .ok_or_else(changed)?;
        self.at = self.bytes.len() - rest.len();
        Ok(Some(&self.node))
    }

    /// The position of the next node in the chunk.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Seeks to a node in the chunk. Its id is then unknown.
    pub(crate) fn seek(&mut self, position: usize) {
        self.at = position;
        self.last = 0;
    }
}
