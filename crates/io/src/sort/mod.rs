//! Sorts lines of any number in bounded memory, in the same order as `LC_ALL=C sort`.
//!
//! The input is read into chunks, by several threads where a file can be split. A full chunk is sorted
//! by all threads while the next one is read. Sorted chunks stay in memory as long as they fit, and are
//! then spilled to a temporary file. In the end, the chunks in memory and the runs on disk are merged:
//! the output is cut into ranges between lines of a sample, and each thread merges ranges of its own. If
//! there are too many runs to merge at once, some are merged into longer ones first.

mod chunk;
mod input;
mod ranges;
pub(crate) mod spill;
mod strings;
mod tournament;

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rayon::prelude::*;
use rayon::{Scope, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::progress::{Phase, Progress};
use crate::resources::Resources;
use crate::source::Source;
use crate::writer::LineWriter;

use chunk::Chunk;
use input::Input;
use spill::{Run, RunLines, RunWriter, Spill};
pub(crate) use tournament::{SortedLines, Tournament};

/// The minimum of memory for sorting and merging.
pub const LEAST_MEMORY: usize = 4 << 20;

/// Sort options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Whether to keep only one of equal lines.
    pub unique: bool,
    /// Where to report progress.
    pub progress: Progress,
}

/// What was sorted or merged.
#[derive(Debug, Default)]
pub struct Report {
    /// Lines read.
    pub lines_in: u64,
    /// Lines written.
    pub lines_out: u64,
    /// Sorted runs that did not fit in memory.
    pub runs: usize,
    /// Bytes written to temporary files.
    pub spilled: u64,
    /// Inputs with damaged compression; everything before the damage is in the output.
    pub damaged: Vec<Error>,
}

/// Sorts all lines of `sources` into `out`.
///
/// # Errors
/// If a source cannot be read, the disk is full, or a line does not fit in memory.
/// Damaged compression is not an error: see [`Report::damaged`].
pub fn sort(sources: &[Source], options: &Options, out: &mut LineWriter) -> Result<Report> {
    let memory = options.resources.memory.max(LEAST_MEMORY);
    let threads = options.resources.threads.max(1);
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::new(ErrorKind::Invalid(error.to_string())))?;
    // An eighth is reserved for the blocks of runs while they are written and merged.
    let chunk = (memory - memory / 8) / BUFFERS;
    let mut report = Report::default();
    let mut bytes = 0;
    options.progress.read(sources);
    let (held, mut runs) = pool.in_place_scope(|scope| {
        let (send, returns) = unbounded();
        let mut sorter = Sorter {
            scope,
            options,
            send,
            returns,
            chunk,
            memory,
            threads,
            allocated: 0,
            away: 0,
            free: Vec::new(),
            held: Vec::new(),
            runs: Vec::new(),
            spill: None,
        };
        let mut chunk = sorter.free_chunk()?;
        for source in sources {
            chunk = sorter.read(source, chunk, &mut report, &mut bytes)?;
        }
        options.progress.begin(Phase::Sorting, None);
        sorter.finish(chunk)
    })?;
    report.runs = runs.len();
    report.spilled = runs.first().map_or(0, Run::spilled);
    let most = runs_at_once(memory);
    if runs.len() > most {
        let spill = Spill::new(&options.resources.temporary, block_size(memory))?;
        while runs.len() > most {
            let group = most.min(runs.len() - most + 1);
            let group: Vec<_> = runs.drain(..group).map(RunLines::new).collect();
            runs.push(merge_into_run(group, options.unique, &spill)?);
        }
        report.spilled += spill.size();
    }
    options.progress.begin(Phase::Writing, Some(bytes));
    let sorted = Sorted { held, runs };
    report.lines_out = ranges::merge(&sorted, threads, memory / 8, options, out)?;
    Ok(report)
}

/// How many chunks there are: one is read, one is sorted by all threads, and one or two are spilled.
const BUFFERS: usize = 4;

/// Everything that was sorted.
pub(crate) struct Sorted {
    held: Vec<Chunk>,
    runs: Vec<Run>,
}

/// How many bytes of lines a block of a run holds.
fn block_size(memory: usize) -> usize {
    (memory / 16_384).clamp(16 * 1024, 64 * 1024)
}

/// How many runs are merged at once: each needs a block and its compressed form.
fn runs_at_once(memory: usize) -> usize {
    (memory / 8 / (2 * block_size(memory))).clamp(4, 4096)
}

/// Passes the lines of a merge to `take`; with `unique`, one of each. Returns their number.
pub(crate) fn drain<S: SortedLines>(
    lines: &mut S,
    unique: bool,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut count = 0;
    let mut last: Option<Vec<u8>> = None;
    while lines.advance()? {
        let line = lines.line();
        if unique {
            match &mut last {
                Some(last) if last == line => continue,
                Some(last) => {
                    last.clear();
                    last.extend_from_slice(line);
                }
                None => last = Some(line.to_vec()),
            }
        }
        take(line)?;
        count += 1;
    }
    Ok(count)
}

fn merge_into_run(sources: Vec<RunLines<Run>>, unique: bool, spill: &Arc<Spill>) -> Result<Run> {
    let mut writer = RunWriter::new(spill);
    drain(&mut Tournament::new(sources), unique, |line| {
        writer.push(line)
    })?;
    writer.finish()
}

