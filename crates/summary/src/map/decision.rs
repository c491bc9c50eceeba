//! What was decided for each place of a map.
//!
//! Deciding takes a walk that ends at a place; writing must know when it begins. So the decisions of
//! one walk are kept for the next, a byte for each place. Most are the same as their neighbours, so
//! blocks of them are compressed as the walk goes on: a place is decided soon after those below it,
//! only the last blocks are still changed, and the few places that stay open for longer are kept
//! apart.

use std::cell::RefCell;
use std::collections::HashMap;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

/// In a part where nothing is said: a wildcard row here, and all below is open.
pub(crate) const ROLL: u8 = 1;
/// Below a wildcard: a void for all here and below.
pub(crate) const VOID_BELOW: u8 = 2;
/// Below a wildcard: a void for just this.
pub(crate) const VOID_HERE: u8 = 4;
/// The map came with a void for all here and below.
pub(crate) const GIVEN_VOID: u8 = 8;
/// The map came with a wildcard here.
pub(crate) const GIVEN_WILDCARD: u8 = 16;

/// How many decisions are compressed at once.
const BLOCK: usize = 1 << 19;

/// The decisions, by the number of the place.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    blocks: Vec<Block>,
    /// The decisions behind those in blocks.
    last: Vec<u8>,
    /// Decisions that came when theirs was in a block already.
    late: HashMap<usize, u8>,
    /// The block that was looked at last.
    open: RefCell<(usize, Vec<u8>)>,
}

/// Decisions that are not changed any more.
#[derive(Debug)]
enum Block {
    Compressed(Vec<u8>),
    /// They could not be made smaller.
    Plain(Vec<u8>),
}

impl Block {
    fn new(bytes: &[u8]) -> Block {
        let mut packed = vec![0; bytes.len()];
        let level = CompressionLvl::new(1).unwrap_or_default();
        match Compressor::new(level).deflate_compress(bytes, &mut packed) {
            Ok(size) => {
                packed.truncate(size);
                packed.shrink_to_fit();
                Block::Compressed(packed)
            }
            Err(_) => Block::Plain(bytes.to_vec()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Block::Plain(bytes) => bytes.clone(),
            Block::Compressed(packed) => {
                let mut bytes = vec![0; BLOCK];
                // We have just made it; there is nothing to fail.
                let whole = Decompressor::new().deflate_decompress(packed, &mut bytes);
                debug_assert_eq!(whole, Ok(BLOCK));
                bytes
            }
        }
    }
}

impl Decisions {
    #[inline]
    pub(crate) fn set(&mut self, id: usize, decision: u8) {
        if decision == 0 {
            return;
        }
        if id >= (self.blocks.len() + 3) * BLOCK {
            self.compress(id);
        }
        match id.checked_sub(self.blocks.len() * BLOCK) {
            Some(at) => {
                if at >= self.last.len() {
                    self.last.resize(at + 1, 0);
                }
                self.last[at] = decision;
            }
            None => {
                self.late.insert(id, decision);
            }
        }
    }

    /// Compresses what is more than a block behind a place.
    #[cold]
    fn compress(&mut self, id: usize) {
        let blocks = id / BLOCK - 1 - self.blocks.len();
        let end = blocks * BLOCK;
        if self.last.len() < end {
            self.last.resize(end, 0);
        }
        self.blocks
            .extend(self.last[..end].chunks(BLOCK).map(Block::new));
        self.last.drain(..end);
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> u8 {
        match id.checked_sub(self.blocks.len() * BLOCK) {
            Some(at) => self.last.get(at).copied().unwrap_or(0),
            None => self.get_compressed(id),
        }
    }

    fn get_compressed(&self, id: usize) -> u8 {
        if let Some(&late) = self.late.get(&id) {
            return late;
        }
        let mut open = self.open.borrow_mut();
        let number = id / BLOCK;
        if open.0 != number || open.1.is_empty() {
            *open = (number, self.blocks[number].bytes());
        }
        open.1[id % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_kept_however_late_they_come() {
        let mut decisions = Decisions::default();
        let last = 5 * BLOCK + 77;
        let of = |id: usize| [0, ROLL, 0, VOID_BELOW, 0][id % 5];
        for id in 10..last {
            decisions.set(id, of(id));
        }
        // Places that were open all the while.
        for id in (0..10).rev() {
            decisions.set(id, GIVEN_WILDCARD | ROLL);
        }
        assert!(decisions.blocks.len() >= 3);
        for id in 0..10 {
            assert_eq!(decisions.get(id), GIVEN_WILDCARD | ROLL);
        }
        for id in 10..last {
            assert_eq!(decisions.get(id), of(id), "{id}");
        }
        assert_eq!(decisions.get(last + BLOCK), 0);
    }
}
