//! Exit codes: 0 yes, 1 no, 2 error. A closed pipe is not an error.

use std::io;
use std::process::ExitCode;

/// The result of a command that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; found; clean.
    Yes,
    /// Nothing found; not clean; threshold not met.
    No,
    /// An error that was printed already.
    Failed,
}

impl Exit {
    /// The exit code after an error.
    pub(crate) const ERROR: u8 = 2;
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Yes => ExitCode::from(0),
            Exit::No => ExitCode::from(1),
            Exit::Failed => ExitCode::from(Exit::ERROR),
        }
    }
}

/// Whether the reader of stdout has closed the pipe, as `head` does.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
