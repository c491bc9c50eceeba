//! Lookups on the command line, the same for all summaries: URIs, or a file of them, answered in their
//! order.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::{Map, Value};
use waypost_index::input::Source;
use waypost_report::{Align, Table, count};
use waypost_summary::map::write_frequency;
use waypost_summary::{Frequency, Number};
use waypost_surt::{Canonicalizer, Dialect, Error, Surt, is_surt};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::lines::{self, Blocks};
use crate::printer::Printer;

/// Lookups that are best answered by a thread at a time, if each is answered by itself.
pub(crate) const AT_ONCE: usize = 1024;

#[derive(Args)]
pub(crate) struct Lookups {
    /// URIs, or SURTs
    uris: Vec<String>,
    /// A file with a URI or SURT in each line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) batch: Option<PathBuf>,
    /// How to show the answers
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One line a lookup, without a header: the lookup, the answer, the key, the frequency
    Tsv,
    /// One object a line
    Json,
}

/// What is said of a lookup.
#[derive(Default)]
pub(crate) struct Said<'a> {
    pub(crate) present: bool,
    /// Why no SURT can be made of it, if so.
    pub(crate) rejected: Option<Error>,
    /// The key that decides, and what it stands for.
    pub(crate) key: Option<Cow<'a, [u8]>>,
    pub(crate) frequency: Option<Frequency>,
    /// URI-Rs, where the frequency is of captures alone.
    pub(crate) urirs: Option<Number>,
    /// What else is known: a number for each of the further columns.
    pub(crate) more: [Option<u64>; 3],
}

impl Said<'_> {
    /// No SURT can be made of it.
    pub(crate) fn rejected(why: Error) -> Said<'static> {
        Said {
            rejected: Some(why),
            ..Said::default()
        }
    }

    fn word(&self) -> &'static str {
        match (&self.rejected, self.present) {
            (Some(_), _) => "rejected",
            (_, true) => "present",
            _ => "absent",
        }
    }
}

/// What some lookups came to. Each answer is written as it comes: keeping them would take longer than
/// finding them.
pub(crate) struct Answers<'a> {
    lookups: std::slice::Iter<'a, &'a [u8]>,
    columns: &'a [&'a str],
    format: Format,
    text: Vec<u8>,
    rows: Vec<Vec<String>>,
    present: u64,
    rejected: u64,
}

impl<'a> Answers<'a> {
    fn new(lookups: &'a [&'a [u8]], columns: &'a [&'a str], format: Format) -> Answers<'a> {
        Answers {
            lookups: lookups.iter(),
            columns,
            format,
            text: Vec::new(),
            rows: Vec::new(),
            present: 0,
            rejected: 0,
        }
    }

    /// Whether the further columns are shown.
    pub(crate) fn shows_more(&self) -> bool {
        self.format != Format::Tsv
    }

    /// Answers the next lookup.
    pub(crate) fn say(&mut self, said: &Said<'_>) {
        let Some(lookup) = self.lookups.next() else {
            return;
        };
        self.present += u64::from(said.present);
        self.rejected += u64::from(said.rejected.is_some());
        match self.format {
            Format::Table => self.rows.push(row(lookup, said, self.columns.len())),
            Format::Tsv => push_tsv(lookup, said, &mut self.text),
            Format::Json => push_json(lookup, said, self.columns, &mut self.text),
        }
    }
}

