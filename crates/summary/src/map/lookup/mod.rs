//! Looking up URIs in a map: its memory-mapped text, the table of row offsets by hash, and the
//! search for the most specific row.

mod build;
mod find;
mod hash;
mod slots;
mod stamp;
mod store;
mod table;

pub use find::{Finder, Found};
pub(crate) use find::{HashedKey, hashed_keys};
pub use store::{Map, Span};
pub use table::{TableReport, index, is_indexed};
