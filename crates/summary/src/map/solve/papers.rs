//! The papers' rule: a node with more children than a power law allows is rolled up.
//!
//! At depth `i`, counted from 0 at the top label of a host and, for paths, at the host itself, the
//! threshold is `weight · a · (i + 1)^-k`. A node rolls up if it has more children than that; the
//! topmost such node of the host wins, then the topmost of the path. Top-level domains never roll
//! up. Below the maximum depth, the remainder of a key counts as one child.

use std::path::Path;

use waypost_surt::{Reach, Surt};

use super::{Choice, Choices};
use crate::error::Result;
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::{Part, TreeNode, Visitor};

/// A power law of mean children by depth: `a · depth^-k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Children at depth 1.
    pub a: f64,
    /// How fast the number decreases.
    pub k: f64,
}

/// The parameters of the rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Papers {
    /// The weight of hosts; if infinite, hosts never roll up.
    pub host_weight: f64,
    /// The weight of paths.
    pub path_weight: f64,
    /// The law of hosts.
    pub host: PowerLaw,
    /// The law of paths.
    pub path: PowerLaw,
    /// The number of host levels considered.
    pub host_depth: u32,
    /// The number of path levels considered; the host itself is the first.
    pub path_depth: u32,
    /// Whether public suffixes are kept from rolling up.
    pub keep_suffixes: bool,
}

impl Default for Papers {
    fn default() -> Papers {
        Papers {
            host_weight: 4.0,
            path_weight: 2.0,
            host: PowerLaw {
                a: 16.329,
                k: 0.714,
            },
            path: PowerLaw {
                a: 24.546,
                k: 1.429,
            },
            host_depth: 8,
            path_depth: 9,
            keep_suffixes: false,
        }
    }
}

/// The numbers of children that the rule allows.
pub(crate) struct Cuts {
    hosts: Vec<Cut>,
    paths: Vec<Cut>,
    keep_suffixes: bool,
}

/// The threshold for nodes of some depth.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// A node with more than this rolls up.
    most: u32,
    /// Remainders of keys are counted, not children.
    by_remainders: bool,
}

impl Cut {
    /// Nodes never roll up.
    pub(crate) const NEVER: Cut = Cut {
        most: u32::MAX,
        by_remainders: false,
    };

    /// Whether the counts of a node exceed the threshold.
    #[inline]
    pub(crate) fn exceeded(self, counted: &Counted) -> bool {
        let count = if self.by_remainders {
            counted.remainders
        } else {
            counted.children
        };
        count > self.most
    }

    /// Whether the threshold can be exceeded at all.
    pub(crate) fn is_finite(self) -> bool {
        self.most < u32::MAX
    }
}

impl Cuts {
    pub(crate) fn new(papers: &Papers) -> Cuts {
        let cuts = |law: PowerLaw, weight: f64, depth: u32| -> Vec<Cut> {
            // The last level has no children, and the one before it only remainders of keys.
            (0..depth.saturating_sub(1))
                .map(|i| {
                    let cut = law.a * f64::from(i + 1).powf(-law.k) * weight;
                    Cut {
                        // Counts are integers: more than 24.5 is more than 24.
                        most: if cut.is_nan() {
                            u32::MAX
                        } else {
                            cut.floor() as u32
                        },
                        by_remainders: i + 2 == depth,
                    }
                })
                .collect()
        };
        Cuts {
            hosts: cuts(papers.host, papers.host_weight, papers.host_depth),
            paths: cuts(papers.path, papers.path_weight, papers.path_depth),
            keep_suffixes: papers.keep_suffixes,
        }
    }

    /// The threshold for a node.
    #[inline]
    pub(crate) fn of(&self, place: &TreeNode<'_>) -> Cut {
        let cut = match place.part {
            // A top-level domain never rolls up.
            Part::Host if place.level > 1 => self.hosts.get(place.level as usize - 1),
            Part::Site | Part::Path => self.paths.get(place.level as usize),
            _ => None,
        };
        match cut {
            Some(&cut) if place.can_roll() => cut,
            _ => Cut::NEVER,
        }
    }

