use std::path::PathBuf;

use clap::Args;
use waypost_report::bytes;
use waypost_summary::profile;
use waypost_surt::Policy;

use super::options::DateOption;
use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Merge profiles of the same policy
///
/// Frequencies, spreads and URI-Rs are added. Profiles may share URI-Rs, so their sum is an upper
/// bound and marked as such ("900-").
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost profile merge profiles/2020.H3P1.cdxj profiles/2021.H3P1.cdxj \\\n\
    \x20   -o H3P1.cdxj\n\
    \x20 waypost profile merge --policy H3P0 -o H3P0.cdxj.gz \\\n\
    \x20   profiles/2020.HxP1.cdxj profiles/2021.H3P1.cdxj")]
pub(crate) struct Merge {
    /// The profiles to merge
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// The file to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Convert finer profiles to this policy first
    #[arg(long)]
    policy: Option<Policy>,
    /// Total number of sources, if the profiles share some; limits the spreads
    #[arg(long, value_name = "N")]
    sources: Option<u64>,
    #[command(flatten)]
    date: DateOption,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(Some(&self.output))?;
        let merged = profile::merge(
            &self.profiles,
            self.policy,
            self.date.time()?,
            self.sources,
            &resources,
            &self.output,
        )?;
        out.note(format_args!(
            "merged {} of {} into {}, {}: {}",
            plural::of(merged.rows, "row"),
            plural::of(self.profiles.len() as u64, "profile"),
            plural::of(merged.keys, "key"),
            bytes(merged.bytes),
            self.output.display()
        ));
        Ok(Exit::Yes)
    }
}