/// A result of the threads.
enum Returned {
    Sorted(Chunk),
    Spilled(Chunk, Result<Run>),
}

/// Reads chunks and has them sorted and spilled by the pool's threads.
struct Sorter<'a, 'scope> {
    scope: &'a Scope<'scope>,
    options: &'a Options,
    send: Sender<Returned>,
    returns: Receiver<Returned>,
    /// The size of a chunk.
    chunk: usize,
    memory: usize,
    threads: usize,
    /// How many chunks are allocated.
    allocated: usize,
    /// Chunks that the threads have.
    away: usize,
    free: Vec<Chunk>,
    held: Vec<Chunk>,
    runs: Vec<Run>,
    spill: Option<Arc<Spill>>,
}

impl<'scope> Sorter<'_, 'scope> {
    /// Reads all lines of `source`, from `chunk` on. Returns the chunk that is not full yet.
    fn read(
        &mut self,
        source: &Source,
        mut chunk: Chunk,
        report: &mut Report,
        bytes: &mut u64,
    ) -> Result<Chunk> {
        let progress = &self.options.progress;
        let mut input = Input::open(source, self.memory, self.threads, progress)?;
        let mut lines = 0;
        let mut counted = chunk.lines();
        loop {
            if chunk.free() == 0 {
                lines += (chunk.lines() - counted) as u64;
                let mut next = self.free_chunk()?;
                next.start_with_rest_of(&mut chunk);
                counted = 0;
                if chunk.lines() == 0 {
                    let error = Error::line_too_long(next.unfinished());
                    return Err(error.in_file(source).at_line(lines + 1));
                }
                self.sort(std::mem::replace(&mut chunk, next));
                continue;
            }
            let (filled, error) = input.read(&mut chunk);
            *bytes += filled.bytes as u64;
            match error {
                Some(error) if error.is_damage() => {
                    // The last line is truncated and is dropped.
                    chunk.drop_unfinished();
                    report.damaged.push(error);
                    break;
                }
                Some(error) => return Err(error),
                None if filled.ended => break,
                None => {}
            }
        }
        chunk.end_line();
        report.lines_in += lines + (chunk.lines() - counted) as u64;
        Ok(chunk)
    }

    /// Starts to sort a chunk.
    fn sort(&mut self, mut chunk: Chunk) {
        let (send, unique) = (self.send.clone(), self.options.unique);
        self.away += 1;
        self.scope.spawn(move |_| {
            chunk.sort(unique);
            // The receiver is gone only when reading has failed.
            let _ = send.send(Returned::Sorted(chunk));
        });
    }

    /// Starts to write a sorted chunk to disk.
    fn spill(&mut self, mut chunk: Chunk) -> Result<()> {
        let spill = match &self.spill {
            Some(spill) => Arc::clone(spill),
            None => {
                let block = block_size(self.options.resources.memory);
                let spill = Spill::new(&self.options.resources.temporary, block)?;
                Arc::clone(self.spill.insert(spill))
            }
        };
        let send = self.send.clone();
        let threads = self.threads;
        self.away += 1;
        self.scope.spawn(move |_| {
            let parts = chunk.parts(threads).map(|mut lines| {
                let mut writer = RunWriter::new(&spill);
                lines.try_for_each(|line| writer.push(line))?;
                writer.finish()
            });
            let parts: Result<Vec<Run>> = parts.collect();
            let run = parts.map(|parts| {
                let mut run = Run::empty(&spill);
                parts.into_iter().for_each(|part| run.append(part));
                run
            });
            chunk.clear();
            let _ = send.send(Returned::Spilled(chunk, run));
        });
        Ok(())
    }

    /// An empty chunk: a new one if there is memory, else one that was spilled.
    fn free_chunk(&mut self) -> Result<Chunk> {
        loop {
            while let Ok(returned) = self.returns.try_recv() {
                self.take_back(returned)?;
            }
            if let Some(chunk) = self.free.pop() {
                return Ok(chunk);
            }
            if self.allocated < BUFFERS {
                self.allocated += 1;
                return Chunk::new(self.chunk);
            }
            for chunk in std::mem::take(&mut self.held) {
                self.spill(chunk)?;
            }
            self.wait()?;
        }
    }

    fn wait(&mut self) -> Result<()> {
        match self.returns.recv() {
            Ok(returned) => self.take_back(returned),
            // Not reached: this side holds a sender too.
            Err(_) => Ok(()),
        }
    }

    fn take_back(&mut self, returned: Returned) -> Result<()> {
        self.away -= 1;
        match returned {
            Returned::Sorted(chunk) => self.held.push(chunk),
            Returned::Spilled(chunk, run) => {
                self.free.push(chunk);
                self.runs.push(run?);
            }
        }
        Ok(())
    }

    /// Waits for the threads. Returns the sorted chunks in memory and the runs.
    fn finish(mut self, last: Chunk) -> Result<(Vec<Chunk>, Vec<Run>)> {
        if last.lines() > 0 {
            self.sort(last);
        }
        while self.away > 0 {
            self.wait()?;
        }
        Ok((self.held, self.runs))
    }
}
