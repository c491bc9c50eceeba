//! The output queue: rows that may still be removed wait here.
//!
//! The frequency of a wildcard is known when its node is closed, but by then other rows may have
//! arrived that sort before or after it. So rows wait until no wildcard above them can still be
//! added, and are sorted then.

use std::ops::Range;
use std::path::Path;

use waypost_io::Resources;
use waypost_io::gzip::{GzipSize, MEMBER};

use super::{Style, Summed};
use crate::error::Result;
use crate::frequency::{Frequency, Number};
use crate::map::tree::row;
use crate::map::tree::spool::Spool;
use crate::ukvs::{RowSum, RowWriter, push_digits};

/// How many bytes may be queued.
const MOST_WAITING: usize = 8 << 20;

/// Rows that can no longer be removed are written once there are this many bytes of them.
const BATCH: usize = 32 << 10;

/// Where rows are written.
enum Sink {
    Lines(Box<RowWriter>),
    Spool(Box<Spool>),
    /// Memory, all at once in the end.
    Bytes(Vec<u8>),
    /// Nowhere: only the size is measured.
    Measure(Box<Measure>),
}

/// Measures the gzipped size of lines.
struct Measure {
    block: Vec<u8>,
    size: GzipSize,
}

impl Measure {
    fn flush(&mut self) {
        self.size.add(&self.block);
        self.block.clear();
    }
}

/// The kind of a row, for statistics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Exact,
    Wildcard,
    Void,
}

/// Where a section of rows belongs: a number that the caller of [`Queue::push`] chooses.
pub(crate) type Owner = u16;

/// Consecutive rows of the same owner.
pub(crate) struct Section {
    pub(crate) owner: Owner,
    /// Their lines. `None`: a row may be added here later.
    pub(crate) lines: Option<Range<usize>>,
    pub(crate) written: Summed,
}

/// A queued row: its start, the end of its key, and its end.
struct Waiting {
    start: u32,
    key: u32,
    end: u32,
    kind: Kind,
    filtered: bool,
    owner: Owner,
    captures: u64,
}

impl Waiting {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..self.key as usize]
    }

    /// Whether it only keeps the place of a row.
    fn is_place(&self) -> bool {
        self.key == self.end
    }

    /// Its line, in `escaped` if the key has to be quoted.
    #[inline]
    fn line<'a>(&self, bytes: &'a [u8], style: Style, escaped: &'a mut Vec<u8>) -> &'a [u8] {
        let key = self.key(bytes);
        if style != Style::Published || is_plain(key) {
            return &bytes[self.start as usize..self.end as usize];
        }
        escaped.clear();
        crate::ukvs::write_field(key, true, escaped);
        escaped.extend_from_slice(&bytes[self.key as usize..self.end as usize]);
        escaped
    }
}

/// The result.
pub(crate) enum Finished {
    /// A file of this many bytes.
    File(u64),
    /// Rows still to be sorted.
    Spool(Box<Spool>),
    /// The gzipped size in bytes.
    Measured(u64),
}

/// The output queue.
pub(crate) struct Queue {
    style: Style,
    sink: Sink,
    bytes: Vec<u8>,
    rows: Vec<Waiting>,
    /// The owner of the rows that are added next.
    pub(crate) owner: Owner,
    last: Vec<u8>,
    written: Summed,
    failed: Option<crate::Error>,
    /// The order was violated, or too much was queued.
    pub(crate) gave_up: bool,
}

impl Queue {
    fn new(style: Style, sink: Sink) -> Queue {
        Queue {
            style,
            sink,
            bytes: Vec::new(),
            rows: Vec::new(),
            owner: 0,
            last: Vec::new(),
            written: Summed::default(),
            failed: None,
            gave_up: false,
        }
    }

    /// Writes to a file.
    pub(crate) fn to_file(path: &Path, head: &[u8], style: Style) -> Result<Queue> {
        let lines = RowWriter::create(path, head, 1)?;
        Ok(Queue::new(style, Sink::Lines(Box::new(lines))))
    }

    /// Writes in any order, to be sorted later.
    pub(crate) fn to_spool(room: &Resources, style: Style) -> Result<Queue> {
        let spool = Spool::new(room)?;
        Ok(Queue::new(style, Sink::Spool(Box::new(spool))))
    }

