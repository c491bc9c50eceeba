//! Which subtrees of an archive grow, learned from an earlier state.
//!
//! A newcomer is a URI-R that is held now and was not held earlier. It is evidence for more of its
//! kind: the nearest node above it that held something earlier is expected to get others. As many
//! newcomers are expected as have arrived since.

use std::path::Path;

use waypost_io::{Resources, Source};
use waypost_surt::Reach;

use crate::Archive;
use crate::error::Result;
use crate::holdings::Input;
use crate::map::build;
use crate::map::compact::SourceMap;
use crate::map::tree::pass::{Pass, place};
use crate::map::tree::row::Row;
use crate::map::tree::rows::{Order, Rows};
use crate::map::tree::{TreeNode, Visitor, Walk};

use super::publish::temporary;

/// The expected newcomers.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Wildcard keys of nodes, in order, with the newcomers of each.
    pub(crate) places: Vec<(Vec<u8>, f64)>,
    /// The total of newcomers.
    pub newcomers: f64,
}

/// Compares a map with an earlier state of the same archive.
///
/// # Errors
/// When either cannot be read.
pub fn growth(given: &mut SourceMap, earlier: &Input, room: &Resources) -> Result<Growth> {
    let before = temporary(room)?;
    build(earlier, &Archive::default(), None, &before)?;
    // A pass detects whether the map is tidy, and tidies it if necessary.
    given.walk(None, Nothing::default)?;
    compare(&given.source, &before)
}

fn compare(now: &Source, before: &Path) -> Result<Growth> {
    let mut compare = Compare::default();
    let mut walk = Walk::new(&mut compare);
    let mut now = Counts::new(Rows::open(now, Order::Any)?)?;
    let mut before = Counts::new(Rows::open(&Source::new(before.to_owned()), Order::Any)?)?;
    while now.more || before.more {
        let ours = now.more && (!before.more || now.key <= before.key);
        let from = if ours { &mut now } else { &mut before };
        let (spot, _) = place(&from.key);
        let node = walk.at(spot, &mut compare);
        *(if ours {
            &mut node.now
        } else {
            &mut node.before
        }) += from.urirs;
        from.advance()?;
    }
    walk.finish(&mut compare);
    let mut growth = compare.growth;
    growth.places.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(growth)
}

/// The rows of a map, with one row of lookahead.
struct Counts {
    rows: Rows,
    key: Vec<u8>,
    urirs: f64,
    more: bool,
}

impl Counts {
    fn new(rows: Rows) -> Result<Counts> {
        let mut counts = Counts {
            rows,
            key: Vec::new(),
            urirs: 0.0,
            more: true,
        };
        counts.advance()?;
        Ok(counts)
    }

    fn advance(&mut self) -> Result<()> {
        self.key.clear();
        match self.rows.next()? {
            Some(row) => {
                self.key.extend_from_slice(&row.key);
                self.urirs = match row.frequency.is_void() {
                    true => 0.0,
                    false => row.urirs() as f64,
                };
            }
            None => self.more = false,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Compare {
    growth: Growth,
}

/// The earlier and the current holdings of a node.
#[derive(Default)]
struct Compared {
    now: f64,
    before: f64,
    /// Whether something was held at or below the node.
    was: bool,
    /// Newcomers that are not assigned to a node below.
    fresh: f64,
}

impl Visitor for Compare {
    type Node = Compared;

    fn open(&mut self, _: TreeNode<'_>, _: Option<&Compared>) -> Compared {
        Compared::default()
    }

    fn close(&mut self, place: TreeNode<'_>, node: &mut Compared, parent: Option<&mut Compared>) {
        node.was |= node.before > 0.0;
        let came = (node.now - node.before).max(0.0);
        self.growth.newcomers += came;
        node.fresh += came;
        if node.was && node.fresh > 0.0 && place.can_roll() {
            let mut key = Vec::new();
            place.write_wildcard(&mut key);
            self.growth.places.push((key, node.fresh));
            node.fresh = 0.0;
        }
        if let Some(parent) = parent {
            parent.fresh += node.fresh;
            parent.was |= node.was;
        }
    }
}

/// Ignores everything but the order.
#[derive(Default)]
struct Nothing;

impl Visitor for Nothing {
    type Node = ();

    fn open(&mut self, _: TreeNode<'_>, _: Option<&()>) {}

    fn close(&mut self, _: TreeNode<'_>, (): &mut (), _: Option<&mut ()>) {}
}

impl Pass for Nothing {
    fn row(&mut self, (): &mut (), _: &Row<'_>, _: Reach) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_count_for_the_nearest_place_that_held_something() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let before = write("before", "com,a)/old/1 1/1\ncom,a)/same 1/1\ncom,b)/ 1/1\n");
        let now = write(
            "now",
            "com,a)/new/1 1/1\ncom,a)/new/2 1/1\ncom,a)/old/1 3/3\ncom,a)/old/2 1/1\ncom,a)/same 1/1\ncom,b)/ 1/1\ncom,c)/x 5/5\norg,d)/ 1/1\n",
        );
        let growth = compare(&Source::new(now), &before).unwrap();
        let places: Vec<(String, f64)> = growth
            .places
            .iter()
            .map(|(key, count)| (String::from_utf8_lossy(key).into_owned(), *count))
            .collect();
        assert_eq!(
            places,
            [
                ("*".to_owned(), 1.0),
                ("com,*".to_owned(), 5.0),
                ("com,a)/*".to_owned(), 2.0),
                ("com,a)/old/*".to_owned(), 1.0),
                ("com,a)/old/1/*".to_owned(), 2.0),
            ]
        );
        assert_eq!(growth.newcomers, 11.0);
    }
}
