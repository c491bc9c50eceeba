//! What is counted of the nodes of the tree: sizes and children by depth, hosts, domains, subtrees.

use std::collections::HashMap;

use super::model::{Depth, Law, Laws, Layer, Place};
use super::top::Top;
use super::walk::{DEEPEST, Node, Part, Visit};
use crate::numeric::histogram::{Histogram, ratio};
use waypost_summary::PowerFit;

/// Counts of nodes.
pub(super) struct Tree {
    hosts: Vec<Nodes>,
    paths: Vec<Nodes>,
    depths: Vec<Depth>,
    pub(super) keys: u64,
    pub(super) host_count: u64,
    pub(super) site_count: u64,
    pub(super) domain_count: u64,
    pub(super) tld_count: u64,
    pub(super) addresses: Place,
    pub(super) address_count: u64,
    pub(super) top_tlds: Top<u64>,
    pub(super) top_domains: Top<u64>,
    pub(super) top_hosts: Top<u64>,
    pub(super) top_sites: Top<u64>,
    pub(super) top_subtrees: Top<u64>,
    /// Keys with most queries: URI-Rs that differ only in their query.
    pub(super) top_queries: Top<u64>,
    /// Sites that someone asks for, and whether anything of them is held.
    pub(super) asked: HashMap<Vec<u8>, bool>,
}

/// The nodes of one depth.
#[derive(Clone, Debug, Default)]
struct Nodes {
    /// HxPx keys at and below each node.
    sizes: Histogram,
    /// Children of nodes that have any.
    children: Histogram,
}

/// How many top-level domains are listed.
const TLDS: usize = 2_000;

impl Tree {
    pub(super) fn new(top: usize) -> Tree {
        Tree {
            hosts: vec![Nodes::default(); DEEPEST + 1],
            paths: vec![Nodes::default(); DEEPEST + 1],
            depths: (0..=DEEPEST)
                .map(|depth| Depth {
                    depth,
                    ..Depth::default()
                })
                .collect(),
            keys: 0,
            host_count: 0,
            site_count: 0,
            domain_count: 0,
            tld_count: 0,
            addresses: Place::default(),
            address_count: 0,
            top_tlds: Top::new(TLDS),
            top_domains: Top::new(top),
            top_hosts: Top::new(top),
            top_sites: Top::new(top),
            top_subtrees: Top::new(top),
            top_queries: Top::new(10),
            asked: HashMap::new(),
        }
    }

    fn close_host(&mut self, node: &Node, text: &[u8], labels: usize) {
        if node.own_urirs > 0 {
            self.host_count += 1;
            self.depths[labels].hosts += 1;
            if node.address {
                self.address_count += 1;
                self.addresses.urirs += node.own_urirs;
                self.addresses.captures += node.own_captures;
            }
            let urirs = node.own_urirs;
            self.top_hosts
                .offer(node.own_captures, || (dotted(text).into_bytes(), urirs));
        }
        if node.domain.0 > 0 && !node.address {
            self.domain_count += 1;
            let (urirs, captures) = node.domain;
            self.top_domains
                .offer(captures, || (dotted(text).into_bytes(), urirs));
        }
        if labels == 1 && !node.address {
            self.tld_count += 1;
            self.top_tlds
                .offer(node.captures, || (text.to_vec(), node.urirs));
        }
    }

    /// The layers of hosts and of paths.
    pub(super) fn layers(&self) -> (Vec<Layer>, Vec<Layer>) {
        let root: Histogram = match self.hosts[1].sizes.count() {
            0 => Histogram::default(),
            tops => [tops].into_iter().collect(),
        };
        let sites: Histogram = {
            let mut one = Histogram::default();
            one.add_times(1, self.paths[0].sizes.count());
            one
        };
        let layer = |name: String, nodes: &Nodes, above: &Histogram| {
            let sizes = &nodes.sizes;
            let (count, sum) = (sizes.count(), sizes.sum());
            let parents = above.count();
            Layer {
                depth: name,
                count,
                sum,
                max: sizes.max(),
                mean: sizes.mean(),
                median: sizes.median(),
                deviation: sizes.deviation(),
                redq: ratio((sum - count) as f64, self.keys as f64),
                parents,
                children: count,
                mean_children: ratio(count as f64, parents as f64),
                global_reduction: sizes.reduction(self.keys),
                incremental_reduction: above.reduction(count),
            }
        };
        let hosts = (1..=DEEPEST).take_while(|depth| self.hosts[*depth].sizes.count() > 0);
        let hosts = hosts.map(|depth| {
            let above = match depth {
                1 => &root,
                _ => &self.hosts[depth - 1].children,
            };
            layer(format!("H{depth}"), &self.hosts[depth], above)
        });
        let paths = (0..=DEEPEST).take_while(|depth| self.paths[*depth].sizes.count() > 0);
        let paths = paths.map(|depth| {
            let above = match depth {
                0 => &sites,
                _ => &self.paths[depth - 1].children,
            };
            layer(format!("P{depth}"), &self.paths[depth], above)
        });
        (hosts.collect(), paths.collect())
    }

