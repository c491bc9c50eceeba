//! Refuses to overwrite an input, or one output with another: one check for all commands.
//!
//! Compares every file or folder that a command would write, according to its arguments, with every
//! other one, and with every one that it would read. Files are compared by device and inode, which detects links and other
//! spellings of a path.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use waypost_index::input;
use waypost_io::Source;
use waypost_io::opened::same_file;

use crate::hint::Hint;

/// Arguments that name outputs.
const WRITTEN: [&str; 8] = [
    "output",
    "zipnum",
    "rejects",
    "html",
    "csv",
    "trace",
    "misses",
    "access_log",
];

/// Arguments that name folders in which nothing is read.
const FOLDERS: [&str; 3] = ["temporary", "cache", "dir_root"];

/// Commands that can work in place, and the argument that may be overwritten.
const IN_PLACE: [(&str, &str); 3] = [
    ("index sort", "inputs"),
    ("filter add", "filter"),
    ("filter exclude", "filter"),
];

/// Checks the arguments of a command.
///
/// # Errors
/// If an output is also an input, or another output.
pub(crate) fn check(matches: &ArgMatches) -> anyhow::Result<()> {
    let mut command = Vec::new();
    let mut at = matches;
    while let Some((name, inner)) = at.subcommand() {
        command.push(name);
        at = inner;
    }
    let command = command.join(" ");
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for id in at.ids() {
        let Ok(Some(paths)) = at.try_get_many::<PathBuf>(id.as_str()) else {
            continue;
        };
        let is_written = WRITTEN.contains(&id.as_str());
        for path in paths {
            if is_written {
                written.push(path);
            } else if !FOLDERS.contains(&id.as_str())
                && !IN_PLACE.contains(&(command.as_str(), id.as_str()))
            {
                read.push(path);
            }
        }
    }
    for (place, output) in written.iter().enumerate() {
        let is_twice = |other: &&&PathBuf| place_of(output) == place_of(other);
        if !is_special(output)
            && let Some(other) = written[..place].iter().find(is_twice)
        {
            let message = match other == output {
                true => format!("{} is named for two outputs", output.display()),
                false => format!(
                    "{} and {} are the same output",
                    other.display(),
                    output.display()
                ),
            };
            return Err(anyhow::anyhow!(message)).hint("write each output to a file of its own");
        }
    }
    for output in written.into_iter().filter(|path| path.exists()) {
        for input in &read {
            if let Some(input) = same(output, input) {
                let message = if input == *output {
                    format!("{} is an input and an output", input.display())
                } else {
                    format!(
                        "{} is an input and, as {}, an output",
                        input.display(),
                        output.display()
                    )
                };
                return Err(anyhow::anyhow!(message)).hint("write to another file");
            }
        }
    }
    Ok(())
}

/// The same for outputs in a folder, which are not named by arguments.
///
/// # Errors
/// If one of them is an input, or `other`.
pub(crate) fn check_folder(
    outputs: impl Iterator<Item = PathBuf>,
    inputs: &[Source],
    other: Option<&Path>,
) -> anyhow::Result<()> {
    for output in outputs {
        if other.is_some_and(|other| place_of(other) == place_of(&output)) {
            let message = format!("{} is named for two outputs", output.display());
            return Err(anyhow::anyhow!(message)).hint("write each output to a file of its own");
        }
        let is_input =
            |source: &Source| same_file(&output, source.container().unwrap_or(source).path());
        if inputs.iter().any(is_input) {
            let message = format!("{} is an input and an output", output.display());
            return Err(anyhow::anyhow!(message)).hint("write to another folder");
        }
    }
    Ok(())
}

/// The path of a file that may not exist yet, without links.
fn place_of(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// Whether it is a device or a pipe, to which several outputs can be written.
fn is_special(path: &Path) -> bool {
    path == Path::new("-") || path.exists() && !path.is_file() && !path.is_dir()
}

/// Returns the input that is the same file as `output`: `input` itself, or a file in that folder.
fn same(output: &Path, input: &Path) -> Option<PathBuf> {
    if same_file(output, input) && !input.is_dir() {
        return Some(input.to_owned());
    }
    if output.is_dir() {
        return None;
    }
    // The data files of a ZipNum index are next to it.
    let is_idx = |extension: &OsStr| extension == "idx" || extension == "summary";
    let folder = match input.extension().is_some_and(is_idx) && input.is_file() {
        true => input.parent()?,
        false => input,
    };
    // Whatever the command reads in a folder, a file that is already there is not an output.
    if is_below(output, folder) {
        return Some(output.to_owned());
    }
    // Links to files in the folder.
    let inside = match input.is_dir() {
        true => input::expand([input]).ok()?.sources,
        false => return None,
    };
    inside
        .into_iter()
        .map(|source| source.container().unwrap_or(&source).path().to_owned())
        .find(|path| same_file(output, path))
}

fn is_below(file: &Path, folder: &Path) -> bool {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => folder.is_dir() && file.starts_with(folder),
        _ => false,
    }
}
