//! Looks up captures in a sorted index: one URI, or a list of URIs in one pass.
//!
//! A lookup becomes [ranges](crate::range) of lines, which are found by binary search in a flat file
//! or in the `.idx` file of a ZipNum index; then only the blocks that contain them are inflated. A
//! list is sorted first, so that every block is inflated once, however many lookups it answers.

mod cache;
mod cursor;
mod filter;
mod index;
mod keys;
mod locate;
mod order;
mod render;
mod sorted;

use std::ops::ControlFlow;

use crate::capture::{Capture, Field, Fields};
use crate::layout::{FileLayout, Line, Shape};
use crate::range::Range;
use crate::revisit::{self, Resolver};
use crate::timestamp::Time;
use crate::web;

pub use cache::BlockCache;
pub use cursor::{Cursor, Direction};
pub use filter::{Filter, WAYBACK_COLUMNS};
pub use index::Index;
pub use locate::{Located, choose};
pub use render::Form;

use order::{Found, Kept};
use waypost_io::{Error, ErrorKind, Result};

use crate::zipnum::Extent;

/// The order in which captures are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the index: by key, then by time.
    #[default]
    Forward,
    /// In reverse.
    Reverse,
    /// By distance from a time, the closest first.
    Closest(Time),
}

/// Which captures of a range to return, and how.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Earliest time.
    pub from: Option<Time>,
    /// Latest time.
    pub to: Option<Time>,
    /// Filters, all of which a capture must pass.
    pub filters: Vec<Filter>,
    /// Maximum number of captures per URI.
    pub limit: Option<u64>,
    /// The order of captures.
    pub order: Order,
    /// Whether revisits get the media type, status and location of the capture that they repeat.
    pub resolve: bool,
    /// The output format.
    pub form: Form,
}

/// The lookup of one URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The ranges of lines, in order.
    pub ranges: Vec<Range>,
}

/// Statistics of lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of captures returned.
    pub found: u64,
    /// Number of blocks inflated.
    pub blocks: u64,
    /// Number of lines in the ranges that were skipped because they are not captures.
    pub bad_lines: u64,
    /// The positions of the queries of the last batch that found nothing.
    pub missing: Vec<usize>,
}

/// Looks up captures.
pub struct Lookup<'a> {
    index: &'a Index,
    cursor: Cursor<'a>,
    /// The layout of CDX lines, detected at the first of them.
    layout: Option<FileLayout>,
    wanted: Wanted,
    resolver: Resolver,
    stats: Stats,
    row: Vec<u8>,
}

impl<'a> Lookup<'a> {
    /// Creates lookups in `index`.
    pub fn new(index: &'a Index, wanted: Wanted) -> Lookup<'a> {
        Lookup {
            index,
            cursor: Cursor::new(index),
            layout: None,
            wanted,
            resolver: Resolver::default(),
            stats: Stats::default(),
            row: Vec::new(),
        }
    }

    /// Passes the captures of one query to `take`, formatted and with a newline.
    ///
    /// # Errors
    /// If the index cannot be read or `take` fails.
    pub fn one(&mut self, query: &Query, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        self.cursor.prepare(query.ranges.iter(), self.extent())?;
        self.answer(query, &mut take)
    }

    /// Answers a query for which the cursor is prepared.
    fn answer(&mut self, query: &Query, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let before = self.stats.found;
        match self.wanted.order {
            Order::Forward => self.as_met(query, Direction::Forward, take)?,
            Order::Reverse if !self.wanted.resolve => {
                self.as_met(query, Direction::Backward, take)?
            }
            Order::Reverse | Order::Closest(_) => self.ordered(query, take)?,
        }
        self.stats.blocks = self.cursor.blocks_read;
        Ok(self.stats.found - before)
    }

    /// Passes on the captures of many queries, reading each block once. By default, captures come in
    /// index order, each once even if several queries match it.
    ///
    /// # Errors
    /// As for [`Lookup::one`].
    pub fn batch(
        &mut self,
        queries: &[Query],
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.stats.missing.clear();
        let ranges = queries.iter().flat_map(|query| &query.ranges);
        self.cursor.prepare(ranges, self.extent())?;
        if self.wanted.order == Order::Forward {
            return self.sweep(queries, &mut take);
        }
        let counts = self.in_key_order(queries, &mut take)?;
        let missing = counts.iter().enumerate().filter(|(_, count)| **count == 0);
        self.stats.missing = missing.map(|(at, _)| at).collect();
        Ok(())
    }

    /// The number of captures of each query, reading each block once.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn count_each(&mut self, queries: &[Query]) -> Result<Vec<u64>> {
        let ranges = queries.iter().flat_map(|query| &query.ranges);
        self.cursor.prepare(ranges, self.extent())?;
        self.in_key_order(queries, &mut |_| Ok(()))
    }