    /// The laws that `waypost map fit` finds in a map of the same holdings.
    pub(super) fn laws(&self) -> Laws {
        let law = |nodes: &[Nodes]| {
            // The papers' rule looks no deeper.
            let means = nodes.iter().take(32).enumerate();
            let means = means.filter(|(_, nodes)| nodes.children.count() > 0);
            let fit =
                PowerFit::new(means.map(|(at, nodes)| (at as f64 + 1.0, nodes.children.mean())))?;
            Some(Law {
                a: fit.factor,
                // Not `-exponent`, which may be -0.
                k: 0.0 - fit.exponent,
            })
        };
        Laws {
            host: law(&self.hosts[1..]),
            path: law(&self.paths),
        }
    }

    /// Hosts and keys by depth.
    pub(super) fn depths(&self) -> Vec<Depth> {
        let used = self
            .depths
            .iter()
            .rposition(|depth| depth.hosts + depth.host_keys + depth.path_keys > 0);
        self.depths[..used.map_or(0, |last| last + 1)].to_vec()
    }
}

impl Visit for Tree {
    fn close(&mut self, node: &Node, text: &[u8]) {
        let nodes = match node.part {
            Part::Host(labels) => &mut self.hosts[labels],
            Part::Site => &mut self.paths[0],
            Part::Path(segments) => &mut self.paths[segments],
        };
        nodes.sizes.add(node.keys);
        if node.children > 0 {
            nodes.children.add(node.children);
        }
        match node.part {
            Part::Host(labels) => self.close_host(node, text, labels),
            Part::Site => {
                self.site_count += 1;
                let urirs = node.urirs;
                self.top_sites.offer(node.captures, || {
                    (dotted(&text[..text.len() - 1]).into_bytes(), urirs)
                });
                if !self.asked.is_empty()
                    && let Some(held) = self.asked.get_mut(text)
                {
                    *held = true;
                }
            }
            Part::Path(_) => {}
        }
        // A subtree that is one of its own parts says nothing new.
        if node.registered && node.urirs > 1 && node.largest < node.captures {
            let urirs = node.urirs;
            self.top_subtrees.offer(node.captures, || {
                let end: &[u8] = match node.part {
                    Part::Host(_) => b",*",
                    _ => b"/*",
                };
                ([text, end].concat(), urirs)
            });
        }
        if !matches!(node.part, Part::Host(_)) && node.own_urirs > 1 {
            let captures = node.own_captures;
            self.top_queries
                .offer(node.own_urirs, || (text.to_vec(), captures));
        }
    }

    fn key(&mut self, labels: usize, segments: usize) {
        self.keys += 1;
        self.depths[labels].host_keys += 1;
        self.depths[segments].path_keys += 1;
    }
}

/// `com,example` as `example.com`; a port stays at the end.
pub(super) fn dotted(host: &[u8]) -> String {
    let text = String::from_utf8_lossy(host);
    let (labels, port) = match text.rsplit_once(':') {
        Some((labels, port)) if text.matches(':').count() == 1 => (labels, Some(port)),
        _ => (&text[..], None),
    };
    let mut name: Vec<&str> = labels.split(',').collect();
    name.reverse();
    let name = name.join(".");
    match port {
        Some(port) => format!("{name}:{port}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_people_know() {
        assert_eq!(dotted(b"uk,co,bbc,news"), "news.bbc.co.uk");
        assert_eq!(dotted(b"com,example:8080"), "example.com:8080");
        assert_eq!(dotted(b"1,0,0,127"), "127.0.0.1");
        assert_eq!(dotted(b"2001:db8::1"), "2001:db8::1");
    }
}
