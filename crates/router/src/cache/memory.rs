//! Answers in memory, up to a number of bytes: the one that was not used for longest goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entry::{Entry, Key};

/// Entries in the order of their use.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    bytes: usize,
    uses: u64,
    entries: HashMap<Key, Slot>,
    /// The last use of each entry.
    order: BTreeMap<u64, Key>,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    bytes: usize,
    used: u64,
}

/// About what the tables take for an entry, beside its key and content.
const OVERHEAD: usize = 160;

impl Memory {
    pub(super) fn new(limit: usize) -> Memory {
        Memory {
            limit,
            bytes: 0,
            uses: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<Arc<Entry>> {
        let slot = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(&slot.used) {
            self.order.insert(self.uses, key);
        }
        slot.used = self.uses;
        Some(Arc::clone(&slot.entry))
    }

    /// Keeps an entry, unless it is larger than all memory.
    pub(super) fn insert(&mut self, key: Key, entry: Arc<Entry>) {
        self.remove(&key);
        let bytes = OVERHEAD + key.len() + entry.bytes();
        if bytes > self.limit {
            return;
        }
        self.bytes += bytes;
        self.uses += 1;
        self.order.insert(self.uses, Arc::clone(&key));
        let used = self.uses;
        self.entries.insert(key, Slot { entry, bytes, used });
        self.shrink();
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.order.first_key_value() else {
                return;
            };
            let oldest = Arc::clone(oldest);
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(slot) = self.entries.remove(key) {
            self.bytes -= slot.bytes;
            self.order.remove(&slot.used);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
