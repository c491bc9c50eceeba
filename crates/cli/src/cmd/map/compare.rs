use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waypost_report::{Align, Table, count};
use waypost_summary::map::compare;

use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Show what one archive holds and another does not, by domain
///
/// Use it to divide crawls among archives: shows what A holds and no row of B covers.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost map compare 2021.ukvs 2020.ukvs --top 20\n\
    \n\
    Exit code 1: B covers everything that A holds.")]
pub(crate) struct Compare {
    /// The map whose rows are looked up
    a: PathBuf,
    /// The map to look them up in
    b: PathBuf,
    /// Number of domains to show, by number of captures
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Compare {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let compared = compare::compare(&self.a, &self.b, &resources)?;
        let exit = if compared.only > 0 {
            Exit::Yes
        } else {
            Exit::No
        };
        if self.format == Format::Json {
            let domains: Vec<_> = compared
                .domains
                .iter()
                .take(self.top)
                .map(|domain| {
                    json!({
                        "domain": String::from_utf8_lossy(&domain.name),
                        "keys_only_in_a": domain.only,
                        "keys": domain.keys,
                        "captures_only_in_a": domain.captures,
                    })
                })
                .collect();
            let object = json!({
                "keys_only_in_a": compared.only,
                "keys": compared.keys,
                "domains": compared.domains.len(),
                "top": domains,
            });
            writeln!(out.data(), "{object:#}")?;
            return Ok(exit);
        }
        let mut table = Table::new(&[
            ("domain", Align::Left),
            ("keys only in A", Align::Right),
            ("of keys", Align::Right),
            ("captures only in A", Align::Right),
        ]);
        for domain in compared.domains.iter().take(self.top) {
            table.row([
                String::from_utf8_lossy(&domain.name).into_owned(),
                count(domain.only),
                count(domain.keys),
                count(domain.captures),
            ]);
        }
        write!(out.data(), "{table}")?;
        writeln!(
            out.data(),
            "{} of {} of A, in {}, are not covered by B",
            count(compared.only),
            plural::of(compared.keys, "key"),
            plural::of(compared.domains.len() as u64, "domain")
        )?;
        Ok(exit)
    }
}
