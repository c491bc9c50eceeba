//! Finds out which version of the list of public suffixes is compiled in: the lock file tells.
#![allow(
    clippy::print_stdout,
    reason = "that is how a build script talks to Cargo"
)]

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The lock file is that of the workspace which is built, and so is the folder of the output.
    let starts = ["OUT_DIR", "CARGO_MANIFEST_DIR"].map(std::env::var_os);
    let found = starts
        .into_iter()
        .flatten()
        .find_map(|start| version_above(Path::new(&start)));
    let version = match found {
        Some((version, lock)) => {
            println!("cargo::rerun-if-changed={}", lock.display());
            version
        }
        None => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=WAYPOST_PSL_VERSION={version}");
}

/// The version in the nearest lock file above a folder that has one of `psl`.
fn version_above(start: &Path) -> Option<(String, PathBuf)> {
    start.ancestors().find_map(|folder| {
        let lock = folder.join("Cargo.lock");
        let text = std::fs::read_to_string(&lock).ok()?;
        let (_, entry) = text.split_once("name = \"psl\"\nversion = \"")?;
        let (version, _) = entry.split_once('"')?;
        Some((version.to_owned(), lock))
    })
}
