//! Reading holdings in order, on all cores.
//!
//! ```text
//! rows in order ─► blocks ─► workers: runs of one URI-R ─► a part of each block ─► parts in order
//! ```

use waypost_io::partial::RowBlock;
use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::progress::{Phase, Progress};

use super::Input;
use super::partial::{Held, payload};
use super::run::Run;
use crate::error::{Error, Result};

/// How many blocks are handed over to a thread at once, at most.
const MOST_BLOCKS: usize = 4;

/// How many URI-Rs that are in no part of a block are collected at most.
const MOST_BETWEEN: u64 = 1_000;

/// What to compute from URI-Rs: a part for each sequence of consecutive ones.
pub trait Reduce: Sync {
    /// The result for consecutive URI-Rs.
    type Part: Send;

    /// An empty part.
    fn part(&self) -> Self::Part;

    /// Adds a URI-R, greater than the one before.
    fn run(&self, part: &mut Self::Part, run: &Run);

    /// Completes a part, on the thread that made it.
    fn end(&self, part: &mut Self::Part) {
        let _ = part;
    }
}

/// The URI-Rs of consecutive rows or captures. The first and the last may continue in the blocks before
/// and after.
pub(super) struct Block<P> {
    /// The first, if it is not also the last.
    head: Option<Run>,
    /// The last; empty if the block is.
    tail: Run,
    /// All others.
    part: Option<P>,
    /// How many others.
    others: u64,
    /// Whether no SURT was smaller than the one before.
    in_order: bool,
}

impl<P> Block<P> {
    pub(super) fn new() -> Block<P> {
        Block {
            head: None,
            tail: Run::default(),
            part: None,
            others: 0,
            in_order: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty()
    }

    /// Adds captures of a URI-R. No second key is an empty one.
    #[inline]
    pub(super) fn add<R: Reduce<Part = P>>(
        &mut self,
        reduce: &R,
        surt: &[u8],
        second: &[u8],
        captures: u64,
        source: u64,
    ) {
        if self.tail.is_empty() {
            self.tail.begin(surt);
        } else {
            let order = surt.cmp(&self.tail.surt[..]);
            if order.is_ne() {
                self.in_order &= order.is_gt();
                self.end_tail(reduce);
                self.tail.begin(surt);
            }
        }
        let second = (!second.is_empty()).then_some(second);
        self.tail.add(second, captures, source);
    }

    /// The last URI-R has all of its captures.
    fn end_tail<R: Reduce<Part = P>>(&mut self, reduce: &R) {
        if self.head.is_none() {
            self.head = Some(std::mem::take(&mut self.tail));
            return;
        }
        let part = self.part.get_or_insert_with(|| reduce.part());
        reduce.run(part, &self.tail);
        self.others += 1;
    }

    /// Completes the block, on the thread that made it.
    pub(super) fn end<R: Reduce<Part = P>>(&mut self, reduce: &R) {
        if let Some(part) = &mut self.part {
            reduce.end(part);
        }
    }
}

/// Joins blocks in order. Parts are passed on to `take`, each with the last SURT that it may have.
pub(super) struct Join<'a, R: Reduce> {
    reduce: &'a R,
    /// The last URI-R, which may continue.
    carry: Run,
    /// URI-Rs before it that are in no part of a block.
    between: Option<R::Part>,
    /// How many, and the last of them.
    count: u64,
    last: Vec<u8>,
    /// The number of complete URI-Rs.
    pub(super) urirs: u64,
}

