use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use waypost_insight::lastmod::anomalies::{self, Anomalies, Options};
use waypost_report::{Align, Cell, Table};

use crate::args::{Format, ThreadArgs};
use crate::cmd::segments::report_outcome;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::remote::RemoteArgs;

/// Find Last-Modified values and days that hold an implausible share of their surroundings
///
/// Such as a single second that holds most times of a year. Days on which pages were captured are left
/// out. Ranked by the ratio to the next most frequent value or day. Below are the largest ranges of
/// 10,000 seconds of the years concerned and of those around them.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost lastmod anomalies odd.cdxj --html odd.html\n\
    \n\
    Exit code 1: nothing was found.")]
pub(crate) struct AnomaliesCommand {
    /// Indexes with lastmod: files, folders, or URLs of a cluster.idx
    #[arg(required = true, value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    inputs: Vec<PathBuf>,
    /// The least share of its year that a value or day holds
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    share: f64,
    /// The least ratio to the next most frequent value or day
    #[arg(long, value_name = "RATIO", default_value_t = 5.0)]
    ratio: f64,
    /// The least number of captures
    #[arg(long, value_name = "N", default_value_t = 50)]
    least: u64,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl AnomaliesCommand {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        self.threads.start()?;
        let files = self.remote.files();
        let sources = self.remote.sources(&files, &self.inputs, out)?;
        let progress = out.progress();
        let options = Options {
            share: self.share,
            ratio: self.ratio,
            least: self.least,
            progress: progress.clone(),
            ..Options::default()
        };
        let found = anomalies::anomalies(&sources, &options)?;
        drop(progress);
        match self.format {
            Format::Json => writeln!(out.data(), "{:#}", object(&found))?,
            Format::Table if found.found.is_empty() => out.note("nothing stands out"),
            Format::Table => {
                write!(out.data(), "{}\n{}", table(&found), ranges(&found))?;
            }
        }
        if let Some(path) = &self.html {
            let tables = [
                ("Values and days that stand out", table(&found)),
                ("Largest ranges of 10,000 seconds", ranges(&found)),
            ];
            let page = super::html::anomalies_page(&found, &years(&found), &tables);
            crate::cmd::segments::html::write(path, &page)?;
        }
        report_outcome(&found.outcome, out);
        Ok(match found.found.is_empty() {
            true => Exit::No,
            false => Exit::Yes,
        })
    }
}

fn table(found: &Anomalies) -> Table {
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("time", Align::Left),
        ("value", Align::Right),
        ("captures", Align::Right),
        ("of its year", Align::Right),
        ("of its day", Align::Right),
        ("next", Align::Right),
        ("ratio", Align::Right),
        ("domains", Align::Right),
    ]);
    for anomaly in &found.found {
        let time = super::shown(anomaly.time);
        table.row([
            Cell::from(if anomaly.is_day { "day" } else { "second" }),
            Cell::from(if anomaly.is_day { &time[..10] } else { &time }),
            Cell::from(anomaly.time.to_string().as_str()),
            Cell::count(anomaly.count),
            Cell::percent(anomaly.share()),
            Cell::percent(anomaly.count as f64 / anomaly.of_day.max(1) as f64),
            Cell::count(anomaly.next),
            Cell::number(anomaly.ratio(), 1),
            anomaly.domains.map_or_else(|| Cell::from("-"), Cell::count),
        ]);
    }
    table
}

/// The years of what stands out, and those around them.
fn years(found: &Anomalies) -> BTreeSet<i32> {
    let years = found.found.iter().map(|anomaly| anomaly.year());
    years.flat_map(|year| year - 1..=year + 1).collect()
}

/// Figure 14 and table 8: ranges of the same rank in the years around.
fn ranges(found: &Anomalies) -> Table {
    let years = years(found);
    let names: Vec<String> = years.iter().map(ToString::to_string).collect();
    let mut header = vec![("rank of range", Align::Right)];
    header.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let mut table = Table::new(&header);
    let of = |year: &i32, rank: usize| found.ranges.get(year).and_then(|all| all.get(rank));
    let most = years
        .iter()
        .filter_map(|year| found.ranges.get(year))
        .map(Vec::len)
        .max()
        .unwrap_or(0);
    for rank in 0..most {
        let mut row = vec![Cell::from((rank + 1).to_string().as_str())];
        row.extend(years.iter().map(|year| {
            of(year, rank).map_or_else(|| Cell::from("-"), |(_, count)| Cell::count(*count))
        }));
        table.row(row);
    }
    table
}

fn object(found: &Anomalies) -> Value {
    let all: Vec<Value> = found
        .found
        .iter()
        .map(|a| json!({"kind": if a.is_day { "day" } else { "second" }, "time": a.time, "captures": a.count,
            "share_of_year": a.share(), "captures_of_day": a.of_day, "next": a.next, "ratio": a.ratio(), "domains": a.domains}))
        .collect();
    let ranges: serde_json::Map<String, Value> = found
        .ranges
        .iter()
        .map(|(year, all)| {
            let ranges: Vec<Value> = all
                .iter()
                .map(|(start, count)| json!({"start": start, "captures": count}))
                .collect();
            (year.to_string(), Value::from(ranges))
        })
        .collect();
    json!({"captures": found.captures, "anomalies": all, "ranges": ranges})
}
