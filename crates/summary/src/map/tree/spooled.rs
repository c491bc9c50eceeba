//! Sorted rows, merged and written on all cores.
//!
//! ```text
//! first file   a a b │ c d   │ e
//! second file  a c   │ d d   │ f g        every piece: a range of each file
//!              piece │ piece │ piece
//! ```
//!
//! Files are cut between keys, at the same key in all of them. So pieces have no key in common, and
//! what becomes of them is written in order.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use tempfile::TempPath;
use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::{IoContext, Mapped, Progress, Resources};

use super::row;
use super::spool::{Said, changed, keys_in, said, split};
use super::tidy::{joined, joined_filter};
use crate::error::Result;
use crate::ukvs::RowWriter;

/// A piece has at most about so many bytes of each file.
const PIECE: usize = 1 << 20;

/// The least size of a piece, however little memory there is.
const LEAST_PIECE: usize = 1 << 16;

/// The sorted lines of a [spool](super::spool).
pub(crate) struct Spooled {
    text: Mapped,
    file: File,
    _path: TempPath,
}

impl Spooled {
    pub(super) fn open(path: TempPath) -> Result<Spooled> {
        let file = File::options().write(true).open(&path);
        Ok(Spooled {
            text: Mapped::open(&path)?,
            file: file.doing("open", &path)?,
            _path: path,
        })
    }

    /// The number of bytes of all lines.
    pub(crate) fn size(&self) -> u64 {
        self.text.len() as u64
    }
}

/// Writes headers and the rows of some files, with those of the same key added up. Returns how many
/// there are, and the size of the map in bytes.
pub(crate) fn write(
    spools: Vec<Spooled>,
    keys: usize,
    head: &[u8],
    room: &Resources,
    progress: &Progress,
    path: &Path,
) -> Result<(u64, u64)> {
    let mut out = RowWriter::create(path, head, room.threads)?;
    let rows = merge(spools, keys, room, progress, |lines, rows| {
        out.push_buffer(lines, rows)
    })?;
    Ok((rows, out.finish()?.bytes_out))
}

/// Adds up the rows of the same key and passes them to `push` in order: many lines at a time, with
/// their number. `push` empties the lines. Returns the number of rows. What has been read is removed
/// from the files: they need less disk beside what is written, and removing a large file at the end
/// would keep one thread busy.
pub(crate) fn merge(
    spools: Vec<Spooled>,
    keys: usize,
    room: &Resources,
    progress: &Progress,
    push: impl FnMut(&mut Vec<u8>, u64) -> Result<()>,
) -> Result<u64> {
    let memory = room.memory / 4;
    // What is mapped of a piece, and as much for what becomes of it.
    let share = 2 * spools.len().max(1);
    let size = (memory / (share * Width::full().pieces)).clamp(LEAST_PIECE, PIECE);
    let width = Width::within(memory, 0, share * size);
    merge_in_pieces(&spools, keys, size, width, progress, push)
}

fn merge_in_pieces(
    spools: &[Spooled],
    keys: usize,
    size: usize,
    width: Width,
    progress: &Progress,
    mut push: impl FnMut(&mut Vec<u8>, u64) -> Result<()>,
) -> Result<u64> {
    let mut pieces = Pieces::new(spools, size);
    let buffers = Pool::<Vec<u8>>::new();
    let mut rows = 0;
    pipeline::run(
        width,
        || pieces.next(),
        || |piece: Piece| merged(spools, &piece, keys, buffers.get()),
        |mut merged: Merged| {
            progress.add(merged.read);
            push(&mut merged.lines, merged.rows)?;
            buffers.put(merged.lines);
            rows += merged.rows;
            Ok(())
        },
    )?;
    Ok(rows)
}

/// A range of each file.
type Piece = Vec<Range<usize>>;

/// Cuts files into pieces.
struct Pieces<'a> {
    texts: Vec<&'a [u8]>,
    starts: Vec<usize>,
    size: usize,
}

