//! Keys with their counts, packed.

use std::ops::Range;

use waypost_io::partial::{push_number, take_number};

/// The counts of a key. Counts of the same key are added up.
pub(crate) trait Count: Clone + Send {
    fn add(&mut self, other: &Self);

    /// Encodes the counts for a temporary file.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes what [`encode`](Count::encode) wrote.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// The counts of a key, or of one URI-R.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Captures.
    pub captures: u64,
    /// URI-Rs: one for a URI-R.
    pub urirs: u64,
    /// The sources, a bit for each.
    pub sources: u64,
}

impl Counts {
    /// One URI-R of a single source, with this many captures.
    pub fn of_captures(captures: u64) -> Counts {
        Counts {
            captures,
            urirs: 1,
            sources: 1,
        }
    }
}

impl Count for Counts {
    #[inline]
    fn add(&mut self, other: &Counts) {
        self.captures += other.captures;
        self.urirs += other.urirs;
        self.sources |= other.sources;
    }

    fn encode(&self, out: &mut Vec<u8>) {
        push_number(out, self.captures);
        push_number(out, self.urirs);
        push_number(out, self.sources);
    }

    fn decode(bytes: &[u8]) -> Option<Counts> {
        let (captures, rest) = take_number(bytes)?;
        let (urirs, rest) = take_number(rest)?;
        let (sources, rest) = take_number(rest)?;
        rest.is_empty().then_some(Counts {
            captures,
            urirs,
            sources,
        })
    }
}

/// Keys with counts, contiguous in memory.
#[derive(Clone, Debug)]
pub(crate) struct Records<C> {
    bytes: Vec<u8>,
    entries: Vec<Entry<C>>,
    /// Whether each key is greater than the one before.
    ascending: bool,
}

#[derive(Clone, Debug)]
struct Entry<C> {
    start: usize,
    end: usize,
    counts: C,
}

impl<C> Default for Records<C> {
    fn default() -> Records<C> {
        Records {
            bytes: Vec::new(),
            entries: Vec::new(),
            ascending: true,
        }
    }
}

