use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waypost_index::{Select, input};
use waypost_report::{bytes, count};
use waypost_summary::Summary;
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filters, Map};
use waypost_surt::Dialect;

use crate::args::{Format, ResourceArgs, refuse_json_on_stdout};
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::TakedownArgs;

/// Merge maps: what any of them calls present stays present
///
/// Frequencies of equal keys are added. URI-Rs become upper bounds, because maps may share them. A
/// void is dropped if another map holds something there. Filters cannot be merged: they are rebuilt
/// from --holdings. With --exclude-list, takes URIs down from finished maps, also from a single one.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost map merge 2020.ukvs 2021.ukvs -o both.ukvs\n\
    \x20 waypost map merge full.ukvs --exclude-list takedown.txt -o kept.ukvs")]
pub(crate) struct Merge {
    /// The maps to merge
    #[arg(required = true, value_name = "MAP")]
    maps: Vec<PathBuf>,
    /// The map to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// What the maps hold, to rebuild their filters
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    /// Drop filters: keys that had one call everything present
    #[arg(long, conflicts_with = "holdings")]
    ignore_filter: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    takedowns: TakedownArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        refuse_json_on_stdout(self.format, &self.output)?;
        let resources = self.resources.resources(Some(&self.output))?;
        let dialect = match self.holdings.is_empty() {
            true => Dialect::default(),
            false => Map::open_rows(&self.maps[0], &resources)?.about().dialect,
        };
        let progress = out.progress();
        let list = self.takedowns.list()?;
        let mut select = Select::new();
        select.takedowns(list.clone());
        let holdings = Input {
            select,
            dialect,
            resources: resources.clone(),
            progress: progress.clone(),
            ..Input::new(input::expand(&self.holdings)?.sources)
        };
        let filters = match (self.holdings.is_empty(), self.ignore_filter) {
            (false, _) => Filters::Rebuild(&holdings),
            (true, true) => Filters::Drop,
            (true, false) => Filters::Refuse,
        };
        let list = list.as_deref();
        let merged = map::merge_without(&self.maps, filters, list, &resources, &self.output)?;
        drop(progress);
        self.takedowns.report(out);
        if merged.shared > 0 {
            out.warn(format_args!(
                "{} of the list stood for several URI-Rs, which differ in their queries and are absent now, too; to keep them, build the map again with `waypost map build --exclude-list`",
                plural::of(merged.shared, "key")
            ));
        }
        if self.format == Format::Json {
            let object = json!({
                "map": self.output.display().to_string(),
                "keys": merged.rows,
                "keys_in": merged.rows_in,
                "voids_dropped": merged.dropped,
                "taken_down": merged.taken_down,
                "filter_bytes": merged.filter_bytes,
            });
            writeln!(out.data(), "{object:#}")?;
            return Ok(Exit::Yes);
        }
        if let Some(size) = merged.filter_bytes {
            out.note(format_args!("rebuilt the filter: {}", bytes(size)));
        }
        if merged.dropped > 0 {
            out.note(format_args!(
                "dropped {}: another map holds something there",
                plural::of(merged.dropped, "void")
            ));
        }
        out.note(format_args!(
            "wrote {} of {} to {}",
            plural::of(merged.rows, "key"),
            count(merged.rows_in),
            self.output.display()
        ));
        Ok(Exit::Yes)
    }
}
