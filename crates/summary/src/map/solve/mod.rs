//! The least-cost map, with or without filters.
//!
//! ```text
//! rows, lookups ─► gather: one walk ─► outline: nodes with counts, misses and row lengths
//!                                         │ solver: the least cost of every node under every state
//!                                         │ search: the price λ at which the budget is spent
//!                                         ▼
//!                                      choices by node ─► the walk that writes
//! ```
//!
//! The cost of a map is its size plus λ for every expected false positive. The state of a node is
//! what the nearest row above it says: nothing is present, a filter of some width decides, or
//! everything is present. A plain map has the first and the last of these, a filtered map all of
//! them; the dynamic programme is the same. Only the outline is read while prices are tried.
//!
//! Maps are [cut](super::tree::cut) into pieces, and every step works on all of them at the same time:
//! the walks, the solver, and the totals. A map that cannot be cut is one piece.
//!
//! The papers' rule is here, too: its decisions have the same form.

mod assess;
pub(crate) mod beside;
pub(crate) mod choice;
mod coding;
mod fold;
pub(crate) mod gather;
mod hull;
pub(crate) mod numbers;
pub(crate) mod outline;
mod packed;
pub(crate) mod papers;
mod parts;
pub(crate) mod plain;
pub(crate) mod prior;
pub(crate) mod search;
pub(crate) mod sites;
mod solution;
pub(crate) mod solver;
mod spine;
mod tape;
mod terms;
pub(crate) mod top;

pub(crate) use assess::{Totals, assess};
pub(crate) use choice::{Choice, Choices, STATES, Verdict};
pub(crate) use gather::Gather;
pub(crate) use hull::Hull;
pub(crate) use parts::Loan;
pub(crate) use solution::Solution;
pub(crate) use solver::{Frozen, solve};
pub(crate) use spine::Outline;
pub(crate) use tape::Tape;
pub(crate) use terms::{Expects, RowPrice, Terms, VoidPrice, states};
