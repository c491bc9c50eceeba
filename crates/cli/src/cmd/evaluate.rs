use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use waypost_index::{Select, input};
use waypost_io::{Resources, Source};
use waypost_report::{Align, Axis, Cell, Page, Plot, Point, Table, count};
use waypost_summary::evaluate::{self, Confusion, Foreseen, Later, Lookups, Verdict};
use waypost_summary::filter::Secret;
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::{Kind, Size, Summary};
use waypost_surt::Dialect;

use super::filter::options::KeyFile;
use super::profile::report_rejects;
use crate::args::{Filters, Purpose, ResourceArgs};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::html::write_html;
use crate::plural;
use crate::printer::Printer;

/// Measure the cost and accuracy of summaries on real lookups
///
/// The holdings are the ground truth: an index, a list of URIs, a URIR profile, or a file of unkeyed
/// hashes (`waypost filter build --kind hashes`). Lookups are URIs, one per line, an access log of a
/// Wayback Machine, or a MemGator log.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost evaluate profiles/small.*.cdxj --holdings small.cdxj \\\n\
    \x20   --lookups lookups.txt\n\
    \x20 waypost evaluate small.ukvs small.filter --format json \\\n\
    \x20   --holdings profiles/small.URIR.cdxj --lookups lookups.txt\n\
    \n\
    With no lookups, every ratio is 1.\n\
    Exit code 1: a held URI was called absent.")]
pub(crate) struct Evaluate {
    /// The summaries to evaluate
    #[arg(required = true, value_name = "SUMMARY")]
    summaries: Vec<PathBuf>,
    /// What the archive holds: indexes, lists of URIs, a URIR profile or hashes
    #[arg(long, required = true, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    /// Lookups to evaluate on; may be repeated, and each list is reported separately
    #[arg(long, required = true, value_name = "LIST")]
    lookups: Vec<PathBuf>,
    /// Count repeated lookups as often as they occur
    #[arg(long)]
    weighted: bool,
    /// Also evaluate without keys that have fewer captures than this: 1,2,5,10
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    min_frequency: Vec<u64>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Later captures: report how many of them the summaries call present
    #[arg(long, value_name = "INPUT")]
    later: Vec<PathBuf>,
    /// Ignore the filters of maps that have them
    #[arg(long)]
    ignore_filter: bool,
    #[command(flatten)]
    purpose: Purpose,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Csv,
    Json,
}

/// The result of one summary on one list of lookups, possibly without rare keys.
struct Row {
    sample: String,
    summary: String,
    kind: String,
    keys: u64,
    bytes: u64,
    gzip_bytes: u64,
    relative_cost: f64,
    least: Option<u64>,
    confusion: Confusion,
    rejected: u64,
    missed: Vec<String>,
    /// The answers to later captures.
    foreseen: Option<Foreseen>,
}

