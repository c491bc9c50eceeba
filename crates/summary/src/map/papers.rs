//! The papers' rule: a place with more children than a power law grants is rolled up.
//!
//! At depth `i`, counted from 0 at the top label of a host and at the host itself for paths, the cut
//! is `weight · a · (i + 1)^-k`. A place rolls up if it has more children than that; the topmost
//! such place of the host wins, then the topmost of the path. Top-level domains never roll up.
//! Below the greatest depth, what remains of a key counts as one child.

use waypost_surt::{Reach, Surt};

use super::decision::{Decisions, GIVEN_VOID, GIVEN_WILDCARD, ROLL};
use super::pass::Pass;
use super::row::Row;
use super::tree::{Part, Place, Visitor};
use crate::error::Result;

/// A power law of mean children by depth: `a · depth^-k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Children at depth 1.
    pub a: f64,
    /// How fast they become fewer.
    pub k: f64,
}

/// The parameters of the rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Papers {
    /// The weight of hosts; infinite: hosts never roll up.
    pub host_weight: f64,
    /// The weight of paths.
    pub path_weight: f64,
    /// The law of hosts.
    pub host: PowerLaw,
    /// The law of paths.
    pub path: PowerLaw,
    /// How many levels of hosts are looked at.
    pub host_depth: u32,
    /// How many levels of paths are looked at; the host itself is the first.
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

/// How many children each place may have, as the rule grants them.
pub(crate) struct Cuts {
    hosts: Vec<Cut>,
    paths: Vec<Cut>,
    keep_suffixes: bool,
}

/// What a place of some depth may have.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// One more, and it rolls up.
    most: u32,
    /// What counts is what remains of keys, not children.
    by_remainders: bool,
}

impl Cut {
    /// It never rolls up.
    pub(crate) const NEVER: Cut = Cut {
        most: u32::MAX,
        by_remainders: false,
    };

    /// Whether a place with so many children and remainders has too many.
    #[inline]
    pub(crate) fn exceeded(self, children: u32, remainders: u32) -> bool {
        let count = if self.by_remainders {
            remainders
        } else {
            children
        };
        count > self.most
    }

    /// Whether any number would be too many.
    pub(crate) fn is_finite(self) -> bool {
        self.most < u32::MAX
    }
}

impl Cuts {
    pub(crate) fn new(papers: &Papers) -> Cuts {
        let cuts = |law: PowerLaw, weight: f64, depth: u32| -> Vec<Cut> {
            // The last level has no children, and the one before only what remains of keys.
            (0..depth.saturating_sub(1))
                .map(|i| {
                    let cut = law.a * f64::from(i + 1).powf(-law.k) * weight;
                    Cut {
                        // Counts are whole: more than 24.5 is more than 24.
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

    /// What a place may have.
    #[inline]
    pub(crate) fn of(&self, place: &Place<'_>) -> Cut {
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

    /// Whether the place is a public suffix that is kept.
    pub(crate) fn keeps(&self, part: Part, stem: &[u8]) -> bool {
        self.keep_suffixes && part == Part::Host && is_public_suffix(stem)
    }
}

/// Decides by the rule.
pub(crate) struct Decide {
    cuts: Cuts,
    pub(crate) decisions: Decisions,
    pub(crate) has_ports: bool,
    pub(crate) rolled: u64,
    pub(crate) keys_left: u64,
}

/// What the rule counts at a place.
#[derive(Default)]
pub(crate) struct Counted {
    /// Children that hold something.
    children: u32,
    /// Whole hosts below a host, or rows below a path: the children at the greatest depth.
    remainders: u32,
    /// A row at the place itself that holds something.
    own: bool,
    /// Pages of the host itself.
    site: bool,
    wildcard: bool,
    void: bool,
    /// Rows that stay here and below.
    left: u64,
    voids: u64,
}

impl Decide {
    pub(crate) fn new(papers: &Papers) -> Decide {
        Decide {
            cuts: Cuts::new(papers),
            decisions: Decisions::default(),
            has_ports: false,
            rolled: 0,
            keys_left: 0,
        }
    }

    fn rolls(&self, place: &Place<'_>, node: &Counted) -> bool {
        self.cuts.of(place).exceeded(node.children, node.remainders)
            && !self.cuts.keeps(place.part, place.stem)
    }
}

impl Visitor for Decide {
    type Node = Counted;

    fn open(&mut self, place: Place<'_>, _: Option<&Counted>) -> Counted {
        self.has_ports |= place.part == Part::Port;
        Counted::default()
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, mut node: Counted, parent: Option<&mut Counted>) {
        let holds =
            node.own || node.site || node.wildcard || node.children > 0 || node.left > node.voids;
        let rolls = !node.void && (node.wildcard || (holds && self.rolls(&place, &node)));
        if rolls || node.void {
            let decision = if node.void { GIVEN_VOID } else { ROLL };
            let given = if node.wildcard { GIVEN_WILDCARD } else { 0 };
            self.decisions.set(place.id, decision | given);
        }
        node.left += u64::from(node.own) + u64::from(node.wildcard || node.void);
        if rolls {
            self.rolled += u64::from(!node.wildcard);
            node.left = 1 + node.voids;
        }
        let Some(parent) = parent else {
            self.keys_left = node.left;
            return;
        };
        parent.left += node.left;
        parent.voids += node.voids;
        if !holds {
            return;
        }
        match place.part {
            // A host's own pages are no child of it.
            Part::Site => parent.site = true,
            Part::Host | Part::Port => {
                parent.children += 1;
                parent.remainders +=
                    node.remainders + u32::from(node.site) + u32::from(node.wildcard);
            }
            _ => {
                parent.children += 1;
                parent.remainders +=
                    node.remainders + u32::from(node.own) + u32::from(node.wildcard);
            }
        }
    }
}

impl Pass for Decide {
    #[inline]
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        match (reach, row.frequency.is_void()) {
            (Reach::Exact, false) => node.own = true,
            (Reach::Exact, true) => {
                node.voids += 1;
                node.left += 1;
            }
            (_, false) => {
                // The star stands for a child, as any label or segment does.
                node.children += u32::from(!node.wildcard);
                node.wildcard = true;
            }
            (_, true) => {
                node.void = true;
                node.voids += 1;
            }
        }
        Ok(())
    }
}

/// Whether labels are a public suffix: below one, the next label makes a registered domain.
pub(crate) fn is_public_suffix(labels: &[u8]) -> bool {
    let mut below = labels.to_vec();
    below.extend_from_slice(b",a)/");
    let domain = Surt::new(&below).registered_domain();
    domain.len() > labels.len()
}
