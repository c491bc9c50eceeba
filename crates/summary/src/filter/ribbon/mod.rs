//! Homogeneous ribbon filters: any width from 1 to 32 bits, integer or not, and the same bytes for
//! the same hashes in any order.
//!
//! A shard is a table of *rows*, each `width` bits wide. A hash selects some of 64 neighbouring
//! rows, given by a *start* and 64 *coefficients*. The rows are filled so that for every held hash
//! the XOR of its selected rows is zero. For any other hash it is zero with a probability of one in
//! 2^width. That is a system of linear equations whose right-hand sides are all zero, so it always
//! has a solution, and building never fails. It is solved in two steps:
//!
//! - *Banding* brings the equations into echelon form, one by one. An equation that depends on those
//!   before it holds whenever they hold, and is left out.
//! - *Back substitution* goes through the rows from the last to the first. A row that no equation
//!   begins with is random; any other follows from the rows below it.
//!
//! (Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021; Dillinger,
//! Hübschle-Schneider, Sanders and Walzer, "Fast succinct retrieval and approximate membership using
//! ribbon", 2022.)
//!
//! A width of 7.6 bits means that 60% of the rows have eight columns and the first 40% have seven.
//! A hash is checked in as many columns as the block of its first row has.
//!
//! # How many rows
//!
//! Where there are more equations than 64 rows can absorb, rows are forced to zero, and every hash
//! that selects only those is called present. So the rate depends on how far the equations lag
//! behind their starts, which is a random walk: over a whole shard its deviations grow with the
//! square root of the number of keys. A filter that leaves room for them needs 128 coefficients and
//! 3 to 5% more rows than keys.
//!
//! Here, starts are balanced. A shard is divided into *buckets* of 64 to 256 keys by hash, and for
//! each bucket four bits give the difference between its number of rows and the mean. So the walk
//! restarts in every bucket. Then 64 coefficients are enough, with one extra row for every 64 keys,
//! at every width and for shards of every size. A few more rows than keys are needed in any case,
//! because a random equation depends on the others with a probability of about one in
//! 2^(rows - keys).
//!
//! | file | subject |
//! |---|---|
//! | `width.rs` | widths, rates and sizes |
//! | `bucket.rs` | which shard, bucket and row a hash starts in |
//! | `build.rs` | banding and back substitution |
//! | `probe.rs` | lookups |
//! | `processor.rs` | lookups compiled for processors that count bits in one instruction |

mod bucket;
mod build;
mod probe;
mod processor;
#[cfg(test)]
mod tests;
mod width;

pub(crate) use bucket::{buckets, bytes_of_starts, position, starts};
pub(crate) use build::{WORKSHOP_PER_HASH, Workshop};
pub(crate) use probe::{Place, Probe};
pub(crate) use processor::{Folded, Parity, Processor, Work};
pub use width::{WIDEST, Width, bytes};
pub(crate) use width::{bytes_of_rows, shards};

/// The number of rows that an equation may select.
const SPAN: u32 = 64;
