//! Finds the captures of a query in the indexes of a collection.
//!
//! Lines are merged from all indexes, in order or in reverse, and go through the same steps as in
//! pywb: revisits are resolved, captures filtered, clamped by time and collapsed, and then limited.
//! Captures that must not be shown are dropped before all of that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use waypost_index::layout::{Line, Shape};
use waypost_index::lookup::{Cursor, Direction, Order};
use waypost_index::range::{Range, ranges};
use waypost_index::revisit::{self, Original, Resolver};
use waypost_index::timestamp::Time;
use waypost_index::{Field, Fields, Takedowns, web};
use waypost_surt::Canonicalizer;

use crate::body::Listener;
use crate::collapse::Collapse;
use crate::collection::{OpenIndex, Slot};
use crate::failure::Failure;
use crate::query::{BadQuery, Limit, Page, Query};
use crate::resume::Resume;
use crate::row::Row;

/// How many lines are read between two looks at the clock.
const BETWEEN_LOOKS: u32 = 256;

/// How much memory the captures may take that are kept to sort them.
const MOST_KEPT: usize = 32 << 20;

/// The size of the parts into which an answer from a flat file is split, about that of a ZipNum block.
const BLOCK: usize = 1 << 20;

/// What is shown of a collection while a query runs.
pub(crate) struct View {
    pub(crate) indexes: Vec<Arc<OpenIndex>>,
    /// Those, and the ones that cannot be searched.
    pub(crate) slots: Vec<Slot>,
    pub(crate) takedowns: Option<Arc<Takedowns>>,
    /// The latest capture that may be shown.
    pub(crate) latest: Option<Time>,
}

impl View {
    /// Whether what was not found is certainly absent.
    pub(crate) fn check_absent(&self) -> Result<(), Failure> {
        match self.slots.iter().all(Slot::is_certain) {
            true => Ok(()),
            false => Err(Failure::Unknown),
        }
    }

    /// A search that returns at most `most_rows`, for which `wanted` must be parsed in JSON.
    pub(crate) fn search<'a>(
        &'a self,
        query: &'a Query,
        clock: &'a Clock,
        most_rows: u64,
        wanted: Fields,
    ) -> Search<'a> {
        Search {
            view: self,
            query,
            clock,
            most_rows,
            wanted,
        }
    }
}

/// What to search, and within which limits.
pub(crate) struct Search<'a> {
    view: &'a View,
    query: &'a Query,
    clock: &'a Clock,
    most_rows: u64,
    /// The fields that the answer needs from JSON.
    wanted: Fields,
}

/// When a search has to stop.
pub(crate) struct Clock {
    deadline: Instant,
    listener: Option<Listener>,
}

impl Clock {
    pub(crate) fn new(deadline: Instant, listener: Option<Listener>) -> Clock {
        Clock { deadline, listener }
    }

    fn look(&self) -> Result<(), Failure> {
        if Instant::now() > self.deadline {
            return Err(Failure::TooLong);
        }
        match &self.listener {
            Some(listener) if listener.is_gone() => Err(Failure::Gone),
            _ => Ok(()),
        }
    }
}

/// Where the rows go.
pub(crate) type Emit<'e> = dyn FnMut(&Row<'_>) -> Result<(), Failure> + 'e;

/// How a search ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) rows: u64,
    /// Where to continue, if there may be more.
    pub(crate) resume: Option<Resume>,
}

/// The number of pages of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) pages: u64,
    pub(crate) blocks: u64,
}

