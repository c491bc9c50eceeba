//! Indexes of web archives as Parquet, in the flat schema of Common Crawl's columnar index.
//!
//! ```text
//! sorted index ─► scan ─► rows of a block ─► joined in order, by crawl and subset ─► part files, on all cores
//! part file ─► decoded columns of some rows ─► lines of CDXJ, which every scan reads
//! ```
//!
//! An index that is not sorted is sorted first, in temporary files.
//!
//! The files have 30 columns, sorted by `url_surtkey`; the folders `crawl=…/subset=…` are two more.
//! Athena, DuckDB, Polars, pyarrow and Spark read them. Pages have an index and `url_surtkey` a Bloom
//! filter, so that the captures of a URI are found with a few range requests.
//!
//! ```
//! use waypost_io::Source;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.cdxj");
//! # std::fs::write(&path, "com,example)/ 20040102030405 {\"url\": \"http://example.com/\"}\n")?;
//! # let out = folder.path().join("table");
//! let options = waypost_parquet::Options::default();
//! let report = waypost_parquet::write(&[Source::new(&path)], options, &out)?;
//! assert_eq!((report.rows, report.files), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When not to use it: to look up single URIs often. A ZipNum index is smaller and needs fewer
//! requests.

mod host;
mod line;
mod read;
mod row;
mod schema;
mod sort;
mod write;

pub use read::{EXTENSION, MAGIC, lines};
pub use write::{Options, Report, write};
