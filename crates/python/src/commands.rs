//! The commands of `waypost`, called in this process.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use waypost_cli::Failure;
use waypost_io::{Place, Progress};

use crate::errors;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Runs a command. Returns whether the answer is yes, what it printed, and its messages. Calls
/// `progress(phase, done, total)` meanwhile.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None))]
pub(crate) fn call<'py>(
    py: Python<'py>,
    arguments: Vec<std::ffi::OsString>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(bool, Bound<'py, PyBytes>, Vec<String>)> {
    let reported = Progress::new();
    let (sender, mut done) = channel();
    let running = reported.clone();
    // On a thread of its own, so that this one can report progress and see Ctrl-C.
    std::thread::spawn(move || {
        // The receiver is gone after Ctrl-C.
        let _ = sender.send(waypost_cli::call(arguments, running));
    });
    let tell = || match &progress {
        Some(progress) => {
            let now = reported.snapshot();
            progress
                .call1((now.phase.name(), now.done, now.total))
                .map(drop)
        }
        None => Ok(()),
    };
    loop {
        let (received, back) = py.detach(move || (done.recv_timeout(TICK), done));
        done = back;
        match received {
            Ok(called) => {
                let called = called.map_err(|failure| of_failure(py, &failure))?;
                // However short it was, its end is seen.
                tell()?;
                return Ok((called.yes, PyBytes::new(py, &called.data), called.messages));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "an internal error: a thread has panicked";
                return Err(errors::error(py, message, None, &Place::default()));
            }
        }
        // The command goes on to its end after Ctrl-C, but nobody waits for it.
        py.check_signals()?;
        tell()?;
    }
}

/// Reads a range, a line of `waypost worker plan`. Returns the line with its partial result.
#[pyfunction]
pub(crate) fn work(py: Python<'_>, line: &str) -> PyResult<String> {
    py.detach(|| waypost_cli::work(line))
        .map_err(|failure| of_failure(py, &failure))
}

/// Combines lines that [`work`] has returned for consecutive ranges of a file into one.
#[pyfunction]
pub(crate) fn combine(py: Python<'_>, lines: Vec<String>) -> PyResult<String> {
    py.detach(|| waypost_cli::combine(lines))
        .map_err(|failure| of_failure(py, &failure))
}

fn of_failure(py: Python<'_>, failure: &Failure) -> PyErr {
    let place = Place {
        file: failure.file.clone(),
        line: failure.line,
        byte: failure.byte,
        column: None,
    };
    errors::error(py, &failure.message, failure.hint.as_deref(), &place)
}