impl<'a> Pieces<'a> {
    fn new(spools: &'a [Spooled], size: usize) -> Pieces<'a> {
        Pieces {
            texts: spools.iter().map(|spool| &spool.text[..]).collect(),
            starts: vec![0; spools.len()],
            size,
        }
    }

    fn next(&mut self) -> Result<Option<Piece>> {
        let mut files = self.texts.iter().zip(&self.starts);
        if files.all(|(text, &start)| start == text.len()) {
            return Ok(None);
        }
        let ends = self.ends()?;
        let starts = std::mem::replace(&mut self.starts, ends);
        if starts == self.starts {
            return Err(changed());
        }
        let ranges = starts.into_iter().zip(&self.starts);
        Ok(Some(ranges.map(|(start, &end)| start..end).collect()))
    }

    /// Where the next piece ends in each file.
    fn ends(&self) -> Result<Vec<usize>> {
        let files = || self.texts.iter().zip(&self.starts);
        // No file has more than a piece before the least of the keys at which one could be cut.
        let cuts: Vec<usize> = files()
            .map(|(text, start)| line_from(text, start + self.size))
            .collect();
        let mut bound: Option<&[u8]> = None;
        for (text, &cut) in self
            .texts
            .iter()
            .zip(&cuts)
            .filter(|(text, cut)| **cut < text.len())
        {
            let head = split(line_at(text, cut))?.0;
            bound = Some(bound.map_or(head, |bound| bound.min(head)));
        }
        let Some(bound) = bound else {
            return Ok(cuts);
        };
        let before = |line: &[u8]| line < bound;
        let ends: Vec<usize> = files()
            .zip(&cuts)
            .map(|((text, &start), &cut)| first_line(text, start..cut, before))
            .collect();
        if ends != self.starts {
            return Ok(ends);
        }
        // The rows of one key are more than a piece.
        let of_bound = |line: &[u8]| split(line).is_ok_and(|(head, _)| head <= bound);
        Ok(files()
            .map(|(text, &start)| first_line(text, start..text.len(), of_bound))
            .collect())
    }
}

/// The line that begins at `start`.
fn line_at(text: &[u8], start: usize) -> &[u8] {
    let rest = &text[start..];
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// Where the first line begins that does so at or after `at`, which is not 0.
fn line_from(text: &[u8], at: usize) -> usize {
    let rest = text.get(at - 1..).unwrap_or_default();
    memchr::memchr(b'\n', rest).map_or(text.len(), |feed| at + feed)
}

/// Where the first line in a range begins that is not `before`; the end of the range if all are.
/// Those that are come first.
fn first_line(text: &[u8], range: Range<usize>, before: impl Fn(&[u8]) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        let feed = memchr::memrchr(b'\n', &text[low..middle]);
        let start = feed.map_or(low, |feed| low + feed + 1);
        let line = line_at(text, start);
        if before(line) {
            low = (start + line.len() + 1).min(high);
        } else {
            high = start;
        }
    }
    low
}

/// What becomes of a piece.
struct Merged {
    lines: Vec<u8>,
    rows: u64,
    /// Bytes that were read.
    read: u64,
}

/// Merges a piece into an empty buffer.
fn merged(spools: &[Spooled], piece: &Piece, keys: usize, mut lines: Vec<u8>) -> Result<Merged> {
    let ranges = || spools.iter().zip(piece);
    let mut cursors = ranges()
        .map(|(spool, range)| Cursor::new(&spool.text[range.clone()]))
        .collect::<Result<Vec<_>>>()?;
    let (mut key, mut second) = (Vec::new(), Vec::new());
    let mut rows = 0;
    while let Some(head) = cursors.iter().filter_map(|cursor| cursor.head).min() {
        let mut sum = None;
        for cursor in &mut cursors {
            if let Some(said) = cursor.take(head)? {
                sum = Some(sum.map_or(said, |sum| added(sum, said)));
            }
        }
        let Some((frequency, filter)) = sum else {
            break;
        };
        let (key, second) = keys_in(head, (&mut key, &mut second));
        let second = (!second.is_empty()).then_some(second);
        let second = second.or((keys > 1).then_some(&b"-"[..]));
        row::write(key, second, &frequency, filter, &mut lines);
        rows += 1;
    }
    for (spool, range) in ranges() {
        spool.text.check()?;
        spool.text.discard(range.clone(), &spool.file);
    }
    Ok(Merged {
        lines,
        rows,
        read: piece.iter().map(|range| range.len() as u64).sum(),
    })
}

/// What two rows of the same key say.
fn added(a: Said, b: Said) -> Said {
    (joined(a.0, b.0), joined_filter(a, b))
}

/// A position in sorted lines.
struct Cursor<'a> {
    rest: &'a [u8],
    /// The head of the current line, and what follows it; `None` at the end.
    head: Option<&'a [u8]>,
    said: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(lines: &'a [u8]) -> Result<Cursor<'a>> {
        let mut cursor = Cursor {
            rest: lines,
            head: None,
            said: b"",
        };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<()> {
        if self.rest.is_empty() {
            self.head = None;
            return Ok(());
        }
        let line = line_at(self.rest, 0);
        self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
        let (head, said) = split(line)?;
        (self.head, self.said) = (Some(head), said);
        Ok(())
    }

    /// Adds up the lines with this head, if it is the current one, and moves on.
    fn take(&mut self, head: &[u8]) -> Result<Option<Said>> {
        let mut sum = None;
        while self.head == Some(head) {
            let said = said(self.said)?;
            sum = Some(sum.map_or(said, |sum| added(sum, said)));
            self.advance()?;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spool::Spool;
    use super::*;
    use crate::frequency::Frequency;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Keys = (Vec<u8>, Vec<u8>);

    /// Rows with few different keys, of all kinds of bytes.
    fn rows() -> impl Strategy<Value = Vec<(Keys, u64)>> {
        let bytes = prop::sample::select(vec![0u8, 1, 2, 9, 10, 11, 32, 47, 97, 255]);
        let key = prop::collection::vec(bytes, 0..4);
        let second = prop_oneof![
            Just(b"".to_vec()),
            Just(b"2004".to_vec()),
            Just(b"20".to_vec())
        ];
        prop::collection::vec(((key, second), 0..9u64), 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_of_any_size_give_each_key_once_in_order_with_its_sum(
            files in prop::collection::vec(rows(), 1..4),
            size in 1..200usize,
            threads in 1..4usize,
            keys in 1..3usize,
        ) {
            let mut expected: BTreeMap<Keys, Frequency> = BTreeMap::new();
            let mut spools = Vec::new();
            for rows in &files {
                let mut spool = Spool::new(&Resources::default()).unwrap();
                for ((key, second), n) in rows {
                    let frequency = Frequency::new(*n, 1);
                    spool.push(key, Some(second), &frequency, None).unwrap();
                    let sum = expected.entry((key.clone(), second.clone()));
                    sum.and_modify(|sum| *sum = joined(*sum, frequency)).or_insert(frequency);
                }
                spools.push(spool.finish().unwrap());
            }
            let mut lines = Vec::new();
            for ((key, second), frequency) in &expected {
                let second = (!second.is_empty()).then_some(&second[..]);
                let second = second.or((keys > 1).then_some(&b"-"[..]));
                row::write(key, second, frequency, None, &mut lines);
            }
            let width = Width { threads, pieces: threads + 1 };
            let (mut found, mut count) = (Vec::new(), 0);
            let progress = Progress::default();
            let rows = merge_in_pieces(&spools, keys, size, width, &progress, |lines, rows| {
                found.append(lines);
                count += rows;
                Ok(())
            });
            prop_assert_eq!(rows.unwrap(), expected.len() as u64);
            prop_assert_eq!(count, expected.len() as u64);
            prop_assert_eq!(found, lines);
            let read: u64 = spools.iter().map(Spooled::size).sum();
            prop_assert_eq!(progress.snapshot().done, read);
        }
    }
}
