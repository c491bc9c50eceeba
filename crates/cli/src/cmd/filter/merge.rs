use std::path::PathBuf;

use clap::Args;
use waypost_summary::filter::{self, Filter, Kind};

use super::options::{Make, tell};
use crate::args::number;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Join filters: bloom filters of one size, or hashes, from which any kind can be made
///
/// Hashes are joined exactly, and what comes out is the same file as if all had been built at once.
/// One file of hashes is enough: that is how a filter is made from it.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter merge 2020.hashes 2021.hashes -o both.hashes\n\
    \x20 waypost filter merge 2020.hashes 2021.hashes --kind bloom --fpr 1% \\\n\
    \x20   -o both.filter")]
pub(crate) struct Merge {
    /// Filters of kind hashes, or of kind bloom and one size
    #[arg(required = true, value_name = "FILTER")]
    filters: Vec<PathBuf>,
    #[command(flatten)]
    make: Make,
    /// Make a bloom filter large enough for so many keys, to be added later: 300M
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
        let recipe = self.make.recipe(kind, self.room)?;
        let made = filter::merge(&filters, &recipe, &self.make.output)
            .hint("keep the hashes of every part (`waypost filter build --kind hashes`): they can always be merged")?;
        tell(out, &self.make.output, &made);
        Ok(Exit::Yes)
    }
}
