//! What an index says about an archive.
//!
//! | module | subject |
//! |---|---|
//! | [`calendar`] | dates of POSIX times |
//! | [`generate`] | generates crawls for tests and benchmarks |
//! | [`lastmod`] | Last-Modified: extracted, added to an index, and what it shows |
//! | [`segments`] | which segments of a Common Crawl archive stand for the whole |
//! | [`stats`] | what an archive holds, by year, place, type and depth, and a report for people |
//! | [`numeric`] | the statistics that the others use; no data, no I/O |

pub mod calendar;
pub mod generate;
pub mod lastmod;
pub mod numeric;
pub mod segments;
pub mod stats;
