//! Counts distinct items exactly in bounded memory.
//!
//! Items are identified by a hash of 128 bits (XXH3): among ten billion, the probability that any two
//! collide is 10⁻¹⁹. Hashes are collected and spilled unsorted, and sorted only when they are counted:
//! for sorted input they never are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rayon::slice::ParallelSliceMut;

use super::{Decoder, Encoder, Spill};
use crate::error::Result;

/// How many hashes are written at once.
const CHUNK: usize = 1 << 12;

/// So few hashes are copied, because a vector takes as much memory.
const FEW: usize = 8;

/// Hashes in any order, possibly with duplicates.
#[derive(Debug)]
pub struct Hashes {
    /// The number of hashes that may be in memory.
    most: usize,
    /// Those in memory, as they came: copying them would keep the thread that merges from its work.
    held: Vec<Vec<u128>>,
    /// How many hashes there is memory for in `held`.
    room: usize,
    spill: Arc<Spill>,
    /// Spilled hashes: their offset in the file, and their number.
    extents: Vec<(u64, u32)>,
}

impl Hashes {
    /// No hashes. At most `share` bytes of them stay in memory.
    pub fn new(share: usize, spill: &Arc<Spill>) -> Hashes {
        Hashes {
            // To be counted, all are copied into one vector.
            most: (share / size_of::<u128>() / 2).max(1024),
            held: Vec::new(),
            room: 0,
            spill: Arc::clone(spill),
            extents: Vec::new(),
        }
    }

    /// Adds a hash. It stays in memory until the partial is merged.
    #[inline]
    pub fn add(&mut self, hash: u128) {
        match self.held.last_mut() {
            Some(last) => last.push(hash),
            None => self.held.push(vec![hash]),
        }
    }

    /// Gives back the memory that is not used. Should be called before merging, on the thread that added
    /// the hashes.
    pub fn seal(&mut self) {
        // A few more are often added when it is merged.
        self.held
            .iter_mut()
            .for_each(|held| held.shrink_to(held.len() + FEW));
    }