    /// Whether a node with these counts rolls up.
    #[inline]
    pub(crate) fn rolls(&self, place: &TreeNode<'_>, counted: &Counted) -> bool {
        self.of(place).exceeded(counted) && !self.keeps(place.part, place.stem)
    }

    /// Whether the node is a protected public suffix.
    pub(crate) fn keeps(&self, part: Part, stem: &[u8]) -> bool {
        self.keep_suffixes && part == Part::Host && is_public_suffix(stem)
    }
}

/// Decides by the rule.
pub(crate) struct Decide {
    cuts: Cuts,
    pub(crate) choices: Choices<'static>,
    pub(crate) has_ports: bool,
    pub(crate) rolled: u64,
}

/// The counts of a node.
#[derive(Default)]
pub(crate) struct Counted {
    /// Children that hold something.
    children: u32,
    /// Hosts below a host, or rows below a path: the children at the maximum depth.
    remainders: u32,
    /// Whether a row at the node itself holds something.
    pub(crate) own: bool,
    /// Pages of the host itself.
    site: bool,
    wildcard: bool,
    void: bool,
    /// Topmost nodes at and below it that roll up.
    pub(crate) rolled: u64,
}

impl Counted {
    /// Whether something is held at or below the node.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.own || self.site || self.wildcard || self.children > 0
    }

    /// Adds a row of the node.
    #[inline]
    pub(crate) fn row(&mut self, row: &Row<'_>, reach: Reach) {
        match (reach, row.frequency.is_void()) {
            (Reach::Exact, false) => self.own = true,
            (Reach::Exact, true) => {}
            (_, false) => {
                // The star counts as a child, like any label or segment.
                self.children += u32::from(!self.wildcard);
                self.wildcard = true;
            }
            (_, true) => self.void = true,
        }
    }

    /// Adds what another piece has of the same node.
    pub(crate) fn add(&mut self, other: &Counted) {
        self.children += other.children;
        self.remainders += other.remainders;
        self.own |= other.own;
        self.site |= other.site;
        self.wildcard |= other.wildcard;
        self.void |= other.void;
        self.rolled += other.rolled;
    }

    /// Whether there is anything below the node.
    #[inline]
    pub(crate) fn has_children(&self) -> bool {
        self.children + self.remainders > 0
    }

    /// Adds a child with everything below it.
    #[inline]
    pub(crate) fn join(&mut self, part: Part, child: &Counted) {
        self.rolled += child.rolled;
        if !child.holds() {
            return;
        }
        let own = match part {
            // A host's own pages are not a child of the host.
            Part::Site => {
                self.site = true;
                return;
            }
            Part::Host | Part::Port => child.site,
            _ => child.own,
        };
        self.children += 1;
        self.remainders += child.remainders + u32::from(own) + u32::from(child.wildcard);
    }
}

impl Decide {
    pub(crate) fn new(papers: &Papers, folder: &Path) -> Decide {
        Decide {
            cuts: Cuts::new(papers),
            choices: Choices::new(folder),
            has_ports: false,
            rolled: 0,
        }
    }
}

impl Visitor for Decide {
    type Node = Counted;

    fn open(&mut self, place: TreeNode<'_>, _: Option<&Counted>) -> Counted {
        self.has_ports |= place.part == Part::Port;
        Counted::default()
    }

    #[inline]
    fn close(&mut self, place: TreeNode<'_>, node: &mut Counted, parent: Option<&mut Counted>) {
        if node.void || node.wildcard || (node.holds() && self.cuts.rolls(&place, node)) {
            node.rolled = u64::from(!node.wildcard && !node.void);
            let choice = Choice {
                given_wildcard: node.wildcard,
                given_void: node.void,
                ..Choice::roll()
            };
            self.choices.set(place.id, &choice);
        }
        match parent {
            Some(parent) => parent.join(place.part, node),
            None => self.rolled = node.rolled,
        }
    }
}

impl Pass for Decide {
    #[inline]
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        node.row(row, reach);
        Ok(())
    }
}

/// Whether labels are a public suffix: one more label makes a registered domain.
pub(crate) fn is_public_suffix(labels: &[u8]) -> bool {
    let mut below = labels.to_vec();
    below.extend_from_slice(b",a)/");
    let domain = Surt::new(&below).registered_domain();
    domain.len() > labels.len()
}
