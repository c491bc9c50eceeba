//! What the papers' rule would achieve, for many weights at once, at the prices of the least-cost
//! map.
//!
//! Whether a node rolls up depends only on the number of its children, not on whether they rolled
//! up. So each pair of weights has an independent sum, and all of them are computed in a pass that
//! is needed anyway.

use super::papers::{Counted, Cuts, Papers};
use crate::map::compact::SameSize;
use crate::map::tree::{Part, TreeNode};

/// The weights of hosts and paths to try.
const WEIGHTS: [f64; 8] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, f64::INFINITY];
const PAIRS: usize = WEIGHTS.len() * WEIGHTS.len();

/// Rows, and misses that they call present.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Size {
    pub(crate) rows: f64,
    pub(crate) wrong: f64,
}

impl Size {
    #[inline]
    pub(crate) fn add(&mut self, other: Size) {
        *self = self.plus(other);
    }

    #[inline]
    fn plus(self, other: Size) -> Size {
        Size {
            rows: self.rows + other.rows,
            wrong: self.wrong + other.wrong,
        }
    }
}

/// The state of an open node.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) counted: Counted,
    /// What all pairs have in common.
    alike: Size,
    /// Misses at and below the node if all of it is called present.
    open: f64,
    /// The pairs differ: their sums are in the node's slot.
    differ: bool,
}

/// What a piece has of a shared node.
pub(crate) struct SharedSums {
    sums: Sums,
    pairs: Option<Box<[Size; PAIRS]>>,
}

/// The node's own contribution.
#[derive(Clone, Copy)]
pub(crate) enum Own {
    /// A wildcard or void of the input map: its total cost, including everything below it.
    SourceMap(Size),
    /// Anything else.
    Free {
        /// Rows and misses of the node itself.
        size: Size,
        /// Misses at the node if it is called present.
        open: f64,
        /// Rows that stay when the node rolls up: voids of the input map, and everything below
        /// them.
        kept: f64,
    },
}

/// The sums of all pairs.
pub(crate) struct Beside {
    cuts: [Cuts; WEIGHTS.len()],
    slots: Vec<[Size; PAIRS]>,
    all: [Size; PAIRS],
}

impl Beside {
    pub(crate) fn new() -> Beside {
        Beside {
            cuts: WEIGHTS.map(|weight| {
                Cuts::new(&Papers {
                    host_weight: weight,
                    path_weight: weight,
                    ..Papers::default()
                })
            }),
            slots: Vec::new(),
            all: [Size::default(); PAIRS],
        }
    }

    /// Closes a node.
    pub(crate) fn close(
        &mut self,
        place: &TreeNode<'_>,
        sums: &mut Sums,
        own: Own,
        parent: Option<&mut Sums>,
    ) {
        if self.slots.len() <= place.slot {
            self.slots.resize(place.slot + 1, [Size::default(); PAIRS]);
        }
        // Weights ascend: if the node rolls up under one, it does under all before it.
        let mut rolling = 0;
        let mut rolled = Size::default();
        match own {
            Own::SourceMap(size) => {
                if sums.differ {
                    self.slots[place.slot] = [Size::default(); PAIRS];
                    sums.differ = false;
                }
                sums.alike = size;
                sums.open = size.wrong;
            }
            Own::Free { size, open, kept } => {
                sums.alike.add(size);
                sums.open += open;
                rolled = Size {
                    rows: 1.0 + kept,
                    wrong: sums.open,
                };
                if sums.counted.has_children() {
                    let rolls = |cuts: &&Cuts| cuts.rolls(place, &sums.counted);
                    rolling = self.cuts.iter().take_while(rolls).count();
                }
            }
        }
        let (above, own) = self.slots.split_at_mut(place.slot);
        let own = &mut own[0];
        let mut root = [Size::default(); PAIRS];
        let above = match parent {
            None => &mut root,
            Some(parent) => {
                parent.open += sums.open;
                parent.counted.join(place.part, &sums.counted);
                if !sums.differ && rolling == 0 {
                    parent.alike.add(sums.alike);
                    return;
                }
                parent.differ = true;
                &mut above[place.parent]
            }
        };
        // Hosts roll up by the first weight of a pair, paths by the second.
        let side = WEIGHTS.len();
        let pairs = above.chunks_exact_mut(side).zip(own.chunks_exact_mut(side));
        for (weight, (sums_above, own)) in pairs.enumerate() {
            let rolling = match place.part {
                Part::Host if weight < rolling => side,
                Part::Host => 0,
                _ => rolling,
            };
            for sum in &mut sums_above[..rolling] {
                sum.add(rolled);
            }
            for (sum, size) in sums_above[rolling..].iter_mut().zip(&own[rolling..]) {
                sum.add(size.plus(sums.alike));
            }
            own.fill(Size::default());
        }
        if place.slot == 0 {
            self.all = root;
        }
    }

    /// Hands over what a piece has of a shared node.
    pub(crate) fn hand_over(&mut self, slot: usize, sums: Sums) -> SharedSums {
        let slot = self.slots.get_mut(slot).filter(|_| sums.differ);
        let pairs = slot.map(|slot| Box::new(std::mem::replace(slot, [Size::default(); PAIRS])));
        SharedSums { sums, pairs }
    }

    /// Adds what a piece has of a shared node to its sums, whose slot is given.
    pub(crate) fn take_over(&mut self, slot: usize, sums: &mut Sums, part: &SharedSums) {
        sums.counted.add(&part.sums.counted);
        sums.alike.add(part.sums.alike);
        sums.open += part.sums.open;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, [Size::default(); PAIRS]);
        }
        if let Some(pairs) = &part.pairs {
            sums.differ = true;
            for (sum, &more) in self.slots[slot].iter_mut().zip(&pairs[..]) {
                sum.add(more);
            }
        }
    }

    /// The result of each pair of weights.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = SameSize> {
        self.all.iter().enumerate().map(|(pair, size)| SameSize {
            host_weight: WEIGHTS[pair / WEIGHTS.len()],
            path_weight: WEIGHTS[pair % WEIGHTS.len()],
            rows: size.rows as u64,
            false_positives: size.wrong,
        })
    }

    /// The pair of weights with the fewest false positives among those with at most this many rows.
    pub(crate) fn of_size(&self, rows: u64) -> Option<SameSize> {
        let fits = self.pairs().filter(|pair| pair.rows <= rows);
        fits.min_by(|a, b| a.false_positives.total_cmp(&b.false_positives))
    }
}
