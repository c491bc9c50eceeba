//! The outline of a map: what the solver reads instead of the map.
//!
//! It contains each node with its counts, in the order in which nodes are closed, a few bytes each.
//! Most subtrees are small and similar to thousands of others: a page with one URI-R and no
//! lookups, a site with one page. Identical small subtrees form a group, which is stored and solved
//! once. All other nodes are on a tape, which spills to a temporary file beyond a megabyte; the
//! number of groups is limited. So the outline takes no more memory for a larger map.

use std::collections::HashMap;
use std::path::Path;

use super::numbers::Numbers;
use crate::error::{Error, Result};
use crate::map::tape::Tape;
use crate::map::top::Top;

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
}

/// The grouped children of an open node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    groups: Vec<(u32, u32)>,
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
    /// Its children, which are groups with lower numbers, and how many there are of each.
    pub(crate) children: Vec<(u32, u32)>,
}

/// The outline.
#[derive(Debug)]
pub(crate) struct Outline {
    tape: Tape,
    chunk: Vec<u8>,
    /// The id of the last node in the chunk; ids are stored as differences.
    last: usize,
    slots: usize,
    groups: Vec<Group>,
    known: HashMap<Box<[u8]>, u32>,
    /// The group of each node, from 1.
    group_of: Numbers,
    key: Vec<u8>,
}

impl Outline {
    /// An empty outline. Data that exceeds the memory limit spills to `folder`.
    pub(crate) fn new(folder: &Path) -> Outline {
        Outline {
            tape: Tape::new(folder),
            chunk: Vec::with_capacity(CHUNK + 128),
            last: 0,
            slots: 1,
            groups: Vec::new(),
            known: HashMap::new(),
            group_of: Numbers::new(folder),
            key: Vec::new(),
        }
    }

