//! Reads, processes and writes files that are larger than memory, on all cores.
//!
//! This crate knows nothing about the content of the files:
//!
//! ```
//! use std::io::Write;
//! use waypost_io::{AtomicFile, Format, LineWriter, Source, sort};
//!
//! # let folder = tempfile::tempdir()?;
//! # let (unsorted, sorted) = (folder.path().join("a.txt"), folder.path().join("b.txt.gz"));
//! let mut out = AtomicFile::create(&unsorted)?;
//! out.write_all(b"pear\napple\nquince\n")?;
//! out.commit()?;
//!
//! // Any size, in bounded memory; input and output compressed or not.
//! let mut out = LineWriter::create(&sorted, &Format::of_name(&sorted), 2)?;
//! let report = sort::sort(&[Source::new(&unsorted)], &sort::Options::default(), &mut out)?;
//! out.finish()?;
//! assert_eq!(report.lines_out, 3);
//!
//! let mut text = [0; 64];
//! let (length, damage) = Source::new(&sorted).open()?.read_full(&mut text);
//! assert_eq!(&text[..length], b"apple\npear\nquince\n");
//! assert!(damage.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`adapters`] | URLs, and tables whose rows become lines, if the program can open them |
//! | [`source`], [`opened`], [`stream`], [`compression`] | inputs, opened once and decompressed; damage is reported, and everything before it is kept |
//! | [`ranged`] | files, sections of files and remote files, read at any offset |
//! | [`zip`] | zip archives, whose entries are sources that are read in place |
//! | [`members`] | the members of a gzip file, found without inflating it, to inflate them in parallel |
//! | [`lines`] | lines in a buffer of bounded size |
//! | [`pieces`] | pieces of whole lines, processed on all cores while the input is read |
//! | [`pipeline`], [`ordered`] | read, process and write concurrently; results in input order |
//! | [`sort`](mod@sort), [`merge`](mod@merge) | external sort and merge of lines, spilling to temporary files |
//! | [`partial`] | building blocks of partials: sorted runs and hashes that spill, and their serialisation |
//! | [`mapped`] | memory maps; all `unsafe` code is here |
//! | [`meter`] | what a run spent its time on |
//! | [`gzip`] | gzip members, and the gzipped size of a text, measured or estimated |
//! | [`atomic`], [`writer`] | files that appear complete or not at all; plain, gzipped or blocked output |
//! | [`temporary`] | temporary files, and their removal after a process is killed |
//! | [`resources`], [`progress`] | limits on memory, temporary files and threads; progress by phase |
//! | [`quantity`] | sizes, numbers and durations as people write them |
//! | [`error`] | errors with file, line and byte |

pub mod adapters;
mod ahead;
pub mod atomic;
pub mod compression;
pub mod error;
pub mod gzip;
pub mod lines;
pub mod mapped;
pub mod members;
pub mod merge;
pub mod meter;
pub mod opened;
pub mod ordered;
pub mod partial;
pub mod pieces;
pub mod pipeline;
mod plain;
pub mod progress;
pub mod quantity;
pub mod ranged;
pub mod resources;
pub mod sort;
pub mod source;
pub mod stream;
pub mod temporary;
pub mod writer;
pub mod zip;

pub use atomic::{AtomicFile, AtomicFolder};
pub use compression::Compression;
pub use error::{Error, ErrorKind, IoContext, Place, RemoteProblem, Result};
pub use lines::Lines;
pub use mapped::Mapped;
pub use opened::{FileSection, InputKind};
pub use ordered::Ordered;
pub use progress::{Phase, Progress, Snapshot};
pub use ranged::{FileRange, FileReader, RangeRead, Section, Stamp};
pub use resources::Resources;
pub use source::{Expanded, Source, expand};
pub use stream::Stream;
pub use writer::{Block, BlockSink, Format, LineWriter, Written};
pub use zip::Zip;

/// The maximum length of a line. Longer lines are bad lines and are not kept in memory.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;
