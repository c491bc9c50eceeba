//! Counting texts of any number in bounded memory.

use std::collections::HashMap;
use std::sync::Arc;

use waypost_io::Result;
use waypost_io::partial::{Decoder, Encoder, RowBlock, Runs, Spill, push_number, take_number};

/// How often each text occurs. What exceeds its share of memory is spilled in sorted runs.
pub(super) struct Counter {
    counts: HashMap<Box<[u8]>, u64>,
    /// Estimated memory use of the counts.
    size: usize,
    share: usize,
    spilled: Runs,
    spill: Arc<Spill>,
}

/// Estimated memory use of a text besides its bytes.
const ENTRY: usize = 64;

impl Counter {
    pub(super) fn new(share: usize, spill: &Arc<Spill>) -> Counter {
        Counter {
            counts: HashMap::new(),
            size: 0,
            share,
            spilled: Runs::new(0, spill),
            spill: Arc::clone(spill),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, text: &[u8]) {
        self.add_times(text, 1);
    }

    #[inline]
    fn add_times(&mut self, text: &[u8], times: u64) {
        match self.counts.get_mut(text) {
            Some(count) => *count += times,
            None => {
                self.size += text.len() + ENTRY;
                self.counts.insert(text.into(), times);
            }
        }
    }

    pub(super) fn merge(&mut self, later: Counter) -> Result<()> {
        if self.counts.is_empty() {
            (self.counts, self.size) = (later.counts, later.size);
        } else {
            for (text, times) in later.counts {
                self.add_times(&text, times);
            }
        }
        self.spilled.merge(later.spilled)?;
        if self.size > self.share {
            self.spill_all()?;
        }
        Ok(())
    }

    fn sorted(&self) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self
            .counts
            .iter()
            .map(|(text, n)| (&text[..], *n))
            .collect();
        all.sort_unstable();
        all
    }

    fn spill_all(&mut self) -> Result<()> {
        let mut run = Runs::new(0, &self.spill);
        let mut payload = Vec::new();
        for (text, times) in self.sorted() {
            payload.clear();
            push_number(&mut payload, times);
            run.push(text, &payload);
        }
        self.counts.clear();
        self.size = 0;
        self.spilled.merge(run)
    }

    /// Passes all texts to `take`, in order.
    pub(super) fn finish(mut self, mut take: impl FnMut(&[u8], u64)) -> Result<()> {
        if self.spilled.is_empty() {
            for (text, times) in self.sorted() {
                take(text, times);
            }
            return Ok(());
        }
        self.spill_all()?;
        let mut reader = self.spilled.reader()?;
        let mut rows = RowBlock::default();
        let mut current: Option<(Vec<u8>, u64)> = None;
        while reader.next(&mut rows)? {
            rows.open()?;
            for (text, payload) in rows.iter() {
                let times = take_number(payload).map_or(0, |(times, _)| times);
                match &mut current {
                    Some((known, sum)) if known == text => *sum += times,
                    _ => {
                        if let Some((text, sum)) = current.replace((text.to_vec(), times)) {
                            take(&text, sum);
                        }
                    }
                }
            }
        }
        if let Some((text, sum)) = current {
            take(&text, sum);
        }
        Ok(())
    }

    pub(super) fn encode(&self, out: &mut Encoder) -> Result<()> {
        out.number(self.counts.len() as u64);
        for (text, times) in self.sorted() {
            out.text(text);
            out.number(times);
        }
        self.spilled.encode(out)
    }

    pub(super) fn decode(mut self, from: &mut Decoder<'_>) -> Result<Counter> {
        for _ in 0..from.count()? {
            let text = from.text()?;
            let times = from.number()?;
            self.add_times(text, times);
        }
        self.spilled = self.spilled.decode(from)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_do_not_depend_on_memory_or_pieces(
            words in prop::collection::vec("[a-c]{0,3}", 0..200),
            pieces in prop::collection::vec(1usize..30, 1..10),
            share in prop_oneof![Just(0usize), Just(300), Just(1 << 20)],
        ) {
            let spill = Spill::new(&std::env::temp_dir());
            let mut whole = Counter::new(share, &spill);
            let mut rest = &words[..];
            for piece in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (some, more) = rest.split_at(rest.len().min(*piece));
                rest = more;
                let mut part = Counter::new(share, &spill);
                some.iter().for_each(|word| part.add(word.as_bytes()));
                let mut out = Encoder::new("c", 1);
                part.encode(&mut out).unwrap();
                let bytes = out.finish();
                let mut from = Decoder::new(&bytes, "c", 1).unwrap();
                whole.merge(Counter::new(share, &spill).decode(&mut from).unwrap()).unwrap();
                from.finish().unwrap();
            }
            let mut expected = std::collections::BTreeMap::new();
            for word in &words {
                *expected.entry(word.clone().into_bytes()).or_insert(0u64) += 1;
            }
            let mut found = Vec::new();
            whole.finish(|text, times| found.push((text.to_vec(), times))).unwrap();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
