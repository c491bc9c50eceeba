//! The line layouts of indexes, and their parsers.
//!
//! | shape | a line |
//! |---|---|
//! | CDX | columns separated by spaces, identified by a header or by their number |
//! | CDXJ | `key timestamp {json}` |
//! | CDXJ of OpenWayback | `(key) date type {json}`, a draft |
//! | NDJSON | `{json}` with `urlkey` and `timestamp`, as returned by CDX servers |
//!
//! Every line is parsed by its own shape, because merged files contain several. The start of a file
//! ([`FileLayout::detect`]) decides only what cannot be seen in the line itself: the order of its
//! columns. Later headers take effect where they occur.

mod columns;
mod detect;
mod tool;

pub use columns::Columns;
pub use tool::Tool;

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::capture::{Capture, Field, Fields};
use crate::json::{self, Next};
use crate::key::KeyForm;
use crate::rejects::Bad;
use crate::structure::{ScalarStrings, Strings};
use crate::timestamp::{Time, is_timestamp};
use crate::web;
use columns::Split;
pub(crate) use columns::fits;

/// The shape of one line.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Shape {
    /// CDX with this many columns.
    Cdx(u8),
    /// `key timestamp {json}`.
    Cdxj,
    /// `(key) date type {json}`.
    OpenWayback,
    /// `{json}`.
    Ndjson,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Cdx(count) => write!(f, "CDX {count}"),
            Shape::Cdxj => f.write_str("CDXJ"),
            Shape::OpenWayback => f.write_str("CDXJ of OpenWayback"),
            Shape::Ndjson => f.write_str("NDJSON"),
        }
    }
}

/// A parsed line.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every line is a capture, and boxing it would cost more than parsing it"
)]
pub enum Line<'a> {
    /// A capture, or a row that looks like one but is not of the Web.
    Capture(Capture<'a>, Shape),
    /// A header or a comment of the format: ` CDX …`, `!meta …`.
    Header,
    /// A bad line.
    Bad(Bad),
}

/// The same for a line that was parsed into an existing capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Capture(Shape),
    Header,
    Bad(Bad),
}

impl From<Result<Shape, Bad>> for Read {
    #[inline]
    fn from(result: Result<Shape, Bad>) -> Read {
        match result {
            Ok(shape) => Read::Capture(shape),
            Err(kind) => Read::Bad(kind),
        }
    }
}

/// Maximum number of column orders to remember, so that a file with a header before every line does
/// not take quadratic time.
const MOST_HEADERS: usize = 32;

/// The usual number of digits of a timestamp.
const TIMESTAMP: usize = 14;
/// The same with a space before and after them.
const TIMESTAMP_COLUMN: usize = TIMESTAMP + 2;

/// The layout of a file.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FileLayout {
    /// The most frequent shape, if there are any lines.
    shape: Option<Shape>,
    /// The tool that wrote the JSON.
    tool: Option<Tool>,
    /// The form of the keys.
    keys: KeyForm,
    /// The column orders named by headers, the last one first.
    headers: Vec<Columns>,
    /// The column order of lines without a header.
    unnamed: Vec<Columns>,
}

impl FileLayout {
    /// Whether a header names a column order that is not known yet.
    pub(crate) fn is_news(&self, header: &[u8]) -> bool {
        Columns::from_header(header).is_some_and(|columns| self.headers.first() != Some(&columns))
    }

    /// Adds a header found between other lines, which applies from there on.
    pub(crate) fn learn(&mut self, header: &[u8]) {
        if let Some(columns) = Columns::from_header(header) {
            self.headers.retain(|known| *known != columns);
            self.headers.insert(0, columns);
            self.headers.truncate(MOST_HEADERS);
        }
    }

    /// The most frequent shape.
    pub fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// The tool that wrote the JSON, if it can be recognised.
    pub fn tool(&self) -> Option<Tool> {
        self.tool
    }

    /// The form of the keys.
    pub fn keys(&self) -> KeyForm {
        self.keys
    }

    /// The column order of most lines, if they have columns.
    pub fn columns(&self) -> Option<&Columns> {
        self.headers.first().or(self.unnamed.first())
    }

