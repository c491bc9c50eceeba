//! Writing the rows of a profile to a file.

use std::io::Write;
use std::path::Path;

use waypost_io::AtomicFile;
use waypost_io::gzip::{Gzip, GzipSize, LEVEL};

use super::order::{Sink, TextRow};
use super::records::Counts;
use super::row::Row;
use crate::error::{Error, Result};
use crate::frequency::Frequency;

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

/// Writes rows.
pub(crate) struct Rows {
    mode: Mode,
    file: Option<AtomicFile>,
    buffer: Vec<u8>,
    gzip: Option<Gzip>,
    packed: Vec<u8>,
    keys: u64,
    bytes: u64,
    gzip_size: GzipSize,
}

impl Rows {
    /// Starts a file with `header`; without a path, rows are only counted.
    pub(crate) fn create(path: Option<&Path>, gzip: bool, header: &[u8]) -> Result<Rows> {
        let mode = match (path, gzip) {
            (None, _) => Mode::Count,
            (Some(_), false) => Mode::Plain,
            (Some(_), true) => Mode::Gzip,
        };
        Ok(Rows {
            mode,
            file: path.map(AtomicFile::create).transpose()?,
            buffer: match mode {
                Mode::Count => Vec::new(),
                Mode::Plain | Mode::Gzip => header.to_vec(),
            },
            gzip: (mode == Mode::Gzip).then(|| Gzip::new(LEVEL)),
            packed: Vec::new(),
            keys: 0,
            bytes: header.len() as u64,
            gzip_size: GzipSize::new(SAMPLE),
        })
    }

    /// Writes a row.
    pub(crate) fn push(&mut self, key: &[u8], row: &Row) -> Result<()> {
        let before = self.buffer.len();
        row.write(key, &mut self.buffer);
        self.keys += 1;
        self.bytes += (self.buffer.len() - before) as u64;
        if self.mode == Mode::Count {
            self.buffer.clear();
        } else if self.buffer.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = match &mut self.gzip {
            Some(gzip) => {
                gzip.compress(&self.buffer, &mut self.packed)?;
                self.gzip_size
                    .add_compressed(self.buffer.len() as u64, self.packed.len() as u64);
                file.write_all(&self.packed)
            }
            None => {
                self.gzip_size.add(&self.buffer);
                file.write_all(&self.buffer)
            }
        };
        written.map_err(|error| Error::io("write", file.path(), error))?;
        self.buffer.clear();
        Ok(())
    }

    /// Moves the file to its final path.
    pub(crate) fn finish(mut self) -> Result<Written> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        let written = Written {
            keys: self.keys,
            bytes: self.bytes,
            gzip_bytes: (self.mode != Mode::Count).then(|| self.gzip_size.bytes()),
            gzip_exact: self.gzip_size.is_exact(),
        };
        if let Some(file) = self.file {
            file.commit()?;
        }
        Ok(written)
    }
}

impl Sink<Counts> for Rows {
    fn row(&mut self, key: &[u8], counts: &Counts) -> Result<()> {
        self.push(key, &row_of(counts))
    }

    fn text(&mut self, text: &[u8], rows: &[TextRow]) -> Result<()> {
        self.keys += rows.len() as u64;
        self.bytes += text.len() as u64;
        if self.mode == Mode::Count {
            return Ok(());
        }
        // Blocks end where they would if the rows came one by one.
        let (mut start, mut rows) = (0, rows);
        while !rows.is_empty() {
            let room = BLOCK.saturating_sub(self.buffer.len());
            let full = rows.partition_point(|&end| (end as usize) < start + room);
            let Some(&end) = rows.get(full) else {
                break;
            };
            self.buffer.extend_from_slice(&text[start..end as usize]);
            self.flush()?;
            start = end as usize;
            rows = &rows[full + 1..];
        }
        self.buffer.extend_from_slice(&text[start..]);
        Ok(())
    }
}

/// Appends a row with its line feed.
pub(crate) fn write_row(key: &[u8], counts: &Counts, out: &mut Vec<u8>) {
    row_of(counts).write(key, out);
}

fn row_of(counts: &Counts) -> Row {
    Row {
        frequency: Frequency::new(counts.captures, counts.urirs),
        spread: u64::from(counts.sources.count_ones()),
    }
}
