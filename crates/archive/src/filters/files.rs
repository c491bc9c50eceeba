//! Files that may be summaries, by their names.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use waypost_summary::map::is_companion;

/// How the names of summaries end, apart from compression.
const SUFFIXES: [&str; 6] = [
    ".ukvs",
    ".cdxj",
    ".filter",
    ".orestes",
    ".csv",
    "mementomap",
];

/// The name of a file without the suffix of its compression.
fn plain_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let mut packed = [".gz", ".zst", ".bz2"].iter();
    let stripped = packed.find_map(|suffix| name.strip_suffix(suffix));
    Some(stripped.unwrap_or(name))
}

/// Whether a file in a folder is a summary by its name. Files that go with a map are not.
pub fn may_be_summary(path: &Path) -> bool {
    plain_name(path).is_some_and(|name| {
        let ends = SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        ends && !name.starts_with('.') && !is_companion(path)
    })
}

/// Whether a file was written within the last second, and so may not be complete.
pub fn is_recent(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| {
        let age = SystemTime::now().duration_since(at);
        age.is_ok_and(|age| age < Duration::from_secs(1))
    })
}
