use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::json;
use waypost_index::input::Source;
use waypost_report::{Align, Table};
use waypost_summary::Summary;
use waypost_summary::map::{Finder, Found, Map, Room, Span, write_frequency};
use waypost_surt::{Canonicalizer, Dialect, Surt, is_surt};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::lines::{Blocks, lines};
use crate::printer::Printer;

/// Ask a map whether an archive may have URIs
///
/// The most specific key that speaks of a URI decides: its own, then wildcards from the nearest up to
/// `*`. A key with frequency 0 is a void: absent. If the key has a filter, the filter beside the map
/// says whether the URI is present.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost map lookup small.ukvs http://example.com/ 'com,example)/page'\n  \
    waypost map lookup small.ukvs --batch uris.txt --format tsv\n\n\
    tsv has no header: the lookup as given, present, absent or rejected, the matched key, the frequency.\n\
    Exit code 1: nothing is present.")]
pub(crate) struct Lookup {
    /// The map
    map: PathBuf,
    /// URIs, or SURTs
    uris: Vec<String>,
    /// A file of URIs, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// At this time: 2012, 201203, 2012:2014; for maps with times
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Read the rows alone: a key with a filter calls everything present that it covers
    #[arg(long)]
    ignore_filter: bool,
    /// How to show the answers
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One line a lookup, without a header
    Tsv,
    /// One object a line
    Json,
}

/// Lookups answered by a thread at a time.
const AT_ONCE: usize = 4096;

/// What is said of a lookup.
struct Said<'m> {
    rejected: bool,
    /// The row that decides.
    found: Option<Found<'m>>,
    present: bool,
}

impl Said<'_> {
    fn is_present(&self) -> bool {
        self.present
    }

    fn word(&self) -> &'static str {
        match (self.rejected, self.present) {
            (true, _) => "rejected",
            (_, true) => "present",
            _ => "absent",
        }
    }
}

/// The SURTs of some lookups.
#[derive(Default)]
struct Surts {
    bytes: Vec<u8>,
    /// Where each begins and ends; one that is rejected is empty.
    spans: Vec<(usize, usize)>,
}

impl Surts {
    fn new(lookups: &[&[u8]], dialect: Dialect) -> Surts {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut surts = Surts::default();
        for &line in lookups {
            let start = surts.bytes.len();
            if is_surt(line) {
                surts.bytes.extend_from_slice(line);
            } else if canonicalizer.canonicalize(line, &mut surts.bytes).is_err() {
                surts.bytes.truncate(start);
            }
            surts.spans.push((start, surts.bytes.len()));
        }
        surts
    }

