//! Checking a map: is it well formed, sorted, free of redundant rows, and correct?

use waypost_index::rejects::printable;
use waypost_io::Source;
use waypost_surt::{Key, Reach};

use super::filtered::Said;
use super::lookup::Map;
use super::tree::row::Row;
use super::tree::rows::{Order, Rows, Why};
use super::write::Counting;
use crate::error::Result;
use crate::frequency::Frequency;
use crate::holdings::{self, Input, Reading, Reduce, Run};
use crate::lookup::Lookup;
use crate::summary::{Answer, Summary};
use crate::ukvs::Wholeness;

/// How many examples are kept.
const EXAMPLES: usize = 5;

/// The result of the check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Rows.
    pub rows: u64,
    /// Wildcards among them that hold something.
    pub wildcards: u64,
    /// Voids among them.
    pub voids: u64,
    /// Rows with a filter among them.
    pub filtered: u64,
    /// The total of the rows; `None` where a row does not state it.
    pub total: Option<Frequency>,
    /// The first row that is out of order, duplicate or not in canonical form: line and key.
    pub disorder: Option<(u64, String, &'static str)>,
    /// Redundant rows: nonzero rows below a wildcard, voids that are not below anything.
    pub shadowed: u64,
    /// The first of them, with their line numbers.
    pub shadowed_examples: Vec<(u64, String)>,
    /// Whether wildcards include the counts of rows below them.
    pub counting: Option<Counting>,
    /// Whether it is known to have all of its rows.
    pub wholeness: Wholeness,
}

/// Rows above the current one that cover it.
struct Above {
    stem: Vec<u8>,
    reach: Reach,
    says: Said,
}

/// Checks the format and the order of a map, and finds redundant rows.
///
/// # Errors
/// If a line is malformed, with its position.
pub fn check(source: &Source) -> Result<Checked> {
    let mut rows = Rows::open(source, Order::Watch)?;
    let mut checked = Checked::default();
    let mut above: Vec<Above> = Vec::new();
    let mut first = true;
    while let Some(row) = rows.next()? {
        let row = Row {
            key: row.key.into_owned().into(),
            second: row.second.map(|second| second.into_owned().into()),
            frequency: row.frequency,
            filter: row.filter,
        };
        let line = rows.line_number();
        checked.rows += 1;
        let key = Key::new(&row.key);
        let void = row.frequency.is_void();
        checked.voids += u64::from(void);
        checked.filtered += u64::from(row.filter.is_some());
        let says = match (void, row.filter) {
            (true, _) => Said::Absent,
            (false, Some(width)) => Said::Filter(width),
            (false, None) => Said::Open,
        };
        checked.wildcards += u64::from(!void && key.reach() != Reach::Exact);
        checked.total = if first {
            Some(row.frequency)
        } else {
            checked.total.map(|sum| sum.plus(row.frequency))
        };
        first = false;
        above.retain(|other| covers(other, &key));
        let nearest = above.last().map(|other| other.says);
        // A wildcard may come after rows that it covers; those few are not checked.
        if nearest == Some(says) || (nearest.is_none() && void) {
            checked.shadowed += 1;
            if checked.shadowed_examples.len() < EXAMPLES {
                checked.shadowed_examples.push((line, printable(&row.key)));
            }
        }
        if key.reach() != Reach::Exact && above.last().is_none_or(|other| other.stem != key.stem())
        {
            above.push(Above {
                stem: key.stem().to_vec(),
                reach: key.reach(),
                says,
            });
        }
    }
    checked.wholeness = rows.wholeness()?;
    checked.counting = Some(super::compact::counting(rows.headers()));
    checked.disorder = rows.untidy().map(|untidy| {
        let why = match untidy.why {
            Why::Order => "comes after a larger key",
            Why::Twice => "comes a second time",
            Why::Spelling => "is not spelled as maps spell it, or has a query",
        };
        (untidy.line, printable(&untidy.here), why)
    });
    Ok(checked)
}

/// Reads all rows of a map to find out whether it is known to be whole.
///
/// # Errors
/// If rows are missing, or a line is malformed.
pub fn wholeness(source: &Source) -> Result<Wholeness> {
    let mut rows = Rows::open(source, Order::Any)?;
    while rows.next()?.is_some() {}
    rows.wholeness()
}

fn covers(above: &Above, key: &Key<'_>) -> bool {
    let Some(below) = key.stem().strip_prefix(&above.stem[..]) else {
        return false;
    };
    match above.reach {
        Reach::All => true,
        Reach::Hosts => matches!(below.first(), None | Some(b',' | b':' | b')')),
        _ => {
            below.is_empty() && key.reach() == Reach::Exact
                || matches!(below.first(), Some(b'/' | b'?'))
        }
    }
}

/// Held URIs that a map calls absent.
#[derive(Debug, Default)]
pub struct Missed {
    /// URI-Rs looked up.
    pub urirs: u64,
    /// Those called absent.
    pub missed: u64,
    /// The first of them.
    pub examples: Vec<String>,
    /// What was read.
    pub reading: Reading,
}

/// Looks up every held URI.
///
/// # Errors
/// When the map or the holdings cannot be read.
pub fn prove(map: Map, holdings: &Input) -> Result<Missed> {
    let mut missed = Missed::default();
    missed.reading = holdings::read(holdings, &Prover { map }, |part, _| {
        missed.urirs += part.urirs;
        missed.missed += part.missed;
        let room = EXAMPLES.saturating_sub(missed.examples.len());
        missed.examples.extend(part.examples.into_iter().take(room));
        Ok(())
    })?;
    Ok(missed)
}

struct Prover {
    map: Map,
}

impl Reduce for Prover {
    type Part = Missed;

    fn part(&self) -> Missed {
        Missed::default()
    }

    fn run(&self, part: &mut Missed, run: &Run) {
        part.urirs += 1;
        // The filter was verified when the map was opened. If it fails now, nothing is proved.
        let answer = self.map.lookup(&Lookup::spelled(&run.surt, &run.surt));
        if answer.map_or(true, |answer| answer == Answer::Absent) {
            part.missed += 1;
            if part.examples.len() < EXAMPLES {
                part.examples.push(printable(&run.surt));
            }
        }
    }
}
