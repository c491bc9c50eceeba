use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;
use waypost_index::input::Source;
use waypost_report::{Align, Table};
use waypost_summary::profile::Profile;
use waypost_summary::{Answer, Summary};
use waypost_surt::{Canonicalizer, Surt, is_surt};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Ask a profile whether an archive may have URIs
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost profile lookup profiles/a.HxP1.cdxj http://example.com/ https://example.org/page\n  \
    waypost profile lookup profiles/a.HxP1.cdxj --batch uris.txt --format tsv\n\n\
    tsv has no header: the lookup as given, present, absent or rejected, the matched key, the frequency.\n\
    Exit code 1: nothing is present.")]
pub(crate) struct Lookup {
    /// The profile
    profile: PathBuf,
    /// URIs, or SURTs
    uris: Vec<String>,
    /// A file of URIs, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// How to show the answers
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Tsv,
    Json,
}

/// Lookups answered at a time, so that a batch of any length passes.
const AT_ONCE: usize = 1 << 20;

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        if self.uris.is_empty() && self.batch.is_none() {
            return Err(anyhow::anyhow!("nothing to look up"))
                .hint("name URIs, or a file of them with --batch FILE");
        }
        let profile = Profile::open(&self.profile)?;
        let mut lines: Vec<Vec<u8>> = self
            .uris
            .iter()
            .map(|uri| uri.clone().into_bytes())
            .collect();
        if let Some(path) = &self.batch {
            let mut text = Vec::new();
            Source::new(path)
                .open()?
                .read_to_end(&mut text)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            if !text.is_empty() {
                let line = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                lines.extend(text.split(|&byte| byte == b'\n').map(line));
            }
        }
        let mut table = Table::new(&[
            ("lookup", Align::Left),
            ("", Align::Left),
            ("key", Align::Left),
            ("frequency", Align::Right),
        ]);
        let mut found = false;
        for lines in lines.chunks(AT_ONCE) {
            for (line, answer) in lines.iter().zip(answers(&profile, lines)?) {
                found |= matches!(answer, Some(Answer::Present(_)));
                self.print(line, answer.as_ref(), &mut table, out)?;
            }
        }
        if self.format == Format::Table {
            write!(out.data(), "{table}")?;
        }
        Ok(if found { Exit::Yes } else { Exit::No })
    }

    fn print(
        &self,
        line: &[u8],
        answer: Option<&Answer>,
        table: &mut Table,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let (state, found) = match answer {
            None => ("rejected", None),
            Some(Answer::Absent) => ("absent", None),
            Some(Answer::Present(found)) => ("present", Some(found)),
        };
        let key = found.and_then(|found| found.key.as_deref());
        let captures = found.and_then(|found| found.frequency.captures);
        match self.format {
            Format::Table => table.row([
                String::from_utf8_lossy(line).into_owned(),
                state.to_owned(),
                key.map_or("-".into(), |key| String::from_utf8_lossy(key).into_owned()),
                found.map_or("-".to_owned(), |found| found.frequency.to_string()),
            ]),
            Format::Tsv => {
                let out = out.data();
                push_cell(line, out)?;
                write!(out, "\t{state}\t")?;
                push_cell(key.unwrap_or(b"-"), out)?;
                match captures {
                    Some(captures) => writeln!(out, "\t{captures}")?,
                    None => writeln!(out, "\t-")?,
                }
            }
            Format::Json => {
                let row = json!({
                    "lookup": String::from_utf8_lossy(line),
                    "answer": state,
                    "key": key.map(String::from_utf8_lossy),
                    "frequency": captures.map(|captures| captures.to_string()),
                    "urirs": found.and_then(|found| found.frequency.urirs).map(|urirs| urirs.to_string()),
                });
                writeln!(out.data(), "{row}")?;
            }
        }
        Ok(())
    }
}

/// What the summary says of each line; nothing of what has no SURT.
fn answers(summary: &dyn Summary, lines: &[Vec<u8>]) -> anyhow::Result<Vec<Option<Answer>>> {
    let mut canonicalizer = Canonicalizer::new(summary.about().dialect);
    let mut surts: Vec<Option<Vec<u8>>> = Vec::with_capacity(lines.len());
    for line in lines {
        let mut surt = Vec::new();
        surts.push(if is_surt(line) {
            Some(line.clone())
        } else {
            canonicalizer
                .canonicalize(line, &mut surt)
                .ok()
                .map(|()| surt)
        });
    }
    let asked: Vec<waypost_summary::Lookup<'_>> = lines
        .iter()
        .zip(&surts)
        .filter_map(|(line, surt)| {
            Some(waypost_summary::Lookup {
                uri: line,
                surt: Surt::new(surt.as_ref()?),
            })
        })
        .collect();
    let mut given = summary.answer_all(&asked)?.into_iter();
    Ok(surts
        .iter()
        .map(|surt| surt.as_ref().and_then(|_| given.next()))
        .collect())
}

/// A cell of a TSV: what would break the row is written as `\t`, `\n` or `\r`.
fn push_cell(cell: &[u8], out: &mut impl Write) -> std::io::Result<()> {
    for &byte in cell {
        match byte {
            b'\t' => out.write_all(b"\\t")?,
            b'\n' => out.write_all(b"\\n")?,
            b'\r' => out.write_all(b"\\r")?,
            _ => out.write_all(&[byte])?,
        }
    }
    Ok(())
}
