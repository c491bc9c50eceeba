//! Writing a map by the decisions of an earlier pass.
//!
//! Rows [are queued](self::queue) while a wildcard is open. If too many are queued, or an unusual
//! key breaks the order, all rows are written to a temporary file and sorted instead.

pub(crate) mod assemble;
mod held;
pub(crate) mod measure;
pub(crate) mod once;
pub(crate) mod pieces;
pub(crate) mod queue;

use waypost_surt::Reach;

use self::assemble::SharedPart;
use self::queue::{Finished, Kind, Queue};
use crate::error::Result;
use crate::frequency::Frequency;
use crate::map::solve::{Choices, Loan, Verdict};
use crate::map::tree::cut::{Borders, Handed};
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::second::{Names, Totals};
use crate::map::tree::tidy::joined;
use crate::map::tree::{Part, TreeNode, Visitor};

/// The style of keys and frequencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As in the published format: headers, `com,x)/` for a root, `captures/URI-Rs`.
    #[default]
    Published,
    /// As written by the papers' tool: no headers, `com,x)` for a root, captures only.
    Reference,
}

/// Whether wildcard rows include the counts of more specific rows below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Each URI-R is counted in exactly one row: the rows add up to the total.
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
    /// Nothing, or a void that pays off.
    Absent,
    /// A wildcard.
    Open,
    /// A wildcard with a filter.
    Filter(u8),
    /// A wildcard of the input map: nothing was learned about what is below it.
    SourceMap,
    /// A void of the input map: everything below it stays as it is.
    Locked,
}

/// An open node.
#[derive(Clone)]
pub(crate) struct Passed {
    state: State,
    /// The verdict of its parent's row.
    above: State,
    /// Whether a wildcard row is written for it.
    written: bool,
    /// The filter that decides what is below it, and that of its wildcard row, if one is written.
    filter: Option<u8>,
    /// The verdict of its exact row, if one is written.
    exact: Option<Verdict>,
    /// The counts of rows that are not written.
    total: Totals,
    given: Totals,
}

impl Passed {
    /// Adds the rows of the input map to the counts.
    #[inline]
    fn settle(&mut self, counting: Counting) {
        match counting {
            Counting::Partition => self.total.add_all(&self.given),
            Counting::Accumulate => self.total.replace(&self.given),
        }
    }

    /// Adds the wildcard rows of the node.
    fn push_wildcards(&self, place: &TreeNode<'_>, names: &Names, queue: &mut Queue) {
        let frequencies = match (self.state, self.above) {
            (State::Open | State::Filter(_) | State::SourceMap, _) if !self.total.is_empty() => {
                self.total.sorted(names)
            }
            (State::Open | State::Filter(_) | State::SourceMap, _) => {
                vec![(None, Frequency::default())]
            }
            (State::Locked, State::Locked) => vec![(None, self.given.one().unwrap_or(VOID))],
            (State::Locked, _) => {
                let given = self.given.one().filter(Frequency::is_void);
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
            let filter = self.filter.filter(|_| kind == Kind::Wildcard);
            queue.push(kind, &frequency, second, filter, |out| {
                place.write_wildcard(out);
            });
        }
    }
}

/// The rows to write at a node.
struct Step {
    state: State,
    written: bool,
    filter: Option<u8>,
    exact: Option<Verdict>,
}

impl State {
    fn of(verdict: Verdict) -> State {
        match verdict {
            Verdict::Absent => State::Absent,
            Verdict::Filter(width) => State::Filter(width),
            Verdict::Open => State::Open,
        }
    }

    fn verdict(self) -> Verdict {
        match self {
            State::Absent | State::Locked => Verdict::Absent,
            State::Filter(width) => Verdict::Filter(width),
            State::Open | State::SourceMap => Verdict::Open,
        }
    }
}

/// The rows to write at a node, given the verdict and the filter above it.
#[inline]
fn step(choices: &Choices<'_>, id: usize, above: State, filter: Option<u8>) -> Step {
    let step = |state, written| Step {
        state,
        written,
        filter: None,
        exact: None,
    };
    let choice = choices.get(id);
    if above == State::Locked {
        return step(State::Locked, choice.given_wildcard || choice.given_void);
    }
    if choice.given_void {
        return step(State::Locked, true);
    }
    if above == State::SourceMap {
        return Step {
            filter,
            ..step(State::SourceMap, false)
        };
    }
    let row = choice.below(above.verdict());
    let verdict = row.unwrap_or(above.verdict());
    Step {
        state: match choice.given_wildcard {
            true => State::SourceMap,
            false => State::of(verdict),
        },
        written: row.is_some(),
        filter: verdict.width(),
        exact: match choice.given_wildcard {
            true => None,
            false => choice.here(verdict),
        },
    }
}

/// Writes rows.
pub(crate) struct Writer<'a> {
    choices: Loan<'a, Choices<'a>>,
    style: Style,
    counting: Counting,
    pub(crate) queue: Queue,
    names: Names,
    /// URI-Rs by width of filter.
    keys: [u64; 18],
    /// Wildcard rows whose nodes are open.
    open: usize,
    pub(crate) trace: Option<Vec<(u64, u64)>>,
    read: u64,
    borders: Borders,
    /// What a piece has of shared nodes.
    shared: Vec<(Handed, SharedPart)>,
}

