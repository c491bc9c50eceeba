//! The file format of tables: `docs/formats/segments.md`.
//!
//! ```text
//! !waypost-segments 1
//! !crawl CC-MAIN-2019-35
//! !subset warc
//! !segment 1566027312025.20 29551234 5490211 1140211
//! !property mime
//! text/html ditto ⇥ 0:22324644 1:22319871
//! ```
//!
//! The rows of a property are sorted by value, so tables merge in one pass over all of them.

use std::io::{BufRead, BufReader};
use std::path::Path;

use waypost_io::{Error, ErrorKind, Format, LineWriter, Result, Source, Stream, Written};

use super::location::{Subset, natural_order};

const MAGIC: &str = "!waypost-segments ";
const VERSION: u32 = 1;

/// A segment and the captures in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// Captures by subset, counted or not.
    pub captures: [u64; Subset::COUNT],
}

/// What a table says before its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The crawls that the files belong to, by name; usually one.
    pub crawls: Vec<String>,
    /// The subset that was counted; `None` for all.
    pub subset: Option<Subset>,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// Captures without a segment, which are not counted.
    pub without: u64,
}

impl Header {
    /// Captures by subset, in all segments.
    pub fn captures(&self) -> [u64; Subset::COUNT] {
        self.segments
            .iter()
            .fold([0; Subset::COUNT], |mut sum, segment| {
                for (sum, count) in sum.iter_mut().zip(segment.captures) {
                    *sum += count;
                }
                sum
            })
    }

    /// The name of the crawl, or `otherwise` if there is not exactly one.
    pub fn crawl_or(&self, otherwise: &str) -> String {
        match &self.crawls[..] {
            [only] => only.clone(),
            _ => otherwise.to_owned(),
        }
    }
}

/// Writes a table.
pub struct TableWriter {
    out: LineWriter,
    line: Vec<u8>,
}

impl TableWriter {
    /// Starts a table; it is gzipped if the name ends with `.gz`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, header: &Header, threads: usize) -> Result<TableWriter> {
        let mut out = LineWriter::create(path, &Format::of_name(path), threads)?;
        out.push(format!("{MAGIC}{VERSION}").as_bytes())?;
        for crawl in &header.crawls {
            out.push(format!("!crawl {crawl}").as_bytes())?;
        }
        let subset = header.subset.map_or("all", Subset::name);
        out.push(format!("!subset {subset}").as_bytes())?;
        if header.without > 0 {
            out.push(format!("!without {}", header.without).as_bytes())?;
        }
        for Segment { name, captures } in &header.segments {
            let [warc, other, robots] = captures;
            out.push(format!("!segment {name} {warc} {other} {robots}").as_bytes())?;
        }
        let line = Vec::new();
        Ok(TableWriter { out, line })
    }

    /// Starts the rows of a property.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn property(&mut self, name: &str) -> Result<()> {
        self.out.push(format!("!property {name}").as_bytes())
    }

    /// Writes a value and its counts by segment. Values must come in order.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn row(&mut self, value: &[u8], cells: &[(usize, u64)]) -> Result<()> {
        self.line.clear();
        escape(value, &mut self.line);
        for (at, (segment, count)) in cells.iter().enumerate() {
            self.line.push(if at == 0 { b'\t' } else { b' ' });
            self.line
                .extend_from_slice(format!("{segment}:{count}").as_bytes());
        }
        self.out.push(&self.line)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(self) -> Result<Written> {
        self.out.finish()
    }
}

/// Appends a value so that it cannot end a line or a column, or look like a header.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    if value.first() == Some(&b'!') {
        out.push(b'\\');
    }
    for &byte in value {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte => out.push(byte),
        }
    }
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(&other) => other,
                None => b'\\',
            },
            byte => byte,
        });
    }
    out
}

/// A row: a value and its counts by segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The value.
    pub value: Vec<u8>,
    /// Segments, as numbers in the header, and their counts.
    pub cells: Vec<(usize, u64)>,
}

/// Reads a table.
pub struct TableReader {
    name: String,
    lines: BufReader<Stream>,
    line: Vec<u8>,
    number: u64,
    /// Whether `line` was read but not used.
    held: bool,
    /// What the table says before its rows.
    pub header: Header,
}

