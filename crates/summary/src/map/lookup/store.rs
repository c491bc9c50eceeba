//! A map that answers lookups.
//!
//! The text is memory-mapped, and a [table](super::table) contains the offsets of the rows. The
//! table is read from the file next to the map, or else built when the map is opened. Opening and
//! looking up never write files.

use std::path::Path;
use std::sync::OnceLock;

use tempfile::TempPath;
use waypost_index::timestamp::Time;
use waypost_io::{Compression, LONGEST_LINE, Mapped, Resources, Source, gzip};
use waypost_surt::{Key, Reach, Surt};

use super::build::Tidiness;
use super::find::{Finder, Found, hashed_keys};
use super::table::{self, Table};
use crate::about::{About, By};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::frequency::Frequency;
use crate::lookup::Lookup;
use crate::map::filtered::{Companion, identity_in};
use crate::map::tree::row::Row;
use crate::map::tree::rows::key_fields;
use crate::map::tree::tidy::{joined, joined_filter, tidied};
use crate::preference::{Preference, Share};
use crate::summary::{Answer, Kind, Match, Presence, Size, Summary, in_chunks};
use crate::ukvs::{Headers, Line, RowSum, Wholeness};

/// An open map.
#[derive(Debug)]
pub struct Map {
    text: Mapped,
    table: Table,
    keys: usize,
    headers: Headers,
    about: About,
    file_bytes: u64,
    gzip_bytes: OnceLock<u64>,
    /// The companion filter, if rows have filters and they are not ignored.
    companion: Option<Companion>,
    /// Whether rows have times.
    times: bool,
    wholeness: Wholeness,
    _temporary: Option<TempPath>,
}

impl Map {
    /// Opens a map, plain or compressed, sorted or not, and its companion if rows have filters.
    ///
    /// # Errors
    /// If it can't be read, a line is malformed, or the companion is missing, damaged or belongs to
    /// another map.
    pub fn open(path: &Path, room: &Resources) -> Result<Map> {
        Map::of(&Source::new(path), room)
    }

    /// Reads a map from a source, and opens its companion if rows have filters.
    ///
    /// # Errors
    /// Like [`open`](Map::open).
    pub fn of(source: &Source, room: &Resources) -> Result<Map> {
        match Map::with_companion(source, room) {
            // The map may have just been replaced and the old companion removed: try once more, with
            // the new one.
            Err(error) if matches!(error.kind(), ErrorKind::Companion(_)) && !source.is_stdin() => {
                Map::with_companion(&Source::new(source.path()), room)
            }
            opened => opened,
        }
    }

    fn with_companion(source: &Source, room: &Resources) -> Result<Map> {
        let mut map = Map::rows_of(source, room)?;
        if map.widths() != 0 {
            let (path, dialect) = (source.path(), map.about.dialect);
            map.companion = Some(Companion::open(path, &map.headers, dialect, map.widths())?);
        }
        Ok(map)
    }

    /// Opens only the rows of a map: whatever a row covers is present, whether it has a filter or
    /// not.
    ///
    /// # Errors
    /// If it can't be read, or a line is malformed.
    pub fn open_rows(path: &Path, room: &Resources) -> Result<Map> {
        Map::rows_of(&Source::new(path), room)
    }

    /// Reads only the rows of a map from a source.
    ///
    /// # Errors
    /// Like [`open_rows`](Map::open_rows).
    pub fn rows_of(source: &Source, room: &Resources) -> Result<Map> {
        let path = source.path();
        let name = |error: Error| error.in_file(source);
        let bytes = |text: &Mapped| source.size().unwrap_or(text.len() as u64);
        crate::map::tree::rows::check_kind(source)?;
        // A pipe can be read only once, and can't be mapped.
        source.keep(&room.temporary)?;
        let plain = source.open()?.compression() == Compression::Plain;
        if plain {
            let text = Mapped::of(source)?;
            if let Some(table) = table::load(path, &text)? {
                let bytes = bytes(&text);
                return Map::new(text, table, bytes, None).map_err(name);
            }
            if let Some(table) = table_of(&text, Tidiness::Check, room).map_err(name)? {
                let bytes = bytes(&text);
                return Map::new(text, table, bytes, None).map_err(name);
            }
        }
        let tidy = tidied(source, room)?;
        let text = Mapped::open(&tidy)?;
        let table = table_of(&text, Tidiness::Known, room)
            .and_then(|table| table.ok_or_else(|| Error::new(ErrorKind::Untidy)))
            .map_err(name)?;
        let bytes = bytes(&text);
        Map::new(text, table, bytes, Some(tidy)).map_err(name)
    }

