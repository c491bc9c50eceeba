use std::path::PathBuf;

use clap::Args;
use waypost_index::merge::{self, Addition};

use super::destination::{Destination, Resources, sources, tell};
use crate::exit::Exit;
use crate::printer::Printer;

/// Merge sorted indexes, hundreds at once, into one
///
/// Every input is checked while it is read: the first line out of order ends the merge with an
/// error that names it.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    waypost index merge --unique --add collection=2024 crawl-*.cdxj.gz -o all.cdxj\n\n\
    Exit code 1: an input was damaged, and what could be read of it was merged.")]
pub(crate) struct Merge {
    /// Sorted files and folders of them; `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Keep one of equal lines
    #[arg(short, long)]
    unique: bool,
    /// Add a field to the JSON of every line; the lines must be CDXJ
    #[arg(long, value_name = "NAME=VALUE", value_parser = addition)]
    add: Option<Addition>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: Resources,
}

fn addition(text: &str) -> Result<Addition, String> {
    Addition::parse(text).map_err(|error| error.to_string())
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = sources(&self.inputs)?;
        let mut writer = self.destination.create(self.resources.threads())?;
        let options = self.resources.options(self.unique);
        let report = merge::merge(&sources, &options, self.add.as_ref(), &mut writer)?;
        let written = writer.finish()?;
        Ok(tell(out, self.destination.name(), &report, &written))
    }
}
