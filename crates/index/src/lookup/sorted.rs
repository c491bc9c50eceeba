//! Checks that the lines of an index are in order: a search misses those that are not.
//!
//! A sample is enough to find most unsorted files when they are opened: lines at many positions, and both
//! ends as a whole, where the lines of another index are usually appended.

use memchr::memchr_iter;
use waypost_io::{Error, ErrorKind, Result};

use super::index::{Index, Kind};
use crate::capture::Fields;
use crate::layout::Line;
use crate::search::{check, line_around, sample};
use crate::zipnum::{Blocks, ZipNum};

/// Files up to this size are read as a whole before a lookup: it takes less than a second.
const MODERATE: usize = 1 << 30;

impl Index {
    /// Whether all lines were read, and are in order.
    pub fn is_checked(&self) -> bool {
        self.checked.get().is_some()
    }

    /// Trusts that all lines are in order.
    pub fn trust_order(&self) {
        let _ = self.checked.set(());
    }

    /// Checks a sample of the lines of a flat file, or of the rows of a ZipNum index, and whether its end is
    /// there.
    ///
    /// # Errors
    /// Names the first line that is out of order, or the last one if it is incomplete.
    pub fn check_sample(&self) -> Result<()> {
        match &self.kind {
            Kind::Flat(map) => {
                let (lines, cut) = self.whole_lines()?;
                let all = sample(lines, 0, |line| line);
                map.check()?;
                if all.map_err(|error| self.name(error))? {
                    self.trust_order();
                }
                map.release(0..map.len());
                cut.map_or(Ok(()), Err)
            }
            Kind::ZipNum(zipnum) => {
                zipnum.check_sample()?;
                zipnum.check_end()
            }
        }
    }

    /// Checks all lines of a flat file of moderate size, else a sample.
    ///
    /// # Errors
    /// As for [`check_sample`](Index::check_sample).
    pub fn check_before_lookup(&self) -> Result<()> {
        self.check_sample()?;
        if self.is_flat() && self.flat().len() <= MODERATE {
            self.check_order(|| true)?;
        }
        Ok(())
    }

    /// Checks that all lines are in order, as long as `go_on` says so. A ZipNum index must also have a row
    /// for each block.
    ///
    /// # Errors
    /// Names the first line, or the block with the first line, that is out of order.
    pub fn check_order(&self, mut go_on: impl FnMut() -> bool) -> Result<()> {
        if self.is_checked() {
            return Ok(());
        }
        let all = match &self.kind {
            Kind::Flat(map) => {
                let mut from = 0;
                let all = check(
                    self.whole_lines()?.0,
                    0,
                    |line| line,
                    |to| {
                        map.release(from..to);
                        from = to;
                        go_on()
                    },
                );
                map.check()?;
                all.map_err(|error| self.name(error))?
            }
            Kind::ZipNum(zipnum) => check_blocks(zipnum, go_on)?,
        };
        if all {
            self.trust_order();
        }
        Ok(())
    }

    /// The lines of a flat file without the last one if it is incomplete, which is an error of its own.
    fn whole_lines(&self) -> Result<(&[u8], Option<Error>)> {
        let lines = self.flat();
        if lines.last().is_none_or(|&last| last == b'\n') {
            return Ok((lines, None));
        }
        let (start, end) = line_around(lines, lines.len() - 1);
        let last = &lines[start..end];
        let last = last.strip_suffix(b"\r").unwrap_or(last);
        match self.layout()?.read(last, Fields::ALL, true) {
            Line::Bad(_) => {
                let number = memchr_iter(b'\n', lines).count() as u64 + 1;
                let error = Error::new(ErrorKind::EndsEarly).at_line(number);
                Ok((&lines[..start], Some(self.name(error))))
            }
            Line::Capture(..) | Line::Header => Ok((lines, None)),
        }
    }

    fn name(&self, error: Error) -> Error {
        error.in_file(self.path.display())
    }
}

/// Checks all blocks, each with the one before.
fn check_blocks(zipnum: &ZipNum, mut go_on: impl FnMut() -> bool) -> Result<bool> {
    zipnum.check_rows()?;
    let mut blocks = Blocks::new();
    let (mut lines, mut last) = (Vec::new(), Vec::new());
    for at in zipnum.row_starts() {
        let at = at?;
        let Some((row, _)) = zipnum.row(at)? else {
            break;
        };
        let row = zipnum.parse(row, at)?;
        blocks.read(zipnum, &row, &mut lines)?;
        let (first, end) = (line_around(&lines, 0).1, lines.len().saturating_sub(1));
        if !lines.is_empty() && lines[..first] < last[..] {
            let error = Error::not_sorted(&last, &lines[..first]);
            return Err(zipnum.in_block(&row, error));
        }
        zipnum.check_block(&row, &lines)?;
        if !lines.is_empty() {
            let (start, end) = line_around(&lines, end);
            last = lines[start..end].to_vec();
        }
        if !go_on() {
            return Ok(false);
        }
    }
    Ok(true)
}
