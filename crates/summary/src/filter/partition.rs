//! Sorting any number of hashes in limited memory: radix partitions on disk.
//!
//! Hashes go into one of 1,024 buckets by their highest bits. When memory is full, all buckets are
//! appended to a temporary file, and from then on each bucket whenever it is full. In the end every
//! bucket is small enough to be read back, sorted and deduplicated on its own, and the sorted
//! buckets in sequence are the sorted whole. So the result does not depend on the order of the
//! input.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::hash::{Hash, high, spread};
use super::run::{Run, RunWriter, decode};
use crate::error::{Error, Result};
use waypost_io::pipeline::{self, Pool, Width};

/// The number of highest bits that select the bucket.
const BITS: u32 = 10;
const BUCKETS: usize = 1 << BITS;

/// At most so many hashes go into their buckets at once, on all cores.
const BATCH: usize = 1 << 18;

/// A thread takes so many of them.
const SHARE: usize = 1 << 14;

/// The hashes so far.
pub(crate) struct Partitions {
    /// Less than a batch.
    waiting: Vec<Hash>,
    batch: usize,
    buckets: Vec<Bucket>,
    /// The capacity of a bucket once there is a file.
    largest: usize,
    /// The number of hashes held in memory before there is a file.
    room: usize,
    spill: Option<Spill>,
    memory: usize,
    folder: PathBuf,
}

#[derive(Default)]
struct Bucket {
    hashes: Vec<Hash>,
    /// The number at which it is full.
    most: usize,
}

/// The spilled hashes.
struct Spill {
    file: File,
    end: u64,
    /// For each bucket, the offsets and numbers of its hashes in the file.
    extents: Vec<Vec<(u64, u32)>>,
    bytes: Vec<u8>,
}

impl Partitions {
    /// `memory`, in bytes, covers everything until the run is built. Temporary files are created in
    /// `folder`, without a name.
    pub(crate) fn new(memory: usize, folder: &Path) -> Partitions {
        let mut buckets = Vec::new();
        buckets.resize_with(BUCKETS, || Bucket {
            hashes: Vec::new(),
            most: usize::MAX,
        });
        Partitions {
            waiting: Vec::new(),
            batch: (memory / 16 / 16).clamp(1 << 12, BATCH),
            buckets,
            // Vectors may have twice the capacity that they use.
            room: (memory / 4 / 16).max(BUCKETS),
            largest: (memory / 2 / 16 / BUCKETS).max(1 << 6),
            spill: None,
            memory,
            folder: folder.to_owned(),
        }
    }

    /// Adds hashes.
    #[inline]
    pub(crate) fn add(&mut self, hashes: &[Hash]) -> Result<()> {
        self.waiting.extend_from_slice(hashes);
        match self.waiting.len() < self.batch {
            true => Ok(()),
            false => self.settle(),
        }
    }

    /// Puts the waiting hashes into their buckets.
    fn settle(&mut self) -> Result<()> {
        let shares: Vec<Share> = self.waiting.par_chunks(SHARE).map(Share::new).collect();
        let buckets = self.buckets.par_iter_mut().enumerate();
        buckets.for_each(|(number, bucket)| {
            for share in &shares {
                bucket.hashes.extend_from_slice(share.of(number));
            }
        });
        if self.spill.is_none() {
            self.room = self.room.saturating_sub(self.waiting.len());
            if self.room == 0 {
                self.begin_file()?;
            }
        } else {
            for number in 0..BUCKETS {
                if self.buckets[number].hashes.len() >= self.buckets[number].most {
                    self.write(number)?;
                }
            }
        }
        self.waiting.clear();
        Ok(())
    }

    /// Passes on all hashes, some at a time, in no particular order.
    pub(crate) fn each(&self, mut take: impl FnMut(&[Hash]) -> Result<()>) -> Result<()> {
        if let Some(spill) = &self.spill {
            let (mut bytes, mut hashes) = (Vec::new(), Vec::new());
            for &(start, count) in spill.extents.iter().flatten() {
                bytes.resize(count as usize * 16, 0);
                spill
                    .file
                    .read_exact_at(&mut bytes, start)
                    .map_err(|error| Error::io("read a temporary file in", &self.folder, error))?;
                hashes.clear();
                hashes.extend(decode(&bytes));
                take(&hashes)?;
            }
        }
        take(&self.waiting)?;
        self.buckets
            .iter()
            .try_for_each(|bucket| take(&bucket.hashes))
    }

    /// Writes all buckets; from now on each is written on its own.
    fn begin_file(&mut self) -> Result<()> {
        let file = tempfile::tempfile_in(&self.folder)
            .map_err(|error| Error::io("write a temporary file in", &self.folder, error))?;
        self.spill = Some(Spill {
            file,
            end: 0,
            extents: vec![Vec::new(); BUCKETS],
            bytes: Vec::new(),
        });
        for number in 0..BUCKETS {
            self.write(number)?;
            // Stagger the buckets so that they don't all fill up at the same time, which would
            // block the producer.
            self.buckets[number].most = (self.largest * (number + 1) / BUCKETS).max(1);
        }
        Ok(())
    }

