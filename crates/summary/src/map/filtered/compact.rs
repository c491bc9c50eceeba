//! Building a filtered map: the rows and their companion, both or neither.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempPath;

use super::companion::{self, BuiltCompanion};
use super::growth::Growth;
use super::publish::{gzipped_size, place, spelled, temporary};
use super::search::{Chosen, Search};
use crate::error::{Error, Result};
use crate::holdings::{Holdings, Reading};
use crate::map::compact::{Report, SourceMap, head_with, how_of, write_solution};
use crate::map::solve::prior::Prior;
use crate::map::solve::top::Top;
use crate::map::tree::sample::Sample;
use crate::map::write::Style;
use crate::ukvs::{Headers, Value};

/// The maximum size of a filtered map, or its target Accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilteredBudget {
    /// Total size in bytes of the gzipped rows and the filter.
    Bytes(u64),
    /// The share of lookups to be answered correctly.
    Accuracy(f64),
    /// The price of a false positive, in bytes.
    Lambda(f64),
}

/// Options for a filtered map.
#[derive(Clone, Debug)]
pub struct Filtered {
    /// The maximum size or the target Accuracy.
    pub budget: FilteredBudget,
    /// Lookups that price false positives.
    pub sample: Option<Sample>,
    /// Expected misses where there are no lookups. Learned from the lookups, if there are any.
    pub prior: Option<Prior>,
    /// The highest level at which wildcards are allowed; by default, anywhere.
    pub top: Option<Top>,
    /// The widest filter, in bits.
    pub max_width: u8,
    /// Expected newcomers.
    pub growth: Option<Growth>,
    /// The price of a newcomer that is called absent, in false positives.
    pub miss_price: f64,
    /// The holdings, to fill the filters.
    pub holdings: Holdings,
}

/// The result of building a filtered map.
#[derive(Debug, Default)]
pub struct Built {
    /// The result for the rows.
    pub report: Report,
    /// The size of the gzipped rows, in bytes.
    pub row_bytes: u64,
    /// The size of the filter in bytes; zero if no row has a filter.
    pub filter_bytes: u64,
    /// The path of the filter.
    pub filter: Option<PathBuf>,
    /// URI-Rs in filters.
    pub filter_keys: u64,
    /// The expected share of correct answers, if there were lookups.
    pub accuracy: Option<f64>,
    /// Expected newcomers called absent, if they have a price.
    pub missed: Option<f64>,
    /// What was read of the holdings.
    pub reading: Arc<Reading>,
}

/// Builds a filtered map.
///
/// # Errors
/// If the map or the holdings can't be read or don't match, or the output can't be written.
pub fn compact_filtered(given: &mut SourceMap, filtered: &Filtered, out: &Path) -> Result<Built> {
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
            // The exact size of filters is known only once they are built.
            let shipped = made.shipped();
            if shipped > allowed {
                smallest = smallest.min(shipped);
                let share = tried as f64 * allowed as f64 / shipped as f64;
                within.budget = FilteredBudget::Bytes((0.9995 * share) as u64);
                continue;
            }
        }
        return made.publish(out);
    }
    Err(Error::invalid(format!(
        "the map takes {smallest} bytes with its filter, and no smaller one was found"
    )))
}

/// How often a map that exceeds its budget is rebuilt.
const TRIES: usize = 6;

/// A map that is not published yet.
struct Unpublished {
    built: Built,
    rows: TempPath,
    filter: TempPath,
    made: BuiltCompanion,
    head: Vec<u8>,
}

impl Unpublished {
    /// Total size of all files in bytes.
    fn shipped(&self) -> u64 {
        self.built.row_bytes + self.built.filter_bytes
    }

    fn publish(self, out: &Path) -> Result<Built> {
        let mut built = self.built;
        (built.report.bytes, built.filter) =
            place(&self.rows, &self.made, &self.filter, &self.head, out)?;
        Ok(built)
    }
}

/// The headers of a map for the identity of its filter.
fn head_of(headers: &Headers, mut how: Vec<(String, Value)>, filter: Option<u64>) -> Vec<u8> {
    how.extend(filter.map(|identity| ("filter".into(), Value::Text(spelled(identity)))));
    head_with(headers, how)
}

/// Chooses a map, and builds its rows and its filter.
fn make(given: &mut SourceMap, filtered: &Filtered) -> Result<Unpublished> {
    // The search needs the memory.
    filtered.holdings.spill()?;
    let lookups = filtered.sample.as_ref().map(Sample::lookups);
    let how = |lambda: f64| how_of(Some(lambda), lookups);
    // The first pass detects whether the rows are tidy.
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
    let made = companion::make(&rows, &given.source, holdings, room, &filter)?;
    built.filter_keys = made.keys;
    built.reading = Arc::clone(&made.reading);
    built.filter_bytes = made.file.map_or(0, |(bytes, _)| bytes);
    // The headers have the identity of the filter, which is known only now.
    let head = head_of(&given.headers, how(lambda), made.identity());
    built.row_bytes = gzipped_size(&rows, &head, room)?;
    Ok(Unpublished {
        built,
        rows,
        filter,
        made,
        head,
    })
}

/// Writes only the rows, uncompressed.
fn write_rows(search: &mut Search<'_>, chosen: &Chosen, built: &mut Built) -> Result<TempPath> {
    let rows = temporary(&search.given.room)?;
    write_solution(
        search.given,
        &search.outline,
        &chosen.solution,
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
