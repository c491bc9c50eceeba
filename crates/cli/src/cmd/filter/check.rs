use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waypost_index::input;
use waypost_report::{Align, Table, count};
use waypost_summary::filter::Filter;
use waypost_summary::filter::check::{self, Report};

use super::options::{Holdings, KeyFile, percent, report_rejects};
use crate::args::{Format, ResourceArgs, number};
use crate::exit::Exit;
use crate::printer::Printer;

/// Check the integrity of a filter and, with --holdings, its answers
///
/// With holdings, looks up all of their keys, and random keys to measure the false positive rate.
/// Exit code 1: a shard is damaged, or a held key was called absent.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter check small.filter\n\
    \x20 waypost filter check small.filter --holdings small.cdxj --tries 100K")]
pub(crate) struct Check {
    /// The filter
    filter: PathBuf,
    /// What the filter was built from: indexes or lists of URIs. May be repeated
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    /// Number of random keys to look up
    #[arg(long, value_name = "N", value_parser = number, default_value = "10M")]
    tries: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    reading: Holdings,
}

impl Check {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let mut filter = Filter::open(&self.filter)?;
        let mut report = check::check(&filter);
        if report.is_sound() && !self.holdings.is_empty() {
            filter = self.key_file.give(filter)?;
            let sources = input::expand(&self.holdings)?.sources;
            let progress = out.progress();
            let holdings = self.reading.read(&sources, resources, &progress, |input| {
                Ok(check::check_holdings(&filter, input, self.tries)?)
            })?;
            drop(progress);
            self.reading.filters.takedowns.report(out);
            report_rejects(out, &holdings.reading);
            report.holdings = Some(holdings);
        }
        match self.format {
            Format::Table => write!(out.data(), "{}", table(&filter, &report))?,
            Format::Json => writeln!(out.data(), "{:#}", object(&filter, &report))?,
        }
        out.warn_some(&report.damaged);
        Ok(if report.is_sound() {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

fn table(filter: &Filter, report: &Report) -> Table {
    let mut table = Table::new(&[("filter", Align::Left), (filter.name(), Align::Left)]);
    table.row([
        "sound shards",
        &format!(
            "{} of {}",
            count(report.sound),
            count(filter.shards() as u64)
        ),
    ]);
    if let Some(found) = &report.holdings {
        table.row(["keys held", &count(found.keys)]);
        table.row(["of them missing", &count(found.missing)]);
        table.row([
            "false positives",
            &format!(
                "{} of {} ({}), promised {}, {:+.1} sigma",
                count(found.false_positives),
                count(found.tried),
                percent(found.rate()),
                percent(filter.head().rate),
                found.sigmas(filter.head().rate),
            ),
        ]);
    }
    table
}

fn object(filter: &Filter, report: &Report) -> serde_json::Value {
    let mut object = json!({
        "filter": filter.name(),
        "shards": filter.shards(),
        "sound": report.sound,
        "damaged": report.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "promised_rate": filter.head().rate,
    });
    if let Some(found) = &report.holdings {
        object["keys"] = found.keys.into();
        object["missing"] = found.missing.into();
        object["tried"] = found.tried.into();
        object["false_positives"] = found.false_positives.into();
        object["measured_rate"] = found.rate().into();
        object["sigmas"] = found.sigmas(filter.head().rate).into();
    }
    object
}