    /// Adds a node that is closed, and records it with its parent.
    pub(crate) fn push(
        &mut self,
        (id, slot, parent): (usize, usize, usize),
        own: &Own,
        children: Children,
        above: Option<&mut Children>,
    ) -> Result<()> {
        let small = !children.on_tape
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
        let step = id as i64 - self.last as i64;
        self.last = id;
        let out = &mut self.chunk;
        push_number(out, ((step << 1) ^ (step >> 63)) as u64);
        push_number(out, slot as u64);
        push_number(out, (slot - parent) as u64);
        push_own(own, out);
        push_groups(&children.groups, out);
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
        push_groups(&children.groups, &mut self.key);
        if let Some(&group) = self.known.get(&self.key[..]) {
            return Some(group);
        }
        if self.groups.len() >= MOST_GROUPS {
            return None;
        }
        let group = self.groups.len() as u32;
        self.known.insert(self.key[..].into(), group);
        self.groups.push(Group {
            own: *own,
            children: children.groups.clone(),
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

    /// The group of a node, if it is in one.
    #[inline]
    pub(crate) fn group_of(&self, id: usize) -> Option<u32> {
        self.group_of.get(id).checked_sub(1)
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

/// Whether parts of a node's own data differ from the defaults.
const TOP: u16 = 1 << 8;
const GIVEN: u16 = 1 << 9;
const ROWS: u16 = 1 << 10;
const ASKED: u16 = 1 << 11;
const ASIDE: u16 = 1 << 12;
const FRESH: u16 = 1 << 13;
const STRAY: u16 = 1 << 14;
const STRAY_ASIDE: u16 = 1 << 15;

fn push_own(own: &Own, out: &mut Vec<u8>) {
    let mut flags = own.flags;
    for (flag, is) in [
        (TOP, own.top.is_some()),
        (GIVEN, own.given != 0),
        (ROWS, own.exact_rows > 1 || own.wildcard_rows != 1),
        (ASKED, own.asked != 0.0),
        (ASIDE, own.aside != 0.0),
        (FRESH, own.fresh != 0.0),
        (STRAY, own.stray != 0.0),
        (STRAY_ASIDE, own.stray_aside != 0.0),
    ] {
        flags |= if is { flag } else { 0 };
    }
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(own.length);
    if let Some(top) = own.top {
        out.push(top as u8);
    }
    if own.is(HELD) {
        push_number(out, own.held);
    }
    if own.given != 0 {
        push_number(out, own.given);
    }
    if flags & ROWS != 0 {
        push_number(out, own.exact_rows);
        push_number(out, own.wildcard_rows);
    }
    let weights = [own.asked, own.aside, own.fresh, own.stray, own.stray_aside];
    for weight in weights {
        if weight != 0.0 {
            out.extend_from_slice(&weight.to_le_bytes());
        }
    }
    if own.is(BY_POWER) {
        out.extend_from_slice(&own.expected.to_le_bytes());
    } else if own.is(HOLDS) {
        out.extend_from_slice(&own.class.to_le_bytes());
    }
}

fn push_groups(groups: &[(u32, u32)], out: &mut Vec<u8>) {
    push_number(out, groups.len() as u64);
    let mut last = 0;
    for &(group, count) in groups {
        push_number(out, u64::from(group - last));
        push_number(out, u64::from(count));
        last = group;
    }
}

/// Decodes the next node. `None` if the bytes are invalid.
#[inline]
fn read_node(rest: &mut &[u8], last: &mut usize, node: &mut Node) -> Option<()> {
    let step = number(rest)?;
    let step = (step >> 1) as i64 ^ -((step & 1) as i64);
    *last = last.wrapping_add(step as usize);
    node.id = *last;
    node.slot = number(rest)? as usize;
    node.parent = node.slot.checked_sub(number(rest)? as usize)?;
    node.own = read_own(rest)?;
    node.groups.clear();
    let mut group = 0;
    for _ in 0..number(rest)? {
        group += number(rest)? as u32;
        node.groups.push((group, number(rest)? as u32));
    }
    Some(())
}

#[inline]
fn read_own(rest: &mut &[u8]) -> Option<Own> {
    let flags = u16::from_le_bytes(bytes(rest)?);
    let has = |flag: u16| flags & flag != 0;
    let length = byte(rest)?;
    let top = match has(TOP) {
        true => Some(*Top::ALL.get(usize::from(byte(rest)?))?),
        false => None,
    };
    let held = if has(HELD) { number(rest)? } else { 0 };
    let given = if has(GIVEN) { number(rest)? } else { 0 };
    let (exact_rows, wildcard_rows) = match has(ROWS) {
        true => (number(rest)?, number(rest)?),
        false => (u64::from(has(HELD)), 1),
    };
    let mut weight = |flag: u16| match has(flag) {
        true => bytes(rest).map(f64::from_le_bytes),
        false => Some(0.0),
    };
    let (asked, aside, fresh) = (weight(ASKED)?, weight(ASIDE)?, weight(FRESH)?);
    let (stray, stray_aside) = (weight(STRAY)?, weight(STRAY_ASIDE)?);
    let expected = weight(BY_POWER)?;
    let class = match has(HOLDS) && !has(BY_POWER) {
        true => u16::from_le_bytes(bytes(rest)?),
        false => 0,
    };
    Some(Own {
        flags: flags & (TOP - 1),
        top,
        held,
        given,
        exact_rows,
        wildcard_rows,
        asked,
        aside,
        stray,
        stray_aside,
        fresh,
        class,
        expected,
        length,
    })
}

#[inline]
fn bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}

#[inline]
fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(byte)
}

/// A variable-length integer: seven bits per byte, lowest first.
#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[inline]
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> impl Strategy<Value = Own> {
        let weight = || prop_oneof![Just(0.0), 0.1..1e9f64];
        (
            (
                0..256u16,
                prop::option::of(prop::sample::select(&Top::ALL[..])),
                any::<u8>(),
            ),
            (any::<u32>(), 0..3u64, 0..3u64, 0..3u64),
            (weight(), weight(), weight(), weight(), weight()),
            (any::<u16>(), weight()),
        )
            .prop_map(
                |(
                    (flags, top, length),
                    (held, given, exact, wildcard_rows),
                    (asked, aside, fresh, stray, stray_aside),
                    (class, expected),
                )| {
                    let is = |flag: u16| flags & flag != 0;
                    Own {
                        flags,
                        top,
                        held: if is(HELD) { u64::from(held) } else { 0 },
                        given,
                        // Without second keys it follows from whether the node is held.
                        exact_rows: if exact > 1 || wildcard_rows != 1 {
                            exact
                        } else {
                            u64::from(is(HELD))
                        },
                        wildcard_rows,
                        asked,
                        aside,
                        stray,
                        stray_aside,
                        fresh,
                        class: if is(HOLDS) && !is(BY_POWER) { class } else { 0 },
                        expected: if is(BY_POWER) && expected != 0.0 {
                            expected
                        } else {
                            0.0
                        },
                        length,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(owns in prop::collection::vec((own(), prop::collection::btree_map(any::<u16>(), 1..9u32, 0..4)), 0..40)) {
            let mut kept = Vec::new();
            for (own, groups) in &owns {
                push_own(own, &mut kept);
                push_groups(&groups.iter().map(|(group, count)| (u32::from(*group), *count)).collect::<Vec<_>>(), &mut kept);
            }
            let mut rest = &kept[..];
            for (own, groups) in &owns {
                prop_assert_eq!(read_own(&mut rest), Some(*own));
                let mut read = Vec::new();
                let mut group = 0;
                for _ in 0..number(&mut rest).unwrap() {
                    group += number(&mut rest).unwrap() as u32;
                    read.push((group as u16, number(&mut rest).unwrap() as u32));
                }
                prop_assert_eq!(read, groups.iter().map(|(group, count)| (*group, *count)).collect::<Vec<_>>());
            }
            prop_assert!(rest.is_empty());
        }
    }
}
