use std::path::PathBuf;

use clap::Args;
use waypost_summary::Frequency;
use waypost_summary::filter::{Filter, Hash, Keyer};

use super::options::KeyFile;
use crate::exit::Exit;
use crate::lookups::{Answers, Lookups, Verdict};
use crate::pipeline::PIECE;
use crate::printer::Printer;

/// Say of URIs whether they may be held
///
/// `absent` is certain; `present` is wrong at the rate that `waypost filter info` shows. In tsv: the
/// lookup as given, `present`, `absent` or `rejected` (no SURT can be made of it), the key that was
/// looked up if it is present, and its frequency, which a filter does not know (`/`). Exit code 1 if
/// nothing is present.
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
        let keyer = Keyer::of(&filter)?;
        self.lookups.answer(&[], PIECE, out, || {
            let mut asker = Asker::new(&filter, keyer.clone());
            move |lookups, answers| asker.answer(lookups, answers)
        })
    }
}

/// Looks up in a filter, some lookups at a time.
struct Asker<'f> {
    filter: &'f Filter,
    keyer: Keyer,
    /// The keys of the lookups, one after the other, and where each ends or why there is none.
    keys: Vec<u8>,
    ends: Vec<Result<usize, waypost_surt::Error>>,
    hashes: Vec<Hash>,
    present: Vec<bool>,
}

impl Asker<'_> {
    fn new(filter: &Filter, keyer: Keyer) -> Asker<'_> {
        Asker {
            filter,
            keyer,
            keys: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
            present: Vec::new(),
        }
    }

    /// What the filter says of each lookup.
    fn answer(&mut self, lookups: &[&[u8]], answers: &mut Answers<'_>) -> anyhow::Result<()> {
        self.keys.clear();
        self.ends.clear();
        self.hashes.clear();
        self.present.clear();
        for lookup in lookups {
            let hash = self.keyer.hash(lookup.trim_ascii());
            if let Ok(hash) = hash {
                self.hashes.push(hash);
                self.keys.extend_from_slice(self.keyer.key());
            }
            self.ends.push(hash.map(|_| self.keys.len()));
        }
        self.filter.contains_all(&self.hashes, &mut self.present)?;
        let mut present = self.present.iter();
        let mut start = 0;
        for (lookup, end) in lookups.iter().zip(&self.ends) {
            let verdict = match end {
                Err(why) => Verdict::rejected(*why),
                Ok(end) => {
                    let key = &self.keys[start..*end];
                    start = *end;
                    match present.next() {
                        Some(true) => Verdict {
                            present: true,
                            key: Some(key.into()),
                            frequency: Some(Frequency::default()),
                            ..Verdict::default()
                        },
                        _ => Verdict::default(),
                    }
                }
            };
            answers.push(lookup, &verdict);
        }
        Ok(())
    }
}
