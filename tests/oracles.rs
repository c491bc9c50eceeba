//! What oracle tests need from outside: included by the test files of several crates.
//!
//! Without it a test is skipped and says so; where `CI` is set, it fails instead, so that no oracle is
//! left out unnoticed.
#![allow(dead_code, reason = "no test file needs all of it")]
#![allow(clippy::print_stderr, reason = "a test says that it is skipped")]

use std::path::PathBuf;

/// The folder of recorded answers, which `WAYPOST_SHARED` names.
pub(crate) fn shared() -> Option<PathBuf> {
    named("WAYPOST_SHARED")
}

/// A Python that has the packages of `tests/requirements.txt`, which `WAYPOST_PYTHON` names.
pub(crate) fn python() -> Option<PathBuf> {
    named("WAYPOST_PYTHON")
}

/// A folder that has the packages of `tests/package.json`, which `WAYPOST_NODE` names.
pub(crate) fn node_packages() -> Option<PathBuf> {
    named("WAYPOST_NODE")
}

/// Chromium, which `WAYPOST_CHROMIUM` names.
pub(crate) fn chromium() -> Option<PathBuf> {
    named("WAYPOST_CHROMIUM")
}

fn named(variable: &str) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(path) => Some(path.into()),
        None => {
            skip(&format!("{variable} is not set"));
            None
        }
    }
}

/// Says why a test is skipped; where `CI` is set, fails it.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run: {why}");
    eprintln!("skipped: {why}");
}
