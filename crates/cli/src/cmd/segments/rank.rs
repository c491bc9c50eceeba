use std::io::Write;

use anyhow::Context;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::path::PathBuf;
use waypost_insight::segments::rank::{self, Ranking};
use waypost_io::AtomicFile;
use waypost_report::{Align, Table};

use super::{TableFormat, TablesArgs, decimals, probability};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Rank segments by how much they resemble the whole
///
/// Computes Spearman's rank correlation between the counts of the most frequent values in each segment
/// and in the whole; cells that are missing are left out of a pair. With one crawl, shows the ranking
/// of each property and a combined one, by mean rank; with several, their rankings side by side.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost segments rank crawl.segments --property mime\n\
    \x20 waypost segments rank crawl.segments --html rank.html --format csv\n\
    \x20 waypost segments rank counts.csv --matrix matrix.csv")]
pub(crate) struct Rank {
    #[command(flatten)]
    tables: TablesArgs,
    /// Properties, with commas between them [default: all in the tables]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    property: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
    /// Show only the best N segments
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Write all correlations, of the whole and of every segment with every other, to a CSV file
    #[arg(long = "matrix", value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Rank {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let tables = self.tables.read(&self.property)?;
        let crawls: Vec<Vec<Ranking>> = tables
            .iter()
            .map(|table| table.counts.iter().map(rank::rank).collect())
            .collect();
        let all: Vec<&Ranking> = crawls.iter().flatten().collect();
        if all.iter().all(|ranking| ranking.segments.len() < 2) {
            return Err(anyhow::anyhow!(
                "there is nothing to rank: the tables have fewer than two segments"
            ))
            .hint("tabulate the index of a whole crawl");
        }
        for ranking in &all {
            let without = ranking.with_whole.iter().filter(|c| c.r.is_nan()).count();
            if without > 0 {
                out.warn(format_args!(
                    "{}, {}: {without} of {} segments have no correlation, because they have fewer than three values or only equal counts; they are ranked last",
                    ranking.crawl, ranking.property, ranking.segments.len()
                ));
            }
        }
        if let Some(path) = &self.csv {
            let [ranking] = all[..] else {
                return Err(anyhow::anyhow!("--matrix needs one property of one crawl"))
                    .hint("choose it with --property");
            };
            let mut file = AtomicFile::create(path)?;
            file.write_all(matrix(ranking).csv().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            file.commit()?;
        }
        if let Some(path) = &self.html {
            super::html::write(path, &super::html::rank_page(&crawls))?;
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        match self.format {
            TableFormat::Json => {
                let crawls: Vec<Value> = crawls.iter().map(|rankings| object(rankings)).collect();
                writeln!(out.data(), "{:#}", json!({"crawls": crawls}))?;
            }
            TableFormat::Csv => write!(out.data(), "{}", rows(&all, limit).csv())?,
            TableFormat::Table => {
                write!(
                    out.data(),
                    "{}\n{}",
                    descriptions(&all),
                    self.ranking(&crawls, limit)
                )?;
            }
        }
        Ok(Exit::Yes)
    }

    fn ranking(&self, crawls: &[Vec<Ranking>], limit: usize) -> Table {
        match crawls {
            [rankings] if rankings.len() == 1 => rows(&[&rankings[0]], limit),
            _ => side_by_side(crawls, limit),
        }
    }
}

/// Table 6: the distribution of the correlations with the whole.
pub(crate) fn descriptions(all: &[&Ranking]) -> Table {
    let mut table = Table::new(&[
        ("crawl", Align::Left),
        ("property", Align::Left),
        ("values", Align::Right),
        ("missing", Align::Right),
        ("segments", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("mean", Align::Right),
        ("variance", Align::Right),
        ("skewness", Align::Right),
        ("kurtosis", Align::Right),
        ("W", Align::Right),
        ("p", Align::Right),
    ]);
    for ranking in all {
        let d = &ranking.description;
        let (w, p) = ranking
            .normality
            .map_or((f64::NAN, f64::NAN), |s| (s.w, s.p));
        table.row([
            ranking.crawl.clone(),
            ranking.property.clone(),
            ranking.values.to_string(),
            ranking.missing.to_string(),
            d.count.to_string(),
            decimals(d.min, 3),
            decimals(d.max, 3),
            decimals(d.mean, 3),
            decimals(d.variance, 6),
            decimals(d.skewness, 3),
            decimals(d.kurtosis, 3),
            decimals(w, 3),
            probability(p),
        ]);
    }
    table
}

/// The segments of each ranking, the best first.
pub(crate) fn rows(all: &[&Ranking], limit: usize) -> Table {
    let mut table = Table::new(&[
        ("crawl", Align::Left),
        ("property", Align::Left),
        ("rank", Align::Right),
        ("segment", Align::Right),
        ("name", Align::Left),
        ("r", Align::Right),
        ("p", Align::Right),
        ("low", Align::Right),
        ("high", Align::Right),
        ("pairs", Align::Right),
    ]);
    for ranking in all {
        for (rank, &at) in ranking.order.iter().enumerate().take(limit) {
            let correlation = ranking.with_whole[at];
            let (low, high) = correlation.interval();
            table.row([
                ranking.crawl.clone(),
                ranking.property.clone(),
                (rank + 1).to_string(),
                at.to_string(),
                ranking.segments[at].clone(),
                decimals(correlation.r, 4),
                probability(correlation.p),
                decimals(low, 4),
                decimals(high, 4),
                correlation.pairs.to_string(),
            ]);
        }
    }
    table
}

/// Table 9: the numbers of the segments by rank, in deciles, for every crawl and property, and the
/// combined ranking of each crawl with several properties.
pub(crate) fn side_by_side(crawls: &[Vec<Ranking>], limit: usize) -> Table {
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    for rankings in crawls {
        for ranking in rankings {
            let name = match crawls.len() {
                1 => ranking.property.clone(),
                _ => format!("{} {}", ranking.crawl, ranking.property),
            };
            columns.push((
                name,
                ranking.order.iter().map(ToString::to_string).collect(),
            ));
        }
        let all: Vec<&Ranking> = rankings.iter().collect();
        if let Some(combined) = rank::combine(&all).filter(|_| all.len() > 1) {
            let name = match crawls.len() {
                1 => "combined".to_owned(),
                _ => format!("{} combined", all[0].crawl),
            };
            let number = |name: &String| all[0].segments.iter().position(|s| s == name);
            let numbers = combined.segments.iter().filter_map(number);
            columns.push((name, numbers.map(|n| n.to_string()).collect()));
            let name = match crawls.len() {
                1 => "segment".to_owned(),
                _ => format!("{} segment", all[0].crawl),
            };
            columns.push((name, combined.segments));
        }
    }
    let mut header = vec![("decile", Align::Right), ("rank", Align::Right)];
    header.extend(
        columns
            .iter()
            .map(|(name, _)| (name.as_str(), Align::Right)),
    );
    let mut table = Table::new(&header);
    let most = columns
        .iter()
        .map(|(_, cells)| cells.len())
        .max()
        .unwrap_or(0);
    for rank in 0..most.min(limit) {
        let decile = rank * 10 / most + 1;
        let mut row = vec![decile.to_string(), (rank + 1).to_string()];
        row.extend(
            columns
                .iter()
                .map(|(_, cells)| cells.get(rank).cloned().unwrap_or_default()),
        );
        table.row(row);
    }
    table
}

/// All correlations.
fn matrix(ranking: &Ranking) -> Table {
    let names: Vec<&str> = std::iter::once("whole")
        .chain(ranking.segments.iter().map(String::as_str))
        .collect();
    let mut header = vec![("segment", Align::Left)];
    header.extend(names.iter().map(|name| (*name, Align::Right)));
    let mut table = Table::new(&header);
    for (name, row) in names.iter().zip(&ranking.matrix) {
        let mut cells = vec![(*name).to_owned()];
        cells.extend(row.iter().map(|r| {
            if r.is_nan() {
                String::new()
            } else {
                r.to_string()
            }
        }));
        table.row(cells);
    }
    table
}

fn object(rankings: &[Ranking]) -> Value {
    let properties: Vec<Value> = rankings
        .iter()
        .map(|ranking| {
            let d = &ranking.description;
            let order: Vec<Value> = ranking
                .order
                .iter()
                .enumerate()
                .map(|(rank, &at)| {
                    let c = ranking.with_whole[at];
                    let (low, high) = c.interval();
                    json!({"rank": rank + 1, "segment": at, "name": ranking.segments[at], "r": c.r, "p": c.p, "low": low, "high": high, "pairs": c.pairs})
                })
                .collect();
            json!({
                "property": ranking.property,
                "values": ranking.values,
                "missing": ranking.missing,
                "describe": {"count": d.count, "min": d.min, "max": d.max, "mean": d.mean, "variance": d.variance, "skewness": d.skewness, "kurtosis": d.kurtosis},
                "shapiro": ranking.normality.map(|s| json!({"w": s.w, "p": s.p})),
                "ranking": order,
            })
        })
        .collect();
    let all: Vec<&Ranking> = rankings.iter().collect();
    let combined = rank::combine(&all).map(|combined| {
        let pairs = combined.segments.iter().zip(&combined.means);
        pairs
            .map(|(name, mean)| json!({"name": name, "mean": mean}))
            .collect::<Vec<_>>()
    });
    let crawl = rankings.first().map(|ranking| ranking.crawl.clone());
    json!({"crawl": crawl, "properties": properties, "combined": combined})
}
