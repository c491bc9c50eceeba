use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use waypost_insight::lastmod::report::{self, CLASSES, Report};
use waypost_insight::lastmod::uri::UriStats;
use waypost_insight::segments::counts::{self, Counts};
use waypost_insight::segments::tabulate::{self, count};
use waypost_insight::segments::{Property, rank};
use waypost_io::Source;
use waypost_report::{Align, Cell, Table};

use crate::args::ResourceArgs;
use crate::cmd::segments::{TableFormat, report_outcome};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;
use crate::remote::RemoteArgs;

/// Show what the Last-Modified times of crawls say
///
/// Counts times by year, month and day; URI lengths and those of their parts by year, by offset from the
/// capture, and without outlier domains; and the offsets themselves. Each INDEX is a crawl; several are
/// shown side by side.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost lastmod report segments.cdxj --html lastmod.html\n\
    \x20 waypost lastmod report segments.cdxj segments.cdxj --proxy 2 --format csv\n\
    \x20 waypost segments tabulate segments.cdxj -o crawl.segments\n\
    \x20 waypost lastmod report segments.cdxj --proxy 2 --tables crawl.segments\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was counted.")]
pub(crate) struct ReportCommand {
    /// Indexes with lastmod: files, folders, or URLs of a cluster.idx; one for each crawl
    #[arg(required = true, value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    inputs: Vec<PathBuf>,
    /// Leave out captures with this POSIX time. May be repeated
    #[arg(long, value_name = "SECONDS")]
    exclude_value: Vec<i64>,
    /// Count only the N segments of each crawl that resemble the whole most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    proxy: Option<u32>,
    /// The tables of `segments tabulate` that --proxy ranks segments by, one for each INDEX in the same
    /// order, so that no index is read for that [default: tabulate each index first]
    #[arg(
        long,
        value_name = "TABLE",
        num_args = 1..,
        requires = "proxy",
        value_hint = ValueHint::FilePath
    )]
    tables: Vec<PathBuf>,
    /// The property by which --proxy ranks segments
    #[arg(
        long,
        value_name = "PROPERTY",
        default_value = "language",
        requires = "proxy"
    )]
    by: String,
    /// The year whose months are shown [default: the one with most times]
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i32).range(1..=9999))]
    year: Option<i32>,
    /// The month whose days are shown [default: the one with most times]
    #[arg(long, value_name = "MONTH", value_parser = clap::value_parser!(u8).range(1..=12))]
    month: Option<u8>,
    /// The year to zoom in on [default: the one that stands out most]
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i32).range(1..=9999))]
    zoom: Option<i32>,
    /// A domain is an outlier in a year if it has more captures than this …
    #[arg(long, value_name = "N", default_value_t = 100)]
    outlier_captures: u64,
    /// … and queries longer than this on average
    #[arg(long, value_name = "LENGTH", default_value_t = 100)]
    outlier_query: u64,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Output format; CSV has only the counts by year
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A crawl and what was counted.
pub(super) struct CrawlReport {
    pub(super) name: String,
    /// The segments that stand for the whole.
    pub(super) proxies: Vec<String>,
    pub(super) report: Report,
}

