//! ZipNum: a sorted index in blocks that are compressed one by one, and an index of the blocks.
//!
//! ```text
//! cluster.idx     com,example)/ 20200101000000 ⇥ cdx-00000.gz ⇥ 0      ⇥ 181223 ⇥ 1
//!                 com,example)/b 20210304050607 ⇥ cdx-00000.gz ⇥ 181223 ⇥ 179800 ⇥ 2
//! cluster.loc     cdx-00000.gz ⇥ cdx-00000.gz
//! cdx-00000.gz    a gzip member of 3000 lines, and the next, and the next
//! ```
//!
//! To find a key, the row before it is searched in `cluster.idx` and one member is inflated.
//! The files of WACZ, `index.idx` and `index.cdx.gz`, are the same with rows in JSON. See
//! `docs/formats/zipnum.md`.

mod cover;
mod idx;
mod location;
mod reader;
mod writer;

pub use idx::Flavour;
pub(crate) use reader::Blocks;
pub use reader::{ZipNum, unzip};
pub use writer::create;

/// How a ZipNum index is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Lines in a block.
    pub lines: u64,
    /// Data files. Fewer are written when there are fewer blocks.
    pub shards: u64,
    /// How hard to compress: 1, fast, to 12, small.
    pub level: u8,
    /// Which rows the index of blocks has.
    pub flavour: Flavour,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lines: 3000,
            shards: 1,
            level: 6,
            flavour: Flavour::Cluster,
        }
    }
}
