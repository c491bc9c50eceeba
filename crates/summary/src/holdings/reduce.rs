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

/// The URI-Rs of consecutive rows. The first and the last may continue in the blocks before and
/// after.
struct Block<P> {
    /// The first, if it is not also the last.
    head: Option<Run>,
    /// The last.
    tail: Run,
    part: Option<P>,
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
    let mut carry: Option<Run> = None;
    let width = Width::within(pass.memory, 0, batch * piece);
    let mut take_block = |block: Block<R::Part>| {
        let (first, rest) = match block.head {
            Some(head) => (head, Some((block.part, block.tail))),
            None => (block.tail, None),
        };
        match &mut carry {
            Some(run) if run.surt == first.surt => run.join(first),
            _ => {
                complete(reduce, &mut carry, &mut take)?;
                carry = Some(first);
            }
        }
        if let Some((part, tail)) = rest {
            complete(reduce, &mut carry, &mut take)?;
            if let Some(part) = part {
                take(part, &tail.surt)?;
            }
            carry = Some(tail);
        }
        Ok(())
    };
    pipeline::run(width, give, worker, |all| {
        all.into_iter().try_for_each(&mut take_block)
    })?;
    complete(reduce, &mut carry, &mut take)
}

/// The URI-R in `carry` is complete.
fn complete<R: Reduce>(
    reduce: &R,
    carry: &mut Option<Run>,
    take: &mut impl FnMut(R::Part, &[u8]) -> Result<()>,
) -> Result<()> {
    let Some(run) = carry.take() else {
        return Ok(());
    };
    let mut part = reduce.part();
    reduce.run(&mut part, &run);
    reduce.end(&mut part);
    take(part, &run.surt)
}

fn block<R: Reduce>(reduce: &R, rows: &mut RowBlock) -> Result<Block<R::Part>> {
    rows.open()?;
    let mut block = Block {
        head: None,
        tail: Run::default(),
        part: None,
    };
    let mut any = false;
    for (surt, bytes) in rows.iter() {
        let (captures, source, second) = payload(bytes)
            .ok_or_else(|| Error::format("a temporary file was changed while it was in use"))?;
        if !any {
            any = true;
            block.tail.begin(surt);
        } else if surt != block.tail.surt {
            if block.head.is_none() {
                block.head = Some(std::mem::take(&mut block.tail));
            } else {
                let part = block.part.get_or_insert_with(|| reduce.part());
                reduce.run(part, &block.tail);
            }
            block.tail.begin(surt);
        }
        let second = (!second.is_empty()).then_some(second);
        block.tail.add(second, captures, source);
    }
    if let Some(part) = &mut block.part {
        reduce.end(part);
    }
    Ok(block)
}
