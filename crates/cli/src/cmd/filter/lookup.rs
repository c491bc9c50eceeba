use std::path::PathBuf;

use clap::Args;
use waypost_io::pieces::PIECE;
use waypost_summary::filter::{Filter, Keyer};

use super::options::KeyFile;
use crate::exit::Exit;
use crate::lookups::Lookups;
use crate::printer::Printer;

/// Say of URIs whether they may be held
///
/// `absent` is certain; `present` is wrong at the rate that `waypost filter info` shows; `unknown` is
/// what the filter cannot tell, because it was not made from all captures that are asked for. In tsv:
/// the lookup as given, `present`, `absent`, `unknown` or `rejected` (it has no SURT), the key that was
/// looked up if it is present, and its frequency, which a filter does not know (`/`). Exit code 1 if
/// everything is absent or rejected.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter lookup small.filter http://library.example.org/\n\
    \x20 waypost filter lookup small.filter --batch lookups.txt \\\n\
    \x20   --format tsv > answers.tsv")]
pub(crate) struct Lookup {
    /// The filter
    filter: PathBuf,
    #[command(flatten)]
    lookups: Lookups,
    #[command(flatten)]
    key_file: KeyFile,
    /// Read shards one at a time instead of mapping the file into memory
    #[arg(long)]
    no_mmap: bool,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = if self.no_mmap {
            Filter::open_by_range(&self.filter)?
        } else if self.lookups.batch.is_some() {
            Filter::load(&self.filter)?
        } else {
            Filter::open(&self.filter)?
        };
        let filter = self.key_file.give(filter)?;
        // Says at once if the secret is missing.
        Keyer::of(&filter)?;
        self.lookups.answer_by(&filter, PIECE, out)
    }
}