impl ReportCommand {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        if !self.tables.is_empty() && self.tables.len() != self.inputs.len() {
            return Err(anyhow::anyhow!(
                "--tables: {} for {}",
                plural::of(self.tables.len() as u64, "table"),
                plural::of(self.inputs.len() as u64, "input")
            ))
            .hint("give one table for each INDEX, in the same order");
        }
        let files = self.remote.files();
        let progress = out.progress();
        let mut crawls = Vec::new();
        for (at, input) in self.inputs.iter().enumerate() {
            let sources = self
                .remote
                .sources(&files, std::slice::from_ref(input), out)?;
            let proxies = match self.proxy {
                Some(number) => {
                    let tabulating = tabulate::Options {
                        properties: vec![Property::parse(&self.by)],
                        resources: resources.clone(),
                        progress: progress.clone(),
                        ..tabulate::Options::default()
                    };
                    let counts = match self.tables.get(at) {
                        Some(table) => self.tabulated(table)?,
                        None => self.tabulate(&sources, tabulating)?,
                    };
                    best_segments(&counts, number as usize)?
                }
                None => Vec::new(),
            };
            let options = report::Options {
                exclude: self.exclude_value.iter().copied().collect(),
                segments: self
                    .proxy
                    .map(|_| proxies.iter().cloned().collect::<HashSet<_>>()),
                outlier_captures: self.outlier_captures,
                outlier_query: self.outlier_query,
                progress: progress.clone(),
            };
            let report = report::report(&sources, &options)?;
            let name = input.file_name().map_or_else(
                || input.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            );
            let is_known = crawls.iter().any(|crawl: &CrawlReport| crawl.name == name);
            let name = if is_known {
                format!("{name} ({})", at + 1)
            } else {
                name
            };
            crawls.push(CrawlReport {
                name,
                proxies,
                report,
            });
        }
        drop(progress);
        for crawl in &crawls {
            if !crawl.proxies.is_empty() && crawl.report.captures == 0 {
                out.warn(format_args!(
                    "{}: no capture is in the segments {}; is the table one of this crawl?",
                    crawl.name,
                    crawl.proxies.join(", ")
                ));
            }
        }
        if crawls.iter().all(|crawl| crawl.report.with_lastmod == 0) {
            return Err(anyhow::anyhow!("no capture has a Last-Modified time"))
                .hint("add them with `waypost lastmod add`");
        }
        let tables = self.tables(&crawls);
        match self.format {
            TableFormat::Json => writeln!(out.data(), "{:#}", object(&crawls))?,
            TableFormat::Csv => write!(out.data(), "{}", by_year(&crawls).csv())?,
            TableFormat::Table => {
                for (number, (title, table)) in tables.iter().enumerate() {
                    let blank = if number > 0 { "\n" } else { "" };
                    write!(out.data(), "{blank}{title}\n{table}")?;
                }
            }
        }
        if let Some(path) = &self.html {
            let month = self.month_shown(&crawls);
            let page = super::html::report_page(&crawls, &tables, month);
            crate::cmd::segments::html::write(path, &page)?;
        }
        let mut exit = Exit::Yes;
        for crawl in &crawls {
            if report_outcome(&crawl.report.outcome, out) == Exit::No {
                exit = Exit::No;
            }
        }
        Ok(exit)
    }

    /// The counts of an index by segment.
    fn tabulate(
        &self,
        sources: &[Source],
        options: tabulate::Options<'_>,
    ) -> anyhow::Result<Vec<Counts>> {
        let (mut counted, _) = count(sources, options)?;
        Ok(counts::of_counted(
            &mut counted,
            counts::Options::default(),
            "",
        )?)
    }

    /// The same from a table.
    fn tabulated(&self, table: &Path) -> anyhow::Result<Vec<Counts>> {
        let wanted = [Property::parse(&self.by).name().to_owned()];
        let read = counts::read(&Source::new(table), &wanted, counts::Options::default());
        let (counts, _) = read.hint(
            "make it with `waypost segments tabulate INDEX -o TABLE`, and choose one of its properties with --by",
        )?;
        Ok(counts)
    }

    fn month_shown(&self, crawls: &[CrawlReport]) -> (i32, u8) {
        let peak = crawls.iter().find_map(|crawl| crawl.report.peak_month());
        let (year, month) = peak.unwrap_or((1970, 1));
        (self.year.unwrap_or(year), self.month.unwrap_or(month))
    }

    fn tables(&self, crawls: &[CrawlReport]) -> Vec<(String, Table)> {
        let (year, month) = self.month_shown(crawls);
        let mut tables = vec![
            ("crawls".to_owned(), overview(crawls)),
            (
                "captures by year of Last-Modified".to_owned(),
                by_year(crawls),
            ),
        ];
        let months = side_by_side("month", crawls, |report| {
            report
                .by_month(year)
                .into_iter()
                .map(|(month, count)| (i64::from(month), count))
                .collect()
        });
        tables.push((format!("captures by month of {year}"), months));
        let days = side_by_side("day", crawls, |report| {
            report
                .by_day(year, month)
                .into_iter()
                .map(|(day, count)| (i64::from(day), count))
                .collect()
        });
        tables.push((format!("captures by day of {year}-{month:02}"), days));
        for crawl in crawls {
            let of = match crawls.len() {
                1 => String::new(),
                _ => format!(", {}", crawl.name),
            };
            let report = &crawl.report;
            tables.push((
                format!("mean lengths of URIs by year{of}"),
                lengths("year", report.years.iter()),
            ));
            let classes = CLASSES.iter().map(|(name, _)| *name).zip(&report.classes);
            tables.push((
                format!("mean lengths of URIs by age at the capture{of}"),
                lengths("age", classes),
            ));
            if !report.outliers.is_empty() {
                tables.push((
                    format!("mean lengths of URIs by year without outlier domains{of}"),
                    lengths("year", report.without_outliers.iter()),
                ));
                tables.push((format!("outlier domains{of}"), outliers(report)));
            }
            tables.push((
                format!("most frequent offsets from the capture{of}"),
                offsets(report),
            ));
            if let Some(year) = self.zoom.or_else(|| report.outstanding_year()) {
                tables.push((
                    format!("around the largest day of {year}{of}"),
                    zoom(report, year),
                ));
            }
        }
        tables
    }
}

