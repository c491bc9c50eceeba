//! The tree of nodes, walked in byte order.
//!
//! The rows of a map are sorted by bytes, so `/a`, `/a-b` and `/a/c` are adjacent: the subtree of
//! `/a` is split by `/a-b`. But all keys that start with the bytes `/a` are contiguous. So a node
//! stays open as long as the next key starts with its bytes, and the open nodes, sorted by length,
//! form a stack. Its depth is the number of segments in a key, however many keys there are. Each
//! node is opened once and closed once, so its children are counted once.
//!
//! Nodes are numbered in the order in which they are opened. A second walk over the same keys gives
//! the same numbers.

use waypost_io::lines::common_prefix;
use waypost_surt::{Key, Reach};

pub(crate) mod cut;
pub(crate) mod pass;
pub(crate) mod row;
pub(crate) mod rows;
pub mod sample;
pub(crate) mod second;
pub(crate) mod spool;
pub(crate) mod spooled;
pub(crate) mod text;
pub(crate) mod tidy;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything.
    Root,
    /// Labels of a host: `uk,co`. `X,*` is everything at and below it.
    Host,
    /// A host with a port: `uk,co:81`.
    Port,
    /// A whole host: `uk,co)`. From here on, `X/*` is everything at and below it.
    Site,
    /// A path: `uk,co)/a`.
    Path,
    /// A path with a query; nothing is below it.
    Query,
    /// A key without a host: `urn:a`. Nothing is below it.
    Bare,
}

/// A node of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeNode<'a> {
    /// Its text: a root has no slash.
    pub(crate) stem: &'a [u8],
    pub(crate) part: Part,
    /// The depth: labels of a host, from 1; segments of a path, from 1; 0 for a site.
    pub(crate) level: u32,
    /// Its number, in the order in which nodes are opened.
    pub(crate) id: usize,
    /// Its slot among the open nodes, and that of its parent. Slots of open nodes are distinct.
    pub(crate) slot: usize,
    pub(crate) parent: usize,
}

impl<'a> TreeNode<'a> {
    /// A node outside of a walk.
    pub(crate) fn alone(stem: &'a [u8], part: Part) -> TreeNode<'a> {
        TreeNode {
            stem,
            part,
            level: 0,
            id: 0,
            slot: 0,
            parent: 0,
        }
    }

    /// Whether it has a wildcard key that every reader interprets the same way.
    pub(crate) fn can_roll(&self) -> bool {
        match self.part {
            Part::Host => !is_like_scheme(self.stem),
            Part::Site => true,
            // Some readers take `com,x)//*` for `com,x)/*`.
            Part::Path => self.stem.last() != Some(&b'/'),
            Part::Root => true,
            Part::Port | Part::Query | Part::Bare => false,
        }
    }

    /// Appends the wildcard key for the node and everything below it.
    pub(crate) fn write_wildcard(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.stem);
        out.extend_from_slice(match self.part {
            Part::Root => b"*",
            Part::Host | Part::Port => b",*",
            _ => b"/*",
        });
    }
}

/// Whether the wildcard of a host would be read as a URI behind a bare scheme: `a:b,*`.
fn is_like_scheme(host: &[u8]) -> bool {
    memchr::memchr(b':', host).is_some()
        && Key::new(&[host, b",*"].concat()).reach() == Reach::Exact
}

