use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use waypost_report::count;
use waypost_surt::{Canonicalizer, Dialect, Policy, Surt, is_surt};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::lines::{self, Blocks};
use crate::printer::Printer;

/// Print the SURT of URIs and their keys under every policy
#[derive(Args)]
#[command(after_help = "\
Without URIs they are read from stdin, one a line. A line with `)` before its first `/` and no \
scheme is taken as a SURT. Lines without a SURT are counted and shown on stderr.

Examples:
  waypost keys 'https://www.News.BBC.co.uk/images/Logo.png?width=200&height=80#top'
  printf 'http://example.com/a\\nhttp://example.org/b?c\\n' | waypost keys --policy H3P0,DDom --format tsv")]
pub(crate) struct Keys {
    /// URIs, or SURTs; none: read them from stdin
    uris: Vec<String>,
    /// Policies, separated by commas (H3P0,HxP1,DDom); `none` for the SURT alone [default: all 23]
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// The rules of canonicalisation: ia, commoncrawl or commoncrawl-legacy
    #[arg(long, default_value_t)]
    dialect: Dialect,
    /// How to print them; tsv and json have a row for each URI and policy
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Stop at the first line that has no SURT
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Tsv,
    Json,
}

/// What was typed, understood.
struct Plan {
    policies: Vec<Policy>,
    dialect: Dialect,
    format: Format,
    strict: bool,
    /// What an input is called when it is bad: `line` on stdin, else `URI`.
    word: &'static str,
}

/// What came of the lines so far.
#[derive(Default)]
struct Tally {
    good: u64,
    bad: u64,
}

/// Bad lines shown in full; the rest is only counted.
const SHOWN: u64 = 10;

/// Lines given to one thread at a time.
const LINES_PER_TASK: usize = 1_000;

impl Keys {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let plan = Plan {
            policies: policies(self.policy.as_deref())?,
            dialect: self.dialect,
            format: self.format,
            strict: self.strict,
            word: if self.uris.is_empty() { "line" } else { "URI" },
        };
        let mut tally = Tally::default();
        if self.uris.is_empty() {
            plan.run_on_stdin(&mut tally, out)?;
        } else {
            let uris: Vec<&[u8]> = self.uris.iter().map(|uri| uri.as_bytes()).collect();
            plan.run_on_lines(&uris, 1, &mut tally, out)?;
        }
        if tally.bad > SHOWN {
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
        let stdin = io::stdin();
        if stdin.is_terminal() {
            out.note("reading URIs from the terminal, one a line; end with Ctrl-D");
        }
        let mut blocks = Blocks::new(stdin.lock());
        while let Some(block) = blocks.next().context("cannot read stdin")? {
            let lines: Vec<&[u8]> = lines::lines(block.bytes).collect();
            if block.cut_short {
                let reason = format!("it is longer than {} bytes", count(lines::LONGEST as u64));
                self.reject(block.first_line, b"", &reason, tally, out)?;
            } else {
                self.run_on_lines(&lines, block.first_line, tally, out)?;
            }
            // A person, or a program that waits for each answer, gets it now.
            out.flush()?;
        }
        Ok(())
    }

    /// Prints what becomes of `lines`, in their order; the work is spread over all cores.
    fn run_on_lines(
        &self,
        lines: &[&[u8]],
        first_line: u64,
        tally: &mut Tally,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let parts: Vec<Part> = lines
            .par_chunks(LINES_PER_TASK)
            .map(|lines| self.rows(lines))
            .collect();
        let mut part_line = first_line;
        for (part, lines) in parts.iter().zip(lines.chunks(LINES_PER_TASK)) {
            tally.good += lines.len() as u64 - part.bad.len() as u64;
            if self.strict && !part.bad.is_empty() {
                out.data().write_all(&part.rows[..part.rows_before_bad])?;
            } else {
                out.data().write_all(&part.rows)?;
            }
            for (index, error) in &part.bad {
                let line = part_line + *index as u64;
                self.reject(line, lines[*index], &error.to_string(), tally, out)?;
            }
            part_line += lines.len() as u64;
        }
        Ok(())
    }

    fn rows(&self, lines: &[&[u8]]) -> Part {
        let mut canonicalizer = Canonicalizer::new(self.dialect);
        let mut part = Part::default();
        let mut surt = Vec::new();
        let mut key = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            surt.clear();
            if is_surt(line) {
                surt.extend_from_slice(line);
            } else if let Err(error) = canonicalizer.canonicalize(line, &mut surt) {
                if part.bad.is_empty() {
                    part.rows_before_bad = part.rows.len();
                }
                part.bad.push((index, error));
                continue;
            }
            let parsed = Surt::new(&surt);
            self.push_head(line, &parsed, &mut part.rows);
            for policy in &self.policies {
                key.clear();
                policy.cut(&parsed, &mut key);
                self.push_row(line, &policy.to_string(), &key, &mut part.rows);
            }
        }
        part
    }

    /// The SURT; in a table under the URI, and with the registered domain as people write it.
    fn push_head(&self, line: &[u8], surt: &Surt<'_>, rows: &mut Vec<u8>) {
        if self.format == Format::Table {
            rows.extend_from_slice(line);
            rows.push(b'\n');
        }
        self.push_row(line, "SURT", surt.as_bytes(), rows);
        if self.format == Format::Table {
            let domain: Vec<&[u8]> = surt
                .registered_domain()
                .rsplit(|&byte| byte == b',')
                .collect();
            self.push_row(line, "registered domain", &domain.join(&b'.'), rows);
        }
    }

    fn push_row(&self, uri: &[u8], name: &str, key: &[u8], rows: &mut Vec<u8>) {
        match self.format {
            Format::Table => {
                rows.extend_from_slice(format!("  {name:<17}  ").as_bytes());
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
                let text = |bytes| serde_json::Value::from(String::from_utf8_lossy(bytes));
                let row = format!(
                    r#"{{"uri":{},"policy":"{name}","key":{}}}"#,
                    text(uri),
                    text(key)
                );
                rows.extend_from_slice(row.as_bytes());
            }
        }
        rows.push(b'\n');
    }

    /// A line without a SURT: an error if it has to be, else counted and, if among the first, shown.
    fn reject(
        &self,
        line: u64,
        uri: &[u8],
        reason: &str,
        tally: &mut Tally,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let message = format!(
            "{} {}: {reason}: {}",
            self.word,
            count(line),
            String::from_utf8_lossy(&uri[..uri.len().min(200)])
        );
        if self.strict {
            return Err(anyhow::Error::msg(message))
                .hint("leave --strict away to pass over such lines and count them");
        }
        tally.bad += 1;
        if tally.bad <= SHOWN {
            out.warn(message);
        }
        Ok(())
    }
}

/// The rows of some lines, and those of them that have none.
#[derive(Default)]
struct Part {
    rows: Vec<u8>,
    bad: Vec<(usize, waypost_surt::Error)>,
    /// How much of `rows` came before the first bad line.
    rows_before_bad: usize,
}

/// A cell of a TSV: what would break the row is written as `\t`, `\n` or `\r`.
fn push_cell(cell: &[u8], rows: &mut Vec<u8>) {
    if memchr::memchr3(b'\t', b'\n', b'\r', cell).is_none() {
        rows.extend_from_slice(cell);
        return;
    }
    for &byte in cell {
        match byte {
            b'\t' => rows.extend_from_slice(b"\\t"),
            b'\n' => rows.extend_from_slice(b"\\n"),
            b'\r' => rows.extend_from_slice(b"\\r"),
            _ => rows.push(byte),
        }
    }
}
