//! The tree of keys, walked once in the byte order of SURTs.
//!
//! ```text
//! com,example)/a/b?c=d     com ─ com,example ─ com,example) ─ com,example)/a ─ com,example)/a/b
//!                          H1    H2            P0             P1               P2
//! ```
//!
//! In byte order, `/a-b` comes between `/a` and `/a/b`, so a subtree is not contiguous. But all keys
//! that start with the bytes of a node are: a node stays open as long as the next SURT starts with
//! its bytes. The open nodes are a stack whose size is the depth of a SURT, however many there are.
//!
//! The query is not part of the tree: it is below the key of its path (`HxPx`). Ports are not labels
//! of hosts. SURTs without a host are not in the tree.

use waypost_io::lines::common_prefix;
use waypost_surt::{Kind, Surt};

/// The deepest host or path: what is below it counts as one segment.
pub(super) const DEEPEST: usize = 255;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// So many labels of a host: `uk,co` has 2.
    Host(usize),
    /// A host with its port: `uk,co)`.
    Site,
    /// So many segments of a path: `uk,co)/a` has 1.
    Path(usize),
}

/// What is at and below a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its text is the first bytes of the current SURT.
    pub(super) end: usize,
    pub(super) part: Part,
    parent: Option<usize>,
    /// Whether it is a key itself, and the number of keys.
    is_key: bool,
    pub(super) keys: u64,
    pub(super) urirs: u64,
    pub(super) captures: u64,
    /// Nodes of the next depth: hosts below a host, paths below a site or path.
    pub(super) children: u64,
    /// The captures of the largest node below.
    pub(super) largest: u64,
    /// URI-Rs of the key itself, with any query.
    pub(super) own_urirs: u64,
    pub(super) own_captures: u64,
    /// URI-Rs and captures for which this is the registered domain.
    pub(super) domain: (u64, u64),
    /// Whether it is at or below a registered domain.
    pub(super) registered: bool,
    /// Whether it is an address, or part of one.
    pub(super) address: bool,
}

/// Receives nodes when everything below them is known.
pub(super) trait Visit {
    /// A node whose subtree is complete, with its text.
    fn close(&mut self, node: &Node, text: &[u8]);

    /// A key was found for the first time: the labels of its host, the segments of its path.
    fn key(&mut self, labels: usize, segments: usize);
}

/// A walk over SURTs in byte order.
#[derive(Debug, Default)]
pub(super) struct Walk {
    text: Vec<u8>,
    stack: Vec<Node>,
    /// The nodes of the current SURT: end and part.
    chain: Vec<(usize, Part)>,
    /// The end of the registered domain, and whether the host is an address: of the host below.
    host: Vec<u8>,
    domain_end: usize,
    address: bool,
}

impl Walk {
    /// Adds a URI-R, greater than the one before. Returns whether it is in the tree.
    pub(super) fn add(&mut self, bytes: &[u8], captures: u64, visit: &mut impl Visit) -> bool {
        let surt = Surt::new(bytes);
        if surt.kind() == Kind::Bare {
            return false;
        }
        let shared = common_prefix(&self.text, bytes);
        while let Some(top) = self.stack.pop_if(|top| top.end > shared) {
            self.close(top, visit);
        }
        self.text.truncate(shared);
        self.text.extend_from_slice(&bytes[shared..]);
        if self.host != surt.host() || self.host.is_empty() {
            self.host.clear();
            self.host.extend_from_slice(surt.host());
            self.domain_end = surt.registered_domain().len();
            self.address = surt.kind() == Kind::Address;
        }
        let (labels, segments) = self.lay(&surt);
        let mut parent = None;
        let mut at = 0;
        let mut chain = std::mem::take(&mut self.chain);
        for (end, part) in chain.drain(..) {
            while self.stack.get(at).is_some_and(|node| node.end < end) {
                at += 1;
            }
            if self.stack.get(at).is_none_or(|node| node.end != end) {
                debug_assert_eq!(at, self.stack.len(), "a node is opened below all others");
                self.stack.push(Node::new(end, part, parent));
                at = self.stack.len() - 1;
            }
            let node = &mut self.stack[at];
            node.registered |= end >= self.domain_end;
            node.address |= self.address;
            if let Part::Host(_) = part
                && end == self.domain_end
            {
                node.domain.0 += 1;
                node.domain.1 += captures;
            }
            parent = Some(at);
        }
        self.chain = chain;
        if let Some(node) = parent.map(|at| &mut self.stack[at]) {
            node.urirs += 1;
            node.captures += captures;
            node.own_urirs += 1;
            node.own_captures += captures;
            if !std::mem::replace(&mut node.is_key, true) {
                node.keys += 1;
                visit.key(labels, segments);
            }
        }
        true
    }

    /// Writes the nodes of a SURT to the chain. Returns the labels of its host and the segments of
    /// its path.
    fn lay(&mut self, surt: &Surt<'_>) -> (usize, usize) {
        let host = surt.host();
        let mut labels = 0;
        if !host.is_empty() {
            for comma in memchr::memchr_iter(b',', host).take(DEEPEST - 1) {
                labels += 1;
                self.chain.push((comma, Part::Host(labels)));
            }
            labels += 1;
            self.chain.push((host.len(), Part::Host(labels)));
        }
        let site = surt.authority().len() + 1;
        self.chain.push((site, Part::Site));
        let path = surt.path();
        let end = path.iter().rposition(|byte| *byte != b'/');
        let mut segments = 0;
        if let Some(end) = end {
            for slash in memchr::memchr_iter(b'/', &path[..end]).take(DEEPEST) {
                // The first slash ends the site.
                if slash > 0 {
                    segments += 1;
                    self.chain.push((site + slash, Part::Path(segments)));
                }
            }
            segments += 1;
            self.chain.push((site + end + 1, Part::Path(segments)));
        }
        (labels, segments)
    }