    /// Parses a line without its newline. With `whole`, JSON is checked to its end.
    pub fn read<'a>(&self, line: &'a [u8], wanted: Fields, whole: bool) -> Line<'a> {
        let mut capture = Capture::empty();
        match self.read_into(line, ScalarStrings, wanted, whole, &mut capture) {
            Read::Capture(shape) => Line::Capture(capture, shape),
            Read::Header => Line::Header,
            Read::Bad(kind) => Line::Bad(kind),
        }
    }

    /// Parses a line, in which `strings` finds strings, into a capture that is reused for many lines.
    #[inline(always)]
    pub(crate) fn read_into<'a>(
        &self,
        line: &'a [u8],
        strings: impl Strings,
        wanted: Fields,
        whole: bool,
        capture: &mut Capture<'a>,
    ) -> Read {
        // Nearly all lines of CDXJ. Those that start with one of these bytes are headers, NDJSON or bad.
        if !matches!(line.first(), Some(b' ' | b'!' | b'@' | b'{'))
            && let Some(at) = strings.usual_object(line)
            && let Some((head, object)) = line.split_at_checked(at)
            && let Some((key, [b' ', timestamp @ .., b' '])) =
                head.split_last_chunk::<TIMESTAMP_COLUMN>()
            && is_timestamp(timestamp)
            && strings.first_space(line) == Some(key.len())
        {
            capture.begin(line, key, timestamp);
            capture.set_json(at);
            return read_usual(capture, object, strings.from(at), wanted)
                .map(|()| Shape::Cdxj)
                .into();
        }
        self.read_other(line, strings, wanted, whole, capture)
    }

    /// Parses a line of any form.
    #[inline(never)]
    fn read_other<'a>(
        &self,
        line: &'a [u8],
        strings: impl Strings,
        wanted: Fields,
        whole: bool,
        capture: &mut Capture<'a>,
    ) -> Read {
        match line.first() {
            None => return Read::Bad(Bad::Blank),
            Some(b' ') => {
                return if line.starts_with(b" CDX") {
                    Read::Header
                } else if line.iter().all(|byte| *byte == b' ') {
                    Read::Bad(Bad::Blank)
                } else {
                    Read::Bad(Bad::Key)
                };
            }
            Some(b'!') => return Read::Header,
            Some(b'@') if line.starts_with(b"@alias ") => return Read::Header,
            Some(b'{') => return read_ndjson(line, wanted, whole, capture),
            Some(_) => {}
        }
        let Some(first) = strings.first_space(line) else {
            return Read::Bad(Bad::Text);
        };
        let rest = &line[first + 1..];
        let second = match rest.get(TIMESTAMP..TIMESTAMP + 2) {
            Some(b" {") if is_timestamp(&rest[..TIMESTAMP]) => Some(TIMESTAMP),
            _ => memchr(b' ', rest),
        };
        let Some(second) = second else {
            return self.read_columns(line, wanted, whole, capture);
        };
        if rest.get(second + 1) == Some(&b'{') {
            let timestamp = &rest[..second];
            if !is_timestamp(timestamp) {
                return Read::Bad(key_or_timestamp(&line[..first], timestamp));
            }
            capture.begin(line, &line[..first], timestamp);
            let at = first + second + 2;
            return read_json(capture, at, strings.from(at), wanted, whole)
                .map(|()| Shape::Cdxj)
                .into();
        }
        self.read_columns(line, wanted, whole, capture)
    }

    #[inline]
    fn read_columns<'a>(
        &self,
        line: &'a [u8],
        wanted: Fields,
        whole: bool,
        capture: &mut Capture<'a>,
    ) -> Read {
        let split = Split::new(line);
        let count = split.count();
        let mut wrong = None;
        for columns in self.headers.iter().chain(&self.unnamed) {
            if columns.count() == count {
                match columns.read(&split, wanted, capture) {
                    Ok(()) => return Read::Capture(Shape::Cdx(count as u8)),
                    Err(kind) => wrong = wrong.or(Some(kind)),
                }
            }
        }
        self.read_odd(&split, wanted, whole, wrong, capture).into()
    }

    /// Parses a line that does not fit the known column orders of its file.
    #[cold]
    fn read_odd<'a>(
        &self,
        split: &Split<'a>,
        wanted: Fields,
        whole: bool,
        wrong: Option<Bad>,
        capture: &mut Capture<'a>,
    ) -> Result<Shape, Bad> {
        let count = split.count();
        if let Some(read) = read_open_wayback(split, wanted, whole, capture) {
            return read.map(|()| Shape::OpenWayback);
        }
        // Lines of another layout that lost their header when files were merged. Layouts with six or
        // seven columns are not tried, because a longer line that was truncated looks like them.
        if count >= 9 || self.columns().is_none() {
            for columns in Columns::all_standard(count) {
                if columns.read(split, wanted, capture).is_ok() {
                    return Ok(Shape::Cdx(count as u8));
                }
            }
        }
        Err(wrong.unwrap_or_else(|| what_is_it(split)))
    }
}

