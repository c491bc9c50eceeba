//! Merging sorted indexes, hundreds at once, in bounded memory and with few open files.
//!
//! Every input is checked while it is read: the first line that is smaller than the one before it
//! ends the merge, for a merge of unsorted input would be silently wrong. When there are more
//! inputs than can be open at once, some are merged into temporary runs before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::input::{self, Stream};
use crate::output::LineWriter;
use crate::search::shown;
use crate::sort::spill::{Run, RunLines, RunWriter, Spill};
use crate::sort::{Options, Report, Source, StreamLines, Tournament, drain};

/// The most files that are open at once: systems allow 256 or 1024 by default.
const OPEN_FILES: usize = 200;

/// What reading one compressed file takes besides the buffer of its lines.
const STREAM: usize = 512 * 1024;

/// A JSON field that is added to every row of CDXJ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    name: String,
    /// `"name": "value"`, as JSON.
    json: String,
    /// `"name"`, as JSON.
    quoted: String,
}

impl Addition {
    /// Reads `name=value`.
    ///
    /// # Errors
    /// When there is no `=` or no name.
    pub fn parse(text: &str) -> Result<Addition> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let quoted = serde_json::Value::from(name).to_string();
                let value = serde_json::Value::from(value);
                Ok(Addition {
                    name: name.to_owned(),
                    json: format!("{quoted}: {value}"),
                    quoted,
                })
            }
            _ => Err(Error::new(ErrorKind::Invalid(format!(
                "`{text}` is not NAME=VALUE"
            )))),
        }
    }

    /// Puts `line` with the field into `out`. The field comes first in the JSON: so lines that were
    /// in order stay in order, which they would not if it came last.
    fn add(&self, line: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if matches!(line.first(), None | Some(b'!' | b' ')) {
            // Headers have no fields.
            out.extend_from_slice(line);
            return Ok(());
        }
        let json = memchr::memchr_iter(b' ', line)
            .nth(1)
            .map(|space| space + 1);
        let Some(json) = json.filter(|&json| line.get(json) == Some(&b'{')) else {
            let message = format!("a field can be added only to CDXJ: {}", shown(line));
            return Err(Error::new(ErrorKind::Invalid(message)));
        };
        let (head, fields) = line.split_at(json + 1);
        if memchr::memmem::find(fields, self.quoted.as_bytes()).is_some() {
            self.check_absent(&line[json..])?;
        }
        out.extend_from_slice(head);
        out.extend_from_slice(self.json.as_bytes());
        if fields.trim_ascii_start().first() != Some(&b'}') {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(fields);
        Ok(())
    }

    fn check_absent(&self, json: &[u8]) -> Result<()> {
        let object: serde_json::Result<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_slice(json);
        match object {
            Ok(object) if !object.contains_key(&self.name) => Ok(()),
            _ => {
                let message = format!("there is a field {} already: {}", self.quoted, shown(json));
                Err(Error::new(ErrorKind::Invalid(message)))
            }
        }
    }
}

/// Merges `sources`, each of which is sorted, into `out`.
///
/// # Errors
/// A source that is not sorted or cannot be read, a disk that is full.
/// Damaged compression is no error: see [`Report::damaged`].
pub fn merge(
    sources: &[input::Source],
    options: &Options<'_>,
    addition: Option<&Addition>,
    out: &mut LineWriter,
) -> Result<Report> {
    let mut report = Report::default();
    let memory = options.memory;
    let most = (memory / 2 / STREAM).clamp(2, OPEN_FILES);
    let mut spill: Option<Arc<Spill>> = None;
    let mut runs: Vec<Run> = Vec::new();
    let mut rest = sources;
    // Each group that is merged into a run takes the place of many files by one run, which takes
    // memory but no file.
    while rest.len() + runs.len() > most {
        let spill = match &spill {
            Some(spill) => spill,
            None => spill.insert(Spill::new(&options.temporary, 128 * 1024)?),
        };
        let group = most.min(rest.len() + runs.len() - most + 1);
        let files = group.min(rest.len());
        let (first, others) = rest.split_at(files);
        rest = others;
        let mut sources = open(first, memory / most / 2, options.progress)?;
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
    let mut sources = open(rest, memory / most / 2, options.progress)?;
    sources.extend(runs.into_iter().map(|run| Any::Run(RunLines::new(run))));
    let mut changed = Vec::new();
    report.lines_out = merge_some(
        sources,
        options.unique,
        &mut report,
        |line| match addition {
            Some(addition) => {
                addition.add(line, &mut changed)?;
                out.push(&changed)
            }
            None => out.push(line),
        },
    )?;
    Ok(report)
}

fn open<'a>(
    sources: &[input::Source],
    memory: usize,
    progress: Option<&'a AtomicU64>,
) -> Result<Vec<Any<'a>>> {
    let size = memory.clamp(64 * 1024, 1 << 20);
    sources
        .iter()
        .map(|source| {
            let lines = StreamLines::new(source.open()?, size, memory.max(1 << 24));
            Ok(Any::File(Box::new(Checked {
                lines,
                damage: None,
                progress,
                told: 0,
            })))
        })
        .collect()
}

fn merge_some(
    sources: Vec<Any<'_>>,
    unique: bool,
    report: &mut Report,
    take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut tournament = Tournament::new(sources);
    let count = drain(&mut tournament, unique, take)?;
    for source in tournament.into_sources() {
        if let Any::File(file) = source {
            report.lines_in += file.lines.lines();
            report.damaged.extend(file.damage);
        }
    }
    Ok(count)
}

/// What is merged: an input, or a run of inputs that were merged before.
enum Any<'a> {
    File(Box<Checked<'a>>),
    Run(RunLines),
}

impl Source for Any<'_> {
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

/// The lines of a file, whose order is checked.
struct Checked<'a> {
    lines: StreamLines<Stream>,
    damage: Option<Error>,
    progress: Option<&'a AtomicU64>,
    /// How many bytes of the source were counted as progress.
    told: u64,
}

impl Checked<'_> {
    fn advance(&mut self) -> Result<bool> {
        if let Some(progress) = self.progress {
            let read = self.lines.reader().source_position();
            if read != self.told {
                progress.fetch_add(read - self.told, Ordering::Relaxed);
                self.told = read;
            }
        }
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
