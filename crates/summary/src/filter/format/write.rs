//! Writing a filter: shards are buffered as they arrive, because the data before them describes
//! them all.

use std::io::{self, BufWriter, Read, Seek, Write};

use std::path::{Path, PathBuf};

use tempfile::SpooledTempFile;
use waypost_io::AtomicFile;
use xxhash_rust::xxh3::xxh3_64;

use super::head::{Extent, Head, Kind, LONGEST_METADATA};
use super::is_padded;
use super::metadata::Metadata;
use super::table::{ENTRY, Entry};
use crate::error::{Error, Result};

/// Shards up to this total size are buffered in memory.
const IN_MEMORY: usize = 32 << 20;

/// Where a filter is written.
pub(crate) enum Destination<'a> {
    /// A file, which appears whole or not at all.
    Path(&'a Path),
    Writer(&'a mut dyn Write),
}

impl<'a> From<&'a Path> for Destination<'a> {
    fn from(path: &'a Path) -> Destination<'a> {
        Destination::Path(path)
    }
}

/// Takes shards in order and writes the file.
pub(crate) struct Writer {
    entries: Vec<Entry>,
    starts: Vec<u8>,
    aside: BufWriter<SpooledTempFile>,
    folder: PathBuf,
}

impl Writer {
    /// `folder` is for temporary files.
    pub(crate) fn new(folder: &Path) -> Writer {
        Writer {
            entries: Vec::new(),
            starts: Vec::new(),
            aside: BufWriter::with_capacity(1 << 16, SpooledTempFile::new_in(IN_MEMORY, folder)),
            folder: folder.to_owned(),
        }
    }

    /// Adds a shard. Its offset and checksum are computed here.
    pub(crate) fn shard(&mut self, mut entry: Entry, bytes: &[u8]) -> Result<()> {
        entry.checksum = xxh3_64(bytes);
        self.entries.push(entry);
        self.aside
            .write_all(bytes)
            .map_err(|error| Error::io("write a temporary file in", &self.folder, error))
    }

    /// Adds a shard of a ribbon filter with the stored starts of its buckets.
    pub(crate) fn ribbon(&mut self, entry: Entry, bytes: &[u8], starts: &[u8]) -> Result<()> {
        self.starts.extend_from_slice(starts);
        self.shard(entry, bytes)
    }

    /// The size of the file.
    pub(crate) fn size(&self, kind: Kind, metadata: &Metadata) -> Result<u64> {
        let mut entries = self.entries.clone();
        let starts = self.starts.len();
        Ok(arrange(kind, metadata.encode().len(), starts, &mut entries)?.1)
    }

    /// Writes the filter. Returns its size.
    pub(crate) fn finish<'a>(
        self,
        head: &Head,
        metadata: &Metadata,
        out: impl Into<Destination<'a>>,
    ) -> Result<u64> {
        let folder = self.folder;
        let fail = |error| Error::io("read a temporary file in", &folder, error);
        let mut aside = self
            .aside
            .into_inner()
            .map_err(|error| fail(error.into_error()))?;
        aside.rewind().map_err(fail)?;
        let (entries, starts) = (self.entries, &self.starts);
        write(head, metadata, entries, starts, out, |_, length, out| {
            let copied = io::copy(&mut Read::by_ref(&mut aside).take(length), out)?;
            if copied == length {
                Ok(())
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        })
    }
}

/// Checks that a file can be written to a path, before hours are spent: the file itself is created
/// only when all of its content is ready. So a build that is killed leaves nothing there.
pub(crate) fn check_place(out: &Path) -> Result<()> {
    // Pipes and devices are opened only once: closing them signals the end to their reader.
    let special = std::fs::metadata(out).is_ok_and(|metadata| !metadata.is_file());
    if out.as_os_str() != "-" && !special {
        AtomicFile::create(out)?;
    }
    Ok(())
}

/// Writes a filter. `shard` writes the bytes of one shard, given its number and length; shards are
/// requested in order.
pub(crate) fn write<'a>(
    head: &Head,
    metadata: &Metadata,
    entries: Vec<Entry>,
    starts: &[u8],
    out: impl Into<Destination<'a>>,
    shard: impl FnMut(usize, u64, &mut dyn Write) -> io::Result<()>,
) -> Result<u64> {
    let path = match out.into() {
        Destination::Path(path) => path,
        Destination::Writer(out) => {
            let fail = |error| Error::io("write", Path::new("the filter"), error);
            return write_to(head, metadata, entries, starts, out, &fail, shard);
        }
    };
    let mut file = AtomicFile::create(path)?;
    let fail = |error| Error::io("write", path, error);
    let size = write_to(head, metadata, entries, starts, &mut file, &fail, shard)?;
    file.commit()?;
    Ok(size)
}

fn write_to(
    head: &Head,
    metadata: &Metadata,
    mut entries: Vec<Entry>,
    starts: &[u8],
    out: &mut dyn Write,
    fail: &dyn Fn(io::Error) -> Error,
    mut shard: impl FnMut(usize, u64, &mut dyn Write) -> io::Result<()>,
) -> Result<u64> {
    let metadata = metadata.encode();
    let (extent, size) = arrange(head.kind, metadata.len(), starts.len(), &mut entries)?;
    let mut table = Vec::with_capacity(entries.len() * ENTRY);
    for entry in &entries {
        entry.encode(&mut table);
    }
    table.extend_from_slice(starts);
    let mut out = BufWriter::with_capacity(1 << 20, out);
    out.write_all(&head.encode(extent, &[&metadata, &table]))
        .map_err(fail)?;
    out.write_all(&metadata).map_err(fail)?;
    out.write_all(&table).map_err(fail)?;
    let mut at = extent.end();
    for (number, entry) in entries.iter().enumerate() {
        let gap = (entry.offset - at) as usize;
        out.write_all(&[0; 64][..gap]).map_err(fail)?;
        let length = entry.length(head.kind).unwrap_or(0);
        shard(number, length, &mut out).map_err(fail)?;
        at = entry.offset + length;
    }
    out.flush().map_err(fail)?;
    Ok(size)
}

/// Assigns an offset to every shard of a file with this much metadata. Returns the layout for the
/// head, and the size of the file.
fn arrange(
    kind: Kind,
    metadata: usize,
    starts: usize,
    entries: &mut [Entry],
) -> Result<(Extent, u64)> {
    let too_much = |what: &str| Error::invalid(format!("too much for one filter: {what}"));
    let mut extent = Extent {
        metadata: u32::try_from(metadata)
            .ok()
            .filter(|&length| length <= LONGEST_METADATA)
            .ok_or_else(|| too_much("the metadata"))?,
        shards: u32::try_from(entries.len()).map_err(|_| too_much("the shards"))?,
        starts: u32::try_from(starts).map_err(|_| too_much("the buckets"))?,
        padded: false,
    };
    let place = |entries: &mut [Entry], padded: bool| -> Result<u64> {
        let mut end = extent.end();
        for entry in entries.iter_mut() {
            entry.offset = if padded {
                end.next_multiple_of(64)
            } else {
                end
            };
            let length = entry.length(kind).ok_or_else(|| too_much("a shard"))?;
            end = entry.offset + length;
        }
        Ok(end)
    };
    let mut size = place(entries, false)?;
    // Padding only ever adds, so a file that is large without it is large with it.
    if is_padded(size, entries) {
        size = place(entries, true)?;
        extent.padded = true;
    }
    Ok((extent, size))
}
