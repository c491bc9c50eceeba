//! Writing the rows of a profile to a file.

use std::io::{BufWriter, Write};
use std::path::Path;

use waypost_io::gzip::{self, Gzip, GzipSize, LEVEL};
use waypost_io::{AtomicFile, IoContext};

use super::order::{Sink, TextRow};
use super::records::Counts;
use super::row::{self, Row};
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::ukvs::RowSum;

/// How much is compressed and written at once.
const BLOCK: usize = 128 << 10;

/// To estimate the gzipped size of plain files, the first block and one in this many are
/// compressed.
const SAMPLE: u64 = 64;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all: only counted.
    Count,
    /// Uncompressed. The gzipped size is also determined, for large files from a sample, because
    /// compressing takes longer than everything else.
    Plain,
    /// Gzipped.
    Gzip,
}

/// The result for a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) keys: u64,
    /// Size of the file in bytes, uncompressed.
    pub(crate) bytes: u64,
    /// Compressed size in bytes; `None` if it was only counted.
    pub(crate) gzip_bytes: Option<u64>,
    /// Whether the compressed size is exact.
    pub(crate) gzip_exact: bool,
}

/// The header of a file.
pub(crate) struct Header {
    /// Empty if it is not known before all rows are.
    text: Vec<u8>,
    /// How many bytes it takes in a file with more than one block.
    room: usize,
}

impl Header {
    /// A header that takes what it needs.
    pub(crate) fn known(text: Vec<u8>) -> Header {
        let room = text.len();
        Header { text, room }
    }

    /// A header for which so many bytes are left, so that the file is the same whether it is known or not.
    pub(crate) fn with_room(text: Option<Vec<u8>>, room: usize) -> Header {
        Header {
            text: text.unwrap_or_default(),
            room,
        }
    }
}

/// Writes rows.
pub(crate) struct Rows {
    mode: Mode,
    file: Option<BufWriter<AtomicFile>>,
    header: Header,
    /// Whether a block was written.
    begun: bool,
    /// The rows, which the first line of the header describes.
    sum: RowSum,
    /// The current block, as far as it was not passed on.
    buffer: Vec<u8>,
    /// How many bytes of the current block were passed on.
    passed: usize,
    gzip: Option<Gzip>,
    packed: Vec<u8>,
    keys: u64,
    bytes: u64,
    gzip_size: GzipSize,
    text: RowText,
}

impl Rows {
    /// Starts a file; without a path, rows are only counted.
    pub(crate) fn create(path: Option<&Path>, gzip: bool, header: Header) -> Result<Rows> {
        let mode = match (path, gzip) {
            (None, _) => Mode::Count,
            (Some(_), false) => Mode::Plain,
            (Some(_), true) => Mode::Gzip,
        };
        Ok(Rows {
            mode,
            file: path
                .map(|path| AtomicFile::create_rewritable(path).map(BufWriter::new))
                .transpose()?,
            header,
            begun: false,
            sum: RowSum::default(),
            bytes: 0,
            buffer: Vec::new(),
            passed: 0,
            gzip: (mode == Mode::Gzip).then(|| Gzip::new(LEVEL)),
            packed: Vec::new(),
            keys: 0,
            gzip_size: GzipSize::new(SAMPLE),
            text: RowText::default(),
        })
    }

    /// Sets a header that was not known before. Returns whether there is room for it.
    pub(crate) fn set_header(&mut self, text: Vec<u8>) -> bool {
        let fits = text.len() <= self.header.room;
        self.header.text = text;
        fits
    }

    /// Writes a row.
    pub(crate) fn push(&mut self, key: &[u8], row: &Row) -> Result<()> {
        let before = self.buffer.len();
        row.write(key, &mut self.buffer);
        self.pushed(before)
    }