impl Search<'_> {
    /// Passes the rows of the answer to `emit`.
    pub(crate) fn run(&self, emit: &mut Emit<'_>) -> Result<Found, Failure> {
        let query = self.query;
        let last = matches!(query.limit, Limit::Last(_));
        if last && query.order != Order::Forward {
            let message = "a negative limit needs the default order".to_owned();
            return Err(BadQuery(message).into());
        }
        if query.resume.is_some() && (last || query.order != Order::Forward) {
            let message = "resumeKey needs the default order and a positive limit".to_owned();
            return Err(BadQuery(message).into());
        }
        let limit = match query.limit {
            Limit::First(limit) | Limit::Last(limit) => limit.min(self.most_rows),
        };
        // Resolving and collapsing look at captures in order.
        let in_order = query.resolve || !query.collapse.is_empty();
        match query.order {
            Order::Forward if !last => self.stream(Direction::Forward, limit, emit),
            Order::Reverse if !in_order => self.stream(Direction::Backward, limit, emit),
            Order::Forward if !in_order => self.keep(Keep::last_backward(limit), emit),
            Order::Forward => self.keep(Keep::last(limit), emit),
            Order::Reverse => self.keep(Keep::reverse(limit.saturating_add(query.offset)), emit),
            Order::Closest(time) => self.keep(
                Keep::closest(time, limit.saturating_add(query.offset)),
                emit,
            ),
        }
    }

    /// How many pages the answer has. Filters do not count.
    pub(crate) fn pages(&self, page: Page) -> Result<Pages, Failure> {
        let nothing = Pages {
            pages: 0,
            blocks: 0,
        };
        let Some((_, splits)) = self.largest()? else {
            return Ok(nothing);
        };
        // A single block of a ZipNum index may have nothing of the range, and nothing may be shown of
        // what there is.
        let unsure = splits == 0 || self.view.takedowns.is_some() || self.view.latest.is_some();
        if unsure && !self.has_any()? {
            return Ok(nothing);
        }
        Ok(Pages {
            pages: splits / page.size + 1,
            blocks: splits + 1,
        })
    }

    /// Whether there is a capture that may be shown, whatever its fields.
    fn has_any(&self) -> Result<bool, Failure> {
        let mut query = Query::of_url(&self.query.url, self.query.output);
        query.kind = self.query.kind;
        query.mementos = self.query.mementos;
        let search = Search {
            query: &query,
            ..*self
        };
        let mut steps = Steps::new(&search);
        let mut lines = search.lines(Direction::Forward)?;
        while steps.next(&mut lines)? {
            if steps.row(&lines)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Emits rows as they are found.
    fn stream(
        &self,
        direction: Direction,
        limit: u64,
        emit: &mut Emit<'_>,
    ) -> Result<Found, Failure> {
        let query = self.query;
        let mut steps = Steps::new(self);
        let mut lines = self.lines(direction)?;
        let mut found = Found::default();
        // Who continues has skipped before.
        let mut skip = match query.resume {
            Some(_) => 0,
            None => query.offset,
        };
        let mut last = Resume {
            line: Vec::new(),
            skip: 0,
        };
        while found.rows < limit && steps.next(&mut lines)? {
            let Some(row) = steps.row(&lines)? else {
                continue;
            };
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if query.show_resume {
                last.after(&row, query.resume.as_ref());
            }
            emit(&row)?;
            found.rows += 1;
        }
        if query.show_resume && found.rows == limit && limit > 0 && direction == Direction::Forward
        {
            found.resume = Some(last);
        }
        lines.check()?;
        Ok(found)
    }

    /// Keeps the rows that are wanted, and emits them in their order.
    fn keep(&self, mut keep: Keep, emit: &mut Emit<'_>) -> Result<Found, Failure> {
        let mut steps = Steps::new(self);
        let mut lines = self.lines(keep.direction())?;
        while !keep.is_full() && steps.next(&mut lines)? {
            if let Some(row) = steps.row(&lines)? {
                let original = row
                    .resolved
                    .as_ref()
                    .map(|(_, original)| Box::new((*original).clone()));
                let kept = Kept {
                    line: row.capture.line().to_vec(),
                    part: lines.current,
                    original,
                };
                keep.add(row.capture.time(), kept)?;
            }
        }
        lines.check()?;
        let mut found = Found::default();
        let skip = match self.query.limit {
            Limit::First(_) => self.query.offset as usize,
            Limit::Last(_) => 0,
        };
        for kept in keep.into_rows().skip(skip) {
            let open = &self.view.indexes[kept.part];
            if let Some((capture, shape)) = read(open, &kept.line, steps.wanted) {
                let resolved = kept.original.as_deref();
                let row = Row {
                    resolved: resolved.map(|original| (original.stand_in_for(&capture), original)),
                    capture: capture.clone(),
                    shape,
                    origin: &open.origin,
                };
                emit(&row)?;
                found.rows += 1;
            }
        }
        Ok(found)
    }

    /// The lines of all indexes that the query asks for.
    fn lines(&self, direction: Direction) -> Result<Lines<'_>, Failure> {
        let page = match self.query.page {
            Some(page) if !self.query.count_pages => Some(self.page_bounds(page)?),
            _ => None,
        };
        let mut parts = Vec::with_capacity(self.view.indexes.len());
        for open in &self.view.indexes {
            let mut ranges = self.ranges(open)?;
            if let Some(resume) = &self.query.resume {
                clip(&mut ranges, Some(&resume.line), None);
            }
            if let Some((lower, upper)) = &page {
                clip(&mut ranges, lower.as_deref(), upper.as_deref());
            }
            if direction == Direction::Backward {
                ranges.reverse();
            }
            parts.push(Part {
                cursor: Cursor::new(&open.index),
                open,
                ranges: ranges.into(),
                live: false,
            });
        }
        Ok(Lines {
            parts,
            direction,
            current: 0,
            started: false,
        })
    }

    /// The ranges of the URL in an index.
    fn ranges(&self, open: &OpenIndex) -> Result<Vec<Range>, Failure> {
        let url = &open.dialect.complete(&self.query.url);
        let mut surt = Vec::new();
        if Canonicalizer::new(open.dialect)
            .canonicalize(url, &mut surt)
            .is_err()
        {
            let url = String::from_utf8_lossy(url);
            return Err(BadQuery(format!("Invalid url: {url}")).into());
        }
        Ok(ranges(url, &surt, self.query.kind))
    }

    /// The index in which the answer has most blocks, and in how many places it can be split there.
    /// `None` if no index has any of it. Pages are cut where the blocks of this index begin.
    fn largest(&self) -> Result<Option<(&OpenIndex, u64)>, Failure> {
        let mut largest: Option<(&OpenIndex, u64)> = None;
        for open in &self.view.indexes {
            let mut count = 0;
            let any = self.each_split(open, |_| count += 1)?;
            if any && largest.is_none_or(|(_, most)| count > most) {
                largest = Some((open, count));
            }
        }
        Ok(largest)
    }

    fn each_split(&self, open: &OpenIndex, mut visit: impl FnMut(&[u8])) -> Result<bool, Failure> {
        let (mut any, mut seen) = (false, 0_u32);
        for range in self.ranges(open)? {
            any |= open.index.each_split(&range, BLOCK, |line| {
                visit(line);
                seen = seen.wrapping_add(1);
                match seen % BETWEEN_LOOKS {
                    0 => self.clock.look(),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(any)
    }

    /// The first line of a page and the first one behind it, where there are such.
    #[expect(clippy::type_complexity, reason = "a lower and an upper bound")]
    fn page_bounds(&self, page: Page) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), Failure> {
        let largest = self.largest()?;
        let pages = largest.map_or(1, |(_, splits)| splits / page.size + 1);
        if page.number >= pages {
            let message = format!(
                "Page {} invalid: First Page is 0, Last Page is {}",
                page.number,
                pages - 1
            );
            return Err(BadQuery(message).into());
        }
        let (mut lower, mut upper) = (None, None);
        if let Some((open, _)) = largest {
            let mut number = 0_u64;
            self.each_split(open, |line| {
                number += 1;
                if number == page.number.saturating_mul(page.size) {
                    lower = Some(line.to_vec());
                } else if number == (page.number + 1).saturating_mul(page.size) {
                    upper = Some(line.to_vec());
                }
            })?;
        }
        Ok((lower, upper))
    }
}

/// Restricts ranges to lines from `lower` up to `upper`.
fn clip(ranges: &mut Vec<Range>, lower: Option<&[u8]>, upper: Option<&[u8]>) {
    for range in ranges.iter_mut() {
        if let Some(lower) = lower
            && lower > &range.start[..]
        {
            range.start = lower.to_vec();
        }
        if let Some(upper) = upper
            && upper < &range.end[..]
        {
            range.end = upper.to_vec();
        }
    }
    ranges.retain(|range| range.start < range.end);
}

impl Resume {
    /// Goes behind a row. `before` is where the answer started.
    fn after(&mut self, row: &Row<'_>, before: Option<&Resume>) {
        let (key, timestamp) = (row.capture.key(), row.capture.timestamp());
        let same = self.line.len() == key.len() + 1 + timestamp.len()
            && self.line.starts_with(key)
            && self.line.ends_with(timestamp);
        if same {
            self.skip += 1;
            return;
        }
        self.line = [key, b" ", timestamp].concat();
        // Those that the client got before.
        self.skip = match before {
            Some(before) if before.line == self.line => before.skip + 1,
            _ => 1,
        };
    }
}

/// The lines of several indexes, merged.
struct Lines<'a> {
    parts: Vec<Part<'a>>,
    direction: Direction,
    /// The part that has the current line.
    current: usize,
    started: bool,
}

struct Part<'a> {
    cursor: Cursor<'a>,
    open: &'a OpenIndex,
    /// Those that were not read yet.
    ranges: VecDeque<Range>,
    /// Whether it has a line.
    live: bool,
}

impl Part<'_> {
    fn advance(&mut self, direction: Direction) -> waypost_io::Result<()> {
        loop {
            if self.live {
                self.live = self.cursor.advance()?;
                if self.live {
                    return Ok(());
                }
            }
            let Some(range) = self.ranges.pop_front() else {
                return Ok(());
            };
            self.cursor.seek(range, direction)?;
            self.live = true;
        }
    }
}

