//! The only module that writes to the terminal: data to stdout, messages to stderr.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use waypost_io::Progress;
use waypost_report::count;

use crate::hint;
use crate::progress::Bar;

/// How many warnings of one kind are shown.
pub(crate) const SHOWN: usize = 3;

/// Where a command's results and messages go.
pub(crate) struct Printer {
    stdout: BufWriter<Box<dyn Write + Send>>,
    messages: Messages,
    /// Where the caller follows the progress, if the command was called by another program.
    progress: Option<Progress>,
}

/// Where messages go.
#[derive(Clone)]
pub(crate) struct Messages {
    quiet: bool,
    /// Messages are kept here, if the command was called by another program.
    kept: Option<Arc<Mutex<Vec<String>>>>,
}

impl Messages {
    /// Prints a message, unless `--quiet` is given.
    pub(crate) fn note(&self, message: impl Display) {
        if !self.quiet {
            self.print(message);
        }
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, message: impl Display) {
        self.print(format_args!("warning: {message}"));
    }

    fn print(&self, message: impl Display) {
        match &self.kept {
            Some(kept) => kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(message.to_string()),
            None => to_stderr(format_args!("{message}\n")),
        }
    }
}

/// Who reads the messages may have left, which must not end a server.
fn to_stderr(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Printer {
        Printer {
            stdout: BufWriter::with_capacity(64 * 1024, Box::new(io::stdout())),
            messages: Messages { quiet, kept: None },
            progress: None,
        }
    }

    /// Gives results, messages and progress to another program.
    pub(crate) fn to_caller(
        stdout: Box<dyn Write + Send>,
        messages: Arc<Mutex<Vec<String>>>,
        progress: Progress,
    ) -> Printer {
        Printer {
            stdout: BufWriter::with_capacity(64 * 1024, stdout),
            messages: Messages {
                quiet: false,
                kept: Some(messages),
            },
            progress: Some(progress),
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
        match &self.progress {
            Some(progress) => Bar::hidden(progress),
            None => Bar::new(!self.messages.quiet && io::stderr().is_terminal()),
        }
    }

    /// A progress bar for work whose results appear on stdout meanwhile. Also hidden if stdout is a
    /// terminal.
    pub(crate) fn progress_beside_data(&self) -> Bar {
        match &self.progress {
            None if io::stdout().is_terminal() => Bar::new(false),
            _ => self.progress(),
        }
    }

    /// Prints a message, unless `--quiet` is given.
    pub(crate) fn note(&self, message: impl Display) {
        self.messages.note(message);
    }

    /// A printer of warnings and errors only.
    pub(crate) fn silent(&self) -> Printer {
        Printer::new(true)
    }

    /// Prints messages from another thread.
    pub(crate) fn messages(&self) -> Messages {
        self.messages.clone()
    }

    /// Prints a text on stderr as it is, also if `--quiet` is given.
    pub(crate) fn say(&self, text: impl Display) {
        match &self.messages.kept {
            Some(_) => self.messages.print(text),
            None => to_stderr(format_args!("{text}")),
        }
    }

    /// Prints a warning about the input or the result.
    pub(crate) fn warn(&self, message: impl Display) {
        self.messages.print(format_args!("warning: {message}"));
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
        self.messages
            .print(format_args!("error: {}", chain.join(": ")));
        if let Some(hint) = hint::of(error) {
            self.messages.print(format_args!("hint: {hint}"));
        }
    }
}
