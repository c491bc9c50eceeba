//! Checking an index: what it is, what it holds and what is wrong with it.
//!
//! One pass finds everything. In an index in order, equal keys and equal lines stand next to each
//! other; in any other they are told by their hashes, which are gathered from the start, because
//! nobody knows what comes, and spilled beyond the memory that is granted. All counts are exact.
//!
//! [`check()`] reads on all cores of this machine. To check an index in ranges, read them with a
//! [`Checking`] job and [`Ranges`](crate::scan::Ranges), merge the pieces, and make the
//! [`Report`] of the whole with [`Checking::report`].

mod keys;
mod pass;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

pub use keys::KeysReport;
pub use pass::{Checking, Part};

use crate::error::Result;
use crate::input::Source;
use crate::rejects::RejectsFile;
use crate::scan::{self, At, Outcome};
use crate::select::Select;
use crate::timestamp::Time;

/// How to check.
pub struct Options<'a> {
    /// Which captures to count.
    pub select: Select,
    /// Whether to compare keys with the SURTs of the URLs.
    pub keys: bool,
    /// How much memory to use, in bytes.
    pub memory: usize,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Keeps the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Counts the bytes of the sources that are done.
    pub progress: Option<&'a AtomicU64>,
    /// The size of blocks; `None` for what is best.
    pub block: Option<usize>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            select: Select::default(),
            keys: false,
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
            strict: false,
            rejects: None,
            progress: None,
            block: None,
        }
    }
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// Lines by what they are, bad lines, damage, files with their layouts.
    pub outcome: Outcome,
    /// How many different URI-Rs the captures have.
    pub uri_rs: u64,
    /// How many lines say nothing new, because the same line came before.
    pub duplicates: u64,
    /// The first line of a file that should have come before the one above it.
    pub violation: Option<Violation>,
    /// Whether the files follow each other in order, too.
    pub files_in_order: bool,
    /// The time of the first capture.
    pub first: Option<Time>,
    /// The time of the last capture.
    pub last: Option<Time>,
    /// How the keys compare with the SURTs of the URLs, if that was asked.
    pub keys: Option<KeysReport>,
}

/// Two lines that stand in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The second of them.
    pub at: At,
    /// The first, as far as it is kept.
    pub before: Vec<u8>,
    /// The second, as far as it is kept.
    pub here: Vec<u8>,
}

impl Report {
    /// Whether every file is sorted.
    pub fn is_sorted(&self) -> bool {
        self.violation.is_none()
    }

    /// Whether nothing is wrong: every file sorted and whole, no bad line, no line twice, and, if
    /// they were compared, all keys those of one dialect.
    pub fn is_clean(&self) -> bool {
        self.is_sorted()
            && self.duplicates == 0
            && self.outcome.rejects.total() == 0
            && self.outcome.damage.is_empty()
            && self.keys.as_ref().is_none_or(KeysReport::is_clean)
    }

    /// The layouts of the files and of lines that differ from them, the most frequent first.
    pub fn layouts(&self) -> Vec<String> {
        let mut layouts: Vec<(String, u64)> = Vec::new();
        for file in &self.outcome.files {
            let name = file.layout.to_string();
            match layouts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, lines)) => *lines += file.lines,
                None => layouts.push((name, file.lines)),
            }
        }
        if layouts.len() > 1 {
            layouts.retain(|(name, _)| name != "unknown");
        }
        layouts.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
        let mut names: Vec<String> = layouts.into_iter().map(|(name, _)| name).collect();
        for (shape, _) in &self.outcome.tally.shapes {
            let known = self
                .outcome
                .files
                .iter()
                .any(|file| file.layout.shape() == Some(*shape));
            if !known {
                names.push(shape.to_string());
            }
        }
        names
    }
}

/// Checks all sources together.
///
/// # Errors
/// When a source cannot be read, or temporary files cannot be written; with
/// [`strict`](Options::strict), at the first bad line or damage.
pub fn check(sources: &[Source], options: Options<'_>) -> Result<Report> {
    let job = Checking::new(options.keys, options.memory, &options.temporary);
    let scan_options = scan::Options {
        select: options.select,
        strict: options.strict,
        rejects: options.rejects,
        list: false,
        progress: options.progress,
        block: options.block,
    };
    let (part, outcome) = scan::scan(sources, &job, scan_options)?;
    job.report(part, outcome)
}

#[cfg(test)]
mod tests;
