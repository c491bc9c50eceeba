//! Rows with keys, in sorted runs.
//!
//! ```text
//! run:   first key ─► block │ block │ block ─► last key
//! block: [shared with the key before, rest of the key, payload] …
//! ```
//!
//! Each row omits the prefix that its key shares with the preceding key, which for sorted SURTs is most
//! of it. The first row of a block has its whole key, so blocks can be read independently. A run that
//! continues the preceding run is appended to it; otherwise it is a new run. So sorted input gives one
//! run, and the runs of unsorted input merge to the same rows. Blocks that exceed the partial's share
//! of the memory go to the [`Spill`].
//!
//! A key may have any number of rows. The reader adds them up.

use std::sync::Arc;

use super::block::{Block, RowBlock, RowRef};
use super::bytes::{damaged, push_number};
use super::{Decoder, Encoder, Spill};
use crate::error::Result;
use crate::lines::common_prefix;
use crate::sort::{SortedLines, Tournament};

/// The size at which a block is full.
const BLOCK: usize = 64 << 10;

/// A block of up to this size is joined with its neighbour. Larger ones are not: one thread appends the
/// runs of all others, and copying blocks would keep them waiting.
const SMALL: usize = BLOCK / 8;

/// The maximum number of runs merged at once, each with a block in memory.
const MOST_RUNS: usize = 64;

/// Rows in any number of runs.
#[derive(Debug)]
pub struct Runs {
    /// The number of bytes that may be in memory.
    share: usize,
    spill: Arc<Spill>,
    /// Only the last may be out of order, until it is [sealed](Runs::seal).
    runs: Vec<Run>,
    /// Bytes of blocks in memory.
    held: usize,
}

/// Consecutive rows.
#[derive(Debug, Default)]
struct Run {
    blocks: Vec<Block>,
    /// The number of blocks that are spilled, from the first one on.
    spilled: usize,
    first: Vec<u8>,
    last: Vec<u8>,
    /// The number of distinct keys, if they are sorted.
    distinct: u64,
    disorder: bool,
}

impl Run {
    /// Appends a row. Returns how many bytes the run has grown by.
    #[inline]
    fn push(&mut self, key: &[u8], payload: &[u8]) -> usize {
        let fits = match self.blocks.last() {
            Some(Block::Held(held)) => held.len() < BLOCK,
            _ => false,
        };
        let common = common_prefix(&self.last, key);
        if self.blocks.is_empty() {
            self.first.extend_from_slice(key);
            self.distinct = 1;
        } else if common < key.len() || common < self.last.len() {
            self.distinct += 1;
            // The first differing byte decides. `None` is less than any byte, as a prefix is less than a longer key.
            self.disorder |= key.get(common) < self.last.get(common);
        }
        let shared = if fits {
            common
        } else {
            self.blocks.push(Block::Held(Vec::new()));
            0
        };
        self.last.truncate(common);
        self.last.extend_from_slice(&key[common..]);
        let Some(Block::Held(held)) = self.blocks.last_mut() else {
            return 0;
        };
        let before = held.len();
        push_number(held, shared as u64);
        push_number(held, (key.len() - shared) as u64);
        held.extend_from_slice(&key[shared..]);
        push_number(held, payload.len() as u64);
        held.extend_from_slice(payload);
        held.len() - before
    }

    fn follows(&self, earlier: &Run) -> bool {
        !earlier.disorder && !self.disorder && self.first >= earlier.last
    }

