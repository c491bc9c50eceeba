//! A Bloom filter in memory that keys are added to while others look them up.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bloom::{self, BLOCK};
use super::build::{BuildReport, Keys, blocks_entry};
use super::format::{Head, Kind, Metadata, Writer};
use super::hash::{Hash, Hasher, low};
use super::read::Filter;
use super::size::BLOOM_SHARD;
use super::summary::Keyer;
use crate::error::{Error, Result};

/// Words in a block.
const WORDS: usize = BLOCK / 8;

/// A Bloom filter in memory. Adding and looking up need no lock.
pub struct LiveFilter {
    head: Head,
    metadata: Metadata,
    hasher: Hasher,
    blocks: u64,
    words: Vec<AtomicU64>,
    count: AtomicU64,
    /// The bits of a float.
    rate: AtomicU64,
}

impl LiveFilter {
    /// An empty filter for this many keys at a false positive rate.
    pub fn new(keyer: &Keyer, capacity: u64, rate: f64) -> LiveFilter {
        let (dialect, policy, hasher) = keyer.parts();
        let mut head = Keys::new(hasher, dialect, policy).head(Kind::Bloom, 0);
        head.capacity = capacity.max(1);
        let blocks = bloom::blocks_for(head.capacity, bloom::bits_for_rate(rate));
        let words = (0..blocks as usize * WORDS).map(|_| AtomicU64::new(0));
        LiveFilter {
            head,
            metadata: Metadata::default(),
            hasher,
            blocks,
            words: words.collect(),
            count: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// A copy of a Bloom filter.
    ///
    /// # Errors
    /// If it is not a Bloom filter, is damaged, or its secret was not set.
    pub fn of(filter: &Filter) -> Result<LiveFilter> {
        if filter.head().kind != Kind::Bloom {
            return Err(
                Error::invalid("only a Bloom filter can be added to").in_file(filter.name())
            );
        }
        let mut words = Vec::with_capacity(filter.blocks() as usize * WORDS);
        for shard in 0..filter.shards() {
            filter.with_shard(shard, |bytes| {
                let (all, _) = bytes.as_chunks::<8>();
                words.extend(
                    all.iter()
                        .map(|word| AtomicU64::new(u64::from_le_bytes(*word))),
                );
            })?;
        }
        Ok(LiveFilter {
            head: filter.head().clone(),
            metadata: filter.metadata().clone(),
            hasher: filter.hasher()?,
            blocks: filter.blocks(),
            words,
            count: AtomicU64::new(filter.head().count),
            rate: AtomicU64::new(filter.head().rate.to_bits()),
        })
    }

    /// What makes its keys.
    pub fn keyer(&self) -> Keyer {
        Keyer::new(self.head.dialect, self.head.policy, self.hasher)
    }

    /// Adds a hash. Returns whether it was new: a hash whose bits are all set may be new, too.
    pub fn insert(&self, hash: Hash) -> bool {
        let mut new = false;
        for (word, bit) in self.places(hash) {
            new |= word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        }
        if new {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        new
    }

    /// Whether a hash may be held.
    pub fn contains(&self, hash: Hash) -> bool {
        self.places(hash)
            .all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn places(&self, hash: Hash) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let first = bloom::block_of(hash, self.blocks) as usize * WORDS;
        let block = &self.words[first..][..WORDS];
        let bits = low(hash);
        block
            .iter()
            .enumerate()
            .map(move |(index, word)| (word, 1 << (bits >> (6 * index) & 63)))
    }

    /// The number of keys.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of keys that it was made for.
    pub fn capacity(&self) -> u64 {
        self.head.capacity
    }

    /// The false positive rate, as of the last [`measure`](LiveFilter::measure).
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// Computes the expected false positive rate of the keys so far.
    pub fn measure(&self) {
        let rate = match self.count() {
            0 => 0.0,
            count => bloom::expected_rate(self.blocks as f64 * 512.0 / count as f64),
        };
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Writes the filter to a file, which appears when it is complete. Nothing may be added
    /// meanwhile.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, path: &Path) -> Result<BuildReport> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut writer = Writer::new(folder.unwrap_or(Path::new(".")));
        let mut rate = 0.0;
        for words in self.words.chunks(BLOOM_SHARD as usize * WORDS) {
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
                .collect();
            rate += bloom::exact_rate(&bytes) * (bytes.len() / BLOCK) as f64;
            writer.shard(blocks_entry(bytes.len()), &bytes)?;
        }
        let mut head = self.head.clone();
        head.count = self.count();
        head.estimated = true;
        head.rate = rate / self.blocks as f64;
        let bytes = writer.finish(&head, &self.metadata, path)?;
        Ok(BuildReport { head, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waypost_surt::{Dialect, Policy};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_was_added_is_found_in_memory_in_the_file_and_in_a_copy(
            hashes in proptest::collection::vec(any::<u128>(), 0..300),
            more in proptest::collection::vec(any::<u128>(), 0..50),
            capacity in 1u64..1000,
        ) {
            let keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
            let live = LiveFilter::new(&keyer, capacity, 0.01);
            for &hash in &hashes {
                live.insert(hash);
                prop_assert!(!live.insert(hash));
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("live.filter");
            live.write(&path).unwrap();
            let filter = Filter::open(&path).unwrap();
            prop_assert_eq!(filter.head().capacity, capacity);
            let copy = LiveFilter::of(&filter).unwrap();
            for &hash in &more {
                copy.insert(hash);
            }
            for &hash in &hashes {
                prop_assert!(live.contains(hash) && copy.contains(hash));
                prop_assert!(filter.contains(hash).unwrap());
            }
            for &hash in &more {
                prop_assert!(copy.contains(hash));
            }
        }
    }
}
