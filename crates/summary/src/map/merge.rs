//! Merging maps: what any of them calls present stays present.
//!
//! Rows of the same key are added up. A void stays only where no map holds anything: if another map
//! has holdings at, above or below the void's node, the void is dropped, because it would override
//! the other map's wildcard. URI-Rs held by several maps are counted more than once, so their sums
//! are upper bounds. Filters of two maps can't be merged, only rebuilt from all holdings.

use std::path::Path;

use waypost_index::Takedowns;
use waypost_io::{Progress, Resources, Source};
use waypost_surt::{Key, Reach};

use super::filtered::{publish, spelled, temporary};
use super::lookup::Map;
use super::tree::row::Row;
use super::tree::rows::{Order, Rows, second_key};
use super::tree::spool::Spool;
use super::tree::spooled;
use super::tree::tidy::push_tidy;
use crate::about::About;
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::{Frequency, Number};
use crate::holdings::Input;
use crate::ukvs::{Header, Value};

/// The result of merging maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub rows: u64,
    /// Voids that another map contradicts.
    pub dropped: u64,
    /// Rows that were taken down.
    pub taken_down: u64,
    /// Those of them that stood for several URI-Rs with one key, of which not all may be on the list.
    pub shared: u64,
    /// The size in bytes of the rebuilt filter, if there is one.
    pub filter_bytes: Option<u64>,
}

/// What to do with the filters of rows.
#[derive(Clone, Copy, Debug)]
pub enum Filters<'a> {
    /// Reject rows with filters.
    Refuse,
    /// Drop the filters, so that rows call everything present.
    Drop,
    /// Rebuild the filters from all holdings.
    Rebuild(&'a Input),
}

/// Merges maps.
///
/// # Errors
/// If a map can't be read, if second keys or dialects differ, or if rows have filters that are
/// neither dropped nor rebuilt.
pub fn merge(
    maps: &[std::path::PathBuf],
    filters: Filters<'_>,
    room: &Resources,
    out: &Path,
) -> Result<Merged> {
    merge_without(maps, filters, None, room, out)
}

/// Merges maps without the rows of `takedowns`. A wildcard above such a row may still call it present.
///
/// # Errors
/// Those of [`merge`].
pub fn merge_without(
    maps: &[std::path::PathBuf],
    filters: Filters<'_>,
    takedowns: Option<&Takedowns>,
    room: &Resources,
    out: &Path,
) -> Result<Merged> {
    let mut merged = Merged::default();
    let mut spool = Spool::new(room)?;
    let mut gone = Frequency::new(0, 0);
    let mut about: Option<(About, Option<String>)> = None;
    let several = maps.len() > 1;
    let sources: Vec<Source> = maps.iter().map(Source::new).collect();
    let opened: Vec<Map> = sources
        .iter()
        .map(|source| Map::rows_of(source, room))
        .collect::<Result<_>>()?;
    let filtered = opened.iter().position(|map| map.widths() != 0);
    if let (Some(at), Filters::Refuse) = (filtered, filters) {
        return Err(Error::new(ErrorKind::FiltersToMerge).in_file(maps[at].display()));
    }
    for (at, (path, source)) in maps.iter().zip(&sources).enumerate() {
        let mut rows = Rows::open(source, Order::Any)?;
        // Maps of other tools name their second key, but not by our name for it.
        let second = second_key(rows.headers())?;
        let said =
            About::from_headers(rows.headers()).map_err(|error| error.in_file(path.display()))?;
        let dialect = said.dialect;
        about = Some(match about {
            None => (said, second),
            Some((before, of)) => {
                if of != second || before.by != said.by || before.dialect != said.dialect {
                    return Err(Error::invalid(
                        "its second key or dialect differs from that of the maps before it",
                    )
                    .in_file(path.display()));
                }
                (before.merged(said), of)
            }
        });
        let mut key = Vec::new();
        while let Some(mut row) = rows.next()? {
            merged.rows_in += 1;
            if takedowns.is_some_and(|list| list.cover_key(&row.key, dialect)) {
                let several = |urirs: Number| urirs.value > 1;
                let is_exact = Key::new(&row.key).reach() == Reach::Exact;
                merged.taken_down += 1;
                merged.shared += u64::from(is_exact && row.frequency.urirs.is_some_and(several));
                gone = gone.plus(row.frequency);
                continue;
            }
            if row.frequency.is_void()
                && opened
                    .iter()
                    .enumerate()
                    .any(|(other, map)| other != at && speaks_against(map, &row))
            {
                merged.dropped += 1;
                continue;
            }
            if matches!(filters, Filters::Drop) {
                row.filter = None;
            }
            if several && !row.frequency.is_void() {
                row.frequency = bounded(row.frequency);
            }
            push_tidy(&mut spool, &row, &mut key)?;
        }
    }
    let Some((mut about, second)) = about else {
        return Err(Error::invalid("nothing to merge"));
    };
    if merged.taken_down > 0 {
        // Totals that do not change would tell how much was taken down.
        about.captures = without(about.captures, gone.captures);
        let urirs = gone.urirs.filter(|_| second.is_none());
        about.urirs = without(about.urirs, urirs);
    }
    let head = |identity: Option<u64>| {
        let mut headers = super::build::headers(&about, second.as_deref());
        if let Some(identity) = identity {
            let filter = ("filter".into(), Value::Text(spelled(identity)));
            headers.add(Header::new("meta", Value::Object(vec![filter])));
        }
        let mut head = Vec::new();
        headers.write(&mut head);
        head
    };
    let keys = 1 + usize::from(second.is_some());
    let spools = vec![spool.finish()?];
    let write = |head: &[u8], out: &Path| {
        let written = spooled::write(spools, keys, head, room, &Progress::default(), out);
        written.map(|(rows, _)| rows)
    };
    match filters {
        Filters::Rebuild(holdings) if filtered.is_some() => {
            let rows = temporary(room)?;
            merged.rows = write(&head(None), &rows)?;
            let full = Source::new(rows.to_path_buf());
            let made = publish(&rows, &full, holdings, room, head, out)?;
            merged.filter_bytes = made.file.map(|(bytes, _)| bytes);
        }
        _ => merged.rows = write(&head(None), out)?,
    }
    Ok(merged)
}

/// Whether a map holds something where another has a void.
fn speaks_against(map: &Map, void: &Row<'_>) -> bool {
    let key = Key::new(&void.key);
    let above = waypost_surt::Surt::new(key.stem());
    if key.reach() == Reach::Exact {
        return map
            .find(&above, None)
            .is_some_and(|found| !found.frequency.is_void());
    }
    map.holds_at_or_below(&key)
}

/// A total without the captures or URI-Rs of some rows.
fn without(total: Option<Number>, gone: Option<Number>) -> Option<Number> {
    let value = total?.value.saturating_sub(gone?.value);
    total.map(|total| Number { value, ..total })
}

/// Several maps may hold the same URI-Rs.
fn bounded(frequency: Frequency) -> Frequency {
    Frequency {
        urirs: frequency.urirs.map(|urirs| urirs.plus(Number::at_most(0))),
        ..frequency
    }
}
