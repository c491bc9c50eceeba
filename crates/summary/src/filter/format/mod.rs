//! The file format of all kinds of filters: writer and reader side by side.
//!
//! ```text
//! head (128 bytes) │ metadata (JSON) │ table (32 bytes a shard) │ starts of buckets │ shards
//! ```
//!
//! Specified byte by byte in docs/formats/filter.md. Numbers are little-endian. A checksum in the
//! head covers everything before the shards; one in the table covers each shard. The position of a
//! shard follows from the table, and the shard of a hash from the hash, so a single shard can be
//! fetched on its own.

mod head;
mod metadata;
mod table;
mod write;

pub(crate) use head::MAGIC;
pub use head::{Head, Kind};
pub use metadata::{ELEMENTS, Metadata};
pub(crate) use table::{Entry, Layout, Part};
pub(crate) use write::{Destination, Writer, check_place, write};

/// Files below this size have no padding, and neither have those with several widths. In others,
/// every shard starts at a multiple of 64 bytes, so that a lookup touches fewer cache lines.
pub(crate) const PADDED_FROM: u64 = 1_000_000;

/// Whether the shards of a file of this size without padding start at multiples of 64 bytes.
fn is_padded(size: u64, entries: &[Entry]) -> bool {
    let width = |entry: Option<&Entry>| entry.map(|entry| entry.width);
    size >= PADDED_FROM && width(entries.first()) == width(entries.last())
}
