use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use waypost_io::Resources;
use waypost_io::pieces::PIECE;
use waypost_summary::map::{Finder, Map, Span};
use waypost_summary::{LookupBatch, LookupBuffer, Summary};

use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::lookups::{Answers, Lookups, Verdict, answer_batch};
use crate::printer::Printer;

/// Look up URIs in a map
///
/// The most specific key that covers a URI decides: the URI's own key, then wildcards from the nearest
/// up to `*`. A key with frequency 0 is a void: the URI is absent. If the key has a filter, the filter
/// decides.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map lookup small.ukvs http://library.example.org/ 'org,example)/'\n\
    \x20 waypost map lookup small.ukvs --batch lookups.txt --format tsv\n\
    \n\
    tsv has no header: the lookup as given, present, absent, unknown or rejected, the matched key, the\n\
    frequency. A lookup is unknown if the map was not made from all captures that it asks for.\n\
    Exit code 1: everything is absent or rejected.")]
pub(crate) struct Lookup {
    /// The map
    map: PathBuf,
    #[command(flatten)]
    lookups: Lookups,
    /// Only captures at this time: 2012, 201203, 2012:2014; needs a map built with --by
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Ignore filters: a key with a filter calls everything present that it covers
    #[arg(long)]
    ignore_filter: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let at = match &self.at {
            None => None,
            Some(text) => Some(
                Span::parse(text.as_bytes())
                    .with_context(|| format!("--at: invalid time `{text}`"))
                    .hint("write 2012, 201203 or 2012:2014")?,
            ),
        };
        let resources = self.resources.resources(None)?;
        let map = open(&self.map, self.ignore_filter, &resources)?;
        if at.is_some() && !map.has_times() {
            return Err(anyhow::anyhow!(
                "--at: {} does not record when its URIs were captured",
                self.map.display()
            ))
            .hint("build the map with `--by year` or `--by month`");
        }
        answer(&map, at.as_ref(), &self.lookups, out)
    }
}

/// Answers all lookups from a map, optionally at a given time.
pub(crate) fn answer(
    map: &Map,
    at: Option<&Span>,
    lookups: &Lookups,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let mut wanted = lookups.wanted()?;
    if let Some(at) = at {
        wanted = wanted.during(at.from(), at.to());
    }
    lookups.report_wholeness(map, out);
    let columns = &["depth", "distance", "filter"];
    lookups.answer(columns, PIECE, out, || {
        let mut finder = Finder::new(map);
        let mut buffer = LookupBuffer::new(map.about().dialect);
        let wanted = &wanted;
        move |lines, answers| {
            answer_batch_by(
                map,
                &mut finder,
                at,
                buffer.fill(lines).wanting(wanted),
                answers,
            )
        }
    })
}

fn answer_batch_by<'m>(
    map: &'m Map,
    finder: &mut Finder<'m>,
    at: Option<&Span>,
    batch: LookupBatch<'_>,
    answers: &mut Answers<'_>,
) -> anyhow::Result<()> {
    let lookups: Vec<waypost_summary::Lookup<'_>> = batch.valid().collect();
    let mut rows = Vec::with_capacity(lookups.len());
    finder.find_all(&lookups, at, |found| rows.push(found));
    let presences: Vec<waypost_summary::Presence> = lookups
        .iter()
        .zip(&rows)
        .map(|(lookup, found)| map.presence(lookup, found.as_ref()))
        .collect::<Result<_, _>>()?;
    map.check_intact()?;
    let mut found = lookups.iter().zip(rows).zip(presences);
    let more = answers.shows_more();
    answer_batch(batch, answers, || {
        let Some(((lookup, found), presence)) = found.next() else {
            return Ok(Verdict::default());
        };
        Ok(match found {
            Some(found) => Verdict {
                presence,
                frequency: Some(found.frequency),
                more: match more {
                    true => [
                        Some(found.depth() as u64),
                        Some(found.distance(lookup.surt()) as u64),
                        found.filter.map(u64::from),
                    ],
                    false => [None; 3],
                },
                key: Some(found.key),
                ..Verdict::default()
            },
            None => Verdict {
                presence,
                ..Verdict::default()
            },
        })
    })
}

/// Opens a map with or without its filters.
pub(super) fn open(path: &Path, ignore_filter: bool, resources: &Resources) -> anyhow::Result<Map> {
    Ok(match ignore_filter {
        true => Map::open_rows(path, resources)?,
        false => Map::open(path, resources)?,
    })
}
