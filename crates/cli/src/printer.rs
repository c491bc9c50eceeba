//! The only module that writes to the terminal: data to stdout, messages to stderr.
#![allow(
    clippy::print_stderr,
    reason = "messages go through here and nowhere else"
)]

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use waypost_report::count;

use crate::hint;
use crate::progress::Bar;

/// How many warnings of one kind are shown.
pub(crate) const SHOWN: usize = 3;

/// Where a command's results and messages go.
pub(crate) struct Printer {
    stdout: BufWriter<Stdout>,
    quiet: bool,
}

/// Where messages go that other threads have.
#[derive(Clone, Copy)]
pub(crate) struct Messages {
    quiet: bool,
}

impl Messages {
    /// Prints a message, unless `--quiet` is given.
    pub(crate) fn note(self, message: impl Display) {
        if !self.quiet {
            eprintln!("{message}");
        }
    }
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Printer {
        Printer {
            stdout: BufWriter::with_capacity(64 * 1024, io::stdout()),
            quiet,
        }
    }

    /// Standard output, for results.
    pub(crate) fn data(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// A progress bar, shown until it is dropped. Hidden if stderr is not a terminal.
    pub(crate) fn progress(&self) -> Bar {
        Bar::new(!self.quiet && io::stderr().is_terminal())
    }

    /// A progress bar for work whose results appear on stdout meanwhile. Also hidden if stdout is a
    /// terminal.
    pub(crate) fn progress_beside_data(&self) -> Bar {
        Bar::new(!self.quiet && io::stderr().is_terminal() && !io::stdout().is_terminal())
    }

    /// Prints a message, unless `--quiet` is given.
    pub(crate) fn note(&self, message: impl Display) {
        self.messages().note(message);
    }

    /// Prints messages from another thread.
    pub(crate) fn messages(&self) -> Messages {
        Messages { quiet: self.quiet }
    }

    /// Prints a text on stderr as it is, also if `--quiet` is given.
    pub(crate) fn say(&self, text: impl Display) {
        eprint!("{text}");
    }

    /// Prints a warning about the input or the result.
    pub(crate) fn warn(&self, message: impl Display) {
        eprintln!("warning: {message}");
    }

    /// Prints the first three warnings of one kind, and how many more there are.
    pub(crate) fn warn_some<M: Display>(&self, messages: impl IntoIterator<Item = M>) {
        let mut messages = messages.into_iter();
        for message in messages.by_ref().take(SHOWN) {
            self.warn(message);
        }
        let more = messages.count() as u64;
        if more > 0 {
            self.warn(format_args!("… and {} more like this", count(more)));
        }
    }

    /// Prints the error that ends the run, its causes and its hint.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        eprintln!("error: {}", chain.join(": "));
        if let Some(hint) = hint::of(error) {
            eprintln!("hint: {hint}");
        }
    }
}