impl<'a, R: Reduce> Join<'a, R> {
    pub(super) fn new(reduce: &'a R) -> Join<'a, R> {
        Join {
            reduce,
            carry: Run::default(),
            between: None,
            count: 0,
            last: Vec::new(),
            urirs: 0,
        }
    }

    /// Whether a block is sorted and follows those before.
    pub(super) fn is_next(&self, block: &Block<R::Part>) -> bool {
        let first = block.head.as_ref().unwrap_or(&block.tail);
        block.in_order && (self.carry.is_empty() || first.surt >= self.carry.surt)
    }

    /// Adds a block.
    pub(super) fn add<E>(
        &mut self,
        block: Block<R::Part>,
        take: &mut impl FnMut(R::Part, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if block.is_empty() {
            return Ok(());
        }
        let (first, tail) = match block.head {
            Some(head) => (head, Some(block.tail)),
            None => (block.tail, None),
        };
        if !self.carry.is_empty() && self.carry.surt == first.surt {
            self.carry.join(first);
        } else {
            self.complete(first);
        }
        if let Some(tail) = tail {
            self.complete(Run::default());
            if let Some(part) = block.part {
                self.pass_on(take)?;
                self.urirs += block.others;
                take(part, &tail.surt)?;
            }
            self.carry = tail;
        }
        if self.count >= MOST_BETWEEN {
            self.pass_on(take)?;
        }
        Ok(())
    }

    /// Completes the last URI-R, and continues with another one.
    fn complete(&mut self, next: Run) {
        let run = std::mem::replace(&mut self.carry, next);
        if !run.is_empty() {
            let part = self.between.get_or_insert_with(|| self.reduce.part());
            self.reduce.run(part, &run);
            self.last = run.surt;
            self.count += 1;
            self.urirs += 1;
        }
    }

    fn pass_on<E>(
        &mut self,
        take: &mut impl FnMut(R::Part, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.count = 0;
        match self.between.take() {
            Some(mut part) => {
                self.reduce.end(&mut part);
                take(part, &self.last)
            }
            None => Ok(()),
        }
    }

    /// Passes on what is left.
    pub(super) fn end<E>(
        &mut self,
        take: &mut impl FnMut(R::Part, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.complete(Run::default());
        self.pass_on(take)
    }
}

/// One pass over holdings.
pub struct Pass<'a> {
    /// The memory limit, in bytes.
    pub memory: usize,
    /// The approximate share of it that the part of a block takes.
    pub piece: usize,
    /// What is done with the parts.
    pub phase: Phase,
    /// Where to report progress.
    pub progress: &'a Progress,
}

impl Pass<'_> {
    /// Looks up each URI-R of an input.
    pub(crate) fn looking_up(input: &Input) -> Pass<'_> {
        Pass {
            memory: input.resources.memory / 4,
            piece: 1 << 20,
            phase: Phase::LookingUp,
            progress: &input.progress,
        }
    }
}

/// Reads the URI-Rs of `held` in order. `take` receives the parts in order, each with the last SURT
/// in it.
///
/// # Errors
/// When spilled rows cannot be read, or `take` fails.
pub fn reduce<R: Reduce>(
    held: &mut Held,
    reduce: &R,
    pass: Pass<'_>,
    mut take: impl FnMut(R::Part, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut reader = held.runs().reader()?;
    pass.progress.begin(pass.phase, Some(reader.size()));
    let blocks: Pool<RowBlock> = Pool::new();
    // Handing over takes time, so several blocks are handed over at once where there is memory for it. Half
    // of it is left for the rows, which take about as much as the parts.
    let piece = pass.piece.max(1 << 18);
    let batch = (pass.memory / (2 * piece) / Width::full().pieces).clamp(1, MOST_BLOCKS);
    let give = || {
        let mut all = Vec::new();
        while all.len() < batch {
            let mut rows = blocks.get();
            if !reader.next(&mut rows)? {
                break;
            }
            pass.progress.add(rows.size());
            all.push(rows);
        }
        Ok::<_, Error>((!all.is_empty()).then_some(all))
    };
    let worker = || {
        |all: Vec<RowBlock>| {
            let each = all.into_iter().map(|mut rows| {
                let block = block(reduce, &mut rows);
                blocks.put(rows);
                block
            });
            each.collect::<Result<Vec<Block<R::Part>>>>()
        }
    };
    let width = Width::within(pass.memory, 0, batch * piece);
    let mut join = Join::new(reduce);
    pipeline::run(width, give, worker, |all| {
        all.into_iter()
            .try_for_each(|block| join.add(block, &mut take))
    })?;
    join.end(&mut take)
}

fn block<R: Reduce>(reduce: &R, rows: &mut RowBlock) -> Result<Block<R::Part>> {
    rows.open()?;
    let mut block = Block::new();
    for (surt, bytes) in rows.iter() {
        let (captures, source, second) = payload(bytes)
            .ok_or_else(|| Error::format("a temporary file was changed while it was in use"))?;
        block.add(reduce, surt, second, captures, source);
    }
    block.end(reduce);
    Ok(block)
}
