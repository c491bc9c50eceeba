//! A number for each node, kept compressed: a byte of it at a time, since most are small and the same
//! as their neighbours'.

use std::path::Path;

use super::packed::PackedBytes;
use crate::error::Result;

/// Numbers by the ids of nodes; 0 where none was set.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The bytes of the numbers, the lowest first.
    planes: [PackedBytes; 4],
    largest: u32,
}

impl Numbers {
    /// None yet. What does not fit into memory is put in `folder`.
    pub(crate) fn new(folder: &Path) -> Numbers {
        Numbers {
            planes: std::array::from_fn(|_| PackedBytes::new(folder)),
            largest: 0,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, id: usize, number: u32) {
        self.largest = self.largest.max(number);
        for (plane, byte) in self.planes.iter_mut().zip(number.to_le_bytes()) {
            plane.set(id, byte);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> u32 {
        let mut number = 0;
        for (at, plane) in self.planes.iter().enumerate() {
            if self.largest >> (8 * at) == 0 {
                break;
            }
            number |= u32::from(plane.get(id)) << (8 * at);
        }
        number
    }

    /// Whether all that was set and got is right.
    ///
    /// # Errors
    /// When a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        self.planes.iter().try_for_each(PackedBytes::intact)
    }
}
