use std::path::PathBuf;

use clap::Args;
use waypost_summary::filter::{self, Filter, Kind};

use super::options::{Make, report_written};
use crate::args::number;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Merge Bloom filters of the same size, or files of hashes into a filter of any kind
///
/// Merging hashes is exact: the result is the same file as if it had been built at once. With a
/// single file of hashes, this builds a filter from it.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter merge 2020.hashes 2021.hashes -o both.hashes\n\
    \x20 waypost filter merge 2020.hashes 2021.hashes --kind bloom --fpr 1% \\\n\
    \x20   -o both.filter")]
pub(crate) struct Merge {
    /// Files of hashes, or Bloom filters of the same size
    #[arg(required = true, value_name = "FILTER")]
    filters: Vec<PathBuf>,
    #[command(flatten)]
    make: Make,
    /// Make a Bloom filter large enough to grow to this many keys: 300M
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    room: u64,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filters = self
            .filters
            .iter()
            .map(|path| Filter::open(path))
            .collect::<Result<Vec<_>, _>>()?;
        let kind = filters
            .first()
            .map_or(Kind::Hashes, |filter| filter.head().kind);
        let progress = out.progress();
        let recipe = self.make.recipe(kind, self.room, &progress)?;
        let built = filter::merge(&filters, &recipe, &self.make.output)
            .hint("keep the hashes of each part (`waypost filter build --kind hashes`): hashes can always be merged")?;
        drop(progress);
        report_written(out, &self.make.output, &built);
        Ok(Exit::Yes)
    }
}
