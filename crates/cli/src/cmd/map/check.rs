use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use waypost_index::{Select, input};
use waypost_io::Source;
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::holdings::Input;
use waypost_summary::map::check::{self, Checked};
use waypost_summary::map::{Counting, Map};
use waypost_summary::{Summary, Wholeness};

use super::lookup::open;
use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::TakedownArgs;

/// Check the format, order and rows of a map and, with --holdings, its answers
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map check small.ukvs\n\
    \x20 waypost map check small.ukvs --holdings small.cdxj\n\
    \n\
    Exit code 1: the map is not in order, or a held URI was called absent. Exit code 2: it lacks rows.")]
pub(crate) struct Check {
    /// The map
    map: PathBuf,
    /// What the archive holds: look up all of it, and report what is called absent
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    #[command(flatten)]
    takedowns: TakedownArgs,
    /// Ignore the filters of the map
    #[arg(long)]
    ignore_filter: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Check {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let checked = check::check(&Source::new(&self.map))?;
        let mut sound = checked.disorder.is_none();
        let mut map = None;
        if checked.filtered > 0 || !self.holdings.is_empty() {
            map = Some(open(&self.map, self.ignore_filter, &resources)?);
        }
        let companion = map.as_ref().and_then(Map::companion);
        let mut proof = None;
        if let (Some(map), false) = (map, self.holdings.is_empty()) {
            let progress = out.progress();
            let mut select = Select::new();
            select.takedowns(self.takedowns.list()?);
            let holdings = Input {
                select,
                dialect: map.about().dialect,
                resources: resources.clone(),
                progress: progress.clone(),
                ..Input::new(input::expand(&self.holdings)?.sources)
            };
            let proved = check::prove(map, &holdings)?;
            drop(progress);
            self.takedowns.report(out);
            crate::cmd::profile::report_rejects(&proved.reading, out);
            sound &= proved.missed == 0;
            proof = Some(Proof {
                urirs: proved.urirs,
                missed: proved.missed,
                examples: proved.examples,
            });
        }
        match self.format {
            Format::Table => {
                let name = self.map.display().to_string();
                let table = table(&name, &checked, companion, proof.as_ref());
                write!(out.data(), "{table}")?;
            }
            Format::Json => {
                let object = object(&self.map, &checked, companion, proof.as_ref());
                writeln!(out.data(), "{object:#}")?;
            }
        }
        let missed = proof.iter().flat_map(|proof| &proof.examples);
        out.warn_some(missed.map(|surt| format!("held, but called absent: {surt}")));
        Ok(if sound { Exit::Yes } else { Exit::No })
    }
}

/// The results of looking up all held URIs.
struct Proof {
    urirs: u64,
    missed: u64,
    examples: Vec<String>,
}

fn table(
    name: &str,
    checked: &Checked,
    companion: Option<(u64, u64)>,
    proof: Option<&Proof>,
) -> Table {
    let mut table = Table::new(&[("map", Align::Left), (name, Align::Left)]);
    table.row(["keys", &count(checked.rows)]);
    table.row(["wildcards", &count(checked.wildcards)]);
    table.row(["voids", &count(checked.voids)]);
    if checked.filtered > 0 {
        table.row(["with a filter", &count(checked.filtered)]);
        let filter = match companion {
            Some((size, keys)) => format!("{}, {}", bytes(size), plural::of(keys, "URI-R")),
            None => "not read".to_owned(),
        };
        table.row(["filter beside it", &filter]);
    }
    let total = checked
        .total
        .map_or("-".to_owned(), |total| total.to_string());
    table.row(["captures/URI-Rs in all rows", &total]);
    let counting = match checked.counting {
        Some(Counting::Partition) => "rows partition the holdings",
        _ => "wildcards count what rows below them count",
    };
    table.row(["counting", counting]);
    let order = match &checked.disorder {
        None => "yes".to_owned(),
        Some((line, key, why)) => format!("no: line {}: {key} {why}", count(*line)),
    };
    let whole = match checked.wholeness {
        Wholeness::Whole => "yes",
        Wholeness::Unknown => "not known: its headers do not describe its rows",
    };
    table.row(["all rows there", whole]);
    table.row(["in order, each key once", &order]);
    table.row(["rows that change no answer", &count(checked.shadowed)]);
    for (line, key) in &checked.shadowed_examples {
        table.row(["", &format!("line {}: {key}", count(*line))]);
    }
    if let Some(proof) = proof {
        table.row(["held URIs looked up", &count(proof.urirs)]);
        table.row(["held, but called absent", &count(proof.missed)]);
    }
    table
}

fn object(
    map: &Path,
    checked: &Checked,
    companion: Option<(u64, u64)>,
    proof: Option<&Proof>,
) -> Value {
    let mut object = json!({
        "map": map.display().to_string(),
        "keys": checked.rows,
        "wildcards": checked.wildcards,
        "voids": checked.voids,
        "keys_with_filter": checked.filtered,
        "total": checked.total.map(|total| total.to_string()),
        "known_to_be_whole": checked.wholeness == Wholeness::Whole,
        "partition": checked.counting == Some(Counting::Partition),
        "disorder": checked.disorder.as_ref().map(|(line, key, why)| {
            json!({"line": line, "key": key, "why": why})
        }),
        "rows_that_change_no_answer": checked.shadowed,
    });
    if let Some((bytes, keys)) = companion {
        object["filter"] = json!({"bytes": bytes, "urirs": keys});
    }
    if let Some(proof) = proof {
        object["held_looked_up"] = proof.urirs.into();
        object["held_but_absent"] = proof.missed.into();
    }
    object
}
