//! The `waypost` command, as a library that its binary and the Python package call.
//!
//! Each subcommand is one file in `cmd/`: its help, its options and its `run`, which validates the
//! options, calls a library and prints the result.

use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, FromArgMatches};

mod aggregation;
mod archives;
mod args;
mod bound;
mod call;
mod cmd;
mod exit;
mod hint;
mod html;
mod interrupt;
mod listening;
mod lookups;
mod overwrite;
mod plural;
mod printer;
mod progress;
mod remote;
mod service;
mod takedowns;
mod time;

pub use call::{Called, Failure, call, combine, work};
use exit::Exit;
use printer::Printer;

/// Lets inputs in this process be whatever the command reads: also remote files.
pub fn adapt_inputs() {
    remote::adapt_inputs();
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let start = Instant::now();
    adapt_inputs();
    let (cli, matches) = match cmd::Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((cmd::Cli::from_arg_matches(&matches)?, matches)))
    {
        Ok(parsed) => parsed,
        // clap prints help and version to stdout with exit code 0, and misuse to stderr with 2.
        Err(error) => {
            let code = if error.use_stderr() { Exit::ERROR } else { 0 };
            // A closed pipe (`waypost --help | head -1`) is not an error.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut out = Printer::new(cli.quiet);
    interrupt::watch();
    let result = overwrite::check(&matches)
        .and_then(|()| cli.run(&mut out))
        .and_then(|exit| {
            out.flush()?;
            bound::report(start, &out);
            Ok(exit)
        });
    match result {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_closed_pipe(&error) => Exit::Yes.into(),
        Err(error) => {
            // Results printed so far come before the error.
            let _ = out.flush();
            out.error(&error);
            ExitCode::from(Exit::ERROR)
        }
    }
}
