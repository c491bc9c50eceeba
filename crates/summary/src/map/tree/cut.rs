//! Cutting the text of a map into pieces that are walked at the same time.
//!
//! ```text
//! com,a)/  com,b)/x  │  com,b)/y  com,c)/  │  org,a)/
//!                 `com,b)/y`            `org`
//! ```
//!
//! A cut is between two rows, and between two keys of a sample of lookups: at the first node that is
//! above the next row but not above the last one. The nodes above both, such as the root, `com` and
//! `com,b` at the first cut, are *shared*: each piece has a part of them, and hands it over when it
//! is done. The parts are joined in the order of the pieces. All other nodes are in one piece.
//!
//! Bytes may tear a subtree apart: `com,b)/x`, `com,b)/x-1`, `com,b)/x/2`. With a cut at `x-1`, pieces
//! also share `x`, which is not above that row. Not every pass can [join such parts](Sharing).
//!
//! Cuts depend on the text alone, so the results are the same for any number of threads.

use waypost_io::lines::common_prefix;
use waypost_io::{Progress, Source};

use super::text::{Cutting, Sizes, Text, Texts};
use super::{Part, TreeNode, is_border};
use crate::error::{Error, Result};

/// Pieces have about this many bytes.
pub(crate) const PIECE: usize = 1 << 20;

/// A text of more than this many pieces without a place to cut is not held in memory.
const LONGEST: usize = 16;

/// Which nodes pieces may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only nodes above the first row of a piece, so that all pieces between two parts of a node have
    /// a part of it, too. Maps are not cut where there may be others.
    Ancestors,
    /// All nodes whose text is a prefix of that row. Maps can be cut almost everywhere.
    Prefixes,
}

/// A place where the text of a map is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// All keys after the cut are at least this, and all nodes that are shared are prefixes of it.
    at: Vec<u8>,
    /// The lengths of the shared nodes above the next row, from the root, if only they are shared.
    shared: Vec<usize>,
}

impl Cut {
    /// The cut between two lines that follow each other. `None` if in doubt.
    fn between(before: &[u8], after: &[u8], sharing: Sharing) -> Option<Cut> {
        let (before, after) = (key_of(before), key_of(after));
        let is_on_host = |key: &[u8]| {
            let end = memchr::memchr2(b')', b'/', key).filter(|&at| key[at] == b')');
            end.filter(|_| key[0].is_ascii_lowercase() || key[0].is_ascii_digit())
        };
        is_on_host(before)?;
        let host = is_on_host(after)?;
        let common = common_prefix(before, after);
        if before.get(common)? >= after.get(common)? {
            return None;
        }
        if sharing == Sharing::Prefixes {
            return Some(Cut {
                at: after[..=common].to_vec(),
                shared: Vec::new(),
            });
        }
        let mut shared = vec![0];
        let mut end = 0;
        let mut part = Part::Root;
        loop {
            let (next, next_part) = match part {
                Part::Root => (part_end(after, 0, b",)"), Part::Host),
                Part::Host if end == host => (end + 1, Part::Site),
                Part::Host => (part_end(after, end + 1, b",)"), Part::Host),
                _ => (part_end(after, end + 1, b"/?"), Part::Path),
            };
            if next_part != Part::Site && !is_usual(next_part, after.get(end..next)?) {
                return None;
            }
            (end, part) = (next, next_part);
            if end > common || !is_border(part, before.get(end).copied()) {
                break;
            }
            shared.push(end);
        }
        let at = after[..end].to_vec();
        (!before.starts_with(&at)).then_some(Cut { at, shared })
    }

    /// Whether only hosts are shared.
    fn is_between_hosts(&self) -> bool {
        !self.at.contains(&b')')
    }

    /// The depth of a node among those that are shared; the root has 0.
    #[inline]
    fn depth(&self, place: &TreeNode<'_>) -> Option<usize> {
        match place.part {
            Part::Root => Some(0),
            Part::Host | Part::Site | Part::Path if self.at.starts_with(place.stem) => {
                let length = place.stem.len();
                let depth = self.shared.binary_search(&length).ok();
                depth.filter(|&depth| depth > 0)
            }
            _ => None,
        }
    }

    /// Whether a node has a text that keys on both sides of the cut may start with.
    fn divides(&self, stem: &[u8], part: Part) -> bool {
        let next = self.at.get(stem.len());
        next.is_some_and(|&next| may_follow(part, next)) && self.at.starts_with(stem)
    }

    /// The number of shared nodes that it has in common with another cut.
    fn common(&self, other: &Cut) -> usize {
        let same = common_prefix(&self.at, &other.at);
        let pairs = self.shared.iter().zip(&other.shared);
        pairs.take_while(|(a, b)| a == b && **a <= same).count()
    }
}

