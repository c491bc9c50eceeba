//! Reading the rows of a map file in sequence, checking their order.
//!
//! Every pass over a map needs tidy rows: sorted by the bytes of their keys, without duplicates,
//! with keys in canonical form and without queries. Maps written by Waypost are tidy. Any other map
//! is detected in the first pass and [tidied](super::tidy) before the next.

use std::cmp::Ordering;
use std::io::Read;

use waypost_index::kind::{self, FileKind};
use waypost_io::lines::common_prefix;
use waypost_io::{Lines, Progress, Source, Stream};
use waypost_surt::Key;

use super::row::{Row, tidy_key};
use crate::error::{Error, ErrorKind, Result};
use crate::ukvs::{CaptureSum, Headers, Line, RowSum, Value, Wholeness};

/// What to do about rows that are not tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Report them: [`Rows::is_tidy`].
    Watch,
    /// Ignore it.
    Any,
}

/// Rejects files of other kinds: they have lines, too, whose numbers would be taken for
/// frequencies.
pub(crate) fn check_kind(source: &Source) -> Result<()> {
    match kind::detect(source)?.kind {
        FileKind::Empty | FileKind::List | FileKind::Summary | FileKind::Text => Ok(()),
        other => Err(other.instead_of("a map").in_file(source).into()),
    }
}

/// Reads rows.
pub(crate) struct Rows<R = Stream> {
    lines: Lines<R>,
    name: String,
    headers: Headers,
    keys: usize,
    order: Order,
    /// Whether the first row was already read, along with the headers.
    waiting: bool,
    last: Vec<u8>,
    last_second: Vec<u8>,
    /// Whether the last key has neither white space nor a query.
    last_is_plain: bool,
    any: bool,
    untidy: Option<Untidy>,
    sums: RowSums,
    /// Whether these are the rows of a piece, with the others elsewhere.
    is_piece: bool,
}

/// What rows add up to, to be compared with the headers of their map.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowSums {
    lines: RowSum,
    captures: CaptureSum,
}

impl RowSums {
    /// Adds a row.
    #[inline]
    pub(crate) fn add(&mut self, line: &[u8], row: &Row<'_>) {
        self.lines.add(line);
        self.captures.add(row);
    }

    pub(crate) fn merge(&mut self, other: &RowSums) {
        self.lines.merge(&other.lines);
        self.captures.merge(&other.captures);
    }

    /// Checks that these are all rows of the map with these headers.
    ///
    /// # Errors
    /// If rows are missing.
    pub(crate) fn check(&self, headers: &Headers) -> Result<Wholeness> {
        match self.lines.check(headers)? {
            Wholeness::Unknown => self.captures.check(headers),
            Wholeness::Whole => Ok(Wholeness::Whole),
        }
    }
}

/// The first row that is not tidy.
#[derive(Clone, Debug)]
pub(crate) struct Untidy {
    pub(crate) line: u64,
    pub(crate) why: Why,
    pub(crate) before: Vec<u8>,
    pub(crate) here: Vec<u8>,
}

/// Why a row is not tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its key is less than the one before.
    Order,
    /// Its key is a duplicate.
    Twice,
    /// Its key is not in canonical form, or has a query.
    Spelling,
}

impl Rows {
    /// Reads the headers.
    pub(crate) fn open(source: &Source, order: Order) -> Result<Rows> {
        Rows::reporting_to(None, source, order)
    }

    /// The same, and reports the bytes read.
    pub(crate) fn reporting_to(
        progress: Option<&Progress>,
        source: &Source,
        order: Order,
    ) -> Result<Rows> {
        check_kind(source)?;
        let mut stream = source.open()?;
        if let Some(progress) = progress {
            stream = stream.reporting_to(progress);
        }
        Rows::of_lines(Lines::new(stream.text()), &source.to_string(), order)
    }
}