/// Whether these bytes are the start of a table.
pub fn is_table(start: &[u8]) -> bool {
    start.starts_with(MAGIC.as_bytes())
}

impl TableReader {
    /// Opens a table and reads its header.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn open(source: &Source) -> Result<TableReader> {
        let mut reader = TableReader {
            name: source.to_string(),
            lines: BufReader::with_capacity(1 << 18, source.open()?),
            line: Vec::new(),
            number: 0,
            held: false,
            header: Header::default(),
        };
        let version = match reader.next_line()? {
            Some(line) => String::from_utf8_lossy(line).into_owned(),
            None => String::new(),
        };
        match version.strip_prefix(MAGIC).map(str::parse) {
            Some(Ok(VERSION)) => {}
            Some(_) => {
                return Err(reader.wrong(&format!(
                    "a table of another version: `{version}`, but this program reads version {VERSION}"
                )));
            }
            None => return Err(reader.wrong("not a table of segments")),
        }
        reader.read_header()?;
        Ok(reader)
    }

    fn read_header(&mut self) -> Result<()> {
        loop {
            let Some(line) = self.next_line()? else {
                return Ok(());
            };
            let line = String::from_utf8_lossy(line).into_owned();
            let mut words = line.split_whitespace();
            let mut header = std::mem::take(&mut self.header);
            let read = match words.next() {
                Some("!crawl") => words.next().map(|name| header.crawls.push(name.to_owned())),
                Some("!subset") => words.next().and_then(|name| {
                    header.subset = match name {
                        "all" => None,
                        name => Some(Subset::of_name(name.as_bytes())?),
                    };
                    Some(())
                }),
                Some("!without") => words
                    .next()
                    .and_then(|count| count.parse().ok())
                    .map(|count| header.without = count),
                Some("!segment") => words.next().and_then(|name| {
                    let mut captures = [0; Subset::COUNT];
                    for count in &mut captures {
                        *count = words.next()?.parse().ok()?;
                    }
                    let name = name.to_owned();
                    header.segments.push(Segment { name, captures });
                    Some(())
                }),
                _ => {
                    self.held = true;
                    self.header = header;
                    return Ok(());
                }
            };
            self.header = header;
            if read.is_none() {
                return Err(self.wrong(&format!("invalid header `{line}`")));
            }
        }
    }

    fn wrong(&self, message: &str) -> Error {
        Error::new(ErrorKind::Format(message.to_owned()))
            .in_file(&self.name)
            .at_line(self.number.max(1))
    }

    fn next_line(&mut self) -> Result<Option<&[u8]>> {
        if !std::mem::take(&mut self.held) {
            self.line.clear();
            let read = self.lines.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| Error::from_read(error).in_file(&self.name))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
        }
        Ok(Some(&self.line))
    }

    /// The next property. Skips the rows of the current one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_property(&mut self) -> Result<Option<String>> {
        while let Some(line) = self.next_line()? {
            if let Some(name) = line.strip_prefix(b"!property ") {
                return Ok(Some(String::from_utf8_lossy(name).into_owned()));
            }
        }
        Ok(None)
    }

    /// Reads the next row of the property. `false` after the last.
    ///
    /// # Errors
    /// If the file cannot be read, or the line is not a row.
    pub fn next_row(&mut self, row: &mut Row) -> Result<bool> {
        row.cells.clear();
        let segments = self.header.segments.len();
        let Some(line) = self.next_line()? else {
            return Ok(false);
        };
        if line.first() == Some(&b'!') {
            self.held = true;
            return Ok(false);
        }
        let tab = memchr::memchr(b'\t', line).unwrap_or(line.len());
        row.value = unescape(&line[..tab]);
        let cells = std::str::from_utf8(line.get(tab + 1..).unwrap_or_default()).unwrap_or("?");
        for cell in cells.split(' ').filter(|cell| !cell.is_empty()) {
            let parsed = cell
                .split_once(':')
                .and_then(|(segment, count)| Some((segment.parse().ok()?, count.parse().ok()?)));
            match parsed {
                Some((segment, count)) if segment < segments => row.cells.push((segment, count)),
                _ => {
                    let message = format!("invalid cell `{cell}`: expected SEGMENT:COUNT");
                    return Err(self.wrong(&message));
                }
            }
        }
        Ok(true)
    }
}

