use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::{Args, ValueEnum};
use waypost_io::pieces::{PIECE, Piece, Pieces};
use waypost_io::{LONGEST_LINE, Source, pieces};
use waypost_report::{count, push_json_string};
use waypost_surt::{Canonicalizer, Dialect, Policy, Surt, is_surt};

use crate::args::{ThreadArgs, dialects};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::lookups::push_cell;
use crate::printer::Printer;

/// Print the SURT of URIs and their keys under every policy
#[derive(Args)]
#[command(
    after_help = "Without arguments, URIs are read from stdin, one per line. A line with `)` before its first `/` and without a scheme is read as a SURT. Lines without a SURT are counted and reported on stderr.\n\
    \n\
    Examples:\n\
    \x20 waypost keys 'https://www.News.BBC.co.uk/images/Logo.png?width=200#top'\n\
    \x20 waypost keys --policy H3P0,DDom --format tsv < lookups.txt"
)]
pub(crate) struct Keys {
    /// URIs or SURTs [default: read them from stdin]
    uris: Vec<String>,
    /// Policies, separated by commas (H3P0,HxP1,DDom); `none` for the SURT alone [default: all 23]
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// Canonicalisation rules
    #[arg(long, default_value_t, value_parser = dialects())]
    dialect: Dialect,
    /// Output format; tsv and json have one row per URI and policy
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Stop at the first line that has no SURT
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Tsv,
    Json,
}

/// Validated options.
struct Plan {
    /// Policies and their names.
    policies: Vec<(Policy, String)>,
    dialect: Dialect,
    format: Format,
    strict: bool,
    threads: usize,
    /// How warnings refer to an input: `line` on stdin, else `URI`.
    word: &'static str,
}

/// Counts so far.
#[derive(Default)]
struct Tally {
    good: u64,
    bad: u64,
}

/// How many bad lines are shown; the others are only counted.
const SHOWN: usize = 3;

impl Keys {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let plan = Plan {
            threads: self.threads.start()?,
            policies: policies(self.policy.as_deref())?
                .into_iter()
                .map(|policy| (policy, policy.to_string()))
                .collect(),
            dialect: self.dialect,
            format: self.format,
            strict: self.strict,
            word: if self.uris.is_empty() { "line" } else { "URI" },
        };
        let mut tally = Tally::default();
        if self.uris.is_empty() {
            plan.run_on_stdin(&mut tally, out)?;
        } else {
            let mut part = Part::default();
            let mut writer = RowWriter::new(&plan);
            for (line, uri) in (1..).zip(&self.uris) {
                writer.push(line, uri.as_bytes(), &mut part);
            }
            plan.take(part, &mut tally, out)?;
        }
        if tally.bad > SHOWN as u64 {
            out.warn(format_args!(
                "{} of {} have no SURT; the first {SHOWN} are shown",
                count(tally.bad),
                count(tally.bad + tally.good)
            ));
        }
        Ok(if tally.good > 0 || tally.bad == 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

fn policies(list: Option<&str>) -> anyhow::Result<Vec<Policy>> {
    match list {
        None => Ok(Policy::ALL.to_vec()),
        Some("none") => Ok(Vec::new()),
        Some(list) => list
            .split(',')
            .map(|name| name.trim().parse::<Policy>())
            .collect::<Result<_, _>>()
            .context("cannot read --policy")
            .hint("name policies like `--policy H3P0,HxP1,DDom`, or `--policy none` for the SURT alone"),
    }
}

impl Plan {
    fn run_on_stdin(&self, tally: &mut Tally, out: &mut Printer) -> anyhow::Result<()> {
        if io::stdin().is_terminal() {
            out.note("reading URIs from the terminal, one per line; press Ctrl-D to end");
        }
        let progress = out.progress_beside_data();
        progress.read(&[Source::stdin()]);
        let stream = Source::stdin().open()?.reporting_to(&progress);
        let pieces = Pieces::new("stdin", stream, PIECE);
        let worker = || {
            let mut writer = RowWriter::new(self);
            move |piece: Piece| {
                let mut part = Part::default();
                for (line, uri) in (piece.first_line..).zip(piece.lines()) {
                    if piece.too_long {
                        let longest = count(LONGEST_LINE as u64);
                        let reason = format!("longer than {longest} bytes");
                        part.reject(line, uri, reason);
                    } else {
                        writer.push(line, uri, &mut part);
                    }
                }
                Ok(part)
            }
        };
        pieces::run(self.threads, pieces, worker, |part| {
            self.take(part, tally, out)
        })
    }

    /// Prints the rows and the first bad lines, which are errors in strict mode.
    fn take(&self, part: Part, tally: &mut Tally, out: &mut Printer) -> anyhow::Result<()> {
        if let (true, Some(bad)) = (self.strict, part.bad.first()) {
            out.data().write_all(&part.rows[..part.rows_before_bad])?;
            return Err(anyhow::Error::msg(self.message(bad)))
                .hint("omit --strict to skip such lines");
        }
        out.data().write_all(&part.rows)?;
        // A terminal, or a program that waits for each answer, gets it at once.
        out.flush()?;
        let shown = SHOWN.saturating_sub(tally.bad as usize);
        for bad in part.bad.iter().take(shown) {
            out.warn(self.message(bad));
        }
        tally.good += part.good;
        tally.bad += part.bad_lines;
        Ok(())
    }

    fn message(&self, bad: &BadLine) -> String {
        let BadLine {
            line,
            reason,
            start,
        } = bad;
        format!("{} {}: {reason}: {start}", self.word, count(*line))
    }
}

/// Writes the rows of URIs.
struct RowWriter<'p> {
    plan: &'p Plan,
    canonicalizer: Canonicalizer,
    surt: Vec<u8>,
    key: Vec<u8>,
}

impl<'p> RowWriter<'p> {
    fn new(plan: &'p Plan) -> RowWriter<'p> {
        RowWriter {
            plan,
            canonicalizer: Canonicalizer::new(plan.dialect),
            surt: Vec::new(),
            key: Vec::new(),
        }
    }

    fn push(&mut self, line: u64, uri: &[u8], part: &mut Part) {
        self.surt.clear();
        if is_surt(uri) {
            self.surt.extend_from_slice(uri);
        } else if let Err(error) = self.canonicalizer.canonicalize(uri, &mut self.surt) {
            return part.reject(line, uri, error.to_string());
        }
        part.good += 1;
        let surt = Surt::new(&self.surt);
        let rows = &mut part.rows;
        self.plan.push_head(uri, &surt, rows);
        for (policy, name) in &self.plan.policies {
            self.key.clear();
            policy.cut(&surt, &mut self.key);
            self.plan.push_row(uri, name, &self.key, rows);
        }
    }
}

impl Plan {
    /// Writes the SURT; in a table, below the URI and followed by the registered domain.
    fn push_head(&self, uri: &[u8], surt: &Surt<'_>, rows: &mut Vec<u8>) {
        if self.format == Format::Table {
            rows.extend_from_slice(uri);
            rows.push(b'\n');
        }
        self.push_row(uri, "SURT", surt.as_bytes(), rows);
        if self.format == Format::Table {
            let domain: Vec<&[u8]> = surt
                .registered_domain()
                .rsplit(|&byte| byte == b',')
                .collect();
            self.push_row(uri, "registered domain", &domain.join(&b'.'), rows);
        }
    }

