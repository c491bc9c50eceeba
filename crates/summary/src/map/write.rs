//! Writing a map by the decisions of an earlier walk.
//!
//! A wildcard's frequency is known when its place is closed, but other rows may have come in between
//! that sort before or behind it. Rows wait until no wildcard is open and are sorted then. Should too
//! many wait, or should an odd key break the order, everything is written down and sorted instead.

use std::path::Path;

use waypost_index::output::{Format, LineWriter};
use waypost_surt::Reach;

use super::decision::{Decisions, GIVEN_VOID, GIVEN_WILDCARD, ROLL, VOID_BELOW, VOID_HERE};
use super::filtered::{Choices, Said};
use super::pass::Pass;
use super::row::{self, Row};
use super::tidy::{Room, Spool, joined};
use super::tree::{Part, Place, Visitor};
use crate::error::Result;
use crate::frequency::Frequency;

/// How keys and frequencies are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As the format is published: headers, `com,x)/` for a root, `captures/URI-Rs`.
    #[default]
    Published,
    /// As the papers' tool writes: no headers, `com,x)` for a root, captures alone.
    Reference,
}

/// Whether wildcard rows count what more specific rows below them count, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Each URI-R is counted in one row: rows add up to the whole.
    Partition,
    /// A wildcard row counts everything it covers.
    #[default]
    Accumulate,
}

const VOID: Frequency = Frequency {
    captures: Some(crate::frequency::Number {
        value: 0,
        sureness: crate::frequency::Sureness::Exact,
    }),
    urirs: None,
};

/// What the nearest row says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing, or a void that was found to pay.
    Absent,
    /// A wildcard.
    Open,
    /// A wildcard with a filter.
    Filter(u8),
    /// A wildcard that the map came with: nothing was learned about what is below it.
    Given,
    /// A void that the map came with: all below it stays as it is.
    Locked,
}

/// A place on the way.
pub(crate) struct Passed {
    state: State,
    /// What its parent's row says.
    above: State,
    /// A wildcard row is written for it.
    written: bool,
    /// The filter that decides for what is below it, and that of its wildcard row, if one is written.
    filter: Option<u8>,
    /// An exact row is written for it, and says this.
    exact: Option<Said>,
    /// What rows that are not written count.
    total: Option<Frequency>,
    given: Option<Frequency>,
}

/// What was decided.
#[derive(Clone, Copy)]
pub(crate) enum Plan<'a> {
    /// Which places roll up, and where voids stand.
    Rolls(&'a Decisions),
    /// The same, and which rows have filters.
    Filters(&'a Choices),
}

/// What is done at a place.
struct Step {
    state: State,
    written: bool,
    filter: Option<u8>,
    exact: Option<Said>,
}

impl State {
    fn of(said: Said) -> State {
        match said {
            Said::Absent => State::Absent,
            Said::Filter(width) => State::Filter(width),
            Said::Open => State::Open,
        }
    }

    fn said(self) -> Said {
        match self {
            State::Absent | State::Locked => Said::Absent,
            State::Filter(width) => Said::Filter(width),
            State::Open | State::Given => Said::Open,
        }
    }
}

impl Plan<'_> {
    #[inline]
    fn step(self, id: usize, above: State, filter: Option<u8>) -> Step {
        let step = |state, written| Step {
            state,
            written,
            filter: None,
            exact: None,
        };
        match self {
            Plan::Rolls(decisions) => {
                let decision = decisions.get(id);
                let (state, written) = match above {
                    State::Locked => (State::Locked, decision & (GIVEN_WILDCARD | GIVEN_VOID) != 0),
                    _ if decision & GIVEN_VOID != 0 => (State::Locked, true),
                    State::Given => (State::Given, false),
                    State::Open if decision & GIVEN_WILDCARD != 0 => (State::Given, false),
                    State::Absent if decision & GIVEN_WILDCARD != 0 => (State::Given, true),
                    State::Absent if decision & ROLL != 0 => (State::Open, true),
                    State::Open if decision & VOID_BELOW != 0 => (State::Absent, true),
                    above => (above, false),
                };
                let void = state == State::Open && decision & VOID_HERE != 0;
                Step {
                    exact: void.then_some(Said::Absent),
                    ..step(state, written)
                }
            }
            Plan::Filters(choices) => {
                let choice = choices.get(id);
                if above == State::Locked {
                    return step(State::Locked, choice.given_wildcard || choice.given_void);
                }
                if choice.given_void {
                    return step(State::Locked, true);
                }
                if above == State::Given {
                    return Step {
                        filter,
                        ..step(State::Given, false)
                    };
                }
                let row = choice.below(above.said());
                let said = row.unwrap_or(above.said());
                let state = match choice.given_wildcard {
                    true => State::Given,
                    false => State::of(said),
                };
                Step {
                    state,
                    written: row.is_some(),
                    filter: said.width(),
                    exact: match choice.given_wildcard {
                        true => None,
                        false => choice.here(said),
                    },
                }
            }
        }
    }
}