/// Merges tables of the same properties and subset, such as those of the shards of an index.
///
/// # Errors
/// If they do not match, or cannot be read or written.
pub fn merge(sources: &[Source], out: &Path, threads: usize) -> Result<Header> {
    let mut readers = sources
        .iter()
        .map(TableReader::open)
        .collect::<Result<Vec<_>>>()?;
    let header = merged_header(&readers)?;
    // The number in the merged table of each segment of each table.
    let numbers: Vec<Vec<usize>> = readers
        .iter()
        .map(|reader| {
            let place = |name: &str| header.segments.iter().position(|s| s.name == name);
            let segments = reader.header.segments.iter();
            segments.filter_map(|s| place(&s.name)).collect()
        })
        .collect();
    let mut writer = TableWriter::create(out, &header, threads)?;
    loop {
        let properties = readers
            .iter_mut()
            .map(TableReader::next_property)
            .collect::<Result<Vec<_>>>()?;
        let Some(first) = properties.first().cloned().flatten() else {
            let Some(at) = properties.iter().position(Option::is_some) else {
                break;
            };
            return Err(different(
                &sources[at],
                "has more properties than the first table",
            ));
        };
        if let Some(at) = properties
            .iter()
            .position(|name| name.as_ref() != Some(&first))
        {
            let message = format!("lacks the property {first}, or has it in another order");
            return Err(different(&sources[at], &message));
        }
        writer.property(&first)?;
        merge_rows(&mut readers, &numbers, &mut writer)?;
    }
    writer.finish()?;
    Ok(header)
}

fn different(source: &Source, message: &str) -> Error {
    Error::new(ErrorKind::Format(format!(
        "{message}; only tables of the same properties can be merged"
    )))
    .in_file(source)
}

fn merged_header(readers: &[TableReader]) -> Result<Header> {
    let mut merged = Header::default();
    for (at, reader) in readers.iter().enumerate() {
        let header = &reader.header;
        if at == 0 {
            merged.subset = header.subset;
        } else if merged.subset != header.subset {
            return Err(reader
                .wrong("a table of another subset; only tables of the same subset can be merged"));
        }
        merged.without += header.without;
        for crawl in &header.crawls {
            if !merged.crawls.contains(crawl) {
                merged.crawls.push(crawl.clone());
            }
        }
        for segment in &header.segments {
            match merged.segments.iter_mut().find(|s| s.name == segment.name) {
                Some(known) => {
                    for (sum, count) in known.captures.iter_mut().zip(segment.captures) {
                        *sum += count;
                    }
                }
                None => merged.segments.push(segment.clone()),
            }
        }
    }
    merged.crawls.sort();
    merged
        .segments
        .sort_by(|a, b| natural_order(&a.name, &b.name));
    Ok(merged)
}

/// Merges the rows of one property.
fn merge_rows(
    readers: &mut [TableReader],
    numbers: &[Vec<usize>],
    writer: &mut TableWriter,
) -> Result<()> {
    let mut heads: Vec<Option<Row>> = Vec::with_capacity(readers.len());
    for reader in readers.iter_mut() {
        let mut row = Row::default();
        heads.push(reader.next_row(&mut row)?.then_some(row));
    }
    let mut sums = std::collections::BTreeMap::new();
    while let Some(value) = heads.iter().flatten().map(|row| &row.value).min().cloned() {
        sums.clear();
        for ((head, reader), numbers) in heads.iter_mut().zip(readers.iter_mut()).zip(numbers) {
            let Some(row) = head.as_mut().filter(|row| row.value == value) else {
                continue;
            };
            for &(segment, count) in &row.cells {
                *sums.entry(numbers[segment]).or_insert(0) += count;
            }
            let more = reader.next_row(row)?;
            if more && row.value <= value {
                return Err(reader.wrong("the rows of a property must be sorted by their values"));
            }
            if !more {
                *head = None;
            }
        }
        let cells: Vec<(usize, u64)> = sums.iter().map(|(&s, &n)| (s, n)).collect();
        writer.row(&value, &cells)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_value_comes_back(value in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut escaped = Vec::new();
            escape(&value, &mut escaped);
            prop_assert!(!escaped.contains(&b'\n') && !escaped.contains(&b'\t'));
            prop_assert!(escaped.first() != Some(&b'!'));
            prop_assert_eq!(unescape(&escaped), value);
        }
    }
}
