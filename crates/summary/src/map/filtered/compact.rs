//! Making a filtered map: rows and the filter beside them, both there or neither.

use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::companion::{self, Made};
use super::growth::Growth;
use super::publish::{place, spelled, temporary};
use super::search::{Chosen, Search};
use crate::error::{Error, Result};
use crate::holdings::{Input, Reading};
use crate::map::compact::{Given, Report, head_with, how_of, write};
use crate::map::prior::Prior;
use crate::map::sample::Sample;
use crate::map::top::Top;
use crate::map::write::Style;
use crate::ukvs::{Headers, Value};

/// How large a filtered map may be, or how good it is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilteredBudget {
    /// Bytes of the gzipped rows and the filter together.
    Bytes(u64),
    /// The share of lookups to be answered rightly.
    Accuracy(f64),
    /// What a false positive costs, in bytes.
    Lambda(f64),
}

/// How to make a filtered map.
#[derive(Clone, Debug)]
pub struct Filtered {
    /// How large, or how good.
    pub budget: FilteredBudget,
    /// Lookups to price false positives by.
    pub sample: Option<Sample>,
    /// What to expect where no lookup is known. Learned from the lookups if there are any.
    pub prior: Option<Prior>,
    /// How far up wildcards may stand; anywhere, if not given.
    pub top: Option<Top>,
    /// The widest filter, in bits.
    pub max_width: u8,
    /// Newcomers to be expected.
    pub growth: Option<Growth>,
    /// What a newcomer that is missed costs, in false positives.
    pub miss_price: f64,
    /// What is held, to fill the filters.
    pub holdings: Input,
}

/// What was made.
#[derive(Debug, Default)]
pub struct Built {
    /// What was made of the rows.
    pub report: Report,
    /// The gzipped rows, in bytes.
    pub row_bytes: u64,
    /// The filter, in bytes; none if no row has one.
    pub filter_bytes: u64,
    /// Where the filter is.
    pub filter: Option<PathBuf>,
    /// URI-Rs in filters.
    pub filter_keys: u64,
    /// The share of lookups that should be answered rightly, if there were lookups.
    pub accuracy: Option<f64>,
    /// Newcomers that will be missed, if they had a price.
    pub missed: Option<f64>,
    /// What was read of the holdings.
    pub reading: Reading,
}

/// Makes a filtered map.
///
/// # Errors
/// When the map or the holdings cannot be read, do not fit together, or nothing can be written.
pub fn compact_filtered(given: &mut Given, filtered: &Filtered, out: &Path) -> Result<Built> {
    if out.as_os_str() == "-" {
        return Err(Error::invalid(
            "a map with filters consists of two files and cannot be written to standard output",
        ));
    }
    let mut within = filtered.clone();
    let mut smallest = u64::MAX;
    for _ in 0..TRIES {
        let made = make(given, &within)?;
        if let (FilteredBudget::Bytes(allowed), FilteredBudget::Bytes(tried)) =
            (filtered.budget, within.budget)
        {
            // How large filters are is known for sure when they are built.
            let shipped = made.shipped();
            if shipped > allowed {
                smallest = smallest.min(shipped);
                let share = tried as f64 * allowed as f64 / shipped as f64;
                within.budget = FilteredBudget::Bytes((0.9995 * share) as u64);
                continue;
            }
        }
        return made.publish(given, out);
    }
    Err(Error::invalid(format!(
        "the map takes {smallest} bytes with its filter, and no smaller one was found"
    )))
}

/// How often a map that came out larger than allowed is made again.
const TRIES: usize = 6;

/// A map that has no place yet.
struct Unpublished {
    built: Built,
    rows: TempPath,
    filter: TempPath,
    made: Made,
    how: Vec<(String, Value)>,
}

impl Unpublished {
    /// Bytes of all files.
    fn shipped(&self) -> u64 {
        self.built.row_bytes + self.built.filter_bytes
    }

    fn publish(self, given: &Given, out: &Path) -> Result<Built> {
        let mut built = self.built;
        let head = head_of(&given.headers, self.how, self.made.identity());
        (built.report.bytes, built.filter) =
            place(&self.rows, &self.made, &self.filter, &head, out)?;
        Ok(built)
    }
}

/// The headers of a map, given what tells its filter from others.
fn head_of(headers: &Headers, mut how: Vec<(String, Value)>, filter: Option<u64>) -> Vec<u8> {
    how.extend(filter.map(|identity| ("filter".into(), Value::Text(spelled(identity)))));
    head_with(headers, how)
}

/// Chooses a map, and makes its rows and its filter.
fn make(given: &mut Given, filtered: &Filtered) -> Result<Unpublished> {
    let lookups = filtered.sample.as_ref().map(Sample::lookups);
    let how = |lambda: f64| how_of(Some(lambda), lookups);
    // The first walk finds out whether the rows are tidy.
    let wide = head_of(&given.headers, how(12.345_67), Some(0x0123_4567_89ab_cdef));
    let mut search = Search::new(given, filtered, &wide)?;
    let chosen = search.find()?;
    let (wrong, lambda) = (chosen.wrong, chosen.solution.lambda);
    let mut built = Built {
        report: Report {
            rows_in: search.rows,
            urirs: search.urirs,
            lambda: Some(lambda),
            false_positives: Some(wrong),
            misses: Some(chosen.solution.misses),
            ..Report::default()
        },
        accuracy: filtered
            .sample
            .as_ref()
            .map(|sample| 1.0 - wrong / sample.weight().max(1.0)),
        missed: (filtered.miss_price > 0.0).then_some(chosen.totals.missed),
        ..Built::default()
    };
    let rows = write_rows(&mut search, &chosen, &mut built)?;
    built.report.sorted = given.sorted;
    let filter = temporary(&given.room)?;
    let (holdings, room) = (&filtered.holdings, &given.room);
    let mut made = companion::make(&rows, &given.source, holdings, room, &filter)?;
    built.filter_keys = made.keys;
    built.reading = std::mem::take(&mut made.reading);
    built.filter_bytes = made.file.map_or(0, |(bytes, _)| bytes);
    built.row_bytes = chosen.rows;
    Ok(Unpublished {
        built,
        rows,
        filter,
        made,
        how: how(lambda),
    })
}

/// Writes the rows alone, plain.
fn write_rows(search: &mut Search<'_>, chosen: &Chosen, built: &mut Built) -> Result<TempPath> {
    let rows = temporary(&search.given.room)?;
    let folder = &search.given.room.temporary;
    let choices = chosen.solution.choices(&search.outline, folder)?;
    write(
        search.given,
        &choices,
        search.sample.as_ref(),
        search.has_ports,
        &head_with(&search.given.headers, Vec::new()),
        Style::Published,
        &rows,
        false,
        &mut built.report,
    )?;
    Ok(rows)
}