    /// Merges a later partial into this one.
    ///
    /// # Errors
    /// If hashes cannot be spilled.
    pub fn merge(&mut self, mut later: Hashes) -> Result<()> {
        let room: usize = later.held.iter().map(Vec::capacity).sum();
        if self.room + room > self.most {
            self.flush()?;
        }
        match self.held.last_mut() {
            Some(last) if room <= FEW => later.held.iter().for_each(|few| last.extend(few)),
            _ => self.held.append(&mut later.held),
        }
        self.room += room;
        if !later.extents.is_empty() {
            if Arc::ptr_eq(&self.spill, &later.spill) {
                self.extents.extend(later.extents);
            } else {
                let mut bytes = Vec::new();
                for (at, count) in later.extents {
                    bytes.resize(count as usize * 16, 0);
                    later.spill.read(at, &mut bytes)?;
                    self.extents.push((self.spill.append(&bytes)?, count));
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.room = 0;
        let mut bytes = Vec::with_capacity(16 * CHUNK);
        let mut hashes = held.iter().flatten().peekable();
        while hashes.peek().is_some() {
            write(hashes.by_ref().take(CHUNK), &mut bytes);
            let count = (bytes.len() / 16) as u32;
            self.extents.push((self.spill.append(&bytes)?, count));
        }
        Ok(())
    }

    /// Passes all hashes to a function, in batches.
    fn each(&self, mut take: impl FnMut(&[u128]) -> Result<()>) -> Result<()> {
        let (mut bytes, mut hashes) = (Vec::new(), Vec::new());
        for &(at, count) in &self.extents {
            bytes.resize(count as usize * 16, 0);
            self.spill.read(at, &mut bytes)?;
            hashes.clear();
            hashes.extend(read(&bytes));
            take(&hashes)?;
        }
        self.held.iter().try_for_each(|hashes| take(hashes))
    }

    /// The number of distinct hashes.
    ///
    /// # Errors
    /// If spilled hashes cannot be read.
    pub fn count(mut self) -> Result<u64> {
        if self.extents.is_empty() {
            let mut held = self.held.concat();
            sort(&mut held);
            return Ok(held.len() as u64);
        }
        self.flush()?;
        // Writes sorted runs, as long as memory allows, to another file and merges them.
        let sorted = Spill::new(self.spill.folder());
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut held: Vec<u128> = Vec::with_capacity(self.most);
        let mut bytes = Vec::with_capacity(16 * CHUNK);
        let mut end_run = |held: &mut Vec<u128>| -> Result<()> {
            sort(held);
            let mut start = None;
            for some in held.chunks(CHUNK) {
                write(some.iter(), &mut bytes);
                let at = sorted.append(&bytes)?;
                start = start.or(Some(at));
            }
            runs.extend(start.map(|start| (start, held.len() as u64)));
            held.clear();
            Ok(())
        };
        let most = self.most;
        self.each(|hashes| {
            if held.len() + hashes.len() > most {
                end_run(&mut held)?;
            }
            held.extend_from_slice(hashes);
            Ok(())
        })?;
        end_run(&mut held)?;
        drop(held);
        let buffer = (most / runs.len().max(1)).clamp(64, 1 << 16);
        let mut readers: Vec<RunReader<'_>> = runs
            .into_iter()
            .map(|(at, left)| RunReader {
                spill: &sorted,
                at,
                left,
                buffer,
                held: Vec::new().into_iter(),
            })
            .collect();
        let mut heads = BinaryHeap::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            if let Some(hash) = reader.next()? {
                heads.push(Reverse((hash, number)));
            }
        }
        let (mut count, mut last) = (0, None);
        while let Some(Reverse((hash, number))) = heads.pop() {
            if last != Some(hash) {
                count += 1;
                last = Some(hash);
            }
            if let Some(hash) = readers[number].next()? {
                heads.push(Reverse((hash, number)));
            }
        }
        Ok(count)
    }

    /// Serialises all hashes, including spilled ones.
    ///
    /// # Errors
    /// If spilled hashes cannot be read.
    pub fn encode(&self, out: &mut Encoder) -> Result<()> {
        let spilled: u64 = self
            .extents
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        let held = self.held.iter().map(|hashes| hashes.len() as u64);
        out.number(spilled + held.sum::<u64>());
        self.each(|hashes| {
            hashes.iter().for_each(|hash| out.hash(*hash));
            Ok(())
        })
    }

    /// Deserialises hashes into an empty partial.
    ///
    /// # Errors
    /// If the bytes are damaged, or hashes cannot be spilled.
    pub fn decode(mut self, from: &mut Decoder<'_>) -> Result<Hashes> {
        let count = from.count()?;
        for _ in 0..count {
            if self.room >= self.most {
                self.flush()?;
            }
            self.add(from.hash()?);
            self.room += 1;
        }
        Ok(self)
    }
}

/// Reads a sorted run.
struct RunReader<'a> {
    spill: &'a Spill,
    at: u64,
    left: u64,
    buffer: usize,
    held: std::vec::IntoIter<u128>,
}

impl RunReader<'_> {
    fn next(&mut self) -> Result<Option<u128>> {
        if self.held.len() == 0 && self.left > 0 {
            let count = self.left.min(self.buffer as u64);
            let mut bytes = vec![0; count as usize * 16];
            self.spill.read(self.at, &mut bytes)?;
            self.at += bytes.len() as u64;
            self.left -= count;
            self.held = read(&bytes).collect::<Vec<_>>().into_iter();
        }
        Ok(self.held.next())
    }
}

fn sort(hashes: &mut Vec<u128>) {
    hashes.par_sort_unstable();
    hashes.dedup();
}

fn write<'a>(hashes: impl Iterator<Item = &'a u128>, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend(hashes.flat_map(|hash| hash.to_le_bytes()));
}

fn read(bytes: &[u8]) -> impl Iterator<Item = u128> + '_ {
    bytes
        .as_chunks::<16>()
        .0
        .iter()
        .map(|bytes| u128::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn the_count_is_exact_whatever_the_memory_and_the_pieces(
            hashes in proptest::collection::vec(0u128..5000, 0..20_000),
            share in 0usize..200_000,
            piece in 1usize..3000,
            sent in any::<bool>(),
        ) {
            let spill = Spill::new(&std::env::temp_dir());
            let mut all = Hashes::new(share, &spill);
            for some in hashes.chunks(piece) {
                let mut part = Hashes::new(share, &spill);
                some.iter().for_each(|hash| part.add(*hash));
                all.merge(part).unwrap();
                if sent && some.len() == piece {
                    let mut out = Encoder::new("h", 1);
                    all.encode(&mut out).unwrap();
                    let bytes = out.finish();
                    let mut from = Decoder::new(&bytes, "h", 1).unwrap();
                    let other = Spill::new(&std::env::temp_dir());
                    let mut again = Hashes::new(share, &spill);
                    again.merge(Hashes::new(share, &other).decode(&mut from).unwrap()).unwrap();
                    all = again;
                }
            }
            let expected: HashSet<u128> = hashes.into_iter().collect();
            prop_assert_eq!(all.count().unwrap(), expected.len() as u64);
        }
    }
}
