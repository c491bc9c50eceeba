//! `waypost map …`: what an archive holds, as keys of mixed depth with wildcards.

use clap::{Args, Subcommand};

use super::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

mod build;
mod check;
mod compact;
mod compare;
mod filtered;
mod fit;
mod index;
pub(crate) mod lookup;
mod merge;
mod outcome;
mod price;
mod show;
mod sweep;

/// Build, compact and look up maps of what an archive holds (MementoMaps)
#[derive(Args)]
pub(crate) struct Map {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(Box<build::Build>),
    Check(check::Check),
    Compact(Box<compact::Compact>),
    Compare(compare::Compare),
    Fit(fit::Fit),
    Index(index::Index),
    Lookup(lookup::Lookup),
    Merge(merge::Merge),
    Show(show::Show),
    Sweep(sweep::Sweep),
}

impl Map {
    /// Maps can be built in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match &mut self.command {
            Command::Build(build) => Some(&mut **build),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Build(command) => command.run(out),
            Command::Check(command) => command.run(out),
            Command::Compact(command) => command.run(out),
            Command::Compare(command) => command.run(out),
            Command::Fit(command) => command.run(out),
            Command::Index(command) => command.run(out),
            Command::Lookup(command) => command.run(out),
            Command::Merge(command) => command.run(out),
            Command::Show(command) => command.run(out),
            Command::Sweep(command) => command.run(out),
        }
    }
}
