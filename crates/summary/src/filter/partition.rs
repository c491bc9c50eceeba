//! Hashes in any order, any number of them, in bounded memory: radix partitions on disk.
//!
//! Hashes go to one of 1,024 buckets by their highest bits. When the buckets hold as much as memory
//! allows, all are appended to one temporary file. In the end every bucket is small enough to be read
//! back, sorted and deduplicated by itself, and the sorted buckets one after the other are the sorted
//! whole. So the result does not depend on the order in which hashes came.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::hash::{Hash, high, spread};
use super::run::{Run, RunWriter, decode};
use crate::error::{Error, Result};

/// How many of the highest bits decide.
const BITS: u32 = 10;
const BUCKETS: usize = 1 << BITS;

/// Hashes that were given so far.
pub(crate) struct Partitions {
    buckets: Vec<Vec<Hash>>,
    /// Hashes in memory, and how many may be.
    held: usize,
    most: usize,
    spill: Option<Spill>,
    memory: usize,
    folder: PathBuf,
}

/// What did not fit in memory.
struct Spill {
    file: File,
    end: u64,
    /// For each bucket, where in the file its hashes are, and how many.
    extents: Vec<Vec<(u64, u32)>>,
    bytes: Vec<u8>,
}

impl Partitions {
    /// `memory` in bytes is for everything until the run is made. Temporary files are in `folder`,
    /// without a name.
    pub(crate) fn new(memory: usize, folder: &Path) -> Partitions {
        Partitions {
            buckets: vec![Vec::new(); BUCKETS],
            held: 0,
            // Vectors may have twice the room that they use.
            most: (memory / 4 / 16).max(BUCKETS),
            spill: None,
            memory,
            folder: folder.to_owned(),
        }
    }

    /// Takes hashes in.
    pub(crate) fn add(&mut self, hashes: &[Hash]) -> Result<()> {
        for &hash in hashes {
            self.buckets[(hash >> (128 - BITS)) as usize].push(hash);
        }
        self.held += hashes.len();
        if self.held >= self.most {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let fail = |error| Error::io("write a temporary file in", &self.folder, error);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill {
                file: tempfile::tempfile_in(&self.folder).map_err(fail)?,
                end: 0,
                extents: vec![Vec::new(); BUCKETS],
                bytes: Vec::new(),
            }),
        };
        for (bucket, extents) in self.buckets.iter_mut().zip(&mut spill.extents) {
            // Part of a bucket at a time: a skewed one can be as large as all memory.
            for part in bucket.chunks(1 << 16) {
                spill.bytes.clear();
                spill
                    .bytes
                    .extend(part.iter().flat_map(|hash| hash.to_le_bytes()));
                spill
                    .file
                    .write_all_at(&spill.bytes, spill.end)
                    .map_err(fail)?;
                match extents.last_mut() {
                    Some((start, count))
                        if *start + u64::from(*count) * 16 == spill.end && *count < 1 << 28 =>
                    {
                        *count += part.len() as u32;
                    }
                    _ => extents.push((spill.end, part.len() as u32)),
                }
                spill.end += spill.bytes.len() as u64;
            }
            bucket.clear();
        }
        self.held = 0;
        Ok(())
    }

    /// Sorts what was given.
    pub(crate) fn finish(mut self) -> Result<Run> {
        let mut out = RunWriter::new(self.memory / 4, &self.folder);
        if self.spill.is_none() {
            self.buckets.par_iter_mut().for_each(sort);
            for bucket in &mut self.buckets {
                out.push(&std::mem::take(bucket))?;
            }
            return out.finish();
        }
        self.spill()?;
        self.buckets = Vec::new();
        let Some(spill) = self.spill else {
            return out.finish();
        };
        let most = (self.memory / 4).max(1 << 16) as u64;
        let size = |bucket: usize| -> u64 {
            spill.extents[bucket]
                .iter()
                .map(|(_, count)| u64::from(*count) * 16)
                .sum()
        };
        let mut next = 0;
        while next < BUCKETS {
            // As many buckets as fit are sorted side by side.
            let (first, mut bytes) = (next, size(next));
            next += 1;
            while next < BUCKETS && bytes + size(next) <= most {
                bytes += size(next);
                next += 1;
            }
            if bytes <= most {
                let sorted: Vec<Result<Vec<Hash>>> = (first..next)
                    .into_par_iter()
                    .map(|bucket| spill.load(bucket, 0, 1, &self.folder))
                    .collect();
                for hashes in sorted {
                    out.push(&hashes?)?;
                }
            } else {
                // One bucket that does not fit: piece by piece, reading all of it for each.
                let pieces = bytes.div_ceil(most) * 2;
                for piece in 0..pieces {
                    out.push(&spill.load(first, piece, pieces, &self.folder)?)?;
                }
            }
        }
        out.finish()
    }
}

impl Spill {
    /// The hashes of a bucket, or of one of so many pieces of it, sorted, each once.
    fn load(&self, bucket: usize, piece: u64, pieces: u64, folder: &Path) -> Result<Vec<Hash>> {
        let fail = |error| Error::io("read a temporary file in", folder, error);
        let mut hashes = Vec::new();
        if pieces == 1 {
            let count: usize = self.extents[bucket]
                .iter()
                .map(|(_, count)| *count as usize)
                .sum();
            hashes.reserve_exact(count);
        }
        let mut bytes = Vec::new();
        for &(start, count) in &self.extents[bucket] {
            let mut done = 0;
            while done < u64::from(count) {
                let now = (u64::from(count) - done).min(1 << 16);
                bytes.resize(now as usize * 16, 0);
                self.file
                    .read_exact_at(&mut bytes, start + done * 16)
                    .map_err(fail)?;
                done += now;
                if pieces == 1 {
                    hashes.extend(decode(&bytes));
                } else {
                    let here = |hash: &Hash| spread(high(*hash) << BITS, pieces) == piece;
                    hashes.extend(decode(&bytes).filter(here));
                }
            }
        }
        sort(&mut hashes);
        Ok(hashes)
    }
}

fn sort(hashes: &mut Vec<Hash>) {
    hashes.sort_unstable();
    hashes.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_order_and_any_memory_give_the_same_run(
            hashes in proptest::collection::vec(any::<u128>(), 0..6000),
            skewed in any::<bool>(),
            memory in prop_oneof![Just(0usize), Just(200_000), Just(1 << 24)],
            cut in 1usize..700,
        ) {
            // Skewed hashes all fall into one bucket, which then does not fit.
            let hashes: Vec<Hash> = hashes.into_iter().map(|hash| if skewed { hash >> BITS } else { hash }).collect();
            let mut partitions = Partitions::new(memory, &std::env::temp_dir());
            for part in hashes.chunks(cut).rev().chain([&hashes[..hashes.len() / 2]]) {
                partitions.add(part).unwrap();
            }
            let mut expected = hashes;
            sort(&mut expected);
            let run = partitions.finish().unwrap();
            let mut found = Vec::new();
            run.reader().take_while(|_| true, &mut found).unwrap();
            prop_assert_eq!(run.count(), expected.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }
}
