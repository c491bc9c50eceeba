//! `waypost lastmod …`: Last-Modified times, in an index.

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::printer::Printer;

mod add;
mod extract;

/// Add the Last-Modified times of responses to an index
///
/// A crawl is of one month, but the Last-Modified headers of its responses reach back for decades.
#[derive(Args)]
pub(crate) struct Lastmod {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Extract(extract::Extract),
    Add(add::Add),
}

impl Lastmod {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Extract(command) => command.run(out),
            Command::Add(command) => command.run(out),
        }
    }
}