    /// Closes all nodes.
    pub(super) fn finish(mut self, visit: &mut impl Visit) {
        while let Some(top) = self.stack.pop() {
            self.close(top, visit);
        }
    }

    fn close(&mut self, node: Node, visit: &mut impl Visit) {
        if let Some(parent) = node.parent.and_then(|at| self.stack.get_mut(at)) {
            parent.keys += node.keys;
            parent.urirs += node.urirs;
            parent.captures += node.captures;
            parent.largest = parent.largest.max(node.captures);
            if node.part == Part::Site {
                parent.own_urirs += node.urirs;
                parent.own_captures += node.captures;
            } else {
                parent.children += 1;
            }
        }
        visit.close(&node, &self.text[..node.end]);
    }
}

impl Node {
    fn new(end: usize, part: Part, parent: Option<usize>) -> Node {
        Node {
            end,
            part,
            parent,
            is_key: false,
            keys: 0,
            urirs: 0,
            captures: 0,
            children: 0,
            largest: 0,
            own_urirs: 0,
            own_captures: 0,
            domain: (0, 0),
            registered: false,
            address: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Part and text of a node.
    type Name = (String, Vec<u8>);
    /// Keys, URI-Rs, captures and children of nodes.
    type Counts = BTreeMap<Name, (u64, u64, u64, u64)>;
    type Sets = (BTreeSet<Vec<u8>>, u64, u64, BTreeSet<Vec<u8>>);

    #[derive(Default)]
    struct Seen {
        nodes: Counts,
        keys: u64,
    }

    impl Visit for Seen {
        fn close(&mut self, node: &Node, text: &[u8]) {
            let of = (node.keys, node.urirs, node.captures, node.children);
            let earlier = self
                .nodes
                .insert((format!("{:?}", node.part), text.to_vec()), of);
            assert_eq!(earlier, None, "a node was closed twice");
        }

        fn key(&mut self, _: usize, _: usize) {
            self.keys += 1;
        }
    }

    /// The same by sets of all nodes of all SURTs.
    fn naive(surts: &BTreeMap<Vec<u8>, u64>) -> (Counts, u64) {
        let mut nodes: BTreeMap<Name, Sets> = BTreeMap::new();
        let mut keys = BTreeSet::new();
        for (text, captures) in surts {
            let surt = Surt::new(text);
            if surt.kind() == Kind::Bare {
                continue;
            }
            let mut walk = Walk::default();
            walk.lay(&surt);
            let key = text[..walk.chain.last().unwrap().0].to_vec();
            keys.insert(key.clone());
            let mut above: Option<Name> = None;
            for (end, part) in walk.chain {
                let name = (format!("{part:?}"), text[..end].to_vec());
                let node = nodes.entry(name.clone()).or_default();
                node.0.insert(key.clone());
                node.1 += 1;
                node.2 += captures;
                if let Some(above) = above.filter(|_| part != Part::Site) {
                    nodes.get_mut(&above).unwrap().3.insert(name.1.clone());
                }
                above = Some(name);
            }
        }
        let counted = nodes
            .into_iter()
            .map(|(name, (keys, urirs, captures, children))| {
                (
                    name,
                    (keys.len() as u64, urirs, captures, children.len() as u64),
                )
            });
        (counted.collect(), keys.len() as u64)
    }

    proptest! {
        #[test]
        fn every_node_has_what_lies_below_it(
            surts in prop::collection::btree_map(
                "(a|a,b|a,b-c|a,b,c|a:80|a,b:8|a:b|::1|1,2,3,4|)\\)(/|//|/a|/a-b|/a/|/a//|/a//b|/a/b|/a/b/c|/a.b/c|/b/a)(\\?x|\\?x/y|)|urn:a|a/b",
                1u64..9,
                0..60,
            )
        ) {
            let surts: BTreeMap<Vec<u8>, u64> =
                surts.into_iter().map(|(surt, n)| (surt.into_bytes(), n)).collect();
            let mut seen = Seen::default();
            let mut walk = Walk::default();
            for (surt, captures) in &surts {
                walk.add(surt, *captures, &mut seen);
            }
            walk.finish(&mut seen);
            let (nodes, keys) = naive(&surts);
            prop_assert_eq!(seen.keys, keys);
            prop_assert_eq!(seen.nodes, nodes);
        }
    }

    #[test]
    fn a_path_of_any_depth_is_walked() {
        let mut seen = Seen::default();
        let mut walk = Walk::default();
        for end in ["", "/x", "/y"] {
            let surt = format!("com,a){}{end}", "/s".repeat(100_000));
            walk.add(surt.as_bytes(), 1, &mut seen);
        }
        walk.finish(&mut seen);
        assert_eq!((seen.keys, seen.nodes.len()), (3, 2 + 1 + 254 + 3));
    }
}
