//! Checks that the rows of an `.idx` file cover all of the data, each block once and in order.
//!
//! Otherwise reading all blocks would silently lose those without a row, or return them in the wrong
//! order.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use waypost_io::{Error, ErrorKind, RangeRead, Result};

use super::idx::{Flavour, Row};
use super::reader::ZipNum;
use super::rows::Rows;
use crate::input::is_index_name;
use crate::search::{check, sample};

/// The most bytes of empty gzip members without a row.
const MOST_EMPTY: u64 = 64 << 10;

/// A block, and the number of its row.
struct Extent {
    offset: u64,
    length: u64,
    line: u64,
}

impl ZipNum {
    /// Checks that the rows are in order and that their blocks are all of the data, each once.
    ///
    /// # Errors
    /// Names the wrong row, or the bytes of a file without a row.
    pub fn check_rows(&self) -> Result<()> {
        let mut parts: BTreeMap<&[u8], Vec<Extent>> = BTreeMap::new();
        let mut before: Option<&[u8]> = None;
        let mut line = self.header_lines()?;
        for at in self.row_starts() {
            let at = at?;
            let Some((row, _)) = self.row(at)? else {
                break;
            };
            line += 1;
            let row = self.parse(row, at)?;
            if let Some(before) = before.filter(|before| row.key < *before) {
                return Err(Error::not_sorted(before, row.key)
                    .in_file(self.name())
                    .at_line(line));
            }
            before = Some(row.key);
            if row.offset.checked_add(row.length).is_none() {
                let message = "a block that ends beyond any file".to_owned();
                return Err(self.wrong(message, Some(line)));
            }
            parts.entry(row.part).or_default().push(Extent {
                offset: row.offset,
                length: row.length,
                line,
            });
        }
        for (part, extents) in &mut parts {
            extents.sort_by_key(|extent| (extent.offset, extent.length, extent.line));
            self.check_part(part, extents)?;
        }
        match self.parts_without_rows(|part| parts.contains_key(part)) {
            Some(path) => Err(self.wrong(format!("no row refers to {path}"), None)),
            None => Ok(()),
        }
    }

    /// Checks that a sample of the rows is in order, if the `.idx` file is on this machine.
    pub(crate) fn check_sample(&self) -> Result<()> {
        let Rows::Mapped(map) = &self.idx else {
            return Ok(());
        };
        let rows = &map[self.rows..];
        let checked = sample(rows, self.header_lines()?, |row| self.flavour().key(row));
        checked
            .map(|_| ())
            .map_err(|error| error.in_file(self.name()))
    }

    /// Checks that the `.idx` file was not truncated while it was read.
    pub(crate) fn check_mapped(&self) -> Result<()> {
        match &self.idx {
            Rows::Mapped(map) => map.check(),
            Rows::Paged(_) => Ok(()),
        }
    }

    /// Checks that the lines of a block are in order: a search in it misses others.
    pub(crate) fn check_block(&self, row: &Row<'_>, lines: &[u8]) -> Result<()> {
        let checked = check(lines, 0, |line| line, |_| true);
        checked
            .map(|_| ())
            .map_err(|error| self.in_block(row, error))
    }

    /// An error in a block, at its place in the data file.
    pub(crate) fn in_block(&self, row: &Row<'_>, error: Error) -> Error {
        let (kind, _) = error.into_parts();
        match self.file(row.part) {
            Ok(file) => Error::new(kind)
                .in_file(file.bytes.name())
                .at_byte(row.offset),
            Err(error) => error,
        }
    }

    /// Checks that the last row ends where its data end: what an `.idx` file that was cut has no rows for
    /// would be called absent.
    ///
    /// # Errors
    /// Names the last row.
    pub(crate) fn check_end(&self) -> Result<()> {
        if self.ends.get().is_some() {
            return Ok(());
        }
        let cut = || Error::new(ErrorKind::EndsEarly).in_file(self.name());
        let Some(at) = self.row_before(self.idx.len())? else {
            return match self.next_part(b"") {
                Some(_) => Err(cut()),
                None => Ok(()),
            };
        };
        if let Some((row, _)) = self.row(at)? {
            let row = self.parse(row, at)?;
            let file = self.file(row.part)?.bytes;
            let (end, size) = (row.offset.saturating_add(row.length), file.size()?);
            let more = end < size && !is_empty(&*file, end, size);
            // A part with a later name may come earlier, but not after a cut.
            let without_rows = match self.next_part(row.part) {
                Some(next) => !self.part_names()?.iter().any(|name| bare(name) == next),
                None => false,
            };
            if end > size || more || without_rows {
                return Err(cut().at_byte(at as u64));
            }
        }
        let _ = self.ends.set(());
        Ok(())
    }

    /// The data file in the folder that is named like a part, and is the next of them; any, if there is no
    /// part.
    fn next_part(&self, part: &[u8]) -> Option<Vec<u8>> {
        if self.locations.is_remote() || self.flavour() == Flavour::Wacz {
            return None;
        }
        let pattern = |name: &[u8]| -> Vec<u8> {
            name.iter()
                .copied()
                .filter(|byte| !byte.is_ascii_digit())
                .collect()
        };
        let folder = self
            .path()
            .parent()
            .filter(|folder| *folder != Path::new(""));
        let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
        let is_data = |entry: &DirEntry| {
            entry
                .metadata()
                .is_ok_and(|about| about.is_file() && about.len() > 0)
                && is_index_name(&entry.file_name().to_string_lossy())
        };
        let names = entries.flatten().filter(is_data);
        names
            .map(|entry| bare(entry.file_name().as_encoded_bytes()).to_vec())
            .filter(|name| part.is_empty() || pattern(name) == pattern(bare(part)))
            .filter(|name| &name[..] > bare(part))
            .min()
    }

    fn check_part(&self, part: &[u8], extents: &[Extent]) -> Result<()> {
        let file = self.file(part)?.bytes;
        let size = file.size()?;
        let shown = file.name();
        let gap = |from: u64, to: u64| -> Result<()> {
            if from == to || is_empty(&*file, from, to) {
                return Ok(());
            }
            let message = format!("no row covers bytes {from} to {to} of {shown}");
            Err(self.wrong(message, None))
        };
        let mut end = 0;
        for extent in extents {
            let line = Some(extent.line);
            let behind = extent.offset + extent.length;
            if extent.offset < end {
                let message = format!(
                    "the block at byte {} of {shown} overlaps that of another row",
                    extent.offset
                );
                return Err(self.wrong(message, line));
            }
            if behind > size {
                let message =
                    format!("the block ends at byte {behind} of {shown}, which has {size} bytes");
                return Err(self.wrong(message, line));
            }
            gap(end, extent.offset)?;
            end = behind;
        }
        gap(end, size)
    }

    fn wrong(&self, message: String, line: Option<u64>) -> Error {
        let error = Error::new(ErrorKind::Format(message)).in_file(self.name());
        match line {
            Some(line) => error.at_line(line),
            None => error,
        }
    }
}

/// The name of a part, which rows often have without its extension.
fn bare(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".gz").unwrap_or(name)
}

/// Whether these bytes are empty gzip members, which some writers append.
fn is_empty(file: &dyn RangeRead, from: u64, to: u64) -> bool {
    if to - from > MOST_EMPTY {
        return false;
    }
    let mut packed = vec![0; (to - from) as usize];
    if file.read_at(from, &mut packed).is_err() {
        return false;
    }
    let mut byte = [0];
    matches!(MultiGzDecoder::new(&packed[..]).read(&mut byte), Ok(0))
}
