//! The companion of a map: the filter that decides which of the URIs covered by its rows are
//! present.
//!
//! It has one ribbon filter for each width that occurs in rows, all in one file, over the whole
//! SURTs of the held URIs that a row of that width decides. The map's headers contain the identity
//! of the filter, so a filter of another map or of an earlier state is never mistaken for it.

use std::path::Path;
use std::sync::Arc;

use waypost_index::rejects::printable;
use waypost_io::{Resources, Source};
use waypost_surt::{Dialect, Policy, Surt};

use super::choice::WIDEST;
use super::publish::{companion_path, identity_in};
use crate::error::{Error, Result};
use crate::filter::ribbon::Width;
use crate::filter::{
    self, Cursor, Filter, Hash, Hasher, Keys, Kind, Metadata, Partitions, Recipe, RunWriter,
};
use crate::frequency::Sureness;
use crate::holdings::{Holdings, Input, Pass, Reading, Reduce, Run, escaped, reduce};
use crate::map::lookup::Map;
use crate::map::tree::rows::{Order, Rows};
use crate::summary::Summary;
use crate::ukvs::Headers;

/// The open companion of a map.
pub(crate) struct Companion {
    filter: Filter,
}

impl std::fmt::Debug for Companion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Companion")
            .field(&self.filter.name())
            .finish()
    }
}

impl Companion {
    /// Opens the companion of a map whose rows have these widths, given as a bit set.
    pub(crate) fn open(
        map: &Path,
        headers: &Headers,
        dialect: Dialect,
        widths: u32,
    ) -> Result<Companion> {
        let Some(identity) = identity_in(headers) else {
            return Err(Error::companion(
                "its rows have filters, but its headers name no filter file".to_owned(),
            )
            .in_file(map.display()));
        };
        let path = companion_path(map, identity);
        if !path.is_file() {
            return Err(Error::companion(format!(
                "its rows have filters, but {} is missing",
                path.display()
            ))
            .in_file(map.display()));
        }
        let filter = Filter::open(&path).map_err(Error::into_companion)?;
        Companion::new(filter, identity, dialect, widths)
    }

    /// Checks that a filter is the one with this identity, of a map with this dialect and these
    /// widths.
    pub(crate) fn new(
        filter: Filter,
        identity: u64,
        dialect: Dialect,
        widths: u32,
    ) -> Result<Companion> {
        let wrong = |why: &str| Error::companion(why.to_owned()).in_file(filter.name());
        if filter.head().kind != Kind::Ribbon
            || filter.head().policy != Policy::Whole
            || filter.head().fingerprint.is_some()
        {
            return Err(wrong("not the filter of a map"));
        }
        if filter.head().dialect != dialect || filter.identity() != identity {
            return Err(wrong("the filter of another map"));
        }
        let there = filter
            .widths()
            .iter()
            .fold(0, |set, width| set | 1 << width);
        if widths & !there != 0 {
            return Err(wrong("it lacks a width that occurs in the map"));
        }
        if let Some(damage) = filter::check::check(&filter).damaged.pop() {
            return Err(damage.into_companion());
        }
        Ok(Companion { filter })
    }

    /// Whether a SURT may be held, according to the filter of a row's width.
    pub(crate) fn contains(&self, width: u8, surt: &Surt<'_>) -> Result<bool> {
        let surt = surt.as_bytes();
        let spelled = escaped(surt);
        if self
            .filter
            .contains_at(width, Hasher::Public.hash(&spelled))?
        {
            return Ok(true);
        }
        // Files of hashes have SURTs without this encoding.
        Ok(spelled != surt && self.filter.contains_at(width, Hasher::Public.hash(surt))?)
    }

    /// Whether its file is still intact, that is, was not truncated while in use.
    pub(crate) fn check_intact(&self) -> Result<()> {
        self.filter.check_intact()
    }

    /// Says that nobody else can change its file.
    pub(crate) fn set_private(&self) {
        self.filter.set_private();
    }