impl Rows<std::io::Empty> {
    /// Reads the headers of a piece of a text.
    pub(crate) fn of_text(text: Vec<u8>, name: &str, order: Order) -> Result<Rows<std::io::Empty>> {
        let mut rows = Rows::of_lines(Lines::of_text(text), name, order)?;
        rows.is_piece = true;
        Ok(rows)
    }
}

impl<R: Read> Rows<R> {
    fn of_lines(lines: Lines<R>, name: &str, order: Order) -> Result<Rows<R>> {
        let mut rows = Rows {
            lines,
            name: name.to_owned(),
            headers: Headers::default(),
            keys: 1,
            order,
            waiting: false,
            last: Vec::new(),
            last_second: Vec::new(),
            last_is_plain: false,
            any: false,
            untidy: None,
            sums: RowSums::default(),
            is_piece: false,
        };
        rows.waiting = rows.advance()?;
        rows.keys = key_fields(&rows.headers).map_err(|error| error.in_file(name))?;
        Ok(rows)
    }

    /// The buffer of the lines.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.lines.into_buffer()
    }

    /// The headers read so far.
    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The number of key fields in a row: 1 or 2.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// The line number of the current row.
    pub(crate) fn line_number(&self) -> u64 {
        self.lines.number()
    }

    /// The first row that is not tidy, if any.
    pub(crate) fn untidy(&self) -> Option<&Untidy> {
        self.untidy.as_ref()
    }

    /// What the rows read so far add up to.
    pub(crate) fn sums(&self) -> RowSums {
        self.sums
    }

    /// Whether the rows read so far are all.
    ///
    /// # Errors
    /// If rows are missing.
    pub(crate) fn wholeness(&self) -> Result<Wholeness> {
        let checked = self.sums.check(&self.headers);
        checked.map_err(|error| error.in_file(&self.name))
    }

    /// The next row.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(self.next_after_last()?.map(|(row, _)| row))
    }

    /// The next row, and the length of the prefix that its key shares with the one before. Keys are
    /// compared only if the order is checked.
    #[inline]
    pub(crate) fn next_after_last(&mut self) -> Result<Option<(Row<'_>, usize)>> {
        if !std::mem::take(&mut self.waiting) && !self.advance()? {
            if !self.is_piece {
                self.wholeness()?;
            }
            return Ok(None);
        }
        let line = self.lines.line();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Bytes shared with a plain key are plain, and need no second check.
        let known = match self.last_is_plain {
            true => common_prefix(line, &self.last),
            false => 0,
        };
        let (row, is_plain) = Row::parse_from(line, self.keys, known)
            .map_err(|error| error.in_file(&self.name).at_line(self.lines.number()))?;
        self.sums.add(line, &row);
        if self.order == Order::Watch && self.untidy.is_none() {
            let known = if is_plain { known } else { 0 };
            let ascends = !self.any
                || match order(&row.key[known..], &self.last[known..]) {
                    Ordering::Greater => true,
                    Ordering::Less => false,
                    Ordering::Equal => {
                        let second = row.second.as_deref();
                        second.is_some_and(|second| second > &self.last_second[..])
                    }
                };
            if !ascends || !is_tidy_plain(&row, is_plain) {
                let second = row.second.as_deref().unwrap_or_default();
                let why = if ascends {
                    Why::Spelling
                } else if row.key.as_ref() == self.last && second == self.last_second {
                    Why::Twice
                } else {
                    Why::Order
                };
                self.untidy = Some(Untidy {
                    line: self.lines.number(),
                    why,
                    before: self.last.clone(),
                    here: row.key.to_vec(),
                });
            }
            self.any = true;
            self.last.truncate(known);
            self.last.extend_from_slice(&row.key[known..]);
            self.last_is_plain = is_plain;
            if let Some(second) = &row.second {
                self.last_second.clear();
                self.last_second.extend_from_slice(second);
            }
            return Ok(Some((row, known)));
        }
        self.last_is_plain = false;
        Ok(Some((row, 0)))
    }

    /// Advances to the next row, collecting headers.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        loop {
            let advanced = self.lines.advance();
            if !advanced.map_err(|error| error.in_file(&self.name))? {
                return Ok(false);
            }
            match self.lines.line().first() {
                Some(b' ' | b'\t' | b'\r' | b'!' | b'@') | None => {
                    if self.take_odd_line()? {
                        return Ok(true);
                    }
                }
                Some(_) => return Ok(true),
            }
        }
    }

    /// Handles a header or an empty line. `true` if the line is a row.
    #[cold]
    fn take_odd_line(&mut self) -> Result<bool> {
        let number = self.lines.number();
        let line = Line::parse(self.lines.line());
        match line.map_err(|error| error.in_file(&self.name).at_line(number))? {
            Line::Blank => Ok(false),
            Line::Header(header) => {
                self.headers
                    .read(header)
                    .map_err(|error| error.in_file(&self.name).at_line(number))?;
                Ok(false)
            }
            Line::Row(_) => Ok(true),
        }
    }
}

