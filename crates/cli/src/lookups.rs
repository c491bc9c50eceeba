//! Lookups on the command line, the same for all summaries: URIs or a file of URIs, answered in
//! input order while the file is read.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use waypost_index::Select;
use waypost_io::pieces::{Piece, Pieces};
use waypost_io::{LONGEST_LINE, Source, pieces};
use waypost_report::{Align, Cells, Columns, count, push_json_string};
use waypost_summary::map::write_frequency;
use waypost_summary::{
    Answer, Frequency, Kind, Lookup, LookupBatch, LookupBuffer, Number, Presence, Scope, Summary,
    Wholeness,
};
use waypost_surt::Error;

use crate::args::Purpose;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

#[derive(Args)]
pub(crate) struct Lookups {
    /// URIs or SURTs
    uris: Vec<String>,
    /// A file with one URI or SURT per line; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) batch: Option<PathBuf>,
    /// Look up only captures with these statuses: 200,3xx
    #[arg(long, value_name = "LIST", conflicts_with = "purpose")]
    status: Option<String>,
    /// Look up only captures of these media types: text/html,image/*
    #[arg(long, value_name = "LIST", conflicts_with = "purpose")]
    mime: Option<String>,
    #[command(flatten)]
    purpose: Purpose,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Also say whether the summary is known to have all of its rows
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable table, with column widths taken from the first answers
    Table,
    /// One line per lookup, without a header: lookup, answer, key, frequency
    Tsv,
    /// One JSON object per line
    Json,
}

/// The answer to a lookup.
#[derive(Default)]
pub(crate) struct Verdict<'a> {
    pub(crate) presence: Presence,
    /// Why it was rejected, if it was.
    pub(crate) rejected: Option<Rejection>,
    /// The key that decides, and its frequency.
    pub(crate) key: Option<Cow<'a, [u8]>>,
    pub(crate) frequency: Option<Frequency>,
    /// URI-Rs, if the frequency counts only captures.
    pub(crate) urirs: Option<Number>,
    /// Values of the additional columns.
    pub(crate) more: [Option<u64>; 3],
}

/// Why a line was rejected.
#[derive(Clone, Copy)]
pub(crate) enum Rejection {
    /// It has no SURT.
    NoSurt(Error),
    /// It is longer than any URI.
    TooLong,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::NoSurt(error) => error.fmt(f),
            Rejection::TooLong => {
                write!(
                    f,
                    "the line is longer than {} bytes",
                    count(LONGEST_LINE as u64)
                )
            }
        }
    }
}

impl Verdict<'_> {
    /// A lookup without a SURT.
    pub(crate) fn rejected(why: Error) -> Verdict<'static> {
        Verdict {
            rejected: Some(Rejection::NoSurt(why)),
            ..Verdict::default()
        }
    }

    fn word(&self) -> &'static str {
        match self.rejected {
            Some(_) => "rejected",
            None => self.presence.name(),
        }
    }
}

/// The formatted answers to some lookups. Each answer is formatted at once: storing them would take
/// longer than finding them.
pub(crate) struct Answers<'a> {
    columns: &'a [&'a str],
    format: Format,
    /// Rows of tsv and json.
    text: Vec<u8>,
    /// Rows of a table whose column widths are not known yet.
    cells: Cells,
    /// Number of lookups that are present or unknown.
    possible: u64,
    unknown: u64,
    rejected: u64,
}

impl<'a> Answers<'a> {
    fn new(columns: &'a [&'a str], format: Format) -> Answers<'a> {
        Answers {
            columns,
            format,
            text: Vec::new(),
            cells: Cells::default(),
            possible: 0,
            unknown: 0,
            rejected: 0,
        }
    }

    /// Whether the additional columns are shown.
    pub(crate) fn shows_more(&self) -> bool {
        self.format != Format::Tsv
    }

    /// Answers a lookup. Lookups are answered in input order.
    pub(crate) fn push(&mut self, lookup: &[u8], verdict: &Verdict<'_>) {
        self.rejected += u64::from(verdict.rejected.is_some());
        self.possible += u64::from(verdict.rejected.is_none() && verdict.presence.is_possible());
        self.unknown += u64::from(verdict.presence == Presence::Unknown);
        match self.format {
            Format::Table => push_cells(lookup, verdict, self.columns.len(), &mut self.cells),
            Format::Tsv => push_tsv(lookup, verdict, &mut self.text),
            Format::Json => push_json(lookup, verdict, self.columns, &mut self.text),
        }
    }

    /// Answers all lines of a piece with `say`.
    fn answer(
        &mut self,
        piece: &Piece,
        say: &mut impl FnMut(&[&[u8]], &mut Answers<'a>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let lines: Vec<&[u8]> = piece.lines().collect();
        if !piece.too_long {
            return say(&lines, self);
        }
        for line in lines {
            let too_long = Verdict {
                rejected: Some(Rejection::TooLong),
                ..Verdict::default()
            };
            self.push(line, &too_long);
        }
        Ok(())
    }
}