impl Lines<'_> {
    /// Goes to the next line. Returns whether there is one.
    fn advance(&mut self) -> waypost_io::Result<bool> {
        if self.started {
            if let Some(part) = self.parts.get_mut(self.current) {
                part.advance(self.direction)?;
            }
        } else {
            self.started = true;
            for part in &mut self.parts {
                part.advance(self.direction)?;
            }
        }
        let live = self.parts.iter().enumerate().filter(|(_, part)| part.live);
        // Of equal lines, that of the first index comes first, or last if they are read backward.
        let next = match self.direction {
            Direction::Forward => live.min_by_key(|(_, part)| part.cursor.line()),
            Direction::Backward => live.max_by_key(|(_, part)| part.cursor.line()),
        };
        match next {
            Some((at, _)) => {
                self.current = at;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn check(&self) -> waypost_io::Result<()> {
        self.parts.iter().try_for_each(|part| part.cursor.check())
    }
}

/// What happens to each line on its way to a row.
struct Steps<'a> {
    search: &'a Search<'a>,
    wanted: Fields,
    resolver: Resolver,
    collapse: Vec<Collapse>,
    /// How many rows at the start the client already has.
    skip: u64,
    until_look: u32,
}

impl<'a> Steps<'a> {
    fn new(search: &'a Search<'a>) -> Steps<'a> {
        let query = search.query;
        let mut wanted = search.wanted;
        if search.view.takedowns.is_some() {
            wanted = wanted | Field::Url;
        }
        for filter in &query.filters {
            wanted = wanted | filter.wanted();
        }
        for collapse in &query.collapse {
            wanted = wanted | collapse.wanted();
        }
        if query.mementos {
            wanted = wanted | Field::Url | Field::Mime;
        }
        if query.resolve {
            wanted = wanted | revisit::WANTED.into_iter().collect::<Fields>();
        }
        Steps {
            search,
            wanted,
            resolver: Resolver::default(),
            collapse: query.collapse.clone(),
            skip: query.resume.as_ref().map_or(0, |resume| resume.skip),
            until_look: BETWEEN_LOOKS,
        }
    }

    /// Goes to the next line, and looks at the clock now and then.
    fn next(&mut self, lines: &mut Lines<'_>) -> Result<bool, Failure> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = BETWEEN_LOOKS;
            self.search.clock.look()?;
        }
        Ok(lines.advance()?)
    }

    /// The row of the current line, if it is part of the answer.
    fn row<'l>(&'l mut self, lines: &'l Lines<'_>) -> Result<Option<Row<'l>>, Failure> {
        let part = &lines.parts[lines.current];
        let Some((capture, shape)) = read(part.open, part.cursor.line(), self.wanted) else {
            return Ok(None);
        };
        let search = self.search;
        let query = search.query;
        if query.mementos && !web::answers(&capture) {
            return Ok(None);
        }
        let time = capture.time();
        let takedowns = search.view.takedowns.as_ref();
        if takedowns.is_some_and(|list| list.cover_capture(&capture, part.open.dialect))
            || search.view.latest.is_some_and(|latest| {
                // `2026` may be the end of 2026.
                Time::last_of(capture.timestamp()).or(time) > Some(latest)
            })
        {
            return Ok(None);
        }
        let resolved = match query.resolve {
            true => self.resolver.see(&capture),
            false => None,
        };
        if query.from.is_some_and(|from| time < Some(from))
            || query.to.is_some_and(|to| time > Some(to))
        {
            return Ok(None);
        }
        let row = Row {
            resolved: resolved.map(|original| (original.stand_in_for(&capture), original)),
            capture,
            shape,
            origin: &part.open.origin,
        };
        if !query
            .filters
            .iter()
            .all(|filter| filter.passes(row.capture()))
        {
            return Ok(None);
        }
        if self
            .collapse
            .iter_mut()
            .any(|collapse| !collapse.passes(&row))
        {
            return Ok(None);
        }
        if self.skip > 0 {
            let resumed = query.resume.as_ref().is_some_and(|resume| {
                let line = row.capture.line();
                line.starts_with(&resume.line) && line.get(resume.line.len()) == Some(&b' ')
            });
            self.skip = if resumed { self.skip - 1 } else { 0 };
            if resumed {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }
}