/// The order of two texts, which differs at the first byte for most.
#[inline]
fn order(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first(), b.first()) {
        (Some(a), Some(b)) if a != b => a.cmp(b),
        _ => a.cmp(b),
    }
}

/// The number of key fields according to the headers: `!fields {keys: […]}` or `!keys […]`.
pub(crate) fn key_fields(headers: &Headers) -> Result<usize> {
    Ok(1 + usize::from(second_key(headers)?.is_some()))
}

/// The name of the second key in the headers, if any.
pub(crate) fn second_key(headers: &Headers) -> Result<Option<String>> {
    let fields = headers.get("fields");
    let keys = fields
        .as_ref()
        .and_then(|fields| fields.get("keys").cloned())
        .or_else(|| headers.get("keys"));
    let Some(Value::List(keys)) = keys else {
        return Ok(None);
    };
    match &keys[..] {
        [] | [_] => Ok(None),
        [_, second] => Ok(Some(second.as_text().unwrap_or("second").to_owned())),
        more => Err(Error::format(format!(
            "maps have one or two keys a row, but here are {}",
            more.len()
        ))),
    }
}

/// Whether a key is in canonical form and has no query, unless it is a void.
#[inline]
pub(crate) fn is_tidy(row: &Row<'_>) -> bool {
    is_tidy_plain(row, memchr::memchr(b'?', &row.key).is_none())
}

/// The same for a key that is known to have no query if it is plain.
#[inline]
fn is_tidy_plain(row: &Row<'_>, plain: bool) -> bool {
    let key = row.key.as_ref();
    let usual = match key {
        [.., b')', b'/'] => plain && is_root(key),
        [.., b'/' | b')' | b'*'] => false,
        [] => false,
        _ => plain,
    };
    usual || is_tidy_slowly(row)
}

/// Whether a key that ends with `)/` is the root of a host. `uk,gov,*)/` is read as `uk,gov,*`.
#[inline]
pub(crate) fn is_root(key: &[u8]) -> bool {
    memchr::memchr2(b')', b'/', key) == Some(key.len() - 2) && !key.ends_with(b",*)/")
}

fn is_tidy_slowly(row: &Row<'_>) -> bool {
    let mut tidy = Vec::with_capacity(row.key.len() + 1);
    let key = Key::new(&row.key);
    if is_void_of_query(&key, row) {
        return true;
    }
    tidy_key(&row.key, &mut tidy);
    tidy == row.key.as_ref()
}

/// Voids of single queries are kept as they are: without the query they would cover more.
pub(crate) fn is_void_of_query(key: &Key<'_>, row: &Row<'_>) -> bool {
    row.frequency.is_void() && waypost_surt::Surt::new(key.stem()).query().is_some()
}

impl Untidy {
    /// Converts it into an error.
    pub(crate) fn error(&self, source: &Source) -> Error {
        let text = |bytes: &[u8]| waypost_index::rejects::printable(bytes);
        Error::new(ErrorKind::NotSorted {
            before: text(&self.before),
            here: text(&self.here),
        })
        .in_file(source)
        .at_line(self.line)
    }
}