impl Lookups {
    /// The captures to look up.
    pub(crate) fn wanted(&self) -> anyhow::Result<Scope> {
        let mut select = self.purpose.restrict(Select::new());
        if let Some(list) = &self.status {
            select.status(list).context("--status")?;
        }
        if let Some(list) = &self.mime {
            select.mime(list).context("--mime")?;
        }
        Ok(Scope::of(&select))
    }

    /// Says whether a summary is known to be whole, if that is wanted.
    pub(crate) fn report_wholeness(&self, summary: &dyn Summary, out: &Printer) {
        if self.verbose {
            out.note(match summary.wholeness() {
                Wholeness::Whole => "the summary is whole",
                Wholeness::Unknown => {
                    "it is not known whether the summary is whole: its headers do not describe its rows"
                }
            });
        }
    }

    /// Answers all lookups from a profile or a filter, `piece` bytes at a time.
    pub(crate) fn answer_by(
        &self,
        summary: &dyn Summary,
        piece: usize,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let wanted = self.wanted()?;
        self.report_wholeness(summary, out);
        self.answer(&[], piece, out, || {
            let mut buffer = LookupBuffer::new(summary.about().dialect);
            let wanted = &wanted;
            move |lines, answers| answer_by(summary, buffer.fill(lines).wanting(wanted), answers)
        })
    }

    /// Answers all lookups. Each thread has its own `worker()`, which answers lookups in input order.
    /// `columns` are the names of additional columns, and `piece` is how many bytes of a file to
    /// answer at a time.
    pub(crate) fn answer<W>(
        &self,
        columns: &[&str],
        piece: usize,
        out: &mut Printer,
        worker: impl Fn() -> W + Sync,
    ) -> anyhow::Result<Exit>
    where
        W: for<'a> FnMut(&[&[u8]], &mut Answers<'a>) -> anyhow::Result<()>,
    {
        if self.uris.is_empty() && self.batch.is_none() {
            return Err(anyhow::anyhow!("nothing to look up"))
                .hint("name URIs, or a file of them with --batch FILE");
        }
        let progress = out.progress_beside_data();
        let mut batch = match &self.batch {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let source = Source::new(path);
                progress.read(std::slice::from_ref(&source));
                Some(Pieces::new(
                    name,
                    source.open()?.reporting_to(&progress),
                    piece,
                ))
            }
        };
        // The first answers determine the column widths of a table.
        let mut first = Answers::new(columns, self.format);
        let mut say = worker();
        let named: Vec<&[u8]> = self.uris.iter().map(String::as_bytes).collect();
        say(&named, &mut first)?;
        if let Some(pieces) = &mut batch {
            match pieces.next()? {
                Some(piece) => first.answer(&piece, &mut say)?,
                None => batch = None,
            }
        }
        drop(say);
        let table = table(columns, &first.cells, batch.is_some());
        let (mut possible, mut unknown, mut rejected) = (0, 0, 0);
        if self.format == Format::Table {
            table.push_header(&mut first.text);
        }
        let mut take = |mut answers: Answers<'_>| {
            table.push_rows(&answers.cells, &mut answers.text);
            possible += answers.possible;
            unknown += answers.unknown;
            rejected += answers.rejected;
            out.data().write_all(&answers.text)?;
            // A program that waits for each answer gets it at once.
            out.flush()?;
            Ok::<(), anyhow::Error>(())
        };
        take(first)?;
        if let Some(pieces) = batch {
            let threads = rayon::current_num_threads();
            let work = || {
                let mut say = worker();
                let table = &table;
                move |piece: Piece| {
                    let mut answers = Answers::new(columns, self.format);
                    answers.answer(&piece, &mut say)?;
                    // The workers format the rows; the writer only writes them.
                    table.push_rows(&answers.cells, &mut answers.text);
                    answers.cells.clear();
                    Ok(answers)
                }
            };
            pieces::run(threads, pieces, work, take)?;
        }
        drop(progress);
        if rejected > 0 && self.format == Format::Table {
            out.warn(format_args!(
                "{} could not be looked up",
                crate::plural::of(rejected, "lookup")
            ));
        }
        if unknown > 0 && self.format == Format::Table {
            out.note(format_args!(
                "{} outside the scope of the summary, which was not built from all matching captures",
                crate::plural::of(unknown, "lookup")
            ));
        }
        Ok(if possible > 0 { Exit::Yes } else { Exit::No })
    }
}

/// The columns of the table, wide enough for these cells, or for most URIs if more rows follow.
fn table(columns: &[&str], cells: &Cells, more_follow: bool) -> Columns {
    let mut head = vec![
        ("lookup", Align::Left),
        ("answer", Align::Left),
        ("key", Align::Left),
        ("frequency", Align::Right),
    ];
    head.extend(columns.iter().map(|&name| (name, Align::Right)));
    let mut table = Columns::new(&head);
    table.fit(cells);
    if more_follow {
        table.widen(&[48, 8, 32]);
    }
    table
}

