use std::path::PathBuf;

use clap::Args;
use waypost_summary::Frequency;
use waypost_summary::filter::{Filter, Hash, Keyer};

use super::options::KeyFile;
use crate::exit::Exit;
use crate::lookups::{AT_ONCE, Answers, Lookups, Said};
use crate::printer::Printer;

/// Say of URIs whether they may be held
///
/// `absent` is certain; `present` is wrong at the rate that `waypost filter info` shows. In tsv: the
/// lookup as given, `present`, `absent` or `rejected` (no SURT can be made of it), the key that was
/// looked up if it is present, and its frequency, which a filter does not know (`/`). Exit code 1 if
/// nothing is present.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost filter lookup archive.filter http://example.com/\n  \
    waypost filter lookup archive.filter --batch lookups.txt --format tsv > answers.tsv")]
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
        let keyer = Keyer::of(&filter)?;
        self.lookups.answer(&[], AT_ONCE, out, |asked, answers| {
            say(&filter, keyer.clone(), asked, answers)
        })
    }
}

/// What the filter says of each lookup.
fn say(
    filter: &Filter,
    mut keyer: Keyer,
    asked: &[&[u8]],
    answers: &mut Answers<'_>,
) -> anyhow::Result<()> {
    let mut keys = Vec::with_capacity(asked.len());
    let mut hashes: Vec<Hash> = Vec::with_capacity(asked.len());
    for lookup in asked {
        let hash = keyer.hash(lookup.trim_ascii());
        hashes.extend(hash.as_ref().ok());
        keys.push(hash.map(|_| keyer.key().to_vec()));
    }
    let mut present = Vec::new();
    filter.contains_all(&hashes, &mut present)?;
    let mut present = present.into_iter();
    for key in keys {
        answers.say(&match key {
            Err(why) => Said::rejected(why),
            Ok(key) if present.next() == Some(true) => Said {
                present: true,
                key: Some(key.into()),
                frequency: Some(Frequency::default()),
                ..Said::default()
            },
            Ok(_) => Said::default(),
        });
    }
    Ok(())
}
