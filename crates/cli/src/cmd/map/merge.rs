use std::path::PathBuf;

use clap::Args;
use waypost_report::count;
use waypost_summary::map::{self, Room};

use super::build::temporary;
use crate::args::Memory;
use crate::exit::Exit;
use crate::printer::Printer;

/// Make one map of several: what either calls present stays present
///
/// Frequencies of one key add up; URI-Rs become upper bounds, because maps may share them. A void
/// that another map speaks against is dropped.
#[derive(Args)]
#[command(after_help = "Example:\n  waypost map merge 2023.ukvs 2024.ukvs -o both.ukvs")]
pub(crate) struct Merge {
    /// The maps
    #[arg(required = true, value_name = "MAP")]
    maps: Vec<PathBuf>,
    /// The map to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    #[command(flatten)]
    memory: Memory,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let room = Room {
            memory: self.memory.memory,
            temporary: temporary(&self.output),
        };
        let merged = map::merge(&self.maps, &room, &self.output)?;
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
