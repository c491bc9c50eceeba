//! Turning rows in any order, possibly with duplicate keys, into a tidy map: they are sorted within the
//! memory limit, and the rows of each key are added up, so that what any of them calls present stays
//! present.

use tempfile::TempPath;
use waypost_io::{LONGEST_LINE, Progress, Resources, Source, temporary};
use waypost_surt::Key;

use super::row::{Row, tidy_key};
use super::rows::{Order, Rows, is_void_of_query};
use super::spool::Spool;
use super::spooled;
use crate::error::{Error, Result};
use crate::frequency::Frequency;

/// The frequency of a key with two rows: a void does not override holdings.
pub(crate) fn joined(a: Frequency, b: Frequency) -> Frequency {
    match (a.is_void(), b.is_void()) {
        (true, false) => b,
        (false, true) => a,
        _ => a.plus(b),
    }
}

/// The filter of a key with two rows: the wider one, unless one of the rows calls everything
/// present. A void has no filter and does not override that of the other row.
pub(crate) fn joined_filter(a: (Frequency, Option<u8>), b: (Frequency, Option<u8>)) -> Option<u8> {
    match (a.0.is_void(), b.0.is_void()) {
        (true, false) => b.1,
        (false, true) => a.1,
        _ => Some(a.1?.max(b.1?)),
    }
}

/// A map with tidy rows, as a temporary file.
pub(crate) fn tidied(source: &Source, room: &Resources) -> Result<TempPath> {
    let mut rows = Rows::open(source, Order::Any)?;
    let keys = rows.keys();
    let mut spool = Spool::new(room)?;
    let mut key = Vec::new();
    while let Some(row) = rows.next()? {
        push_tidy(&mut spool, &row, &mut key)?;
    }
    let headers = rows.headers().clone();
    let out = temporary::file_in(&room.temporary)?.into_temp_path();
    let mut head = Vec::new();
    headers.write(&mut head);
    spooled::write(
        vec![spool.finish()?],
        keys,
        &head,
        room,
        &Progress::default(),
        &out,
    )?;
    Ok(out)
}

/// Adds a row with its key in canonical form.
pub(crate) fn push_tidy(spool: &mut Spool, row: &Row<'_>, key: &mut Vec<u8>) -> Result<()> {
    key.clear();
    if row.key.len() > LONGEST_LINE / 4 {
        return Err(Error::format("a key is longer than 4 MiB"));
    }
    if is_void_of_query(&Key::new(&row.key), row) {
        key.extend_from_slice(&row.key);
    } else {
        tidy_key(&row.key, key);
    }
    spool.push(key, row.second.as_deref(), &row.frequency, row.filter)
}
