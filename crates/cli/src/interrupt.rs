//! Exits on a signal: removes temporary files and sets the exit code of the signal.

use std::sync::{Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What to do at the first signal instead of ending the process.
static INSTEAD: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Calls `stop` at the first signal instead of ending the process, which the next signal does.
pub(crate) fn instead(stop: impl FnOnce() + Send + 'static) {
    *INSTEAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(stop));
}

/// Waits for a signal in the background. The exit code is 130 for SIGINT and 143 for SIGTERM.
pub(crate) fn watch() {
    // Without a handler, signals end the process by default.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    let _ = thread::Builder::new()
        .name("waypost-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let stop = INSTEAD
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                if let Some(stop) = stop {
                    stop();
                    continue;
                }
                waypost_io::temporary::remove_own();
                end(128 + signal);
            }
        });
}

#[allow(
    clippy::exit,
    reason = "other threads are running and cannot be stopped"
)]
fn end(code: i32) {
    std::process::exit(code);
}
