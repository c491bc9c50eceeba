use std::path::PathBuf;

use clap::Args;
use waypost_io::Source;
use waypost_io::pieces::PIECE;
use waypost_summary::check_alone;
use waypost_summary::filter::Filter;
use waypost_summary::filter::orestes::ClassicFilter;

use super::options::KeyFile;
use super::store;
use crate::args::ThreadArgs;
use crate::exit::Exit;
use crate::lookups::Lookups;
use crate::printer::Printer;

/// Look up URIs in a filter
///
/// `absent` is certain. `present` is wrong at the rate shown by `waypost filter info`. `unknown` means
/// that the lookup is outside the scope of the filter. `rejected` means that the lookup has no SURT.
/// The columns of tsv are the lookup, the answer, the key if it is present, and its frequency, which
/// filters do not store (`/`). Exit code 1: everything is absent or rejected.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter lookup small.filter http://library.example.org/\n\
    \x20 waypost filter lookup small.filter --batch lookups.txt \\\n\
    \x20   --format tsv > answers.tsv")]
pub(crate) struct Lookup {
    /// The filter, or the id of an archive in a store
    filter: PathBuf,
    /// Look up in Redis: redis://HOST[:PORT][/DATABASE]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    lookups: Lookups,
    #[command(flatten)]
    key_file: KeyFile,
    /// Read one shard at a time instead of mapping the file into memory
    #[arg(long)]
    no_mmap: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        self.threads.start()?;
        if let Some(url) = &self.store {
            let filter = store::open(url, &self.filter, self.key_file.secret()?)?;
            return self.lookups.answer_by(&*filter, PIECE, out);
        }
        let source = Source::new(&self.filter);
        check_alone(&source)?;
        if ClassicFilter::is(&source)? {
            let filter = ClassicFilter::of(&source)?;
            return self.lookups.answer_by(&filter, PIECE, out);
        }
        let filter = if self.no_mmap {
            Filter::open_by_range(&self.filter)?
        } else if self.lookups.batch.is_some() {
            Filter::load(&self.filter)?
        } else {
            Filter::open(&self.filter)?
        };
        let filter = self.key_file.give(filter)?;
        self.lookups.answer_by(&filter, PIECE, out)
    }
}