    /// Appends the next run. Small blocks are joined. Returns how many bytes that has saved.
    fn append(&mut self, later: Run) -> Result<usize> {
        let mut saved = 0;
        self.distinct += later.distinct - u64::from(later.first == self.last);
        let mut blocks = later.blocks.into_iter();
        if let (Some(Block::Held(last)), Some(Block::Held(next))) =
            (self.blocks.last_mut(), blocks.as_slice().first())
            && last.len().min(next.len()) <= SMALL
            && last.len() + next.len() <= BLOCK
        {
            let before = last.len();
            let (row, rest) = RowRef::read(next).ok_or_else(damaged)?;
            let shared = common_prefix(&self.last, row.rest);
            push_number(last, shared as u64);
            push_number(last, (row.rest.len() - shared) as u64);
            last.extend_from_slice(&row.rest[shared..]);
            push_number(last, row.payload.len() as u64);
            last.extend_from_slice(row.payload);
            last.extend_from_slice(rest);
            saved = before + next.len() - last.len();
            blocks.next();
        }
        if later.spilled > 0 && self.spilled == self.blocks.len() {
            self.spilled += later.spilled;
        }
        self.blocks.extend(blocks);
        self.last = later.last;
        Ok(saved)
    }

    /// Copies spilled blocks to another file.
    fn move_spilled(&mut self, from: &Spill, to: &Spill) -> Result<()> {
        let mut bytes = Vec::new();
        for block in &mut self.blocks {
            if let Block::Spilled { at, length } = block {
                bytes.resize(*length as usize, 0);
                from.read(*at, &mut bytes)?;
                *at = to.append(&bytes)?;
            }
        }
        Ok(())
    }

    /// Spills blocks that are in memory, the first ones first, until so many bytes are freed. Returns how
    /// many were.
    fn spill(&mut self, least: usize, spill: &Spill) -> Result<usize> {
        let mut freed = 0;
        while freed < least && self.spilled < self.blocks.len() {
            let block = &mut self.blocks[self.spilled];
            if let Block::Held(held) = block {
                freed += held.len();
                let (at, length) = (spill.append(held)?, held.len() as u32);
                *block = Block::Spilled { at, length };
            }
            self.spilled += 1;
        }
        Ok(freed)
    }
}