/// The segments that resemble the whole most.
fn best_segments(counts: &[Counts], number: usize) -> anyhow::Result<Vec<String>> {
    let Some(counts) = counts.first().filter(|counts| counts.segments.len() > 1) else {
        return Err(anyhow::anyhow!("--proxy: the captures are not in segments"))
            .hint("the file names of Common Crawl's captures name their segments");
    };
    let ranking = rank::rank(counts);
    let best = ranking.order.iter().take(number);
    Ok(best.map(|&at| ranking.segments[at].clone()).collect())
}

fn overview(crawls: &[CrawlReport]) -> Table {
    let mut table = Table::new(&[
        ("crawl", Align::Left),
        ("captures", Align::Right),
        ("with lastmod", Align::Right),
        ("share", Align::Right),
        ("excluded", Align::Right),
        ("at the capture", Align::Right),
        ("within 3 s", Align::Right),
        ("segments", Align::Left),
    ]);
    for crawl in crawls {
        let report = &crawl.report;
        let share = |count: u64, of: u64| Cell::percent(count as f64 / of as f64);
        let segments = match &crawl.proxies[..] {
            [] => "all".to_owned(),
            names => names.join(" "),
        };
        table.row([
            Cell::from(crawl.name.as_str()),
            Cell::count(report.captures),
            Cell::count(report.with_lastmod),
            share(report.with_lastmod, report.captures),
            Cell::count(report.excluded),
            share(report.within(0), report.with_lastmod),
            share(report.within(3), report.with_lastmod),
            Cell::from(segments.as_str()),
        ]);
    }
    table
}

/// Counts of several crawls by a number. Absent counts are zero.
fn side_by_side(
    name: &str,
    crawls: &[CrawlReport],
    counts: impl Fn(&Report) -> BTreeMap<i64, u64>,
) -> Table {
    let mut header = vec![(name, Align::Left)];
    header.extend(
        crawls
            .iter()
            .map(|crawl| (crawl.name.as_str(), Align::Right)),
    );
    let mut table = Table::new(&header);
    let columns: Vec<BTreeMap<i64, u64>> =
        crawls.iter().map(|crawl| counts(&crawl.report)).collect();
    let keys: BTreeSet<i64> = columns
        .iter()
        .flat_map(|column| column.keys().copied())
        .collect();
    for key in keys {
        let mut row = vec![Cell::from(key.to_string().as_str())];
        row.extend(
            columns
                .iter()
                .map(|column| Cell::count(column.get(&key).copied().unwrap_or(0))),
        );
        table.row(row);
    }
    table
}

fn by_year(crawls: &[CrawlReport]) -> Table {
    side_by_side("year", crawls, |report| {
        let years = report.by_year().into_iter();
        years
            .map(|(year, count)| (i64::from(year), count))
            .collect()
    })
}

fn lengths<'a, K: ToString>(name: &str, rows: impl Iterator<Item = (K, &'a UriStats)>) -> Table {
    let mut table = Table::new(&[
        (name, Align::Left),
        ("URIs", Align::Right),
        ("length", Align::Right),
        ("scheme", Align::Right),
        ("host", Align::Right),
        ("path", Align::Right),
        ("query", Align::Right),
        ("path %", Align::Right),
        ("query %", Align::Right),
        ("IDNA", Align::Right),
    ]);
    for (key, stats) in rows {
        let mean = |sum: u64, of: u64| Cell::number(sum as f64 / of as f64, 2);
        let all = stats.count;
        table.row([
            Cell::from(key.to_string().as_str()),
            Cell::count(all),
            mean(stats.total, all),
            mean(stats.scheme, all),
            mean(stats.host, all),
            mean(stats.path, all),
            mean(stats.query, all),
            mean(stats.path_escapes, stats.with_path),
            mean(stats.query_escapes, stats.with_query),
            Cell::percent(stats.idna as f64 / all as f64),
        ]);
    }
    table
}

