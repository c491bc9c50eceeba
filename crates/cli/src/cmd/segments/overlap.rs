use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use waypost_insight::segments::overlap::{self, Common};
use waypost_report::{Align, Table, count};

use super::{SubsetArgument, report_outcome};
use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::remote::RemoteArgs;

/// Count the URI-Rs and contents that two crawls have in common
///
/// All counts are exact. Similarity is the number in both, divided by the number in either.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost segments overlap 2020.cdxj 2021.cdxj\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was compared.")]
pub(crate) struct Overlap {
    /// The index of the first crawl: a file, a folder, or the URL of a cluster.idx
    #[arg(value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    first: PathBuf,
    /// The index of the second crawl
    #[arg(value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    second: PathBuf,
    /// Which captures to compare
    #[arg(long, value_enum, default_value_t = SubsetArgument::Warc)]
    subset: SubsetArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Overlap {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let files = self.remote.files();
        let sources = |path: &PathBuf| {
            let paths = std::slice::from_ref(path);
            self.remote.sources(&files, paths, out)
        };
        let (first, second) = (sources(&self.first)?, sources(&self.second)?);
        let progress = out.progress();
        let overlap = overlap::overlap(
            [&first, &second],
            self.subset.subset(),
            &resources,
            &progress,
        )?;
        drop(progress);
        match self.format {
            Format::Table => {
                let mut table = Table::new(&[
                    ("distinct", Align::Left),
                    ("first", Align::Right),
                    ("second", Align::Right),
                    ("both", Align::Right),
                    ("similarity", Align::Right),
                ]);
                for (name, common) in [("URI-Rs", overlap.uris), ("contents", overlap.digests)] {
                    table.row([
                        name.to_owned(),
                        count(common.first),
                        count(common.second),
                        count(common.both),
                        format!("{:.2}%", 100.0 * common.similarity()),
                    ]);
                }
                write!(out.data(), "{table}")?;
            }
            Format::Json => {
                let object = |common: Common| json!({"first": common.first, "second": common.second, "both": common.both, "similarity": common.similarity()});
                let all = json!({"uris": object(overlap.uris), "digests": object(overlap.digests)});
                writeln!(out.data(), "{all:#}")?;
            }
        }
        let mut exit = Exit::Yes;
        for outcome in &overlap.outcomes {
            if report_outcome(outcome, out) == Exit::No {
                exit = Exit::No;
            }
        }
        Ok(exit)
    }
}