impl Evaluate {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let secret = self.key_file.secret()?;
        let mut summaries: Vec<Box<dyn Summary>> = Vec::new();
        for path in &self.summaries {
            summaries.push(open(path, self.ignore_filter, secret)?);
        }
        let dialect = summaries
            .first()
            .map_or(Dialect::default(), |s| s.about().dialect);
        let mut samples = Vec::new();
        for path in &self.lookups {
            let lookups = Lookups::read_within(&Source::new(path), dialect, resources.memory)?;
            if lookups.passed_over() > 0 {
                out.note(format_args!(
                    "{}: {} without a URI",
                    path.display(),
                    plural::of(lookups.passed_over(), "line")
                ));
            }
            if lookups.is_empty() {
                out.warn(format_args!("{}: no lookups", path.display()));
            }
            samples.push(lookups);
        }
        let sources = self.sources()?;
        let progress = out.progress();
        let holdings = Holdings::new(Input {
            dialect,
            select: self.select()?,
            resources: resources.clone(),
            progress: progress.clone(),
            ..Input::new(sources)
        });
        let later = self.read_later(dialect, &resources, out)?;
        let later_urirs = later.as_ref().map(|later| later.urirs);
        let of_lookups = samples.len();
        samples.extend(later.map(|later| later.lookups));
        for lookups in &mut samples {
            lookups.want(self.purpose.wanted());
        }
        let (held, reading) = holdings.truth(&samples)?;
        drop(progress);
        // Profiles and hashes are not read; lookups do not tell what of the list they hold.
        if !reading.contents.is_empty() {
            self.filters.takedowns.report(out);
        }
        report_rejects(&reading, out);
        let mut foreseen = Vec::new();
        if let (Some(later), Some(held)) = (samples.get(of_lookups), held.get(of_lookups)) {
            for summary in &summaries {
                foreseen.push(evaluate::foresee(&**summary, later, held)?);
            }
            let newcomers = held.iter().filter(|held| !**held).count() as u64;
            out.note(format_args!(
                "later: {}, of which {} were looked up, {} of them not held before",
                plural::of(later_urirs.unwrap_or(0), "URI-R"),
                count(held.len() as u64),
                count(newcomers)
            ));
        }
        let mut rows = Vec::new();
        for ((path, lookups), held) in self.lookups.iter().zip(&samples).zip(&held) {
            for (at, (name, summary)) in self.summaries.iter().zip(&summaries).enumerate() {
                let summary = &**summary;
                let (weighted, least) = (self.weighted, &self.min_frequency);
                // To measure the size of a map, its text is gzipped. Each of the two has too little
                // to do at its end for all threads.
                let (verdict, size) = rayon::join(
                    || evaluate::judge(summary, lookups, held, weighted, least),
                    || summary.size(),
                );
                let verdict =
                    verdict.with_context(|| format!("cannot evaluate {}", name.display()))?;
                let from = rows.len();
                let of = (summary.kind(), size);
                self.push_rows(path, name, of, &verdict, reading.urirs, &mut rows);
                for row in &mut rows[from..] {
                    row.foreseen = foreseen.get(at).copied();
                }
            }
        }
        match self.format {
            Format::Table => self.print_tables(&rows, out)?,
            Format::Csv => write!(out.data(), "{}", table(&rows, true).csv())?,
            Format::Json => writeln!(out.data(), "{:#}", json_of(&rows))?,
        }
        if let Some(path) = &self.html {
            write_page(path, &rows)?;
        }
        let mut missed = 0;
        for row in rows.iter().filter(|row| row.least.is_none()) {
            missed += row.missed.len();
            let warning = |uri| format!("{}: held, but called absent: {uri}", row.summary);
            out.warn_some(row.missed.iter().map(warning));
        }
        Ok(if missed == 0 { Exit::Yes } else { Exit::No })
    }

    /// Reads the later captures, if `--later` was given.
    fn read_later(
        &self,
        dialect: Dialect,
        resources: &Resources,
        out: &Printer,
    ) -> anyhow::Result<Option<Later>> {
        if self.later.is_empty() {
            return Ok(None);
        }
        let later = evaluate::later(&Input {
            dialect,
            select: self.select()?,
            resources: resources.clone(),
            ..Input::new(input::expand(&self.later)?.sources)
        })?;
        report_rejects(&later.reading, out);
        Ok(Some(later))
    }

    /// Which captures are held, as far as the lookups ask for them.
    fn select(&self) -> anyhow::Result<Select> {
        Ok(self.purpose.restrict(self.filters.of_summary()?))
    }

    fn sources(&self) -> anyhow::Result<Vec<Source>> {
        Ok(input::expand(&self.holdings)?.sources)
    }

    fn push_rows(
        &self,
        sample: &Path,
        name: &Path,
        (kind, size): (Kind, Size),
        verdict: &Verdict,
        urirs: u64,
        rows: &mut Vec<Row>,
    ) {
        let row = |least, confusion, missed| Row {
            sample: sample.display().to_string(),
            summary: name.display().to_string(),
            kind: kind.to_string(),
            keys: size.keys,
            bytes: size.bytes,
            gzip_bytes: size.gzip_bytes,
            relative_cost: size.keys as f64 / urirs.max(1) as f64,
            least,
            confusion,
            rejected: verdict.rejected,
            missed,
            foreseen: None,
        };
        let missed = verdict
            .false_negatives
            .iter()
            .map(|uri| String::from_utf8_lossy(uri).into_owned())
            .collect();
        rows.push(row(None, verdict.confusion, missed));
        for (least, confusion) in &verdict.by_frequency {
            rows.push(row(Some(*least), *confusion, Vec::new()));
        }
    }

    fn print_tables(&self, rows: &[Row], out: &mut Printer) -> anyhow::Result<()> {
        for path in &self.lookups {
            let name = path.display().to_string();
            let block: Vec<&Row> = rows.iter().filter(|row| row.sample == name).collect();
            let asked = block.first().map_or(0, |row| row.confusion.lookups());
            let held = block.first().map_or(0, |row| {
                row.confusion.true_positives + row.confusion.false_negatives
            });
            let rejected = block.first().map_or(0, |row| row.rejected);
            writeln!(
                out.data(),
                "{name}: {}, {} held, {} rejected",
                plural::of(asked, "lookup"),
                count(held),
                count(rejected)
            )?;
            writeln!(out.data(), "{}", table(block, false))?;
        }
        Ok(())
    }
}

