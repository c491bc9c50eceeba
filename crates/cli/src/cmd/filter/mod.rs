//! `waypost filter …`: holdings as hashes, for archives that may not disclose their URIs.

use clap::{Args, Subcommand};

use super::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

mod add;
mod build;
mod check;
mod classic;
mod exclude;
mod export;
mod import;
mod info;
mod lookup;
mod merge;
pub(crate) mod options;
mod plan;
mod privacy;
mod serve;
mod store;

/// Build, look up, merge and check filters, which store hashes instead of URIs
#[derive(Args)]
pub(crate) struct Filter {
    #[command(subcommand)]
    command: Box<Command>,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Build),
    Lookup(lookup::Lookup),
    Add(add::Add),
    Merge(merge::Merge),
    Exclude(exclude::Exclude),
    Info(info::Info),
    Check(check::Check),
    Plan(plan::Plan),
    Privacy(privacy::Privacy),
    Export(export::Export),
    Import(import::Import),
    Serve(serve::Serve),
}

impl Filter {
    /// Filters can be built in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match &mut *self.command {
            Command::Build(build) => Some(build),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match *self.command {
            Command::Build(command) => command.run(out),
            Command::Lookup(command) => command.run(out),
            Command::Add(command) => command.run(out),
            Command::Merge(command) => command.run(out),
            Command::Exclude(command) => command.run(out),
            Command::Info(command) => command.run(out),
            Command::Check(command) => command.run(out),
            Command::Plan(command) => command.run(out),
            Command::Privacy(command) => command.run(out),
            Command::Export(command) => command.run(out),
            Command::Import(command) => command.run(out),
            Command::Serve(command) => command.run(out),
        }
    }
}
