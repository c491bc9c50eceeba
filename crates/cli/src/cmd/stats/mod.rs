//! `waypost stats …`: what an archive holds.

use clap::{Args, Subcommand};

use crate::cmd::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

mod compare;
mod report;

/// Show what an archive holds: by year, place, type and depth, and what stands out
///
/// Reads indexes or lists of URIs once, sorted or not, and counts exactly (unless --approximate): captures per URI-R,
/// top-level and registered domains, hosts, years, statuses, media types, languages, the tree of
/// keys by depth, growth, and likely defects.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n\
    \x20 waypost stats small.cdxj --html small.html\n\
    \x20 waypost stats small.cdxj --lookups lookups.txt --classes classes.txt --top 5\n\
    \x20 waypost stats small.cdxj --format json > small.json\n\
    \x20 waypost stats small.cdxj --approximate --top 5\n\
    \n\
    Exit code 1: an input was damaged, or nothing was counted."
)]
pub(crate) struct Stats {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    report: report::Report,
}

#[derive(Subcommand)]
enum Command {
    Compare(compare::Compare),
}

impl Stats {
    /// Captures can be counted in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match self.command {
            None => Some(&mut self.report),
            Some(_) => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Some(Command::Compare(command)) => command.run(out),
            None => self.report.run(out),
        }
    }
}
