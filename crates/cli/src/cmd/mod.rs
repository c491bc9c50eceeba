//! The subcommands, one file each.

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::printer::Printer;

mod completions;
mod index;
mod man;

/// Learns from their indexes what web archives hold, writes that down small, and sends every
/// lookup only to the archives that can answer it.
#[derive(Parser)]
#[command(name = "waypost", version)]
pub(crate) struct Cli {
    /// Say nothing on stderr but warnings and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Completions(completions::Completions),
    Index(index::Index),
    Man(man::Man),
}

impl Cli {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Completions(command) => command.run(out),
            Command::Index(command) => command.run(out),
            Command::Man(command) => command.run(out),
        }
    }
}
