use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use waypost_index::{Select, input};
use waypost_io::Source;
use waypost_summary::filter::{self, Input, Keyer, Kind};
use waypost_surt::Policy;

use super::options::{KeyFile, Make, report_rejects, report_written};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::{read_list, report_unused};

/// Remove a list of takedowns from a file of hashes, and build a filter from the rest
///
/// Nothing can be removed from a published filter, so rebuild it from the hashes. A line of the list
/// is a URI or a SURT, which means that page. Lines for more than a page (`host URI`, `domain URI`,
/// `URI/*`) need --holdings, because hashes do not tell which URIs they stand for. Exit code 1: none
/// of the list was held.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt -o kept.hashes\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt --kind bloom --fpr 1% \\\n\
    \x20   -o kept.filter")]
pub(crate) struct Exclude {
    /// A file of hashes
    filter: PathBuf,
    /// A list of takedowns
    list: PathBuf,
    /// What the hashes were made of: indexes or lists of URIs
    #[arg(long, value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    holdings: Vec<PathBuf>,
    #[command(flatten)]
    make: Make,
    #[command(flatten)]
    key_file: KeyFile,
}

impl Exclude {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = self.key_file.open(&self.filter)?;
        let list = Arc::new(read_list(&self.list)?);
        if let (Some(line), true) = (list.subtrees().next(), self.holdings.is_empty()) {
            return Err(anyhow::anyhow!(
                "{line}: hashes do not tell what they hold there"
            ))
            .hint("name what the hashes were made of: --holdings INPUT");
        }
        let progress = out.progress();
        let recipe = self.make.recipe(Kind::Hashes, 0, &progress)?;
        let policy = filter.head().policy;
        if policy != Policy::Whole {
            out.warn(format_args!(
                "a key of policy {policy} stands for many URIs: URIs that share a key with one on the list are removed, too"
            ));
        }
        // The pages that are held, to be read beside the holdings.
        let mut keyer = Keyer::of(&filter)?;
        let mut pages = tempfile::NamedTempFile::new_in(&recipe.resources.temporary)?;
        for page in list.uris() {
            let hash = keyer.hash(page).ok();
            if let Some(true) = hash.map(|hash| filter.contains(hash)).transpose()? {
                pages.write_all(&[page, b"\n"].concat())?;
            }
        }
        let mut sources = input::expand(&self.holdings)?.sources;
        sources.push(Source::new(pages.path()));
        let mut select = Select::new();
        select.only_takedowns(Arc::clone(&list));
        let input = Input {
            select,
            resources: recipe.resources.clone(),
            progress: progress.clone(),
            ..Input::new(&sources)
        };
        let (built, reading, gone) = filter::exclude(&filter, input, &recipe, &self.make.output).hint(
            "keep the hashes (`waypost filter build --kind hashes`) and rebuild filters from them",
        )?;
        drop(progress);
        report_unused(&list, out);
        let exit = report_rejects(out, &reading);
        out.note(format_args!("removed {}", plural::of(gone, "key")));
        report_written(out, &self.make.output, &built);
        Ok(if gone == 0 { Exit::No } else { exit })
    }
}