    /// Writes to memory. All rows are queued to the end, so any of them may come out of order.
    pub(crate) fn to_bytes(style: Style) -> Queue {
        Queue::new(style, Sink::Bytes(Vec::new()))
    }

    /// Only measures the gzipped size.
    pub(crate) fn to_measure(head: &[u8], style: Style) -> Result<Queue> {
        let measure = Measure {
            block: head.to_vec(),
            size: RowSum::size(head)?,
        };
        Ok(Queue::new(style, Sink::Measure(Box::new(measure))))
    }

    /// Number of rows written or queued.
    pub(crate) fn count(&self) -> u64 {
        self.written.rows + self.rows.len() as u64
    }

    /// Number of queued rows.
    pub(crate) fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row with the key that `write_key` appends.
    #[inline]
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        frequency: &Frequency,
        second: Option<&[u8]>,
        filter: Option<u8>,
        write_key: impl FnOnce(&mut Vec<u8>),
    ) {
        let captures = frequency.captures.map_or(0, |captures| captures.value);
        let start = self.bytes.len();
        write_key(&mut self.bytes);
        let key = self.bytes.len();
        if let Sink::Spool(spool) = &mut self.sink {
            let frequency = &match self.style {
                Style::Published => *frequency,
                Style::Reference => Frequency {
                    captures: Some(Number::exact(
                        captures.max(u64::from(frequency.captures.is_none())),
                    )),
                    urirs: None,
                },
            };
            if let Err(error) = spool.push(&self.bytes[start..], second, frequency, filter) {
                self.failed.get_or_insert(error);
            }
            self.bytes.clear();
            self.written.count(kind, filter.is_some(), captures, 0);
            return;
        }
        self.bytes.push(b' ');
        if let Some(second) = second {
            crate::ukvs::write_field(second, false, &mut self.bytes);
            self.bytes.push(b' ');
        }
        match (self.style, frequency.captures) {
            (Style::Reference, Some(captures)) => push_digits(captures.value, &mut self.bytes),
            (Style::Reference, None) => self.bytes.push(b'1'),
            (Style::Published, _) => row::write_frequency(frequency, &mut self.bytes),
        }
        row::write_filter(filter, &mut self.bytes);
        self.rows.push(Waiting {
            start: start as u32,
            key: key as u32,
            end: self.bytes.len() as u32,
            kind,
            filtered: filter.is_some(),
            owner: self.owner,
            captures,
        });
        if self.bytes.len() > MOST_WAITING && !matches!(self.sink, Sink::Bytes(_)) {
            self.gave_up = true;
            self.bytes.clear();
            self.rows.clear();
        }
    }

    /// Keeps a place for a row with the key that `write_key` appends.
    pub(crate) fn push_place(&mut self, write_key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len() as u32;
        write_key(&mut self.bytes);
        let end = self.bytes.len() as u32;
        self.rows.push(Waiting {
            start,
            key: end,
            end,
            kind: Kind::Wildcard,
            filtered: false,
            owner: self.owner,
            captures: 0,
        });
    }

    /// Removes the queued rows, from the given one on, whose keys are covered.
    pub(crate) fn take_back(&mut self, from: usize, covered: impl Fn(&[u8]) -> bool) {
        let Queue { bytes, rows, .. } = self;
        let Some(tail) = rows.get(from..) else {
            return;
        };
        let Some(first) = tail.iter().position(|row| covered(row.key(bytes))) else {
            return;
        };
        let first = from + first;
        let mut free = rows[first].start as usize;
        let mut kept = first;
        for at in first..rows.len() {
            let (start, end) = (rows[at].start as usize, rows[at].end as usize);
            if covered(&bytes[start..rows[at].key as usize]) {
                continue;
            }
            bytes.copy_within(start..end, free);
            let moved = (start - free) as u32;
            rows.swap(kept, at);
            rows[kept].start -= moved;
            rows[kept].key -= moved;
            rows[kept].end -= moved;
            free += end - start;
            kept += 1;
        }
        rows.truncate(kept);
        bytes.truncate(free);
    }

    /// Marks all queued rows as final, and writes them if there are many.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.bytes.len() >= BATCH && !matches!(self.sink, Sink::Bytes(_)) {
            self.flush();
        }
    }

    fn sort(&mut self) {
        let Queue { bytes, rows, .. } = self;
        // Rows of the same key arrive together, ordered by second key, and stay so.
        if !rows.is_sorted_by(|a, b| a.key(bytes) <= b.key(bytes)) {
            rows.sort_by(|a, b| a.key(bytes).cmp(b.key(bytes)));
        }
    }

    /// Writes all queued rows.
    pub(crate) fn flush(&mut self) {
        self.sort();
        let Queue {
            bytes,
            rows,
            sink,
            last,
            style,
            ..
        } = self;
        let mut escaped = Vec::new();
        for row in rows.iter() {
            let line = row.line(bytes, *style, &mut escaped);
            self.written
                .count(row.kind, row.filtered, row.captures, line.len() as u64 + 1);
            match sink {
                Sink::Lines(lines) => {
                    if let Err(error) = lines.push(line) {
                        self.failed.get_or_insert(error);
                    }
                }
                Sink::Bytes(lines) => {
                    lines.extend_from_slice(line);
                    lines.push(b'\n');
                }
                Sink::Measure(measure) => {
                    measure.block.extend_from_slice(line);
                    measure.block.push(b'\n');
                    if measure.block.len() > MEMBER {
                        measure.flush();
                    }
                }
                Sink::Spool(_) => {}
            }
        }
        if let (Some(first), Some(end)) = (rows.first(), rows.last()) {
            self.gave_up |= &last[..] > first.key(bytes);
            last.clear();
            last.extend_from_slice(end.key(bytes));
        }
        bytes.clear();
        rows.clear();
    }

    /// The lines of a queue that writes to memory, with their statistics.
    pub(crate) fn take_lines(mut self) -> (Vec<u8>, Summed) {
        self.flush();
        let lines = match self.sink {
            Sink::Bytes(lines) => lines,
            _ => Vec::new(),
        };
        (lines, self.written)
    }

    /// Appends the queued lines in order. Returns the sections of the same owner that they form. The
    /// queue can be used again.
    pub(crate) fn take_sections(&mut self, lines: &mut Vec<u8>) -> Vec<Section> {
        self.sort();
        let Queue { bytes, rows, .. } = &self;
        lines.reserve(bytes.len() + rows.len());
        let mut sections: Vec<Section> = Vec::new();
        let mut escaped = Vec::new();
        for row in rows {
            let start = lines.len();
            if row.is_place() {
                sections.push(Section {
                    owner: row.owner,
                    lines: None,
                    written: Summed::default(),
                });
                continue;
            }
            let line = row.line(bytes, self.style, &mut escaped);
            lines.extend_from_slice(line);
            lines.push(b'\n');
            let bytes = line.len() as u64 + 1;
            match sections.last_mut() {
                Some(Section {
                    owner,
                    lines: Some(range),
                    written,
                }) if *owner == row.owner => {
                    range.end = lines.len();
                    written.count(row.kind, row.filtered, row.captures, bytes);
                }
                _ => {
                    let mut written = Summed::default();
                    written.count(row.kind, row.filtered, row.captures, bytes);
                    sections.push(Section {
                        owner: row.owner,
                        lines: Some(start..lines.len()),
                        written,
                    });
                }
            }
        }
        self.bytes.clear();
        self.rows.clear();
        sections
    }

    /// Moves the file to its final path.
    pub(crate) fn finish(mut self) -> Result<(Finished, Summed)> {
        self.flush();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let finished = match self.sink {
            Sink::Lines(lines) => Finished::File(lines.finish()?.bytes_out),
            Sink::Spool(spool) => Finished::Spool(spool),
            Sink::Bytes(lines) => Finished::File(lines.len() as u64),
            Sink::Measure(mut measure) => {
                measure.flush();
                Finished::Measured(measure.size.bytes())
            }
        };
        Ok((finished, self.written))
    }
}

/// Whether a key can be written without quoting.
fn is_plain(key: &[u8]) -> bool {
    !matches!(
        key.first(),
        None | Some(b'!' | b'@' | b'{' | b'[' | b'"' | b'\\')
    ) && key.iter().all(|&byte| byte > b' ')
}