    fn iter(&self) -> impl Iterator<Item = Surt<'_>> {
        let bytes = |&(start, end): &(usize, usize)| Surt::new(&self.bytes[start..end]);
        self.spans.iter().map(bytes)
    }
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        if self.uris.is_empty() && self.batch.is_none() {
            return Err(anyhow::anyhow!("nothing to look up"))
                .hint("name URIs, or a file of them with --batch FILE");
        }
        let at = match &self.at {
            None => None,
            Some(text) => Some(Span::parse(text.as_bytes()).with_context(|| {
                format!("--at: `{text}` is no time: write 2012, 201203 or 2012:2014")
            })?),
        };
        let map = open(&self.map, self.ignore_filter, &Room::default())?;
        let asked: Vec<&[u8]> = self.uris.iter().map(String::as_bytes).collect();
        let mut found = self.answer(&map, at.as_ref(), &asked, out)?;
        if let Some(path) = &self.batch {
            let source = Source::new(path).open()?;
            let mut blocks = Blocks::new(source);
            while let Some(block) = blocks
                .next()
                .with_context(|| format!("cannot read {}", path.display()))?
            {
                if block.cut_short {
                    return Err(anyhow::anyhow!(
                        "{}: line {} is too long",
                        path.display(),
                        block.first_line
                    ));
                }
                let asked: Vec<&[u8]> = lines(block.bytes).collect();
                found |= self.answer(&map, at.as_ref(), &asked, out)?;
            }
        }
        Ok(if found { Exit::Yes } else { Exit::No })
    }

    /// Answers some lookups, in their order. Whether any is present.
    fn answer(
        &self,
        map: &Map,
        at: Option<&Span>,
        asked: &[&[u8]],
        out: &mut Printer,
    ) -> anyhow::Result<bool> {
        let parts = asked
            .par_chunks(AT_ONCE)
            .map(|asked| {
                let surts = Surts::new(asked, map.about().dialect);
                let taken: Vec<Surt<'_>> = surts.iter().collect();
                let mut text = Vec::new();
                let mut answers = Vec::new();
                let mut any = false;
                let mut rows = Vec::with_capacity(taken.len());
                Finder::new(map).find_all(&taken, at, |found| rows.push(found));
                for ((line, surt), found) in asked.iter().zip(&taken).zip(rows) {
                    let rejected = surt.as_bytes().is_empty();
                    let found = found.filter(|_| !rejected);
                    let present = match &found {
                        Some(found) => map.confirms(found, surt)?,
                        None => false,
                    };
                    let answer = Said {
                        rejected,
                        found,
                        present,
                    };
                    any |= answer.is_present();
                    match self.format {
                        Format::Table => answers.push(answer),
                        Format::Tsv => push_tsv(line, &answer, &mut text),
                        Format::Json => push_json(line, surt, &answer, &mut text),
                    }
                }
                Ok((text, answers, any))
            })
            .collect::<anyhow::Result<Vec<(Vec<u8>, Vec<Said<'_>>, bool)>>>()?;
        let mut any = false;
        let mut table = Table::new(&[
            ("lookup", Align::Left),
            ("", Align::Left),
            ("key", Align::Left),
            ("frequency", Align::Right),
            ("depth", Align::Right),
        ]);
        let mut at = 0;
        for (text, said, found) in parts {
            any |= found;
            out.data().write_all(&text)?;
            for said in said {
                let found = said.found.as_ref();
                table.row([
                    String::from_utf8_lossy(asked[at]).into_owned(),
                    said.word().to_owned(),
                    found.map_or("-".into(), |found| {
                        String::from_utf8_lossy(&found.key).into_owned()
                    }),
                    found.map_or("-".into(), |found| found.frequency.to_string()),
                    found.map_or("-".into(), |found| found.depth().to_string()),
                ]);
                at += 1;
            }
        }
        if self.format == Format::Table && !asked.is_empty() {
            write!(out.data(), "{table}")?;
        }
        Ok(any)
    }
}

/// Opens a map, with the filter beside it or without.
pub(super) fn open(path: &Path, ignore_filter: bool, room: &Room) -> anyhow::Result<Map> {
    Ok(match ignore_filter {
        true => Map::open_rows(path, room)?,
        false => Map::open(path, room)?,
    })
}

fn push_tsv(line: &[u8], said: &Said<'_>, out: &mut Vec<u8>) {
    push_cell(line, out);
    out.push(b'\t');
    out.extend_from_slice(said.word().as_bytes());
    out.push(b'\t');
    match &said.found {
        Some(found) => {
            push_cell(&found.key, out);
            out.push(b'\t');
            write_frequency(&found.frequency, out);
        }
        None => out.extend_from_slice(b"-\t-"),
    }
    out.push(b'\n');
}

fn push_json(line: &[u8], surt: &Surt<'_>, said: &Said<'_>, out: &mut Vec<u8>) {
    let found = said.found.as_ref();
    let row = json!({
        "lookup": String::from_utf8_lossy(line),
        "answer": said.word(),
        "key": found.map(|found| String::from_utf8_lossy(&found.key).into_owned()),
        "frequency": found.map(|found| found.frequency.to_string()),
        "depth": found.map(Found::depth),
        "distance": found.map(|found| found.distance(surt)),
        "filter": found.and_then(|found| found.filter),
    });
    out.extend_from_slice(row.to_string().as_bytes());
    out.push(b'\n');
}

/// A cell of a TSV: what would break the row is written as `\t`, `\n` or `\r`.
fn push_cell(cell: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr3(b'\t', b'\n', b'\r', cell).is_none() {
        return out.extend_from_slice(cell);
    }
    for &byte in cell {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(byte),
        }
    }
}
