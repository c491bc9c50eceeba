//! Walks the lines of a range, forward or backward, in a flat file or a ZipNum index.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use memchr::{memchr, memrchr};
use waypost_io::{Compression, Error, ErrorKind, Mapped, Result, Source};

use crate::kind::{self, FileKind};
use crate::range::Range;
use crate::search::lower_bound;
use crate::zipnum::{Blocks, ZipNum};

/// A sorted index that can be searched.
pub struct Index {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Flat(Mapped),
    ZipNum(ZipNum),
}

impl Index {
    /// Opens a sorted, uncompressed file, or the folder or `.idx` file of a ZipNum index.
    ///
    /// # Errors
    /// If the file cannot be read or is compressed, or the folder is not a ZipNum index.
    pub fn open(path: &Path) -> Result<Index> {
        let is_idx = path
            .extension()
            .is_some_and(|extension| extension == "idx" || extension == "summary");
        let kind = if path.is_dir() || is_idx {
            Kind::ZipNum(ZipNum::open(path)?)
        } else {
            let map = Mapped::open(path)?;
            let compression = Compression::detect(&map[..map.len().min(16)]);
            if compression != Compression::Plain {
                let kind = ErrorKind::NotSearchable {
                    compression: compression.name(),
                };
                return Err(Error::new(kind).in_file(path.display()));
            }
            // Nothing would be found in a file of another kind, and everything called absent.
            if path.is_file() {
                match kind::detect(&Source::new(path))?.kind {
                    FileKind::Index(_) | FileKind::Empty => {}
                    other => return Err(other.instead_of("an index").in_file(path.display())),
                }
            }
            Kind::Flat(map)
        };
        Ok(Index {
            path: path.to_owned(),
            kind,
        })
    }

    /// Allows ZipNum data files outside the folder of the index.
    #[must_use]
    pub fn anywhere(self, anywhere: bool) -> Index {
        let kind = match self.kind {
            Kind::ZipNum(zipnum) => Kind::ZipNum(zipnum.anywhere(anywhere)),
            flat @ Kind::Flat(_) => flat,
        };
        Index { kind, ..self }
    }

    /// The ZipNum index, if it is one.
    pub fn zipnum(&self) -> Option<&ZipNum> {
        match &self.kind {
            Kind::ZipNum(zipnum) => Some(zipnum),
            Kind::Flat(_) => None,
        }
    }

    /// The lines of a flat file; `None` for ZipNum.
    pub(crate) fn flat(&self) -> &[u8] {
        match &self.kind {
            Kind::Flat(map) => map,
            Kind::ZipNum(_) => &[],
        }
    }

    /// The first bytes, to detect the layout.
    pub(crate) fn sample(&self, size: usize) -> Result<Vec<u8>> {
        match &self.kind {
            Kind::Flat(map) => Ok(map[..map.len().min(size)].to_vec()),
            Kind::ZipNum(zipnum) => {
                let mut lines = Vec::new();
                let first = zipnum.bound(b"")?;
                if let Some((row, _)) = zipnum.row(first) {
                    let row = zipnum.parse(row, first)?;
                    Blocks::new().read(zipnum, &row, &mut lines)?;
                    lines.truncate(size);
                }
                Ok(lines)
            }
        }
    }
}

/// Reads ranges of an index. Keeps the last block, so that sorted lookups read each block once.
pub(crate) struct Walker<'a> {
    index: &'a Index,
    blocks: Blocks,
    /// The offset of the row whose block is in `lines`.
    cached: Option<usize>,
    lines: Vec<u8>,
    pub(crate) blocks_read: u64,
}

type Flow = ControlFlow<()>;

