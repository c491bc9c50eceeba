//! Checks an index: its layout, its contents and its errors.
//!
//! In a sorted index, equal keys and equal lines are adjacent. Otherwise they are found by their hashes,
//! which are spilled when they exceed the memory limit. Files whose first lines are sorted are probably
//! sorted to the end, so no hashes are collected; if a later line is out of order, the files are read once
//! more. Everything else, and all that can be read only once, is hashed in the first pass. All counts
//! are exact.
//!
//! [`check()`] reads on all cores of this machine. To check an index in ranges, read them with a
//! [`Checking`] job and [`Ranges`](crate::scan::Ranges), merge the pieces, and create the
//! [`Report`] with [`Checking::report`].

mod keys;
mod pass;

use waypost_io::progress::{Phase, Progress};
use waypost_io::{Resources, Result, Source};

pub use keys::KeysReport;
pub use pass::{Checking, Part};

use crate::rejects::RejectsFile;
use crate::scan::{self, At, Job, Outcome};
use crate::select::Select;
use crate::timestamp::Time;

/// How many bytes of a file show whether it is probably sorted.
const HEAD: usize = 64 << 10;

/// Options of a check.
#[derive(Default)]
pub struct Options<'a> {
    /// Which captures to count.
    pub select: Select,
    /// Whether to compare keys with the SURTs of the URLs.
    pub keys: bool,
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Saves the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Where to report progress.
    pub progress: Progress,
    /// The block size; `None` for the default.
    pub block: Option<usize>,
    /// What other machines have read, to be merged instead of reading the sources.
    pub pieces: Option<scan::Pieces>,
}

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// Line counts, bad lines, damage, and files with their layouts.
    pub outcome: Outcome,
    /// Number of distinct URI-Rs.
    pub uri_rs: u64,
    /// Number of duplicate lines.
    pub duplicates: u64,
    /// The first line that is smaller than the line before it.
    pub violation: Option<Violation>,
    /// Whether each file also starts where the previous one ends, in sort order.
    pub files_in_order: bool,
    /// The time of the first capture.
    pub first: Option<Time>,
    /// The time of the last capture.
    pub last: Option<Time>,
    /// The comparison of keys with the SURTs of URLs, if requested.
    pub keys: Option<KeysReport>,
}

/// Two adjacent lines in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The position of the second line.
    pub at: At,
    /// The start of the first line.
    pub before: Vec<u8>,
    /// The start of the second line.
    pub here: Vec<u8>,
}

impl Report {
    /// Whether every file is sorted.
    pub fn is_sorted(&self) -> bool {
        self.violation.is_none()
    }

    /// Whether nothing is wrong: every file is sorted and complete, there are no bad or duplicate
    /// lines, and all keys, if they were compared, are those of one dialect.
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
/// If a source cannot be read or a temporary file cannot be written; with
/// [`strict`](Options::strict), on the first bad line or damage.
pub fn check(sources: &[Source], options: Options<'_>) -> Result<Report> {
    let Options {
        select,
        keys,
        resources,
        progress,
        block,
        ..
    } = options;
    let mut job = Checking::of_sorted(keys, &resources);
    // Partials from other machines already contain hashes.
    let hashed = options.pieces.is_some() || !look_sorted(sources, &job, &select, block);
    if hashed {
        job = Checking::new(keys, &resources);
    }
    let first_pass = scan::Options {
        select: select.clone(),
        strict: options.strict,
        rejects: options.rejects,
        list: false,
        progress: progress.clone(),
        block,
        pieces: options.pieces,
    };
    progress.read(sources);
    let (mut part, outcome) = scan::scan(sources, &job, first_pass)?;
    if !hashed && part.is_unsorted() {
        let second_pass = scan::Options {
            select,
            progress: progress.clone(),
            block,
            ..scan::Options::default()
        };
        progress.read(sources);
        let (hashed, _) = scan::scan(sources, &Checking::new(false, &resources), second_pass)?;
        part.add_hashes(hashed)?;
    }
    progress.begin(Phase::Sorting, None);
    job.report(part, outcome)
}

/// Whether the first lines of each source are sorted, and the sources too, as far as these lines tell. No
/// if a source can be read only once.
fn look_sorted(sources: &[Source], job: &Checking, select: &Select, block: Option<usize>) -> bool {
    let mut all = job.empty();
    sources.iter().enumerate().all(|(source, file)| {
        let base = At {
            source,
            ..At::default()
        };
        scan::head(file, job, select, block.unwrap_or(HEAD).min(HEAD))
            .is_some_and(|part| job.merge(&mut all, part, base).is_ok() && !all.is_unsorted())
    })
}

#[cfg(test)]
mod tests;