    /// The size of its file in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.filter.length()
    }

    /// Keys of all widths.
    pub(crate) fn keys(&self) -> u64 {
        self.filter.head().count
    }
}

/// The result of building a companion.
#[derive(Debug, Default)]
pub(crate) struct BuiltCompanion {
    /// Its bytes and its identity. `None` if no row has a filter.
    pub(crate) file: Option<(u64, u64)>,
    /// URI-Rs in filters.
    pub(crate) keys: u64,
    pub(crate) reading: Arc<Reading>,
}

impl BuiltCompanion {
    /// The identity of the filter.
    pub(crate) fn identity(&self) -> Option<u64> {
        self.file.map(|(_, identity)| identity)
    }
}

/// Builds the companion for the rows of a map from the holdings.
///
/// `full` is the map that the rows were chosen for.
pub(crate) fn make(
    rows: &Path,
    full: &Source,
    holdings: &Holdings,
    room: &Resources,
    out: &Path,
) -> Result<BuiltCompanion> {
    let input = holdings.input();
    let map = Map::open_rows(rows, room)?;
    let widths: Vec<u8> = (1..=WIDEST)
        .filter(|width| map.widths() & 1 << width != 0)
        .collect();
    if let [source] = &input.sources[..]
        && let Some(hashes) = Filter::of_hashes(source)?
    {
        return make_of_hashes(&map, &widths, &hashes, input, full, room, out);
    }
    let memory = input.resources.memory / 2 / widths.len().max(1);
    let mut found = Found {
        partitions: (0..WIDEST)
            .map(|_| Partitions::new(memory, &room.temporary))
            .collect(),
        ..Found::default()
    };
    let (_, reading) = holdings.held(|held| {
        let (router, pass) = (Router { map: &map }, Pass::looking_up(input));
        reduce(held, &router, pass, |part, _| found.take(part))
    })?;
    if found.lost > 0 {
        return Err(Error::holdings(format!(
            "{} URIs are held that the map does not have, among them {}",
            found.lost, found.example
        )));
    }
    must_be_whole(&map, reading.urirs)?;
    let mut runs = Vec::new();
    for (width, partitions) in (1..).zip(found.partitions) {
        if widths.contains(&width) {
            runs.push((width, partitions.finish()?));
        }
    }
    encode(&runs, input, room, reading, out)
}

/// URIs missing from the holdings would be missing from the filter, and called absent. The number
/// of URI-Rs in the map is known if it was built in one run; counts of merged maps are bounds.
fn must_be_whole(map: &Map, held: u64) -> Result<()> {
    match map.about().urirs {
        Some(urirs) if urirs.sureness == Sureness::Exact && urirs.value > held => {
            Err(Error::holdings(format!(
                "the map has {} URI-Rs, and the holdings only {held}",
                urirs.value
            )))
        }
        _ => Ok(()),
    }
}

