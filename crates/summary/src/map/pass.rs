//! One walk over a map's rows and, with them, a sample of lookups.

use waypost_index::Source;
use waypost_surt::{Key, Reach, Surt};

use super::row::Row;
use super::rows::{Order, Rows, Untidy, is_root};
use super::sample::{Asked, Sample};
use super::tree::{Spot, Visitor, Walk};
use crate::error::Result;

/// What is done with rows and lookups at their places.
pub(crate) trait Pass: Visitor {
    /// A row at its place.
    fn row(&mut self, node: &mut Self::Node, row: &Row<'_>, reach: Reach) -> Result<()>;

    /// Lookups of exactly this place.
    fn lookups(&mut self, node: &mut Self::Node, asked: &Asked) {
        let _ = (node, asked);
    }

    /// Whether it makes no sense to go on.
    fn gives_up(&self) -> bool {
        false
    }
}

/// How a walk ended.
pub(crate) enum Walked {
    /// All was seen: so many rows.
    Whole { rows: u64 },
    /// The rows are not tidy, and what was found is worth nothing.
    Untidy(Untidy),
}

/// Walks over all rows and lookups.
pub(crate) fn walk<P: Pass>(
    source: &Source,
    sample: Option<&Sample>,
    pass: &mut P,
) -> Result<Walked> {
    walk_in(source, sample, Order::Watch, pass)
}

/// Walks over rows that an earlier walk found tidy, without looking at their order again.
pub(crate) fn walk_again<P: Pass>(
    source: &Source,
    sample: Option<&Sample>,
    pass: &mut P,
) -> Result<Walked> {
    walk_in(source, sample, Order::Any, pass)
}

fn walk_in<P: Pass>(
    source: &Source,
    sample: Option<&Sample>,
    order: Order,
    pass: &mut P,
) -> Result<Walked> {
    let mut rows = Rows::open(source, order)?;
    let mut walk = Walk::new(pass);
    let mut asked = sample.map(Sample::iter).into_iter().flatten().peekable();
    let mut count = 0;
    // How long the last host is, up to its parenthesis: a key that begins so is on it.
    let mut host = usize::MAX;
    while let Some((row, known)) = rows.next_after_last()? {
        while let Some((key, found)) = asked.next_if(|(key, _)| *key < row.key.as_ref()) {
            ask(&mut walk, key, found, pass);
        }
        let (spot, reach) = match row.key.last() {
            Some(b'*' | b'/' | b')') | None => place(&row.key),
            Some(_) if known > host => (Spot::Host(&row.key), Reach::Exact),
            Some(_) => place(&row.key),
        };
        if known <= host {
            host = match memchr::memchr2(b')', b'/', &row.key) {
                Some(at) if row.key[at] == b')' => at,
                _ => usize::MAX,
            };
        }
        let node = walk.at(spot, pass);
        pass.row(node, &row, reach)?;
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

fn ask<P: Pass>(walk: &mut Walk<P::Node>, key: &[u8], asked: &Asked, pass: &mut P) {
    let (spot, _) = place(key);
    let node = walk.at(spot, pass);
    pass.lookups(node, asked);
}

/// Where a key is in the tree, and how far it reaches. Most keys need only a look at their last byte.
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

/// Whether a place is on a host: a `)` comes before the first slash.
#[inline]
pub(crate) fn has_host(stem: &[u8]) -> bool {
    memchr::memchr2(b')', b'/', stem).is_some_and(|at| stem[at] == b')')
}

/// The exact key under which a SURT is asked for.
pub(crate) fn place_of(surt: &Surt<'_>, out: &mut Vec<u8>) {
    super::row::write_exact(surt.without_query(), out);
}
