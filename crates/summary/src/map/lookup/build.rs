//! Building the lookup table of a text: rows are read and hashed on all cores, sorted by their hashes
//! within the memory limit, and written in order.
//!
//! Slots are filled in the order of the hashes, so a table depends neither on the number of threads nor
//! on the memory, and never has to be in memory as a whole.

use std::cmp::Ordering;
use std::ops::Range;

use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::{LONGEST_LINE, Mapped, Resources};
use waypost_surt::Key;
use xxhash_rust::xxh3::Xxh3;

use super::hash::hash_of;
use super::slots::{self, RANGE};
use super::stamp::Stamp;
use super::store::headers_of;
use super::table::{Head, LONGEST_TEXT, Levels};
use crate::error::{Error, Result};
use crate::filter::{Partitions, Run};
use crate::map::tree::row::Row;
use crate::map::tree::rows::{RowSums, is_tidy};
use crate::ukvs::Wholeness;

/// How many bytes of text a worker reads at a time.
const PIECE: usize = 1 << 20;

/// About how many bytes its keys take.
const PIECE_KEYS: usize = PIECE / 2;

/// Whether a text is known to be tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tidiness {
    /// To be checked.
    Check,
    /// Known to be tidy.
    Known,
}

/// The keys of a text, sorted by their hashes.
pub(crate) struct Sorted {
    head: Head,
    run: Run,
    wholeness: Wholeness,
}

/// What a piece of a text has.
struct Piece {
    range: Range<usize>,
    /// The hash of each key above the offset of its first row.
    keys: Vec<u128>,
    head: Head,
    sums: RowSums,
    untidy: bool,
}

impl Sorted {
    /// Reads all rows of a text. Rows of the same key are adjacent, and the first is recorded. `None`
    /// if the text is not tidy, unless that need not be checked. Parts of the text that have been read
    /// are passed on in order.
    pub(crate) fn read(
        text: &Mapped,
        keys: usize,
        order: Tidiness,
        room: &Resources,
        passed: impl FnMut(Range<usize>),
    ) -> Result<Option<Sorted>> {
        Sorted::read_in_pieces(text, keys, order, room, PIECE, passed)
    }

    fn read_in_pieces(
        text: &Mapped,
        keys: usize,
        order: Tidiness,
        room: &Resources,
        size: usize,
        mut passed: impl FnMut(Range<usize>),
    ) -> Result<Option<Sorted>> {
        if text.len() as u64 > LONGEST_TEXT {
            return Err(Error::invalid(
                "a map of more than a tebibyte cannot have a table",
            ));
        }
        // A byte-order mark would be part of the first key.
        if order == Tidiness::Check && text.starts_with(b"\xef\xbb\xbf") {
            return Ok(None);
        }
        let first_row = first_row(text);
        let mut parts = Partitions::new(room.memory, &room.temporary);
        let mut head = Head::default();
        let mut sums = RowSums::default();
        let mut untidy = false;
        let mut start = 0;
        let mut width = Width::within(room.memory / 8, 0, PIECE_KEYS);
        width.threads = width.threads.min(room.threads);
        let buffers = Pool::new();
        let done = pipeline::run(
            width,
            || {
                let piece = start..end_of_line(text, start + size);
                // A line that is too long ends the run, and what follows would only take memory.
                let goes_on = text[..piece.end].ends_with(b"\n");
                start = if goes_on { piece.end } else { text.len() };
                Ok((!piece.is_empty()).then_some(piece))
            },
            || |range| read_piece(text, range, first_row, keys, order, buffers.get()),
            |mut piece| {
                untidy = piece.untidy;
                if untidy {
                    return Err(Error::invalid("the text is not tidy"));
                }
                passed(piece.range);
                head.add(&piece.head);
                sums.merge(&piece.sums);
                parts.add(&piece.keys)?;
                piece.keys.clear();
                buffers.put(piece.keys);
                Ok(())
            },
        );
        match done {
            Err(_) if untidy => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                let wholeness = sums.check(&headers_of(text)?)?;
                let run = parts.finish()?;
                head.slots = (run.count() * 3 / 2).max(8);
                Ok(Some(Sorted {
                    head,
                    run,
                    wholeness,
                }))
            }
        }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.head.rows
    }

    /// Whether the text is known to have all of its rows.
    pub(crate) fn wholeness(&self) -> Wholeness {
        self.wholeness
    }

    /// The size of the table, but for the slots behind the last home.
    pub(crate) fn about_bytes(&self) -> usize {
        Head::BYTES + 8 * self.head.slots as usize + 64
    }

    /// Passes on the bytes of the table, in order, with the identity of the text if it is kept. Returns
    /// their number.
    pub(crate) fn write(
        &self,
        stamp: Stamp,
        room: &Resources,
        mut out: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let mut hash = Xxh3::new();
        let mut length = 0;
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            length += bytes.len() as u64;
            out(bytes)
        };
        put(&self.head.to_bytes(stamp))?;
        slots::fill(&self.run, self.head.slots, RANGE, room, |slots| {
            put(slots.as_flattened())
        })?;
        out(&hash.digest().to_le_bytes())?;
        Ok(length + 8)
    }
}

