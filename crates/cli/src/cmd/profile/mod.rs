//! `waypost profile …`: what an archive holds, as keys of a policy with counts.

use clap::{Args, Subcommand};

use super::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

mod build;
mod growth;
pub(crate) mod lookup;
mod merge;
mod options;

pub(crate) use options::{
    AboutOptions, ByArgument, classes, read_classes, report_bad_lines, report_keys, report_rejects,
};

/// Build profiles of what an archive holds, under any number of policies in one pass
///
/// Counts captures, URI-Rs and sources under the keys of each policy and writes one CDXJ file per
/// policy, NAME.H3P1.cdxj. Inputs are indexes or lists of URIs, sorted or not.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n\
    \x20 waypost profile small.cdxj -o profiles\n\
    \x20 waypost profile --policy H3P0,HxP1,DDom --preset pages --name 'My Archive' \\\n\
    \x20   small.cdxj -o pages\n\
    \x20 waypost profile lookups.txt --dry-run"
)]
pub(crate) struct Profile {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    build: build::Build,
}

#[derive(Subcommand)]
enum Command {
    Merge(merge::Merge),
    Lookup(lookup::Lookup),
    Growth(growth::Growth),
}

impl Profile {
    /// Profiles can be built in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match self.command {
            None => Some(&mut self.build),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Some(Command::Merge(command)) => command.run(out),
            Some(Command::Lookup(command)) => command.run(out),
            Some(Command::Growth(command)) => command.run(out),
            None => self.build.run(out),
        }
    }
}