    /// Opens a map from its text: a `Vec<u8>`, an `Arc<[u8]>` or a [`Mapped`] file. If rows have
    /// filters, they are ignored until [`with_filter`](Map::with_filter) adds them.
    ///
    /// ```
    /// use waypost_summary::map::Map;
    /// use waypost_summary::{Lookup, Presence, Summary};
    ///
    /// let map = Map::from_bytes(b"com,example)/* 12/3\ncom,example)/b 0\n".to_vec())?;
    /// let mut buffer = Vec::new();
    /// let lookup = Lookup::of_surt(b"com,example)/a", &mut buffer);
    /// assert_eq!(map.lookup(&lookup)?.presence(), Presence::Present);
    /// # Ok::<(), waypost_summary::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a line is malformed, or rows are not in order.
    pub fn from_bytes(text: impl Into<Mapped>) -> Result<Map> {
        let text = text.into();
        let table = table_of(&text, Tidiness::Check, &Resources::default())?;
        let table = table.ok_or_else(|| Error::new(ErrorKind::Untidy))?;
        let bytes = text.len() as u64;
        Map::new(text, table, bytes, None)
    }

    /// Adds the filter of a map whose rows have filters.
    ///
    /// # Errors
    /// If it is damaged, or the filter of another map.
    pub fn with_filter(mut self, filter: Filter) -> Result<Map> {
        let (dialect, widths) = (self.about.dialect, self.widths());
        let Some(identity) = identity_in(&self.headers) else {
            return Err(Error::companion(
                "the headers of the map name no filter".to_owned(),
            ));
        };
        self.companion = Some(Companion::new(filter, identity, dialect, widths)?);
        Ok(self)
    }

    fn new(
        text: Mapped,
        table: Table,
        file_bytes: u64,
        temporary: Option<TempPath>,
    ) -> Result<Map> {
        let headers = headers_of(&text)?;
        let about = About::from_headers(&headers)?;
        let second = crate::map::tree::rows::second_key(&headers)?;
        let times = matches!(about.by, Some(By::Year | By::Month));
        // A table from a file was not made of rows that its headers do not describe.
        let wholeness = match RowSum::of(&headers) {
            Some(_) => Wholeness::Whole,
            None => table.wholeness,
        };
        Ok(Map {
            wholeness,
            keys: key_fields(&headers)?,
            times: times || second.as_deref() == Some("datetime"),
            about,
            headers,
            file_bytes,
            text,
            table,
            gzip_bytes: OnceLock::new(),
            companion: None,
            _temporary: temporary,
        })
    }

