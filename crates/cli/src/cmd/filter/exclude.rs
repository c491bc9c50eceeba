use std::path::PathBuf;

use clap::Args;
use waypost_io::Source;
use waypost_summary::filter::{self, Input, Kind};
use waypost_surt::Policy;

use super::options::{KeyFile, Make, report_rejects, report_written};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Remove a list of URIs from a file of hashes, and build a filter from the rest
///
/// Use it for takedowns: nothing can be removed from a published filter, so rebuild it from the
/// hashes. Exit code 1: none of the URIs was held.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt -o kept.hashes\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt --kind bloom --fpr 1% \\\n\
    \x20   -o kept.filter")]
pub(crate) struct Exclude {
    /// A file of hashes
    filter: PathBuf,
    /// A list of URIs or SURTs, one per line
    list: PathBuf,
    #[command(flatten)]
    make: Make,
    #[command(flatten)]
    key_file: KeyFile,
}

impl Exclude {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = self.key_file.open(&self.filter)?;
        let progress = out.progress();
        let recipe = self.make.recipe(Kind::Hashes, 0, &progress)?;
        if filter.head().policy != Policy::Whole {
            out.warn(format_args!(
                "a key of policy {} stands for many URIs: URIs that share a key with one on the list are removed, too",
                filter.head().policy
            ));
        }
        let sources = [Source::new(&self.list)];
        let input = Input {
            resources: recipe.resources.clone(),
            progress: progress.clone(),
            ..Input::new(&sources)
        };
        let (built, reading, gone) = filter::exclude(&filter, input, &recipe, &self.make.output).hint(
            "keep the hashes (`waypost filter build --kind hashes`) and rebuild filters from them",
        )?;
        drop(progress);
        let exit = report_rejects(out, &reading);
        out.note(format_args!("removed {}", plural::of(gone, "key")));
        report_written(out, &self.make.output, &built);
        Ok(if gone == 0 { Exit::No } else { exit })
    }
}
