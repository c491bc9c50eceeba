//! The rows of one policy, put in order and written while they come.
//!
//! Records are held back until no smaller key can come ([`super::low`]). When too many are held,
//! they are written all the same; keys that come back after that are kept apart and worked in at
//! the end, for which the rows are read once more.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use libdeflater::{CompressionLvl, Compressor};
use waypost_index::input::Stream;
use waypost_index::output::AtomicFile;
use waypost_surt::Policy;

use super::low::low;
use super::records::{Counts, Records};
use super::row::Row;
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::ukvs::Lines;

/// How much is compressed and written at once.
const BLOCK: usize = 1 << 20;

/// Of plain files so many blocks are compressed to know their gzipped size, and behind them one of
/// so many.
const SAMPLE: u64 = 8;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all: only counted.
    Count,
    /// As they are. Their gzipped size is found out, too: of large files from a sample, because
    /// compressing takes longer than all the rest.
    Plain,
    /// As gzip.
    Gzip,
}

/// What came of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) keys: u64,
    /// Bytes of the file, without compression.
    pub(crate) bytes: u64,
    /// Bytes, compressed; not known of what was only counted.
    pub(crate) gzip_bytes: Option<u64>,
    /// Whether the compressed size is known to the byte.
    pub(crate) gzip_exact: bool,
}

pub(crate) struct Order {
    policy: Policy,
    fields: usize,
    held: Records<Counts>,
    /// The largest key written.
    mark: Vec<u8>,
    late: Records<Counts>,
    /// How much may be held.
    most: usize,
    low: Vec<u8>,
    out: Rows,
}

impl Order {
    /// Rows of `policy` with `fields` keys, to be written beside files in `folder`.
    pub(crate) fn new(
        policy: Policy,
        fields: usize,
        mode: Mode,
        most: usize,
        folder: &Path,
    ) -> Result<Order> {
        Ok(Order {
            policy,
            fields,
            held: Records::default(),
            mark: Vec::new(),
            late: Records::default(),
            most,
            low: Vec::new(),
            out: Rows::new(mode, folder)?,
        })
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Takes in records of SURTs up to `last`, and writes what is complete.
    pub(crate) fn take(&mut self, batches: Vec<Records<Counts>>, last: &[u8]) -> Result<()> {
        for mut records in batches {
            records.settle();
            if !self.mark.is_empty()
                && records
                    .first_key()
                    .is_some_and(|first| first <= &self.mark[..])
            {
                let late = (0..records.len())
                    .take_while(|&index| records.key(index) <= &self.mark[..])
                    .count();
                let mut again = Records::default();
                for (key, counts) in records.iter().take(late) {
                    again.push_new(key, b"", *counts);
                }
                self.late.absorb(again);
                records.drop_first(late);
            }
            self.held.absorb(records);
        }
        let mut bound = std::mem::take(&mut self.low);
        low(self.policy, last, &mut bound);
        let complete = self.held.below(&bound);
        self.low = bound;
        self.write_first(complete, false)?;
        if self.held.size() > self.most {
            self.write_first(self.held.len(), true)?;
        }
        Ok(())
    }

    fn write_first(&mut self, count: usize, forced: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // The few rows of registered domains are kept in any case: see `low`.
        let needed = forced || matches!(self.policy, Policy::Domain(_));
        for (key, counts) in self.held.iter().take(count) {
            self.out.row(key, &row(counts), needed)?;
        }
        self.mark.clear();
        self.mark.extend_from_slice(self.held.key(count - 1));
        self.held.drop_first(count);
        Ok(())
    }

    /// Writes what is left; then, if a path is given, the file, with `header` before the rows.
    pub(crate) fn finish(
        mut self,
        header: &[u8],
        path: Option<&Path>,
        folder: &Path,
    ) -> Result<Written> {
        self.write_first(self.held.len(), false)?;
        let mut out = self.out;
        if !self.late.is_empty() {
            out = work_in(out, &self.late, self.fields, folder)?;
        }
        out.finish(header, path)
    }
}

fn row(counts: &Counts) -> Row {
    Row {
        frequency: Frequency::new(counts.captures, counts.urirs),
        spread: u64::from(counts.sources.count_ones()),
    }
}

/// Rows again, with the late ones among them.
fn work_in(rows: Rows, late: &Records<Counts>, fields: usize, folder: &Path) -> Result<Rows> {
    let mut out = Rows::new(rows.mode, folder)?;
    let (counted, counted_bytes) = (rows.only_counted, rows.only_counted_bytes);
    let mut lines = Lines::new(rows.read()?);
    let mut key = Vec::new();
    let mut late = late.iter().peekable();
    while lines.advance()? {
        let mut written = Row::parse(lines.line(), fields, &mut key)?;
        while let Some((earlier, counts)) = late.next_if(|(late, _)| *late < &key[..]) {
            out.row(earlier, &row(counts), true)?;
        }
        if let Some((_, counts)) = late.next_if(|(late, _)| *late == &key[..]) {
            written.frequency = written
                .frequency
                .plus(Frequency::new(counts.captures, counts.urirs));
            written.spread = written.spread.max(u64::from(counts.sources.count_ones()));
        }
        out.row(&key, &written, true)?;
    }
    for (key, counts) in late {
        out.row(key, &row(counts), true)?;
    }
    out.keys += counted;
    out.bytes += counted_bytes;
    Ok(out)
}

/// Rows on their way into a file.
pub(crate) struct Rows {
    mode: Mode,
    /// Where the rows are kept until the header is known.
    file: Option<File>,
    folder: std::path::PathBuf,
    buffer: Vec<u8>,
    compressor: Compressor,
    packed: Vec<u8>,
    keys: u64,
    bytes: u64,
    gzip_bytes: u64,
    blocks: u64,
    /// Bytes that were compressed, and bytes that were not.
    packed_bytes: u64,
    unpacked_bytes: u64,
    /// Rows that were counted and not kept.
    only_counted: u64,
    only_counted_bytes: u64,
}

impl Rows {
    pub(crate) fn new(mode: Mode, folder: &Path) -> Result<Rows> {
        let level = CompressionLvl::new(6).unwrap_or_default();
        Ok(Rows {
            mode,
            file: None,
            folder: folder.to_owned(),
            buffer: Vec::new(),
            compressor: Compressor::new(level),
            packed: Vec::new(),
            keys: 0,
            bytes: 0,
            gzip_bytes: 0,
            blocks: 0,
            packed_bytes: 0,
            unpacked_bytes: 0,
            only_counted: 0,
            only_counted_bytes: 0,
        })
    }