impl Runs {
    /// No rows. At most `share` bytes of them stay in memory.
    pub fn new(share: usize, spill: &Arc<Spill>) -> Runs {
        Runs {
            share,
            spill: Arc::clone(spill),
            runs: Vec::new(),
            held: 0,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether all rows are in the order of their keys.
    pub fn in_order(&self) -> bool {
        self.runs.len() <= 1 && self.runs.iter().all(|run| !run.disorder)
    }

    /// Adds a row. It stays in memory until the partial is sealed.
    #[inline]
    pub fn push(&mut self, key: &[u8], payload: &[u8]) {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        if let Some(run) = self.runs.last_mut() {
            self.held += run.push(key, payload);
        }
    }

    /// Sorts rows that were pushed out of order. Must be called before merging, preferably on the
    /// threads that pushed the rows.
    ///
    /// # Errors
    /// Never with rows that were pushed.
    pub fn seal(&mut self) -> Result<()> {
        let Some(run) = self.runs.pop_if(|run| run.disorder) else {
            return Ok(());
        };
        let mut block = RowBlock::default();
        let mut bytes = Vec::new();
        for part in &run.blocks {
            bytes.clear();
            part.load(&self.spill, &mut bytes)?;
            block.decode(&bytes)?;
        }
        block.sort();
        let mut sorted = Run::default();
        self.held = self.runs.iter().map(held).sum();
        for (key, payload) in block.iter() {
            self.held += sorted.push(key, payload);
        }
        self.runs.push(sorted);
        Ok(())
    }

    /// Merges a later partial into this one. Both must be sealed.
    ///
    /// # Errors
    /// If rows cannot be spilled.
    pub fn merge(&mut self, later: Runs) -> Result<()> {
        let foreign = !Arc::ptr_eq(&self.spill, &later.spill);
        self.held += later.held;
        for mut run in later.runs {
            if foreign {
                run.move_spilled(&later.spill, &self.spill)?;
            }
            match self.runs.last_mut() {
                Some(last) if run.follows(last) => self.held -= last.append(run)?,
                _ => self.runs.push(run),
            }
        }
        let excess = self.held.saturating_sub(self.share);
        match &mut self.runs[..] {
            _ if excess == 0 => {}
            // Little by little: to write everything would keep the threads waiting that make partials.
            [run] => self.held -= run.spill(excess, &self.spill)?,
            _ => self.spill_all()?,
        }
        Ok(())
    }

    /// Spills everything. Runs that are completely in memory are merged into one first, because
    /// merging many short runs in the end would take long.
    ///
    /// # Errors
    /// If rows cannot be spilled.
    pub fn spill_all(&mut self) -> Result<()> {
        let small = |run: &&Run| run.spilled == 0;
        if self.runs.iter().filter(small).count() > 1 {
            let (whole, mut others): (Vec<Run>, Vec<Run>) = std::mem::take(&mut self.runs)
                .into_iter()
                .partition(|run| run.spilled == 0);
            others.push(self.merged(&whole)?);
            self.runs = others;
        }
        for run in &mut self.runs {
            run.spill(usize::MAX, &self.spill)?;
        }
        self.held = 0;
        Ok(())
    }

    /// Merges several runs into one, which is spilled as it is written.
    fn merged(&self, runs: &[Run]) -> Result<Run> {
        let readers = runs.iter().map(|run| RunReader::new(run, &self.spill));
        let mut rows = Tournament::new(readers.collect());
        let mut merged = Run::default();
        while rows.advance()? {
            let winner = rows.winner();
            let (key, payload) = rows.sources()[winner].row();
            merged.push(key, payload);
            if merged.blocks.len() > merged.spilled + 1 {
                merged.spill(usize::MAX, &self.spill)?;
            }
        }
        Ok(merged)
    }

    /// Merges all runs into one.
    fn settle(&mut self) -> Result<()> {
        self.seal()?;
        while self.runs.len() > 1 {
            let count = MOST_RUNS.min(self.runs.len());
            let group: Vec<Run> = self.runs.drain(..count).collect();
            let merged = self.merged(&group)?;
            self.runs.push(merged);
        }
        self.held = self.runs.iter().map(held).sum();
        Ok(())
    }

    /// The number of distinct keys.
    ///
    /// # Errors
    /// If spilled rows cannot be read or written.
    pub fn distinct(&mut self) -> Result<u64> {
        self.settle()?;
        Ok(self.runs.first().map_or(0, |run| run.distinct))
    }

    /// All rows, sorted by key. Runs are merged the first time.
    ///
    /// # Errors
    /// If spilled rows cannot be read or written.
    pub fn reader(&mut self) -> Result<RunsReader<'_>> {
        self.settle()?;
        Ok(RunsReader {
            blocks: self.runs.first().map_or(&[], |run| &run.blocks),
            spill: &self.spill,
        })
    }

    /// Serialises all rows, including spilled ones.
    ///
    /// # Errors
    /// If spilled rows cannot be read.
    pub fn encode(&self, out: &mut Encoder) -> Result<()> {
        let mut bytes = Vec::new();
        out.number(self.runs.len() as u64);
        for run in &self.runs {
            out.number(run.blocks.len() as u64);
            for block in &run.blocks {
                bytes.clear();
                block.load(&self.spill, &mut bytes)?;
                out.text(&bytes);
            }
        }
        Ok(())
    }

    /// Deserialises rows into an empty partial.
    ///
    /// # Errors
    /// If the bytes are damaged, or rows cannot be spilled.
    pub fn decode(mut self, from: &mut Decoder<'_>) -> Result<Runs> {
        let runs = from.count()?;
        let mut rows = RowBlock::default();
        for _ in 0..runs {
            let mut run = Run::default();
            for _ in 0..from.count()? {
                let bytes = from.text()?;
                rows.clear();
                rows.decode(bytes)?;
                let (Some((first, _)), Some((last, _))) =
                    (rows.iter().next(), rows.iter().next_back())
                else {
                    return Err(damaged());
                };
                let ordered = rows.is_sorted() && (run.blocks.is_empty() || run.last[..] <= *first);
                if !ordered {
                    return Err(damaged());
                }
                let repeated = !run.blocks.is_empty() && run.last[..] == *first;
                run.distinct += rows.distinct() - u64::from(repeated);
                if run.blocks.is_empty() {
                    run.first = first.to_vec();
                }
                run.last.clear();
                run.last.extend_from_slice(last);
                run.blocks.push(Block::Held(bytes.to_vec()));
                self.held += bytes.len();
                if self.held > self.share {
                    self.held -= run.spill(usize::MAX, &self.spill)?;
                }
            }
            if !run.blocks.is_empty() {
                self.runs.push(run);
            }
        }
        Ok(self)
    }
}

fn held(run: &Run) -> usize {
    let blocks = run.blocks[run.spilled..].iter();
    blocks
        .map(|block| match block {
            Block::Held(held) => held.len(),
            Block::Spilled { .. } => 0,
        })
        .sum()
}

/// Reads sorted rows in batches.
pub struct RunsReader<'a> {
    blocks: &'a [Block],
    spill: &'a Spill,
}

