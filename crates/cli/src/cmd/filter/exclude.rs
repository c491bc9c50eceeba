use std::path::PathBuf;

use clap::Args;
use waypost_index::input::Source;
use waypost_summary::filter::{self, Input, Kind};
use waypost_surt::Policy;

use super::options::{KeyFile, Make, tell, tell_reading};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Take a list of URIs out of a file of hashes, and make a filter of what is left
///
/// The list has a URI in each line, as for a takedown. A published filter cannot forget: make it anew
/// from the hashes. Exit code 1 if nothing of the list was held.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt -o kept.hashes\n\
    \x20 waypost filter exclude 2020.hashes takedown.txt --kind bloom --fpr 1% \\\n\
    \x20   -o kept.filter")]
pub(crate) struct Exclude {
    /// A filter of kind hashes
    filter: PathBuf,
    /// URIs or SURTs, one a line
    list: PathBuf,
    #[command(flatten)]
    make: Make,
    #[command(flatten)]
    key_file: KeyFile,
}

impl Exclude {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = self.key_file.open(&self.filter)?;
        let recipe = self.make.recipe(Kind::Hashes, 0)?;
        if filter.head().policy != Policy::Whole {
            out.warn(format_args!(
                "the keys of {} stand for more than one URI each: all that share a key with one of the list go, too",
                filter.head().policy
            ));
        }
        let sources = [Source::new(&self.list)];
        let input = Input {
            memory: recipe.memory,
            temporary: recipe.temporary.clone(),
            ..Input::new(&sources)
        };
        let (made, reading, gone) = filter::exclude(&filter, input, &recipe, &self.make.output).hint(
            "keep the hashes (`waypost filter build --kind hashes`) and make filters from what is left of them",
        )?;
        let exit = tell_reading(out, &reading);
        out.note(format_args!("took out {}", plural::of(gone, "key")));
        tell(out, &self.make.output, &made);
        Ok(if gone == 0 { Exit::No } else { exit })
    }
}