    /// Answers queries one by one, in the order of their keys, and counts the captures of each.
    fn in_key_order(
        &mut self,
        queries: &[Query],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by(|&a, &b| queries[a].ranges.cmp(&queries[b].ranges));
        let mut counts = vec![0; queries.len()];
        for at in order {
            counts[at] = self.answer(&queries[at], take)?;
        }
        Ok(counts)
    }

    /// Which blocks of a range will certainly be read.
    fn extent(&self) -> Extent {
        match (self.wanted.limit, self.wanted.order) {
            (None, _) | (_, Order::Closest(_)) => Extent::All,
            (Some(_), Order::Reverse) if !self.wanted.resolve => Extent::Last,
            (Some(_), Order::Reverse) => Extent::All,
            (Some(_), Order::Forward) => Extent::First,
        }
    }

    /// Statistics so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Passes on captures as they are found.
    fn as_met(
        &mut self,
        query: &Query,
        direction: Direction,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut left = self.wanted.limit.unwrap_or(u64::MAX);
        let (cursor, mut judge) = self.split();
        let mut ranges: Vec<&Range> = query.ranges.iter().collect();
        if direction == Direction::Backward {
            ranges.reverse();
        }
        for range in ranges {
            if left == 0 {
                break;
            }
            let visit = |line: &[u8]| {
                let Some(found) = judge.judge(line)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                judge.give(&found, take)?;
                left -= 1;
                Ok(if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            };
            cursor.walk(range, direction, visit)?;
        }
        Ok(())
    }

    /// For orders that need all captures of the query before the first can be returned.
    fn ordered(&mut self, query: &Query, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut kept = Kept::new(self.wanted.order, self.wanted.limit);
        let (cursor, mut judge) = self.split();
        for range in &query.ranges {
            cursor.walk(range, Direction::Forward, |line| {
                if let Some(found) = judge.judge(line)? {
                    kept.add(&found)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for (line, original) in kept.into_rows() {
            judge.give_line(&line, original, take)?;
        }
        Ok(())
    }

    /// All queries in one pass over the index.
    fn sweep(
        &mut self,
        queries: &[Query],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut ranges: Vec<(&Range, usize)> = Vec::new();
        for (at, query) in queries.iter().enumerate() {
            ranges.extend(query.ranges.iter().map(|range| (range, at)));
        }
        // An empty range has no lines, and nothing would move past it.
        ranges.retain(|(range, _)| range.start < range.end);
        ranges.sort();
        let limit = self.wanted.limit.unwrap_or(u64::MAX);
        let mut counts = vec![0u64; queries.len()];
        let mut next = 0;
        // Ranges that have started and not ended.
        let mut open: Vec<(&Range, usize)> = Vec::new();
        let (cursor, mut judge) = self.split();
        while next < ranges.len() && limit > 0 {
            // One walk for all adjacent ranges.
            let mut span = ranges[next].0.clone();
            for (range, _) in &ranges[next..] {
                if range.start >= span.end {
                    break;
                }
                if range.end > span.end {
                    span.end.clone_from(&range.end);
                }
            }
            cursor.walk(&span, Direction::Forward, |line| {
                while ranges
                    .get(next)
                    .is_some_and(|(range, _)| line >= &range.start[..])
                {
                    open.push(ranges[next]);
                    next += 1;
                }
                open.retain(|(range, at)| line < &range.end[..] && counts[*at] < limit);
                if open.is_empty() {
                    let more = ranges.get(next).is_some_and(|(r, _)| r.start < span.end);
                    return Ok(if more {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    });
                }
                let Some(found) = judge.judge(line)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                for (_, at) in &open {
                    counts[*at] += 1;
                }
                judge.give(&found, take)?;
                Ok(ControlFlow::Continue(()))
            })?;
            open.clear();
            // Ranges of this span without any lines.
            while ranges
                .get(next)
                .is_some_and(|(range, _)| range.start < span.end)
            {
                next += 1;
            }
        }
        self.stats.blocks = self.cursor.blocks_read;
        let missing = counts.iter().enumerate().filter(|(_, count)| **count == 0);
        self.stats.missing = missing.map(|(at, _)| at).collect();
        Ok(())
    }

    fn split(&mut self) -> (&mut Cursor<'a>, Judge<'_>) {
        let judge = Judge {
            index: self.index,
            fields: Wants::of(&self.wanted),
            layout: &mut self.layout,
            wanted: &self.wanted,
            resolver: &mut self.resolver,
            stats: &mut self.stats,
            row: &mut self.row,
        };
        (&mut self.cursor, judge)
    }
}

/// The fields to parse.
struct Wants {
    /// For CDXJ, whose JSON is copied if the output is JSON.
    json: Fields,
    /// For all other lines.
    others: Fields,
}

impl Wants {
    fn of(wanted: &Wanted) -> Wants {
        let mut fields = Field::Url | Field::Mime;
        for filter in &wanted.filters {
            fields = fields | filter.wanted();
        }
        if wanted.resolve {
            fields = fields | revisit::WANTED.into_iter().collect::<Fields>();
        }
        let others = fields | wanted.form.wanted();
        let json = match wanted.form {
            Form::Cdxj | Form::Json => fields,
            Form::Text => others,
        };
        Wants { json, others }
    }
}

/// Selects and formats lines.
struct Judge<'a> {
    index: &'a Index,
    fields: Wants,
    layout: &'a mut Option<FileLayout>,
    wanted: &'a Wanted,
    resolver: &'a mut Resolver,
    stats: &'a mut Stats,
    row: &'a mut Vec<u8>,
}

impl Judge<'_> {
    /// Parses a line by its own shape, because a merged index contains several.
    fn read<'l>(&mut self, line: &'l [u8]) -> Result<Line<'l>> {
        // CDXJ is self-describing.
        if is_cdxj(line) {
            return Ok(FileLayout::default().read(line, self.fields.json, false));
        }
        if self.layout.is_none() {
            // CDX needs the header at the start of the index, which is in the first block of ZipNum.
            *self.layout = Some(self.index.layout()?);
        }
        let layout = self.layout.get_or_insert_default();
        let read = layout.read(line, self.fields.others, false);
        if let Line::Header = read {
            layout.learn(line);
        }
        Ok(read)
    }

    /// The capture of a line, if it is selected.
    fn judge<'l>(&mut self, line: &'l [u8]) -> Result<Option<Found<'l>>> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (capture, shape) = match self.read(line)? {
            Line::Capture(capture, shape) => (capture, shape),
            Line::Header => return Ok(None),
            Line::Bad(_) => {
                self.stats.bad_lines += 1;
                return Ok(None);
            }
        };
        if !web::answers(&capture) {
            return Ok(None);
        }
        let original = if self.wanted.resolve {
            self.resolver.see(&capture).cloned()
        } else {
            None
        };
        let time = capture.time();
        if self.wanted.from.is_some_and(|from| time < Some(from))
            || self.wanted.to.is_some_and(|to| time > Some(to))
        {
            return Ok(None);
        }
        let passes = |capture: &Capture<'_>| self.wanted.filters.iter().all(|f| f.passes(capture));
        let passed = match &original {
            Some(original) => {
                let mut resolved = capture.clone();
                resolved.replace(Field::Mime, &original.mime);
                resolved.replace(Field::Status, &original.status);
                passes(&resolved)
            }
            None => passes(&capture),
        };
        Ok(passed.then_some(Found {
            capture,
            shape,
            original,
        }))
    }

    fn give(&mut self, found: &Found<'_>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.stats.found += 1;
        self.row.clear();
        let line = found.capture.line();
        if self.wanted.form == Form::Cdxj && found.shape == Shape::Cdxj && found.original.is_none()
        {
            self.row.extend_from_slice(line);
            self.row.push(b'\n');
        } else {
            let original = found.original.as_ref();
            self.wanted.form.write(&found.capture, original, self.row);
        }
        take(self.row)
    }

    fn give_line(
        &mut self,
        line: &[u8],
        original: Option<revisit::Original>,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.read(line)? {
            Line::Capture(capture, shape) => {
                let found = Found {
                    capture,
                    shape,
                    original,
                };
                self.give(&found, take)
            }
            // It was a capture when it was kept.
            Line::Header | Line::Bad(_) => Ok(()),
        }
    }
}

/// Whether JSON follows the second space.
fn is_cdxj(line: &[u8]) -> bool {
    let space = memchr::memchr_iter(b' ', line).nth(1);
    space.and_then(|at| line.get(at + 1)) == Some(&b'{') && !matches!(line[0], b'!' | b'{' | b' ')
}

fn too_many() -> Error {
    Error::new(ErrorKind::TooManyResults)
}