/// Whether rows of a node may be greater than its text with this byte behind it. Rows with queries
/// are not: only voids have them.
fn may_follow(part: Part, next: u8) -> bool {
    match part {
        Part::Root | Part::Site => true,
        Part::Host | Part::Port => next <= b':',
        Part::Path => next <= b'/',
        Part::Query | Part::Bare => false,
    }
}

fn key_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|&byte| byte <= b' ');
    &line[..end.unwrap_or(line.len())]
}

fn part_end(key: &[u8], start: usize, borders: &[u8; 2]) -> usize {
    let rest = key.get(start..).unwrap_or_default();
    memchr::memchr2(borders[0], borders[1], rest).map_or(key.len(), |at| start + at)
}

/// Whether a label or segment, with its separator, sorts after everything at and below its
/// prefixes. Only ports and queries may come later, and [`Borders::tears`] finds them.
fn is_usual(part: Part, text: &[u8]) -> bool {
    let text = match text {
        [b',' | b'/', rest @ ..] => rest,
        text => text,
    };
    let is_usual = |&byte: &u8| match part {
        Part::Host => matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_'),
        _ => byte > b'/' && byte != b'?',
    };
    !text.is_empty() && text.iter().all(is_usual)
}

/// The cuts at both ends of a piece. `None`: the start or the end of the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Borders {
    start: Option<Cut>,
    end: Option<Cut>,
}

/// How a piece hands a shared node over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    /// The node's depth among the shared ones.
    depth: usize,
    /// Whether the next pieces have no part of the node.
    ends: bool,
}

impl Borders {
    /// Those of a whole map.
    pub(crate) const NONE: Borders = Borders {
        start: None,
        end: None,
    };

    /// How a node is handed over, if it is shared with another piece.
    #[inline]
    pub(crate) fn handed(&self, place: &TreeNode<'_>) -> Option<Handed> {
        let depth = |cut: &Option<Cut>| cut.as_ref().and_then(|cut| cut.depth(place));
        match depth(&self.end) {
            Some(depth) => Some(Handed { depth, ends: false }),
            None => depth(&self.start).map(|depth| Handed { depth, ends: true }),
        }
    }

    /// Whether an earlier piece has a part of a node.
    #[inline]
    pub(crate) fn continues(&self, place: &TreeNode<'_>) -> bool {
        let start = self.start.as_ref();
        start.is_some_and(|start| start.depth(place).is_some())
    }

    /// Whether a node that is not shared may have rows or lookups in an earlier piece, as a host
    /// with a port: `com,a,b` │ `com,a0` `com,a:8080`.
    #[inline]
    pub(crate) fn tears(&self, place: &TreeNode<'_>) -> bool {
        let Some(start) = &self.start else {
            return false;
        };
        let is_above = place.stem.len() < start.at.len() && start.at.starts_with(place.stem);
        is_above && place.part != Part::Bare && start.depth(place).is_none()
    }

    /// Whether another piece may have rows of a node, under [`Sharing::Prefixes`].
    pub(crate) fn divide(&self, place: &TreeNode<'_>) -> bool {
        let divides = |cut: &Cut| cut.divides(place.stem, place.part);
        self.start.as_ref().is_some_and(divides) || self.end.as_ref().is_some_and(divides)
    }

    /// Whether the next piece may have rows of a node.
    pub(crate) fn leave_open(&self, stem: &[u8], part: Part) -> bool {
        let end = self.end.as_ref();
        end.is_some_and(|cut| cut.divides(stem, part))
    }

