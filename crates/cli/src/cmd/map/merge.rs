use std::path::PathBuf;

use clap::Args;
use waypost_index::input;
use waypost_report::{bytes, count};
use waypost_summary::Summary;
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filters, Map, Room};
use waypost_surt::Dialect;

use super::build::temporary;
use crate::args::Memory;
use crate::exit::Exit;
use crate::printer::Printer;

/// Make one map of several: what either calls present stays present
///
/// Frequencies of one key add up; URI-Rs become upper bounds, because maps may share them. A void
/// that another map speaks against is dropped. Filters of two maps cannot be joined: they are made anew
/// from --holdings.
#[derive(Args)]
#[command(after_help = "Example:\n  waypost map merge 2023.ukvs 2024.ukvs -o both.ukvs")]
pub(crate) struct Merge {
    /// The maps
    #[arg(required = true, value_name = "MAP")]
    maps: Vec<PathBuf>,
    /// The map to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// What all the maps hold, to make their filters anew
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    /// Merge the rows alone: keys with filters lose them and call everything present
    #[arg(long, conflicts_with = "holdings")]
    ignore_filter: bool,
    #[command(flatten)]
    memory: Memory,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let room = Room {
            memory: self.memory.memory,
            temporary: temporary(&self.output),
            ..Room::default()
        };
        let dialect = match self.holdings.is_empty() {
            true => Dialect::default(),
            false => Map::open_rows(&self.maps[0], &room)?.about().dialect,
        };
        let holdings = Input {
            dialect,
            memory: self.memory.memory,
            temporary: room.temporary.clone(),
            ..Input::new(input::expand(&self.holdings)?.sources)
        };
        let filters = match (self.holdings.is_empty(), self.ignore_filter) {
            (false, _) => Filters::Rebuild(&holdings),
            (true, true) => Filters::Drop,
            (true, false) => Filters::Refuse,
        };
        let merged = map::merge(&self.maps, filters, &room, &self.output)?;
        if let Some(size) = merged.filter_bytes {
            out.note(format_args!("made the filter anew: {}", bytes(size)));
        }
        if merged.dropped > 0 {
            out.note(format_args!(
                "{} voids were dropped: another map holds something there",
                count(merged.dropped)
            ));
        }
        out.note(format_args!(
            "wrote {} keys of {} to {}",
            count(merged.rows),
            count(merged.rows_in),
            self.output.display()
        ));
        Ok(Exit::Yes)
    }
}
