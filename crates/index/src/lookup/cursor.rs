//! Reads the lines of a range one at a time, forward or backward, in a flat file or a ZipNum index.

use std::ops::ControlFlow;
use std::sync::Arc;

use memchr::{memchr, memrchr};
use waypost_io::{Error, Result};

use super::cache::{BlockLines, Cached};
use super::index::{Index, Kind};
use crate::range::Range;
use crate::search::{lower_bound, lower_bound_near};
use crate::zipnum::{Blocks, Extent, Plan, ZipNum};

/// The direction in which lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first line of a range to the last.
    Forward,
    /// From the last line to the first.
    Backward,
}

/// Reads ranges of an index, a line at a time.
///
/// Keeps the last block, so that sorted lookups read each block once.
///
/// ```
/// use waypost_index::lookup::{Cursor, Direction, Index};
/// use waypost_index::range::{Match, ranges};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sorted.cdxj");
/// # std::fs::write(&path, "com,example)/ 2004 {}\ncom,example)/ 2005 {}\ncom,example)/a 2004 {}\n")?;
/// let index = Index::open(&path)?;
/// let mut cursor = Cursor::new(&index);
/// for range in ranges(b"http://example.com/", b"com,example)/", Match::Exact) {
///     cursor.seek(range, Direction::Forward)?;
///     while cursor.advance()? {
///         assert!(cursor.line().starts_with(b"com,example)/ 200"));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<'a> {
    index: &'a Index,
    blocks: Option<Box<Blocks>>,
    /// A buffer that is not in use.
    spare: Vec<u8>,
    text: Text,
    /// The offset of the row whose block is in `text`, if there is a whole one.
    block: Option<usize>,
    range: Range,
    direction: Direction,
    /// The lines of `text` that are left.
    from: usize,
    to: usize,
    /// The current line.
    line: (usize, usize),
    /// Whether `line` is a line of `text`, and lines must not be smaller than it.
    started: bool,
    /// Whether nothing was read since the last check.
    checked: bool,
    rows: Rows,
    /// The blocks that will be read, if they are remote.
    plan: Option<Plan>,
    pub(crate) blocks_read: u64,
}

/// What a cursor reads blocks with. An index keeps a few: for a server, getting a megabyte of memory
/// from the system for every lookup takes as long as inflating it.
pub(super) struct Buffers {
    blocks: Box<Blocks>,
    lines: Vec<u8>,
}

/// How many unused buffers an index keeps, and how large they may be.
const KEPT_BUFFERS: usize = 8;
const LARGEST_BUFFER: usize = 4 << 20;

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.put_away();
        let Some(blocks) = self.blocks.take() else {
            return;
        };
        let lines = std::mem::take(&mut self.spare);
        if let Ok(mut kept) = self.index.buffers.lock()
            && kept.len() < KEPT_BUFFERS
            && lines.capacity() <= LARGEST_BUFFER
        {
            kept.push(Buffers { blocks, lines });
        }
    }
}

/// The lines of a block.
#[derive(Default)]
enum Text {
    /// Those of the mapped file; nothing for ZipNum.
    #[default]
    Flat,
    Own(Vec<u8>),
    Shared(Arc<BlockLines>),
}

/// Which blocks of a ZipNum index are left.
#[derive(Clone, Copy)]
enum Rows {
    /// None.
    Done,
    /// From the row at this offset on.
    From(usize),
    /// Those before the row at `before`, down to the one at `first`.
    Before { before: usize, first: usize },
}

impl<'a> Cursor<'a> {
    /// A cursor that has nothing to read before [`seek`](Cursor::seek).
    pub fn new(index: &'a Index) -> Cursor<'a> {
        let kept = match index.kind {
            Kind::Flat(_) => None,
            Kind::ZipNum(_) => index.buffers.lock().ok().and_then(|mut kept| kept.pop()),
        };
        let (blocks, spare) = match kept {
            Some(kept) => (Some(kept.blocks), kept.lines),
            None => (None, Vec::new()),
        };
        Cursor {
            index,
            blocks,
            spare,
            text: Text::Flat,
            block: None,
            range: Range {
                start: Vec::new(),
                end: Vec::new(),
            },
            direction: Direction::Forward,
            from: 0,
            to: 0,
            line: (0, 0),
            started: false,
            checked: false,
            rows: Rows::Done,
            plan: None,
            blocks_read: 0,
        }
    }

    /// Prepares to read these ranges of a remote index, so that blocks are fetched concurrently.
    ///
    /// # Errors
    /// If the rows of the index cannot be read.
    pub(crate) fn prepare<'r>(
        &mut self,
        ranges: impl Iterator<Item = &'r Range>,
        extent: Extent,
    ) -> Result<()> {
        if let Some(zipnum) = self.index.zipnum()
            && zipnum.is_remote()
        {
            let mut ranges: Vec<&Range> = ranges.collect();
            ranges.sort();
            self.plan = Some(zipnum.plan(&ranges, extent)?);
        }
        Ok(())
    }

