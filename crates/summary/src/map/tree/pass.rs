//! One pass over a map's rows and, in step with them, a sample of lookups.

use std::io::Read;

use waypost_io::Source;
use waypost_surt::{Key, Reach, Surt};

use super::row::Row;
use super::rows::{Order, Rows, Untidy, is_root};
use super::sample::{MissCounts, Sample};
use super::{Spot, Visitor, Walk};
use crate::error::Result;

/// Receives rows and lookups at their nodes.
pub(crate) trait Pass: Visitor {
    /// A row at its node.
    fn row(&mut self, node: &mut Self::Node, row: &Row<'_>, reach: Reach) -> Result<()>;

    /// If the node is covered by one that rolls up: the length of that one's text. More rows below it
    /// need no nodes of their own, and are given to this node.
    fn covered_by(&self, node: &Self::Node) -> Option<usize> {
        let _ = node;
        None
    }

    /// Lookups of exactly this node.
    fn lookups(&mut self, node: &mut Self::Node, asked: &MissCounts) {
        let _ = (node, asked);
    }

    /// Whether to stop early.
    fn gives_up(&self) -> bool {
        false
    }
}

/// How a pass ended.
pub(crate) enum Walked {
    /// Completed, with this many rows.
    Whole { rows: u64 },
    /// The rows are not tidy, so the results must be discarded.
    Untidy(Untidy),
}

/// Walks over all rows and lookups.
pub(crate) fn walk<P: Pass>(
    source: &Source,
    sample: Option<&Sample>,
    pass: &mut P,
) -> Result<Walked> {
    walk_rows(&mut Rows::open(source, Order::Watch)?, sample, pass)
}

/// Walks over rows and lookups. Whether the rows are tidy is told only if their order is checked.
pub(crate) fn walk_rows<P: Pass, R: Read>(
    rows: &mut Rows<R>,
    sample: Option<&Sample>,
    pass: &mut P,
) -> Result<Walked> {
    let mut walk = Walk::new(pass);
    let mut asked = sample.map(Sample::iter).into_iter().flatten().peekable();
    let mut count = 0;
    // The length of the last host, up to its parenthesis: keys with this prefix are on the same
    // host. And the length of the last stem, if the walk is still there.
    let (mut host, mut last) = (usize::MAX, 0);
    // Rows that start like the last one, with more than this many bytes, are covered.
    let mut covered = usize::MAX;
    while let Some((row, known)) = rows.next_after_last()? {
        while let Some((key, found)) = asked.next_if(|(key, _)| *key < row.key.as_ref()) {
            ask(&mut walk, key, found, pass);
            (last, covered) = (0, usize::MAX);
        }
        let same_host = known > host;
        if !same_host {
            host = match memchr::memchr2(b')', b'/', &row.key) {
                Some(at) if row.key[at] == b')' => at,
                _ => usize::MAX,
            };
        }
        if known > covered && host != usize::MAX && row.key.last() != Some(&b'*') {
            last = last.min(known);
            pass.row(walk.top_node(), &row, Reach::Exact)?;
        } else {
            let (spot, reach) = match row.key.last() {
                Some(b'*' | b'/' | b')') | None => place(&row.key),
                Some(_) if same_host => (Spot::Host(&row.key), Reach::Exact),
                Some(_) => place(&row.key),
            };
            let node = walk.at_after(known.min(last), spot, pass);
            pass.row(node, &row, reach)?;
            (last, covered) = match spot {
                Spot::Host(stem) => (stem.len(), pass.covered_by(node).unwrap_or(usize::MAX)),
                Spot::Root | Spot::Bare(_) => (0, usize::MAX),
            };
        }
        count += 1;
        if count % 4096 == 0 && (rows.untidy().is_some() || pass.gives_up()) {
            break;
        }
    }
    if let Some(untidy) = rows.untidy() {
        return Ok(Walked::Untidy(untidy.clone()));
    }
    for (key, found) in asked {
        ask(&mut walk, key, found, pass);
    }
    walk.finish(pass);
    Ok(Walked::Whole { rows: count })
}

fn ask<P: Pass>(walk: &mut Walk<P::Node>, key: &[u8], asked: &MissCounts, pass: &mut P) {
    let (spot, _) = place(key);
    let node = walk.at(spot, pass);
    pass.lookups(node, asked);
}

/// The position of a key in the tree, and its reach. For most keys the last byte is enough.
#[inline]
pub(crate) fn place(key: &[u8]) -> (Spot<'_>, Reach) {
    let (stem, reach) = match key {
        [.., b')', b'/'] if is_root(key) => {
            return (Spot::Host(&key[..key.len() - 1]), Reach::Exact);
        }
        [] | [.., b'*' | b'/' | b')'] => {
            let key = Key::new(key);
            (key.stem(), key.reach())
        }
        _ => (key, Reach::Exact),
    };
    let spot = match reach {
        Reach::All => Spot::Root,
        Reach::Exact if !has_host(stem) => Spot::Bare(stem),
        _ => Spot::Host(stem),
    };
    (spot, reach)
}

/// Whether a node is on a host: a `)` comes before the first slash.
#[inline]
pub(crate) fn has_host(stem: &[u8]) -> bool {
    memchr::memchr2(b')', b'/', stem).is_some_and(|at| stem[at] == b')')
}

/// The exact key by which a SURT is looked up.
pub(crate) fn place_of(surt: &Surt<'_>, out: &mut Vec<u8>) {
    super::row::write_exact(surt.without_query(), out);
}
