//! Reading every capture of an index, on all cores.
//!
//! ```text
//! sources ─► feed ─► blocks ─► rayon: lines ─► Capture ─► a partial result ─► merged in order
//! ```
//!
//! The feed cuts plain files into ranges that the workers read themselves, gzip files into groups
//! of members that they inflate themselves, and inflates everything else on its own thread. A
//! block begins and ends anywhere: the piece of a line at its start and the one at its end are put
//! together where the results are merged. So what comes out does not depend on the number of
//! threads or on the size of blocks.
//!
//! ```
//! use waypost_index::scan::{self, At, Job};
//! use waypost_index::{Capture, Field, Fields, Select, Source};
//!
//! /// Counts captures with status 200.
//! struct Found;
//!
//! impl Job for Found {
//!     type Partial = u64;
//!
//!     fn fields(&self) -> Fields {
//!         Field::Status.into()
//!     }
//!     fn partial(&self) -> u64 {
//!         0
//!     }
//!     fn capture(&self, found: &mut u64, capture: &Capture<'_>, _: At) {
//!         *found += u64::from(capture.status() == Some(200));
//!     }
//!     fn merge(&self, earlier: &mut u64, later: u64, _: At) {
//!         *earlier += later;
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.cdxj");
//! # std::fs::write(&path, "com,example)/ 2004 {\"url\": \"http://example.com/\", \"status\": \"200\"}\n")?;
//! let (found, outcome) = scan::scan(&[Source::new(path)], &Found, scan::Options::default())?;
//! assert_eq!(found, 1);
//! assert_eq!(outcome.tally.captures, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod feed;
mod merge;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;

use crate::capture::{Capture, Fields};
use crate::error::{Error, Result};
use crate::input::{Compression, Source};
use crate::layout::{FileLayout, Shape};
use crate::rejects::{Rejects, RejectsFile};
use crate::select::Select;
use crate::web::NonWeb;

pub use waypost_io::LONGEST_LINE;

/// What to do with the captures: a partial result for each block, and how two of them merge.
pub trait Job: Sync {
    /// What is found in some lines that follow each other.
    type Partial: Send;

    /// The fields that [`capture`](Job::capture) looks at.
    fn fields(&self) -> Fields;

    /// Whether to check JSON to its end, and not only as far as the fields go.
    fn whole(&self) -> bool {
        false
    }

    /// Nothing found yet.
    fn partial(&self) -> Self::Partial;

    /// Sees a capture that the filters let through.
    fn capture(&self, partial: &mut Self::Partial, capture: &Capture<'_>, at: At);

    /// Sees every line, without its end, before what it is: captures, headers, bad lines.
    #[inline]
    fn line(&self, partial: &mut Self::Partial, line: &[u8], at: At) {
        let _ = (partial, line, at);
    }

    /// Takes in what comes later in the input. In `later`, places count from the start of its
    /// block; `base` is where that block begins.
    fn merge(&self, earlier: &mut Self::Partial, later: Self::Partial, base: At);
}

/// A place in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The number of the source, from 0.
    pub source: usize,
    /// The line, from 0: of the block, or of the source where a block begins.
    pub line: u64,
    /// The byte, from 0, decompressed.
    pub byte: u64,
}

impl At {
    /// This place, seen from the start of the source in which its block begins at `base`.
    #[must_use]
    pub fn from_base(self, base: At) -> At {
        At {
            source: base.source,
            line: base.line + self.line,
            byte: base.byte + self.byte,
        }
    }
}

/// How to read.
#[derive(Default)]
pub struct Options<'a> {
    /// Which captures the job sees.
    pub select: Select,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Keeps the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Counts the bytes of the sources that are done, as they are stored.
    pub progress: Option<&'a AtomicU64>,
    /// The size of blocks; `None` for what is best. Results do not depend on it.
    pub block: Option<usize>,
}

/// What was read, besides what the job found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All sources together.
    pub tally: Tally,
    /// Each source.
    pub files: Vec<FileReport>,
    /// Bad lines.
    pub rejects: Rejects,
    /// Sources that were cut or corrupt. What came before is counted.
    pub damage: Vec<Error>,
}

/// One source that was read.
#[derive(Debug)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its layout.
    pub layout: FileLayout,
    /// Its compression.
    pub compression: Compression,
    /// How many lines it has.
    pub lines: u64,
    /// How many bytes it has, decompressed.
    pub bytes: u64,
}

/// Lines, counted by what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines of any kind.
    pub lines: u64,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// ` CDX …` and `!…`.
    pub headers: u64,
    /// Captures of the Web, whatever the filters say.
    pub captures: u64,
    /// Of these, and of the rows below if they are wanted, those that the filters let through.
    pub selected: u64,
    /// Captures of the Web that are revisits.
    pub revisits: u64,
    /// Captures whose timestamp has a month 00, an hour 24 or the like.
    pub odd_timestamps: u64,
    /// Rows that are no captures of the Web, by kind.
    pub non_web: [u64; NonWeb::COUNT],
    /// Captures and rows by the shape of their lines.
    pub shapes: Vec<(Shape, u64)>,
}

impl Tally {
    /// The kinds of rows that are no captures of the Web, as far as there are any.
    pub fn non_web_kinds(&self) -> impl Iterator<Item = (NonWeb, u64)> + '_ {
        NonWeb::ALL
            .into_iter()
            .map(|kind| (kind, self.non_web[kind as usize]))
            .filter(|(_, count)| *count > 0)
    }

    fn add_shape(&mut self, shape: Shape, count: u64) {
        match self.shapes.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, known)) => *known += count,
            None => self.shapes.push((shape, count)),
        }
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, later: &Tally) {
        self.lines += later.lines;
        self.bytes += later.bytes;
        self.headers += later.headers;
        self.captures += later.captures;
        self.selected += later.selected;
        self.revisits += later.revisits;
        self.odd_timestamps += later.odd_timestamps;
        for (count, more) in self.non_web.iter_mut().zip(later.non_web) {
            *count += more;
        }
        for (shape, count) in &later.shapes {
            self.add_shape(*shape, *count);
        }
    }
}

/// Reads all sources, in order.
///
/// # Errors
/// When a source cannot be opened or read; with [`strict`](Options::strict), at the first bad line
/// or damage.
pub fn scan<J: Job>(
    sources: &[Source],
    job: &J,
    options: Options<'_>,
) -> Result<(J::Partial, Outcome)> {
    merge::run(sources, job, options)
}
