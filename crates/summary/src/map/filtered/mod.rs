//! Filtered maps: rows that call only part of what they cover present, and a companion filter that
//! says which part.
//!
//! ```text
//! map of exact keys ─► cost: the least cost of every node under every state, bottom up
//! lookups, prior   ─┘    │ search: the price that spends the budget, by what rows really take
//!                        ▼
//!                   rows with {"filter": r} ─┐
//! holdings ─► which row decides each URI ────┴─► companion: one ribbon filter a width
//! ```
//!
//! Readers that don't support filters can still read the rows, as a map that calls a little more
//! present. Nothing held is ever called absent.

mod compact;
mod companion;
mod growth;
mod price;
mod publish;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use crate::map::solve::Verdict as Said;
pub(crate) use crate::map::solve::choice;
pub use compact::{Built, Filtered, FilteredBudget, compact_filtered};
pub(crate) use companion::Companion;
pub use growth::{Growth, growth};
pub use publish::{companion_at, companion_of, is_companion};
pub(crate) use publish::{identity_in, publish, spelled, temporary};
