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
use super::run::{Run, RunWriter, decode, write_hashes};
use crate::error::{Error, Result};
use waypost_io::pipeline::{self, Pool, Width};

/// The number of highest bits that select the bucket.
const BITS: u32 = 10;
const BUCKETS: usize = 1 << BITS;

/// At most so many hashes go into their buckets at once, on all cores.
const BATCH: usize = 1 << 18;

/// A thread takes so many of them.
const SHARE: usize = 1 << 14;

/// At most this many are written at once.
const PART: usize = 1 << 16;

/// The hashes so far.
pub(crate) struct Partitions {
    /// Less than a batch.
    waiting: Vec<Hash>,
    batch: usize,
    /// All others, until there is a file.
    held: Vec<Share>,
    /// How many more hashes fit in memory before they are spilled.
    room: usize,
    spill: Option<Spill>,
    memory: usize,
    folder: PathBuf,
}

/// The buckets once there is a file.
struct Spill {
    file: File,
    end: u64,
    /// For each bucket, the offsets and numbers of its hashes in the file.
    extents: Vec<Vec<(u64, u32)>>,
    bytes: Vec<u8>,
    /// The hashes of each bucket that are not in the file yet, in one allocation: a vector for each,
    /// growing on one thread and freed on another, took up to three times the memory.
    hashes: Vec<Hash>,
    buckets: Vec<Bucket>,
}

/// A bucket in memory.
#[derive(Clone, Copy)]
struct Bucket {
    count: usize,
    /// The number at which it is full.
    most: usize,
}

impl Partitions {
    /// `memory`, in bytes, covers everything until the run is built. Temporary files are created in
    /// `folder`, without a name.
    pub(crate) fn new(memory: usize, folder: &Path) -> Partitions {
        Partitions {
            waiting: Vec::new(),
            batch: (memory / 16 / 16).clamp(1 << 12, BATCH),
            held: Vec::new(),
            // They are copied when they are sorted, or while the buckets in memory fill up.
            room: (memory / 4 / 16).max(BUCKETS),
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
        self.room = self.room.saturating_sub(self.waiting.len());
        self.waiting.clear();
        match &mut self.spill {
            Some(spill) => spill.add(&shares).map_err(cannot_write(&self.folder)),
            None => {
                self.held.extend(shares);
                match self.room {
                    0 => self.begin_file(),
                    _ => Ok(()),
                }
            }
        }
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
            (0..BUCKETS).try_for_each(|number| take(spill.of(number)))?;
        }
        self.held.iter().try_for_each(|share| take(&share.hashes))?;
        take(&self.waiting)
    }

    /// Writes all hashes to a file.
    fn begin_file(&mut self) -> Result<()> {
        let file = tempfile::tempfile_in(&self.folder).map_err(cannot_write(&self.folder))?;
        let mut spill = Spill::new(file, (self.memory / 2 / 16 / BUCKETS).max(1 << 6));
        for number in 0..BUCKETS {
            let of_bucket = self.held.iter().map(|share| share.of(number));
            spill
                .append(number, of_bucket)
                .map_err(cannot_write(&self.folder))?;
        }
        self.held = Vec::new();
        self.spill = Some(spill);
        Ok(())
    }

