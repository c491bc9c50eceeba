//! Merges any number of sorted files in bounded memory and with few open files.
//!
//! Every input is checked while it is read: the first line that is smaller than the preceding one ends
//! the merge, because a merge of unsorted input would be silently wrong. If there are more inputs
//! than can be open at once, some are merged into temporary runs first.
//!
//! Files that can be read from any line on, plain or in gzip members, are merged by ranges on all
//! threads. Pipes and other compressed files are merged by one thread, and so is everything from the
//! first range on in which something is wrong: the result is the same.

mod file;
mod ranges;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::lines::Lines;
use crate::progress::Progress;
use crate::sort::spill::{Run, RunLines, RunWriter, Spill};
use crate::sort::{Options, Report, SortedLines, Tournament, drain};
use crate::source::Source;
use crate::stream::Stream;
use crate::writer::LineWriter;
use file::SortedFile;
use ranges::Plan;

/// The maximum number of open files: systems allow 256 or 1024 by default.
const OPEN_FILES: usize = 150;

/// Memory for reading one compressed file, besides the buffer of its lines.
const STREAM: usize = 512 * 1024;

/// Changes a line. The result goes to an empty buffer.
pub type Change<'a> = dyn Fn(&[u8], &mut Vec<u8>) -> Result<()> + Sync + 'a;

/// Merges `sources`, each of which is sorted, into `out`. If `change` is given, it is applied to each
/// line.
///
/// # Errors
/// If a source is not sorted or cannot be read, the output cannot be written, or `change` fails.
/// Damaged compression is not an error: see [`Report::damaged`].
pub fn merge(
    sources: &[Source],
    options: &Options,
    change: Option<&Change<'_>>,
    out: &mut LineWriter,
) -> Result<Report> {
    merge_planned(sources, options, change, Plan::new, out)
}

/// The same with another plan for ranges.
fn merge_planned(
    sources: &[Source],
    options: &Options,
    change: Option<&Change<'_>>,
    plan: impl Fn(&[SortedFile], &Options) -> Option<Plan>,
    out: &mut LineWriter,
) -> Result<Report> {
    options.progress.read(sources);
    let by_ranges = options.resources.threads > 1 && sources.len() <= most_open(options);
    let files = if by_ranges {
        ranges::open(sources)?
    } else {
        None
    };
    let planned = files.and_then(|files| Some((plan(&files, options)?, files)));
    let Some((plan, files)) = planned else {
        return merge_all(sources, options, change, b"", out);
    };
    let merged = ranges::merge(files, &plan, options, change, out)?;
    let Some(rest) = merged.rest else {
        return Ok(merged.report);
    };
    options.progress.read(sources);
    let mut report = merge_all(sources, options, change, &rest, out)?;
    report.lines_out += merged.report.lines_out;
    Ok(report)
}

/// How many sources are open at once.
fn most_open(options: &Options) -> usize {
    (options.resources.memory / 2 / STREAM).clamp(2, OPEN_FILES)
}

/// Merges the lines that are not less than `from`, on one thread. Counts the others, too.
fn merge_all(
    sources: &[Source],
    options: &Options,
    change: Option<&Change<'_>>,
    from: &[u8],
    out: &mut LineWriter,
) -> Result<Report> {
    let mut report = Report::default();
    let memory = options.resources.memory;
    let most = most_open(options);
    let mut spill: Option<Arc<Spill>> = None;
    let mut runs: Vec<Run> = Vec::new();
    let mut rest = sources;
    // Merging a group replaces many files by one run, which needs memory but no open file.
    while rest.len() + runs.len() > most {
        let spill = match &spill {
            Some(spill) => spill,
            None => spill.insert(Spill::new(&options.resources.temporary, 128 * 1024)?),
        };
        let group = most.min(rest.len() + runs.len() - most + 1);
        let files = group.min(rest.len());
        let (first, others) = rest.split_at(files);
        rest = others;
        let mut sources = open(first, memory / most / 2, &options.progress)?;
        sources.extend(
            runs.drain(..group - files)
                .map(|run| Any::Run(RunLines::new(run))),
        );
        let mut writer = RunWriter::new(spill);
        merge_some(sources, options.unique, &mut report, |line| {
            writer.push(line)
        })?;
        runs.push(writer.finish()?);
    }
    report.runs = runs.len();
    report.spilled = spill.as_ref().map_or(0, |spill| spill.size());
    let mut sources = open(rest, memory / most / 2, &options.progress)?;
    sources.extend(runs.into_iter().map(|run| Any::Run(RunLines::new(run))));
    let mut changed = Vec::new();
    let mut before = 0;
    let count = merge_some(sources, options.unique, &mut report, |line| match change {
        _ if line < from => {
            before += 1;
            Ok(())
        }
        Some(change) => {
            changed.clear();
            change(line, &mut changed)?;
            out.push(&changed)
        }
        None => out.push(line),
    })?;
    report.lines_out = count - before;
    Ok(report)
}

fn open(sources: &[Source], memory: usize, progress: &Progress) -> Result<Vec<Any>> {
    let size = memory.clamp(64 * 1024, 1 << 20);
    sources
        .iter()
        .map(|source| {
            let stream = source.open()?.reporting_to(progress);
            Ok(Any::File(Box::new(Checked {
                lines: Lines::with_buffer(stream, size, memory.max(1 << 24)),
                damage: None,
            })))
        })
        .collect()
}

fn merge_some(
    sources: Vec<Any>,
    unique: bool,
    report: &mut Report,
    take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut tournament = Tournament::new(sources);
    let count = drain(&mut tournament, unique, take)?;
    for source in tournament.into_sources() {
        if let Any::File(file) = source {
            report.lines_in += file.lines.number();
            report.damaged.extend(file.damage);
        }
    }
    Ok(count)
}

/// An input, or a run of inputs that were merged earlier.
enum Any {
    File(Box<Checked>),
    Run(RunLines<Run>),
}

impl SortedLines for Any {
    fn line(&self) -> &[u8] {
        match self {
            Any::File(lines) => lines.lines.line(),
            Any::Run(lines) => lines.line(),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        match self {
            Any::File(lines) => lines.advance(),
            Any::Run(lines) => lines.advance(),
        }
    }
}

/// The lines of a file, with a check of their order.
struct Checked {
    lines: Lines<Stream>,
    damage: Option<Error>,
}

impl Checked {
    fn advance(&mut self) -> Result<bool> {
        match self.lines.advance_in_order() {
            Err(error) if error.is_damage() => {
                self.lines.drop_unfinished();
                self.damage = Some(error);
                Ok(false)
            }
            Err(error) => Err(error.in_file(self.lines.reader().name())),
            Ok(advanced) => Ok(advanced),
        }
    }
}
