//! A compressed array with a number for each node. It is split by bytes, because most numbers are
//! small and equal to their neighbours.

use std::path::Path;

use super::packed::PackedBytes;
use crate::error::Result;

/// Numbers by node id; 0 where none is set.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The bytes of the numbers, lowest first.
    planes: [PackedBytes; 4],
    largest: u32,
}

impl Numbers {
    /// Nothing set yet. Data that exceeds the memory limit spills to `folder`.
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

    /// Whether everything was stored and read without errors.
    ///
    /// # Errors
    /// If a temporary file could not be written or read.
    pub(crate) fn intact(&self) -> Result<()> {
        self.planes.iter().try_for_each(PackedBytes::intact)
    }
}