    /// The headers.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Finds the row that decides a SURT in the map's spelling; at a time, if one is given and the
    /// map has times. For many lookups, a [`Finder`] is faster.
    pub(crate) fn find(&self, surt: &Surt<'_>, at: Option<&Span>) -> Option<Found<'_>> {
        Finder::new(self).find_surt(surt, at)
    }

    /// Checks that the map, its table and its filter were intact during the lookups so far. Call it
    /// after finding and confirming rows and before returning answers: in a truncated file, a held
    /// URI would be called absent.
    ///
    /// # Errors
    /// If the file was truncated while it was in use.
    pub fn check_intact(&self) -> Result<()> {
        self.text.check()?;
        self.table.check_intact()?;
        match &self.companion {
            Some(companion) => companion.check_intact(),
            None => Ok(()),
        }
    }

    /// The text and the offsets of its rows.
    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The widths of filters in the rows, as a bit set.
    pub(crate) fn widths(&self) -> u32 {
        self.table.widths()
    }

    /// The size of the companion in bytes and its number of URI-Rs, if there is one.
    pub fn companion(&self) -> Option<(u64, u64)> {
        let companion = self.companion.as_ref()?;
        Some((companion.length(), companion.keys()))
    }

    /// Whether the row found for a SURT calls it present. It does not if it is a void, or if its
    /// filter does not contain the SURT.
    ///
    /// # Errors
    /// If the filter can't be read.
    pub fn confirms(&self, found: &Found<'_>, surt: &Surt<'_>) -> Result<bool> {
        if found.frequency.is_void() {
            return Ok(false);
        }
        match (found.filter, &self.companion) {
            (Some(width), Some(companion)) => companion.contains(width, surt),
            _ => Ok(true),
        }
    }

    /// The answer to a lookup for which a [`Finder`] found this row or nothing.
    ///
    /// # Errors
    /// If the companion can't be read.
    pub fn presence(&self, lookup: &Lookup<'_>, found: Option<&Found<'_>>) -> Result<Presence> {
        let frequency = match found {
            Some(found) if self.confirms(found, lookup.surt())? => Some(found.frequency),
            Some(found) if found.frequency.is_void() => {
                return Ok(self.about.scopes.limit_void(lookup, &found.key).presence());
            }
            _ => None,
        };
        let answer = Answer::without_key(frequency);
        Ok(self.about.scopes.limit(lookup, answer).presence())
    }

    /// Whether rows have times, so that times can be looked up.
    pub fn has_times(&self) -> bool {
        self.times
    }

    /// Whether the map calls a SURT present.
    #[cfg(test)]
    pub(crate) fn is_present(&self, surt: &Surt<'_>) -> Result<bool> {
        let present = match self.find(surt, None) {
            Some(found) => self.confirms(&found, surt)?,
            None => false,
        };
        self.check_intact()?;
        Ok(present)
    }

    /// Whether something is held at or below the node of a wildcard key: by a row there, or by a
    /// wildcard above it that no void overrides.
    pub(crate) fn holds_at_or_below(&self, key: &Key<'_>) -> bool {
        // A key below the node that has no row: its answer is that of everything without a row.
        let mut below = key.stem().to_vec();
        below.extend_from_slice(match key.reach() {
            Reach::All => b"\x01)",
            Reach::Hosts => b",\x01)",
            _ => b"/\x01",
        });
        let said = self.find(&Surt::new(&below), None);
        if said.is_some_and(|found| !found.frequency.is_void()) {
            return true;
        }
        // Rows below the node are contiguous; binary search finds the first.
        let text: &[u8] = &self.text;
        let (mut low, mut high) = (0, text.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let start = memchr::memrchr(b'\n', &text[..middle]).map_or(0, |at| at + 1);
            let line = line_at(&text[start..]);
            let header = matches!(line.first(), None | Some(b'!' | b'@'));
            if header || line < key.stem() {
                low = (start + line.len() + 1).min(text.len()).max(middle + 1);
            } else {
                high = start;
            }
        }
        let mut at = low.min(text.len());
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let line = line_at(rest);
            if !line.starts_with(key.stem()) {
                return false;
            }
            if let Ok(row) = Row::parse(line, self.keys)
                && !row.frequency.is_void()
                && (key.reach() == Reach::All || covers(key, &Key::new(&row.key)))
            {
                return true;
            }
            at += line.len() + 1;
        }
        false
    }

    /// Whether the row at this offset has this key.
    #[inline]
    pub(crate) fn is_key(&self, offset: usize, stem: &[u8], reach: Reach) -> bool {
        let Some(line) = self.text.get(offset..) else {
            return false;
        };
        if let Some(rest) = line.strip_prefix(stem) {
            let suffix: &[u8] = match reach {
                Reach::Exact => b" ",
                Reach::Paths => b"/* ",
                Reach::Hosts => b",* ",
                Reach::All => b"* ",
            };
            if rest.starts_with(suffix) || (reach == Reach::Exact && rest.starts_with(b"/ ")) {
                return true;
            }
        }
        let Ok(row) = Row::parse(line_at(line), self.keys) else {
            return false;
        };
        let key = Key::new(&row.key);
        key.stem() == stem && key.reach() == reach
    }

    /// The combined frequency of the rows at this offset. `None` if no row matches the time.
    pub(crate) fn row(&self, offset: usize, at: Option<&Span>) -> Option<Found<'_>> {
        let first = Row::parse(line_at(self.text.get(offset..)?), self.keys).ok()?;
        if self.keys == 1 {
            return Some(Found {
                key: first.key,
                frequency: first.frequency,
                filter: first.filter,
            });
        }
        let mut found: Option<(Frequency, Option<u8>)> = None;
        self.each_row(offset, |row| {
            let second = row.second.as_deref().unwrap_or(b":");
            if at.is_none_or(|at| at.meets(second)) {
                let said = (row.frequency, row.filter);
                found = Some(match found {
                    Some(sum) => (joined(sum.0, said.0), joined_filter(sum, said)),
                    None => said,
                });
            }
        });
        let (frequency, filter) = found?;
        Some(Found {
            key: first.key,
            frequency,
            filter,
        })
    }
}

