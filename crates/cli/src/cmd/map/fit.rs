use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waypost_io::Source;
use waypost_report::{Align, Table, count};
use waypost_summary::map::{PowerLaw, SourceMap, fit};

use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Fit the power laws of the papers' rule to a map's own mean children per depth
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map fit full.ukvs\n\
    \x20 waypost map compact full.ukvs --rule papers -o fitted.ukvs \\\n\
    \x20   $(waypost map fit full.ukvs --options)")]
pub(crate) struct Fit {
    /// The map, with exact keys
    map: PathBuf,
    /// Print only the options for `waypost map compact`
    #[arg(long)]
    options: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "options")]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Fit {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let progress = out.progress();
        let given = SourceMap::open(&Source::new(&self.map), &resources)?;
        let fitted = fit::fit(&mut given.reporting_to(&progress))?;
        drop(progress);
        if self.options {
            let (Some(host), Some(path)) = (fitted.host, fitted.path) else {
                return Err(anyhow::anyhow!("too few depths to fit a law to"))
                    .hint("a power law needs hosts and paths of at least two depths");
            };
            // Either zero may be the larger one; the negative one would be taken for an option.
            let at_least_zero = |k: f64| k.max(0.0) + 0.0;
            writeln!(
                out.data(),
                "--ha {:.4} --hk {:.4} --pa {:.4} --pk {:.4}",
                host.a,
                at_least_zero(host.k),
                path.a,
                at_least_zero(path.k)
            )?;
            return Ok(Exit::Yes);
        }
        if self.format == Format::Json {
            let part = |means: &[(u64, f64)], law: Option<PowerLaw>| {
                let depths: Vec<_> = (means.iter().zip(1..))
                    .map(|((nodes, mean), depth)| json!({"depth": depth, "nodes": nodes, "mean_children": mean}))
                    .collect();
                json!({"depths": depths, "law": law.map(|law| json!({"a": law.a, "k": law.k}))})
            };
            let object = json!({
                "hosts": part(&fitted.hosts, fitted.host),
                "paths": part(&fitted.paths, fitted.path),
            });
            writeln!(out.data(), "{object:#}")?;
            return Ok(Exit::Yes);
        }
        for (name, means, law) in [
            ("hosts", &fitted.hosts, fitted.host),
            ("paths", &fitted.paths, fitted.path),
        ] {
            let mut table = Table::new(&[
                (name, Align::Right),
                ("nodes", Align::Right),
                ("mean children", Align::Right),
                ("law", Align::Right),
            ]);
            for (at, (places, mean)) in means.iter().enumerate() {
                let depth = at as f64 + 1.0;
                let by_law = law.map_or("-".to_owned(), |law| {
                    format!("{:.3}", law.a * depth.powf(-law.k))
                });
                table.row([
                    count(at as u64 + 1),
                    count(*places),
                    format!("{mean:.3}"),
                    by_law,
                ]);
            }
            writeln!(out.data(), "{table}{}\n", law_text(law))?;
        }
        Ok(Exit::Yes)
    }
}

fn law_text(law: Option<PowerLaw>) -> String {
    law.map_or("too few depths to fit a law to".to_owned(), |law| {
        format!("a = {:.4}, k = {:.4}", law.a, law.k)
    })
}
