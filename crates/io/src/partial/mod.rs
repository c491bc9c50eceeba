//! Partials: the results of pieces of the input, merged in input order.
//!
//! ```text
//! range of input ─► lines ─► a partial ─► merge ─► merge ─► result
//! ```
//!
//! A partial is a monoid: there is an empty one, items are added to it, two consecutive ones merge
//! into one, and merging is associative. Partials share no mutable state, so there are no locks, and
//! the input is never read again: disorder is part of the result. The threads of one machine merge
//! partials; the machines of a cluster can do the same with serialised ones.
//!
//! This module has the building blocks:
//!
//! - [`Runs`]: rows with keys, in sorted runs. Sorted input gives one run; other input gives several,
//!   which are merged when the result is read.
//! - [`Hashes`]: hashes, to count the distinct ones at the end.
//! - [`Spill`]: the temporary file for what exceeds a partial's share of the memory.
//! - [`Encoder`] and [`Decoder`]: serialisation.

mod block;
mod bytes;
mod hashes;
mod runs;
mod spill;

pub use block::RowBlock;
pub use bytes::{Decoder, Encoder, push_number, take_number};
pub use hashes::Hashes;
pub use runs::{Runs, RunsReader};
pub use spill::Spill;
