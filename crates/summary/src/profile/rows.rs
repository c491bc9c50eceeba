//! Writing the rows of a profile to a file.

use std::io::Write;
use std::path::Path;

use libdeflater::{CompressionLvl, Compressor};
use waypost_io::AtomicFile;

use super::row::Row;
use crate::error::{Error, Result};

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
    compressor: Option<Compressor>,
    packed: Vec<u8>,
    keys: u64,
    bytes: u64,
    gzip_bytes: u64,
    blocks: u64,
    /// Bytes that were compressed, and bytes that were not.
    packed_bytes: u64,
    unpacked_bytes: u64,
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
            compressor: None,
            packed: Vec::new(),
            keys: 0,
            bytes: header.len() as u64,
            gzip_bytes: 0,
            blocks: 0,
            packed_bytes: 0,
            unpacked_bytes: 0,
        })
    }

    /// Writes a row.
    pub(crate) fn row(&mut self, key: &[u8], row: &Row) -> Result<()> {
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
        let sampled = self.blocks.is_multiple_of(SAMPLE);
        self.blocks += 1;
        if self.mode == Mode::Gzip || sampled {
            let compressor = self
                .compressor
                .get_or_insert_with(|| Compressor::new(CompressionLvl::new(6).unwrap_or_default()));
            let size = pack(compressor, &self.buffer, &mut self.packed)?;
            self.gzip_bytes += size as u64;
            self.packed_bytes += self.buffer.len() as u64;
            self.packed.truncate(size);
            if self.mode == Mode::Plain {
                // There is one of these per policy, so rarely needed buffers are not kept.
                (self.compressor, self.packed) = (None, Vec::new());
            }
        } else {
            self.unpacked_bytes += self.buffer.len() as u64;
        }
        let written = match self.mode {
            Mode::Gzip => file.write_all(&self.packed),
            Mode::Plain | Mode::Count => file.write_all(&self.buffer),
        };
        written.map_err(|error| Error::io("write", file.path(), error))?;
        self.buffer.clear();
        Ok(())
    }

    /// The gzipped size of all rows, estimated from those that were compressed.
    fn estimate(&self) -> u64 {
        let rest = u128::from(self.gzip_bytes) * u128::from(self.unpacked_bytes)
            / u128::from(self.packed_bytes.max(1));
        self.gzip_bytes + rest as u64
    }

    /// Moves the file to its final path.
    pub(crate) fn finish(mut self) -> Result<Written> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        let written = Written {
            keys: self.keys,
            bytes: self.bytes,
            gzip_bytes: (self.mode != Mode::Count).then(|| self.estimate()),
            gzip_exact: self.unpacked_bytes == 0,
        };
        if let Some(file) = self.file {
            file.commit()?;
        }
        Ok(written)
    }
}

/// One gzip member, at the start of `out`.
fn pack(compressor: &mut Compressor, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
    out.resize(compressor.gzip_compress_bound(bytes.len()), 0);
    compressor
        .gzip_compress(bytes, out)
        .map_err(|error| Error::format(format!("cannot compress: {error}")))
}