/// How many bytes may wait.
const MOST_WAITING: usize = 24 << 20;

/// Where rows go.
enum Sink {
    Lines(Box<LineWriter>),
    Spool(Box<Spool>),
    /// Only the size counts.
    Measure(Box<Measure>),
}

/// Measures what gzip makes of some lines.
pub(crate) struct Measure {
    block: Vec<u8>,
    compressor: libdeflater::Compressor,
    pub(crate) gzip_bytes: u64,
}

impl Measure {
    fn flush(&mut self) {
        let mut out = vec![0; self.compressor.gzip_compress_bound(self.block.len())];
        // The bound is enough by its definition.
        self.gzip_bytes += self
            .compressor
            .gzip_compress(&self.block, &mut out)
            .unwrap_or(0) as u64;
        self.block.clear();
    }
}

/// Writes rows.
pub(crate) struct Writer<'a> {
    plan: Plan<'a>,
    style: Style,
    counting: Counting,
    sink: Sink,
    /// Wildcard rows whose places are open.
    open: usize,
    waiting: Vec<u8>,
    /// Where the rows that wait begin, where their keys end, where they end.
    rows: Vec<(usize, usize, usize)>,
    last: Vec<u8>,
    key: Vec<u8>,
    pub(crate) written: Summed,
    pub(crate) trace: Option<Vec<(u64, u64)>>,
    read: u64,
    failed: Option<crate::Error>,
    /// The order broke, or too much waited.
    pub(crate) gave_up: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summed {
    /// Rows.
    pub rows: u64,
    /// Of them voids.
    pub voids: u64,
    /// Of them wildcards that hold something.
    pub wildcards: u64,
    /// Captures, as far as rows say.
    pub captures: u64,
    /// Bytes of the rows.
    pub bytes: u64,
    /// Rows with a filter.
    pub filtered: u64,
    /// URI-Rs for each width of filters, by the width.
    pub keys: [u64; 18],
}

