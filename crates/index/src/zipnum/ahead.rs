//! Fetches the blocks of remote data files: each once, several at a time, ahead of their use.
//!
//! A lookup first determines which rows it will read ([`Plan`]). When it comes to a block that is not
//! there yet, that block and the planned ones behind it are fetched concurrently, adjacent ones in one
//! request. Fetched blocks stay in memory, compressed, until there are too many of them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use waypost_io::{Error, ErrorKind, RangeRead, Result};

use super::idx::Row;
use super::reader::{LARGEST_BLOCK, ZipNum, too_large};
use crate::range::Range as KeyRange;

/// How much is fetched ahead.
const AHEAD: u64 = 8 << 20;

/// How much of adjacent blocks is fetched in one request.
const JOINED: u64 = 2 << 20;

/// How many compressed bytes are kept.
const KEPT: usize = 128 << 20;

/// Which of the blocks of each range will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    /// Perhaps only the first, because the number of captures is limited.
    First,
    /// Perhaps only the last.
    Last,
}

/// The rows whose blocks will be read, as ranges of offsets in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    rows: Vec<Range<usize>>,
}

/// The file and offset of a block.
type BlockId = (Vec<u8>, u64);

/// Compressed blocks in memory.
#[derive(Default)]
pub(super) struct Packed {
    state: Mutex<State>,
    fetched: Condvar,
}

#[derive(Default)]
struct State {
    blocks: HashMap<BlockId, Block>,
    /// Those that are there, the oldest first.
    order: VecDeque<BlockId>,
    bytes: usize,
}

enum Block {
    /// Some thread fetches it.
    Expected,
    Here(Arc<[u8]>),
}

/// A block to fetch.
struct Wanted {
    id: BlockId,
    file: Arc<dyn RangeRead>,
    length: u64,
}

impl ZipNum {
    /// Determines which blocks the lookup of `ranges` will read.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub(crate) fn plan(&self, ranges: &[&KeyRange], extent: Extent) -> Result<Plan> {
        let find = |range: &KeyRange| -> Result<Range<usize>> {
            let (first, end) = (self.first_row(&range.start)?, self.bound(&range.end)?);
            Ok(match extent {
                Extent::All => first..end,
                Extent::First => first..end.min(first + 1),
                Extent::Last => self.row_before(end)?.map_or(first, |b| b.max(first))..end,
            })
        };
        let mut rows = in_parallel(self.connections(), ranges, |range| find(range))?;
        rows.retain(|rows| !rows.is_empty());
        rows.sort_by_key(|rows| (rows.start, rows.end));
        rows.dedup_by(|later, earlier| {
            let joins = later.start <= earlier.end;
            if joins {
                earlier.end = earlier.end.max(later.end);
            }
            joins
        });
        Ok(Plan { rows })
    }

    /// Makes sure that the block of the row at `at` is in memory if it is remote, and fetches planned
    /// blocks behind it in the same go.
    ///
    /// # Errors
    /// If a row or block cannot be read.
    pub(crate) fn fetch_ahead(&self, at: usize, plan: &Plan) -> Result<()> {
        let Some((row, mut next)) = self.row(at)? else {
            return Ok(());
        };
        let row = self.parse(row, at)?;
        let first = self.file(row.part)?.bytes;
        if !first.is_remote() || self.packed.has(&id_of(&row)) {
            return Ok(());
        }
        let mut wanted = vec![self.wanted(&row)?];
        let mut bytes = row.length;
        let later = plan.rows.partition_point(|rows| rows.end <= next);
        let mut rest = plan.rows[later..].iter();
        let mut rows = rest.next();
        while let Some(planned) = rows.filter(|_| bytes < AHEAD) {
            next = next.max(planned.start);
            let row = if next < planned.end {
                self.row(next)?
            } else {
                None
            };
            let Some((row, after)) = row else {
                rows = rest.next();
                continue;
            };
            let row = self.parse(row, next)?;
            if self.file(row.part)?.bytes.is_remote() {
                bytes = bytes.saturating_add(row.length);
                if bytes <= AHEAD {
                    wanted.push(self.wanted(&row)?);
                }
            }
            next = after;
        }
        self.fetch(wanted)
    }

    /// Fetches the blocks of these rows, if they are remote.
    ///
    /// # Errors
    /// If a row or block cannot be read.
    pub(crate) fn fetch_rows(&self, starts: &[usize]) -> Result<()> {
        let mut wanted = Vec::new();
        for &at in starts {
            if let Some((row, _)) = self.row(at)? {
                let row = self.parse(row, at)?;
                if self.file(row.part)?.bytes.is_remote() {
                    wanted.push(self.wanted(&row)?);
                }
            }
        }
        self.fetch(wanted)
    }

    /// Copies the compressed bytes of a block to `out`.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn read_packed(&self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        let wanted = self.wanted(row)?;
        let file = Arc::clone(&wanted.file);
        out.clear();
        if !file.is_remote() {
            out.resize(row.length as usize, 0);
            let read = file.read_at(row.offset, out);
            return read.map_err(|error| truncated(error).at_byte(row.offset));
        }
        let mut block = self.packed.get(&wanted.id);
        if block.is_none() {
            self.fetch(vec![wanted])?;
            block = self.packed.get(&id_of(row));
        }
        match block {
            Some(block) if block.len() as u64 == row.length => out.extend_from_slice(&block),
            // Two rows disagree about its length, or another thread failed to fetch it.
            _ => {
                out.resize(row.length as usize, 0);
                let read = file.read_at(row.offset, out);
                read.map_err(|error| truncated(error).at_byte(row.offset))?;
            }
        }
        Ok(())
    }

    fn wanted(&self, row: &Row<'_>) -> Result<Wanted> {
        if row.length > LARGEST_BLOCK {
            return Err(too_large(row.length).in_file(self.name()));
        }
        if row.offset.checked_add(row.length).is_none() {
            let message = "a block that ends beyond any file".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(self.name()));
        }
        Ok(Wanted {
            id: id_of(row),
            file: self.file(row.part)?.bytes,
            length: row.length,
        })
    }

    /// Fetches blocks that neither are there nor are fetched by another thread, and waits for the
    /// first in any case.
    fn fetch(&self, wanted: Vec<Wanted>) -> Result<()> {
        let first = wanted.first().map(|wanted| wanted.id.clone());
        let claimed = self.packed.claim(wanted);
        let jobs = join(claimed);
        let done = in_parallel(self.connections(), &jobs, |job| {
            let fetched = fetch_job(job);
            self.packed.put(job, fetched.as_ref().ok());
            let (_, offset) = &job[0].id;
            fetched
                .map(drop)
                .map_err(|error| truncated(error).at_byte(*offset))
        });
        // A job that was not started because another one failed must not be waited for.
        for job in &jobs {
            self.packed.give_up(job);
        }
        done?;
        if let Some(first) = first {
            self.packed.wait_for(&first);
        }
        Ok(())
    }
}

