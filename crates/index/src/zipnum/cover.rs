//! Checks that the rows of an `.idx` file cover all of the data, each block once and in order.
//!
//! Otherwise reading all blocks would silently lose those without a row, or return them in the wrong
//! order.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use waypost_io::{Error, ErrorKind, RangeRead, Result};

use super::reader::{LARGEST_BLOCK, ZipNum};

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

/// Whether these bytes are empty gzip members, which some writers append.
fn is_empty(file: &dyn RangeRead, from: u64, to: u64) -> bool {
    if to - from > LARGEST_BLOCK {
        return false;
    }
    let mut packed = vec![0; (to - from) as usize];
    if file.read_at(from, &mut packed).is_err() {
        return false;
    }
    let mut byte = [0];
    matches!(MultiGzDecoder::new(&packed[..]).read(&mut byte), Ok(0))
}