impl<'a> Writer<'a> {
    fn new(plan: Plan<'a>, style: Style, counting: Counting, sink: Sink) -> Writer<'a> {
        Writer {
            plan,
            style,
            counting,
            sink,
            open: 0,
            waiting: Vec::new(),
            rows: Vec::new(),
            last: Vec::new(),
            key: Vec::new(),
            written: Summed::default(),
            trace: None,
            read: 0,
            failed: None,
            gave_up: false,
        }
    }

    /// Writes to a file.
    pub(crate) fn to_file(
        path: &Path,
        head: &[u8],
        plan: Plan<'a>,
        style: Style,
        counting: Counting,
    ) -> Result<Writer<'a>> {
        let mut lines = LineWriter::create(path, &Format::of_name(path), 1)?;
        for line in head
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            lines.push(line)?;
        }
        Ok(Writer::new(
            plan,
            style,
            counting,
            Sink::Lines(Box::new(lines)),
        ))
    }

    /// Writes rows down, to be sorted.
    pub(crate) fn to_spool(room: &Room, plan: Plan<'a>, counting: Counting) -> Result<Writer<'a>> {
        let spool = Spool::new(room)?;
        Ok(Writer::new(
            plan,
            Style::Published,
            counting,
            Sink::Spool(Box::new(spool)),
        ))
    }

    /// Measures how large the file would be.
    pub(crate) fn to_measure(
        head: &[u8],
        plan: Plan<'a>,
        style: Style,
        counting: Counting,
    ) -> Writer<'a> {
        let measure = Measure {
            block: head.to_vec(),
            compressor: libdeflater::Compressor::new(libdeflater::CompressionLvl::default()),
            gzip_bytes: 0,
        };
        Writer::new(plan, style, counting, Sink::Measure(Box::new(measure)))
    }

    /// Puts a file in its place.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        self.flush();
        if let Some(error) = self.failed {
            return Err(error);
        }
        Ok(match self.sink {
            Sink::Lines(lines) => Finished::File(lines.finish()?.bytes_out),
            Sink::Spool(spool) => Finished::Spool(spool),
            Sink::Measure(mut measure) => {
                measure.flush();
                Finished::Measured(measure.gzip_bytes)
            }
        })
    }

    /// Adds a row whose key is in `self.key`.
    fn push(&mut self, frequency: &Frequency, filter: Option<u8>) {
        self.written.rows += 1;
        self.written.filtered += u64::from(filter.is_some());
        self.written.captures += frequency.captures.map_or(0, |captures| captures.value);
        if let Sink::Spool(spool) = &mut self.sink {
            if let Err(error) = spool.push(&self.key, None, frequency, filter) {
                self.failed.get_or_insert(error);
            }
            return;
        }
        let start = self.waiting.len();
        self.waiting.extend_from_slice(&self.key);
        let end = self.waiting.len();
        self.rows.push((start, end, end));
        self.waiting.push(b' ');
        match (self.style, frequency.captures) {
            (Style::Reference, Some(captures)) => {
                row::push_digits(captures.value, &mut self.waiting)
            }
            (Style::Reference, None) => self.waiting.push(b'1'),
            (Style::Published, _) => row::write_frequency(frequency, &mut self.waiting),
        }
        row::write_filter(filter, &mut self.waiting);
        if let Some(row) = self.rows.last_mut() {
            row.2 = self.waiting.len();
        }
        if self.open == 0 {
            self.flush();
        } else if self.waiting.len() > MOST_WAITING {
            self.gave_up = true;
            self.waiting.clear();
            self.rows.clear();
        }
    }

    fn flush(&mut self) {
        let Writer {
            waiting,
            rows,
            sink,
            last,
            style,
            ..
        } = self;
        if rows.len() > 1 && !rows.is_sorted_by(|a, b| waiting[a.0..a.1] <= waiting[b.0..b.1]) {
            rows.sort_by(|a, b| waiting[a.0..a.1].cmp(&waiting[b.0..b.1]));
        }
        for &(start, end, stop) in rows.iter() {
            let key = &waiting[start..end];
            if &last[..] > key {
                self.gave_up = true;
            }
            last.clear();
            last.extend_from_slice(key);
            let plain = !matches!(
                key.first(),
                None | Some(b'!' | b'@' | b'{' | b'[' | b'"' | b'\\')
            ) && key.iter().all(|&byte| byte > b' ');
            let mut escaped = Vec::new();
            let line = if plain || *style == Style::Reference {
                &waiting[start..stop]
            } else {
                crate::ukvs::write_field(key, true, &mut escaped);
                escaped.extend_from_slice(&waiting[end..stop]);
                &escaped[..]
            };
            self.written.bytes += line.len() as u64 + 1;
            match sink {
                Sink::Lines(lines) => {
                    if let Err(error) = lines.push(line) {
                        self.failed.get_or_insert(error.into());
                    }
                }
                Sink::Measure(measure) => {
                    measure.block.extend_from_slice(line);
                    measure.block.push(b'\n');
                    // The size of a gzip member in files that we write.
                    if measure.block.len() > 1 << 20 {
                        measure.flush();
                    }
                }
                Sink::Spool(_) => {}
            }
        }
        waiting.clear();
        rows.clear();
    }

    fn exact_key(&mut self, stem: &[u8], part: Part) {
        self.key.clear();
        self.key.extend_from_slice(stem);
        if part == Part::Site && self.style == Style::Published {
            self.key.push(b'/');
        }
    }
}

