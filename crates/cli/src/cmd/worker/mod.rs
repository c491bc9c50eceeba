//! `waypost worker …`: commands whose input is read by many machines.
//!
//! ```text
//! plan: ranges, as lines ─► any number of workers: partials, as lines ─► merge: runs the command
//!                                                    └─ combine: fewer lines ─┘
//! ```
//!
//! A line contains everything that a worker needs: the command and the range. The lines may be
//! distributed by anything, in any order, and more than once.

use std::io::{BufRead, Write};

use anyhow::Context;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

mod combine;
mod merge;
mod plan;
mod task;

pub(crate) use combine::combine;
pub(crate) use task::{Divide, Task};

/// Read ranges of indexes on standard input and write partial results, for clusters
///
/// Runs `profile`, `map build`, `filter build`, `segments tabulate`, `index check` and `stats` on many
/// machines. `waypost worker plan` divides the inputs into ranges, one per line. Workers read lines on standard input and write
/// a line with the partial result for each. `waypost worker merge` merges them. The result has the
/// same bytes as that of the command itself.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n\
    \x20 waypost worker plan small.cdxj --size 64K -- map build -o full.ukvs > ranges\n\
    \x20 waypost worker < ranges > partials\n\
    \x20 waypost worker merge partials"
)]
pub(crate) struct Worker {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Plan(plan::Plan),
    Combine(combine::Combine),
    Merge(merge::Merge),
}

impl Worker {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.command {
            Some(Command::Plan(command)) => command.run(out),
            Some(Command::Combine(command)) => command.run(out),
            Some(Command::Merge(command)) => command.run(out),
            None => work(out),
        }
    }
}

/// Reads the ranges on standard input.
fn work(out: &mut Printer) -> anyhow::Result<Exit> {
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.context("cannot read standard input")?;
        let partial = read(&line).with_context(|| format!("-: line {}", number + 1))?;
        writeln!(out.data(), "{partial}")?;
        // What is complete stays, if a later range fails.
        out.flush()?;
    }
    Ok(Exit::Yes)
}

/// Reads a range. Returns the line with its partial.
pub(crate) fn read(line: &str) -> anyhow::Result<String> {
    let task: Task = serde_json::from_str(line)
        .context("this is not a range")
        .hint("make ranges with `waypost worker plan`")?;
    perform(&task)
}

/// Reads or combines the range of a task. Returns the line of its result.
fn perform(task: &Task) -> anyhow::Result<String> {
    let (mut cli, _) = task.parse()?;
    let partial = task.divided(&mut cli)?.read(task)?;
    let task = serde_json::to_string(task)?;
    Ok(format!("{task}\t{}", BASE64_STANDARD.encode(partial)))
}