/// A hash does not show which row decides it. But the exact keys of the map that the rows were
/// chosen for can be hashed: a hash that matches is decided by the row of its key. Hashes that
/// don't match, such as those of URIs with queries, go into the filters of all widths.
fn make_of_hashes(
    map: &Map,
    widths: &[u8],
    hashes: &Filter,
    holdings: &Input,
    full: &Source,
    room: &Resources,
    out: &Path,
) -> Result<BuiltCompanion> {
    if hashes.head().dialect != holdings.dialect {
        return Err(Error::invalid("its dialect differs from the map's").in_file(hashes.name()));
    }
    must_be_whole(map, hashes.head().count)?;
    let memory = holdings.resources.memory / 2 / (widths.len() + 2);
    let mut known = Partitions::new(memory, &room.temporary);
    let mut decided: Vec<(u8, Partitions)> = widths
        .iter()
        .map(|&width| (width, Partitions::new(memory, &room.temporary)))
        .collect();
    let mut rows = Rows::open(full, Order::Any)?;
    while let Some(row) = rows.next()? {
        let surt = escaped(&row.key);
        let hash = Hasher::Public.hash(&surt);
        if row.frequency.is_void() || row.key.ends_with(b"*") || !hashes.contains(hash)? {
            continue;
        }
        let Some(found) = map.find(&Surt::new(&surt), None) else {
            continue;
        };
        known.add(&[hash])?;
        let at = decided
            .iter_mut()
            .find(|(width, _)| found.filter == Some(*width));
        if let Some((_, partitions)) = at {
            partitions.add(&[hash])?;
        }
    }
    let known = known.finish()?;
    let mut rest = RunWriter::new(memory, &room.temporary);
    filter::difference(
        &mut Cursor::file(hashes),
        &mut Cursor::Run(known.reader()),
        &mut rest,
    )?;
    let rest = rest.finish()?;
    let mut runs = Vec::new();
    for (width, partitions) in decided {
        let own = partitions.finish()?;
        let mut all = RunWriter::new(memory, &room.temporary);
        let mut both = [Cursor::Run(own.reader()), Cursor::Run(rest.reader())];
        filter::union(&mut both, &mut all)?;
        runs.push((width, all.finish()?));
    }
    let reading = Reading {
        urirs: hashes.head().count,
        ..Reading::default()
    };
    encode(&runs, holdings, room, Arc::new(reading), out)
}

/// Writes the filters in ascending order of width.
fn encode(
    runs: &[(u8, filter::Run)],
    holdings: &Input,
    room: &Resources,
    reading: Arc<Reading>,
    out: &Path,
) -> Result<BuiltCompanion> {
    let mut made = BuiltCompanion {
        file: None,
        keys: 0,
        reading,
    };
    if runs.is_empty() {
        return Ok(made);
    }
    let recipe = Recipe {
        resources: room.with_memory(holdings.resources.memory / 2),
        ..Recipe::default()
    };
    let parts: Vec<(Width, &filter::Run)> = runs
        .iter()
        .map(|(width, run)| (Width::whole(*width), run))
        .collect();
    made.keys = runs.iter().map(|(_, run)| run.count()).sum();
    let keys = Keys::new(Hasher::Public, holdings.dialect, Policy::Whole);
    let mut head = keys.head(Kind::Ribbon, made.keys);
    let (writer, rate) = filter::ribbons(&parts, &recipe)?;
    head.rate = rate;
    let bytes = writer.finish(&head, &Metadata::default(), out)?;
    made.file = Some((bytes, Filter::open(out)?.identity()));
    Ok(made)
}

/// Finds the row that decides each held URI.
struct Router<'a> {
    map: &'a Map,
}

#[derive(Default)]
struct Found {
    /// By width, from 1.
    partitions: Vec<Partitions>,
    /// Held, but no row of the map calls it present.
    lost: u64,
    example: String,
}

impl Found {
    fn take(&mut self, part: Routed) -> Result<()> {
        self.lost += part.lost;
        if self.example.is_empty() {
            self.example = part.example;
        }
        for (partitions, hashes) in self.partitions.iter_mut().zip(&part.hashes[1..]) {
            partitions.add(hashes)?;
        }
        Ok(())
    }
}

/// Hashes of some URIs by width; width 0 means no filter.
#[derive(Default)]
struct Routed {
    hashes: Vec<Vec<Hash>>,
    lost: u64,
    example: String,
}

impl Reduce for Router<'_> {
    type Part = Routed;

    fn part(&self) -> Routed {
        Routed {
            hashes: vec![Vec::new(); usize::from(WIDEST) + 1],
            ..Routed::default()
        }
    }

    fn run(&self, part: &mut Routed, run: &Run) {
        match self.map.find(&Surt::new(&run.surt), None) {
            Some(found) if !found.frequency.is_void() => {
                if let Some(width) = found.filter {
                    part.hashes[usize::from(width)].push(Hasher::Public.hash(&run.surt));
                }
            }
            _ => {
                part.lost += 1;
                if part.example.is_empty() {
                    part.example = printable(&run.surt);
                }
            }
        }
    }
}
