//! Runs a command inside another program, which gets what it prints.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{CommandFactory, FromArgMatches};
use waypost_io::Progress;

use crate::cmd::{self, Cli};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{hint, overwrite};

/// What a command has printed.
#[derive(Clone, Debug, Default)]
pub struct Called {
    /// Whether the answer is yes (exit code 0), and not no (exit code 1).
    pub yes: bool,
    /// What it wrote to standard output.
    pub data: Vec<u8>,
    /// Notes and warnings.
    pub messages: Vec<String>,
}

/// Why a command failed.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// What happened, with all causes.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The file in which it happened.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The byte in the file, from 0.
    pub byte: Option<u64>,
}

/// Runs a command, given by the arguments after `waypost`. Output files named `-` still go to the
/// standard output of the process.
///
/// # Errors
/// If the arguments are invalid, or the command fails.
pub fn call<A: Into<OsString>>(
    args: impl IntoIterator<Item = A>,
    progress: Progress,
) -> Result<Called, Failure> {
    crate::adapt_inputs();
    let words = std::iter::once(OsString::from("waypost"));
    let words = words.chain(args.into_iter().map(Into::into));
    let matches = Cli::command()
        .try_get_matches_from(words)
        .map_err(misused)?;
    let cli = Cli::from_arg_matches(&matches).map_err(misused)?;
    let (data, messages) = (Buffer::default(), Arc::new(Mutex::new(Vec::new())));
    let mut out = Printer::to_caller(Box::new(data.clone()), Arc::clone(&messages), progress);
    let run = overwrite::check(&matches)
        .and_then(|()| cli.run(&mut out))
        .and_then(|exit| {
            out.flush()?;
            Ok(exit)
        });
    let exit = run.map_err(|error| failure(&error))?;
    drop(out);
    let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
    let messages = std::mem::take(&mut *messages);
    if exit == Exit::Failed {
        return Err(Failure {
            message: messages.join("\n"),
            ..Failure::default()
        });
    }
    Ok(Called {
        yes: exit == Exit::Yes,
        data: data.take(),
        messages,
    })
}

/// Reads a range, a line of `waypost worker plan`, and returns the line with its partial result.
///
/// # Errors
/// If the line is not a range, or the range cannot be read.
pub fn work(line: &str) -> Result<String, Failure> {
    crate::adapt_inputs();
    cmd::read_range(line).map_err(|error| failure(&error))
}

/// Combines partial results, which [`work`] has returned, of consecutive ranges of one file.
///
/// # Errors
/// If a line is not a partial result, or the ranges are not consecutive.
pub fn combine(lines: Vec<String>) -> Result<String, Failure> {
    crate::adapt_inputs();
    cmd::combine_ranges(lines).map_err(|error| failure(&error))
}

fn failure(error: &anyhow::Error) -> Failure {
    let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
    let place = hint::place_of(error);
    Failure {
        message: chain.join(": "),
        hint: hint::of(error).map(str::to_owned),
        file: place.and_then(|place| place.file.clone()),
        line: place.and_then(|place| place.line),
        byte: place.and_then(|place| place.byte),
    }
}

/// The arguments are invalid, or ask for help.
fn misused(error: clap::Error) -> Failure {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Failure {
        message: text.trim_end().to_owned(),
        ..Failure::default()
    }
}

/// Standard output.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gets_what_a_command_prints_and_where_it_fails() {
        let words = [
            "keys",
            "--policy",
            "none",
            "--format",
            "tsv",
            "http://a.com/b",
        ];
        let called = call(words, Progress::new()).unwrap();
        assert!(called.yes);
        assert!(called.data.ends_with(b"com,a)/b\n"), "{called:?}");
        let failure = call(["index", "check", "missing.cdx"], Progress::new()).unwrap_err();
        assert_eq!(failure.file.as_deref(), Some("missing.cdx"));
        assert_eq!(failure.hint.as_deref(), Some("check the path"));
        let failure = call(["index", "chek"], Progress::new()).unwrap_err();
        assert!(failure.message.contains("chek"), "{failure:?}");
        assert!(work("{}").unwrap_err().hint.is_some());
    }
}
