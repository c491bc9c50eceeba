//! `waypost index …`: make, read, check, sort, merge, search and serve the indexes of archives.

use clap::{Args, Subcommand};

use super::worker::Divide;
use crate::exit::Exit;
use crate::printer::Printer;

mod check;
mod convert;
mod destination;
mod fetch;
pub(crate) mod keys;
mod lookup;
mod merge;
#[cfg(feature = "parquet")]
mod parquet;
mod rekey;
mod rewrite;
pub(super) mod serve;
mod sort;
mod unzip;
mod warc;
mod zipnum;

/// Make, check, sort, merge, search and serve the indexes of archives: CDX, CDXJ, ZipNum
#[derive(Args)]
pub(crate) struct Index {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
    Convert(convert::Convert),
    Fetch(Box<fetch::Fetch>),
    Lookup(lookup::Lookup),
    Merge(merge::Merge),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Parquet>),
    Rekey(rekey::Rekey),
    Serve(Box<serve::Serve>),
    Sort(sort::Sort),
    Unzip(unzip::Unzip),
    Warc(warc::Warc),
    Zipnum(zipnum::Zipnum),
}

impl Index {
    /// Indexes can be checked in ranges.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn Divide> {
        match &mut self.command {
            Command::Check(check) => Some(check),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Check(command) => command.run(out),
            Command::Convert(command) => command.run(out),
            Command::Fetch(command) => command.run(out),
            Command::Lookup(command) => command.run(out),
            Command::Merge(command) => command.run(out),
            #[cfg(feature = "parquet")]
            Command::Parquet(command) => command.run(out),
            Command::Rekey(command) => command.run(out),
            Command::Serve(command) => command.run(out),
            Command::Sort(command) => command.run(out),
            Command::Unzip(command) => command.run(out),
            Command::Warc(command) => command.run(out),
            Command::Zipnum(command) => command.run(out),
        }
    }
}