    /// Whether the piece is all of the map.
    pub(crate) fn is_whole(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    /// Whether a key belongs to the piece.
    pub(crate) fn contain(&self, key: &[u8]) -> bool {
        let (first, next) = self.keys();
        first <= key && next.is_none_or(|next| key < next)
    }

    /// The first key of a piece at the least, and that of the next.
    pub(crate) fn keys(&self) -> (&[u8], Option<&[u8]>) {
        let start = self.start.as_ref().map_or(&b""[..], |cut| &cut.at);
        (start, self.end.as_ref().map(|cut| &cut.at[..]))
    }

    /// The depth, stem and part of each shared node that starts in this piece.
    pub(crate) fn started(&self) -> impl Iterator<Item = (usize, &[u8], Part)> {
        let common = match (&self.start, &self.end) {
            (Some(start), Some(end)) => start.common(end),
            _ => 0,
        };
        let end = self.end.iter();
        end.flat_map(move |cut| {
            let shared = cut.shared.iter().enumerate().skip(common);
            shared.map(|(depth, &length)| {
                let stem = &cut.at[..length];
                let host = memchr::memchr(b')', stem);
                let part = match host {
                    None if stem.is_empty() => Part::Root,
                    None => Part::Host,
                    Some(at) if at + 1 == length => Part::Site,
                    Some(_) => Part::Path,
                };
                (depth, stem, part)
            })
        })
    }
}

/// Joins what pieces hand over, in the order of the pieces, with the shared nodes that are open.
///
/// `open` starts a node with its first part, `add` adds another one, and `close` ends a node, given
/// the one above it.
pub(crate) fn join<T, U, C>(
    open_nodes: &mut Vec<T>,
    handed: impl IntoIterator<Item = (Handed, U)>,
    context: &mut C,
    mut open: impl FnMut(&mut C, U) -> T,
    mut add: impl FnMut(&mut C, &mut T, U),
    mut close: impl FnMut(&mut C, T, Option<&mut T>),
) -> Result<()> {
    let lost = || Error::invalid("a piece of the map lacks a shared node");
    let (mut ended, mut kept): (Vec<_>, Vec<_>) =
        handed.into_iter().partition(|(handed, _)| handed.ends);
    ended.sort_by_key(|(handed, _)| std::cmp::Reverse(handed.depth));
    kept.sort_by_key(|(handed, _)| handed.depth);
    for (handed, part) in ended {
        let mut node = open_nodes.pop().ok_or_else(lost)?;
        if open_nodes.len() != handed.depth {
            return Err(lost());
        }
        add(context, &mut node, part);
        close(context, node, open_nodes.last_mut());
    }
    for (handed, part) in kept {
        if let Some(node) = open_nodes.get_mut(handed.depth) {
            add(context, node, part);
        } else if open_nodes.len() == handed.depth {
            open_nodes.push(open(context, part));
        } else {
            return Err(lost());
        }
    }
    Ok(())
}

/// A piece of a map.
pub(crate) struct Piece {
    pub(crate) number: usize,
    /// `None` if there is no place to cut, no text, or if it cannot be read.
    pub(crate) text: Option<Text>,
    pub(crate) borders: Borders,
}

type LastCut = fn(&[u8]) -> Option<(usize, Cut)>;

/// The pieces of a map.
pub(crate) struct Pieces {
    texts: Texts<LastCut>,
    start: Option<Cut>,
    number: usize,
}

impl Pieces {
    /// Cuts a map into pieces of about `size` bytes, in `memory` bytes.
    pub(crate) fn open(
        source: &Source,
        progress: &Progress,
        sharing: Sharing,
        size: usize,
        memory: usize,
    ) -> Result<Pieces> {
        // An outline takes some times the size of its piece, and rows about its size.
        let times = match sharing {
            Sharing::Ancestors => 24,
            Sharing::Prefixes => 8,
        };
        let sizes = Sizes {
            piece: size,
            longest: (memory / 16).clamp(2 * size, LONGEST * size),
            together: (memory / times).max(2 * size),
        };
        let last_cut: LastCut = match sharing {
            Sharing::Ancestors => |text| last_cut(text, Sharing::Ancestors),
            Sharing::Prefixes => |text| last_cut(text, Sharing::Prefixes),
        };
        Ok(Pieces {
            texts: Texts::open(source, progress, sizes, last_cut)?,
            start: None,
            number: 0,
        })
    }

    /// The next piece. `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        let (text, end) = match self.texts.next() {
            Ok(Some(Cutting::Piece(text, end))) => (Some(text), end),
            Ok(Some(Cutting::Impossible)) | Err(_) => (None, None),
            // The first piece has the headers, and is there even if nothing else is.
            Ok(None) if self.number == 0 => (None, None),
            Ok(None) => return None,
        };
        let number = self.number;
        self.number += 1;
        let start = std::mem::replace(&mut self.start, end.clone());
        Some(Piece {
            number,
            text,
            borders: Borders { start, end },
        })
    }
}

/// The last place to cut in a text, as the start of a line: between hosts, if there is one.
fn last_cut(text: &[u8], sharing: Sharing) -> Option<(usize, Cut)> {
    let line_end = |end: usize| memchr::memrchr(b'\n', &text[..end]);
    let mut found = None;
    // The end of the line that would come after the cut.
    let mut end = line_end(text.len())?;
    while let Some(start) = line_end(end) {
        let start = start + 1;
        let before = line_end(start - 1).map_or(0, |at| at + 1);
        if let Some(cut) = Cut::between(&text[before..start - 1], &text[start..end], sharing) {
            if cut.is_between_hosts() {
                return Some((start, cut));
            }
            found.get_or_insert((start, cut));
        }
        end = start - 1;
    }
    found
}
