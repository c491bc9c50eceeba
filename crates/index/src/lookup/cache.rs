//! A cache of inflated blocks.
//!
//! A block is kept only when it is read for the second time in a while: uniformly distributed lookups
//! would otherwise fill the cache with blocks that nobody asks for again, and inflate them to their
//! end for nothing.
//!
//! Blocks are not on the heap: allocated and freed by many threads, blocks of different sizes would
//! leave gaps in it that take several times the limit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapMut, MmapOptions};

/// How many of the last blocks that were read once are remembered at least. If there were many more of
/// them than blocks in the cache, most would be kept and removed again before anybody asks for them.
const LEAST_SEEN: usize = 64;

/// Unused memory may take this part of the limit.
const SPARE_PART: usize = 8;

/// Blocks smaller than this are on the heap: there can be many, and a process has few memory maps.
const SMALL: usize = 64 << 10;

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
    /// The memory of removed blocks, for others.
    spare: Vec<MmapMut>,
}

/// The lines of a block that may be kept.
#[derive(Debug)]
pub(crate) struct BlockLines {
    memory: Memory,
    length: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Map(MmapMut),
}

impl BlockLines {
    /// The memory that it takes.
    fn size(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::Map(bytes) => bytes.len(),
        }
    }
}

impl Deref for BlockLines {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => &bytes[..self.length],
            Memory::Map(bytes) => &bytes[..self.length],
        }
    }
}

impl DerefMut for BlockLines {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => &mut bytes[..self.length],
            Memory::Map(bytes) => &mut bytes[..self.length],
        }
    }
}

#[derive(Debug)]
struct Entry {
    lines: Arc<BlockLines>,
    last_use: u64,
}

/// What is known about a block.
pub(crate) enum Cached {
    /// Its lines.
    Block(Arc<BlockLines>),
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

    /// Memory for a block of `length` bytes, which may be inserted.
    pub(crate) fn memory(&self, length: usize) -> BlockLines {
        let memory = match length < SMALL {
            true => None,
            false => self.spare(length).or_else(|| {
                let size = length.next_multiple_of(step(length));
                MmapOptions::new().len(size).populate().map_anon().ok()
            }),
        };
        let memory = match memory {
            Some(map) => Memory::Map(map),
            None => Memory::Heap(vec![0; length]),
        };
        BlockLines { memory, length }
    }

    /// The memory of a removed block in which one of `length` bytes fits without much loss. This saves
    /// the time to get it from the system.
    fn spare(&self, length: usize) -> Option<MmapMut> {
        let largest = length.next_multiple_of(step(length)) + step(length);
        let mut state = self.state();
        let spare = state.spare.iter().enumerate();
        let fits = spare.filter(|(_, spare)| (length..=largest).contains(&spare.len()));
        let (at, _) = fits.min_by_key(|(_, spare)| spare.len())?;
        Some(state.spare.swap_remove(at))
    }

    /// Takes back lines that are no longer read. Their memory is used again if the block was removed
    /// meanwhile.
    pub(crate) fn release(&self, lines: Arc<BlockLines>) {
        if let Some(lines) = Arc::into_inner(lines) {
            self.state().recycle(lines, self.limit / SPARE_PART);
        }
    }

    /// Adds a block, and removes those that were not used for the longest time.
    pub(crate) fn insert(&self, index: u64, row: usize, lines: &Arc<BlockLines>) {
        let size = lines.size();
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
            state.discard(old, self.limit / SPARE_PART);
        }
        state.touch((index, row));
        while state.bytes > self.limit {
            state.remove_oldest(self.limit / SPARE_PART);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn touch(&mut self, key: Key) -> Option<Arc<BlockLines>> {
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

    fn remove_oldest(&mut self, most_spare: usize) {
        while let Some((key, time)) = self.uses.pop_front() {
            if self.blocks.get(&key).is_some_and(|e| e.last_use == time) {
                if let Some(entry) = self.blocks.remove(&key) {
                    self.discard(entry, most_spare);
                }
                return;
            }
        }
        self.blocks.clear();
        self.bytes = 0;
    }

    fn discard(&mut self, entry: Entry, most_spare: usize) {
        self.bytes -= entry.lines.size();
        // Who still reads it releases it later.
        if let Some(lines) = Arc::into_inner(entry.lines) {
            self.recycle(lines, most_spare);
        }
    }

    /// Keeps the memory of a block, and frees the oldest if there is too much.
    fn recycle(&mut self, lines: BlockLines, most: usize) {
        if let Memory::Map(map) = lines.memory {
            self.spare.push(map);
        }
        while self.spare.iter().map(|map| map.len()).sum::<usize>() > most {
            self.spare.remove(0);
        }
    }
}

/// Sizes are multiples of this, so that blocks of similar sizes fit in the memory of others.
fn step(length: usize) -> usize {
    (length / 16).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: usize) -> Arc<BlockLines> {
        Arc::new(BlockLines {
            memory: Memory::Heap(vec![b'x'; size]),
            length: size,
        })
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

    #[test]
    fn the_memory_of_a_removed_block_is_used_for_the_next_one() {
        const SIZE: usize = 1 << 20;
        let cache = BlockCache::new(8 * SIZE);
        let insert = |row: usize| {
            let lines = Arc::new(cache.memory(SIZE - row % 5));
            let at = lines.as_ptr();
            assert_eq!(lines.len(), SIZE - row % 5);
            cache.insert(0, row, &lines);
            cache.release(lines);
            at
        };
        let used: HashSet<_> = (0..100).map(insert).collect();
        // One more than fits: the ninth block was inflated before the first one was removed.
        assert_eq!((used.len(), cache.bytes()), (9, 8 * SIZE));

        // A block that is still read when it is removed.
        let Cached::Block(read) = cache.get(0, 99) else {
            panic!("the last block is not there");
        };
        for row in 100..108 {
            insert(row);
        }
        assert_eq!(cache.state().spare.len(), 0);
        cache.release(read);
        assert_eq!(cache.state().spare.len(), 1);
        // Neither much more memory than needed nor too little.
        assert_eq!(cache.memory(SMALL).size(), SMALL);
        assert_eq!(cache.memory(SIZE + 1).size(), SIZE + SIZE / 16);
        assert_eq!(cache.memory(100).size(), 100);
        assert!(cache.memory(0).is_empty());
    }
}
