//! Converts indexes between CDX and CDXJ.
//!
//! CDXJ holds every field: those of CDX get the names that pywb uses, columns without such a name get
//! one of their own, and other JSON is kept as written. CDX with 11 columns holds nine fields beside
//! the key and the timestamp; all others are counted by name. Keys and timestamps never change, except
//! that bytes that would split a line or a column are percent-escaped.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_io::{Result, Source};

use crate::capture::{Capture, Field, Fields};
use crate::json::{self, Kind, Next, Raw};
use crate::layout::fits;
use crate::rejects::printable;
pub use crate::rewrite::Options;
use crate::rewrite::{Lines, Rewrite, rewrite};
use crate::scan::Outcome;
use crate::select::Select;

/// The layout to convert to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// CDX with the columns `N b a m s k r M S V g`.
    Cdx11,
    /// CDXJ: a key, a timestamp and a JSON object.
    Cdxj,
}

/// The header of CDX with 11 columns. Its space sorts before all other lines.
const HEADER: &[u8] = b" CDX N b a m s k r M S V g\n";

/// The columns of CDX after key and timestamp.
const COLUMNS: [Field; 9] = [
    Field::Url,
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Redirect,
    Field::RobotFlags,
    Field::Length,
    Field::Offset,
    Field::Filename,
];

/// The fields of CDX in the order in which pywb writes them as JSON.
const MEMBERS: [Field; 12] = [
    Field::Url,
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Length,
    Field::Offset,
    Field::Filename,
    Field::Redirect,
    Field::RobotFlags,
    Field::OriginalLength,
    Field::OriginalOffset,
    Field::OriginalFilename,
];

/// Maximum number of names to count: an input may have a different one in every line.
const NAMES: usize = 1000;

/// The result of a conversion.
#[derive(Debug, Default)]
pub struct Converted {
    /// Number of lines written, without the header.
    pub lines: u64,
    /// Fields that the target cannot hold, with the number of lines that have them.
    pub lost: BTreeMap<String, u64>,
    /// Fields with spaces or control characters that were percent-escaped, with the number of lines.
    pub escaped: BTreeMap<String, u64>,
    /// What was read. Bad lines, headers and comments are left out.
    pub outcome: Outcome,
}

/// Writes the captures of `sources` to the file `out`, unsorted, in another layout.
///
/// # Errors
/// If a source cannot be read or the file cannot be written.
pub fn convert(
    sources: &[Source],
    to: Target,
    options: Options<'_>,
    out: &Path,
) -> Result<Converted> {
    let mut select = Select::new();
    select.include_non_web(true);
    let header = match to {
        Target::Cdx11 => HEADER,
        Target::Cdxj => b"",
    };
    let rule = Converting { to };
    let (tally, outcome) = rewrite(sources, rule, select, options, header, out)?;
    Ok(Converted {
        lines: tally.lines,
        lost: tally.lost,
        escaped: tally.escaped,
        outcome,
    })
}

struct Converting {
    to: Target,
}

#[derive(Default, Serialize, Deserialize)]
struct Tally {
    lines: u64,
    lost: BTreeMap<String, u64>,
    escaped: BTreeMap<String, u64>,
}

fn add(counts: &mut BTreeMap<String, u64>, name: String, count: u64) {
    if counts.len() < NAMES || counts.contains_key(&name) {
        *counts.entry(name).or_default() += count;
    } else {
        *counts.entry("other fields".to_owned()).or_default() += count;
    }
}

impl Tally {
    fn lose(&mut self, name: &[u8]) {
        add(&mut self.lost, printable(name), 1);
    }
}

impl Rewrite for Converting {
    type Tally = Tally;
    type Tools = ();

    const WHOLE: bool = true;

    fn fields(&self) -> Fields {
        Fields::WITH_COLUMNS
    }

    fn tools(&self) {}

    fn capture(&self, lines: &mut Lines<Tally>, (): &mut (), capture: &Capture<'_>) -> Result<()> {
        let (out, tally) = (&mut lines.bytes, &mut lines.tally);
        tally.lines += 1;
        push_key(capture.key(), tally, out);
        out.push(b' ');
        out.extend_from_slice(capture.timestamp());
        match self.to {
            Target::Cdx11 => push_columns(capture, tally, out),
            Target::Cdxj => push_object(capture, out),
        }
        out.push(b'\n');
        Ok(())
    }

    fn merge(&self, earlier: &mut Tally, later: Tally) {
        earlier.lines += later.lines;
        for (name, count) in later.lost {
            add(&mut earlier.lost, name, count);
        }
        for (name, count) in later.escaped {
            add(&mut earlier.escaped, name, count);
        }
    }
}

/// Appends a key. Only a key in JSON can contain a space, or start like a header.
fn push_key(key: &[u8], tally: &mut Tally, out: &mut Vec<u8>) {
    let (first, rest) = match key {
        [first @ (b'!' | b'{'), rest @ ..] => (Some(*first), rest),
        _ => (None, key),
    };
    if let Some(first) = first {
        push_escape(first, out);
    }
    if push_escaped(rest, out) || first.is_some() {
        add(&mut tally.escaped, "the key".to_owned(), 1);
    }
}