fn outliers(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("domain", Align::Left),
        ("year", Align::Right),
        ("URIs", Align::Right),
        ("mean query", Align::Right),
    ]);
    for outlier in report.outliers.iter().take(20) {
        let mean = outlier.stats.query as f64 / outlier.stats.count as f64;
        table.row([
            Cell::from(outlier.domain.as_str()),
            Cell::from(outlier.year.to_string().as_str()),
            Cell::count(outlier.stats.count),
            Cell::number(mean, 1),
        ]);
    }
    table
}

/// Figure 13.
fn offsets(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("seconds", Align::Right),
        ("captures", Align::Right),
        ("share", Align::Right),
        ("times its surroundings", Align::Right),
    ]);
    let peaks = report.hour_peaks(5.0);
    for (offset, count) in report.top_offsets(20) {
        let peak = peaks.iter().find(|peak| peak.0 == offset);
        table.row([
            Cell::from(format!("{offset:+}").as_str()),
            Cell::count(count),
            Cell::percent(count as f64 / report.with_lastmod as f64),
            peak.map_or_else(|| Cell::from(""), |peak| Cell::number(peak.2, 0)),
        ]);
    }
    table
}

/// Table 7.
fn zoom(report: &Report, year: i32) -> Table {
    let zoom = report.zoom(year);
    let columns = ["by", "-2", "-1", "peak", "+1", "+2"];
    let header: Vec<(&str, Align)> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| (*name, if at == 0 { Align::Left } else { Align::Right }))
        .collect();
    let mut table = Table::new(&header);
    let rows = [
        ("years".to_owned(), i64::from(year), &zoom.years),
        (
            format!("months of {year}"),
            i64::from(zoom.month),
            &zoom.months,
        ),
        (
            format!("days of {year}-{:02}", zoom.month),
            i64::from(zoom.day),
            &zoom.days,
        ),
    ];
    for (name, middle, counts) in rows {
        let find = |at: i64| counts.iter().find(|(key, _)| *key == at);
        let mut keys = vec![Cell::from(name.as_str())];
        keys.extend((middle - 2..=middle + 2).map(|at| match find(at) {
            Some((key, _)) => Cell::from(key.to_string().as_str()),
            None => Cell::from("-"),
        }));
        table.row(keys);
        let mut row = vec![Cell::from("")];
        row.extend((middle - 2..=middle + 2).map(|at| match find(at) {
            Some((_, count)) => Cell::count(*count),
            None => Cell::from("-"),
        }));
        table.row(row);
    }
    table
}

fn object(crawls: &[CrawlReport]) -> Value {
    let stats = |stats: &UriStats| {
        json!({"uris": stats.count, "length": stats.total, "scheme": stats.scheme, "host": stats.host,
            "path": stats.path, "query": stats.query, "with_path": stats.with_path, "path_escapes": stats.path_escapes,
            "with_query": stats.with_query, "query_escapes": stats.query_escapes, "idna": stats.idna})
    };
    let crawls: Vec<Value> = crawls
        .iter()
        .map(|crawl| {
            let report = &crawl.report;
            let days: serde_json::Map<String, Value> = report
                .days
                .iter()
                .map(|(day, count)| (super::shown(day * 86_400)[..10].to_owned(), json!(count)))
                .collect();
            let years = |years: &BTreeMap<i32, UriStats>| -> serde_json::Map<String, Value> {
                years.iter().map(|(year, all)| (year.to_string(), stats(all))).collect()
            };
            let classes: serde_json::Map<String, Value> = CLASSES
                .iter()
                .zip(&report.classes)
                .map(|((name, _), all)| ((*name).to_owned(), stats(all)))
                .collect();
            let offsets: Vec<Value> = report.top_offsets(20).iter().map(|(o, n)| json!({"seconds": o, "captures": n})).collect();
            let peaks: Vec<Value> = report.hour_peaks(5.0).iter().map(|(o, n, times)| json!({"seconds": o, "captures": n, "times": times})).collect();
            let outliers: Vec<Value> = report.outliers.iter().map(|o| json!({"domain": o.domain, "year": o.year, "uris": stats(&o.stats)})).collect();
            json!({"crawl": crawl.name, "segments": crawl.proxies, "captures": report.captures,
                "with_lastmod": report.with_lastmod, "excluded": report.excluded, "days": days,
                "sums_by_year": years(&report.years), "sums_by_year_without_outliers": years(&report.without_outliers),
                "sums_by_age": classes, "offsets": offsets, "hour_peaks": peaks, "outliers": outliers})
        })
        .collect();
    json!({"crawls": crawls})
}
