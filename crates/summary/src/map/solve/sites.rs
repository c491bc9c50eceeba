//! How often each site of a map is looked up.

use waypost_surt::Reach;

use super::prior::density;
use crate::error::Result;
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::sample::MissCounts;
use crate::map::tree::{Part, TreeNode, Visitor};

/// Counts the misses and rows of sites.
#[derive(Default)]
pub(crate) struct Sites {
    /// By training lookups, and by all.
    pub(crate) taught: Vec<u8>,
    pub(crate) all: Vec<u8>,
}

/// Rows, training misses, held-out misses.
#[derive(Default)]
pub(crate) struct Counted {
    rows: f64,
    held: bool,
    taught: f64,
    aside: f64,
    labelled: bool,
}

impl Visitor for Sites {
    type Node = Counted;

    fn open(&mut self, _: TreeNode<'_>, _: Option<&Counted>) -> Counted {
        Counted::default()
    }

    fn close(&mut self, place: TreeNode<'_>, node: &mut Counted, parent: Option<&mut Counted>) {
        if node.held && !node.labelled {
            (node.taught, node.aside) = (0.0, 0.0);
        }
        if place.part == Part::Site {
            self.taught.push(density(node.taught, node.rows));
            self.all
                .push(density((node.taught + node.aside) / 2.0, node.rows));
        } else if let Some(parent) = parent {
            parent.rows += node.rows;
            parent.taught += node.taught;
            parent.aside += node.aside;
            parent.labelled |= node.labelled;
        }
    }
}

impl Pass for Sites {
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        if !row.frequency.is_void() {
            node.rows += 1.0;
            node.held |= reach == Reach::Exact;
        }
        Ok(())
    }

    fn lookups(&mut self, node: &mut Counted, asked: &MissCounts) {
        node.taught += asked.absent;
        node.aside += asked.aside;
        node.labelled |= asked.labelled;
    }
}
