//! Counts by value and segment.
//!
//! Values are numbered in the order of their first occurrence, so frequent ones have small numbers.
//! Their counts are in a flat array, where adding costs one access to memory; counts of values beyond
//! its limit are in a hash table.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes the number of a cell.
#[derive(Default)]
struct CellHasher(u64);

impl Hasher for CellHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        let mixed = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// The counts of one property.
#[derive(Default)]
pub(super) struct Cells {
    /// The counts of the first values, `stride` for each.
    flat: Vec<u64>,
    /// A power of two: the number of segments that a value has room for.
    stride: usize,
    /// The most counts in the array.
    limit: usize,
    /// All others, by the number of the value, in the upper half, and of the segment.
    others: HashMap<u64, u64, BuildHasherDefault<CellHasher>>,
}

impl Cells {
    /// No counts. The array takes up to so many bytes.
    pub(super) fn new(bytes: usize) -> Cells {
        Cells {
            limit: bytes / size_of::<u64>(),
            ..Cells::default()
        }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u32, segment: u32, count: u64) {
        let at = value as usize * self.stride + segment as usize;
        if (segment as usize) < self.stride && at < self.flat.len() {
            self.flat[at] += count;
        } else {
            self.add_beyond(value, segment, count);
        }
    }

    #[inline(never)]
    fn add_beyond(&mut self, value: u32, segment: u32, count: u64) {
        if segment as usize >= self.stride {
            let old = std::mem::take(self);
            self.limit = old.limit;
            self.stride = (segment as usize + 1).next_power_of_two();
            for (value, segment, count) in old.iter() {
                self.add(value, segment, count);
            }
        }
        let at = value as usize * self.stride + segment as usize;
        let end = (value as usize + 1) * self.stride;
        if end <= self.limit {
            if end > self.flat.len() {
                // Only whole rows, so that no cell is in both.
                let most = self.limit - self.limit % self.stride;
                self.flat.resize(end.max(2 * self.flat.len()).min(most), 0);
            }
            self.flat[at] += count;
        } else {
            let cell = u64::from(value) << 32 | u64::from(segment);
            *self.others.entry(cell).or_default() += count;
        }
    }

    /// Value, segment and count of every cell that has one, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let stride = self.stride.max(1);
        let flat = self.flat.iter().enumerate();
        flat.filter(|(_, count)| **count > 0)
            .map(move |(at, count)| ((at / stride) as u32, (at % stride) as u32, *count))
            .chain(
                self.others
                    .iter()
                    .map(|(cell, count)| ((cell >> 32) as u32, *cell as u32, *count)),
            )
    }

    /// The bytes that it takes in memory, about.
    pub(super) fn size(&self) -> usize {
        self.flat.len() * size_of::<u64>() + self.others.capacity() * 17
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn counts_are_kept_in_the_array_and_beyond(
            added in prop::collection::vec((0u32..40, 0u32..40, 1u64..5), 0..300),
            bytes in 0usize..8_000,
        ) {
            let mut cells = Cells::new(bytes);
            let mut naive: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for (value, segment, count) in added {
                cells.add(value, segment, count);
                *naive.entry((value, segment)).or_default() += count;
            }
            let found: BTreeMap<(u32, u32), u64> =
                cells.iter().map(|(value, segment, count)| ((value, segment), count)).collect();
            prop_assert_eq!(cells.iter().count(), found.len());
            prop_assert_eq!(found, naive);
            prop_assert!(cells.flat.len() * 8 <= bytes);
        }
    }
}
