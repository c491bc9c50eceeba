//! Maps: keys of mixed depth with wildcards (MementoMaps).

pub mod compact;
mod cost;
mod decision;
mod papers;
mod pass;
mod prior;
mod row;
mod rows;
pub mod sample;
mod tidy;
mod tree;
mod write;

pub use compact::{Budget, Given, LeastCost, Report, Rule, compact};
pub use cost::Top;
pub use papers::{Papers, PowerLaw};
pub use prior::Prior;
pub use row::Row;
pub use tidy::Room;
pub use write::{Counting, Style, Summed};
