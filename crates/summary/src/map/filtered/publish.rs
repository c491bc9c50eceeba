//! Publishing a map and its companion so that readers always see two files of the same run.
//!
//! Two files can't be replaced atomically. So the filter has a unique name, which contains the
//! identity given in the map's headers, and replacing the map commits both:
//!
//! 1. write the new filter; the old one stays
//! 2. replace the old map by the new one
//! 3. remove filters that no map refers to
//!
//! A run that ends before step 2 leaves the old map with the old filter, one that ends later the
//! new map with the new filter. The next run removes a leftover filter.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;
use waypost_io::{AtomicFile, Lines, Resources, Source};

use super::companion::{self, BuiltCompanion};
use crate::error::{Error, Result};
use crate::holdings::{Holdings, Input};
use crate::map::tree::rows::{Order, Rows};
use crate::ukvs::{Headers, RowWriter, Value};

/// Suffixes of compressed maps, which are not part of the names of their filters.
const COMPRESSED: [&str; 3] = ["gz", "zst", "bz2"];

/// The name of a map without the suffix of its compression.
fn base_of(map: &Path) -> PathBuf {
    match map.extension().and_then(OsStr::to_str) {
        Some(suffix) if COMPRESSED.contains(&suffix) => map.with_extension(""),
        _ => map.to_owned(),
    }
}

/// The path of a map's filter: `small.ukvs.0123456789abcdef.filter` for `small.ukvs` and
/// `small.ukvs.gz`.
pub(crate) fn companion_path(map: &Path, identity: u64) -> PathBuf {
    let mut name = OsString::from(base_of(map));
    name.push(format!(".{}.filter", spelled(identity)));
    PathBuf::from(name)
}

/// The filter named in the headers of a map, if any.
///
/// # Errors
/// When the map cannot be read.
pub fn companion_of(map: &Path) -> Result<Option<PathBuf>> {
    companion_at(map, map)
}

/// The filter that belongs to the copy of a map at another path.
///
/// # Errors
/// When the map cannot be read.
pub fn companion_at(map: &Path, copy: &Path) -> Result<Option<PathBuf>> {
    let rows = Rows::open(&Source::new(map), Order::Any)?;
    Ok(identity_in(rows.headers()).map(|identity| companion_path(copy, identity)))
}

/// Whether a file is the companion of a map by its name, and not a summary of its own.
pub fn is_companion(path: &Path) -> bool {
    let base = base_of(path);
    let name = base.file_name().and_then(OsStr::to_str);
    let stem = name.and_then(|name| name.strip_suffix(".filter"));
    stem.and_then(|stem| stem.rsplit_once('.'))
        .is_some_and(|(_, identity)| parsed(identity).is_some())
}

/// The identity of the filter named in the headers of a map.
pub(crate) fn identity_in(headers: &Headers) -> Option<u64> {
    match headers.get("meta")?.get("filter")? {
        Value::Text(text) => parsed(text),
        _ => None,
    }
}

/// Formats the identity of a filter for headers and file names.
pub(crate) fn spelled(identity: u64) -> String {
    format!("{identity:016x}")
}

fn parsed(text: &str) -> Option<u64> {
    let identity = u64::from_str_radix(text, 16).ok()?;
    (spelled(identity) == text).then_some(identity)
}

/// Builds the filter for rows, and publishes both. `head` returns the headers for the identity of
/// the filter.
pub(crate) fn publish(
    rows: &Path,
    full: &Source,
    holdings: &Input,
    room: &Resources,
    head: impl Fn(Option<u64>) -> Vec<u8>,
    out: &Path,
) -> Result<BuiltCompanion> {
    let filter = temporary(room)?;
    let made = companion::make(rows, full, &Holdings::new(holdings.clone()), room, &filter)?;
    place(rows, &made, &filter, &head(made.identity()), out)?;
    Ok(made)
}

/// Publishes rows and their filter. Returns the size of the map in bytes, and the path of its
/// filter.
pub(crate) fn place(
    rows: &Path,
    made: &BuiltCompanion,
    filter: &Path,
    head: &[u8],
    out: &Path,
) -> Result<(u64, Option<PathBuf>)> {
    let writer = copy(rows, head, out)?;
    let companion = made
        .identity()
        .map(|identity| companion_path(out, identity));
    if let Some(place) = &companion {
        let fail = |error| Error::io("write", place, error);
        let mut from = File::open(filter).map_err(|error| Error::io("read", filter, error))?;
        let mut file = AtomicFile::create(place)?;
        io::copy(&mut from, &mut file).map_err(fail)?;
        file.commit()?;
    }
    let written = writer.finish();
    remove_stale(out);
    Ok((written?.bytes_out, companion))
}

/// Removes filters next to a map that neither it nor a copy with another compression refers to.
/// Files that can't be read or removed are left alone; they do no harm.
fn remove_stale(map: &Path) {
    let base = base_of(map);
    let mut named = BTreeSet::new();
    let packed = COMPRESSED.map(|suffix| {
        let mut name = base.clone().into_os_string();
        name.push(format!(".{suffix}"));
        PathBuf::from(name)
    });
    for map in packed.iter().chain([&base]).filter(|map| map.exists()) {
        match companion_of(map) {
            Ok(companion) => named.extend(companion),
            Err(_) => return,
        }
    }
    let (Some(folder), Some(name)) = (base.parent(), base.file_name()) else {
        return;
    };
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let identity = file
            .as_encoded_bytes()
            .strip_prefix(name.as_encoded_bytes())
            .and_then(|rest| rest.strip_prefix(b"."))
            .and_then(|rest| rest.strip_suffix(b".filter"))
            .and_then(|text| parsed(std::str::from_utf8(text).ok()?));
        if let Some(identity) = identity {
            let path = companion_path(&base, identity);
            if !named.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// The path of a temporary file, which is removed on drop.
pub(crate) fn temporary(room: &Resources) -> Result<TempPath> {
    Ok(waypost_io::temporary::file_in(&room.temporary)?.into_temp_path())
}

/// The gzipped size of rows below other headers: what a map takes once it is published.
pub(crate) fn gzipped_size(rows: &Path, head: &[u8], room: &Resources) -> Result<u64> {
    let file = temporary(room)?;
    copy(rows, head, &file)?.finish()?;
    File::open(&file)
        .and_then(waypost_io::gzip::size_of)
        .map_err(|error| Error::io("read", &file, error))
}

/// Copies rows below other headers. The file exists once the writer is finished.
fn copy(rows: &Path, head: &[u8], out: &Path) -> Result<RowWriter> {
    let mut writer = RowWriter::create(out, head, 1)?;
    let mut lines = Lines::new(Source::new(rows.to_owned()).open()?);
    while lines.advance()? {
        if !matches!(lines.line().first(), None | Some(b'!')) {
            writer.push(lines.line())?;
        }
    }
    Ok(writer)
}
