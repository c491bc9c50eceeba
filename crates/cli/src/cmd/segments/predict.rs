use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use waypost_insight::segments::predict::{self, Prediction, Scale};
use waypost_insight::segments::rank::{self, Ranking};
use waypost_report::{Align, Table};

use super::{TableFormat, TablesArgs, decimals};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Show how well the best segments of one property stand for another
///
/// For every pair of properties, takes the best N segments of one, the basis, and compares the mean of
/// their correlations with the whole in the other, the target, with those of all segments. Recommends
/// which property to trust and which segments to download.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost segments predict crawl.segments --html predict.html\n\
    \x20 waypost segments predict crawl.segments other.segments \\\n\
    \x20   --target status --scale range")]
pub(crate) struct Predict {
    #[command(flatten)]
    tables: TablesArgs,
    /// Take the best 1 to N segments
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// Properties to predict from, with commas between them [default: all that are not targets only]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    basis: Vec<String>,
    /// Properties to predict, with commas between them [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    target: Vec<String>,
    /// How the mean of the best segments is compared with all segments
    #[arg(long, value_enum, default_value_t = ScaleArgument::Rank)]
    scale: ScaleArgument,
    /// Write a page with a heat map to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScaleArgument {
    /// By the percentage of segments that are worse
    Rank,
    /// By the position between the worst, 0, and the best, 100, as in the paper's figure 5
    Range,
}

impl Predict {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut rankings: Vec<Ranking> = Vec::new();
        for table in self.tables.read(&[])? {
            for counts in &table.counts {
                if rankings
                    .iter()
                    .any(|ranking| ranking.property == counts.property)
                {
                    return Err(anyhow::anyhow!(
                        "two tables have the property {}",
                        counts.property
                    ))
                    .hint("give tables of different properties of one crawl");
                }
                rankings.push(rank::rank(counts));
            }
        }
        let crawls: Vec<&Ranking> = rankings.iter().collect();
        if rank::combine(&crawls).is_none() {
            return Err(anyhow::anyhow!("the tables have different segments"))
                .hint("give tables of different properties of one crawl");
        }
        let named = |names: &[String]| -> anyhow::Result<Vec<&Ranking>> {
            names
                .iter()
                .map(|name| {
                    rankings
                        .iter()
                        .find(|ranking| ranking.property == *name)
                        .ok_or_else(|| anyhow::anyhow!("no property {name} in these tables"))
                })
                .collect()
        };
        let targets = match &self.target[..] {
            [] => rankings.iter().collect(),
            names => named(names)?,
        };
        let bases: Vec<&Ranking> = match &self.basis[..] {
            [] if self.target.is_empty() => rankings.iter().collect(),
            [] => rankings
                .iter()
                .filter(|ranking| !self.target.contains(&ranking.property))
                .collect(),
            names => named(names)?,
        };
        let scale = match self.scale {
            ScaleArgument::Rank => Scale::Rank,
            ScaleArgument::Range => Scale::Range,
        };
        let prediction = predict::predict(&bases, &targets, self.most as usize, scale);
        if prediction.rows.is_empty() {
            return Err(anyhow::anyhow!(
                "there is only one property, which predicts nothing"
            ))
            .hint("tabulate several: --by mime,language,length");
        }
        if let Some(path) = &self.html {
            super::html::write(path, &super::html::predict_page(&prediction))?;
        }
        match self.format {
            TableFormat::Json => writeln!(out.data(), "{:#}", object(&prediction))?,
            TableFormat::Csv => write!(out.data(), "{}", heat_map(&prediction).csv())?,
            TableFormat::Table => {
                write!(
                    out.data(),
                    "{}\n{}",
                    heat_map(&prediction),
                    basis_table(&prediction)
                )?;
                if let Some(recommended) = &prediction.recommendation {
                    writeln!(
                        out.data(),
                        "\ntrust {} and take {} of its best segments: {}",
                        recommended.property,
                        recommended.number,
                        recommended.segments.join(", ")
                    )?;
                }
            }
        }
        Ok(Exit::Yes)
    }
}

/// Figure 5.
pub(crate) fn heat_map(prediction: &Prediction) -> Table {
    let columns = prediction.columns.len();
    let numbers: Vec<String> = (1..=columns).map(|n| n.to_string()).collect();
    let mut header = vec![("predict", Align::Left)];
    header.extend(numbers.iter().map(|n| (n.as_str(), Align::Right)));
    header.extend([("mean", Align::Right), ("deviation", Align::Right)]);
    let mut table = Table::new(&header);
    for row in &prediction.rows {
        let mut cells = vec![format!("{} by {}", row.target, row.basis)];
        cells.extend(row.cells.iter().map(|cell| decimals(*cell, 1)));
        cells.resize(columns + 1, String::new());
        cells.extend([decimals(row.mean, 1), decimals(row.deviation, 1)]);
        table.row(cells);
    }
    let mut cells = vec!["mean".to_owned()];
    cells.extend(prediction.columns.iter().map(|cell| decimals(*cell, 1)));
    table.row(cells);
    table
}

pub(crate) fn basis_table(prediction: &Prediction) -> Table {
    let columns = [
        ("basis", Align::Left),
        ("mean", Align::Right),
        ("deviation", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for basis in &prediction.bases {
        table.row([
            basis.property.clone(),
            decimals(basis.mean, 1),
            decimals(basis.deviation, 1),
        ]);
    }
    table
}

fn object(prediction: &Prediction) -> serde_json::Value {
    let rows: Vec<_> = prediction
        .rows
        .iter()
        .map(|row| json!({"basis": row.basis, "target": row.target, "cells": row.cells, "mean": row.mean, "deviation": row.deviation}))
        .collect();
    let bases: Vec<_> = prediction
        .bases
        .iter()
        .map(|basis| json!({"property": basis.property, "mean": basis.mean, "deviation": basis.deviation}))
        .collect();
    let recommendation = prediction
        .recommendation
        .as_ref()
        .map(|r| json!({"property": r.property, "number": r.number, "segments": r.segments}));
    json!({"rows": rows, "bases": bases, "columns": prediction.columns, "recommendation": recommendation})
}
