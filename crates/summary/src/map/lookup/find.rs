//! Looking up SURTs in a map, one by one or in batches.
//!
//! Several keys may match a SURT, each a prefix of the next. Their hashes
//! are computed together, skipping keys of a reach and depth that do not occur in the map. In a batch, first
//! the slots of all keys are read, then the rows that their fingerprints point to, and only then
//! are keys compared, so that memory accesses overlap. A lookup in many maps hashes its keys only once.

use std::borrow::Cow;
use std::hint::black_box;

use waypost_surt::{Key, Reach, Surt};

use super::hash::Prefixes;
use super::store::{Map, Span};
use super::table::{Levels, Table};
use crate::frequency::Frequency;
use crate::lookup::Lookup;
use crate::map::tree::row::trim_slashes;

/// The row that decides a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'m> {
    /// The matching key, as spelled in the map.
    pub key: Cow<'m, [u8]>,
    /// Its frequency. A void is a match, too; it means absent.
    pub frequency: Frequency,
    /// The width in bits of the filter that decides what is present, if there is one: see
    /// [`Map::confirms`].
    pub filter: Option<u8>,
}

impl Found<'_> {
    /// How many labels and segments of the lookup the key contains.
    pub fn depth(&self) -> usize {
        let stem = Key::new(&self.key).stem();
        if stem.is_empty() {
            return 0;
        }
        let surt = Surt::new(stem);
        match surt.authority() {
            [] => 1 + memchr::memchr_iter(b',', stem).count(),
            _ => surt.labels().count() + surt.segments().count(),
        }
    }

    /// How many keys more specific than this one would match the lookup but are not in the map.
    pub fn distance(&self, surt: &Surt<'_>) -> usize {
        let found = Key::new(&self.key);
        let keys = surt.candidates();
        let (with_query, found_at) = (
            surt.query().is_some(),
            { keys }.position(|key| key == found),
        );
        // The key with its query is tried only in maps that have such keys.
        found_at.map_or(0, |at| at.saturating_sub(usize::from(with_query)))
    }
}

/// A key that may match a lookup.
#[derive(Clone, Copy)]
struct Candidate {
    key: HashedKey,
    /// The content of its home slot.
    entry: u64,
}

/// The hash of a key that may match a SURT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashedKey {
    hash: u64,
    /// A map without this level does not have the key.
    level: Levels,
    /// The length of its stem in the SURT.
    end: u32,
    reach: Reach,
}

/// The hashes of all keys that may match a SURT in any map, the most specific last.
pub(crate) fn hashed_keys(surt: &Surt<'_>) -> Vec<HashedKey> {
    let mut keys = Vec::with_capacity(16);
    each_key(surt, Levels::EVERY, |key| keys.push(key));
    keys
}

/// The number of SURTs in a batch.
const BATCH: usize = 64;

/// Looks up many SURTs without allocating for each.
pub struct Finder<'m> {
    map: &'m Map,
    candidates: Vec<Candidate>,
    /// Where the candidates of each SURT end.
    ends: Vec<usize>,
}

