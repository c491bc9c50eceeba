//! Exits on a signal: removes temporary files and sets the exit code of the signal.

use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Waits for a signal in the background. The exit code is 130 for SIGINT and 143 for SIGTERM.
pub(crate) fn watch() {
    // Without a handler, signals end the process by default.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    let _ = thread::Builder::new()
        .name("waypost-signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
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