/// A data file that is too short is damaged.
fn truncated(error: Error) -> Error {
    match error.into_parts() {
        (ErrorKind::EndsEarly, place) => {
            let compression = "gzip";
            Error::at(ErrorKind::Truncated { compression }, place)
        }
        (kind, place) => Error::at(kind, place),
    }
}

fn id_of(row: &Row<'_>) -> BlockId {
    (row.part.to_vec(), row.offset)
}

/// Groups adjacent blocks of a file.
fn join(mut wanted: Vec<Wanted>) -> Vec<Vec<Wanted>> {
    wanted.sort_by(|a, b| a.id.cmp(&b.id));
    let mut jobs: Vec<Vec<Wanted>> = Vec::new();
    for block in wanted {
        if let Some(job) = jobs.last_mut()
            && let Some(last) = job.last()
            && last.id.0 == block.id.0
            && last.id.1 + last.length == block.id.1
            && block.id.1 + block.length - job[0].id.1 <= JOINED
        {
            job.push(block);
        } else {
            jobs.push(vec![block]);
        }
    }
    jobs
}

/// The bytes of adjacent blocks.
fn fetch_job(job: &[Wanted]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; job.iter().map(|block| block.length as usize).sum()];
    job[0].file.read_at(job[0].id.1, &mut bytes)?;
    Ok(bytes)
}

impl Packed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, id: &BlockId) -> bool {
        matches!(self.lock().blocks.get(id), Some(Block::Here(_)))
    }

    /// A block that is there.
    fn get(&self, id: &BlockId) -> Option<Arc<[u8]>> {
        match self.lock().blocks.get(id) {
            Some(Block::Here(bytes)) => Some(Arc::clone(bytes)),
            _ => None,
        }
    }

    /// Those of the wanted blocks that the caller is to fetch.
    fn claim(&self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        let mut state = self.lock();
        let claim = |wanted: &Wanted| {
            let is_new = !state.blocks.contains_key(&wanted.id);
            if is_new {
                state.blocks.insert(wanted.id.clone(), Block::Expected);
            }
            is_new
        };
        wanted.into_iter().filter(claim).collect()
    }

    /// Adds the blocks of a job, or removes them if they could not be fetched.
    fn put(&self, job: &[Wanted], bytes: Option<&Vec<u8>>) {
        let Some(bytes) = bytes else {
            return self.give_up(job);
        };
        let mut state = self.lock();
        let mut at = 0;
        for block in job {
            let end = at + block.length as usize;
            let here = Block::Here(bytes[at..end].into());
            state.blocks.insert(block.id.clone(), here);
            state.order.push_back(block.id.clone());
            state.bytes += end - at;
            at = end;
        }
        while state.bytes > KEPT && state.order.len() > job.len() {
            let Some(oldest) = state.order.pop_front() else {
                break;
            };
            if let Some(Block::Here(bytes)) = state.blocks.remove(&oldest) {
                state.bytes -= bytes.len();
            }
        }
        drop(state);
        self.fetched.notify_all();
    }

    /// Removes blocks that were not fetched, so that another thread can try.
    fn give_up(&self, job: &[Wanted]) {
        let mut state = self.lock();
        for block in job {
            if let Some(Block::Expected) = state.blocks.get(&block.id) {
                state.blocks.remove(&block.id);
            }
        }
        drop(state);
        self.fetched.notify_all();
    }

    /// Waits until no other thread fetches a block.
    fn wait_for(&self, id: &BlockId) {
        let mut state = self.lock();
        while let Some(Block::Expected) = state.blocks.get(id) {
            state = self
                .fetched
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Calls `work` for each item, on several threads. Stops at the first error.
fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return Ok(done);
            };
            match work(item) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let results: Vec<Result<Vec<(usize, R)>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            let panicked = |_| Err(Error::new(ErrorKind::Panicked));
            thread.join().unwrap_or_else(panicked)
        };
        threads.into_iter().map(join).collect()
    });
    let mut all: Vec<(usize, R)> = Vec::with_capacity(items.len());
    for result in results {
        all.extend(result?);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}
