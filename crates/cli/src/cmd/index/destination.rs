//! What sorting, merging and zipping share: how much memory, where to, and what to say in the end.

use std::path::PathBuf;

use clap::Args;
use waypost_index::Source;
use waypost_index::output::{Format, LineWriter, Written};
use waypost_index::sort::{Options, Report};
use waypost_index::zipnum::{self, Flavour};
use waypost_report::{bytes, count};

use crate::args::Memory;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;
use crate::progress::Progress;

/// How much of the machine to use.
#[derive(Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    memory: Memory,
    /// Threads to use; as many as there are cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// The folder for temporary files; the system's if not given
    #[arg(long, value_name = "FOLDER")]
    temporary: Option<PathBuf>,
}

impl Resources {
    pub(crate) fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or(cores, usize::from)
    }

    pub(crate) fn options<'a>(&self, unique: bool, progress: &'a Progress) -> Options<'a> {
        Options {
            memory: self.memory.memory,
            threads: self.threads(),
            unique,
            temporary: self.temporary.clone().unwrap_or_else(std::env::temp_dir),
            progress: Some(progress.bytes()),
        }
    }
}

/// A bar for reading all of `sources`.
pub(crate) fn progress(out: &Printer, what: &'static str, sources: &[Source]) -> Progress {
    out.progress(what, sources.iter().map(Source::size).sum())
}

/// Where sorted lines go.
#[derive(Args)]
pub(crate) struct Destination {
    /// The file to write, gzipped if its name ends with .gz; standard output if not given
    #[arg(short, long, value_name = "FILE", conflicts_with = "zipnum")]
    output: Option<PathBuf>,
    /// Write a ZipNum index into this new folder instead, as `waypost index zipnum` does
    #[arg(long, value_name = "FOLDER")]
    zipnum: Option<PathBuf>,
    #[command(flatten)]
    shape: Shape,
}

/// The shape of a ZipNum index.
#[derive(Args)]
pub(crate) struct Shape {
    /// Lines in a block; 3000 if not given, 300 for WACZ
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    lines: Option<u64>,
    /// Data files of a ZipNum index
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    shards: u64,
    /// How hard to compress: 1 is fast, 12 is small
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=12))]
    level: u8,
    /// Write index.idx and index.cdx.gz, as in WACZ files, instead of cluster.idx and cdx-00000.gz
    #[arg(long)]
    wacz: bool,
}

impl Shape {
    pub(crate) fn options(&self) -> zipnum::Options {
        zipnum::Options {
            lines: self.lines.unwrap_or(if self.wacz { 300 } else { 3000 }),
            shards: self.shards,
            level: self.level,
            flavour: if self.wacz {
                Flavour::Wacz
            } else {
                Flavour::Cluster
            },
        }
    }
}

impl Destination {
    pub(crate) fn create(&self, threads: usize) -> anyhow::Result<LineWriter> {
        if let Some(folder) = &self.zipnum {
            return create_zipnum(folder, &self.shape, threads);
        }
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from("-"));
        let format = match Format::of_name(&path) {
            Format::Gzip { .. } => Format::Gzip {
                level: self.shape.level,
            },
            other => other,
        };
        Ok(LineWriter::create(&path, &format, threads)?)
    }

    /// What was written, to be told.
    pub(crate) fn name(&self) -> Option<String> {
        let path = self.zipnum.as_ref().or(self.output.as_ref())?;
        (path.as_os_str() != "-").then(|| path.display().to_string())
    }
}

pub(crate) fn create_zipnum(
    folder: &std::path::Path,
    shape: &Shape,
    threads: usize,
) -> anyhow::Result<LineWriter> {
    let taken = folder.exists();
    let created = zipnum::create(folder, &shape.options(), threads);
    if taken && created.is_err() {
        return created.hint("name a folder that does not exist yet");
    }
    Ok(created?)
}

/// Says what was done. Damaged inputs make it a `no`: the output is there, but not all of the input.
pub(crate) fn tell(
    out: &Printer,
    name: Option<String>,
    report: &Report,
    written: &Written,
) -> Exit {
    for error in &report.damaged {
        out.warn(format_args!(
            "{error}; the whole lines before it are in the output"
        ));
    }
    if let Some(name) = name {
        let mut message = format!("wrote {} lines to {name}", count(written.lines));
        if written.blocks > 0 {
            message += &format!(
                " ({} blocks, {} shards, {})",
                count(written.blocks),
                count(written.shards),
                bytes(written.bytes_out)
            );
        } else if written.bytes_out != written.bytes_in {
            message += &format!(" ({})", bytes(written.bytes_out));
        }
        if report.lines_out < report.lines_in {
            message += &format!(
                "; {} lines were there more than once",
                count(report.lines_in - report.lines_out)
            );
        }
        if report.runs > 0 {
            message += &format!(
                "; {} runs of {} did not fit in memory",
                count(report.runs as u64),
                bytes(report.spilled)
            );
        }
        out.note(message);
    }
    if report.damaged.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    }
}
