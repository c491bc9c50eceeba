//! Last-Modified: an index that reaches into the past.
//!
//! A crawl is of one month, but the Last-Modified headers of its responses reach back for decades. They
//! are not in the index; so they are extracted from WARC or WAT files and added to it.
//!
//! ```text
//! WARC, WAT ─► extract ─► file, offset, time ─► add ─► index with "lastmod" ─► report, anomalies
//!                │ date: what servers send
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`date`] | a lenient parser for dates |
//! | [`extract`](mod@extract) | reads WARC and WAT files |
//! | [`mod@file`] | the file format of what was extracted |
//! | [`add`](mod@add) | joins it with an index |
//! | [`report`](mod@report) | counts by year, month and day, offsets from the capture, URI lengths |
//! | [`uri`] | the lengths of URIs and of their parts |
//! | [`anomalies`](mod@anomalies) | values and days that hold an implausible share |

pub mod add;
pub mod anomalies;
pub mod date;
pub mod extract;
pub mod file;
pub mod report;
pub mod uri;

pub use add::add;
pub use anomalies::anomalies;
pub use extract::extract;
pub use report::report;
