use std::path::PathBuf;

use clap::Args;
use waypost_index::merge;

use super::destination::{Shape, create_zipnum, options, report_written};
use crate::args::{Inputs, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;

/// Convert sorted indexes to ZipNum: compressed blocks that can be searched
///
/// Writes cluster.idx, cluster.loc and the shards cdx-00000.gz, cdx-00001.gz, …, which pywb and the
/// Common Crawl index server can read. Several inputs are merged. A lookup inflates one block.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index zipnum sorted.cdxj -o blocks --shards 4\n\
    \x20 waypost index lookup blocks http://gazette.example.com/\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was written.")]
pub(crate) struct Zipnum {
    #[command(flatten)]
    inputs: Inputs,
    /// The folder to write, which must be new or empty
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Zipnum {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(Some(&self.output))?;
        let mut writer = create_zipnum(&self.output, &self.shape, resources.threads)?;
        let progress = out.progress();
        let options = options(resources, self.unique, &progress);
        let report = merge::merge(&sources, &options, None, &mut writer)?;
        drop(progress);
        let written = writer.finish()?;
        let name = self.output.display().to_string();
        Ok(report_written(out, Some(name), &report, &written))
    }
}