    /// Sorts all hashes.
    pub(crate) fn finish(mut self) -> Result<Run> {
        self.settle()?;
        self.waiting = Vec::new();
        let mut out = RunWriter::new(self.memory / 4, &self.folder);
        let Some(mut spill) = self.spill else {
            let held = &self.held;
            let in_bucket = |number| {
                let of_bucket: Vec<&[Hash]> = held.iter().map(|share| share.of(number)).collect();
                let mut hashes = of_bucket.concat();
                sort(&mut hashes);
                hashes.shrink_to_fit();
                hashes
            };
            let buckets: Vec<Vec<Hash>> = (0..BUCKETS).into_par_iter().map(in_bucket).collect();
            drop(self.held);
            for hashes in buckets {
                out.push_chunk(hashes)?;
            }
            return out.finish();
        };
        for number in 0..BUCKETS {
            spill.write(number).map_err(cannot_write(&self.folder))?;
        }
        spill.hashes = Vec::new();
        let most = (self.memory / 4).max(1 << 16) as u64;
        let pieces: Vec<Piece> = (0..BUCKETS)
            .flat_map(|bucket| {
                // A bucket that does not fit is processed in pieces, reading all of it for each.
                let bytes = spill.bytes_of(bucket);
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
        let largest = (0..BUCKETS).map(|bucket| spill.bytes_of(bucket).min(most));
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
    /// No hashes. Buckets in memory have at most `size` of them.
    fn new(file: File, size: usize) -> Spill {
        // Staggered, so that they don't all fill up at the same time, which would block the producer.
        let buckets = (1..=BUCKETS).map(|number| Bucket {
            count: 0,
            most: size * number / BUCKETS,
        });
        Spill {
            file,
            end: 0,
            extents: vec![Vec::new(); BUCKETS],
            bytes: Vec::new(),
            hashes: vec![0; BUCKETS * size],
            buckets: buckets.collect(),
        }
    }

    /// The largest number of hashes of a bucket in memory.
    fn size(&self) -> usize {
        self.hashes.len() / BUCKETS
    }

    /// The hashes of a bucket that are in memory.
    fn of(&self, number: usize) -> &[Hash] {
        &self.hashes[number * self.size()..][..self.buckets[number].count]
    }

    /// Adds hashes to their buckets, and writes those that are full.
    fn add(&mut self, shares: &[Share]) -> io::Result<()> {
        let size = self.size();
        let more = |number| -> usize { shares.iter().map(|share| share.of(number).len()).sum() };
        for number in 0..BUCKETS {
            let more = more(number);
            if self.buckets[number].count + more > self.buckets[number].most {
                self.write(number)?;
            }
            if more > size {
                self.append(number, shares.iter().map(|share| share.of(number)))?;
            }
        }
        let places = self.hashes.par_chunks_mut(size).zip(&mut self.buckets);
        places.enumerate().for_each(|(number, (place, bucket))| {
            if more(number) > size {
                return;
            }
            for share in shares {
                let hashes = share.of(number);
                place[bucket.count..][..hashes.len()].copy_from_slice(hashes);
                bucket.count += hashes.len();
            }
        });
        Ok(())
    }

    /// Moves a bucket to the file.
    fn write(&mut self, number: usize) -> io::Result<()> {
        let size = self.size();
        let count = self.buckets[number].count;
        let hashes = std::mem::take(&mut self.hashes);
        let written = self.append(number, [&hashes[number * size..][..count]]);
        self.hashes = hashes;
        self.buckets[number] = Bucket {
            count: 0,
            most: size,
        };
        written
    }

    /// Appends hashes of a bucket to the file.
    fn append<'h>(
        &mut self,
        number: usize,
        hashes: impl IntoIterator<Item = &'h [Hash]>,
    ) -> io::Result<()> {
        self.bytes.clear();
        for hashes in hashes {
            // Some at a time: a skewed bucket may have everything.
            for hashes in hashes.chunks(PART) {
                if self.bytes.len() + 16 * hashes.len() > 16 * PART {
                    self.append_bytes(number)?;
                }
                write_hashes(hashes, &mut self.bytes)?;
            }
        }
        self.append_bytes(number)
    }

    fn append_bytes(&mut self, number: usize) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.bytes, self.end)?;
        self.extents[number].push((self.end, (self.bytes.len() / 16) as u32));
        self.end += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// The number of bytes of a bucket in the file.
    fn bytes_of(&self, bucket: usize) -> u64 {
        let extents = self.extents[bucket].iter();
        extents.map(|(_, count)| u64::from(*count) * 16).sum()
    }

    /// Reads the hashes of a piece.
    fn load(&self, piece: Piece, bytes: &mut Vec<u8>, hashes: &mut Vec<Hash>) -> io::Result<()> {
        if piece.count == 1 {
            hashes.reserve_exact(self.bytes_of(piece.bucket) as usize / 16);
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

fn cannot_write(folder: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |error| Error::io("write a temporary file in", folder, error)
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
