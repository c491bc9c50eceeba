//! A compressed array with a byte for each node of a map.
//!
//! A node is decided when it is closed, but the pass that writes needs the decision when it is
//! opened. So decisions are stored by node id. Most bytes equal their neighbours, so blocks of them
//! are compressed and put on a [`Tape`] as the pass proceeds: a node is decided soon after the
//! nodes below it, so only the last blocks still change, and the few nodes that stay open longer
//! are stored separately.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::tape::Tape;
use crate::error::{Error, Result};

/// How many bytes are compressed at once.
const BLOCK: usize = 1 << 19;

/// The bytes, by node id; 0 where none is set.
#[derive(Debug)]
pub(crate) struct PackedBytes {
    /// Compressed blocks.
    tape: Tape,
    /// The bytes after those in blocks.
    last: Vec<u8>,
    /// Bytes that were set after their block was compressed.
    late: HashMap<usize, u8>,
    /// The block that was accessed last.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    number: usize,
    bytes: Vec<u8>,
    packed: Vec<u8>,
    /// The first error of the tape. A pass can't stop for it, so it is checked at the end.
    error: Option<Error>,
}

impl PackedBytes {
    /// Nothing set yet. Data that exceeds the memory limit spills to `folder`.
    pub(crate) fn new(folder: &Path) -> PackedBytes {
        PackedBytes {
            tape: Tape::new(folder),
            last: Vec::new(),
            late: HashMap::new(),
            open: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, id: usize, byte: u8) {
        if byte == 0 {
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
                self.last[at] = byte;
            }
            None => {
                self.late.insert(id, byte);
            }
        }
    }

    /// Compresses everything more than a block behind a node.
    #[cold]
    fn compress(&mut self, id: usize) {
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        let mut packed = vec![0; compressor.deflate_compress_bound(BLOCK)];
        // After the last byte there may be many empty blocks.
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
                self.opened().error.get_or_insert(error);
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
        let open = &mut *self.opened();
        let number = id / BLOCK;
        if open.number != number || open.bytes.is_empty() {
            open.number = number;
            open.bytes.clear();
            open.bytes.resize(BLOCK, 0);
            let read = self.tape.read(number, &mut open.packed).and_then(|()| {
                Decompressor::new()
                    .deflate_decompress(&open.packed, &mut open.bytes)
                    .map_err(|_| Error::invalid("a temporary file was changed"))
            });
            if let Err(error) = read {
                open.error.get_or_insert(error);
            }
        }
        open.bytes[id % BLOCK]
    }

    /// Ignores poisoning: nothing in here can panic halfway.
    fn opened(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything was stored and read without errors.
    ///
    /// # Errors
    /// If a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        match self.opened().error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_however_late_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut packed = PackedBytes::new(folder.path());
        let last = 5 * BLOCK + 77;
        let of = |id: usize| [0, 1, 0, 2, 0][id % 5];
        for id in 10..last {
            packed.set(id, of(id));
        }
        // Nodes that were open all the while.
        for id in (0..10).rev() {
            packed.set(id, 17);
        }
        assert!(packed.tape.chunks() >= 3);
        for id in 0..10 {
            assert_eq!(packed.get(id), 17);
        }
        for id in 10..last {
            assert_eq!(packed.get(id), of(id), "{id}");
        }
        assert_eq!(packed.get(last + BLOCK), 0);
        packed.set(last + 40 * BLOCK, 1);
        assert!(packed.last.capacity() < 4 * BLOCK);
        assert_eq!(packed.get(last - 2), of(last - 2));
        assert_eq!(packed.get(last + 39 * BLOCK), 0);
        assert_eq!(packed.get(last + 40 * BLOCK), 1);
        packed.intact().unwrap();
    }
}
