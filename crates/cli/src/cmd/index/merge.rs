use clap::Args;
use waypost_index::merge::{self, Addition};

use super::destination::{Destination, options, report_written};
use crate::args::{Inputs, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;

/// Merge any number of sorted indexes into one
///
/// The order of every input is checked. The merge fails at the first line that is out of order.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost index merge --unique --add collection=news 2020.cdxj 2021.cdxj \\\n\
    \x20   -o all.cdxj\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was merged.")]
pub(crate) struct Merge {
    #[command(flatten)]
    inputs: Inputs,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    /// Add a field to the JSON of every line, which must be CDXJ
    #[arg(long, value_name = "NAME=VALUE", value_parser = addition)]
    add: Option<Addition>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
}

fn addition(text: &str) -> Result<Addition, String> {
    Addition::parse(text).map_err(|error| error.to_string())
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let mut writer = self.destination.create(resources.threads)?;
        let progress = out.progress();
        let options = options(resources, self.unique, &progress);
        let report = merge::merge(&sources, &options, self.add.as_ref(), &mut writer)?;
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