impl Lookups {
    /// Answers all lookups by `say`, which is given `at_once` at most, and says something of each in
    /// their order. `columns` are the names of what else is known.
    pub(crate) fn answer(
        &self,
        columns: &[&str],
        at_once: usize,
        out: &mut Printer,
        say: impl Fn(&[&[u8]], &mut Answers<'_>) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<Exit> {
        if self.uris.is_empty() && self.batch.is_none() {
            return Err(anyhow::anyhow!("nothing to look up"))
                .hint("name URIs, or a file of them with --batch FILE");
        }
        let mut head = vec![
            ("lookup", Align::Left),
            ("", Align::Left),
            ("key", Align::Left),
            ("frequency", Align::Right),
        ];
        head.extend(columns.iter().map(|&name| (name, Align::Right)));
        let mut table = Table::new(&head);
        let (mut present, mut rejected) = (0, 0);
        let mut answer = |asked: &[&[u8]], out: &mut Printer| {
            let parts = asked
                .par_chunks(at_once)
                .map(|asked| {
                    let mut answers = Answers::new(asked, columns, self.format);
                    say(asked, &mut answers)?;
                    Ok(answers)
                })
                .collect::<anyhow::Result<Vec<Answers<'_>>>>()?;
            for part in parts {
                out.data().write_all(&part.text)?;
                part.rows.into_iter().for_each(|row| table.row(row));
                present += part.present;
                rejected += part.rejected;
            }
            Ok::<_, anyhow::Error>(())
        };
        let named: Vec<&[u8]> = self.uris.iter().map(String::as_bytes).collect();
        answer(&named, out)?;
        if let Some(path) = &self.batch {
            let mut blocks = Blocks::new(Source::new(path).open()?);
            let fail = || format!("cannot read {}", path.display());
            while let Some(block) = blocks.next().with_context(fail)? {
                if block.cut_short {
                    anyhow::bail!(
                        "{}: line {} is longer than {} bytes",
                        path.display(),
                        block.first_line,
                        count(lines::LONGEST as u64)
                    );
                }
                answer(&lines::lines(block.bytes).collect::<Vec<_>>(), out)?;
                // A program that waits for each answer gets it now.
                out.flush()?;
            }
        }
        if self.format == Format::Table {
            write!(out.data(), "{table}")?;
        }
        if rejected > 0 && self.format == Format::Table {
            out.warn(format_args!(
                "{} of the lookups have no SURT",
                count(rejected)
            ));
        }
        Ok(if present > 0 { Exit::Yes } else { Exit::No })
    }
}

fn row(lookup: &[u8], said: &Said<'_>, columns: usize) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let key = match &said.rejected {
        Some(why) => Some(why.to_string()),
        None => said.key.as_deref().map(text),
    };
    let mut cells = vec![Some(text(lookup)), Some(said.word().to_owned()), key];
    let whole = |frequency: Frequency| Frequency {
        urirs: said.urirs.or(frequency.urirs),
        ..frequency
    };
    cells.push(said.frequency.map(|frequency| whole(frequency).to_string()));
    let more = said.more[..columns].iter();
    cells.extend(more.map(|number| number.map(|number| number.to_string())));
    let cells = cells.into_iter();
    cells.map(|cell| cell.unwrap_or("-".to_owned())).collect()
}

fn push_tsv(lookup: &[u8], said: &Said<'_>, out: &mut Vec<u8>) {
    push_cell(lookup, out);
    out.push(b'\t');
    out.extend_from_slice(said.word().as_bytes());
    out.push(b'\t');
    push_cell(said.key.as_deref().unwrap_or(b"-"), out);
    out.push(b'\t');
    match &said.frequency {
        Some(frequency) => write_frequency(frequency, out),
        None => out.push(b'-'),
    }
    out.push(b'\n');
}

fn push_json(lookup: &[u8], said: &Said<'_>, columns: &[&str], out: &mut Vec<u8>) {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    let mut object = Map::new();
    object.insert("lookup".into(), text(lookup));
    object.insert("answer".into(), said.word().into());
    object.insert("key".into(), said.key.as_deref().map_or(Value::Null, text));
    let frequency = said.frequency.map(|frequency| frequency.to_string());
    object.insert("frequency".into(), frequency.into());
    if let Some(urirs) = said.urirs {
        object.insert("urirs".into(), urirs.to_string().into());
    }
    for (&name, number) in columns.iter().zip(said.more) {
        object.insert(name.into(), number.into());
    }
    if let Some(why) = &said.rejected {
        object.insert("why".into(), why.to_string().into());
    }
    out.extend_from_slice(Value::Object(object).to_string().as_bytes());
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

/// The SURTs of some lookups, or why there is none.
pub(crate) struct Surts {
    bytes: Vec<u8>,
    spans: Vec<Result<(usize, usize), Error>>,
}

impl Surts {
    pub(crate) fn new(lookups: &[&[u8]], dialect: Dialect) -> Surts {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut bytes = Vec::new();
        let mut spans = Vec::with_capacity(lookups.len());
        for lookup in lookups {
            let lookup = lookup.trim_ascii();
            let start = bytes.len();
            let made = if is_surt(lookup) {
                bytes.extend_from_slice(lookup);
                Ok(())
            } else {
                canonicalizer.canonicalize(lookup, &mut bytes)
            };
            if made.is_err() {
                bytes.truncate(start);
            }
            spans.push(made.map(|()| (start, bytes.len())));
        }
        Surts { bytes, spans }
    }

    /// The SURTs that there are, in their order.
    pub(crate) fn made(&self) -> impl Iterator<Item = Surt<'_>> {
        let spans = self.spans.iter().filter_map(|span| span.as_ref().ok());
        spans.map(|&(start, end)| Surt::new(&self.bytes[start..end]))
    }

    /// Says of rejected lookups that they are, and of each of the others what `next` says.
    pub(crate) fn answer<'a>(
        &self,
        answers: &mut Answers<'_>,
        mut next: impl FnMut() -> anyhow::Result<Said<'a>>,
    ) -> anyhow::Result<()> {
        for span in &self.spans {
            match span {
                Ok(_) => answers.say(&next()?),
                Err(why) => answers.say(&Said::rejected(*why)),
            }
        }
        Ok(())
    }
}