/// Opens a summary of any kind.
fn open(
    path: &Path,
    ignore_filter: bool,
    secret: Option<Secret>,
) -> anyhow::Result<Box<dyn Summary>> {
    waypost_summary::open_source(&Source::new(path), ignore_filter, secret).hint_otherwise("make profiles of an index with `waypost profile INDEX -o FOLDER`, or filters with `waypost filter build INDEX -o FILE`")
}

fn share(ratio: Option<f64>) -> f64 {
    ratio.unwrap_or(1.0)
}

fn table<'a>(rows: impl IntoIterator<Item = &'a Row>, exact: bool) -> Table {
    let rows: Vec<&Row> = rows.into_iter().collect();
    let foresees = rows.iter().any(|row| row.foreseen.is_some());
    let mut columns = vec![("summary", Align::Left), ("kind", Align::Left)];
    columns.extend(
        [
            "keys",
            "bytes",
            "gzip_bytes",
            "relative_cost",
            "lookups",
            "true_positives",
            "false_positives",
            "true_negatives",
            "false_negatives",
            "accuracy",
            "precision",
            "recall",
            "requests_saved",
            "min_frequency",
        ]
        .map(|name| (name, Align::Right)),
    );
    let unknown = exact || rows.iter().any(|row| row.confusion.unknown > 0);
    if unknown {
        columns.push(("unknown", Align::Right));
    }
    if foresees {
        columns.push(("later_recall", Align::Right));
        columns.push(("newcomers_recall", Align::Right));
    }
    if exact {
        columns.insert(0, ("sample", Align::Left));
        columns.push(("rejected", Align::Right));
    }
    // Shorter names for the table.
    let short = |name: &'static str| match name {
        "gzip_bytes" => "gzipped",
        "relative_cost" => "Relative Cost",
        "true_positives" => "TP",
        "false_positives" => "FP",
        "true_negatives" => "TN",
        "false_negatives" => "FN",
        "accuracy" => "Accuracy",
        "precision" => "Precision",
        "recall" => "Recall",
        "requests_saved" => "saved",
        "min_frequency" => "least",
        "later_recall" => "later Recall",
        "newcomers_recall" => "newcomers Recall",
        other => other,
    };
    if !exact {
        columns = columns
            .iter()
            .map(|(name, align)| (short(name), *align))
            .collect();
    }
    let mut table = Table::new(&columns);
    for row in rows {
        let ratio = |ratio: f64, decimals: usize| match exact {
            true => Cell::from(ratio.to_string()),
            false => Cell::number(ratio, decimals),
        };
        let confusion = &row.confusion;
        let mut cells = vec![
            Cell::from(&row.summary),
            Cell::from(&row.kind),
            Cell::count(row.keys),
            Cell::bytes(row.bytes),
            Cell::bytes(row.gzip_bytes),
            ratio(row.relative_cost, 6),
            Cell::count(confusion.lookups()),
            Cell::count(confusion.true_positives),
            Cell::count(confusion.false_positives),
            Cell::count(confusion.true_negatives),
            Cell::count(confusion.false_negatives),
            ratio(share(confusion.accuracy()), 4),
            ratio(share(confusion.precision()), 4),
            ratio(share(confusion.recall()), 4),
            ratio(confusion.saved().unwrap_or(0.0), 4),
            row.least.map(Cell::count).unwrap_or_default(),
        ];
        if unknown {
            cells.push(Cell::count(confusion.unknown));
        }
        if foresees {
            let (all, newcomers) = row.foreseen.unwrap_or_default().recall();
            cells.extend([ratio(share(all), 4), ratio(share(newcomers), 4)]);
        }
        if exact {
            cells.insert(0, Cell::from(&row.sample));
            cells.push(Cell::count(row.rejected));
        }
        table.row(cells);
    }
    table
}

