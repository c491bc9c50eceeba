//! How results look. Knows nothing of archives: it is given cells and numbers and lays them out.
//!
//! ```
//! use waypost_report::{Align, Table};
//!
//! let mut table = Table::new(&[("policy", Align::Left), ("keys", Align::Right)]);
//! table.row(["H1P0", "5"]);
//! table.row(["HxPx", "317"]);
//! assert_eq!(table.to_string(), "policy  keys\nH1P0       5\nHxPx     317\n");
//! ```

mod columns;
mod curve;
mod html;
mod icicle;
mod json;
mod number;
mod plot;
mod table;

pub use columns::{Cells, Columns};
pub use curve::Curve;
pub use html::Page;
pub use icicle::{Piece, icicle};
pub use json::push_json_string;
pub use number::{bytes, count};
pub use plot::{Plot, Point};
pub use table::{Align, Table};
