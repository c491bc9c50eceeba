//! What one map holds and another does not.

use std::collections::HashMap;
use std::path::Path;

use waypost_io::{Resources, Source};
use waypost_surt::{Key, Reach, Surt};

use super::lookup::Map;
use super::tree::rows::{Order, Rows};
use crate::error::Result;

/// A domain with keys that are only in the first map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// The registered domain, with the top label first.
    pub name: Vec<u8>,
    /// Keys of the first map.
    pub keys: u64,
    /// Those that no row of the second map matches.
    pub only: u64,
    /// Their captures.
    pub captures: u64,
}

/// What is only in the first map.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Keys of the first map.
    pub keys: u64,
    /// Those that no row of the second map matches.
    pub only: u64,
    /// The domains, in descending order of captures.
    pub domains: Vec<Domain>,
}

/// Looks up the keys of `a` in `b`. A wildcard of `a` is in `b` if `b` holds anything at or below
/// its node.
///
/// # Errors
/// When a map cannot be read.
pub fn compare(a: &Path, b: &Path, room: &Resources) -> Result<Compared> {
    let other = Map::open_rows(b, room)?;
    let mut rows = Rows::open(&Source::new(a), Order::Any)?;
    let mut compared = Compared::default();
    let mut domains: HashMap<Vec<u8>, Domain> = HashMap::new();
    while let Some(row) = rows.next()? {
        if row.frequency.is_void() {
            continue;
        }
        let key = Key::new(&row.key);
        let known = match key.reach() {
            Reach::Exact => other
                .find(&Surt::new(key.stem()), None)
                .is_some_and(|found| !found.frequency.is_void()),
            _ => other.holds_at_or_below(&key),
        };
        let mut site = key.stem().to_vec();
        if key.reach() == Reach::Hosts {
            site.extend_from_slice(b")/");
        }
        let name = Surt::new(&site).registered_domain().to_vec();
        compared.keys += 1;
        let domain = domains.entry(name).or_default();
        domain.keys += 1;
        if !known {
            compared.only += 1;
            domain.only += 1;
            domain.captures += row.frequency.captures.map_or(1, |captures| captures.value);
        }
    }
    compared.domains = domains
        .into_iter()
        .filter(|(_, domain)| domain.only > 0)
        .map(|(name, domain)| Domain { name, ..domain })
        .collect();
    compared.domains.sort_by(|a, b| {
        b.captures
            .cmp(&a.captures)
            .then_with(|| a.name.cmp(&b.name))
    });
    Ok(compared)
}
