//! How often each URI occurs in lines of any number, counted on all cores.
//!
//! ```text
//! pieces ─► workers: the URIs of a piece, by shard ─► batches ─► a table for each shard
//! ```
//!
//! The shard of a URI follows from its hash. So the tables have no URI in common, and threads add a
//! batch to all of them at the same time.

use std::collections::HashMap;

use rayon::prelude::*;
use waypost_report::count;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};

/// More shards than cores, so that no core waits long for the largest one.
const SHARDS: usize = 64;

/// How many bytes of counted pieces are added at once: enough work for all cores.
const BATCH: usize = 8 << 20;

/// The URIs of one piece.
pub(super) struct Counted {
    /// The URIs, one after the other.
    bytes: Vec<u8>,
    shards: Vec<Vec<Occurrences>>,
    /// Lines that don't contain a URI.
    passed_over: u64,
    /// Estimated memory use of the lookups.
    memory: usize,
}

struct Occurrences {
    start: usize,
    length: usize,
    times: u64,
}

impl Counted {
    /// Counts the URIs of lines; `None` stands for a line that doesn't contain one.
    pub(super) fn of<'a>(uris: impl Iterator<Item = Option<&'a [u8]>>) -> Counted {
        let mut passed_over = 0;
        let mut times: HashMap<&[u8], u64> = HashMap::new();
        for uri in uris {
            match uri {
                Some(uri) => *times.entry(uri).or_default() += 1,
                None => passed_over += 1,
            }
        }
        let mut counted = Counted {
            bytes: Vec::new(),
            shards: (0..SHARDS).map(|_| Vec::new()).collect(),
            passed_over,
            memory: 0,
        };
        for (uri, times) in times {
            counted.memory += memory_of(uri);
            counted.shards[xxh3_64(uri) as usize % SHARDS].push(Occurrences {
                start: counted.bytes.len(),
                length: uri.len(),
                times,
            });
            counted.bytes.extend_from_slice(uri);
        }
        counted
    }
}

/// Estimated memory use of a lookup: its URI is kept once as read and once sorted, its SURT twice,
/// and both tables have an entry for it.
fn memory_of(uri: &[u8]) -> usize {
    4 * uri.len() + 200
}

/// How often each URI occurs.
pub(super) struct Tally {
    shards: Vec<Shard>,
    /// Pieces that are not yet in the tables, and their size.
    waiting: Vec<Counted>,
    waiting_bytes: usize,
    passed_over: u64,
    /// Estimated memory use of the lookups, where those in waiting pieces count as new.
    memory: usize,
    limit: usize,
}

#[derive(Default)]
struct Shard {
    times: HashMap<Vec<u8>, u64>,
    memory: usize,
}

impl Shard {
    fn add(&mut self, uri: &[u8], times: u64) {
        match self.times.get_mut(uri) {
            Some(known) => *known += times,
            None => {
                self.memory += memory_of(uri);
                self.times.insert(uri.to_vec(), times);
            }
        }
    }
}

impl Tally {
    /// No URIs. `limit` is the memory limit in bytes.
    pub(super) fn new(limit: usize) -> Tally {
        Tally {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            passed_over: 0,
            memory: 0,
            limit,
        }
    }

    /// Adds the URIs of the next piece.
    ///
    /// # Errors
    /// If the lookups so far exceed the limit.
    pub(super) fn add(&mut self, counted: Counted) -> Result<()> {
        self.passed_over += counted.passed_over;
        self.memory += counted.memory;
        self.waiting_bytes += counted.bytes.len();
        self.waiting.push(counted);
        if self.waiting_bytes >= BATCH || self.memory > self.limit {
            self.settle();
        }
        if self.memory > self.limit {
            let lookups = self.shards.iter().map(|shard| shard.times.len());
            return Err(too_large(lookups.sum(), self.limit));
        }
        Ok(())
    }

    /// Adds the waiting pieces to the tables.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.shards
            .par_iter_mut()
            .enumerate()
            .for_each(|(number, shard)| {
                for counted in &waiting {
                    for uri in &counted.shards[number] {
                        let bytes = &counted.bytes[uri.start..uri.start + uri.length];
                        shard.add(bytes, uri.times);
                    }
                }
            });
        self.memory = self.shards.iter().map(|shard| shard.memory).sum();
    }

    /// The URIs and how often each occurs, in tables without a URI in common; and the number of
    /// lines that don't contain one.
    pub(super) fn finish(mut self) -> (Vec<HashMap<Vec<u8>, u64>>, u64) {
        self.settle();
        let tables = self.shards.into_iter().map(|shard| shard.times);
        (tables.collect(), self.passed_over)
    }
}

fn too_large(lookups: usize, limit: usize) -> Error {
    Error::new(ErrorKind::LookupsTooLarge(format!(
        "its first {} different lookups already need more memory than the limit of {} bytes",
        count(lookups as u64),
        count(limit as u64)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_add_up_to_what_one_table_counts(
            lines in prop::collection::vec(prop::option::of("[ab]{1,4}"), 0..200),
            size in 1..20usize,
            limit in prop_oneof![Just(usize::MAX), 0..6000usize],
        ) {
            let mut tally = Tally::new(limit);
            let mut expected: HashMap<Vec<u8>, u64> = HashMap::new();
            let mut passed_over = 0;
            for piece in lines.chunks(size) {
                for line in piece {
                    match line {
                        Some(uri) => *expected.entry(uri.as_bytes().to_vec()).or_default() += 1,
                        None => passed_over += 1,
                    }
                }
                let uris = piece.iter().map(|line| line.as_deref().map(str::as_bytes));
                let added = tally.add(Counted::of(uris));
                // However many pieces wait, the limit is noticed at the first that exceeds it.
                let memory: usize = expected.keys().map(|uri| memory_of(uri)).sum();
                if memory > limit {
                    let error = too_large(expected.len(), limit).to_string();
                    prop_assert_eq!(added.unwrap_err().to_string(), error);
                    return Ok(());
                }
                prop_assert!(added.is_ok());
            }
            let (tables, passed) = tally.finish();
            let found: Vec<(Vec<u8>, u64)> = tables.into_iter().flatten().collect();
            prop_assert_eq!(passed, passed_over);
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(found.into_iter().collect::<HashMap<_, _>>(), expected);
        }
    }
}
