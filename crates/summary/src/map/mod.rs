//! Maps: keys of mixed depth with wildcards (MementoMaps).
//!
//! ```text
//! captures, lists, profiles ─► build ─► a map of exact keys
//!                                          │ compact: decide in one walk, write in the next
//!                                          ▼
//!                                       a small map ─► Map: lookups by a table of hashes
//! ```
//!
//! | folder | contents |
//! |---|---|
//! | `tree` | rows, the tree of their nodes, and the pass over both and over a sample of lookups |
//! | `solve` | decisions: the published rule, and least cost with its one solver |
//! | `write` | the rows that follow from decisions |
//! | `filtered` | maps whose rows have filters |
//! | `lookup` | the row that decides a lookup |
//!
//! Every pass walks the tree of the map's nodes in byte order. A rule (the papers' or least cost)
//! decides about each node when it is closed; the writer walks the same way again and knows the
//! decision when it opens the node. The papers' rule needs the second pass only for maps with voids
//! or wildcards.

mod build;
pub mod check;
pub mod compact;
pub mod compare;
mod filtered;
pub mod fit;
mod lookup;
mod merge;
pub mod show;
mod solve;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use build::{BuildReport, build, headers, write_held, write_to};
pub use compact::{Budget, LeastCost, Report, Rule, SameSize, SourceMap, compact};
pub use filtered::{
    Built, Filtered, FilteredBudget, Growth, compact_filtered, companion_at, companion_of, growth,
    is_companion,
};
pub use lookup::{Finder, Found, Map, Span, TableReport, index, is_indexed};
pub(crate) use lookup::{HashedKey, hashed_keys};
pub use merge::{Filters, Merged, merge, merge_without};
pub use solve::papers::{Papers, PowerLaw};
pub use solve::prior::Prior;
pub use solve::top::Top;
pub use tree::row::{Row, write_frequency};
pub use tree::sample;
pub use write::{Counting, Style, Summed};