impl RunsReader<'_> {
    /// The number of bytes that are left.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(Block::size).sum()
    }

    /// Replaces `rows` by the next rows. `false` if there are no more. The last key may occur again in
    /// the next batch. [Open](RowBlock::open) the rows to read them.
    ///
    /// # Errors
    /// If spilled rows cannot be read.
    pub fn next(&mut self, rows: &mut RowBlock) -> Result<bool> {
        rows.clear();
        while let Some((block, rest)) = self.blocks.split_first()
            && (rows.encoded.is_empty() || rows.encoded.len() + block.size() as usize <= BLOCK)
        {
            block.load(self.spill, &mut rows.encoded)?;
            self.blocks = rest;
        }
        Ok(!rows.encoded.is_empty())
    }
}

/// Reads one run.
struct RunReader<'a> {
    spill: &'a Spill,
    blocks: std::slice::Iter<'a, Block>,
    bytes: Vec<u8>,
    at: usize,
    key: Vec<u8>,
    /// The position of the payload in `bytes`.
    payload: (usize, usize),
}

impl<'a> RunReader<'a> {
    fn new(run: &'a Run, spill: &'a Spill) -> RunReader<'a> {
        RunReader {
            spill,
            blocks: run.blocks.iter(),
            bytes: Vec::new(),
            at: 0,
            key: Vec::new(),
            payload: (0, 0),
        }
    }

    fn row(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.bytes[self.payload.0..self.payload.1])
    }
}