fn json_of(rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let confusion = &row.confusion;
            let mut object = json!({
                "sample": row.sample,
                "summary": row.summary,
                "kind": row.kind,
                "keys": row.keys,
                "bytes": row.bytes,
                "gzip_bytes": row.gzip_bytes,
                "relative_cost": row.relative_cost,
                "lookups": confusion.lookups(),
                "true_positives": confusion.true_positives,
                "false_positives": confusion.false_positives,
                "true_negatives": confusion.true_negatives,
                "false_negatives": confusion.false_negatives,
                "unknown": confusion.unknown,
                "accuracy": share(confusion.accuracy()),
                "precision": share(confusion.precision()),
                "recall": share(confusion.recall()),
                "requests_saved": confusion.saved().unwrap_or(0.0),
                "rejected": row.rejected,
            });
            if let (Some(foreseen), Value::Object(object)) = (&row.foreseen, &mut object) {
                let (all, newcomers) = foreseen.recall();
                object.insert("later_recall".into(), json!(share(all)));
                object.insert("newcomers".into(), json!(foreseen.newcomers.0));
                object.insert("newcomers_recall".into(), json!(share(newcomers)));
            }
            if let (Some(least), Value::Object(object)) = (row.least, &mut object) {
                object.insert("min_frequency".into(), json!(least));
            }
            if let (false, Value::Object(object)) = (row.missed.is_empty(), &mut object) {
                object.insert("false_negative_lookups".into(), json!(row.missed));
            }
            object
        })
        .collect();
    Value::Array(rows)
}

fn write_page(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let mut page = Page::new("Cost and accuracy of summaries");
    page.lead("Relative Cost is the number of keys divided by the number of held URI-Rs. The line joins the best summaries: none that is cheaper is better.");
    let mut samples: Vec<&str> = rows.iter().map(|row| row.sample.as_str()).collect();
    samples.dedup();
    for sample in samples {
        page.section(sample);
        let block: Vec<&Row> = rows
            .iter()
            .filter(|row| row.sample == sample && row.least.is_none())
            .collect();
        for (name, quality) in [
            (
                "Accuracy",
                (|c: &Confusion| share(c.accuracy())) as fn(&Confusion) -> f64,
            ),
            ("Precision", |c: &Confusion| share(c.precision())),
        ] {
            let values: Vec<(f64, f64)> = block
                .iter()
                .map(|row| (row.relative_cost, quality(&row.confusion)))
                .collect();
            let best = evaluate::frontier(&values);
            let points = block
                .iter()
                .zip(&values)
                .zip(best)
                .map(|((row, (x, y)), marked)| Point {
                    name: short_name(&row.summary),
                    kind: row.kind.clone(),
                    x: *x,
                    y: *y,
                    marked,
                })
                .collect();
            let plot = Plot {
                title: format!("Relative Cost against {name}"),
                x: Axis::log("Relative Cost"),
                y: Axis::percent(name),
                points,
            };
            page.figure(&plot.svg(), "");
        }
        let rare: Vec<&Row> = rows
            .iter()
            .filter(|row| row.sample == sample && row.least.is_some())
            .collect();
        if !rare.is_empty() {
            page.heading("When rare keys are ignored");
            let points = rare
                .iter()
                .map(|row| Point {
                    name: format!("{} ≥{}", short_name(&row.summary), row.least.unwrap_or(0)),
                    kind: short_name(&row.summary),
                    x: share(row.confusion.recall()),
                    y: share(row.confusion.precision()),
                    marked: false,
                })
                .collect();
            let plot = Plot {
                title: "Recall against Precision".into(),
                x: Axis::percent("Recall"),
                y: Axis::percent("Precision"),
                points,
            };
            page.figure(&plot.svg(), "");
        }
        page.table(
            "All summaries",
            &table(rows.iter().filter(|row| row.sample == sample), false),
        );
    }
    write_html(path, &page.html())
}

/// A short label for a summary: the policy in `NAME.H3P1.cdxj`, else the file name.
fn short_name(summary: &str) -> String {
    let name = summary.rsplit('/').next().unwrap_or(summary);
    name.split('.')
        .find(|part| part.parse::<waypost_surt::Policy>().is_ok())
        .unwrap_or(name)
        .to_owned()
}