/// The position of a key in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot<'a> {
    /// The root: `*`.
    Root,
    /// A host, or something below one. An empty text is the empty host label: `,*`.
    Host(&'a [u8]),
    /// A key without a host: `urn:a`.
    Bare(&'a [u8]),
}

/// Receives the nodes of a walk.
pub(crate) trait Visitor {
    /// The state of an open node.
    type Node;

    /// A node is opened; all nodes above it are open.
    fn open(&mut self, place: TreeNode<'_>, parent: Option<&Self::Node>) -> Self::Node;

    /// Everything at and below the node has been visited.
    fn close(
        &mut self,
        place: TreeNode<'_>,
        node: &mut Self::Node,
        parent: Option<&mut Self::Node>,
    );
}

struct Entry<N> {
    end: usize,
    part: Part,
    level: u32,
    id: usize,
    parent: usize,
    node: N,
}

/// A walk over the tree.
pub(crate) struct Walk<N> {
    /// The text that all open nodes are prefixes of.
    text: Vec<u8>,
    stack: Vec<Entry<N>>,
    /// An open node without a host. It is below the root, and nothing is below it.
    bare: Option<(Vec<u8>, Entry<N>)>,
    next: usize,
}

impl<N> Walk<N> {
    /// Starts a walk at the root.
    pub(crate) fn new<V: Visitor<Node = N>>(visitor: &mut V) -> Walk<N> {
        let root = TreeNode {
            stem: b"",
            part: Part::Root,
            level: 0,
            id: 0,
            slot: 0,
            parent: 0,
        };
        let node = visitor.open(root, None);
        Walk {
            text: Vec::new(),
            stack: vec![Entry {
                end: 0,
                part: Part::Root,
                level: 0,
                id: 0,
                parent: 0,
                node,
            }],
            bare: None,
            next: 1,
        }
    }

    /// Goes to the node of a key.
    #[inline]
    pub(crate) fn at<V: Visitor<Node = N>>(&mut self, spot: Spot<'_>, visitor: &mut V) -> &mut N {
        self.at_after(0, spot, visitor)
    }

    /// Goes to the node of a key on a host that starts like the key before, with at least this many
    /// bytes.
    #[inline]
    pub(crate) fn at_after<V: Visitor<Node = N>>(
        &mut self,
        known: usize,
        spot: Spot<'_>,
        visitor: &mut V,
    ) -> &mut N {
        let stem = match spot {
            Spot::Root => return &mut self.stack[0].node,
            Spot::Bare(stem) => return self.at_bare(stem, visitor),
            Spot::Host(stem) => stem,
        };
        if self.bare.is_some() {
            self.close_bare(visitor);
        }
        // The text starts with the key before.
        let known = known.min(self.text.len()).min(stem.len());
        let common = known + common_prefix(&self.text[known..], &stem[known..]);
        while self.top().end > common {
            self.pop(visitor);
        }
        let mut above = self.stack.len() - 1;
        loop {
            let entry = &self.stack[above];
            let next = stem.get(entry.end).copied();
            if is_border(entry.part, next) {
                break;
            }
            // All separators are less than this: a key that continues so comes after the node's
            // subtree.
            if next.is_some_and(|byte| byte > b'?') && above == self.stack.len() - 1 {
                self.pop(visitor);
            }
            above -= 1;
        }
        let entry = &self.stack[above];
        if entry.end == stem.len() && entry.part != Part::Root {
            return &mut self.stack[above].node;
        }
        self.text.clear();
        self.text.extend_from_slice(stem);
        self.open_below(above, visitor);
        self.top_node()
    }

    /// Opens all nodes between an open one and the end of the text.
    fn open_below<V: Visitor<Node = N>>(&mut self, mut above: usize, visitor: &mut V) {
        loop {
            let Entry {
                end, part, level, ..
            } = self.stack[above];
            // The empty label is a node of its own below the root: `,*` is not `*`.
            if end == self.text.len() && part != Part::Root {
                return;
            }
            let rest = &self.text[end..];
            let (length, part, level) = match part {
                Part::Root => (border_of_host(rest, 0), Part::Host, 1),
                Part::Host | Part::Port => match rest[0] {
                    b',' => (border_of_host(rest, 1), Part::Host, level + 1),
                    b')' => (1, Part::Site, 0),
                    _ => (border_of_host(rest, 1), Part::Port, level),
                },
                _ if rest[0] == b'?' => (rest.len(), Part::Query, level),
                _ => {
                    // A leading slash belongs to the segment, a second one does not.
                    let is_border = |byte: &u8| matches!(byte, b'/' | b'?');
                    (part_length(rest, 1, is_border), Part::Path, level + 1)
                }
            };
            let end = end + length;
            let id = self.next;
            self.next += 1;
            let place = TreeNode {
                stem: &self.text[..end],
                part,
                level,
                id,
                slot: self.stack.len(),
                parent: above,
            };
            let node = visitor.open(place, Some(&self.stack[above].node));
            self.stack.push(Entry {
                end,
                part,
                level,
                id,
                parent: above,
                node,
            });
            above = self.stack.len() - 1;
        }
    }

    fn at_bare<V: Visitor<Node = N>>(&mut self, stem: &[u8], visitor: &mut V) -> &mut N {
        if self.bare.as_ref().is_none_or(|(text, _)| text != stem) {
            self.close_bare(visitor);
            let id = self.next;
            self.next += 1;
            let place = TreeNode {
                stem,
                part: Part::Bare,
                level: 0,
                id,
                slot: self.stack.len(),
                parent: 0,
            };
            let node = visitor.open(place, Some(&self.stack[0].node));
            let entry = Entry {
                end: stem.len(),
                part: Part::Bare,
                level: 0,
                id,
                parent: 0,
                node,
            };
            self.bare = Some((stem.to_vec(), entry));
        }
        match &mut self.bare {
            Some((_, entry)) => &mut entry.node,
            // Unreachable: it was just put there.
            None => &mut self.stack[0].node,
        }
    }

    fn close_bare<V: Visitor<Node = N>>(&mut self, visitor: &mut V) {
        if let Some((text, mut entry)) = self.bare.take() {
            let place = TreeNode {
                stem: &text,
                part: entry.part,
                level: 0,
                id: entry.id,
                slot: self.stack.len(),
                parent: 0,
            };
            visitor.close(place, &mut entry.node, Some(&mut self.stack[0].node));
        }
    }

    /// The node that was visited last, if it is on a host.
    #[inline]
    pub(crate) fn top_node(&mut self) -> &mut N {
        let last = self.stack.len() - 1;
        &mut self.stack[last].node
    }

    fn top(&self) -> &Entry<N> {
        &self.stack[self.stack.len() - 1]
    }

    #[inline]
    fn pop<V: Visitor<Node = N>>(&mut self, visitor: &mut V) {
        let Some((entry, rest)) = self.stack.split_last_mut() else {
            return;
        };
        let place = TreeNode {
            stem: &self.text[..entry.end],
            part: entry.part,
            level: entry.level,
            id: entry.id,
            slot: rest.len(),
            parent: entry.parent,
        };
        let parent = rest.get_mut(entry.parent).map(|parent| &mut parent.node);
        visitor.close(place, &mut entry.node, parent);
        self.stack.pop();
    }

    /// Closes all open nodes.
    pub(crate) fn finish<V: Visitor<Node = N>>(mut self, visitor: &mut V) {
        self.close_bare(visitor);
        while !self.stack.is_empty() {
            self.pop(visitor);
        }
    }
}

/// Whether the next byte, or the end, makes the text so far a node of its own.
#[inline]
pub(crate) fn is_border(part: Part, next: Option<u8>) -> bool {
    match (part, next) {
        (Part::Root | Part::Site, _) | (_, None) => true,
        (Part::Host | Part::Port, Some(byte)) => matches!(byte, b',' | b':' | b')'),
        (Part::Path, Some(byte)) => matches!(byte, b'/' | b'?'),
        (Part::Query | Part::Bare, Some(_)) => false,
    }
}

/// The length of the label at the start of `rest`, whose first `skip` bytes are its separator.
#[inline]
fn border_of_host(rest: &[u8], skip: usize) -> usize {
    part_length(rest, skip, |byte| matches!(byte, b',' | b':' | b')'))
}

/// The length of the label or segment at the start of `rest`, up to the next border. Most are so
/// short that a vectorised search would take longer.
#[inline]
fn part_length(rest: &[u8], skip: usize, is_border: impl Fn(&u8) -> bool) -> usize {
    let length = rest.iter().skip(skip).position(is_border);
    length.map_or(rest.len(), |at| at + skip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use waypost_surt::{Kind, Surt};

    #[derive(Default)]
    struct Record {
        opened: Vec<String>,
        closed: Vec<(String, Vec<String>)>,
    }

    impl Visitor for Record {
        type Node = Vec<String>;

        fn open(&mut self, place: TreeNode<'_>, _: Option<&Vec<String>>) -> Vec<String> {
            self.opened
                .push(String::from_utf8_lossy(place.stem).into_owned());
            Vec::new()
        }

        fn close(
            &mut self,
            place: TreeNode<'_>,
            node: &mut Vec<String>,
            parent: Option<&mut Vec<String>>,
        ) {
            let name = String::from_utf8_lossy(place.stem).into_owned();
            if let Some(parent) = parent {
                parent.push(name.clone());
            }
            node.sort();
            self.closed.push((name, std::mem::take(node)));
        }
    }

    fn walk(keys: &[&str]) -> Record {
        let mut record = Record::default();
        let mut walk = Walk::new(&mut record);
        for key in keys {
            let spot = match Surt::new(key.as_bytes()).kind() {
                Kind::Bare => Spot::Bare(key.as_bytes()),
                _ => Spot::Host(key.as_bytes()),
            };
            walk.at(spot, &mut record);
        }
        walk.finish(&mut record);
        record
    }

    #[test]
    fn a_subtree_that_bytes_tear_apart_is_opened_once() {
        let record = walk(&[
            "com,a)/s",
            "com,a)/s-1",
            "com,a)/s/1",
            "com,a)/s/2",
            "com,a,b)",
            "com,a-b)/x",
            "com,ab)",
        ]);
        let children = |of: &str| {
            let found: Vec<_> = record
                .closed
                .iter()
                .filter(|(name, _)| name == of)
                .collect();
            assert_eq!(found.len(), 1, "{of} is closed once");
            found[0].1.clone()
        };
        assert_eq!(children("com,a)"), ["com,a)/s", "com,a)/s-1"]);
        assert_eq!(children("com,a)/s"), ["com,a)/s/1", "com,a)/s/2"]);
        assert_eq!(children("com,a"), ["com,a)", "com,a,b"]);
        assert_eq!(children("com"), ["com,a", "com,a-b", "com,ab"]);
        assert_eq!(children(""), ["com"]);
    }

    proptest! {
        #[test]
        fn places_are_the_prefixes_of_the_keys_each_opened_and_closed_once(
            mut keys in prop::collection::vec("([a-c0]{1,2}[,:-]){0,3}[ab]{0,1}\\)?(/[a-b.0-]{0,2}){0,3}", 0..12),
        ) {
            for key in &mut keys {
                key.truncate(key.trim_end_matches('/').len());
            }
            keys.retain(|key| !key.is_empty() && !key.starts_with(')') && !key.contains(",)") && !key.contains(",,"));
            keys.sort();
            let mut expected: BTreeSet<String> = BTreeSet::from([String::new()]);
            let mut bare = 0;
            for key in &keys {
                let surt = Surt::new(key.as_bytes());
                if surt.kind() == Kind::Bare {
                    bare += 1;
                    continue;
                }
                for prefix in surt.prefixes() {
                    expected.insert(String::from_utf8(prefix.to_vec()).unwrap());
                }
            }
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let record = walk(&keys);
            let opened: Vec<&String> = record.opened.iter().filter(|name| name.is_empty() || name.contains(')') || expected.contains(*name)).collect();
            let distinct: BTreeSet<String> = opened.iter().map(|name| (*name).clone()).collect();
            let missing: Vec<_> = expected.difference(&distinct).collect();
            prop_assert!(missing.is_empty(), "{missing:?}");
            prop_assert!(record.opened.len() <= expected.len() + bare);
            prop_assert_eq!(record.closed.len(), record.opened.len());
        }
    }
}