/// Why a line does not fit any layout.
fn what_is_it(split: &Split<'_>) -> Bad {
    let count = split.count();
    if count >= 2 && split.get(1).starts_with(b"{") && is_timestamp(split.get(0)) {
        // `timestamp {json}`: a TimeMap, which has no keys.
        let object = &split.line()[split.get(0).len() + 1..];
        return match json::members(object, true, |_, _| Next::More) {
            Ok(()) => Bad::Key,
            Err(_) => Bad::Json,
        };
    }
    // A space in the key of CDXJ: the timestamp comes later, just before the JSON.
    let spaced = (2..count.saturating_sub(1))
        .any(|place| is_timestamp(split.get(place)) && split.get(place + 1).starts_with(b"{"));
    if spaced {
        return Bad::Key;
    }
    if count >= 2 && is_timestamp(split.get(1)) {
        Bad::Columns
    } else if count >= 3 && web::can_be_url(split.get(2)) && split.get(2) != b"-" {
        Bad::Timestamp
    } else {
        Bad::Text
    }
}

/// Decides for `words more {` whether the key or the timestamp is wrong.
fn key_or_timestamp(key: &[u8], timestamp: &[u8]) -> Bad {
    if key.is_empty() || timestamp.is_empty() {
        Bad::Key
    } else {
        Bad::Timestamp
    }
}

/// Fills a capture from the JSON at offset `at` of its line.
#[inline]
fn read_json(
    capture: &mut Capture<'_>,
    at: usize,
    strings: impl Strings,
    wanted: Fields,
    whole: bool,
) -> Result<(), Bad> {
    let object = &capture.line()[at..];
    capture.set_json(at);
    // A truncated line is bad even if all requested fields precede the cut.
    if object.last() != Some(&b'}') && object.trim_ascii_end().last() != Some(&b'}') {
        return Err(Bad::Json);
    }
    if wanted.is_empty() && !whole {
        return Ok(());
    }
    let mut seen = Fields::NONE;
    let (order, mut values) = capture.parts();
    let meaning = Field::of_json;
    let read = json::members_in(object, whole, strings, order, meaning, |field, raw| {
        if let Some(field) = field
            && wanted.contains(field)
        {
            values.set_raw(field, raw);
            seen.insert(field);
            if seen.are_all_of(wanted) {
                return Next::Enough;
            }
        }
        Next::More
    });
    read.map_err(|_| Bad::Json)?;
    check_values(capture, wanted)
}

/// Whether the values that were read can be ones. A number or a status that cannot does not make the URL wrong,
/// as it would in columns: it is noticed only if that is asked for.
#[inline(always)]
fn check_values(capture: &Capture<'_>, wanted: Fields) -> Result<(), Bad> {
    let is_url = match capture.plain(Field::Url) {
        Some(url) => web::can_be_url(url),
        None => capture.url().is_none_or(|url| web::can_be_url(&url)),
    };
    match (is_url, wanted.checks_numbers()) {
        (false, _) => Err(Bad::Url),
        (true, false) => Ok(()),
        (true, true) => check_numbers(capture),
    }
}

