//! TimeMaps in CDXJ: `timestamp {…}` as MemGator writes it, or the rows of an index, `key timestamp
//! {…}` or `{…}`, as pywb does.

use std::io::{self, Write};

use memchr::{memchr, memchr_iter};
use serde::Deserialize;

use super::json::{add_formats, json_error};
use super::{FORMAT_KEYS, Format, Memento, Relations, TimeMap, TimeMapLink};
use crate::{Datetime, Error, ErrorKind, Replay};

#[derive(Deserialize)]
struct Row {
    uri: Option<String>,
    rel: Option<String>,
    datetime: Option<String>,
    timestamp: Option<String>,
    #[serde(alias = "original")]
    url: Option<String>,
}

pub(super) fn read(document: &[u8], replay: Option<&Replay>) -> (TimeMap, Vec<Error>) {
    let mut timemap = TimeMap::default();
    let mut problems = Vec::new();
    let mut start = 0;
    for end in memchr_iter(b'\n', document).chain([document.len()]) {
        let line = document[start..end].trim_ascii();
        let read = match line.first() {
            None => Ok(()),
            Some(b'!') => header(document, line, &mut timemap),
            Some(_) => row(document, line, replay, &mut timemap),
        };
        problems.extend(read.err());
        start = end + 1;
    }
    if timemap.original.is_empty() && !timemap.mementos.is_empty() {
        problems.push(Error::new(ErrorKind::MissingOriginal, document.len()));
    }
    (timemap, problems)
}

fn offset(document: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(document.as_ptr() as usize)
}

#[derive(Deserialize)]
struct Meta<'a> {
    uri: Option<String>,
    original_uri: Option<String>,
    timegate_uri: Option<String>,
    #[serde(borrow)]
    timemap_uri: Option<&'a serde_json::value::RawValue>,
}

/// `!id {…}` and `!meta {…}`; other headers say nothing about the TimeMap.
fn header(document: &[u8], line: &[u8], timemap: &mut TimeMap) -> Result<(), Error> {
    let space = memchr(b' ', line).unwrap_or(line.len());
    let (name, json) = line.split_at(space);
    if !matches!(name, b"!id" | b"!meta") {
        return Ok(());
    }
    let failed = |error| json_error(document, json, &error);
    let meta: Meta<'_> = serde_json::from_slice(json).map_err(failed)?;
    if name == b"!id" {
        timemap.this = meta.uri.map(|uri| TimeMapLink::new(uri, Format::Cdxj));
        return Ok(());
    }
    timemap.original = meta
        .original_uri
        .unwrap_or(std::mem::take(&mut timemap.original));
    timemap.timegate = meta.timegate_uri.or(timemap.timegate.take());
    if let Some(uris) = meta.timemap_uri {
        add_formats(uris.get(), timemap)
            .map_err(|error| json_error(document, uris.get().as_bytes(), &error))?;
    }
    Ok(())
}

fn row(
    document: &[u8],
    line: &[u8],
    replay: Option<&Replay>,
    timemap: &mut TimeMap,
) -> Result<(), Error> {
    let at = offset(document, line);
    let open = memchr(b'{', line).ok_or(Error::new(ErrorKind::BadRow, at))?;
    let (columns, json) = line.split_at(open);
    let failed = |error| json_error(document, json, &error);
    let row: Row = serde_json::from_slice(json).map_err(failed)?;
    let columns = String::from_utf8_lossy(columns);
    let column = columns.split_ascii_whitespace().next_back();
    let text = column
        .map(str::to_owned)
        .or(row.timestamp)
        .or(row.datetime)
        .ok_or(Error::new(ErrorKind::MissingDatetime, at))?;
    let datetime =
        Datetime::parse(&text).map_err(|error| Error::new(ErrorKind::BadDatetime(error.0), at))?;
    let uri = match (row.uri, replay, &row.url) {
        (Some(uri), _, _) => uri,
        (None, Some(replay), Some(url)) => replay.uri(datetime, url),
        _ => return Err(Error::new(ErrorKind::MissingUri, at)),
    };
    if timemap.original.is_empty() {
        timemap.original = row.url.unwrap_or_default();
    }
    timemap.mementos.push(Memento {
        relations: Relations::of(row.rel.unwrap_or_default().split_ascii_whitespace()),
        ..Memento::new(uri, datetime)
    });
    Ok(())
}

pub(super) fn write(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    write_head(timemap, out)?;
    for memento in &timemap.mementos {
        write_memento(memento, memento.relations, out)?;
    }
    Ok(())
}

pub(super) fn write_head(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"!context [\"https://oduwsdl.github.io/contexts/memento\"]\n")?;
    if let Some(this) = &timemap.this {
        writeln!(out, "!id {{\"uri\": {}}}", quoted(&this.uri))?;
    }
    out.write_all(b"!keys [\"memento_datetime_YYYYMMDDhhmmss\"]\n")?;
    writeln!(
        out,
        "!meta {{\"original_uri\": {}}}",
        quoted(&timemap.original)
    )?;
    if let Some(timegate) = &timemap.timegate {
        writeln!(out, "!meta {{\"timegate_uri\": {}}}", quoted(timegate))?;
    }
    let formats: Vec<String> = FORMAT_KEYS
        .iter()
        .filter_map(|(format, key)| {
            let uri = timemap.uri_of(*format)?;
            Some(format!("\"{key}\": {}", quoted(uri)))
        })
        .collect();
    if !formats.is_empty() {
        writeln!(out, "!meta {{\"timemap_uri\": {{{}}}}}", formats.join(", "))?;
    }
    Ok(())
}

pub(super) fn write_memento(
    memento: &Memento,
    relations: Relations,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{} {{\"uri\": {}, \"rel\": \"{relations}\", \"datetime\": \"{}\"}}",
        memento.datetime.timestamp(),
        quoted(&memento.uri),
        memento.datetime.http()
    )
}

/// A string of JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
