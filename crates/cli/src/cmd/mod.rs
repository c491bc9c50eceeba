//! The subcommands, one file each.

use std::sync::LazyLock;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::printer::Printer;

mod completions;
mod demo;
mod discover;
mod evaluate;
mod filter;
mod harvest;
pub(crate) mod index;
mod keys;
mod lastmod;
mod learn;
mod lookup;
mod man;
mod map;
mod memento;
mod memgator;
mod profile;
mod publish;
mod route;
mod segments;
mod serve;
mod stats;
mod timemap;
mod worker;

pub(crate) use serve::seconds;
pub(crate) use worker::{combine as combine_ranges, read as read_range};

/// Summarises the indexes of web archives, to tell which archives may have a page without asking all
/// of them.
#[derive(Parser)]
#[command(name = "waypost", version = VERSION.as_str())]
pub(crate) struct Cli {
    /// Print only warnings and errors on stderr
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    command: Command,
}

/// Keys of some policies depend on the list of public suffixes, so its version is part of ours.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (public suffix list: psl {})",
        env!("CARGO_PKG_VERSION"),
        waypost_surt::PSL_VERSION
    )
});

#[derive(Subcommand)]
enum Command {
    Keys(keys::Keys),
    Lookup(lookup::Lookup),
    Index(index::Index),
    Profile(Box<profile::Profile>),
    Evaluate(evaluate::Evaluate),
    Filter(filter::Filter),
    Map(map::Map),
    Segments(segments::Segments),
    Stats(Box<stats::Stats>),
    Route(route::Route),
    Learn(learn::Learn),
    Harvest(harvest::Harvest),
    Publish(publish::Publish),
    Discover(discover::Discover),
    Lastmod(lastmod::Lastmod),
    Serve(serve::Serve),
    Timemap(timemap::TimeMap),
    Memento(memento::Memento),
    Memgator(memgator::MemGator),
    Worker(worker::Worker),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// The command, if other machines can read its inputs.
    pub(crate) fn divided(&mut self) -> Option<&mut dyn worker::Divide> {
        match &mut self.command {
            Command::Index(command) => command.divided(),
            Command::Profile(command) => command.divided(),
            Command::Filter(command) => command.divided(),
            Command::Map(command) => command.divided(),
            Command::Segments(command) => command.divided(),
            Command::Stats(command) => command.divided(),
            _ => None,
        }
    }

    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Command::Keys(command) => command.run(out),
            Command::Lookup(command) => command.run(out),
            Command::Index(command) => command.run(out),
            Command::Profile(command) => command.run(out),
            Command::Evaluate(command) => command.run(out),
            Command::Filter(command) => command.run(out),
            Command::Map(command) => command.run(out),
            Command::Segments(command) => command.run(out),
            Command::Stats(command) => command.run(out),
            Command::Route(command) => command.run(out),
            Command::Learn(command) => command.run(out),
            Command::Harvest(command) => command.run(out),
            Command::Publish(command) => command.run(out),
            Command::Discover(command) => command.run(out),
            Command::Lastmod(command) => command.run(out),
            Command::Serve(command) => command.run(out),
            Command::Timemap(command) => command.run(out),
            Command::Memento(command) => command.run(out),
            Command::Memgator(command) => command.run(out),
            Command::Worker(command) => command.run(out),
            Command::Demo(command) => command.run(out),
            Command::Completions(command) => command.run(out),
            Command::Man(command) => command.run(out),
        }
    }
}
