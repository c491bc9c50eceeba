//! The one place that writes to the terminal: data to stdout, everything said to people to stderr.
#![allow(
    clippy::print_stderr,
    reason = "messages go through here and nowhere else"
)]

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use waypost_index::Source;

use crate::hint;
use crate::progress::Progress;

/// Where a command's results and messages go.
pub(crate) struct Printer {
    stdout: BufWriter<Stdout>,
    quiet: bool,
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Printer {
        Printer {
            stdout: BufWriter::with_capacity(64 * 1024, io::stdout()),
            quiet,
        }
    }

    /// Results: what a pipe should see.
    pub(crate) fn data(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// A bar over so many bytes, if that is known, that shows until it is dropped.
    pub(crate) fn progress(&self, what: &'static str, total: Option<u64>) -> Progress {
        Progress::new(what, total, !self.quiet && io::stderr().is_terminal())
    }

    /// A bar over the bytes of all of these.
    pub(crate) fn reading(&self, sources: &[Source]) -> Progress {
        self.progress("reading", sources.iter().map(Source::size).sum())
    }

    /// Something worth knowing. Silenced by `--quiet`.
    pub(crate) fn note(&self, message: impl Display) {
        if !self.quiet {
            eprintln!("{message}");
        }
    }

    /// Something that may be wrong with the input or the result.
    pub(crate) fn warn(&self, message: impl Display) {
        eprintln!("warning: {message}");
    }

    /// The error that ends the run: what, because of what, and what to do.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        eprintln!("error: {}", chain.join(": "));
        if let Some(hint) = hint::of(error) {
            eprintln!("hint: {hint}");
        }
    }
}
