//! What an index says about an archive.
//!
//! | module | subject |
//! |---|---|
//! | [`calendar`] | dates of POSIX times |
//! | [`generate`] | generates crawls for tests and benchmarks |
//! | [`segments`] | which segments of a Common Crawl archive stand for the whole |
//! | [`numeric`] | the statistics that the others use; no data, no I/O |

pub mod calendar;
pub mod generate;
pub mod numeric;
pub mod segments;
