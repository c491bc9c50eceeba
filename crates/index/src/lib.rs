//! Reads and writes the indexes of web archives: CDX, CDXJ and ZipNum.
//!
//! An index has one line per capture. Indexes come in ten layouts, compressed or not, sorted or not,
//! with broken lines, and up to terabytes in size. This crate reads all of them on all cores in
//! bounded memory. Nothing is dropped silently: lines that are not captures are counted by kind.
//!
//! ```
//! use waypost_index::{check, input};
//!
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("a.cdxj"), "com,example)/ 2004 {\"url\": \"http://example.com/\"}\n")?;
//! # let path = folder.path();
//! let sources = input::expand([path])?.sources;
//! let report = check::check(&sources, check::Options::default())?;
//! assert!(report.is_clean());
//! assert_eq!(report.uri_rs, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # From bytes to captures
//!
//! | module | purpose |
//! |---|---|
//! | [`input`] | the index files that the names given by a user stand for |
//! | [`kind`] | the type of a file, detected from its content |
//! | [`layout`] | line layouts: detected for each file, applied to each line |
//! | [`capture`] | a borrowed [`Capture`] with the requested [`Fields`] |
//! | [`json`], [`timestamp`], [`key`] | the parts of a line |
//! | [`web`] | rows that are not captures of the Web |
//! | [`select`] | capture filters |
//! | [`takedown`] | lists of what may no longer be shown |
//! | [`rejects`] | bad lines |
//! | [`revisit`] | the captures that revisits repeat |
//! | [`scan`](mod@scan) | scans on all cores, or in ranges on many machines, into partials that merge in input order |
//! | [`rekey`](mod@rekey) | replaces keys by the SURTs of their URLs |
//! | [`convert`](mod@convert) | converts between CDX and CDXJ |
//! | [`check`](mod@check) | reports what an index contains and what is wrong with it |
//! | [`wacz`] | WACZ files, whose indexes and WARC files are read in place |
//! | [`warc`] | indexes WARC and ARC files |
//! | [`generate`] | generates indexes for benchmarks and tests |
//!
//! Parsers are pure functions over bytes; only [`scan`](mod@scan) and [`input`] use threads and files.
//! To process every capture, implement [`scan::Job`]. Inputs, outputs, sorting and errors are those of
//! [`waypost_io`].

pub mod capture;
pub mod check;
pub mod convert;
pub mod generate;
pub mod input;
pub mod json;
pub mod key;
pub mod kind;
pub mod layout;
pub mod lookup;
pub mod merge;
pub mod range;
pub mod rejects;
pub mod rekey;
pub mod revisit;
mod rewrite;
pub mod scan;
mod search;
pub mod select;
mod span;
mod structure;
pub mod takedown;
pub mod timestamp;
pub mod wacz;
pub mod warc;
pub mod web;
pub mod zipnum;

pub use capture::{Capture, Field, Fields};
pub use select::Select;
pub use span::Span;
pub use takedown::Takedowns;
