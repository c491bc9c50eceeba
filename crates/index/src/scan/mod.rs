//! Reading every capture of an index, on all cores.
//!
//! ```text
//! sources ─► feed ─► blocks ─► rayon: lines ─► Capture ─► a partial ─► merged in order
//! ```
//!
//! The feed cuts plain files into ranges that the workers read themselves, gzip files into groups
//! of members that they inflate themselves, and inflates everything else on its own thread. A
//! block begins and ends anywhere: the piece of a line at its start and the one at its end are put
//! together where the results are merged. So what comes out does not depend on the number of
//! threads or on the size of blocks.
//!
//! What is found in a block is a [partial](waypost_io::partial). A [`Job`] says what partials are: how an
//! empty one looks, how a capture is added, how two that follow each other merge, and how they are
//! written as bytes.
//!
//! ```
//! use waypost_io::partial::{Decoder, Encoder};
//! use waypost_index::scan::{self, At, Job};
//! use waypost_index::{Capture, Field, Fields, Result, Source};
//!
//! /// Counts captures with status 200.
//! struct Count;
//!
//! impl Job for Count {
//!     type Partial = u64;
//!
//!     fn fields(&self) -> Fields {
//!         Field::Status.into()
//!     }
//!     fn empty(&self) -> u64 {
//!         0
//!     }
//!     fn add(&self, count: &mut u64, capture: &Capture<'_>, _: At) {
//!         *count += u64::from(capture.status() == Some(200));
//!     }
//!     fn merge(&self, earlier: &mut u64, later: u64, _: At) -> Result<()> {
//!         *earlier += later;
//!         Ok(())
//!     }
//!     fn to_bytes(&self, count: &u64) -> Result<Vec<u8>> {
//!         let mut out = Encoder::new("count", 1);
//!         out.number(*count);
//!         Ok(out.finish())
//!     }
//!     fn from_bytes(&self, bytes: &[u8]) -> Result<u64> {
//!         Decoder::new(bytes, "count", 1)?.number()
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.cdxj");
//! # std::fs::write(&path, "com,example)/ 2004 {\"url\": \"http://example.com/\", \"status\": \"200\"}\n")?;
//! let (found, outcome) = scan::scan(&[Source::new(&path)], &Count, scan::Options::default())?;
//! assert_eq!(found, 1);
//! assert_eq!(outcome.tally.captures, 1);
//!
//! // The same in ranges, as the workers of a cluster do it: each reads its range and sends bytes,
//! // which are merged in order.
//! let scan = scan::Ranges::new(&Count, Default::default());
//! let mut whole = None;
//! for range in scan::ranges(&path, 20)? {
//!     let piece = scan.read(&range)?;
//!     let piece = scan.from_bytes(&scan.to_bytes(&piece)?)?;
//!     whole = Some(match whole {
//!         None => piece,
//!         Some(earlier) => scan.merge(earlier, piece)?,
//!     });
//! }
//! let (found, _) = scan.finish(whole.unwrap())?;
//! assert_eq!(found, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod feed;
mod fold;
mod merge;
mod range;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};

pub use range::{Piece, Range, Ranges, ranges};

use crate::capture::{Capture, Fields};
use crate::error::{Error, Result};
use crate::input::{Compression, Source};
use crate::layout::{FileLayout, Shape};
use crate::rejects::{Rejects, RejectsFile};
use crate::select::Select;
use crate::web::NonWeb;

pub use waypost_io::LONGEST_LINE;

/// What to do with the captures: what a partial is, and how partials merge.
///
/// Partials are a monoid: [`empty`](Job::empty) changes nothing, and
/// [merging](Job::merge) is associative as long as the order is kept. A partial shares nothing with
/// others that could change.
pub trait Job: Sync {
    /// What is found in some lines that follow each other.
    type Partial: Send;

    /// The fields that [`add`](Job::add) looks at.
    fn fields(&self) -> Fields;

    /// Whether to check JSON to its end, and not only as far as the fields go.
    fn whole(&self) -> bool {
        false
    }

    /// Nothing found yet.
    fn empty(&self) -> Self::Partial;

    /// Adds a capture that the filters let through.
    fn add(&self, partial: &mut Self::Partial, capture: &Capture<'_>, at: At);

    /// Adds a line of a list of URIs. Returns whether the filters let it through.
    ///
    /// # Errors
    /// When it has no SURT.
    fn add_uri(
        &self,
        partial: &mut Self::Partial,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        let _ = (partial, line, select);
        Ok(false)
    }

    /// Sees every line, without its end, before what it is: captures, headers, bad lines.
    #[inline]
    fn line(&self, partial: &mut Self::Partial, line: &[u8], at: At) {
        let _ = (partial, line, at);
    }

    /// All lines of a block were added. Called on the thread that added them, before merging.
    ///
    /// # Errors
    /// When the job cannot go on.
    fn seal(&self, partial: &mut Self::Partial) -> Result<()> {
        let _ = partial;
        Ok(())
    }

    /// Takes in what comes later in the input. In `later`, places count from where it begins, which
    /// is at `base` seen from where `earlier` begins.
    ///
    /// # Errors
    /// When what exceeds the memory cannot be spilled.
    fn merge(&self, earlier: &mut Self::Partial, later: Self::Partial, base: At) -> Result<()>;

    /// The partial as bytes that say what they are and of which version.
    ///
    /// # Errors
    /// When spilled data cannot be read.
    fn to_bytes(&self, partial: &Self::Partial) -> Result<Vec<u8>>;

    /// The partial that [`to_bytes`](Job::to_bytes) wrote.
    ///
    /// # Errors
    /// When the bytes are something else or damaged.
    #[allow(
        clippy::wrong_self_convention,
        reason = "what the bytes are read into depends on the job"
    )]
    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Partial>;
}

/// A place in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct At {
    /// The number of the source, from 0.
    pub source: usize,
    /// The line, from 0: of the source, or of the partial in the source in which that begins.
    pub line: u64,
    /// The byte, from 0, decompressed.
    pub byte: u64,
}

impl At {
    /// This place of a partial, seen from where the partial begins at `base`.
    #[must_use]
    pub fn from_base(self, base: At) -> At {
        if self.source > 0 {
            return At {
                source: base.source + self.source,
                ..self
            };
        }
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
    /// Whether the sources are lists of URIs, one a line, and not indexes.
    pub list: bool,
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Lines of any kind.
    pub lines: u64,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// ` CDX …` and `!…`.
    pub headers: u64,
    /// URIs of lists that the filters let through.
    pub uris: u64,
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
        self.uris += later.uris;
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
