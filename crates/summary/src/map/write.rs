//! Writing a map by the decisions of an earlier walk.
//!
//! Rows [wait](super::queue) while a wildcard is open. Should too many wait, or should an odd key break
//! the order, everything is written down and sorted instead.

use waypost_surt::Reach;

use super::decision::{Decisions, GIVEN_VOID, GIVEN_WILDCARD, ROLL, VOID_BELOW, VOID_HERE};
use super::pass::Pass;
use super::queue::{Kind, Queue};
use super::row::Row;
use super::second::{Names, Totals};
use super::tidy::joined;
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
    /// What rows that are not written count.
    total: Totals,
    given: Totals,
}

/// Writes rows.
pub(crate) struct Writer<'a> {
    decisions: &'a Decisions,
    style: Style,
    counting: Counting,
    pub(crate) queue: Queue,
    names: Names,
    /// Wildcard rows whose places are open.
    open: usize,
    pub(crate) trace: Option<Vec<(u64, u64)>>,
    read: u64,
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
}

impl Summed {
    /// Counts a row.
    pub(crate) fn count(&mut self, kind: Kind, captures: u64, bytes: u64) {
        self.rows += 1;
        self.voids += u64::from(kind == Kind::Void);
        self.wildcards += u64::from(kind == Kind::Wildcard);
        self.captures += captures;
        self.bytes += bytes;
    }
}

impl<'a> Writer<'a> {
    /// Writes into a queue.
    pub(crate) fn new(
        decisions: &'a Decisions,
        style: Style,
        counting: Counting,
        queue: Queue,
    ) -> Writer<'a> {
        Writer {
            decisions,
            style,
            counting,
            queue,
            names: Names::default(),
            open: 0,
            trace: None,
            read: 0,
        }
    }

    fn settle(&mut self) {
        if self.open == 0 {
            self.queue.settle();
        }
    }
}

/// Appends the exact key of a place.
fn write_exact(place: &Place<'_>, style: Style, out: &mut Vec<u8>) {
    out.extend_from_slice(place.stem);
    if place.part == Part::Site && style == Style::Published {
        out.push(b'/');
    }
}

/// Appends the key of a row in a style.
#[inline]
pub(crate) fn write_key(key: &[u8], style: Style, out: &mut Vec<u8>) {
    let root = style == Style::Reference && key.ends_with(b")/");
    out.extend_from_slice(&key[..key.len() - usize::from(root)]);
}

impl Visitor for Writer<'_> {
    type Node = Passed;

    fn open(&mut self, place: Place<'_>, parent: Option<&Passed>) -> Passed {
        let decision = self.decisions.get(place.id);
        let above = parent.map_or(State::Absent, |parent| parent.state);
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
        if written {
            self.open += 1;
        }
        if state == State::Open && decision & VOID_HERE != 0 {
            let style = self.style;
            self.queue.push(Kind::Void, &VOID, None, |out| {
                write_exact(&place, style, out)
            });
        }
        Passed {
            state,
            above,
            written,
            total: Totals::default(),
            given: Totals::default(),
        }
    }

    #[inline]
    fn close(&mut self, place: Place<'_>, node: Passed, parent: Option<&mut Passed>) {
        let mut total = node.total;
        match self.counting {
            Counting::Partition => total.add_all(&node.given),
            Counting::Accumulate => total.replace(&node.given),
        }
        if !node.written {
            if let Some(parent) = parent {
                parent.total.add_all(&total);
            }
            return;
        }
        self.open -= 1;
        let frequencies = match (node.state, node.above) {
            (State::Open | State::Given, _) if !total.is_empty() => total.sorted(&self.names),
            (State::Open | State::Given, _) => vec![(None, Frequency::default())],
            (State::Locked, State::Locked) => vec![(None, node.given.one().unwrap_or(VOID))],
            (State::Locked, _) => {
                let given = node.given.one().filter(Frequency::is_void);
                vec![(None, given.unwrap_or(VOID))]
            }
            (State::Absent, _) => vec![(None, VOID)],
        };
        for (second, frequency) in frequencies {
            let kind = if frequency.is_void() {
                Kind::Void
            } else {
                Kind::Wildcard
            };
            self.queue
                .push(kind, &frequency, second, |out| place.write_wildcard(out));
        }
        self.settle();
    }
}

impl Pass for Writer<'_> {
    #[inline]
    fn row(&mut self, node: &mut Passed, row: &Row<'_>, reach: Reach) -> Result<()> {
        self.read += 1;
        if let Some(trace) = &mut self.trace
            && (self.read.is_power_of_two() || self.read.is_multiple_of(10_000))
        {
            trace.push((self.read, self.queue.count()));
        }
        let void = row.frequency.is_void();
        let second = row.second.as_ref().map(|second| self.names.number(second));
        match (reach, void, node.state) {
            (Reach::Exact, false, State::Open | State::Given) => {
                node.total.add(second, row.frequency, Frequency::plus);
            }
            (Reach::Exact, void, _) => {
                let kind = if void { Kind::Void } else { Kind::Exact };
                let style = self.style;
                self.queue
                    .push(kind, &row.frequency, row.second.as_deref(), |out| {
                        write_key(&row.key, style, out);
                    });
                self.settle();
            }
            (_, _, _) => node.given.add(second, row.frequency, joined),
        }
        Ok(())
    }
}
