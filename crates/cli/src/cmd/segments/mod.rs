//! `waypost segments …`: which segments of a Common Crawl archive stand for the whole.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use waypost_index::scan::Outcome;
use waypost_insight::segments::counts::{self, Counts, LengthCut};
use waypost_insight::segments::location::Subset;
use waypost_io::Source;

use crate::cmd::profile::report_bad_lines;
use crate::cmd::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

pub(crate) mod html;
mod merge;
mod overlap;
mod predict;
mod rank;
mod tabulate;

/// Find the segments of a Common Crawl archive that stand for the whole
///
/// Compares the distribution of a property, such as the media type, in each segment with that in the
/// whole crawl, from the index alone.
#[derive(Args)]
pub(crate) struct Segments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tabulate(tabulate::Tabulate),
    Merge(merge::Merge),
    Rank(rank::Rank),
    Predict(predict::Predict),
    Overlap(overlap::Overlap),
}

impl Segments {
    /// Segments can be tabulated in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match &mut self.command {
            Command::Tabulate(tabulate) => Some(tabulate),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Tabulate(command) => command.run(out),
            Command::Merge(command) => command.run(out),
            Command::Rank(command) => command.run(out),
            Command::Predict(command) => command.run(out),
            Command::Overlap(command) => command.run(out),
        }
    }
}

/// Which part of a crawl is counted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubsetArgument {
    /// Successful retrievals
    Warc,
    /// Redirects, errors, not modified
    Crawldiagnostics,
    /// Retrievals of robots.txt
    Robotstxt,
    /// All captures
    All,
}

impl SubsetArgument {
    pub(crate) fn subset(self) -> Option<Subset> {
        match self {
            SubsetArgument::Warc => Some(Subset::Warc),
            SubsetArgument::Crawldiagnostics => Some(Subset::CrawlDiagnostics),
            SubsetArgument::Robotstxt => Some(Subset::RobotsTxt),
            SubsetArgument::All => None,
        }
    }
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Human-readable tables
    Table,
    /// Comma-separated values
    Csv,
    /// JSON
    Json,
}

/// Which counts are read from tables.
#[derive(Args)]
pub(crate) struct TablesArgs {
    /// Tables of `waypost segments tabulate`, or plain tables: CSV or tab-separated, with a row per
    /// value and a column per segment
    #[arg(required = true, value_name = "TABLES", value_hint = ValueHint::AnyPath)]
    tables: Vec<PathBuf>,
    /// Compare only the N most frequent values
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(3..))]
    top: u32,
    /// How lengths are divided into classes
    #[arg(long, value_name = "HOW", value_enum, default_value_t = CutArgument::Percentile)]
    cut: CutArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum CutArgument {
    /// Into percentile ranges, each with about a hundredth of the captures
    Percentile,
    /// Into eight classes for each power of two
    Log,
}

/// The counts of one file.
pub(crate) struct TableCounts {
    pub(crate) counts: Vec<Counts>,
}

impl TablesArgs {
    pub(crate) fn read(&self, properties: &[String]) -> anyhow::Result<Vec<TableCounts>> {
        let options = counts::Options {
            top: self.top as usize,
            cut: match self.cut {
                CutArgument::Percentile => LengthCut::Percentile,
                CutArgument::Log => LengthCut::Log,
            },
        };
        self.tables
            .iter()
            .map(|path| {
                let (counts, _) = counts::read(&Source::new(path), properties, options)?;
                Ok(TableCounts { counts })
            })
            .collect()
    }
}

/// A number with three decimals, or a dash.
pub(crate) fn decimals(number: f64, places: usize) -> String {
    if number.is_nan() {
        "-".to_owned()
    } else {
        format!("{number:.places$}")
    }
}

/// A probability, which may be tiny.
pub(crate) fn probability(p: f64) -> String {
    match p {
        p if p.is_nan() => "-".to_owned(),
        p if p == 0.0 || p >= 0.001 => decimals(p, 3),
        p => format!("{p:.0e}"),
    }
}

/// Reports bad lines and damage of a scan. Returns `Exit::No` if some of the input is missing.
pub(crate) fn report_outcome(outcome: &Outcome, out: &Printer) -> Exit {
    let damage = outcome.damage.iter();
    out.warn_some(damage.map(|damage| format!("{damage}; everything before it is counted")));
    report_bad_lines(&outcome.rejects, out);
    if outcome.damage.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    }
}
