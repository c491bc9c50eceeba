//! Merges sorted chunks and runs, each thread a range of the output at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::chunk::ChunkLines;
use super::spill::{Run, RunLines};
use super::tournament::{SortedLines, Tournament};
use super::{Options, Sorted, drain};
use crate::error::Result;
use crate::pipeline::{self, Pool, Width};
use crate::writer::LineWriter;

/// A range has at most about so many bytes, unless there are many runs.
const RANGE: usize = 4 << 20;

/// The maximum number of sampled lines.
const SAMPLED: usize = 1 << 16;

/// Lines of one range in order.
struct Merged {
    lines: Vec<u8>,
    count: u64,
}

/// Merges everything into `out` with `memory` for the blocks of runs. Returns the number of lines.
pub(super) fn merge(
    sorted: &Sorted,
    threads: usize,
    memory: usize,
    options: &Options,
    out: &mut LineWriter,
) -> Result<u64> {
    // A thread has a block of each run at a time, compressed and decompressed.
    let blocks = sorted.runs.len() * 2 * super::block_size(8 * memory);
    let range = (memory / (8 * threads))
        .clamp(1 << 16, RANGE)
        .max(2 * blocks);
    let in_flight = 2 * range + blocks;
    let threads = (memory / in_flight.max(1)).clamp(1, threads);
    let mut steps = options.progress.steps();
    if threads == 1 {
        let mut all = Tournament::new(sorted.lines(b"", None));
        return drain(&mut all, options.unique, |line| {
            steps.add(line.len() as u64 + 1);
            out.push(line)
        });
    }
    let bounds = sorted.bounds(range as u64);
    let buffers = Pool::<Vec<u8>>::new();
    let next = AtomicUsize::new(0);
    let mut count = 0;
    pipeline::run(
        Width {
            threads,
            pieces: threads + 1,
        },
        || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Ok((number <= bounds.len()).then_some(number))
        },
        || |number| sorted.range(&bounds, number, options.unique, buffers.get()),
        |mut merged: Merged| {
            steps.add(merged.lines.len() as u64);
            count += merged.count;
            out.push_buffer(&mut merged.lines, merged.count)?;
            buffers.put(merged.lines);
            Ok(())
        },
    )?;
    Ok(count)
}

/// Lines of a chunk or of a run.
enum Any<'a> {
    Chunk(ChunkLines<'a>),
    Run(RunLines<&'a Run>),
}

impl SortedLines for Any<'_> {
    fn line(&self) -> &[u8] {
        match self {
            Any::Chunk(lines) => lines.line(),
            Any::Run(lines) => lines.line(),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        match self {
            Any::Chunk(lines) => lines.advance(),
            Any::Run(lines) => lines.advance(),
        }
    }
}

impl Sorted {
    /// The lines of all sources from `from` to before `to`.
    fn lines(&self, from: &[u8], to: Option<&[u8]>) -> Vec<Any<'_>> {
        let chunks = self.held.iter();
        let chunks = chunks.map(|chunk| Any::Chunk(ChunkLines::new(chunk, from, to)));
        let runs = self.runs.iter();
        let runs = runs.map(|run| Any::Run(RunLines::range(run, from, to)));
        chunks.chain(runs).collect()
    }

    /// Merges the range before the bound of this number into an empty buffer.
    fn range(
        &self,
        bounds: &[Vec<u8>],
        number: usize,
        unique: bool,
        lines: Vec<u8>,
    ) -> Result<Merged> {
        let from = number.checked_sub(1).map_or(&b""[..], |at| &bounds[at]);
        let to = bounds.get(number).map(Vec::as_slice);
        let mut merged = Merged { lines, count: 0 };
        let mut sources = Tournament::new(self.lines(from, to));
        merged.count = drain(&mut sources, unique, |line| {
            merged.lines.extend_from_slice(line);
            merged.lines.push(b'\n');
            Ok(())
        })?;
        Ok(merged)
    }

    /// Lines that cut the output into ranges of about this many bytes, in order: quantiles of a
    /// sample. A line that is frequent may be all of a range, however long that gets.
    fn bounds(&self, range: u64) -> Vec<Vec<u8>> {
        let chunks: u64 = self.held.iter().map(super::Chunk::size).sum();
        let runs: u64 = self.runs.iter().map(Run::size).sum();
        let ranges = (chunks + runs).div_ceil(range.max(1));
        // Every sampled line stands for this many bytes.
        let share = ((chunks + runs) / SAMPLED as u64).max(range / 64).max(1);
        let mut sample: Vec<&[u8]> = Vec::new();
        for chunk in &self.held {
            sample.extend(chunk.sample(share));
        }
        for run in &self.runs {
            sample.extend(run.sample(share));
        }
        sample.sort_unstable();
        let quantile = |number: u64| {
            let at = number * sample.len() as u64 / ranges;
            sample.get(at as usize).map(|line| line.to_vec())
        };
        let mut bounds: Vec<Vec<u8>> = (1..ranges).filter_map(quantile).collect();
        bounds.dedup();
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::spill::{RunWriter, Spill};
    use super::*;
    use proptest::prelude::*;

    fn chunk_of(lines: &[Vec<u8>], unique: bool) -> Chunk {
        let mut chunk = Chunk::new(1 << 20).unwrap();
        for line in lines {
            chunk.space()[..line.len()].copy_from_slice(line);
            chunk.take(line.len());
            chunk.space()[0] = b'\n';
            chunk.take(1);
        }
        chunk.sort(unique);
        chunk
    }

    /// Lines that often agree in more bytes than a block remembers of its first line.
    fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let line = ("(com,a{0,60}b?)?", "[a-c]{0,3}")
            .prop_map(|(start, end)| [start, end].concat().into_bytes());
        prop::collection::vec(line, 0..40)
    }

    proptest! {
        #[test]
        fn the_ranges_of_a_merge_are_its_sorted_lines_once_each(
            held in prop::collection::vec(lines(), 0..3),
            spilled in prop::collection::vec(lines(), 0..4),
            block in 1usize..200,
            size in 1u64..400,
            unique: bool,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let spill = Spill::new(folder.path(), block).unwrap();
            let mut expected: Vec<Vec<u8>> = held.iter().chain(&spilled).flatten().cloned().collect();
            let runs = spilled.iter().map(|lines| {
                let mut lines = lines.clone();
                lines.sort();
                let mut writer = RunWriter::new(&spill);
                lines.iter().try_for_each(|line| writer.push(line)).unwrap();
                writer.finish().unwrap()
            });
            let sorted = Sorted {
                held: held.iter().map(|lines| chunk_of(lines, unique)).collect(),
                runs: runs.collect(),
            };
            let bounds = sorted.bounds(size);
            prop_assert!(bounds.is_sorted());
            let mut all = Vec::new();
            let mut count = 0;
            for number in 0..=bounds.len() {
                let merged = sorted.range(&bounds, number, unique, Vec::new()).unwrap();
                all.extend(merged.lines);
                count += merged.count;
            }
            expected.sort();
            if unique {
                expected.dedup();
            }
            prop_assert_eq!(count, expected.len() as u64);
            let expected: Vec<u8> = expected.iter().flat_map(|line| [&line[..], b"\n"].concat()).collect();
            prop_assert_eq!(all, expected);
        }
    }
}
