use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use waypost_index::convert::{self, Options, Target};
use waypost_io::{Source, sort, temporary};

use super::destination::{Destination, options, report_written};
use crate::args::{BadLines, Inputs, ResourceArgs};
use crate::cmd::profile::report_bad_lines;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Convert indexes between CDX and CDXJ, and sort the lines again
///
/// Every field that the target can hold is kept, and the names of all others are printed. Keys and
/// timestamps stay as they are. Bad lines are left out.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index convert archive.cdx --to cdxj -o archive.cdxj\n\
    \x20 waypost index convert 2020.cdxj --to cdx11 -o 2020.cdx\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was converted.")]
pub(crate) struct Convert {
    #[command(flatten)]
    inputs: Inputs,
    /// The layout to write
    #[arg(long, value_name = "LAYOUT", value_enum)]
    to: Layout,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    bad_lines: BadLines,
}

#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// CDX with the columns N b a m s k r M S V g
    Cdx11,
    /// A key, a timestamp and a JSON object
    Cdxj,
}

/// How many fields are named.
const NAMED: usize = 20;

impl Convert {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let folder = temporary::folder_in(&resources.temporary)?;
        let unsorted = folder.path().join("converted");
        let mut writer = self.destination.create(resources.threads)?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let converting = Options {
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            progress: progress.clone(),
        };
        let (target, name) = match self.to {
            Layout::Cdx11 => (Target::Cdx11, "CDX 11"),
            Layout::Cdxj => (Target::Cdxj, "CDXJ"),
        };
        let mut converted = convert::convert(&sources, target, converting, &unsorted)?;
        let sorting = options(resources, self.unique, &progress);
        let mut report = sort::sort(&[Source::new(unsorted)], &sorting, &mut writer)?;
        report.damaged.append(&mut converted.outcome.damage);
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        let written = writer.finish()?;
        report_bad_lines(&converted.outcome.rejects, out);
        if !converted.lost.is_empty() {
            out.warn(format_args!(
                "left out what {name} cannot hold: {}",
                fields(&converted.lost)
            ));
        }
        if !converted.escaped.is_empty() {
            out.note(format_args!(
                "percent-escaped spaces in {}",
                fields(&converted.escaped)
            ));
        }
        Ok(report_written(
            out,
            self.destination.name(),
            &report,
            &written,
        ))
    }
}

/// `charset (3 lines), languages (1 line)`.
fn fields(counts: &BTreeMap<String, u64>) -> String {
    let mut names: Vec<String> = counts
        .iter()
        .take(NAMED)
        .map(|(name, count)| format!("{name} ({})", plural::of(*count, "line")))
        .collect();
    if let Some(more) = counts.len().checked_sub(NAMED).filter(|more| *more > 0) {
        names.push(format!("and {}", plural::of(more as u64, "other field")));
    }
    names.join(", ")
}