impl<C: Count> Records<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Its memory use.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry<C>>()
    }

    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let entry = &self.entries[index];
        &self.bytes[entry.start..entry.end]
    }

    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.key(0))
    }

    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.entries.len().checked_sub(1).map(|last| self.key(last))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &C)> {
        self.entries
            .iter()
            .map(|entry| (&self.bytes[entry.start..entry.end], &entry.counts))
    }

    /// The counts of the last key.
    #[inline]
    pub(crate) fn last_counts(&mut self) -> Option<&mut C> {
        self.entries.last_mut().map(|entry| &mut entry.counts)
    }

    /// Adds a key that differs from the last one, in two pieces.
    pub(crate) fn push_new(&mut self, key: &[u8], suffix: &[u8], counts: C) {
        self.push_above(key, suffix, counts);
        if self.ascending
            && let [.., last, new] = &self.entries[..]
            && self.bytes[last.start..last.end] >= self.bytes[new.start..new.end]
        {
            self.ascending = false;
        }
    }

    /// The same for a key that is known to be greater than the last one.
    #[inline]
    pub(crate) fn push_above(&mut self, key: &[u8], suffix: &[u8], counts: C) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        if !suffix.is_empty() {
            self.bytes.extend_from_slice(suffix);
        }
        let end = self.bytes.len();
        self.entries.push(Entry { start, end, counts });
    }

    /// Adds to the last key if it is equal, or else adds a new key.
    pub(crate) fn push(&mut self, key: &[u8], counts: C) {
        if self.last_key() == Some(key) {
            if let Some(last) = self.last_counts() {
                last.add(&counts);
            }
        } else {
            self.push_new(key, b"", counts);
        }
    }

    /// Sorts by key and adds up the counts of equal keys.
    pub(crate) fn settle(&mut self) {
        if self.ascending {
            return;
        }
        sort(&self.bytes, &mut self.entries);
        self.ascending = true;
    }

    /// The number of keys below `low`. Searches from the end, because usually nearly all are. Must be settled.
    pub(crate) fn below(&self, low: &[u8]) -> usize {
        let is_below = |entry: &Entry<C>| &self.bytes[entry.start..entry.end] < low;
        // A galloping search: the steps double.
        let (mut from, mut to) = (self.entries.len(), self.entries.len());
        while from > 0 && !is_below(&self.entries[from - 1]) {
            to = from - 1;
            from = from.saturating_sub(self.entries.len() - to);
        }
        from + self.entries[from..to].partition_point(is_below)
    }

    /// The number of keys up to `high` and including it. Searches from the start, because usually few are.
    /// Must be settled.
    pub(crate) fn up_to(&self, high: &[u8]) -> usize {
        let is_up_to = |entry: &Entry<C>| &self.bytes[entry.start..entry.end] <= high;
        // A galloping search: the steps double.
        let (mut from, mut to) = (0, 0);
        while to < self.entries.len() && is_up_to(&self.entries[to]) {
            from = to + 1;
            to = (to + from).min(self.entries.len());
        }
        from + self.entries[from..to].partition_point(is_up_to)
    }

    /// Removes all keys, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.ascending = true;
    }

    /// Becomes a copy of others.
    pub(crate) fn copy_from(&mut self, other: &Records<C>) {
        self.bytes.clone_from(&other.bytes);
        self.entries.clone_from(&other.entries);
        self.ascending = other.ascending;
    }

    /// Merges some records of another, with arbitrary keys; both must be settled, and so is the result.
    pub(crate) fn absorb(&mut self, other: &Records<C>, which: Range<usize>) {
        let others = &other.entries[which];
        let Some(first) = others.first() else {
            return;
        };
        // Only the part after the other's first key has to be sorted again.
        let below = self.below(&other.bytes[first.start..first.end]);
        let apart = below == self.entries.len();
        for entry in others {
            let start = self.bytes.len();
            self.bytes
                .extend_from_slice(&other.bytes[entry.start..entry.end]);
            self.entries.push(Entry {
                start,
                end: self.bytes.len(),
                counts: entry.counts.clone(),
            });
        }
        if !apart {
            let mut tail = self.entries.split_off(below);
            sort(&self.bytes, &mut tail);
            self.entries.append(&mut tail);
        }
    }

    /// Removes the first `count` keys.
    pub(crate) fn drop_first(&mut self, count: usize) {
        if count == self.entries.len() {
            self.bytes.clear();
            self.entries.clear();
            return;
        }
        let mut bytes = Vec::new();
        self.entries.drain(..count);
        for entry in &mut self.entries {
            let start = bytes.len();
            bytes.extend_from_slice(&self.bytes[entry.start..entry.end]);
            entry.start = start;
            entry.end = bytes.len();
        }
        self.bytes = bytes;
    }
}

/// Sorts by key and adds up the counts of equal keys.
fn sort<C: Count>(bytes: &[u8], entries: &mut Vec<Entry<C>>) {
    // A stable sort, because it benefits from the long ascending runs.
    entries.sort_by(|a, b| bytes[a.start..a.end].cmp(&bytes[b.start..b.end]));
    entries.dedup_by(|later, kept| {
        let same = bytes[later.start..later.end] == bytes[kept.start..kept.end];
        if same {
            kept.counts.add(&later.counts);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn keys_are_counted_up_to_any_bound(
            keys in prop::collection::btree_set("[a-c]{0,4}", 0..60),
            bound in "[a-c]{0,4}",
        ) {
            let mut records = Records::default();
            for key in &keys {
                records.push(key.as_bytes(), Counts::of_captures(1));
            }
            let below = keys.iter().filter(|key| **key < bound).count();
            let up_to = below + usize::from(keys.contains(&bound));
            prop_assert_eq!(records.below(bound.as_bytes()), below);
            prop_assert_eq!(records.up_to(bound.as_bytes()), up_to);
        }

        #[test]
        fn records_are_a_sorted_map_however_they_come(
            batches in prop::collection::vec(prop::collection::vec(("[ab]{0,3}", 1..9u64), 0..8), 0..6),
            dropped in 0..5usize,
        ) {
            let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut all = Records::default();
            for batch in batches {
                let mut records = Records::default();
                for (key, captures) in batch {
                    *expected.entry(key.clone().into_bytes()).or_default() += captures;
                    records.push(key.as_bytes(), Counts { captures, urirs: 1, sources: 1 });
                }
                records.settle();
                all.absorb(&records, 0..records.len());
            }
            let dropped = dropped.min(all.len());
            all.drop_first(dropped);
            let found: Vec<_> = all.iter().map(|(key, counts)| (key.to_vec(), counts.captures)).collect();
            let expected: Vec<_> = expected.into_iter().skip(dropped).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
