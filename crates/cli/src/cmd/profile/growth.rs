use std::io::Write;

use clap::Args;
use serde_json::json;
use waypost_report::{Align, Table, count};
use waypost_summary::holdings::Input;
use waypost_summary::profile;
use waypost_surt::{Dialect, Policy};

use super::options::policies;
use crate::args::{Filters, Format, Inputs, ResourceArgs, default_dialect, dialects};
use crate::exit::Exit;
use crate::printer::Printer;

/// Show how captures, URI-Rs and keys grow as inputs accumulate
///
/// Inputs are added one by one, in the order given. Fits Heaps' law,
/// URI-Rs = K · captures^β, and for each policy the Relative Cost φ, keys over URI-Rs.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost profile growth 2020.cdxj 2021.cdxj --policy H1P0,H3P0,HxP1")]
pub(crate) struct Growth {
    #[command(flatten)]
    inputs: Inputs,
    /// Policies, separated by commas [default: all 23]
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// Canonicalisation rules [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    filters: Filters,
}

impl Growth {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(self.dialect, &sources, out);
        let input = Input {
            dialect,
            select: self.filters.select()?,
            resources,
            ..Input::new(sources)
        };
        let policies: Vec<Policy> = policies(self.policy.as_deref())?;
        let growth = profile::growth(&input, &policies)?;
        self.filters.takedowns.report(out);
        let names: Vec<String> = policies.iter().map(Policy::to_string).collect();
        if self.format == Format::Json {
            let steps: Vec<serde_json::Value> = growth
                .steps
                .iter()
                .map(|step| {
                    let keys: serde_json::Map<String, serde_json::Value> = names
                        .iter()
                        .cloned()
                        .zip(step.keys.iter().map(|keys| json!(keys)))
                        .collect();
                    json!({"input": step.name, "captures": step.captures, "urirs": step.urirs, "keys": keys})
                })
                .collect();
            let costs: serde_json::Map<String, serde_json::Value> = names
                .iter()
                .cloned()
                .zip(growth.costs.iter().map(|cost| json!(cost)))
                .collect();
            let heaps = growth
                .heaps
                .map(|heaps| json!({"k": heaps.k, "beta": heaps.beta}));
            let object = json!({"steps": steps, "heaps": heaps, "relative_cost": costs});
            writeln!(out.data(), "{object:#}")?;
            return Ok(Exit::Yes);
        }
        let mut columns = vec![
            ("input", Align::Left),
            ("captures", Align::Right),
            ("URI-Rs", Align::Right),
        ];
        columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
        let mut table = Table::new(&columns);
        for step in &growth.steps {
            let mut row = vec![step.name.clone(), count(step.captures), count(step.urirs)];
            row.extend(step.keys.iter().map(|keys| count(*keys)));
            table.row(row);
        }
        let mut row = vec!["φ".to_owned(), String::new(), "1".to_owned()];
        row.extend(growth.costs.iter().map(|cost| format!("{cost:.5}")));
        table.row(row);
        write!(out.data(), "{table}")?;
        match growth.heaps {
            Some(heaps) => writeln!(
                out.data(),
                "\nHeaps' law: URI-Rs = {:.3} · captures^{:.3}",
                heaps.k,
                heaps.beta
            )?,
            None => out.note("fitting Heaps' law needs at least two inputs of different size"),
        }
        Ok(Exit::Yes)
    }
}
