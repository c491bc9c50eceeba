//! Maps: keys of mixed depth with wildcards (MementoMaps).

mod build;
pub mod compact;
mod cost;
mod decision;
mod memory;
mod papers;
mod pass;
mod prior;
mod row;
mod rows;
pub mod sample;
mod store;
mod table;
mod tidy;
mod tree;
mod write;

pub use build::{Made, build};
pub use compact::{Budget, Given, LeastCost, Report, Rule, compact};
pub use cost::Top;
pub use papers::{Papers, PowerLaw};
pub use prior::Prior;
pub use row::Row;
pub use store::{Found, Map, Span};
pub use tidy::Room;
pub use write::{Counting, Style, Summed};
