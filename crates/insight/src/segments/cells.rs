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
    /// The counts of the first values, `stride` for each; half as wide as others, to be in the cache.
    flat: Vec<u32>,
    /// A power of two: the number of segments that a value has room for.
    stride: usize,
    /// The most counts in the array.
    limit: usize,
    /// All others, and what exceeds the counts in the array, by the number of the value, in the upper half, and of the segment.
    others: HashMap<u64, u64, BuildHasherDefault<CellHasher>>,
}

impl Cells {
    /// No counts. The array takes up to so many bytes.
    pub(super) fn new(bytes: usize) -> Cells {
        Cells {
            limit: bytes / size_of::<u32>(),
            ..Cells::default()
        }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u32, segment: u32, count: u64) {
        let at = value as usize * self.stride + segment as usize;
        if (segment as usize) < self.stride
            && let Some(sum) = self.flat.get_mut(at)
            && let Ok(count) = u32::try_from(count)
            && let Some(more) = sum.checked_add(count)
        {
            *sum = more;
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
                // Only whole rows.
                let most = self.limit - self.limit % self.stride;
                self.flat.resize(end.max(2 * self.flat.len()).min(most), 0);
            }
            let sum = u64::from(self.flat[at]).saturating_add(count);
            if let Ok(sum) = u32::try_from(sum) {
                self.flat[at] = sum;
                return;
            }
        }
        let cell = u64::from(value) << 32 | u64::from(segment);
        let sum = self.others.entry(cell).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Value, segment and count of every cell that has one, in no particular order; twice if it exceeds
    /// the counts in the array.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let stride = self.stride.max(1);
        let flat = self.flat.iter().enumerate();
        flat.filter(|(_, count)| **count > 0)
            .map(move |(at, count)| {
                (
                    (at / stride) as u32,
                    (at % stride) as u32,
                    u64::from(*count),
                )
            })
            .chain(
                self.others
                    .iter()
                    .map(|(cell, count)| ((cell >> 32) as u32, *cell as u32, *count)),
            )
    }

    /// The values in the array that have counts.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        let rows = self.flat.chunks_exact(self.stride.max(1)).zip(0..);
        rows.filter(|(row, _)| row.iter().any(|count| *count > 0))
            .map(|(_, value)| value)
    }

    /// Passes value, segment and count of every cell that has one: first the given rows and segments of
    /// the array, in that order, then all that are not in the array.
    pub(super) fn each(&self, rows: &[u32], segments: &[u32], mut take: impl FnMut(u32, u32, u64)) {
        for &value in rows {
            let row = &self.flat[value as usize * self.stride..][..self.stride];
            for &segment in segments {
                if let Some(&count) = row.get(segment as usize)
                    && count > 0
                {
                    take(value, segment, u64::from(count));
                }
            }
        }
        for (cell, count) in &self.others {
            take((cell >> 32) as u32, *cell as u32, *count);
        }
    }

    /// The bytes that it takes in memory, about.
    pub(super) fn size(&self) -> usize {
        self.flat.len() * size_of::<u32>() + self.others.capacity() * 17
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn counts_may_exceed_those_in_the_array() {
        let mut cells = Cells::new(1 << 10);
        let counts = [u64::from(u32::MAX), 1, 5, u64::MAX / 2, 7];
        counts.iter().for_each(|count| cells.add(3, 2, *count));
        // A value of another segment moves all of them.
        cells.add(3, 9, 1);
        let of = |wanted: u32| -> u64 {
            let cells = cells.iter().filter(|(_, segment, _)| *segment == wanted);
            cells.map(|(_, _, count)| count).sum()
        };
        assert_eq!(of(2), counts.iter().sum::<u64>());
        assert_eq!(of(9), 1);
    }

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
            let (rows, segments): (Vec<u32>, Vec<u32>) = (cells.rows().collect(), (0..40).rev().collect());
            let mut passed = Vec::new();
            cells.each(&rows, &segments, |value, segment, count| passed.push(((value, segment), count)));
            prop_assert_eq!(passed.len(), found.len());
            prop_assert_eq!(passed.into_iter().collect::<BTreeMap<_, _>>(), found.clone());
            prop_assert_eq!(found, naive);
            prop_assert!(cells.flat.len() * 4 <= bytes);
        }
    }
}
