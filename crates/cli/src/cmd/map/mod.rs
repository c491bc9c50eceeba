//! `waypost map …`: what an archive holds, as keys of mixed depth with wildcards.

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::printer::Printer;

mod build;
mod compact;
mod lookup;
mod price;

/// Make maps of what an archive holds (MementoMaps), make them small, and look URIs up in them
#[derive(Args)]
pub(crate) struct Map {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Build),
    Compact(Box<compact::Compact>),
    Lookup(lookup::Lookup),
}

impl Map {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Build(command) => command.run(out),
            Command::Compact(command) => command.run(out),
            Command::Lookup(command) => command.run(out),
        }
    }
}