/// Statistics of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summed {
    /// Rows.
    pub rows: u64,
    /// Voids among them.
    pub voids: u64,
    /// Wildcards among them that hold something.
    pub wildcards: u64,
    /// Captures, as far as rows state them.
    pub captures: u64,
    /// Bytes of the rows.
    pub bytes: u64,
    /// Rows with a filter.
    pub filtered: u64,
    /// URI-Rs by width of filter.
    pub keys: [u64; 18],
}

impl Summed {
    /// Counts a row.
    pub(crate) fn count(&mut self, kind: Kind, filtered: bool, captures: u64, bytes: u64) {
        self.rows += 1;
        self.filtered += u64::from(filtered);
        self.voids += u64::from(kind == Kind::Void);
        self.wildcards += u64::from(kind == Kind::Wildcard);
        self.captures = self.captures.saturating_add(captures);
        self.bytes += bytes;
    }

    /// Adds the rows of another part.
    pub(crate) fn add(&mut self, other: &Summed) {
        self.rows += other.rows;
        self.voids += other.voids;
        self.wildcards += other.wildcards;
        self.captures = self.captures.saturating_add(other.captures);
        self.bytes += other.bytes;
        self.filtered += other.filtered;
        for (sum, more) in self.keys.iter_mut().zip(other.keys) {
            *sum += more;
        }
    }
}

impl<'a> Writer<'a> {
    /// Writes to a queue.
    pub(crate) fn new(
        choices: Loan<'a, Choices<'a>>,
        style: Style,
        counting: Counting,
        queue: Queue,
    ) -> Writer<'a> {
        Writer {
            choices,
            style,
            counting,
            queue,
            names: Names::default(),
            keys: [0; 18],
            open: 0,
            trace: None,
            read: 0,
            borders: Borders::NONE,
            shared: Vec::new(),
        }
    }

    /// Moves the file to its final path.
    pub(crate) fn finish(self) -> Result<(Finished, Summed)> {
        let (finished, written) = self.queue.finish()?;
        let keys = self.keys;
        Ok((finished, Summed { keys, ..written }))
    }

    fn settle(&mut self) {
        if self.open == 0 {
            self.queue.settle();
        }
    }
}

/// Appends the exact key of a node.
fn write_exact(place: &TreeNode<'_>, style: Style, out: &mut Vec<u8>) {
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

    fn open(&mut self, place: TreeNode<'_>, parent: Option<&Passed>) -> Passed {
        let (above, filter) = parent.map_or((State::Absent, None), |parent| {
            (parent.state, parent.filter)
        });
        let Step {
            state,
            written,
            filter,
            exact,
        } = step(&self.choices, place.id, above, filter);
        if written {
            self.open += 1;
        }
        if exact == Some(Verdict::Absent) && !self.borders.continues(&place) {
            let style = self.style;
            self.queue.push(Kind::Void, &VOID, None, None, |out| {
                write_exact(&place, style, out)
            });
        }
        Passed {
            state,
            above,
            written,
            filter,
            exact,
            total: Totals::default(),
            given: Totals::default(),
        }
    }

    #[inline]
    fn close(&mut self, place: TreeNode<'_>, node: &mut Passed, parent: Option<&mut Passed>) {
        if let Some(handed) = self.borders.handed(&place) {
            self.open -= usize::from(node.written);
            self.hand_over(&place, node.clone(), handed);
            return;
        }
        node.settle(self.counting);
        if !node.written {
            if let Some(parent) = parent {
                parent.total.add_all(&node.total);
            }
            return;
        }
        self.open -= 1;
        node.push_wildcards(&place, &self.names, &mut self.queue);
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
        if !void {
            let filter = match (reach, node.exact) {
                (Reach::Exact, Some(verdict)) => verdict.width(),
                _ => node.filter,
            };
            self.keys[usize::from(filter.unwrap_or(0))] += row.urirs();
        }
        let second = row.second.as_ref().map(|second| self.names.number(second));
        match (reach, void, node.state) {
            (Reach::Exact, false, State::Open | State::Filter(_) | State::SourceMap)
                if node.exact.is_none() =>
            {
                node.total.add(second, row.frequency, Frequency::plus);
            }
            (Reach::Exact, void, _) => {
                let kind = if void { Kind::Void } else { Kind::Exact };
                let filter = node.exact.and_then(Verdict::width).filter(|_| !void);
                let (style, second) = (self.style, row.second.as_deref());
                self.queue
                    .push(kind, &row.frequency, second, filter, |out| {
                        write_key(&row.key, style, out);
                    });
                self.settle();
            }
            (_, _, _) => node.given.add(second, row.frequency, joined),
        }
        Ok(())
    }
}
