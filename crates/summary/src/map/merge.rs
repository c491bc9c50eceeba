//! Two or more maps made one: what either calls present stays present.
//!
//! Rows of one key add up. A void stays only where no map holds anything: where one map says that
//! nothing is there and another has holdings at, above or below that place, the void is dropped,
//! because it would win over the other's wildcard. URI-Rs that several maps hold are counted more
//! than once, so their sums are upper bounds. Filters of two maps cannot be joined, only made anew from
//! all that is held.

use std::path::Path;

use waypost_index::Source;
use waypost_surt::{Key, Reach};

use super::filtered::{publish, spelled, temporary};
use super::row::Row;
use super::rows::{Order, Rows, second_key};
use super::store::Map;
use super::tidy::{Room, Spool, push_tidy, write_spooled};
use crate::about::About;
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::{Frequency, Number};
use crate::holdings::Input;
use crate::ukvs::{Header, Value};

/// What was merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub rows: u64,
    /// Voids that another map speaks against.
    pub dropped: u64,
    /// Bytes of the filter that was made anew, if one was.
    pub filter_bytes: Option<u64>,
}

/// What becomes of filters that rows have.
#[derive(Clone, Copy, Debug)]
pub enum Filters<'a> {
    /// They cannot be merged: rows with filters are refused.
    Refuse,
    /// Rows lose them, and call everything present.
    Drop,
    /// They are made anew from all that is held.
    Rebuild(&'a Input),
}

/// Merges maps.
///
/// # Errors
/// When a map cannot be read, they have different second keys or dialects, or rows have filters that
/// are neither to be dropped nor made anew.
pub fn merge(
    maps: &[std::path::PathBuf],
    filters: Filters<'_>,
    room: &Room,
    out: &Path,
) -> Result<Merged> {
    let mut merged = Merged::default();
    let mut spool = Spool::new(room)?;
    let mut about: Option<(About, Option<String>)> = None;
    let several = maps.len() > 1;
    let opened: Vec<Map> = maps
        .iter()
        .map(|path| Map::open_rows(path, room))
        .collect::<Result<_>>()?;
    let filtered = opened.iter().position(|map| map.widths() != 0);
    if let (Some(at), Filters::Refuse) = (filtered, filters) {
        return Err(Error::new(ErrorKind::FiltersToMerge).in_file(maps[at].display()));
    }
    for (at, path) in maps.iter().enumerate() {
        let source = Source::new(path.clone());
        let mut rows = Rows::open(&source, Order::Any)?;
        // Maps from elsewhere name their second key, but not what we call it by.
        let second = second_key(rows.headers())?;
        let said =
            About::from_headers(rows.headers()).map_err(|error| error.in_file(path.display()))?;
        about = Some(match about {
            None => (said, second),
            Some((before, of)) => {
                if of != second || before.by != said.by || before.dialect != said.dialect {
                    return Err(Error::invalid(
                        "its second key or its dialect is not that of the maps before",
                    )
                    .in_file(path.display()));
                }
                (before.merged(said), of)
            }
        });
        let mut key = Vec::new();
        while let Some(mut row) = rows.next()? {
            merged.rows_in += 1;
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
    let Some((about, second)) = about else {
        return Err(Error::invalid("nothing to merge"));
    };
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
    match filters {
        Filters::Rebuild(holdings) if filtered.is_some() => {
            let rows = temporary(room)?;
            merged.rows = write_spooled(spool.finish()?, keys, &head(None), &rows)?;
            let full = Source::new(rows.to_path_buf());
            let made = publish(&rows, &full, holdings, room, head, out)?;
            merged.filter_bytes = made.file.map(|(bytes, _)| bytes);
        }
        _ => merged.rows = write_spooled(spool.finish()?, keys, &head(None), out)?,
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

/// URI-Rs of several maps may be the same.
fn bounded(frequency: Frequency) -> Frequency {
    Frequency {
        urirs: frequency.urirs.map(|urirs| urirs.plus(Number::at_most(0))),
        ..frequency
    }
}
