//! Scans all captures of an index, on all cores.
//!
//! ```text
//! sources ─► feed ─► blocks ─► rayon: lines ─► Capture ─► a partial ─► merged in order
//! ```
//!
//! The feed splits plain files into ranges, which workers read themselves, and gzip files into groups
//! of members, which workers inflate themselves. It decompresses everything else on its own thread. A
//! block may start and end anywhere: fragments of lines at its borders are joined when results are
//! merged. The result therefore does not depend on the number of threads or the size of blocks.
//!
//! The result of a block is a [partial](waypost_io::partial). A [`Job`] defines the empty partial, how
//! a capture is added to one, how two consecutive partials merge, and how they are serialised.
//!
//! ```
//! use waypost_index::scan::{self, At, Job};
//! use waypost_index::{Capture, Field, Fields};
//! use waypost_io::partial::{Decoder, Encoder};
//! use waypost_io::{Result, Source};
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
//! // The same in ranges, as on a cluster: each worker reads a range and sends its partial as
//! // bytes, and the partials are merged in order.
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
mod cut;
mod ends;
mod feed;
mod fold;
mod merge;
mod pieces;
mod random;
mod range;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use waypost_io::{Compression, Error, LONGEST_LINE, Progress, Result, Source};

pub use cut::ranges;
pub use ends::{head, tail};
pub use pieces::Pieces;
pub use range::{Piece, Range, Ranges};

use crate::capture::{Capture, Fields};
use crate::layout::{FileLayout, Shape};
use crate::rejects::{Rejects, RejectsFile};
use crate::select::Select;
use crate::web::NonWeb;

/// Defines what a scan computes: its partials, and how they merge.
///
/// Partials are a monoid: [`empty`](Job::empty) is the identity, and [merging](Job::merge) is
/// associative. Partials share no mutable state.
pub trait Job: Sync {
    /// The result of some consecutive lines.
    type Partial: Send;

    /// The fields that [`add`](Job::add) uses.
    fn fields(&self) -> Fields;

    /// Whether to check JSON to its end, and not only up to the requested fields.
    fn whole(&self) -> bool {
        false
    }

    /// How many partials of blocks there may be at a time. Fewer than two for each thread keep threads
    /// waiting, so only jobs whose partials take much memory have a limit.
    fn most_partials(&self) -> usize {
        usize::MAX
    }

    /// The partial of an empty input.
    fn empty(&self) -> Self::Partial;

    /// Adds a capture that passed the filters.
    fn add(&self, partial: &mut Self::Partial, capture: &Capture<'_>, at: At);

    /// Adds a line of a list of URIs. Returns whether it passed the filters.
    ///
    /// # Errors
    /// If it has no SURT.
    fn add_uri(
        &self,
        partial: &mut Self::Partial,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        let _ = (partial, line, select);
        Ok(false)
    }

    /// Called for every line, without its newline, before it is parsed: captures, headers, bad lines.
    /// `before` is the line before it, if that is in the same block.
    #[inline]
    fn line(&self, partial: &mut Self::Partial, line: &[u8], before: Option<&[u8]>, at: At) {
        let _ = (partial, line, before, at);
    }

    /// Called after all lines of a block were added, with the last of them.
    #[inline]
    fn last_line(&self, partial: &mut Self::Partial, line: &[u8]) {
        let _ = (partial, line);
    }

    /// Called after [`line`](Job::line) for the last line of a source if it is incomplete.
    fn cut(&self, partial: &mut Self::Partial) {
        let _ = partial;
    }

    /// Called after all lines of a block were added, on the same thread, before merging.
    ///
    /// # Errors
    /// If the job cannot continue.
    fn seal(&self, partial: &mut Self::Partial) -> Result<()> {
        let _ = partial;
        Ok(())
    }

    /// Merges a later partial into an earlier one. Positions in `later` are relative to its start,
    /// which is at `base` relative to the start of `earlier`.
    ///
    /// # Errors
    /// If spilling fails.
    fn merge(&self, earlier: &mut Self::Partial, later: Self::Partial, base: At) -> Result<()>;

    /// Serialises the partial, with its type and version.
    ///
    /// # Errors
    /// If spilled data cannot be read.
    fn to_bytes(&self, partial: &Self::Partial) -> Result<Vec<u8>>;

    /// Deserialises the result of [`to_bytes`](Job::to_bytes).
    ///
    /// # Errors
    /// If the bytes are invalid.
    #[allow(
        clippy::wrong_self_convention,
        reason = "deserialisation depends on the job"
    )]
    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Partial>;
}

/// A position in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct At {
    /// The number of the source, from 0.
    pub source: usize,
    /// The line, from 0, relative to the source, or to the partial in the source where that starts.
    pub line: u64,
    /// The offset in the decompressed source.
    pub byte: u64,
}

impl At {
    /// Converts a position relative to a partial that starts at `base`.
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

/// Options of a scan.
#[derive(Default)]
pub struct Options<'a> {
    /// The capture filters.
    pub select: Select,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Saves the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Whether the sources are lists of URIs, one per line, instead of indexes.
    pub list: bool,
    /// Where to report the bytes that were read, as stored. The caller begins the phase.
    pub progress: Progress,
    /// The block size; `None` for the default. Results do not depend on it.
    pub block: Option<usize>,
    /// What other machines have read, to be merged instead of reading the sources.
    pub pieces: Option<Pieces>,
}

/// Statistics of a scan, besides the result of the job.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All sources together.
    pub tally: Tally,
    /// Each source.
    pub files: Vec<FileReport>,
    /// Bad lines.
    pub rejects: Rejects,
    /// Truncated or corrupt sources. Everything before the damage is counted.
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
    /// The number of lines.
    pub lines: u64,
    /// The number of decompressed bytes.
    pub bytes: u64,
}

/// Line counts by type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Lines of any kind.
    pub lines: u64,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// ` CDX …` and `!…`.
    pub headers: u64,
    /// URIs of lists that passed the filters.
    pub uris: u64,
    /// Captures of the Web, before filtering.
    pub captures: u64,
    /// Captures that passed the filters, with rows that are not of the Web if those are included.
    pub selected: u64,
    /// Captures of the Web that are revisits.
    pub revisits: u64,
    /// Captures with an odd timestamp, such as month 00 or hour 24.
    pub odd_timestamps: u64,
    /// Rows that are not captures of the Web, by kind.
    pub non_web: [u64; NonWeb::COUNT],
    /// Captures and rows by the shape of their lines.
    pub shapes: Vec<(Shape, u64)>,
}

impl Tally {
    /// The kinds of rows that are not captures of the Web, with their counts.
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

    /// Adds other counts.
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
/// If a source cannot be opened or read; with [`strict`](Options::strict), on the first bad line or
/// damage.
pub fn scan<J: Job>(
    sources: &[Source],
    job: &J,
    mut options: Options<'_>,
) -> Result<(J::Partial, Outcome)> {
    match options.pieces.take() {
        Some(pieces) => pieces.scan(sources, job, options),
        None => merge::run(sources, job, options),
    }
}
