//! Tables, human-readable numbers, SVG plots and self-contained HTML pages. Knows nothing about archives.
//!
//! ```
//! use waypost_report::{Align, Table};
//!
//! let mut table = Table::new(&[("policy", Align::Left), ("keys", Align::Right)]);
//! table.row(["H1P0", "5"]);
//! table.row(["HxPx", "317"]);
//! assert_eq!(table.to_string(), "policy  keys\nH1P0       5\nHxPx     317\n");
//! assert_eq!(waypost_report::count(48_213), "48,213");
//! ```
//!
//! | | |
//! |---|---|
//! | [`Table`], [`Cell`] | a table of known size, as text, HTML or CSV |
//! | [`Columns`] | a table whose rows are streamed, with widths from a sample |
//! | [`count`], [`bytes`], [`short`] | human-readable numbers and sizes |
//! | [`Page`] | a self-contained HTML page: sentences, key figures, sections with plots and tables |
//! | [`Bars`], [`Ranked`], [`Lines`], [`Plot`], [`Heat`], [`Shape`] | plots for a page, as SVG elements |
//! | [`Curve`], [`icicle`] | a plot as an SVG file; a tree as a page |
//! | [`push_json_string`] | JSON strings, written straight into a buffer |

mod cell;
mod columns;
mod curve;
mod html;
mod icicle;
mod json;
mod number;
mod plot;
mod table;

pub use cell::Cell;
pub use columns::{Cells, Columns};
pub use curve::Curve;
pub use html::{Page, STYLE};
pub use icicle::{Piece, icicle};
pub use json::push_json_string;
pub use number::{bytes, count, short};
pub use plot::{Axis, BarSeries, Bars, Heat, Layer, LineSeries, Lines, Plot, Point, Ranked, Shape};
pub use table::{Align, Table};