/// Appends the columns after the timestamp, and counts what does not fit in them.
fn push_columns(capture: &Capture<'_>, tally: &mut Tally, out: &mut Vec<u8>) {
    for field in COLUMNS {
        out.push(b' ');
        let value = capture.text(field).unwrap_or_default();
        if value.is_empty() || *value == *b"-" {
            out.push(b'-');
        } else if fits(field, &value).is_err() {
            // It would make the line a bad one.
            tally.lose(field.name().as_bytes());
            out.push(b'-');
        } else if push_escaped(&value, out) {
            add(&mut tally.escaped, field.name().to_owned(), 1);
        }
    }
    for (name, _) in capture.columns() {
        tally.lose(name.as_bytes());
    }
    let Some(object) = capture.json() else {
        for field in Field::ALL {
            if !COLUMNS.contains(&field) && capture.raw(field).is_some() {
                tally.lose(field.name().as_bytes());
            }
        }
        return;
    };
    let mut kept = Fields::NONE;
    visit(object, |name, raw| {
        let is_known = is_key_or_time(name, capture) || matches!(name, b"urlkey" | b"timestamp");
        if is_missing(raw) || is_known {
            return;
        }
        match Field::of_json(name) {
            Some(field)
                if COLUMNS.contains(&field)
                    && !kept.contains(field)
                    && raw.kind != Kind::Nested =>
            {
                kept.insert(field);
            }
            _ => tally.lose(name),
        }
    });
}

/// Appends the JSON object.
fn push_object(capture: &Capture<'_>, out: &mut Vec<u8>) {
    let object = capture.json();
    out.push(b' ');
    if let Some(object) = object
        && !is_ndjson(capture)
        && capture.columns().is_empty()
        && !has_other_names(object)
    {
        out.extend_from_slice(object.trim_ascii_end());
        return;
    }
    out.push(b'{');
    let mut separator: &[u8] = b"";
    let mut name_of = |name: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(separator);
        separator = b", ";
        json::push_string(name, out);
        out.extend_from_slice(b": ");
    };
    match object {
        Some(object) => {
            let mut taken = usual_names(object);
            visit(object, |name, raw| {
                if is_key_or_time(name, capture) {
                    return;
                }
                let name = match Field::of_json(name) {
                    Some(field) if !taken.contains(field) => {
                        taken.insert(field);
                        field.name().as_bytes()
                    }
                    _ => name,
                };
                name_of(name, out);
                let is_string = matches!(raw.kind, Kind::Text | Kind::Escaped);
                if is_string {
                    out.push(b'"');
                }
                out.extend_from_slice(raw.bytes);
                if is_string {
                    out.push(b'"');
                }
            });
        }
        None => {
            for field in MEMBERS {
                if let Some(value) = capture.text(field) {
                    name_of(field.name().as_bytes(), out);
                    json::push_string(&value, out);
                }
            }
        }
    }
    for (name, value) in capture.columns() {
        name_of(name.as_bytes(), out);
        json::push_string(value, out);
    }
    out.push(b'}');
}

/// The fields of an object that have the names that pywb uses.
fn usual_names(object: &[u8]) -> Fields {
    let mut usual = Fields::NONE;
    visit(object, |name, _| {
        if let Some(field) = Field::of_json(name).filter(|field| field.name().as_bytes() == name) {
            usual.insert(field);
        }
    });
    usual
}

/// Whether a field of an object has only a name that pywb does not use, or a name has escapes.
fn has_other_names(object: &[u8]) -> bool {
    let usual = usual_names(object);
    let mut has = false;
    visit(object, |name, _| {
        has |= Field::of_json(name).is_some_and(|field| !usual.contains(field));
    });
    has
}

/// Visits the members of an object, which was checked when its line was parsed.
fn visit<'a>(object: &'a [u8], mut visit: impl FnMut(&[u8], Raw<'a>)) {
    let visited = json::members(object, false, |name, raw| {
        visit(name, raw);
        Next::More
    });
    debug_assert!(visited.is_ok());
}

/// Whether the whole line is JSON, with the key and the timestamp in it.
fn is_ndjson(capture: &Capture<'_>) -> bool {
    capture
        .json()
        .is_some_and(|object| object.len() == capture.line().len())
}

/// Whether a member of NDJSON is written before the JSON of CDXJ.
fn is_key_or_time(name: &[u8], capture: &Capture<'_>) -> bool {
    matches!(name, b"urlkey" | b"k" | b"timestamp" | b"t") && is_ndjson(capture)
}

fn is_missing(raw: Raw<'_>) -> bool {
    match raw.kind {
        Kind::Text => matches!(raw.bytes, b"" | b"-"),
        Kind::Word => raw.bytes == b"null",
        Kind::Escaped => json::text(raw).is_none_or(|text| *text == *b"-"),
        Kind::Nested => false,
    }
}

/// Appends a value in one column. Returns whether anything had to be escaped.
fn push_escaped(value: &[u8], out: &mut Vec<u8>) -> bool {
    let splits = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    if !value.iter().any(splits) {
        out.extend_from_slice(value);
        return false;
    }
    for byte in value {
        match splits(byte) {
            true => push_escape(*byte, out),
            false => out.push(*byte),
        }
    }
    true
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("%{byte:02X}").as_bytes());
}