fn check_numbers(capture: &Capture<'_>) -> Result<(), Bad> {
    let fine = |field| {
        capture
            .text(field)
            .is_none_or(|value| fits(field, &value).is_ok())
    };
    match (
        fine(Field::Status),
        fine(Field::Length) && fine(Field::Offset),
    ) {
        (true, true) => Ok(()),
        (false, _) => Err(Bad::Status),
        (true, false) => Err(Bad::Number),
    }
}

/// The same for a usual object.
#[inline(always)]
fn read_usual<'a>(
    capture: &mut Capture<'a>,
    object: &'a [u8],
    strings: impl Strings,
    wanted: Fields,
) -> Result<(), Bad> {
    let mut seen = Fields::NONE;
    let (order, mut values) = capture.parts();
    json::usual_members(object, strings, order, Field::of_json, |field, text| {
        if let Some(field) = field
            && wanted.contains(field)
        {
            values.set(field, text);
            seen.insert(field);
        }
        match seen.are_all_of(wanted) {
            true => Next::Enough,
            false => Next::More,
        }
    });
    check_values(capture, wanted)
}

fn read_ndjson<'a>(line: &'a [u8], wanted: Fields, whole: bool, capture: &mut Capture<'a>) -> Read {
    let mut key: Option<Cow<'_, [u8]>> = None;
    let mut timestamp: Option<Cow<'_, [u8]>> = None;
    capture.begin(line, b"", b"");
    capture.set_json(0);
    let read = json::members(line, whole, |name, raw| {
        match name {
            b"urlkey" | b"k" => key = key.take().or_else(|| json::text(raw)),
            b"timestamp" | b"t" => timestamp = timestamp.take().or_else(|| json::text(raw)),
            _ => {
                if let Some(field) = Field::of_json(name)
                    && (wanted.contains(field) || field == Field::Url)
                {
                    capture.set_raw(field, raw);
                }
            }
        }
        Next::More
    });
    if read.is_err() {
        return Read::Bad(Bad::Json);
    }
    // Some servers omit the key; the URL is then used as the key, as with wget.
    let key = key.filter(|key| !key.is_empty());
    let Some(key) = key.or_else(|| capture.url()) else {
        return Read::Bad(Bad::Key);
    };
    let Some(timestamp) = timestamp.filter(|timestamp| is_timestamp(timestamp)) else {
        return Read::Bad(Bad::Timestamp);
    };
    if let Err(kind) = check_values(capture, wanted) {
        return Read::Bad(kind);
    }
    capture.set_key(key);
    capture.set_timestamp(timestamp);
    Read::Capture(Shape::Ndjson)
}

/// `(com,example,)/ 2015-09-03T13:27:52Z response {json}`; `None` for anything else.
fn read_open_wayback<'a>(
    split: &Split<'a>,
    wanted: Fields,
    whole: bool,
    capture: &mut Capture<'a>,
) -> Option<Result<(), Bad>> {
    if split.count() < 4 || !split.get(3).starts_with(b"{") || is_timestamp(split.get(1)) {
        return None;
    }
    let time = Time::parse(split.get(1))?;
    capture.begin(split.line(), split.get(0), split.get(1));
    capture.set_timestamp(Cow::Owned(format!("{:014}", time.digits14()).into_bytes()));
    let at = split.get(0).len() + split.get(1).len() + split.get(2).len() + 3;
    if wanted.wants_columns() {
        capture.push_column("record-type", split.get(2));
    }
    Some(read_json(capture, at, ScalarStrings, wanted, whole))
}

/// The name of the layout: `CDXJ of Common Crawl`, `CDX 11 (N b a m s k r M S V g)`.
impl fmt::Display for FileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shape) = self.shape else {
            return f.write_str("unknown");
        };
        shape.fmt(f)?;
        match (shape, self.columns(), self.tool) {
            (Shape::Cdx(_), Some(columns), _) => {
                if columns.is_wget() {
                    f.write_str(" of wget")?;
                }
                write!(f, " ({})", columns.letters())?;
            }
            (Shape::Cdxj | Shape::Ndjson, _, Some(tool)) => write!(f, " of {tool}")?,
            _ => {}
        }
        match self.keys {
            KeyForm::Surt => Ok(()),
            form => write!(f, ", keys {form}"),
        }
    }
}
