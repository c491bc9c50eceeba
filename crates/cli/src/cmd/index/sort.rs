use clap::Args;
use waypost_io::sort;

use super::destination::{Destination, options, report_written};
use crate::args::{Inputs, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;

/// Sort the lines of indexes by their bytes, like `LC_ALL=C sort`, in bounded memory
///
/// Inputs may be plain, gz, zst or bz2, and of any size. Whole lines are compared, which is the
/// order that lookups, merges and ZipNum need.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost index sort --unique 2020.cdxj 2021.cdxj -o sorted.cdxj\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was sorted.")]
pub(crate) struct Sort {
    #[command(flatten)]
    inputs: Inputs,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Sort {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let progress = out.progress();
        let mut writer = self.destination.create(resources.threads)?;
        let options = options(resources, self.unique, &progress);
        let report = sort::sort(&sources, &options, &mut writer)?;
        drop(progress);
        let written = writer.finish()?;
        Ok(report_written(
            out,
            self.destination.name(),
            &report,
            &written,
        ))
    }
}