impl Map {
    /// Where the rows of all keys begin that match a lookup, the most specific last.
    fn offsets_of(&self, lookup: &Lookup<'_>) -> Vec<usize> {
        let surt = lookup.surt();
        match lookup.hashes() {
            Some(hashes) => self.offsets(surt, &hashes.keys).collect(),
            None => self.offsets(surt, &hashed_keys(surt)).collect(),
        }
    }

    /// Passes on the rows with the key of the row at this offset, which are adjacent.
    fn each_row(&self, offset: usize, mut take: impl FnMut(&Row<'_>)) {
        let mut start = offset;
        let mut key: Option<Vec<u8>> = None;
        while let Some(rest) = self.text.get(start..) {
            let line = line_at(rest);
            let Ok(row) = Row::parse(line, self.keys) else {
                break;
            };
            if *key.get_or_insert_with(|| row.key.to_vec()) != *row.key {
                break;
            }
            take(&row);
            start += line.len() + 1;
        }
    }
}

/// Whether a key is at or below the node of a wildcard.
fn covers(wildcard: &Key<'_>, key: &Key<'_>) -> bool {
    let Some(below) = key.stem().strip_prefix(wildcard.stem()) else {
        return false;
    };
    match wildcard.reach() {
        Reach::All => true,
        Reach::Hosts => matches!(below.first(), None | Some(b',' | b':' | b')')),
        _ => matches!(below.first(), None | Some(b'/' | b'?')) || wildcard.stem().ends_with(b")"),
    }
}

/// Builds the table of a text. `None` if the text is not tidy.
fn table_of(text: &Mapped, order: Tidiness, room: &Resources) -> Result<Option<Table>> {
    let keys = key_fields(&headers_of(text)?)?;
    Table::build(text, keys, order, room)
}

fn line_at(text: &[u8]) -> &[u8] {
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The headers before the first row, and those after rows if the text does not start with headers.
pub(super) fn headers_of(text: &[u8]) -> Result<Headers> {
    let mut headers = Headers::default();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if line.len() > LONGEST_LINE {
            let error = waypost_io::Error::line_too_long(LONGEST_LINE);
            return Err(error.at_line(number as u64 + 1).into());
        }
        match line.first() {
            None | Some(b'!' | b'@' | b' ' | b'\t' | b'\r') => {}
            Some(_) => break,
        }
        match Line::parse(line).map_err(|error| error.at_line(number as u64 + 1))? {
            Line::Header(header) => headers
                .read(header)
                .map_err(|error| error.at_line(number as u64 + 1))?,
            Line::Blank => {}
            Line::Row(_) => break,
        }
    }
    Ok(headers)
}

/// A time span: `2012`, `2012:2014`, `:2014`, `2012:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    from: Option<Time>,
    to: Option<Time>,
}

impl Span {
    /// Parses a time span. `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Span> {
        let first = |digits: &[u8]| (!digits.is_empty()).then(|| Time::first_of(digits));
        let last = |digits: &[u8]| (!digits.is_empty()).then(|| Time::last_of(digits));
        let (from, to) = match memchr::memchr(b':', text) {
            Some(colon) => (first(&text[..colon]), last(&text[colon + 1..])),
            None if text.is_empty() => return None,
            None => (first(text), last(text)),
        };
        if from == Some(None) || to == Some(None) {
            return None;
        }
        Some(Span {
            from: from.flatten(),
            to: to.flatten(),
        })
    }

    /// The start, if any.
    pub fn from(&self) -> Option<Time> {
        self.from
    }

    /// The end, if any.
    pub fn to(&self) -> Option<Time> {
        self.to
    }

    /// From one time to another.
    pub(crate) fn of(from: Option<Time>, to: Option<Time>) -> Span {
        Span { from, to }
    }

    /// How many seconds a time is away from this time span; 0 if it is within.
    pub(crate) fn distance(&self, at: Time) -> u64 {
        let between = |early: Time, late: Time| {
            let seconds = late.unix().saturating_sub(early.unix());
            u64::try_from(seconds).unwrap_or(0)
        };
        let before = self.from.map_or(0, |from| between(at, from));
        before.max(self.to.map_or(0, |to| between(to, at)))
    }

    /// Whether a row's second key overlaps this time span. A second key that is not a time, such as
    /// a language, matches all times.
    fn meets(&self, second: &[u8]) -> bool {
        let Some(other) = Span::parse(second) else {
            return true;
        };
        let before = |to: Option<Time>, from: Option<Time>| matches!((to, from), (Some(to), Some(from)) if to < from);
        !before(self.to, other.from) && !before(other.to, self.from)
    }
}

