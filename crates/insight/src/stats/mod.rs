//! What an archive holds, from its index alone.
//!
//! ```text
//! index ─► scan: Counting ─► Counted: URI-Rs by month, tallies of captures ─► one pass in order ─► Statistics
//!                 (partials that merge)                                        walk: the tree of keys
//! ```
//!
//! The measures are those of the MementoMap paper (sections 5.1 to 5.3) and of the profiling paper
//! (section 5.1). All counts are exact, unless estimates are asked for: [`Estimating`] needs little memory
//! and no temporary files. Distributions are kept as [histograms](crate::numeric::histogram),
//! whose size grows with the square root of the number of captures; lists keep the largest entries.

mod assemble;
mod collect;
pub mod compare;
mod counter;
mod defects;
mod estimate;
mod figures;
mod lookups;
mod media;
pub mod memgator;
pub mod model;
mod partial;
mod report;
mod sample;
mod tables;
mod tallies;
mod top;
mod traps;
mod tree;
mod walk;

use waypost_index::rejects::RejectsFile;
use waypost_io::progress::{Phase, Progress};
use waypost_summary::evaluate::Lookups;
use waypost_summary::holdings::{Input, Reading, scan_input};
use waypost_summary::{By, Classes, Result};

pub use estimate::{Estimated, Estimating, of_estimated};
pub use model::Statistics;
pub use partial::{Counted, Counting};
pub use report::html;
pub use tables::{Section, Titled, tables};

/// What to compute.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The name of the archive, for the report.
    pub name: String,
    /// How many entries lists have.
    pub top: usize,
    /// Lookups to compare with what is held.
    pub lookups: Option<&'a Lookups>,
    /// Classes to count separately.
    pub classes: Option<&'a Classes>,
    /// The memory limit, in bytes.
    pub memory: usize,
    /// Whether to estimate, in little memory and without temporary files: see [`Estimating`].
    pub approximate: bool,
    /// Where to report progress.
    pub progress: Progress,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            name: String::new(),
            top: 100,
            lookups: None,
            classes: None,
            memory: 1 << 30,
            approximate: false,
            progress: Progress::default(),
        }
    }
}

/// Reads the whole input once and computes its statistics.
///
/// # Errors
/// When the input cannot be read, or a temporary file cannot be written.
pub fn statistics(
    input: &Input,
    options: &Options<'_>,
    rejects: Option<&mut RejectsFile>,
) -> Result<(Statistics, Reading)> {
    let input = Input {
        by: Some(By::Month),
        ..input.clone()
    };
    let (mut found, reading) = if options.approximate {
        let job = |_| Estimating::new(input.dialect, &input.resources);
        let (estimated, mut reading) = scan_input(&input, job, rejects)?;
        let found = of_estimated(estimated, &mut reading, options)?;
        (found, reading)
    } else {
        let job = |_| Counting::new(input.dialect, &input.resources);
        let (mut counted, mut reading) = scan_input(&input, job, rejects)?;
        input.progress.begin(Phase::Sorting, None);
        reading.finish(counted.held())?;
        (of_counted(counted, &reading, options)?, reading)
    };
    let sizes: Vec<Option<u64>> = input.sources.iter().map(|source| source.size()).collect();
    found.totals.stored_bytes = sizes.into_iter().sum();
    Ok((found, reading))
}

/// The statistics of captures that were counted, in ranges or on other machines.
///
/// # Errors
/// When spilled rows cannot be read.
pub fn of_counted(
    mut counted: Counted,
    reading: &Reading,
    options: &Options<'_>,
) -> Result<Statistics> {
    let found = collect::collect(
        &mut counted.held,
        options,
        options.memory,
        &options.progress,
    )?;
    assemble::assemble(found, counted.tallies, reading, options, None)
}
