//! Ending on a signal: temporary files are removed, and the exit code says which signal it was.

use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Waits for an interrupt in the background. 130 is the exit code for SIGINT, 143 for SIGTERM.
pub(crate) fn watch() {
    // Without a handler, signals end the process as they always did.
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
    reason = "other threads are at work and cannot be told to return"
)]
fn end(code: i32) {
    std::process::exit(code);
}
