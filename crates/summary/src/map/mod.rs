//! Maps: keys of mixed depth with wildcards (MementoMaps).

mod build;
pub mod check;
pub mod compact;
pub mod compare;
mod cost;
mod decision;
pub mod fit;
mod judge;
mod memory;
mod merge;
mod papers;
mod pass;
mod prior;
mod row;
mod rows;
pub mod sample;
pub mod show;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod tidy;
mod tree;
mod write;

pub use build::{Made, build};
pub use compact::{Budget, Given, LeastCost, Report, Rule, compact};
pub use cost::Top;
pub use merge::{Merged, merge};
pub use papers::{Papers, PowerLaw};
pub use prior::Prior;
pub use row::Row;
pub use store::{Found, Map, Span};
pub use tidy::Room;
pub use write::{Counting, Style, Summed};