/// The capture of a line, if it is one.
fn read<'l>(
    open: &OpenIndex,
    line: &'l [u8],
    wanted: Fields,
) -> Option<(waypost_index::Capture<'l>, Shape)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match open.layout.read(line, wanted, false) {
        // JSON is copied, columns are not.
        Line::Capture(_, Shape::Cdx(_)) if wanted != Fields::ALL => read(open, line, Fields::ALL),
        Line::Capture(capture, shape) => Some((capture, shape)),
        Line::Header | Line::Bad(_) => None,
    }
}

/// A row that waits for its turn.
struct Kept {
    line: Vec<u8>,
    part: usize,
    original: Option<Box<Original>>,
}

impl Kept {
    /// What it takes in memory, at most: nodes of the tree may be half empty.
    fn bytes(&self) -> usize {
        const ENTRY: usize = 2 * size_of::<((u64, u64), Kept)>() + 2 * ALLOCATION;
        const ALLOCATION: usize = 16;
        ENTRY + self.line.capacity() + self.original.as_ref().map_or(0, |kept| kept.bytes())
    }
}

/// The rows that are wanted, if they are not wanted in the order in which they are found.
struct Keep {
    how: How,
    limit: usize,
    rows: BTreeMap<(u64, u64), Kept>,
    seen: u64,
    bytes: usize,
}

