//! Turning rows in any order, possibly with duplicate keys, into a tidy map.
//!
//! Rows are written as lines whose bytes sort like their keys, sorted within the memory limit, and
//! the rows of each key are added up: what any of them calls present stays present.

use std::io::{BufWriter, Write};
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};
use waypost_io::{Format, LONGEST_LINE, LineWriter, Lines, Resources, Source, sort, temporary};
use waypost_surt::Key;

use super::row::{self, Row, tidy_key};
use super::rows::{Order, Rows, is_void_of_query};
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::ukvs::push_digits;

/// Lines to be sorted.
pub(crate) struct Spool {
    file: BufWriter<NamedTempFile>,
    room: Resources,
    line: Vec<u8>,
    last: Vec<u8>,
    in_order: bool,
}

impl Spool {
    pub(crate) fn new(room: &Resources) -> Result<Spool> {
        let file = temporary::file_in(&room.temporary)?;
        Ok(Spool {
            file: BufWriter::with_capacity(1 << 18, file),
            room: room.clone(),
            line: Vec::new(),
            last: Vec::new(),
            in_order: true,
        })
    }

    /// Adds lines that [`push_head`] started, in any order.
    pub(crate) fn push_lines(&mut self, lines: &[u8], in_order: bool) -> Result<()> {
        self.in_order &= in_order;
        self.file
            .write_all(lines)
            .map_err(|source| Error::io("write", &self.room.temporary, source))
    }

    /// Adds a row.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        second: Option<&[u8]>,
        frequency: &Frequency,
        filter: Option<u8>,
    ) -> Result<()> {
        self.line.clear();
        push_head(key, second.unwrap_or_default(), &mut self.line);
        row::write_frequency(frequency, &mut self.line);
        if let Some(width) = filter {
            self.line.push(b' ');
            push_digits(u64::from(width), &mut self.line);
        }
        if self.in_order {
            self.in_order = self.last <= self.line;
            std::mem::swap(&mut self.last, &mut self.line);
            return self.write_last();
        }
        self.line.push(b'\n');
        self.file
            .write_all(&self.line)
            .map_err(|source| Error::io("write", &self.room.temporary, source))
    }

    fn write_last(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.last);
        written
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(|source| Error::io("write", &self.room.temporary, source))
    }

    /// Sorts the lines, if necessary. The rows are returned in order, with rows of the same key
    /// adjacent.
    pub(crate) fn finish(self) -> Result<Spooled> {
        let folder = self.room.temporary.clone();
        let failed = |source| Error::io("write", &folder, source);
        let mut written = self
            .file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?
            .into_temp_path();
        if !self.in_order {
            let sorted = temporary::file_in(&self.room.temporary)?.into_temp_path();
            let mut out = LineWriter::create(&sorted, &Format::Plain, 1)?;
            let options = sort::Options {
                resources: self.room,
                ..sort::Options::default()
            };
            sort::sort(&[Source::new(written.to_path_buf())], &options, &mut out)?;
            out.finish()?;
            written = sorted;
        }
        let source = Source::new(written.to_path_buf());
        Ok(Spooled {
            lines: Lines::new(source.open()?),
            size: source.size().unwrap_or(0),
            _file: written,
            key: Vec::new(),
            second: Vec::new(),
            frequency: Frequency::default(),
            filter: None,
            waiting: false,
        })
    }
}

/// Sorted rows, with those of the same key added up.
pub(crate) struct Spooled {
    lines: Lines<waypost_io::Stream>,
    _file: TempPath,
    size: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) second: Vec<u8>,
    pub(crate) frequency: Frequency,
    pub(crate) filter: Option<u8>,
    waiting: bool,
}

impl Spooled {
    /// The number of bytes of all lines.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Advances to the next key. `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if !self.waiting && !self.lines.advance()? {
            return Ok(false);
        }
        let head = head_of(self.lines.line()).to_vec();
        (self.frequency, self.filter) = said_in(self.lines.line())?;
        self.key.clear();
        self.second.clear();
        let middle = memchr::memchr(END, &head).unwrap_or(head.len());
        unescape(&head[..middle], &mut self.key);
        unescape(head.get(middle + 1..).unwrap_or_default(), &mut self.second);
        loop {
            self.waiting = self.lines.advance()?;
            if !self.waiting || head_of(self.lines.line()) != head {
                return Ok(true);
            }
            let (more, filter) = said_in(self.lines.line())?;
            self.filter = joined_filter((self.frequency, self.filter), (more, filter));
            self.frequency = joined(self.frequency, more);
        }
    }

    /// The second key, if there is one.
    pub(crate) fn second(&self) -> Option<&[u8]> {
        (!self.second.is_empty()).then_some(&self.second[..])
    }
}

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

/// Appends the part of a line before the frequency.
#[inline]
pub(crate) fn push_head(key: &[u8], second: &[u8], out: &mut Vec<u8>) {
    escape(key, out);
    out.push(END);
    escape(second, out);
    out.push(END);
}

/// Terminates the key in a line. Less than every byte of an escaped key.
const END: u8 = 1;
const ESCAPE: u8 = 2;

/// Escapes bytes that lines can't contain, without changing the order.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().all(|&byte| byte > b'\n') {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        if byte > b'\n' {
            out.push(byte);
        } else {
            out.extend_from_slice(&[ESCAPE, byte + 0x20]);
        }
    }
}

fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            ESCAPE => out.extend(bytes.next().map(|byte| byte.wrapping_sub(0x20))),
            _ => out.push(byte),
        }
    }
}

fn head_of(line: &[u8]) -> &[u8] {
    &line[..memchr::memrchr(END, line).unwrap_or(0)]
}

fn said_in(line: &[u8]) -> Result<(Frequency, Option<u8>)> {
    let at = memchr::memrchr(END, line).map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&line[at..]);
    let changed = || Error::format("a temporary file was changed while it was in use");
    let (frequency, filter) = match text.split_once(' ') {
        Some((frequency, width)) => (frequency, Some(width.parse().map_err(|_| changed())?)),
        None => (&text[..], None),
    };
    Ok((frequency.parse().map_err(|_| changed())?, filter))
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
    write_spooled(spool.finish()?, keys, &head, &out)?;
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

/// Writes headers and rows.
pub(crate) fn write_spooled(
    mut rows: Spooled,
    keys: usize,
    head: &[u8],
    path: &Path,
) -> Result<u64> {
    let mut out = LineWriter::create(path, &Format::of_name(path), 1)?;
    for line in head
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        out.push(line)?;
    }
    let mut line = Vec::new();
    let mut count = 0;
    while rows.advance()? {
        line.clear();
        let second = rows.second().or((keys > 1).then_some(&b"-"[..]));
        row::write(&rows.key, second, &rows.frequency, rows.filter, &mut line);
        line.pop();
        out.push(&line)?;
        count += 1;
    }
    out.finish()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn spooled_rows_come_in_the_order_of_their_keys_added_up(
            rows in prop::collection::vec((prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 9, 10, 11, 32, 47, 97, 255]), 0..4), 1..9u64), 0..20),
        ) {
            let mut spool = Spool::new(&Resources::default()).unwrap();
            let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for (key, n) in &rows {
                spool.push(key, None, &Frequency::new(*n, 1), None).unwrap();
                *expected.entry(key.clone()).or_default() += n;
            }
            let mut spooled = spool.finish().unwrap();
            let mut found = Vec::new();
            while spooled.advance().unwrap() {
                found.push((spooled.key.clone(), spooled.frequency.captures.unwrap().value));
            }
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
