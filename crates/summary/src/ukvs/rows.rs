//! Whether a text has all of its rows.
//!
//! A text that was cut at the end of a line looks like a smaller one, and would call absent what is held.
//! So the first line of the maps and profiles that Waypost writes describes their rows:
//!
//! ```text
//! !rows {"count":               3, "bytes":                94, "xxh3": "0123456789abcdef"}
//! ```
//!
//! It always has the same length, because it is written last. The checksum is a sum over the lines, so
//! that pieces of a text can be read at the same time.

use std::path::Path;

use waypost_io::gzip::{self, GzipSize};
use waypost_io::{Format, LineWriter, Written};
use xxhash_rust::xxh3::xxh3_64;

use super::{Headers, Value};
use crate::about::About;
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::{Number, Sureness};
use crate::map::Row;

/// The name of the header.
pub(super) const NAME: &str = "rows";

/// What the rows of a text, or of a piece of it, add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowSum {
    count: u64,
    /// With a line feed for each.
    bytes: u64,
    /// The sum of the hashes of the lines, without their terminators.
    hash: u64,
}

impl RowSum {
    /// Adds the line of a row.
    #[inline]
    pub(crate) fn add(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.count += 1;
        self.bytes += line.len() as u64 + 1;
        self.hash = self.hash.wrapping_add(xxh3_64(line));
    }

    /// Adds whole lines, all of which are rows.
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        if !lines.is_empty() {
            lines
                .split(|&byte| byte == b'\n')
                .for_each(|line| self.add(line));
        }
    }

    pub(crate) fn merge(&mut self, other: &RowSum) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.hash = self.hash.wrapping_add(other.hash);
    }

    /// The header, with its line feed.
    pub(crate) fn header(&self) -> Vec<u8> {
        let RowSum { count, bytes, hash } = self;
        format!(
            "!{NAME} {{\"count\": {count:15}, \"bytes\": {bytes:17}, \"xxh3\": \"{hash:016x}\"}}\n"
        )
        .into_bytes()
    }

    /// Starts to measure the gzipped size of a text with these other headers, if any. In a gzip file, the
    /// header of the rows is not compressed.
    pub(crate) fn size(head: &[u8]) -> Result<GzipSize> {
        let mut size = GzipSize::new(1);
        if !head.is_empty() {
            let header = RowSum::default().header();
            size.add_compressed(header.len() as u64, gzip::stored(&header)?.len() as u64);
        }
        Ok(size)
    }

    /// What the headers of a text say about its rows.
    pub(crate) fn of(headers: &Headers) -> Option<RowSum> {
        let said = headers.get(NAME)?;
        let number = |name: &str| said.get(name).and_then(Value::as_u64);
        let hash = said.get("xxh3").and_then(Value::as_text)?;
        Some(RowSum {
            count: number("count")?,
            bytes: number("bytes")?,
            hash: u64::from_str_radix(hash, 16).ok()?,
        })
    }

    /// Compares all rows of a text with its headers.
    ///
    /// # Errors
    /// If rows are missing, or are others.
    pub(crate) fn check(&self, headers: &Headers) -> Result<Wholeness> {
        let why = match RowSum::of(headers) {
            Some(said) if said == *self => return Ok(Wholeness::Whole),
            Some(said) if said.count != self.count => format!(
                "not whole: it has {} of the {} rows that its header counts",
                self.count, said.count
            ),
            Some(_) => "not whole: its rows are not those of the checksum in its header".to_owned(),
            None if self.count == 0 => "not whole: it has no rows".to_owned(),
            None => return Ok(Wholeness::Unknown),
        };
        Err(Error::new(ErrorKind::NotWhole(why)))
    }
}

/// Whether a text is known to have all of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wholeness {
    /// It has all rows that its headers describe.
    Whole,
    /// Its headers do not describe its rows.
    #[default]
    Unknown,
}

/// The captures of the rows of a map, whose headers may state the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureSum {
    /// `None` if a row does not state them exactly.
    sum: Option<u64>,
    /// Whether captures may be counted twice.
    has_wildcards: bool,
}

impl Default for CaptureSum {
    fn default() -> CaptureSum {
        CaptureSum {
            sum: Some(0),
            has_wildcards: false,
        }
    }
}

impl CaptureSum {
    /// Adds a row.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row<'_>) {
        let captures = row.frequency.captures.and_then(exact);
        self.merge(&CaptureSum {
            sum: captures,
            has_wildcards: row.key.ends_with(b"*"),
        });
    }

    #[inline]
    pub(crate) fn merge(&mut self, other: &CaptureSum) {
        self.sum = self.sum.zip(other.sum).map(|(a, b)| a.saturating_add(b));
        self.has_wildcards |= other.has_wildcards;
    }

    /// Compares the rows of a map with the total in its headers, if both are exact.
    ///
    /// # Errors
    /// If rows are missing.
    pub(crate) fn check(&self, headers: &Headers) -> Result<Wholeness> {
        let about = About::from_headers(headers)?;
        // A map of a selection may state the total of everything.
        let total = about.captures.filter(|_| about.scopes.is_everything());
        match self.sum.zip(total.and_then(exact)) {
            Some((sum, total)) if sum < total => Err(Error::new(ErrorKind::NotWhole(format!(
                "not whole: its rows have {sum} of the {total} captures that its header counts"
            )))),
            Some((sum, total)) if sum == total && !self.has_wildcards => Ok(Wholeness::Whole),
            _ => Ok(Wholeness::Unknown),
        }
    }
}

fn exact(number: Number) -> Option<u64> {
    (number.sureness == Sureness::Exact).then_some(number.value)
}

/// Writes a map: its headers, and rows that the first of them describes.
pub(crate) struct RowWriter {
    lines: LineWriter,
    sum: RowSum,
    /// Maps in the style of the papers' tool have no headers.
    described: bool,
}

impl RowWriter {
    pub(crate) fn create(path: &Path, head: &[u8], threads: usize) -> Result<RowWriter> {
        let (format, sum) = (Format::of_name(path), RowSum::default());
        let described = !head.is_empty();
        let mut lines = match described {
            true => LineWriter::with_start(path, &format, threads, &sum.header())?,
            false => LineWriter::create(path, &format, threads)?,
        };
        lines.push_lines(head)?;
        Ok(RowWriter {
            lines,
            sum,
            described,
        })
    }

    /// Writes a row, given without its line feed.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        self.sum.add(line);
        Ok(self.lines.push(line)?)
    }

    /// Writes rows.
    pub(crate) fn push_lines(&mut self, lines: &[u8]) -> Result<()> {
        self.sum.add_lines(lines);
        Ok(self.lines.push_lines(lines)?)
    }

    /// Writes `count` rows, and empties `lines`.
    pub(crate) fn push_buffer(&mut self, lines: &mut Vec<u8>, count: u64) -> Result<()> {
        self.sum.add_lines(lines);
        Ok(self.lines.push_buffer(lines, count)?)
    }

    /// Gives the file its final name.
    pub(crate) fn finish(self) -> Result<Written> {
        match self.described {
            true => Ok(self.lines.finish_with_start(&self.sum.header())?),
            false => Ok(self.lines.finish()?),
        }
    }
}

/// A whole map as text: headers, and the rows below them.
pub fn described(head: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut sum = RowSum::default();
    sum.add_lines(rows);
    [&sum.header()[..], head, rows].concat()
}
