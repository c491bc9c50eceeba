//! The largest subtrees of a map.

use waypost_io::{Resources, Source};
use waypost_report::{Piece, count};
use waypost_surt::Reach;

use super::tree::pass::{Pass, Walked, walk};
use super::tree::row::Row;
use super::tree::tidy::tidied;
use super::tree::{Part, TreeNode, Visitor};
use crate::error::Result;

/// A node and its subtree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its key, as a wildcard.
    pub name: Vec<u8>,
    /// Captures at and below the node.
    pub captures: u64,
    /// Rows at and below the node.
    pub keys: u64,
    /// Rows with a filter among them.
    pub filtered: u64,
    /// The largest children.
    pub children: Vec<Tree>,
    /// Number of children that are not shown.
    pub left_out: u64,
}

/// The largest subtrees, `depth` levels deep, with up to `top` children each.
///
/// # Errors
/// When the map cannot be read.
pub fn tree(source: &Source, depth: usize, top: usize, room: &Resources) -> Result<Tree> {
    let mut grow = Grow {
        depth,
        top,
        whole: Tree::default(),
    };
    if let Walked::Untidy(_) = walk(source, None, &mut grow)? {
        let tidy = tidied(source, room)?;
        if let Walked::Untidy(untidy) = walk(&Source::new(tidy.to_path_buf()), None, &mut grow)? {
            return Err(untidy.error(source));
        }
    }
    Ok(grow.whole)
}

impl Tree {
    /// The tree as it is drawn by `icicle`.
    pub fn piece(&self) -> Piece {
        let named = |number: u64, name: &str| {
            let plural = if number == 1 { "" } else { "s" };
            format!("{} {name}{plural}", count(number))
        };
        let (captures, keys) = (named(self.captures, "capture"), named(self.keys, "key"));
        let mut note = format!("{captures}, {keys}");
        if self.left_out > 0 {
            note += &format!(", {} smaller nodes not drawn", count(self.left_out));
        }
        Piece {
            name: String::from_utf8_lossy(&self.name).into_owned(),
            size: self.captures,
            note,
            parts: self.children.iter().map(Tree::piece).collect(),
        }
    }

    /// Keeps only this many of the largest subtrees, each with its ancestors.
    pub fn keep_largest(&mut self, places: usize) {
        let mut sizes = Vec::new();
        self.sizes(u64::MAX, &mut sizes);
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes.get(places.max(1)).map_or(0, |most| most + 1);
        self.keep_from(least);
    }

    /// The size of each node, limited by those of its ancestors.
    fn sizes(&self, above: u64, sizes: &mut Vec<u64>) {
        let size = self.captures.min(above);
        sizes.push(size);
        for child in &self.children {
            child.sizes(size, sizes);
        }
    }

    fn keep_from(&mut self, least: u64) {
        let before = self.children.len();
        self.children.retain(|child| child.captures >= least);
        self.left_out += (before - self.children.len()) as u64;
        for child in &mut self.children {
            child.keep_from(least);
        }
    }
}

struct Grow {
    depth: usize,
    top: usize,
    whole: Tree,
}

struct Growing {
    depth: usize,
    tree: Tree,
}

impl Visitor for Grow {
    type Node = Growing;

    fn open(&mut self, place: TreeNode<'_>, parent: Option<&Growing>) -> Growing {
        // A host and its own pages are one level.
        let step = usize::from(!matches!(place.part, Part::Root | Part::Site));
        Growing {
            depth: parent.map_or(0, |parent| parent.depth) + step,
            tree: Tree::default(),
        }
    }

    fn close(&mut self, place: TreeNode<'_>, node: &mut Growing, parent: Option<&mut Growing>) {
        let Some(parent) = parent else {
            node.tree.name = b"*".to_vec();
            self.whole = std::mem::take(&mut node.tree);
            return;
        };
        parent.tree.captures += node.tree.captures;
        parent.tree.keys += node.tree.keys;
        parent.tree.filtered += node.tree.filtered;
        if place.part == Part::Site {
            // What is below the site is shown next to the subdomains.
            for child in std::mem::take(&mut node.tree.children) {
                keep(&mut parent.tree, child, self.top);
            }
            parent.tree.left_out += node.tree.left_out;
        } else if node.depth <= self.depth {
            place.write_wildcard(&mut node.tree.name);
            keep(&mut parent.tree, std::mem::take(&mut node.tree), self.top);
        }
    }
}

/// Adds a child and drops the smallest if there are too many.
fn keep(parent: &mut Tree, child: Tree, top: usize) {
    let at = parent
        .children
        .partition_point(|other| other.captures >= child.captures);
    parent.children.insert(at, child);
    if parent.children.len() > top {
        parent.children.pop();
        parent.left_out += 1;
    }
}

impl Pass for Grow {
    fn row(&mut self, node: &mut Growing, row: &Row<'_>, _: Reach) -> Result<()> {
        node.tree.keys += 1;
        node.tree.filtered += u64::from(row.filter.is_some());
        node.tree.captures += row.frequency.captures.map_or(0, |captures| captures.value);
        Ok(())
    }
}
