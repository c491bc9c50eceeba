//! `waypost lastmod …`: Last-Modified times, in an index, and what they show.

use clap::{Args, Subcommand};
use waypost_insight::lastmod::date::{self, Form};

use crate::exit::Exit;
use crate::printer::Printer;

mod add;
mod anomalies;
mod extract;
mod html;
mod report;

/// Add the Last-Modified times of responses to an index, and show what they say
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
    Report(report::ReportCommand),
    Anomalies(anomalies::AnomaliesCommand),
}

impl Lastmod {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Extract(command) => command.run(out),
            Command::Add(command) => command.run(out),
            Command::Report(command) => command.run(out),
            Command::Anomalies(command) => command.run(out),
        }
    }
}

/// A POSIX time for people.
fn shown(time: i64) -> String {
    let text = date::format(time, Form::Iso8601).unwrap_or_default();
    text.replace('T', " ").replace('Z', "")
}
