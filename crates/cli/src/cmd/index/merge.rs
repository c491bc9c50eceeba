use clap::Args;
use waypost_index::merge::{self, Addition};

use super::destination::{Destination, options, tell};
use crate::args::{Inputs, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::progress::Phases;

/// Merge sorted indexes, hundreds at once, into one
///
/// Every input is checked while it is read: the first line out of order ends the merge with an
/// error that names it.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost index merge --unique --add collection=news 2020.cdxj 2021.cdxj \\\n\
    \x20   -o all.cdxj\n\
    \n\
    Exit code 1: an input was damaged, and what could be read of it was merged.")]
pub(crate) struct Merge {
    #[command(flatten)]
    inputs: Inputs,
    /// Keep one of equal lines
    #[arg(short, long)]
    unique: bool,
    /// Add a field to the JSON of every line; the lines must be CDXJ
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
        let progress = out.progress(
            Phases {
                first: "merging",
                then: "writing",
            },
            &sources,
        );
        let options = options(resources, self.unique, &progress);
        let report = merge::merge(&sources, &options, self.add.as_ref(), &mut writer)?;
        drop(progress);
        let written = writer.finish()?;
        Ok(tell(out, self.destination.name(), &report, &written))
    }
}