    /// Appends a bucket to the file.
    fn write(&mut self, number: usize) -> Result<()> {
        let bucket = &mut self.buckets[number];
        bucket.most = self.largest;
        let Some(spill) = &mut self.spill else {
            return Ok(());
        };
        // One part at a time: before there was a file, a skewed bucket may have had everything.
        for part in bucket.hashes.chunks(1 << 16) {
            spill.bytes.clear();
            spill
                .bytes
                .extend(part.iter().flat_map(|hash| hash.to_le_bytes()));
            spill
                .file
                .write_all_at(&spill.bytes, spill.end)
                .map_err(|error| Error::io("write a temporary file in", &self.folder, error))?;
            spill.extents[number].push((spill.end, part.len() as u32));
            spill.end += spill.bytes.len() as u64;
        }
        bucket.hashes.clear();
        bucket.hashes.shrink_to(self.largest);
        Ok(())
    }

    /// Sorts all hashes.
    pub(crate) fn finish(mut self) -> Result<Run> {
        self.settle()?;
        self.waiting = Vec::new();
        let mut out = RunWriter::new(self.memory / 4, &self.folder);
        if self.spill.is_none() {
            self.buckets.par_iter_mut().for_each(|bucket| {
                sort(&mut bucket.hashes);
                bucket.hashes.shrink_to_fit();
            });
            for bucket in self.buckets {
                out.push_chunk(bucket.hashes)?;
            }
            return out.finish();
        }
        for number in 0..BUCKETS {
            self.write(number)?;
        }
        self.buckets = Vec::new();
        let Some(spill) = self.spill else {
            return out.finish();
        };
        let most = (self.memory / 4).max(1 << 16) as u64;
        let pieces: Vec<Piece> = (0..BUCKETS)
            .flat_map(|bucket| {
                // A bucket that does not fit is processed in pieces, reading all of it for each.
                let bytes = spill.size(bucket);
                let count = if bytes <= most {
                    1
                } else {
                    bytes.div_ceil(most) * 2
                };
                (0..count).map(move |number| Piece {
                    bucket,
                    number,
                    count,
                })
            })
            .collect();
        let largest = (0..BUCKETS).map(|bucket| spill.size(bucket).min(most));
        let width = Width::within(self.memory / 2, 0, largest.max().unwrap_or(0) as usize);
        let buffers: Pool<Vec<Hash>> = Pool::new();
        let mut pieces = pieces.into_iter();
        let worker = || {
            let mut bytes = Vec::new();
            let (spill, buffers, folder) = (&spill, &buffers, &self.folder);
            move |piece| {
                let mut hashes = buffers.get();
                spill
                    .load(piece, &mut bytes, &mut hashes)
                    .map_err(|error| Error::io("read a temporary file in", folder, error))?;
                sort(&mut hashes);
                Ok::<_, Error>(hashes)
            }
        };
        pipeline::run(
            width,
            || Ok(pieces.next()),
            worker,
            |mut hashes| {
                out.push(&hashes)?;
                hashes.clear();
                buffers.put(hashes);
                Ok(())
            },
        )?;
        out.finish()
    }
}

/// Some hashes in the order of their buckets.
struct Share {
    hashes: Vec<Hash>,
    /// Where those of each bucket begin, and the end.
    starts: Vec<u32>,
}

impl Share {
    fn new(hashes: &[Hash]) -> Share {
        let mut starts = vec![0; BUCKETS + 1];
        for &hash in hashes {
            starts[bucket_of(hash) + 1] += 1;
        }
        for number in 0..BUCKETS {
            starts[number + 1] += starts[number];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; hashes.len()];
        for &hash in hashes {
            let place = &mut next[bucket_of(hash)];
            sorted[*place as usize] = hash;
            *place += 1;
        }
        Share {
            hashes: sorted,
            starts,
        }
    }

    fn of(&self, bucket: usize) -> &[Hash] {
        &self.hashes[self.starts[bucket] as usize..self.starts[bucket + 1] as usize]
    }
}

fn bucket_of(hash: Hash) -> usize {
    (hash >> (128 - BITS)) as usize
}

/// A bucket, or one of several parts of it.
#[derive(Clone, Copy)]
struct Piece {
    bucket: usize,
    number: u64,
    count: u64,
}

impl Spill {
    /// The number of bytes of a bucket in the file.
    fn size(&self, bucket: usize) -> u64 {
        let extents = self.extents[bucket].iter();
        extents.map(|(_, count)| u64::from(*count) * 16).sum()
    }

    /// Reads the hashes of a piece.
    fn load(&self, piece: Piece, bytes: &mut Vec<u8>, hashes: &mut Vec<Hash>) -> io::Result<()> {
        if piece.count == 1 {
            hashes.reserve_exact(self.size(piece.bucket) as usize / 16);
        }
        for &(start, count) in &self.extents[piece.bucket] {
            bytes.resize(count as usize * 16, 0);
            self.file.read_exact_at(bytes, start)?;
            if piece.count == 1 {
                hashes.extend(decode(bytes));
            } else {
                let here = |hash: &Hash| spread(high(*hash) << BITS, piece.count) == piece.number;
                hashes.extend(decode(bytes).filter(here));
            }
        }
        Ok(())
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
