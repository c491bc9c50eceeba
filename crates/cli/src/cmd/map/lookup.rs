use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::json;
use waypost_index::input::Source;
use waypost_report::{Align, Table};
use waypost_summary::Summary;
use waypost_summary::map::{Found, Map, Room, Span};
use waypost_surt::{Canonicalizer, Surt, is_surt};

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

enum Said {
    Rejected,
    /// The row that decides, and whether it calls the lookup present.
    Of(Option<Found>, bool),
}

impl Said {
    fn is_present(&self) -> bool {
        matches!(self, Said::Of(_, true))
    }

    fn word(&self) -> &'static str {
        match self {
            Said::Rejected => "rejected",
            Said::Of(_, true) => "present",
            Said::Of(_, false) => "absent",
        }
    }

    fn found(&self) -> Option<&Found> {
        match self {
            Said::Of(found, _) => found.as_ref(),
            Said::Rejected => None,
        }
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
                let mut canonicalizer = Canonicalizer::new(map.about().dialect);
                let mut surt = Vec::new();
                let mut text = Vec::new();
                let mut answers = Vec::new();
                let mut any = false;
                for &line in asked {
                    surt.clear();
                    let answer = if is_surt(line) {
                        said(map, &Surt::new(line), at)?
                    } else if canonicalizer.canonicalize(line, &mut surt).is_ok() {
                        said(map, &Surt::new(&surt), at)?
                    } else {
                        Said::Rejected
                    };
                    any |= answer.is_present();
                    match self.format {
                        Format::Table => answers.push(answer),
                        Format::Tsv => push_tsv(line, &answer, &mut text),
                        Format::Json => push_json(line, &answer, &mut text),
                    }
                }
                Ok((text, answers, any))
            })
            .collect::<anyhow::Result<Vec<(Vec<u8>, Vec<Said>, bool)>>>()?;
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
                let found = said.found();
                table.row([
                    String::from_utf8_lossy(asked[at]).into_owned(),
                    said.word().to_owned(),
                    found.map_or("-".into(), |found| {
                        String::from_utf8_lossy(&found.key).into_owned()
                    }),
                    found.map_or("-".into(), |found| found.frequency.to_string()),
                    found.map_or("-".into(), |found| found.depth.to_string()),
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

fn said(map: &Map, surt: &Surt<'_>, at: Option<&Span>) -> anyhow::Result<Said> {
    let found = map.find(surt, at);
    let present = match &found {
        Some(found) => map.confirms(found, surt)?,
        None => false,
    };
    Ok(Said::Of(found, present))
}

/// Opens a map, with the filter beside it or without.
pub(super) fn open(path: &Path, ignore_filter: bool, room: &Room) -> anyhow::Result<Map> {
    Ok(match ignore_filter {
        true => Map::open_rows(path, room)?,
        false => Map::open(path, room)?,
    })
}

fn push_tsv(line: &[u8], said: &Said, out: &mut Vec<u8>) {
    push_cell(line, out);
    out.push(b'\t');
    out.extend_from_slice(said.word().as_bytes());
    out.push(b'\t');
    match said.found() {
        Some(found) => {
            push_cell(&found.key, out);
            out.push(b'\t');
            out.extend_from_slice(found.frequency.to_string().as_bytes());
        }
        None => out.extend_from_slice(b"-\t-"),
    }
    out.push(b'\n');
}

fn push_json(line: &[u8], said: &Said, out: &mut Vec<u8>) {
    let found = said.found();
    let row = json!({
        "lookup": String::from_utf8_lossy(line),
        "answer": said.word(),
        "key": found.map(|found| String::from_utf8_lossy(&found.key).into_owned()),
        "frequency": found.map(|found| found.frequency.to_string()),
        "depth": found.map(|found| found.depth),
        "distance": found.map(|found| found.distance),
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