    fn push_row(&self, uri: &[u8], name: &str, key: &[u8], rows: &mut Vec<u8>) {
        match self.format {
            Format::Table => {
                const NAME: usize = "registered domain".len();
                rows.extend_from_slice(b"  ");
                rows.extend_from_slice(name.as_bytes());
                rows.resize(rows.len() + NAME.saturating_sub(name.len()) + 2, b' ');
                rows.extend_from_slice(key);
            }
            Format::Tsv => {
                push_cell(uri, rows);
                rows.push(b'\t');
                rows.extend_from_slice(name.as_bytes());
                rows.push(b'\t');
                push_cell(key, rows);
            }
            Format::Json => {
                rows.extend_from_slice(b"{\"uri\":");
                push_json_string(uri, rows);
                rows.extend_from_slice(b",\"policy\":\"");
                rows.extend_from_slice(name.as_bytes());
                rows.extend_from_slice(b"\",\"key\":");
                push_json_string(key, rows);
                rows.push(b'}');
            }
        }
        rows.push(b'\n');
    }
}

/// The rows of a piece of the input, and its bad lines.
#[derive(Default)]
struct Part {
    rows: Vec<u8>,
    good: u64,
    bad_lines: u64,
    /// The first bad lines.
    bad: Vec<BadLine>,
    /// The length of `rows` before the first of them.
    rows_before_bad: usize,
}

/// A line without a SURT.
struct BadLine {
    line: u64,
    reason: String,
    /// Its beginning.
    start: String,
}

impl Part {
    fn reject(&mut self, line: u64, uri: &[u8], reason: String) {
        if self.bad.is_empty() {
            self.rows_before_bad = self.rows.len();
        }
        self.bad_lines += 1;
        if self.bad.len() < SHOWN {
            let start = String::from_utf8_lossy(&uri[..uri.len().min(200)]).into_owned();
            self.bad.push(BadLine {
                line,
                reason,
                start,
            });
        }
    }
}
