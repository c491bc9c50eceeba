//! Profiles: what an archive holds, as keys of one policy with counts.
//!
//! ```text
//! sorted index, or gathered holdings ─► URI-Rs in order ─► cut under all policies at once
//!                                                                │
//!                                rows in order, one file a policy ◄┘
//! ```
//!
//! [`build()`] builds them, [`Profile`] answers lookups, [`merge()`] merges several, and
//! [`growth()`] shows how they grow.

mod build;
mod coarsen;
mod cut;
mod cutter;
mod growth;
mod low;
mod merge;
mod order;
mod outputs;
pub(crate) mod records;
mod row;
mod rows;
mod shape;
mod store;

pub use build::{Options, PolicyReport, ProfileSize, Report, build, output_paths, write, write_to};
pub use growth::{Growth, Heaps, Step, growth};
pub use merge::{Merged, merge};
pub use row::Row;
pub use store::Profile;