/// Reads the rows that begin in a part of a text. `buffer` is empty.
fn read_piece(
    text: &Mapped,
    range: Range<usize>,
    first_row: usize,
    keys: usize,
    order: Tidiness,
    buffer: Vec<u128>,
) -> Result<Piece> {
    let mut piece = Piece {
        range: range.clone(),
        keys: buffer,
        head: Head::default(),
        sums: RowSums::default(),
        untidy: false,
    };
    let line_before = line_before(text, range.start);
    let mut last = first_field(line_before);
    let mut before = match is_row(line_before) {
        true => Row::parse(trimmed(line_before), keys).ok(),
        false => None,
    };
    let mut start = range.start;
    while start < range.end {
        let end = end_of_line(text, start);
        let whole = &text[start..end];
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let at_line = |error: Error| {
            let lines = memchr::memchr_iter(b'\n', &text[..start]).count();
            error.at_line(lines as u64 + 1)
        };
        if line.len() > LONGEST_LINE {
            let error = waypost_io::Error::line_too_long(LONGEST_LINE);
            return Err(at_line(error.into()));
        }
        // Headers after rows, blank lines that are not empty, rows with leading white space.
        let odd = match line.first() {
            Some(b'!' | b'@') => start >= first_row,
            Some(b' ' | b'\t' | b'\r') => true,
            _ => false,
        };
        if odd && order == Tidiness::Check {
            piece.untidy = true;
            return Ok(piece);
        }
        if is_row(line) {
            let line = trimmed(line);
            let row = Row::parse(line, keys).map_err(at_line)?;
            let key = Key::new(&row.key);
            piece.head.rows += 1;
            piece.sums.add(line, &row);
            if let Some(width) = row.filter {
                piece.head.add_width(width);
            }
            let field = first_field(line);
            if keys == 1 || field != last {
                piece.head.levels.add(Levels::of(&key));
                let hash = u128::from(hash_of(&key)) << 64;
                piece.keys.push(hash | start as u128);
            }
            last = field;
            if order == Tidiness::Check {
                if !is_tidy(&row) || before.is_some_and(|before| !ascends(&before, &row)) {
                    piece.untidy = true;
                    return Ok(piece);
                }
                before = Some(row);
            }
        }
        start = end;
    }
    Ok(piece)
}

/// Where the line after the one at `at` begins. Lines that are too long end early.
fn end_of_line(text: &[u8], at: usize) -> usize {
    let at = at.min(text.len());
    let most = (at + LONGEST_LINE + 1).min(text.len());
    memchr::memchr(b'\n', &text[at..most]).map_or(most, |end| at + end + 1)
}

/// The line before the one that begins at `start`.
fn line_before(text: &[u8], start: usize) -> &[u8] {
    let Some(end) = start.checked_sub(1) else {
        return b"";
    };
    let begin = memchr::memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
    &text[begin..end]
}

/// Where the first row begins.
fn first_row(text: &[u8]) -> usize {
    let mut start = 0;
    while start < text.len() && matches!(text[start], b'!' | b'@' | b'\n') {
        start = end_of_line(text, start);
    }
    start
}

/// Whether a row may follow another.
fn ascends(before: &Row<'_>, row: &Row<'_>) -> bool {
    match row.key.cmp(&before.key) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => match (&before.second, &row.second) {
            (Some(before), Some(second)) => second > before,
            _ => false,
        },
    }
}

/// Whether a line of a tidy map is a row.
pub(super) fn is_row(line: &[u8]) -> bool {
    !matches!(line.first(), None | Some(b'!' | b'@'))
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The part of a line before its first space.
pub(super) fn first_field(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(text: &Mapped, keys: usize, size: usize, room: &Resources) -> Option<Vec<u8>> {
        let mut end = 0;
        let passed = |part: Range<usize>| {
            assert_eq!(part.start, end);
            end = part.end;
        };
        let check = Tidiness::Check;
        let sorted = Sorted::read_in_pieces(text, keys, check, room, size, passed).unwrap()?;
        assert_eq!(end, text.len());
        let mut bytes = Vec::new();
        let written = sorted.write([7; 24], room, |part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        assert_eq!(written.unwrap(), bytes.len() as u64);
        Some(bytes)
    }

    proptest! {
        #[test]
        fn a_table_does_not_depend_on_pieces_memory_or_threads(
            keys in prop::collection::btree_set("[ab]{1,3}(,[a-z0-9]{1,3}){0,2}\\)/[a-z]{1,9}", 1..300),
            seconds in 1..4usize,
            size in 0..600usize,
            threads in 1..4usize,
            memory in prop_oneof![Just(1usize << 12), Just(1 << 24)],
            spoil in prop::option::of(0..300usize),
        ) {
            let mut rows = Vec::new();
            for key in &keys {
                for second in 0..seconds {
                    rows.push(match seconds {
                        1 => format!("{key} 1\n"),
                        _ => format!("{key} 200{second} 1\n"),
                    });
                }
            }
            if let Some(spoil) = spoil.filter(|at| at + 1 < rows.len()) {
                rows.swap(spoil, spoil + 1);
            }
            let text = Mapped::from(format!("!a {{}}\n\n{}", rows.concat()).into_bytes());
            let whole = Resources { threads: 1, ..Resources::default() };
            let small = Resources { threads, memory, ..Resources::default() };
            let fields = seconds.min(2);
            let made = table(&text, fields, usize::MAX / 2, &whole);
            prop_assert_eq!(made.is_none(), spoil.is_some_and(|at| at + 1 < rows.len()));
            prop_assert_eq!(made, table(&text, fields, size, &small));
        }
    }

    #[test]
    fn an_error_in_a_later_piece_names_its_line() {
        let text = Mapped::from(b"!a {}\na,b)/ 1\na,c)/ 1\na,d)/ x\n".to_vec());
        for size in [0, 10, 1000] {
            let (check, room) = (Tidiness::Check, Resources::default());
            let read = Sorted::read_in_pieces(&text, 1, check, &room, size, |_| {});
            let error = read.err().unwrap().to_string();
            assert!(error.contains("line 4") || error.contains(":4"), "{error}");
        }
    }
}
