//! ZipNum: a sorted index in separately compressed blocks, and an `.idx` file that locates them.
//!
//! ```text
//! cluster.idx     com,example)/ 20200101000000 ⇥ cdx-00000.gz ⇥ 0      ⇥ 181223 ⇥ 1
//!                 com,example)/b 20210304050607 ⇥ cdx-00000.gz ⇥ 181223 ⇥ 179800 ⇥ 2
//! cluster.loc     cdx-00000.gz ⇥ cdx-00000.gz
//! cdx-00000.gz    gzip members of 3000 lines each
//! ```
//!
//! To find a key, a binary search in `cluster.idx` finds its block, and one member is inflated. The
//! files of WACZ, `index.idx` and `index.cdx.gz`, are the same with rows in JSON. See
//! `docs/formats/zipnum.md`.

mod ahead;
mod blocks;
mod cover;
mod idx;
mod location;
mod reader;
mod rows;
mod writer;

pub(crate) use ahead::{Extent, Plan};
pub use blocks::{BlockRewrite, BlockWork, each_block, rewrite};
pub use idx::Flavour;
pub(crate) use reader::Blocks;
pub use reader::{Opener, Remote, ZipNum, unzip};
pub use writer::create;

/// Options for writing a ZipNum index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Lines per block.
    pub lines: u64,
    /// Number of data files. Fewer are written if there are fewer blocks.
    pub shards: u64,
    /// Compression level, from 1 (fastest) to 12 (smallest).
    pub level: u8,
    /// The format of the rows of the `.idx` file.
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