impl<'a> Walker<'a> {
    pub(crate) fn new(index: &'a Index) -> Walker<'a> {
        Walker {
            index,
            blocks: Blocks::new(),
            cached: None,
            lines: Vec::new(),
            blocks_read: 0,
        }
    }

    /// Visits the lines of `range` in order, until `visit` stops.
    ///
    /// # Errors
    /// If reading or `visit` fails, or lines are out of order.
    pub(crate) fn forward(
        &mut self,
        range: &Range,
        mut visit: impl FnMut(&[u8]) -> Result<Flow>,
    ) -> Result<()> {
        let index = self.index;
        match &index.kind {
            Kind::Flat(map) => {
                let bounds = cut(map, range);
                map.check()?;
                let (from, to) = bounds.map_err(|error| self.name(error))?;
                let stopped = forward(&map[from..to], &mut visit);
                // Lines of zeros are out of order, too.
                map.check()?;
                let _stopped = stopped.map_err(|error| self.name(error))?;
            }
            Kind::ZipNum(zipnum) => {
                let mut at = zipnum.first_row(&range.start)?;
                while let Some((row, next)) = zipnum.row(at) {
                    if zipnum.key(at) >= &range.end[..] {
                        break;
                    }
                    self.load(zipnum, row, at)?;
                    let (from, to) = cut(&self.lines, range).map_err(|error| self.name(error))?;
                    let flow = forward(&self.lines[from..to], &mut visit);
                    if flow.map_err(|error| self.name(error))?.is_break() {
                        break;
                    }
                    if to < self.lines.len() {
                        break;
                    }
                    at = next;
                }
            }
        }
        Ok(())
    }

    /// Visits the lines of `range` from the last to the first, until `visit` stops.
    ///
    /// # Errors
    /// If reading or `visit` fails.
    pub(crate) fn backward(
        &mut self,
        range: &Range,
        mut visit: impl FnMut(&[u8]) -> Result<Flow>,
    ) -> Result<()> {
        let index = self.index;
        match &index.kind {
            Kind::Flat(map) => {
                let bounds = cut(map, range);
                map.check()?;
                let (from, to) = bounds.map_err(|error| self.name(error))?;
                let stopped = backward(&map[from..to], &mut visit);
                map.check()?;
                let _stopped = stopped?;
            }
            Kind::ZipNum(zipnum) => {
                let first = zipnum.first_row(&range.start)?;
                let mut at = zipnum.bound(&range.end)?;
                while let Some(before) = zipnum.row_before(at).filter(|&b| b >= first) {
                    at = before;
                    let Some((row, _)) = zipnum.row(at) else {
                        break;
                    };
                    self.load(zipnum, row, at)?;
                    let (from, to) = cut(&self.lines, range).map_err(|error| self.name(error))?;
                    if backward(&self.lines[from..to], &mut visit)?.is_break() {
                        break;
                    }
                    if from > 0 {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, zipnum: &ZipNum, row: &[u8], at: usize) -> Result<()> {
        if self.cached == Some(at) {
            return Ok(());
        }
        self.cached = None;
        let row = zipnum.parse(row, at)?;
        self.blocks.read(zipnum, &row, &mut self.lines)?;
        self.blocks_read += 1;
        self.cached = Some(at);
        Ok(())
    }

    fn name(&self, error: Error) -> Error {
        error.in_file(self.index.path.display())
    }
}

/// The start and end of the lines of a range.
fn cut(lines: &[u8], range: &Range) -> Result<(usize, usize)> {
    let from = lower_bound(lines, &range.start, |line| line)?;
    let to = from + lower_bound(&lines[from..], &range.end, |line| line)?;
    Ok((from, to))
}

fn forward(lines: &[u8], visit: &mut impl FnMut(&[u8]) -> Result<Flow>) -> Result<Flow> {
    let mut rest = lines;
    let mut last: Option<&[u8]> = None;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        if let Some(last) = last.filter(|&last| line < last) {
            return Err(Error::not_sorted(last, line));
        }
        if visit(line)?.is_break() {
            return Ok(Flow::Break(()));
        }
        last = Some(line);
        rest = &rest[(end + 1).min(rest.len())..];
    }
    Ok(Flow::Continue(()))
}

fn backward(lines: &[u8], visit: &mut impl FnMut(&[u8]) -> Result<Flow>) -> Result<Flow> {
    let mut rest = lines;
    while !rest.is_empty() {
        let body = rest.strip_suffix(b"\n").unwrap_or(rest);
        let start = memrchr(b'\n', body).map_or(0, |newline| newline + 1);
        if visit(&body[start..])?.is_break() {
            return Ok(Flow::Break(()));
        }
        rest = &rest[..start];
    }
    Ok(Flow::Continue(()))
}
