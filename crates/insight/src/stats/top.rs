//! The largest of many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the entries with the highest rank; among equal ones, those whose text comes first. The
/// result does not depend on the order in which they are offered.
#[derive(Debug)]
pub(super) struct Top<T> {
    most: usize,
    heap: BinaryHeap<Reverse<Entry<T>>>,
}

#[derive(Debug)]
struct Entry<T> {
    rank: u64,
    text: Vec<u8>,
    value: T,
}

impl<T> Entry<T> {
    fn order(&self) -> (u64, Reverse<&[u8]>) {
        (self.rank, Reverse(&self.text))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl<T> Top<T> {
    pub(super) fn new(most: usize) -> Top<T> {
        Top {
            most,
            heap: BinaryHeap::new(),
        }
    }

    /// Offers an entry; `text` and `value` are made only if it may stay.
    #[inline]
    pub(super) fn offer(&mut self, rank: u64, make: impl FnOnce() -> (Vec<u8>, T)) {
        if self.heap.len() >= self.most && self.heap.peek().is_none_or(|least| rank < least.0.rank)
        {
            return;
        }
        let (text, value) = make();
        self.heap.push(Reverse(Entry { rank, text, value }));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// The entries, the highest rank first.
    pub(super) fn finish(self) -> Vec<(Vec<u8>, u64, T)> {
        let mut entries: Vec<Entry<T>> = self.heap.into_iter().map(|entry| entry.0).collect();
        entries.sort_by(|a, b| b.cmp(a));
        entries
            .into_iter()
            .map(|entry| (entry.text, entry.rank, entry.value))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_decided_by_the_text_whatever_the_order() {
        let mut entries = vec![(3, "c"), (1, "z"), (3, "a"), (2, "x"), (3, "b")];
        for _ in 0..entries.len() {
            entries.rotate_left(1);
            let mut top = Top::new(2);
            for (rank, text) in &entries {
                top.offer(*rank, || (text.as_bytes().to_vec(), ()));
            }
            let texts: Vec<Vec<u8>> = top.finish().into_iter().map(|(text, _, ())| text).collect();
            assert_eq!(texts, [b"a", b"b"]);
        }
        assert!(Top::<()>::new(0).finish().is_empty());
    }
}
