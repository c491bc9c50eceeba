//! `waypost index …`: read, check, sort, merge and search the indexes of archives.

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::printer::Printer;

mod check;

/// Check, sort, merge and search the indexes of archives: CDX, CDXJ, ZipNum
#[derive(Args)]
pub(crate) struct Index {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
}

impl Index {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Check(command) => command.run(out),
        }
    }
}
