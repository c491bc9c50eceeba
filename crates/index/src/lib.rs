//! The indexes of web archives, read and written: CDX, CDXJ, ZipNum.
//!
//! An index has one line for each capture. Archives write them in ten layouts, compressed and not,
//! sorted and not, with broken lines in between, up to terabytes. This crate reads them all on all
//! cores, in bounded memory, and never silently wrong: what is no capture is counted by kind.
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
//! | module | its part |
//! |---|---|
//! | [`input`] | files, folders, standard input; gzip, zstd, bzip2 by their bytes; what can be read of damaged ones |
//! | [`kind`] | what a file is, told by its content |
//! | [`layout`] | the shape of lines, found for each file; a line is a capture, a header or bad |
//! | [`capture`] | a borrowed [`Capture`] with the [`Fields`] that were asked for |
//! | [`json`], [`timestamp`], [`key`] | the pieces of a line |
//! | [`web`] | rows that are no captures of the Web |
//! | [`select`] | the filters of every command |
//! | [`rejects`] | bad lines |
//! | [`scan`](mod@scan) | all of it on all cores, or in ranges on many machines: partials that merge in the order of the input |
//! | [`rekey`](mod@rekey) | the SURTs of URLs for keys |
//! | [`check`](mod@check) | what an index is and what is wrong with it |
//! | [`generate`] | an index to try things on |
//!
//! Parsing is pure functions over bytes; threads and files are in [`scan`](mod@scan) and [`input`]
//! only. To do something with every capture, write a [`scan::Job`].

pub mod capture;
pub mod check;
pub mod generate;
pub mod input;
pub mod json;
pub mod key;
pub mod kind;
pub mod layout;
pub mod lookup;
pub mod merge;
pub mod output;
pub mod range;
pub mod rejects;
pub mod rekey;
mod revisit;
pub mod scan;
mod search;
pub mod select;
pub mod timestamp;
pub mod web;
pub mod zipnum;

pub use capture::{Capture, Field, Fields};
pub use input::Source;
pub use select::Select;
pub use waypost_io::error::{Error, ErrorKind, Place, Result};
pub use waypost_io::{error, sort};