enum How {
    /// The last ones, in order.
    Last,
    /// The same, found from the last one on.
    LastBackward,
    /// The last ones, in reverse.
    Reverse,
    /// Those closest to a time, the closest first.
    Closest(Time),
}

impl Keep {
    fn new(how: How, limit: u64) -> Keep {
        Keep {
            how,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            rows: BTreeMap::new(),
            seen: 0,
            bytes: 0,
        }
    }

    fn last(limit: u64) -> Keep {
        Keep::new(How::Last, limit)
    }

    fn last_backward(limit: u64) -> Keep {
        Keep::new(How::LastBackward, limit)
    }

    fn reverse(limit: u64) -> Keep {
        Keep::new(How::Reverse, limit)
    }

    fn closest(time: Time, limit: u64) -> Keep {
        Keep::new(How::Closest(time), limit)
    }

    fn direction(&self) -> Direction {
        match self.how {
            How::LastBackward => Direction::Backward,
            _ => Direction::Forward,
        }
    }

    /// Whether no other row can be wanted.
    fn is_full(&self) -> bool {
        let first_come = matches!(self.how, How::LastBackward);
        self.limit == 0 || (first_come && self.rows.len() >= self.limit)
    }

    fn add(&mut self, time: Option<Time>, row: Kept) -> Result<(), Failure> {
        self.seen += 1;
        let rank = match self.how {
            How::Last | How::LastBackward | How::Reverse => (0, u64::MAX - self.seen),
            // At the same distance, the one that comes first in the index.
            How::Closest(wanted) => {
                let own = time.map_or(i64::MAX, Time::unix);
                (own.abs_diff(wanted.unix()), self.seen)
            }
        };
        if self.rows.len() >= self.limit {
            match self.rows.last_key_value() {
                Some((worst, _)) if *worst > rank => {
                    if let Some((_, worst)) = self.rows.pop_last() {
                        self.bytes -= worst.bytes();
                    }
                }
                _ => return Ok(()),
            }
        }
        self.bytes += row.bytes();
        if self.bytes > MOST_KEPT {
            return Err(Failure::TooMany);
        }
        self.rows.insert(rank, row);
        Ok(())
    }

    fn into_rows(self) -> Box<dyn Iterator<Item = Kept>> {
        let rows = self.rows.into_values();
        match self.how {
            // The smallest rank is that of the row that was found last.
            How::Last => Box::new(rows.rev()),
            _ => Box::new(rows),
        }
    }
}
