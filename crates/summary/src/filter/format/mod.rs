//! The file of a filter, whatever its kind: written and read side by side.
//!
//! ```text
//! head (128 bytes) │ metadata (JSON) │ table (32 bytes a shard) │ boundaries │ shards
//! ```
//!
//! Drawn byte by byte in docs/formats/filter.md. Numbers are little-endian. A checksum in the head
//! covers head, metadata, table and boundaries; one in the table covers each shard. Where a shard is follows from
//! the table, and which shard a hash is in from the hash, so one shard can be fetched by itself.

mod head;
mod metadata;
mod table;
mod write;

pub(crate) use head::MAGIC;
pub use head::{Head, Kind};
pub use metadata::{ELEMENTS, Metadata};
pub(crate) use table::{Entry, Layout, Part};
pub(crate) use write::{Writer, check_place, write};

/// Files below this size have no padding. In larger ones the shards of Bloom filters and of hashes
/// begin at multiples of 64 bytes. Those of ribbon filters follow each other without gaps.
pub(crate) const PADDED_FROM: u64 = 1_000_000;

/// Whether the shards of a file of this kind and size begin at multiples of 64 bytes.
fn is_padded(kind: Kind, size: u64) -> bool {
    kind != Kind::Ribbon && size >= PADDED_FROM
}
