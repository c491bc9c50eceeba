use std::io::Write;

use clap::Args;
use serde_json::{Map, Value, json};
use waypost_index::check::{self, Checking, KeysReport, Report};
use waypost_index::rejects::printable;
use waypost_index::scan::Pieces;
use waypost_report::{Align, Table, bytes, count};
use waypost_surt::Dialect;

use crate::args::{BadLines, Filters, Format, Inputs, ResourceArgs};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::printer::Printer;

/// Report what an index contains and what is wrong with it
///
/// Detects the layout, counts captures, distinct URI-Rs and bad lines by kind, and checks that the
/// lines are sorted by their bytes. All counts are exact.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index check small.cdxj\n\
    \x20 waypost index check --keys --format json small.cdxj\n\
    \x20 waypost index check crawl.wacz\n\
    \n\
    Exit code 1: the index is unsorted or damaged, or has bad lines, duplicate lines or wrong keys.")]
pub(crate) struct Check {
    #[command(flatten)]
    inputs: Inputs,
    /// Compare the keys with the SURTs of the URLs, under every dialect
    #[arg(long)]
    keys: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    bad_lines: BadLines,
}

impl Check {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(None)?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let report = check::check(
            &sources,
            check::Options {
                select: self.filters.select()?,
                keys: self.keys,
                resources,
                strict: self.bad_lines.strict,
                rejects: rejects.as_mut(),
                progress: progress.clone(),
                pieces: self.inputs.pieces.clone(),
                ..check::Options::default()
            },
        )?;
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        self.filters.takedowns.report(out);
        let tally = &report.outcome.tally;
        if tally.lines > tally.headers && tally.shapes.is_empty() {
            out.warn("no captures found: is this an index?");
        }
        match self.format {
            Format::Table => write!(out.data(), "{}", text(&report))?,
            Format::Json => writeln!(out.data(), "{:#}", object(&report))?,
        }
        Ok(if report.is_clean() {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

impl Divide for Check {
    fn merge(&mut self, pieces: Pieces) {
        self.inputs.pieces = Some(pieces);
    }

    fn reads_lists(&self) -> bool {
        false
    }

    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>> {
        let job = Checking::new(self.keys, &self.resources.limits(None)?);
        task.read(&job, self.filters.select()?, &self.bad_lines)
    }
}

fn text(report: &Report) -> String {
    let tally = &report.outcome.tally;
    let name = match &report.outcome.files[..] {
        [file] => file.name.clone(),
        files => format!("{} files", count(files.len() as u64)),
    };
    let mut table = Table::new(&[("index", Align::Left), (&name, Align::Left)]);
    let layouts = report.layouts();
    table.row(["layout", &layouts.join(" + ")]);
    table.row(["size", &bytes(tally.bytes)]);
    table.row(["lines", &count(tally.lines)]);
    table.row(["captures", &count(tally.captures)]);
    if tally.selected != tally.captures {
        table.row(["selected", &count(tally.selected)]);
    }
    table.row(["URI-Rs", &count(report.uri_rs)]);
    let time = |time: Option<waypost_index::timestamp::Time>| {
        time.map_or("-".to_owned(), |time| time.to_string())
    };
    table.row(["first", &time(report.first)]);
    table.row(["last", &time(report.last)]);
    table.row(["sorted", &sorted(report)]);
    table.row(["duplicate lines", &count(report.duplicates)]);
    table.row(["revisits", &count(tally.revisits)]);
    if tally.odd_timestamps > 0 {
        table.row(["odd timestamps", &count(tally.odd_timestamps)]);
    }
    table.row([
        "not of the Web",
        &kinds(tally.non_web_kinds().map(|(kind, n)| (kind.name(), n))),
    ]);
    table.row([
        "bad lines",
        &kinds(
            report
                .outcome
                .rejects
                .kinds()
                .map(|(kind, n)| (kind.name(), n)),
        ),
    ]);
    if let Some(keys) = &report.keys {
        table.row(["keys", &keys_text(keys)]);
    }
    let mut text = table.to_string();
    details(report, &mut text);
    text
}

/// `5 (dns 3, warcinfo 2)`.
fn kinds(counts: impl Iterator<Item = (&'static str, u64)>) -> String {
    let counts: Vec<(&str, u64)> = counts.collect();
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    let list: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{name} {}", count(*n)))
        .collect();
    if list.is_empty() {
        "0".to_owned()
    } else {
        format!("{} ({})", count(total), list.join(", "))
    }
}

fn sorted(report: &Report) -> String {
    match &report.violation {
        Some(violation) => format!(
            "no: line {} of {} comes after a larger one",
            count(violation.at.line + 1),
            file(report, violation.at.source)
        ),
        None if report.files_in_order => "yes".to_owned(),
        None => "yes, each file by itself".to_owned(),
    }
}

fn file(report: &Report, source: usize) -> &str {
    report
        .outcome
        .files
        .get(source)
        .map_or("-", |file| file.name.as_str())
}

fn keys_text(keys: &KeysReport) -> String {
    let best = keys.best();
    let differ: Vec<String> = Dialect::ALL
        .iter()
        .map(|dialect| format!("{dialect} {}", count(keys.differ(*dialect))))
        .collect();
    format!(
        "{} compared, {best} fits best; different keys: {}",
        count(keys.compared),
        differ.join(", ")
    )
}

/// What is wrong, with positions and examples.
fn details(report: &Report, text: &mut String) {
    let mut say = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    if let Some(violation) = &report.violation {
        let line = violation.at.line;
        say(format!(
            "\nnot sorted: {}\n  line {}: {}\n  line {}: {}",
            file(report, violation.at.source),
            count(line),
            printable(&violation.before),
            count(line + 1),
            printable(&violation.here)
        ));
    }
    for damage in &report.outcome.damage {
        say(format!("\ndamaged: {damage}"));
    }
    let examples = report.outcome.rejects.examples();
    if !examples.is_empty() {
        say("\nbad lines, the first of each kind:".to_owned());
    }
    for example in examples {
        say(format!(
            "  {} ({}): {}: line {}: {}",
            example.kind,
            example.kind.meaning(),
            example.file,
            count(example.line),
            example.start
        ));
    }
    if let Some(keys) = &report.keys {
        let examples = keys.examples(keys.best());
        if !examples.is_empty() {
            say(format!(
                "\nkeys that differ under {}, the first:",
                keys.best()
            ));
        }
        for (key, surt, url) in examples {
            say(format!("  {key}\n    should be {surt}\n    for {url}"));
        }
    }
}

fn object(report: &Report) -> Value {
    let tally = &report.outcome.tally;
    let counts = |kinds: Vec<(&'static str, u64)>| -> Value {
        let map: Map<String, Value> = kinds
            .into_iter()
            .map(|(name, n)| (name.to_owned(), n.into()))
            .collect();
        map.into()
    };
    let time = |time: Option<waypost_index::timestamp::Time>| {
        time.map(|time| format!("{:014}", time.digits14()))
    };
    let layouts = report.layouts();
    let files: Vec<Value> = report
        .outcome
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name,
                "layout": file.layout.to_string(),
                "compression": file.compression.name(),
                "lines": file.lines,
                "bytes": file.bytes,
            })
        })
        .collect();
    let violation = report.violation.as_ref().map(|violation| {
        json!({
            "file": file(report, violation.at.source),
            "line": violation.at.line + 1,
            "before": printable(&violation.before),
            "here": printable(&violation.here),
        })
    });
    let examples: Vec<Value> = report
        .outcome
        .rejects
        .examples()
        .iter()
        .map(|example| {
            json!({
                "kind": example.kind.name(),
                "file": example.file,
                "line": example.line,
                "byte": example.byte,
                "start": example.start,
            })
        })
        .collect();
    let damage: Vec<Value> = report
        .outcome
        .damage
        .iter()
        .map(|damage| {
            let place = damage.place();
            json!({"file": place.file, "byte": place.byte, "what": damage.kind().to_string()})
        })
        .collect();
    let mut object = json!({
        "layout": layouts.join(" + "),
        "layouts": layouts,
        "files": files,
        "bytes": tally.bytes,
        "lines": tally.lines,
        "headers": tally.headers,
        "captures": tally.captures,
        "selected": tally.selected,
        "uri_rs": report.uri_rs,
        "first": time(report.first),
        "last": time(report.last),
        "sorted": report.is_sorted(),
        "files_in_order": report.files_in_order,
        "violation": violation,
        "duplicates": report.duplicates,
        "revisits": tally.revisits,
        "odd_timestamps": tally.odd_timestamps,
        "non_web": counts(tally.non_web_kinds().map(|(kind, n)| (kind.name(), n)).collect()),
        "bad": counts(report.outcome.rejects.kinds().map(|(kind, n)| (kind.name(), n)).collect()),
        "bad_examples": examples,
        "damage": damage,
        "clean": report.is_clean(),
    });
    if let Some(keys) = &report.keys {
        let differ: Map<String, Value> = Dialect::ALL
            .iter()
            .map(|dialect| (dialect.name().to_owned(), keys.differ(*dialect).into()))
            .collect();
        object["keys"] = json!({
            "compared": keys.compared,
            "best": keys.best().name(),
            "differ": differ,
            "examples": keys
                .examples(keys.best())
                .iter()
                .map(|(key, surt, url)| json!({"key": key, "surt": surt, "url": url}))
                .collect::<Vec<_>>(),
        });
    }
    object
}
