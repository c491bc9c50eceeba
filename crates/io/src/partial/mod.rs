//! Partial results: what a piece of the input gives, merged in the order of the input.
//!
//! ```text
//! range of input ─► lines ─► a partial ─► merge ─► merge ─► result
//! ```
//!
//! A partial is a monoid: there is an empty one, things are added to it, two that follow each other
//! merge into one, and merging is associative. It shares nothing with other partials that could
//! change, so nothing is locked, and it never asks for the input again: disorder is a value that it
//! carries. Threads merge partials, and so do the machines of a cluster, which send them as bytes.
//!
//! This module has what partials are made of:
//!
//! - [`Runs`]: rows with keys, as runs that are in order. Input in order gives one run; any other
//!   input gives several, which are merged when the result is read.
//! - [`Hashes`]: hashes of which the different ones are counted at the end.
//! - [`Spill`]: the temporary file that takes what exceeds a partial's share of the memory.
//! - [`Encoder`] and [`Decoder`]: partials as bytes, to be sent or kept.

mod bytes;
mod hashes;
mod runs;
mod spill;

pub use bytes::{Decoder, Encoder, push_number, take_number};
pub use hashes::Hashes;
pub use runs::{RowBlock, Runs, RunsReader};
pub use spill::Spill;