impl<'m> Finder<'m> {
    /// Looks up in a map.
    pub fn new(map: &'m Map) -> Finder<'m> {
        Finder {
            map,
            candidates: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Passes the row that decides each lookup to `take`, in order; at a time, if one is given and
    /// the map has times.
    pub fn find_all(
        &mut self,
        lookups: &[Lookup<'_>],
        at: Option<&Span>,
        mut take: impl FnMut(Option<Found<'m>>),
    ) {
        for lookups in lookups.chunks(BATCH) {
            self.prepare(lookups.iter().map(Lookup::surt));
            let mut start = 0;
            for (lookup, &end) in lookups.iter().zip(&self.ends) {
                take(self.decide(lookup.surt(), &self.candidates[start..end], at));
                start = end;
            }
        }
    }

    /// The row that decides a lookup.
    pub fn find(&mut self, lookup: &Lookup<'_>, at: Option<&Span>) -> Option<Found<'m>> {
        self.find_surt(lookup.surt(), at)
    }

    /// The row that decides a SURT in the map's spelling.
    pub(crate) fn find_surt(&mut self, surt: &Surt<'_>, at: Option<&Span>) -> Option<Found<'m>> {
        self.prepare([surt].into_iter());
        self.decide(surt, &self.candidates, at)
    }

    /// Fetches everything that a batch needs, so that memory accesses overlap.
    fn prepare<'s>(&mut self, surts: impl Iterator<Item = &'s Surt<'s>>) {
        let table = self.map.table();
        self.candidates.clear();
        self.ends.clear();
        for surt in surts {
            let candidates = &mut self.candidates;
            each_key(surt, table.levels(), |key| {
                candidates.push(Candidate { key, entry: 0 });
            });
            self.ends.push(self.candidates.len());
        }
        for candidate in &mut self.candidates {
            candidate.entry = table.home_entry(candidate.key.hash);
        }
        let text = self.map.text();
        let mut touched = 0;
        for candidate in &self.candidates {
            if let Some(offset) = Table::leads_to(candidate.entry, candidate.key.hash) {
                touched |= text.get(offset).copied().unwrap_or(0);
            }
        }
        black_box(touched);
    }

    fn decide(
        &self,
        surt: &Surt<'_>,
        candidates: &[Candidate],
        at: Option<&Span>,
    ) -> Option<Found<'m>> {
        let mut candidates = candidates.iter().rev();
        candidates.find_map(|candidate| {
            let offset = self.map.offset_of(surt, &candidate.key, candidate.entry)?;
            self.map.row(offset, at)
        })
    }
}

impl Map {
    /// The row that decides a SURT whose keys were hashed before.
    pub(super) fn find_hashed(&self, surt: &Surt<'_>, keys: &[HashedKey]) -> Option<Found<'_>> {
        let mut own = self.own(keys).rev();
        own.find_map(|key| {
            let entry = self.table().home_entry(key.hash);
            self.row(self.offset_of(surt, key, entry)?, None)
        })
    }

    /// Fetches the slots of keys that were hashed before.
    pub(super) fn prefetch_hashed(&self, keys: &[HashedKey]) {
        for key in self.own(keys) {
            self.table().prefetch(key.hash);
        }
    }

    /// Where the rows of all keys begin that match a SURT.
    pub(super) fn offsets(
        &self,
        surt: &Surt<'_>,
        keys: &[HashedKey],
    ) -> impl Iterator<Item = usize> {
        self.own(keys).filter_map(|key| {
            let entry = self.table().home_entry(key.hash);
            self.offset_of(surt, key, entry)
        })
    }

    /// Those keys that may be in this map.
    fn own<'k>(&self, keys: &'k [HashedKey]) -> impl DoubleEndedIterator<Item = &'k HashedKey> {
        let levels = self.table().levels();
        keys.iter().filter(move |key| levels.has(key.level))
    }

    /// The offset of the row with a key of a SURT, given the content of its home slot.
    #[inline]
    fn offset_of(&self, surt: &Surt<'_>, key: &HashedKey, entry: u64) -> Option<usize> {
        let stem = &surt.as_bytes()[..key.end as usize];
        let is_key = |offset| self.is_key(offset, stem, key.reach);
        self.table().find(key.hash, entry, is_key)
    }
}

/// Collects the keys of the levels that a map has.
struct Keys<'s, F> {
    prefixes: Prefixes<'s>,
    levels: Levels,
    take: F,
}

impl<F: FnMut(HashedKey)> Keys<'_, F> {
    #[inline]
    fn add(&mut self, end: usize, reach: Reach, level: Levels) {
        if self.levels.has(level) {
            let hash = self.prefixes.key(end, reach);
            self.add_hashed(end, reach, level, hash);
        }
    }

    #[inline]
    fn add_hashed(&mut self, end: usize, reach: Reach, level: Levels, hash: u64) {
        (self.take)(HashedKey {
            hash,
            level,
            end: end as u32,
            reach,
        });
    }

    /// Adds the wildcard of a host once more if its text could also be an exact key: `5:-1,4,*` might
    /// be a URI with the scheme `5:`. Both are the same row, which covers the host.
    #[cold]
    fn add_bare(&mut self, stem: &[u8]) {
        let text = [stem, b",*"].concat();
        if Key::new(&text).reach() == Reach::Exact && self.levels.has(Levels::EXACT) {
            let hash = Prefixes::new(&text).key(text.len(), Reach::Exact);
            self.add_hashed(stem.len(), Reach::Hosts, Levels::EXACT, hash);
        }
    }
}

/// Passes on the keys that may match a SURT in maps with these levels, the most specific last.
fn each_key(surt: &Surt<'_>, levels: Levels, take: impl FnMut(HashedKey)) {
    let place = trim_slashes(surt.without_query());
    let mut keys = Keys {
        prefixes: Prefixes::new(place),
        levels,
        take,
    };
    keys.add(0, Reach::All, Levels::ALL);
    let authority = surt.authority().len();
    if authority > 0 || surt.as_bytes().first() == Some(&b')') {
        let mut labels = memchr::memchr2_iter(b',', b':', &place[..authority]).peekable();
        // A scheme comes before everything else.
        let may_be_bare = labels.peek().is_some_and(|&at| place[at] == b':');
        // A label may be empty: `,*` covers the hosts that start with `:`.
        for (level, end) in labels.chain([authority]).enumerate() {
            keys.add(end, Reach::Hosts, Levels::hosts(level));
            if may_be_bare {
                keys.add_bare(&place[..end]);
            }
        }
        let (path, mut level) = (authority + 1, 0);
        if let Some(&first) = place.get(path) {
            keys.add(path, Reach::Paths, Levels::paths(0));
            level = usize::from(first == b'/');
            for slash in memchr::memchr_iter(b'/', &place[path + 1..]) {
                keys.add(path + 1 + slash, Reach::Paths, Levels::paths(level));
                level += 1;
            }
        }
        keys.add(place.len(), Reach::Paths, Levels::paths(level));
    }
    keys.add(place.len(), Reach::Exact, Levels::EXACT);
    if levels.has(Levels::QUERIES) && surt.query().is_some() {
        let whole = surt.as_bytes();
        let hash = Prefixes::new(whole).key(whole.len(), Reach::Exact);
        keys.add_hashed(whole.len(), Reach::Exact, Levels::QUERIES, hash);
    }
}
