use std::path::PathBuf;

use clap::Args;
use waypost_index::lookup::{Index, Lookup as Search, Query, Wanted};
use waypost_index::range::{Match, pywb_range, ranges};
use waypost_io::Source;
use waypost_io::pieces::PIECE;
use waypost_summary::filter::Filter;
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::map::Map;
use waypost_summary::profile::Profile;
use waypost_summary::{
    Frequency, Kind, LookupBatch, LookupBuffer, Number, Presence, Scope, check_alone,
    kind_of_source,
};
use waypost_surt::{Canonicalizer, Dialect, is_surt};

use super::filter::options::KeyFile;
use super::index::keys::dialect_of;
use crate::args::{ResourceArgs, dialects};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::lookups::{Answers, Lookups, Verdict, answer_batch};
use crate::printer::Printer;
use crate::remote::{RemoteArgs, as_url};

/// Look up URIs in an index or in a summary of any kind
///
/// FILE is a sorted index, a ZipNum index, a map, a profile or a filter, detected by its content. An
/// index says what is held; a summary says what may be held.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost lookup small.cdxj http://library.example.org/\n\
    \x20 waypost lookup small.ukvs --batch lookups.txt --format tsv\n\
    \n\
    tsv has no header: the lookup as given, present, absent, unknown or rejected, the matched key, the\n\
    frequency. A lookup is unknown if the summary was not made from all captures that it asks for.\n\
    Exit code 1: everything is absent or rejected.")]
pub(crate) struct Lookup {
    /// The index or summary, or the URL of the .idx file of a ZipNum index
    file: PathBuf,
    #[command(flatten)]
    lookups: Lookups,
    /// The dialect of an index's keys [default: detected]; summaries record theirs
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let source = Source::new(&self.file);
        check_alone(&source)?;
        let kind = match self.file.is_dir() || as_url(&self.file).is_some() {
            true => None,
            false => kind_of_source(&source)?,
        };
        match kind {
            Some(Kind::Map) => {
                let map = Map::of(&source, &resources)?;
                super::map::lookup::answer(&map, None, &self.lookups, out)
            }
            Some(Kind::Profile) => {
                let profile = Profile::of(&source)?;
                let piece = super::profile::lookup::BATCH;
                self.lookups.answer_by(&profile, piece, out)
            }
            Some(Kind::Filter) if ClassicFilter::is(&source)? => {
                let filter = ClassicFilter::of(&source)?;
                self.lookups.answer_by(&filter, PIECE, out)
            }
            Some(Kind::Filter) => {
                let filter = Filter::of(&source)?.unlock(self.key_file.secret()?)?;
                self.lookups.answer_by(&filter, PIECE, out)
            }
            _ if !self.file.is_dir() && as_url(&self.file).is_none() && is_empty(&source)? => Err(
                anyhow::anyhow!("{} is empty", self.file.display()),
            )
            .hint("build or copy the file again: an empty file says nothing about what is held"),
            _ => {
                let files = self.remote.files();
                let index = self.remote.open(&files, &source, out)?;
                self.answer_by_index(&index, out)
            }
        }
    }

    /// Counts the captures of each lookup in an index.
    fn answer_by_index(&self, index: &Index, out: &mut Printer) -> anyhow::Result<Exit> {
        let wanted = self.lookups.wanted()?;
        if wanted != Scope::default() {
            return Err(anyhow::anyhow!(
                "--for, --status and --mime apply to summaries, but this is an index"
            ))
            .hint(
                "filter the captures of an index with `waypost index lookup --filter =status:200`",
            );
        }
        let dialect = dialect_of(index, &self.file, self.dialect, out)?;
        self.lookups.answer(&[], PIECE, out, || {
            let mut search = Search::new(index, Wanted::default());
            let mut buffer = LookupBuffer::new(dialect);
            let mut canonicalizer = Canonicalizer::new(dialect);
            move |lines, answers| {
                count_captures(&mut search, &mut canonicalizer, buffer.fill(lines), answers)
            }
        })
    }
}

fn is_empty(source: &Source) -> anyhow::Result<bool> {
    Ok(source.open()?.read_full(&mut [0]).0 == 0)
}

fn count_captures(
    search: &mut Search<'_>,
    canonicalizer: &mut Canonicalizer,
    batch: LookupBatch<'_>,
    answers: &mut Answers<'_>,
) -> anyhow::Result<()> {
    let queries: Vec<Query> = batch
        .valid()
        .map(|lookup| {
            let (uri, surt) = (lookup.uri(), lookup.surt().as_bytes());
            let mut ranges = ranges(uri, surt, Match::Exact);
            // An index has SURTs that a summary spells otherwise: `com,example,)/`.
            let mut written = Vec::new();
            let is_uri = !is_surt(uri) && canonicalizer.canonicalize(uri, &mut written).is_ok();
            if is_uri && written != surt {
                ranges.push(pywb_range(uri, &written, Match::Exact));
                ranges.sort();
            }
            Query { ranges }
        })
        .collect();
    let counts = search.count_each(&queries)?;
    let mut lookups = batch.valid().zip(counts);
    answer_batch(batch, answers, || {
        let Some((lookup, captures)) = lookups.next() else {
            return Ok(Verdict::default());
        };
        let surt = lookup.surt().as_bytes();
        if captures == 0 {
            return Ok(Verdict::default());
        }
        Ok(Verdict {
            presence: Presence::Present,
            key: Some(surt.to_vec().into()),
            frequency: Some(Frequency {
                captures: Some(Number::exact(captures)),
                urirs: None,
            }),
            ..Verdict::default()
        })
    })
}
