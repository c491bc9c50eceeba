//! What was decided for each place of a map.
//!
//! Deciding takes a walk that ends at a place; writing must know when it begins. So the decisions of
//! one walk are kept for the next, a byte for each place. Most are the same as their neighbours, so
//! blocks of them are compressed and put on a [`Tape`] as the walk goes on: a place is decided soon
//! after those below it, only the last blocks are still changed, and the few places that stay open
//! for longer are kept apart.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::tape::Tape;
use crate::error::{Error, Result};

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
#[derive(Debug)]
pub(crate) struct Decisions {
    /// Compressed blocks.
    tape: Tape,
    /// The decisions behind those in blocks.
    last: Vec<u8>,
    /// Decisions that came when theirs was in a block already.
    late: HashMap<usize, u8>,
    /// The block that was looked at last.
    open: RefCell<Open>,
}

#[derive(Debug, Default)]
struct Open {
    number: usize,
    decisions: Vec<u8>,
    packed: Vec<u8>,
    /// What went wrong with the tape. Walks cannot stop for it, so it is asked for at their end.
    error: Option<Error>,
}

impl Decisions {
    /// None yet. What does not fit into memory is put in `folder`.
    pub(crate) fn new(folder: &Path) -> Decisions {
        Decisions {
            tape: Tape::new(folder),
            last: Vec::new(),
            late: HashMap::new(),
            open: RefCell::default(),
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, id: usize, decision: u8) {
        if decision == 0 {
            return;
        }
        if id >= (self.tape.chunks() + 3) * BLOCK {
            self.compress(id);
        }
        match id.checked_sub(self.tape.chunks() * BLOCK) {
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
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        let mut packed = vec![0; compressor.deflate_compress_bound(BLOCK)];
        // Behind the last decision there may be many blocks without any.
        let mut block = Vec::with_capacity(BLOCK);
        while self.tape.chunks() < id / BLOCK - 1 {
            block.clear();
            block.extend(self.last.drain(..BLOCK.min(self.last.len())));
            block.resize(BLOCK, 0);
            // The bound is large enough for any block.
            let size = compressor
                .deflate_compress(&block, &mut packed)
                .unwrap_or(0);
            if let Err(error) = self.tape.push(&packed[..size]) {
                self.open.get_mut().error.get_or_insert(error);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> u8 {
        match id.checked_sub(self.tape.chunks() * BLOCK) {
            Some(at) => self.last.get(at).copied().unwrap_or(0),
            None => self.get_compressed(id),
        }
    }

    fn get_compressed(&self, id: usize) -> u8 {
        if let Some(&late) = self.late.get(&id) {
            return late;
        }
        let open = &mut *self.open.borrow_mut();
        let number = id / BLOCK;
        if open.number != number || open.decisions.is_empty() {
            open.number = number;
            open.decisions.clear();
            open.decisions.resize(BLOCK, 0);
            let read = self.tape.read(number, &mut open.packed).and_then(|()| {
                Decompressor::new()
                    .deflate_decompress(&open.packed, &mut open.decisions)
                    .map_err(|_| Error::invalid("a temporary file was changed"))
            });
            if let Err(error) = read {
                open.error.get_or_insert(error);
            }
        }
        open.decisions[id % BLOCK]
    }

    /// Whether all that was set and got is right.
    ///
    /// # Errors
    /// When a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        match self.open.borrow_mut().error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_kept_however_late_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut decisions = Decisions::new(folder.path());
        let last = 5 * BLOCK + 77;
        let of = |id: usize| [0, ROLL, 0, VOID_BELOW, 0][id % 5];
        for id in 10..last {
            decisions.set(id, of(id));
        }
        // Places that were open all the while.
        for id in (0..10).rev() {
            decisions.set(id, GIVEN_WILDCARD | ROLL);
        }
        assert!(decisions.tape.chunks() >= 3);
        for id in 0..10 {
            assert_eq!(decisions.get(id), GIVEN_WILDCARD | ROLL);
        }
        for id in 10..last {
            assert_eq!(decisions.get(id), of(id), "{id}");
        }
        assert_eq!(decisions.get(last + BLOCK), 0);
        decisions.set(last + 40 * BLOCK, ROLL);
        assert!(decisions.last.capacity() < 4 * BLOCK);
        assert_eq!(decisions.get(last - 2), of(last - 2));
        assert_eq!(decisions.get(last + 39 * BLOCK), 0);
        assert_eq!(decisions.get(last + 40 * BLOCK), ROLL);
        decisions.intact().unwrap();
    }
}
