//! A cache of inflated blocks.
//!
//! A block is kept only when it is read for the second time in a while: uniformly distributed lookups
//! would otherwise fill the cache with blocks that nobody asks for again, and inflate them to their
//! end for nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many of the last blocks that were read once are remembered at least. If there were many more of
/// them than blocks in the cache, most would be kept and removed again before anybody asks for them.
const LEAST_SEEN: usize = 64;

/// The number of an index, and the offset of a row in its `.idx` file.
type Key = (u64, usize);

/// Inflated blocks of one or more indexes, up to a number of bytes.
#[derive(Debug)]
pub struct BlockCache {
    limit: usize,
    indexes: AtomicU64,
    hits: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<Key, Entry>,
    /// Every use of a block, the oldest first. A use that is not the last one of its block is stale.
    uses: VecDeque<(Key, u64)>,
    clock: u64,
    bytes: usize,
    seen: HashSet<Key>,
    seen_order: VecDeque<Key>,
}

#[derive(Debug)]
struct Entry {
    lines: Arc<Vec<u8>>,
    last_use: u64,
}

/// What is known about a block.
pub(crate) enum Cached {
    /// Its lines.
    Block(Arc<Vec<u8>>),
    /// It was read before.
    Seen,
    /// It was not read lately.
    New,
}

impl BlockCache {
    /// A cache of up to `limit` bytes.
    pub fn new(limit: usize) -> BlockCache {
        BlockCache {
            limit,
            indexes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// How many blocks were found in the cache so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The number of bytes in the cache.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// A number for another index.
    pub(crate) fn next_index(&self) -> u64 {
        self.indexes.fetch_add(1, Ordering::Relaxed)
    }

    /// Looks for a block, and remembers that it was asked for.
    pub(crate) fn get(&self, index: u64, row: usize) -> Cached {
        let key = (index, row);
        let mut state = self.state();
        if let Some(lines) = state.touch(key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Cached::Block(lines);
        }
        if !state.seen.insert(key) {
            return Cached::Seen;
        }
        state.seen_order.push_back(key);
        let most = LEAST_SEEN.max(2 * state.blocks.len());
        while state.seen_order.len() > most
            && let Some(oldest) = state.seen_order.pop_front()
        {
            state.seen.remove(&oldest);
        }
        Cached::New
    }

    /// Adds a block, and removes those that were not used for the longest time.
    pub(crate) fn insert(&self, index: u64, row: usize, lines: &Arc<Vec<u8>>) {
        let size = lines.len();
        if size > self.limit / 2 {
            return;
        }
        let mut state = self.state();
        let entry = Entry {
            lines: Arc::clone(lines),
            last_use: 0,
        };
        state.bytes += size;
        if let Some(old) = state.blocks.insert((index, row), entry) {
            state.bytes -= old.lines.len();
        }
        state.touch((index, row));
        while state.bytes > self.limit {
            state.remove_oldest();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn touch(&mut self, key: Key) -> Option<Arc<Vec<u8>>> {
        let entry = self.blocks.get_mut(&key)?;
        self.clock += 1;
        entry.last_use = self.clock;
        let lines = Arc::clone(&entry.lines);
        self.uses.push_back((key, self.clock));
        if self.uses.len() > 8 * self.blocks.len() + 1024 {
            let blocks = &self.blocks;
            self.uses
                .retain(|(key, time)| blocks.get(key).is_some_and(|e| e.last_use == *time));
        }
        Some(lines)
    }

    fn remove_oldest(&mut self) {
        while let Some((key, time)) = self.uses.pop_front() {
            if self.blocks.get(&key).is_some_and(|e| e.last_use == time) {
                if let Some(entry) = self.blocks.remove(&key) {
                    self.bytes -= entry.lines.len();
                }
                return;
            }
        }
        self.blocks.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![b'x'; size])
    }

    #[test]
    fn a_block_is_kept_when_it_is_read_again() {
        let cache = BlockCache::new(1000);
        assert!(matches!(cache.get(0, 7), Cached::New));
        assert!(matches!(cache.get(0, 7), Cached::Seen));
        cache.insert(0, 7, &block(100));
        assert!(matches!(cache.get(0, 7), Cached::Block(_)));
        assert!(matches!(cache.get(1, 7), Cached::New));
        assert_eq!((cache.hits(), cache.bytes()), (1, 100));
    }

    #[test]
    fn the_limit_holds_and_the_block_unused_for_longest_goes_first() {
        let cache = BlockCache::new(1000);
        for row in 0..10 {
            cache.insert(0, row, &block(100));
        }
        // Many uses of one block do not grow the list of uses.
        for _ in 0..10_000 {
            assert!(matches!(cache.get(0, 0), Cached::Block(_)));
        }
        assert!(cache.state().uses.len() < 2000);
        for row in 10..19 {
            cache.insert(0, row, &block(100));
            assert!(cache.bytes() <= 1000);
        }
        assert!(matches!(cache.get(0, 0), Cached::Block(_)));
        assert!(!matches!(cache.get(0, 1), Cached::Block(_)));
        cache.insert(0, 99, &block(501));
        assert!(!matches!(cache.get(0, 99), Cached::Block(_)));
        cache.insert(0, 18, &block(50));
        assert_eq!(cache.bytes(), 950);
    }
}