impl SortedLines for RunReader<'_> {
    fn line(&self) -> &[u8] {
        &self.key
    }

    fn advance(&mut self) -> Result<bool> {
        if self.at == self.bytes.len() {
            let Some(block) = self.blocks.next() else {
                return Ok(false);
            };
            self.bytes.clear();
            block.load(self.spill, &mut self.bytes)?;
            self.at = 0;
            self.key.clear();
        }
        let (row, rest) = RowRef::read(&self.bytes[self.at..]).ok_or_else(damaged)?;
        if row.shared > self.key.len() {
            return Err(damaged());
        }
        self.at = self.bytes.len() - rest.len();
        self.payload = (self.at - row.payload.len(), self.at);
        self.key.truncate(row.shared);
        self.key.extend_from_slice(row.rest);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(runs: &mut Runs) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut reader = runs.reader().unwrap();
        let (mut block, mut rows) = (RowBlock::default(), Vec::new());
        while reader.next(&mut block).unwrap() {
            block.open().unwrap();
            rows.extend(
                block
                    .iter()
                    .map(|(key, payload)| (key.to_vec(), payload.to_vec())),
            );
        }
        rows
    }

    fn sent(runs: &Runs, share: usize, spill: &Arc<Spill>) -> Runs {
        let mut out = Encoder::new("r", 1);
        runs.encode(&mut out).unwrap();
        let bytes = out.finish();
        let mut from = Decoder::new(&bytes, "r", 1).unwrap();
        let runs = Runs::new(share, spill).decode(&mut from).unwrap();
        from.finish().unwrap();
        runs
    }

    proptest! {
        #[test]
        fn rows_come_in_order_however_they_were_cut_merged_and_spilled(
            mut rows in prop::collection::vec(("[abc/]{0,12}", 0..300usize), 0..200),
            sorted: bool,
            pieces in prop::collection::vec(1usize..40, 1..20),
            share in prop_oneof![Just(0usize), 100usize..5000, Just(1 << 20)],
            by_tree: bool,
            send: bool,
        ) {
            if sorted {
                rows.sort();
            }
            let (one, other) = (Spill::new(&std::env::temp_dir()), Spill::new(&std::env::temp_dir()));
            let mut parts = Vec::new();
            let mut rest = &rows[..];
            for (number, piece) in pieces.iter().cycle().enumerate() {
                if rest.is_empty() {
                    break;
                }
                let (some, more) = rest.split_at(rest.len().min(*piece));
                rest = more;
                let spill = if number % 2 == 0 { &one } else { &other };
                let mut part = Runs::new(share, spill);
                for (key, payload) in some {
                    part.push(key.as_bytes(), &vec![b'x'; *payload]);
                }
                part.seal().unwrap();
                parts.push(if send { sent(&part, share, spill) } else { part });
            }
            if by_tree {
                while parts.len() > 1 {
                    let mut merged = Vec::new();
                    let mut rest = parts.into_iter();
                    while let Some(mut first) = rest.next() {
                        if let Some(second) = rest.next() {
                            first.merge(second).unwrap();
                        }
                        merged.push(if send { sent(&first, share, &one) } else { first });
                    }
                    parts = merged;
                }
            }
            let mut total = Runs::new(share, &one);
            for part in parts {
                total.merge(part).unwrap();
            }
            if sorted {
                prop_assert!(total.in_order());
            }
            prop_assert!(total.held <= share);
            prop_assert_eq!(total.held, total.runs.iter().map(held).sum::<usize>());
            let mut expected: Vec<_> = rows.iter().map(|(key, n)| (key.clone().into_bytes(), vec![b'x'; *n])).collect();
            expected.sort();
            let mut found = all(&mut total);
            prop_assert!(found.is_sorted_by_key(|(key, _)| key.clone()));
            found.sort();
            let keys: std::collections::BTreeSet<_> = rows.iter().map(|(key, _)| key).collect();
            prop_assert_eq!(total.distinct().unwrap(), keys.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn many_short_runs_become_few() {
        let spill = Spill::new(&std::env::temp_dir());
        let mut total = Runs::new(1000, &spill);
        for n in (0..5_000u32).rev() {
            let mut part = Runs::new(1000, &spill);
            part.push(&n.to_be_bytes(), b"");
            total.merge(part).unwrap();
        }
        let rows = all(&mut total);
        assert_eq!(rows.len(), 5_000);
        assert!(rows.is_sorted());
        assert!(total.runs.len() <= MOST_RUNS);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let spill = Spill::new(&std::env::temp_dir());
        let mut runs = Runs::new(1 << 20, &spill);
        for n in 0..100 {
            runs.push(format!("com,example)/{n:03}").as_bytes(), b"1");
        }
        let mut out = Encoder::new("r", 1);
        runs.encode(&mut out).unwrap();
        let good = out.finish();
        for at in 7..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            let mut from = Decoder::new(&bad, "r", 1).unwrap();
            if let Ok(mut runs) = Runs::new(1 << 20, &spill).decode(&mut from) {
                // A changed letter is another key; reading it must not panic.
                all(&mut runs);
            }
        }
    }
}