    /// A row was added to the buffer, which had so many bytes before.
    fn pushed(&mut self, before: usize) -> Result<()> {
        self.keys += 1;
        self.bytes += (self.buffer.len() - before) as u64;
        if self.mode == Mode::Count {
            self.buffer.clear();
            return Ok(());
        }
        self.sum.add_lines(&self.buffer[before..]);
        if self.block() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// The length of the current block.
    fn block(&self) -> usize {
        self.passed + self.buffer.len()
    }

    /// How many bytes are missing from the current block.
    fn missing(&self) -> usize {
        BLOCK.saturating_sub(self.block())
    }

    /// Adds text to the current block.
    fn append(&mut self, text: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) if self.mode == Mode::Plain && !self.gzip_size.compresses_next() => {
                write(file, &self.buffer)?;
                write(file, text)?;
                self.passed += self.buffer.len() + text.len();
                self.buffer.clear();
            }
            _ => self.buffer.extend_from_slice(text),
        }
        Ok(())
    }

    /// Ends the current block.
    fn flush(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            let (start, _) = self.padded_header()?;
            if let Some(file) = &mut self.file {
                write(file, &start)?;
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        match &mut self.gzip {
            Some(gzip) => {
                gzip.compress(&self.buffer, &mut self.packed)?;
                self.gzip_size
                    .add_compressed(self.buffer.len() as u64, self.packed.len() as u64);
                write(file, &self.packed)?;
            }
            None => {
                match self.gzip_size.compresses_next() {
                    true => self.gzip_size.add(&self.buffer),
                    false => (self.gzip_size).skip((self.passed + self.buffer.len()) as u64),
                }
                write(file, &self.buffer)?;
                self.passed = 0;
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// What takes the room for the header, and its gzipped size: the header, with spaces before its last line
    /// feed. Its gzip member is not compressed, so that the size depends on that of the room only.
    fn padded_header(&self) -> Result<(Vec<u8>, u64)> {
        let mut text = match &self.header.text[..] {
            b"" => b"\n".to_vec(),
            text => text.to_vec(),
        };
        let Some(spaces) = self.header.room.checked_sub(text.len()) else {
            let why = "the metadata has more bytes than were left for it";
            return Err(Error::format(why));
        };
        let end = text.len() - 1;
        text.splice(end..end, std::iter::repeat_n(b' ', spaces));
        text.splice(..0, self.sum.header());
        let member = gzip::stored(&text)?;
        let gzipped = member.len() as u64;
        let is_gzip = self.mode == Mode::Gzip;
        Ok((if is_gzip { member } else { text }, gzipped))
    }

    /// Moves the file to its final path.
    pub(crate) fn finish(mut self) -> Result<Written> {
        // The same for files that are only counted.
        let has_room = self.bytes >= BLOCK as u64;
        let mut start = Vec::new();
        let mut gzipped_header = 0;
        let described = self.sum.header().len();
        if has_room {
            (start, gzipped_header) = self.padded_header()?;
            self.bytes += (described + self.header.room) as u64;
        } else {
            self.bytes += (described + self.header.text.len()) as u64;
            let header = [&self.sum.header()[..], &self.header.text].concat();
            self.buffer.splice(..0, header);
            self.begun = true;
        }
        if self.block() > 0 {
            self.flush()?;
        }
        if let Some(mut file) = self.file {
            file.flush().doing("write", file.get_ref().path())?;
            file.into_parts().0.commit_with_start(&start)?;
        }
        let gzipped = gzipped_header + self.gzip_size.bytes();
        Ok(Written {
            keys: self.keys,
            bytes: self.bytes,
            gzip_bytes: Some(gzipped).filter(|_| self.mode != Mode::Count),
            gzip_exact: self.gzip_size.is_exact(),
        })
    }
}

fn write(file: &mut BufWriter<AtomicFile>, bytes: &[u8]) -> Result<()> {
    Ok(file
        .write_all(bytes)
        .doing("write", file.get_ref().path())?)
}

impl Sink<Counts> for Rows {
    fn row(&mut self, key: &[u8], counts: &Counts) -> Result<()> {
        let before = self.buffer.len();
        self.text.write(key, counts, &mut self.buffer);
        self.pushed(before)
    }

    fn text(&mut self, text: &[u8], rows: &[TextRow], start: usize) -> Result<()> {
        self.keys += rows.len() as u64;
        self.bytes += text.len() as u64;
        if self.mode == Mode::Count {
            return Ok(());
        }
        self.sum.add_lines(text);
        // Blocks end where they would if the rows came one by one.
        let (mut from, mut rows) = (0, rows);
        // Usually everything fits, and no end has to be found.
        while text.len() >= from + self.missing() {
            let full = from + self.missing();
            let full = rows.partition_point(|&end| (end as usize - start) < full);
            let Some(&end) = rows.get(full) else {
                break;
            };
            let end = end as usize - start;
            self.append(&text[from..end])?;
            self.flush()?;
            from = end;
            rows = &rows[full + 1..];
        }
        self.append(&text[from..])
    }
}

/// Writes rows as text. Most have one of a few values, so these are kept.
#[derive(Default)]
pub(crate) struct RowText {
    values: [(Counts, Vec<u8>); VALUES],
}

/// How many values are kept.
const VALUES: usize = 16;

impl RowText {
    /// Appends a row with its line feed.
    pub(crate) fn write(&mut self, key: &[u8], counts: &Counts, out: &mut Vec<u8>) {
        let (known, value) = &mut self.values[counts.captures as usize % VALUES];
        if value.is_empty() || known != counts {
            *known = *counts;
            value.clear();
            row_of(counts).write_value(value);
        }
        row::write_key(key, out);
        out.extend_from_slice(value);
    }
}

fn row_of(counts: &Counts) -> Row {
    Row {
        frequency: Frequency::new(counts.captures, counts.urirs),
        spread: u64::from(counts.sources.count_ones()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waypost_io::Source;

    const HEADER: &[u8] = b"!header\n";

    /// Writes rows, and returns the text of the file and what was counted.
    fn written(
        gzip: bool,
        header: Header,
        write: impl FnOnce(&mut Rows) -> Result<()>,
    ) -> (Vec<u8>, Written) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        let is_known = !header.text.is_empty();
        let mut rows = Rows::create(Some(&path), gzip, header).unwrap();
        write(&mut rows).unwrap();
        assert!(is_known || rows.set_header(HEADER.to_vec()));
        let written = rows.finish().unwrap();
        if gzip {
            let size = std::fs::metadata(&path).unwrap().len();
            assert_eq!(written.gzip_bytes, Some(size));
        }
        let mut text = vec![0; 4 << 20];
        let (length, error) = Source::new(path).open().unwrap().read_full(&mut text);
        assert!(error.is_none());
        text.truncate(length);
        assert_eq!(written.bytes, text.len() as u64);
        (text, written)
    }

    #[test]
    fn a_header_is_padded_only_in_files_with_more_than_one_block() {
        for gzip in [false, true] {
            for (rows, expected) in [(1, "!header\n"), (10_000, "!header            \n")] {
                let (text, _) = written(gzip, Header::with_room(None, 20), |out| {
                    (0..rows).try_for_each(|_| out.row(b"com,a)/", &Counts::of_captures(1)))
                });
                let text = &text[RowSum::default().header().len()..];
                assert!(text.starts_with(expected.as_bytes()));
                assert_eq!(text[expected.len()], b'c');
            }
        }
    }

    #[test]
    fn a_header_must_fit_into_its_room() {
        let header = Header::with_room(None, HEADER.len());
        let mut rows = Rows::create(None, false, header).unwrap();
        assert!(rows.set_header(HEADER.to_vec()));
        assert!(!rows.set_header(b"!header \n".to_vec()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn rows_as_text_give_the_same_blocks_as_rows_one_by_one(
            keys in prop_oneof![0usize..1500, 4000usize..6000]
                .prop_flat_map(|count| prop::collection::vec("[a-z]{1,200}", count)),
            steps in prop::collection::vec(prop_oneof![Just(1usize), 2usize..50, 50usize..3000], 1..20),
            gzip: bool,
            room in prop::option::of(8usize..40),
        ) {
            let counts = |key: &str| Counts::of_captures(key.len() as u64);
            let (mut text, mut ends) = (Vec::new(), vec![0]);
            for key in &keys {
                RowText::default().write(key.as_bytes(), &counts(key), &mut text);
                ends.push(text.len() as TextRow);
            }
            let known = || match room {
                Some(room) => Header::with_room(Some(HEADER.to_vec()), room),
                None => Header::known(HEADER.to_vec()),
            };
            let one_by_one = written(gzip, known(), |rows| {
                keys.iter().try_for_each(|key| rows.row(key.as_bytes(), &counts(key)))
            });
            // A header that is known only at the end changes nothing.
            let later = room.map_or_else(known, |room| Header::with_room(None, room));
            let by_steps = written(gzip, later, |rows| {
                let (mut from, mut steps) = (0, steps.iter().cycle());
                while from < keys.len() {
                    let to = (from + steps.next().unwrap()).min(keys.len());
                    if to == from + 1 {
                        rows.row(keys[from].as_bytes(), &counts(&keys[from]))?;
                    } else {
                        let (start, end) = (ends[from] as usize, ends[to] as usize);
                        rows.text(&text[start..end], &ends[from + 1..=to], start)?;
                    }
                    from = to;
                }
                Ok(())
            });
            prop_assert!(by_steps == one_by_one);
            prop_assert!(by_steps.0.ends_with(&text));
        }
    }
}
