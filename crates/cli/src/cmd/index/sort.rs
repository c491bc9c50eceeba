use std::path::PathBuf;

use clap::Args;
use waypost_index::sort;

use super::destination::{Destination, Resources, sources, tell};
use crate::exit::Exit;
use crate::printer::Printer;

/// Sort the lines of indexes by their bytes, as `LC_ALL=C sort` does, in bounded memory
///
/// Inputs may be plain, gzipped, zst or bz2, and of any size. Sorting is by the whole line, which
/// is the order that lookups, merges and ZipNum need.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    waypost index sort --unique archive.cdxj more/ -o sorted.cdxj\n\n\
    Exit code 1: an input was damaged, and what could be read of it was sorted.")]
pub(crate) struct Sort {
    /// Files and folders; `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Keep one of equal lines
    #[arg(short, long)]
    unique: bool,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: Resources,
}

impl Sort {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = sources(&self.inputs)?;
        let mut writer = self.destination.create(self.resources.threads())?;
        let options = self.resources.options(self.unique);
        let report = sort::sort(&sources, &options, &mut writer)?;
        let written = writer.finish()?;
        Ok(tell(out, self.destination.name(), &report, &written))
    }
}