    /// Writes a row. Where rows are only counted, they are kept if they may be needed again.
    pub(crate) fn row(&mut self, key: &[u8], row: &Row, needed: bool) -> Result<()> {
        let before = self.buffer.len();
        row.write(key, &mut self.buffer);
        self.keys += 1;
        self.bytes += (self.buffer.len() - before) as u64;
        if self.mode == Mode::Count && !needed {
            self.only_counted += 1;
            self.only_counted_bytes += (self.buffer.len() - before) as u64;
            self.buffer.truncate(before);
        }
        if self.buffer.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile_in(&self.folder)
                    .map_err(|error| Error::io("write", &self.folder, error))?;
                self.file.insert(file)
            }
        };
        let sampled = self.blocks < SAMPLE || self.blocks.is_multiple_of(SAMPLE);
        self.blocks += 1;
        let mut size = 0;
        if self.mode == Mode::Gzip || (self.mode == Mode::Plain && sampled) {
            size = pack(&mut self.compressor, &self.buffer, &mut self.packed)?;
            self.gzip_bytes += size as u64;
            self.packed_bytes += self.buffer.len() as u64;
        } else {
            self.unpacked_bytes += self.buffer.len() as u64;
        }
        let written = match self.mode {
            Mode::Gzip => file.write_all(&self.packed[..size]),
            Mode::Plain | Mode::Count => file.write_all(&self.buffer),
        };
        written.map_err(|error| Error::io("write", &self.folder, error))?;
        self.buffer.clear();
        Ok(())
    }

    /// The rows written so far, to be read again.
    fn read(mut self) -> Result<impl Read> {
        self.flush()?;
        let source: Box<dyn Read + Send> = match self.file {
            Some(mut file) => {
                file.seek(SeekFrom::Start(0))
                    .map_err(|error| Error::io("read", &self.folder, error))?;
                Box::new(file)
            }
            None => Box::new(io::empty()),
        };
        Ok(Stream::new("rows on their way", source)?)
    }

    /// The gzipped size of all rows, from those that were compressed.
    fn estimate(&self) -> u64 {
        let rest = u128::from(self.gzip_bytes) * u128::from(self.unpacked_bytes)
            / u128::from(self.packed_bytes.max(1));
        self.gzip_bytes + rest as u64
    }

    /// Puts the file in its place, with `header` before the rows.
    pub(crate) fn finish(mut self, header: &[u8], path: Option<&Path>) -> Result<Written> {
        if self.mode != Mode::Count {
            self.flush()?;
        }
        let size = pack(&mut self.compressor, header, &mut self.packed)?;
        let written = Written {
            keys: self.keys,
            bytes: self.bytes + header.len() as u64,
            gzip_bytes: (self.mode != Mode::Count).then_some(self.estimate() + size as u64),
            gzip_exact: self.unpacked_bytes == 0,
        };
        let Some(path) = path.filter(|_| self.mode != Mode::Count) else {
            return Ok(written);
        };
        let mut output = AtomicFile::create(path)?;
        let copied = match self.mode {
            Mode::Gzip => output.write_all(&self.packed[..size]),
            _ => output.write_all(header),
        }
        .and_then(|()| match &mut self.file {
            Some(file) => {
                file.seek(SeekFrom::Start(0))?;
                copy(file, &mut output)
            }
            None => Ok(()),
        });
        copied.map_err(|error| Error::io("write", path, error))?;
        output.commit()?;
        Ok(written)
    }
}

/// Copies in large pieces: the files are, and small ones take a call to the system each.
fn copy(from: &mut File, to: &mut AtomicFile) -> io::Result<()> {
    let mut piece = vec![0; BLOCK];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One gzip member, at the start of `out`.
fn pack(compressor: &mut Compressor, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
    let bound = compressor.gzip_compress_bound(bytes.len());
    if out.len() < bound {
        out.resize(bound, 0);
    }
    compressor
        .gzip_compress(bytes, out)
        .map_err(|error| Error::format(format!("cannot compress: {error}")))
}
