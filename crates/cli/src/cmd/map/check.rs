use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use waypost_index::input::{self, Source};
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::Summary;
use waypost_summary::holdings::Input;
use waypost_summary::map::{Counting, Room, check};

use super::lookup::open;
use crate::args::Memory;
use crate::exit::Exit;
use crate::printer::Printer;

/// Look a map over: its format, its order, rows that say nothing; and prove it by what is held
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost map check small.ukvs\n  \
    waypost map check small.ukvs --holdings archive.cdxj.gz\n\n\
    Exit code 1: not in order, or a held URI is called absent.")]
pub(crate) struct Check {
    /// The map
    map: PathBuf,
    /// What is held: every URI of it is looked up, and those called absent are named
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    /// Read the rows alone, without the filter beside them
    #[arg(long)]
    ignore_filter: bool,
    #[command(flatten)]
    memory: Memory,
}

impl Check {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let checked = check::check(&Source::new(&self.map))?;
        let mut fine = checked.disorder.is_none();
        let mut table = Table::new(&[
            ("map", Align::Left),
            (&self.map.display().to_string(), Align::Left),
        ]);
        table.row(["keys", &count(checked.rows)]);
        table.row(["wildcards", &count(checked.wildcards)]);
        table.row(["voids", &count(checked.voids)]);
        let room = Room {
            memory: self.memory.memory,
            ..Room::default()
        };
        let mut map = None;
        if checked.filtered > 0 {
            table.row(["with a filter", &count(checked.filtered)]);
            let opened = open(&self.map, self.ignore_filter, &room)?;
            let filter = match opened.companion() {
                Some((size, keys)) => format!("{}, {} URI-Rs", bytes(size), count(keys)),
                None => "not looked at".to_owned(),
            };
            table.row(["filter beside it", &filter]);
            map = Some(opened);
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
        table.row(["in order, each key once", &order]);
        table.row(["rows that change no answer", &count(checked.shadowed)]);
        for (line, key) in &checked.shadowed_examples {
            table.row(["", &format!("line {}: {key}", count(*line))]);
        }
        let mut missed = Vec::new();
        if !self.holdings.is_empty() {
            let map = match map {
                Some(map) => map,
                None => open(&self.map, self.ignore_filter, &room)?,
            };
            let holdings = Input {
                dialect: map.about().dialect,
                memory: self.memory.memory,
                ..Input::new(input::expand(&self.holdings)?.sources)
            };
            let proved = check::prove(map, &holdings)?;
            crate::cmd::profile::tell_bad(&proved.reading, out);
            table.row(["held URIs looked up", &count(proved.urirs)]);
            table.row(["held, but called absent", &count(proved.missed)]);
            fine &= proved.missed == 0;
            missed = proved.examples;
        }
        write!(out.data(), "{table}")?;
        for surt in missed {
            out.warn(format_args!("held, but called absent: {surt}"));
        }
        Ok(if fine { Exit::Yes } else { Exit::No })
    }
}