/// What became of the rows.
pub(crate) enum Finished {
    /// A file of so many bytes.
    File(u64),
    /// To be sorted.
    Spool(Box<Spool>),
    /// So many bytes gzipped.
    Measured(u64),
}

impl Visitor for Writer<'_> {
    type Node = Passed;

    fn open(&mut self, place: Place<'_>, parent: Option<&Passed>) -> Passed {
        let (above, filter) = parent.map_or((State::Absent, None), |parent| {
            (parent.state, parent.filter)
        });
        let Step {
            state,
            written,
            filter,
            exact,
        } = self.plan.step(place.id, above, filter);
        if written {
            self.open += 1;
        }
        if exact == Some(Said::Absent) {
            self.exact_key(place.stem, place.part);
            self.written.voids += 1;
            self.push(&VOID, None);
        }
        Passed {
            state,
            above,
            written,
            filter,
            exact,
            total: None,
            given: None,
        }
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, node: Passed, parent: Option<&mut Passed>) {
        let mut total = node.total;
        if let Some(given) = node.given {
            total = Some(match (self.counting, total) {
                (Counting::Partition, Some(total)) => total.plus(given),
                _ => given,
            });
        }
        if node.written {
            self.key.clear();
            place.write_wildcard(&mut self.key);
            let frequency = match (node.state, node.above) {
                (State::Open | State::Filter(_) | State::Given, _) => total.unwrap_or_default(),
                (State::Locked, State::Locked) => node.given.unwrap_or(VOID),
                (State::Locked, _) => node.given.filter(Frequency::is_void).unwrap_or(VOID),
                (State::Absent, _) => VOID,
            };
            let void = frequency.is_void();
            self.written.voids += u64::from(void);
            self.written.wildcards += u64::from(!void);
            self.open -= 1;
            self.push(&frequency, node.filter.filter(|_| !void));
            if self.open == 0 {
                self.flush();
            }
        } else if let (Some(total), Some(parent)) = (total, parent) {
            parent.total = Some(parent.total.map_or(total, |sum| sum.plus(total)));
        }
    }
}

impl Pass for Writer<'_> {
    #[inline]
    fn row(&mut self, node: &mut Passed, row: &Row<'_>, reach: Reach) -> Result<()> {
        self.read += 1;
        if let Some(trace) = &mut self.trace
            && (self.read.is_power_of_two() || self.read.is_multiple_of(10_000))
        {
            trace.push((self.read, self.written.rows));
        }
        let void = row.frequency.is_void();
        if !void {
            let filter = match (reach, node.exact) {
                (Reach::Exact, Some(said)) => said.width(),
                _ => node.filter,
            };
            self.written.keys[usize::from(filter.unwrap_or(0))] += row.urirs();
        }
        match (reach, void, node.state) {
            (Reach::Exact, false, State::Open | State::Filter(_) | State::Given)
                if node.exact.is_none() =>
            {
                node.total = Some(
                    node.total
                        .map_or(row.frequency, |sum| sum.plus(row.frequency)),
                );
            }
            (Reach::Exact, void, _) => {
                self.key.clear();
                self.key.extend_from_slice(&row.key);
                if self.style == Style::Reference && self.key.ends_with(b")/") {
                    self.key.pop();
                }
                self.written.voids += u64::from(void);
                let filter = node.exact.and_then(Said::width).filter(|_| !void);
                self.push(&row.frequency, filter);
            }
            (_, _, _) => {
                node.given = Some(
                    node.given
                        .map_or(row.frequency, |given| joined(given, row.frequency)),
                )
            }
        }
        Ok(())
    }
}
