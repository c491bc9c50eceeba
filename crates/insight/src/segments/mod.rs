//! Which segments of a Common Crawl archive stand for the whole.
//!
//! A crawl is divided into 100 segments. Its index says of every capture in which segment it is, so the
//! distribution of a property, such as the media type, can be compared between each segment and the
//! whole without downloading the archive. The segments whose distributions are most like that of the
//! whole are its best proxies (Thompson, WebSci 2024).
//!
//! ```text
//! index ─► tabulate ─► table: value × segment ─► counts ─► rank ─► predict
//!            │ partials merge    │ tables merge
//!            └ overlap           └ or a plain table from elsewhere
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`location`] | crawl, segment and subset, from the name of a file |
//! | [`property`] | the properties of a capture that can be counted |
//! | [`tabulate`](mod@tabulate) | counts properties by segment in one pass |
//! | [`table`] | the file format of tables: read, written, merged |
//! | [`counts`] | the counts of one property, ready to be compared; also from plain tables |
//! | [`rank`](mod@rank) | rank correlations of the segments with the whole |
//! | [`predict`](mod@predict) | how well the best segments of one property stand for another |
//! | [`overlap`](mod@overlap) | what two crawls have in common |

mod block;
mod cells;
pub mod counts;
pub mod location;
mod names;
pub mod overlap;
pub mod predict;
pub mod property;
pub mod rank;
mod recent;
pub mod table;
pub mod tabulate;

pub use counts::Counts;
pub use predict::{Prediction, predict};
pub use property::Property;
pub use rank::{Ranking, rank};
pub use tabulate::{Tabulated, tabulate};
