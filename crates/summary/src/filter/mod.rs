//! Filters.

mod bits;
pub mod bloom;
pub mod fuse;
pub mod hash;
mod memory;

pub use hash::{Fingerprint, Hash, HashFunction, Hasher, Secret};