impl Summary for Map {
    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn has_whole_uris(&self) -> bool {
        self.companion.is_some()
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        let gzip_bytes = *self.gzip_bytes.get_or_init(|| gzip::size(&self.text));
        // The bits of a filter are essentially random, so gzip does not shrink them.
        let (filter, _) = self.companion().unwrap_or_default();
        Size {
            keys: self.table.rows(),
            bytes: self.file_bytes + filter,
            gzip_bytes: gzip_bytes + filter,
        }
    }

    fn wholeness(&self) -> Wholeness {
        self.wholeness
    }

    fn set_private(&self) {
        self.text.set_private();
        self.table.set_private();
        if let Some(companion) = &self.companion {
            companion.set_private();
        }
    }

    fn share(&self, lookup: &Lookup<'_>, preference: &Preference) -> Result<Option<f64>> {
        let Some(by) = self
            .about
            .by
            .filter(|by| preference.likes(*by, b"").is_some())
        else {
            return Ok(None);
        };
        let mut share = Share::default();
        // The last is that of the most specific key.
        if let Some(offset) = self.offsets_of(lookup).last() {
            self.each_row(*offset, |row| {
                let second = row.second.as_deref().unwrap_or_default();
                let captures = row.frequency.captures.map(|captures| captures.value);
                share.add(captures, preference.likes(by, second) == Some(true));
            });
        }
        self.check_intact()?;
        Ok(share.get())
    }

    fn distance(&self, lookup: &Lookup<'_>, at: Time) -> Result<u64> {
        let whole = self.about.distance(at);
        if !self.times || !self.about.scopes.is_everything() {
            return Ok(whole);
        }
        let mut nearest: Option<u64> = None;
        // Whatever row decides at that time, it has one of these keys.
        for offset in self.offsets_of(lookup) {
            self.each_row(offset, |row| {
                let span = row.second.as_deref().and_then(Span::parse);
                let distance = span.map_or(0, |span| span.distance(at));
                if !row.frequency.is_void() {
                    nearest = Some(nearest.map_or(distance, |known| known.min(distance)));
                }
            });
        }
        self.check_intact()?;
        Ok(whole.max(nearest.unwrap_or(0)))
    }

    fn prefetch(&self, lookup: &Lookup<'_>) {
        if let Some(hashes) = lookup.hashes() {
            self.prefetch_hashed(&hashes.keys);
        }
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer> {
        let found = match lookup.hashes() {
            Some(hashes) => self.find_hashed(lookup.surt(), &hashes.keys),
            None => self.find(lookup.surt(), None),
        };
        let answer = match found {
            Some(found) if self.confirms(&found, lookup.surt())? => Answer::Present(Match {
                key: Some(found.key.into_owned()),
                frequency: found.frequency,
            }),
            Some(found) if found.frequency.is_void() => {
                let answer = self.about.scopes.limit_void(lookup, &found.key);
                self.check_intact()?;
                return Ok(answer);
            }
            _ => Answer::Absent,
        };
        self.check_intact()?;
        Ok(self.about.scopes.limit(lookup, answer))
    }

    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        in_chunks(lookups, |lookups, answers| {
            let mut found = Vec::with_capacity(lookups.len());
            Finder::new(self).find_all(lookups, None, |row| found.push(row));
            for (found, lookup) in found.into_iter().zip(lookups) {
                let frequency = match found {
                    Some(found) if self.confirms(&found, lookup.surt())? => Some(found.frequency),
                    Some(found) if found.frequency.is_void() => {
                        answers.push(self.about.scopes.limit_void(lookup, &found.key));
                        continue;
                    }
                    _ => None,
                };
                let answer = Answer::without_key(frequency);
                answers.push(self.about.scopes.limit(lookup, answer));
            }
            self.check_intact()
        })
    }
}