    /// Goes before the first line of `range`, or behind the last one if lines are read backward.
    ///
    /// # Errors
    /// If the index cannot be read or is not sorted.
    pub fn seek(&mut self, range: Range, direction: Direction) -> Result<()> {
        self.range = range;
        self.direction = direction;
        self.started = false;
        self.checked = false;
        (self.from, self.to) = (0, 0);
        self.rows = Rows::Done;
        match &self.index.kind {
            Kind::Flat(map) => {
                let bounds = cut(self.index.flat(), &self.range);
                if bounds.is_err() {
                    // The lines of a truncated file are zeros, which are out of order, too.
                    map.check()?;
                }
                (self.from, self.to) = bounds.map_err(|error| self.name(error))?;
            }
            Kind::ZipNum(zipnum) => {
                let first = zipnum.first_row(&self.range.start)?;
                self.rows = match direction {
                    Direction::Forward => Rows::From(first),
                    Direction::Backward => {
                        let before = zipnum.bound(&self.range.end)?;
                        if zipnum.row(before)?.is_none() {
                            zipnum.check_end()?;
                        }
                        Rows::Before { before, first }
                    }
                };
            }
        }
        Ok(())
    }

    /// Goes to the next line. Returns whether there was one.
    ///
    /// # Errors
    /// If the index cannot be read or its lines are out of order.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if self.from < self.to {
                return self.step();
            }
            if !self.next_block()? {
                self.check()?;
                self.checked = true;
                return Ok(false);
            }
        }
    }

    /// The current line, without its newline.
    pub fn line(&self) -> &[u8] {
        &self.text()[self.line.0..self.line.1]
    }

    fn text(&self) -> &[u8] {
        match &self.text {
            Text::Flat => self.index.flat(),
            Text::Own(lines) => lines,
            Text::Shared(lines) => lines,
        }
    }

    /// Goes to the next line of `text`.
    fn step(&mut self) -> Result<bool> {
        let rest = &self.text()[self.from..self.to];
        let (line, from, to) = match self.direction {
            Direction::Forward => {
                let end = memchr(b'\n', rest).unwrap_or(rest.len());
                let next = (self.from + end + 1).min(self.to);
                ((self.from, self.from + end), next, self.to)
            }
            Direction::Backward => {
                let body = rest.strip_suffix(b"\n").unwrap_or(rest);
                let start = memrchr(b'\n', body).map_or(0, |newline| newline + 1);
                let line = (self.from + start, self.from + body.len());
                (line, self.from, self.from + start)
            }
        };
        if self.started && self.direction == Direction::Forward {
            let text = self.text();
            let (last, next) = (&text[self.line.0..self.line.1], &text[line.0..line.1]);
            if next < last {
                // The lines of a truncated file are zeros, which are out of order, too.
                self.check()?;
                return Err(self.name(Error::not_sorted(last, next)));
            }
        }
        (self.line, self.from, self.to) = (line, from, to);
        self.started = true;
        Ok(true)
    }

    /// Reads the next block that may have lines of the range. Returns whether there was one.
    fn next_block(&mut self) -> Result<bool> {
        let index = self.index;
        let Kind::ZipNum(zipnum) = &index.kind else {
            return Ok(false);
        };
        let rows = std::mem::replace(&mut self.rows, Rows::Done);
        let at = match rows {
            Rows::Done => None,
            Rows::From(at) => Some(at),
            Rows::Before { before, first } => {
                zipnum.row_before(before)?.filter(|&row| row >= first)
            }
        };
        let Some(at) = at else {
            return Ok(false);
        };
        let Some((row, next)) = zipnum.row(at)? else {
            // Nothing comes after the last row, unless others were cut off.
            zipnum.check_end()?;
            return Ok(false);
        };
        if zipnum.key(at)? >= &self.range.end[..] {
            return Ok(false);
        }
        self.load(zipnum, row, at)?;
        self.started = false;
        let (from, to) = cut(self.text(), &self.range).map_err(|error| self.name(error))?;
        (self.from, self.to) = (from, to);
        // A block with lines behind the range, or before it if lines are read backward, is the last.
        self.rows = match rows {
            Rows::From(_) if to == self.text().len() => Rows::From(next),
            Rows::Before { first, .. } if from == 0 => Rows::Before { before: at, first },
            _ => Rows::Done,
        };
        Ok(true)
    }

    /// Reads the block of the row at `at`, or as much of it as the range needs.
    fn load(&mut self, zipnum: &ZipNum, row: &[u8], at: usize) -> Result<()> {
        if self.block == Some(at) {
            return Ok(());
        }
        self.block = None;
        let row = zipnum.parse(row, at)?;
        if let Some(plan) = &self.plan {
            zipnum.fetch_ahead(at, plan)?;
        }
        self.put_away();
        let cached = match &self.index.cache {
            Some((cache, index)) => cache.get(*index, at),
            None => Cached::New,
        };
        if let Cached::Block(lines) = cached {
            self.text = Text::Shared(lines);
            self.block = Some(at);
            return Ok(());
        }
        let mut blocks = self
            .blocks
            .take()
            .unwrap_or_else(|| Box::new(Blocks::new()));
        self.blocks_read += 1;
        // A part is enough for a single lookup. In a batch, the next one may need the rest.
        let mut part = false;
        self.text = match (cached, &self.index.cache) {
            (Cached::Seen, Some((cache, index))) => {
                let lines = blocks.read_into(zipnum, &row, |size| cache.memory(size))?;
                zipnum.check_block(&row, &lines)?;
                let lines = Arc::new(lines);
                cache.insert(*index, at, &lines);
                Text::Shared(lines)
            }
            (_, cache) => {
                let mut lines = std::mem::take(&mut self.spare);
                part = cache.is_some() && self.direction == Direction::Forward;
                match part {
                    true => blocks.read_until(zipnum, &row, &self.range.end, &mut lines)?,
                    false => blocks.read(zipnum, &row, &mut lines)?,
                }
                zipnum.check_block(&row, &lines)?;
                Text::Own(lines)
            }
        };
        self.blocks = Some(blocks);
        self.block = (!part).then_some(at);
        Ok(())
    }

    /// Makes the memory of the current block available for other ones.
    fn put_away(&mut self) {
        match (std::mem::take(&mut self.text), &self.index.cache) {
            (Text::Own(lines), _) if lines.capacity() > self.spare.capacity() => self.spare = lines,
            (Text::Shared(lines), Some((cache, _))) => cache.release(lines),
            _ => {}
        }
    }

    /// Visits the lines of a range until `visit` stops.
    ///
    /// # Errors
    /// If reading or `visit` fails, or lines are out of order.
    pub(crate) fn walk(
        &mut self,
        range: &Range,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.seek(range.clone(), direction)?;
        while self.advance()? {
            if visit(self.line())?.is_break() {
                break;
            }
        }
        self.check()
    }

    /// Checks that everything read so far was really in the index. Call this before answers are
    /// returned without reading a range to its end.
    ///
    /// # Errors
    /// If a file was truncated while it was read.
    pub fn check(&self) -> Result<()> {
        match &self.index.kind {
            _ if self.checked => Ok(()),
            Kind::Flat(map) => map.check(),
            Kind::ZipNum(zipnum) => zipnum.check_mapped(),
        }
    }

    fn name(&self, error: Error) -> Error {
        error.in_file(self.index.path.display())
    }
}

/// The start and end of the lines of a range.
pub(super) fn cut(lines: &[u8], range: &Range) -> Result<(usize, usize)> {
    let from = lower_bound(lines, &range.start, |line| line)?;
    let to = from + lower_bound_near(&lines[from..], &range.end, |line| line)?;
    Ok((from, to))
}