fn push_cells(lookup: &[u8], verdict: &Verdict<'_>, columns: usize, cells: &mut Cells) {
    let text = |cells: &mut Cells, bytes: &[u8]| cells.push(|out| out.extend_from_slice(bytes));
    match std::str::from_utf8(lookup) {
        Ok(_) => text(cells, lookup),
        Err(_) => text(cells, String::from_utf8_lossy(lookup).as_bytes()),
    }
    text(cells, verdict.word().as_bytes());
    match (&verdict.rejected, &verdict.key) {
        (Some(why), _) => text(cells, why.to_string().as_bytes()),
        (None, Some(key)) => text(cells, key),
        (None, None) => text(cells, b"-"),
    }
    let known = verdict.frequency.map(|frequency| Frequency {
        urirs: verdict.urirs.or(frequency.urirs),
        ..frequency
    });
    cells.push(|out| match known {
        // A filter does not count.
        None
        | Some(Frequency {
            captures: None,
            urirs: None,
        }) => out.push(b'-'),
        Some(frequency) => write_frequency(&frequency, out),
    });
    for number in &verdict.more[..columns] {
        cells.push(|out| push_number(*number, b"-", out));
    }
}

fn push_tsv(lookup: &[u8], verdict: &Verdict<'_>, out: &mut Vec<u8>) {
    push_cell(lookup, out);
    out.push(b'\t');
    out.extend_from_slice(verdict.word().as_bytes());
    out.push(b'\t');
    push_cell(verdict.key.as_deref().unwrap_or(b"-"), out);
    out.push(b'\t');
    match &verdict.frequency {
        Some(frequency) => write_frequency(frequency, out),
        None => out.push(b'-'),
    }
    out.push(b'\n');
}

fn push_json(lookup: &[u8], verdict: &Verdict<'_>, columns: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"lookup\":");
    push_json_string(lookup, out);
    out.extend_from_slice(b",\"answer\":\"");
    out.extend_from_slice(verdict.word().as_bytes());
    out.extend_from_slice(b"\",\"key\":");
    match verdict.key.as_deref() {
        Some(key) => push_json_string(key, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"frequency\":");
    match &verdict.frequency {
        Some(frequency) => {
            out.push(b'"');
            write_frequency(frequency, out);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
    if let Some(urirs) = verdict.urirs {
        out.extend_from_slice(b",\"urirs\":");
        push_json_string(urirs.to_string().as_bytes(), out);
    }
    for (name, number) in columns.iter().zip(verdict.more) {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        push_number(number, b"null", out);
    }
    if let Some(why) = &verdict.rejected {
        out.extend_from_slice(b",\"why\":");
        push_json_string(why.to_string().as_bytes(), out);
    }
    out.extend_from_slice(b"}\n");
}

fn push_number(number: Option<u64>, none: &[u8], out: &mut Vec<u8>) {
    match number {
        // Writing to memory cannot fail.
        Some(number) => drop(write!(out, "{number}")),
        None => out.extend_from_slice(none),
    }
}

/// Writes a TSV cell. Tabs and line breaks are escaped as `\t`, `\n` and `\r`.
pub(crate) fn push_cell(cell: &[u8], out: &mut Vec<u8>) {
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

fn answer_by(
    summary: &dyn Summary,
    batch: LookupBatch<'_>,
    answers: &mut Answers<'_>,
) -> anyhow::Result<()> {
    let lookups: Vec<Lookup<'_>> = batch.valid().collect();
    let mut given = summary.answer_all(&lookups)?.into_iter();
    answer_batch(batch, answers, || {
        let answer = given.next().unwrap_or(Answer::Unknown);
        let presence = answer.presence();
        let Answer::Present(found) = answer else {
            return Ok(Verdict {
                presence,
                ..Verdict::default()
            });
        };
        let (frequency, urirs) = match summary.kind() {
            // Profiles store each number separately.
            Kind::Profile => (
                found.frequency.captures.map(|captures| Frequency {
                    captures: Some(captures),
                    urirs: None,
                }),
                found.frequency.urirs,
            ),
            _ => (Some(found.frequency), None),
        };
        Ok(Verdict {
            presence,
            key: found.key.map(Into::into),
            frequency,
            urirs,
            ..Verdict::default()
        })
    })
}

/// Rejects lookups without a SURT, and answers the others with the results of `next`.
pub(crate) fn answer_batch<'v>(
    batch: LookupBatch<'_>,
    answers: &mut Answers<'_>,
    mut next: impl FnMut() -> anyhow::Result<Verdict<'v>>,
) -> anyhow::Result<()> {
    for (line, lookup) in batch.iter() {
        match lookup {
            Ok(_) => answers.push(line, &next()?),
            Err(why) => answers.push(line, &Verdict::rejected(why)),
        }
    }
    Ok(())
}
