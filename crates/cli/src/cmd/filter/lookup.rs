use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::json;
use waypost_report::{Align, Table, count};
use waypost_summary::filter::{Filter, Hash, Keyer};

use super::options::KeyFile;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::lines::{self, Blocks};
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
    /// URIs or SURTs
    #[arg(required_unless_present = "batch", conflicts_with = "batch")]
    uris: Vec<String>,
    /// A file with a URI or SURT in each line, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// How to show the answers; tsv and json in the order of the lookups
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    key_file: KeyFile,
    /// Read shards one at a time instead of mapping the file into memory
    #[arg(long)]
    no_mmap: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Tsv,
    Json,
}

/// Lines given to one thread at a time.
const LINES_PER_TASK: usize = 4_096;

/// What came of a lookup.
#[derive(Clone)]
enum Found {
    Present(Vec<u8>),
    Absent,
    Rejected(String),
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = if self.no_mmap {
            Filter::open_by_range(&self.filter)?
        } else if self.batch.is_some() {
            Filter::load(&self.filter)?
        } else {
            Filter::open(&self.filter)?
        };
        let filter = self.key_file.give(filter)?;
        let mut answers = Answers {
            filter: &filter,
            format: self.format,
            present: 0,
            rejected: 0,
            table: Table::new(&[
                ("lookup", Align::Left),
                ("", Align::Left),
                ("key", Align::Left),
            ]),
        };
        match &self.batch {
            None => {
                let uris: Vec<&[u8]> = self.uris.iter().map(|uri| uri.as_bytes()).collect();
                answers.answer(&uris, out)?;
            }
            Some(path) => {
                let mut blocks = Blocks::new(open(path)?);
                let fail = || format!("cannot read {}", path.display());
                while let Some(block) = blocks.next().with_context(fail)? {
                    if block.cut_short {
                        anyhow::bail!(
                            "{}: line {} is longer than {} bytes",
                            path.display(),
                            block.first_line,
                            lines::LONGEST
                        );
                    }
                    let lines: Vec<&[u8]> = lines::lines(block.bytes).collect();
                    answers.answer(&lines, out)?;
                    // A program that waits for each answer gets it now.
                    out.flush()?;
                }
            }
        }
        if self.format == Format::Table {
            write!(out.data(), "{}", answers.table)?;
        }
        if answers.rejected > 0 && self.format == Format::Table {
            out.warn(format_args!("{} have no SURT", count(answers.rejected)));
        }
        Ok(if answers.present > 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)
        .with_context(|| format!("cannot open {}", path.display()))
        .hint("name a file with a URI in each line")?;
    Ok(Box::new(file))
}

/// What was answered so far.
struct Answers<'a> {
    filter: &'a Filter,
    format: Format,
    present: u64,
    rejected: u64,
    table: Table,
}

impl Answers<'_> {
    fn answer(&mut self, uris: &[&[u8]], out: &mut Printer) -> anyhow::Result<()> {
        let keyer = Keyer::of(self.filter)?;
        let parts = uris
            .par_chunks(LINES_PER_TASK)
            .map(|uris| look_up(self.filter, keyer.clone(), uris))
            .collect::<anyhow::Result<Vec<_>>>()?;
        for (uri, found) in uris.iter().zip(parts.into_iter().flatten()) {
            match &found {
                Found::Present(_) => self.present += 1,
                Found::Absent => {}
                Found::Rejected(_) => self.rejected += 1,
            }
            self.show(uri, &found, out)?;
        }
        Ok(())
    }

    fn show(&mut self, uri: &[u8], found: &Found, out: &mut Printer) -> anyhow::Result<()> {
        let (word, key): (&str, &[u8]) = match found {
            Found::Present(key) => ("present", key),
            Found::Absent => ("absent", b""),
            Found::Rejected(_) => ("rejected", b""),
        };
        match self.format {
            Format::Table => {
                let uri = String::from_utf8_lossy(uri).into_owned();
                let key = match found {
                    Found::Rejected(why) => why.clone(),
                    _ => String::from_utf8_lossy(key).into_owned(),
                };
                self.table.row([uri, word.to_owned(), key]);
            }
            Format::Tsv => {
                let out = out.data();
                out.write_all(uri)?;
                write!(out, "\t{word}\t")?;
                out.write_all(key)?;
                out.write_all(if let Found::Present(_) = found {
                    b"\t/\n"
                } else {
                    b"\t\n"
                })?;
            }
            Format::Json => {
                let mut row = json!({"lookup": String::from_utf8_lossy(uri), "answer": word});
                match found {
                    Found::Present(key) => row["key"] = String::from_utf8_lossy(key).into(),
                    Found::Rejected(why) => row["why"] = why.as_str().into(),
                    Found::Absent => {}
                }
                writeln!(out.data(), "{row}")?;
            }
        }
        Ok(())
    }
}

fn look_up(filter: &Filter, mut keyer: Keyer, uris: &[&[u8]]) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::with_capacity(uris.len());
    let mut hashes: Vec<Hash> = Vec::with_capacity(uris.len());
    for uri in uris {
        match keyer.hash(uri.trim_ascii()) {
            Ok(hash) => {
                hashes.push(hash);
                found.push(Found::Present(keyer.key().to_vec()));
            }
            Err(error) => found.push(Found::Rejected(error.to_string())),
        }
    }
    let mut present = Vec::new();
    filter.contains_all(&hashes, &mut present)?;
    let mut present = present.into_iter();
    for found in &mut found {
        if matches!(found, Found::Present(_)) && present.next() == Some(false) {
            *found = Found::Absent;
        }
    }
    Ok(found)
}
