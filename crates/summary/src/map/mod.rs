//! Maps: keys of mixed depth with wildcards (MementoMaps).
//!
//! ```text
//! captures, lists, profiles ─► build ─► a map of exact keys
//!                                          │ compact: decide in one walk, write in the next
//!                                          ▼
//!                                       a small map ─► Map: lookups by a table of hashes
//! ```
//!
//! Every pass walks the tree of the map's nodes in byte order. A rule (the papers' or least cost)
//! decides about each node when it is closed; the writer walks the same way again and knows the
//! decision when it opens the node. The papers' rule needs the second pass only for maps with voids
//! or wildcards.

mod beside;
mod build;
pub mod check;
pub mod compact;
pub mod compare;
mod filtered;
mod find;
pub mod fit;
mod measure;
mod merge;
mod once;
mod papers;
mod pass;
mod prior;
mod queue;
mod row;
mod rows;
pub mod sample;
mod search;
mod second;
pub mod show;
mod sites;
mod solve;
mod store;
mod table;
mod tape;
#[cfg(test)]
mod tests;
mod tidy;
mod top;
mod tree;
mod write;

pub use build::{BuildReport, build, write_held};
pub use compact::{Budget, LeastCost, Report, Rule, SameSize, SourceMap, compact};
pub use filtered::{
    Built, Filtered, FilteredBudget, Growth, compact_filtered, companion_of, growth,
};
pub use find::{Finder, Found};
pub use merge::{Filters, Merged, merge};
pub use papers::{Papers, PowerLaw};
pub use prior::Prior;
pub use row::{Row, write_frequency};
pub use store::{Map, Span};
pub use table::{TableReport, index, is_indexed};
pub use top::Top;
pub use write::{Counting, Style, Summed};
