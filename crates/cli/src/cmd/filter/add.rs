use std::path::PathBuf;

use clap::Args;
use waypost_summary::filter::{self, Recipe};

use super::options::{Holdings, KeyFile, percent, report_rejects, report_written};
use crate::args::Inputs;
use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Add holdings to a Bloom filter
///
/// Uses the dialect and policy of the filter. The file is replaced atomically at the end.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter add live.filter 2021.cdxj\n\
    \x20 waypost filter add live.filter lookups.txt -o newer.filter")]
pub(crate) struct Add {
    /// The Bloom filter
    filter: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    /// The file to write [default: replace the filter]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    holdings: Holdings,
}

impl Add {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = self.key_file.open(&self.filter)?;
        let sources = self.inputs.sources(out)?;
        let target = self.output.as_ref().unwrap_or(&self.filter);
        let resources = self.resources.resources(Some(target))?;
        let progress = out.progress();
        let recipe = Recipe {
            resources: resources.clone(),
            progress: progress.clone(),
            ..Recipe::default()
        };
        let (built, reading) = self.holdings.read(
            &sources,
            resources,
            &progress,
            |input| {
                filter::add(&filter, input, &recipe, target).hint(
                    "only Bloom filters can be extended; for other kinds, keep a file of hashes and build filters from it with `waypost filter merge`",
                )
            },
        )?;
        drop(progress);
        self.holdings.filters.takedowns.report(out);
        let exit = report_rejects(out, &reading);
        report_written(out, target, &built);
        if built.head.count > built.head.capacity {
            out.warn(format_args!(
                "the filter was built for {} and is overfull: its false positive rate is now {}",
                plural::of(built.head.capacity, "key"),
                percent(built.head.rate)
            ));
        }
        Ok(exit)
    }
}
