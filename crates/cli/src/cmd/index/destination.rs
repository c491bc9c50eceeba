//! Options and reports that `sort`, `merge` and `zipnum` share.

use std::path::{Path, PathBuf};

use clap::Args;
use waypost_index::zipnum::{self, Flavour};
use waypost_io::sort::{Options, Report};
use waypost_io::{Format, LineWriter, Progress, Resources, Written};
use waypost_report::bytes;

use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Sort options for these resources.
pub(crate) fn options(resources: Resources, unique: bool, progress: &Progress) -> Options {
    Options {
        resources,
        unique,
        progress: progress.clone(),
    }
}

/// Where sorted lines go.
#[derive(Args)]
pub(crate) struct Destination {
    /// The file to write, gzipped if its name ends with .gz [default: standard output]
    #[arg(short, long, value_name = "FILE", conflicts_with = "zipnum")]
    output: Option<PathBuf>,
    /// Write a ZipNum index to this new folder instead, like `waypost index zipnum`
    #[arg(long, value_name = "FOLDER")]
    zipnum: Option<PathBuf>,
    #[command(flatten)]
    shape: Shape,
}

/// The shape of a ZipNum index.
#[derive(Args)]
pub(crate) struct Shape {
    /// Lines per block [default: 3000, or 300 with --wacz]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    lines: Option<u64>,
    /// Number of data files of a ZipNum index
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    shards: u64,
    /// Compression level, from 1 (fastest) to 12 (smallest)
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=12))]
    level: u8,
    /// Name the files index.idx and index.cdx.gz, as in WACZ, not cluster.idx and cdx-00000.gz
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

    /// The output, if it is a file or folder.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.zipnum.as_deref().or(self.output.as_deref())
    }

    /// The name of what was written, to report it.
    pub(crate) fn name(&self) -> Option<String> {
        let path = self.path()?;
        (path.as_os_str() != "-").then(|| path.display().to_string())
    }
}

pub(crate) fn create_zipnum(
    folder: &Path,
    shape: &Shape,
    threads: usize,
) -> anyhow::Result<LineWriter> {
    let taken = folder.exists();
    let options = shape.options();
    let created = zipnum::create(folder, &options, threads);
    if options.flavour == Flavour::Wacz && options.shards > 1 {
        return created.hint("omit --shards");
    }
    if taken {
        return created.hint("name a folder that does not exist yet");
    }
    Ok(created?)
}

/// Reports what was written. Damaged inputs give `Exit::No`, because some of the input is missing.
pub(crate) fn report_written(
    out: &Printer,
    name: Option<String>,
    report: &Report,
    written: &Written,
) -> Exit {
    let damaged = report.damaged.iter();
    out.warn_some(
        damaged.map(|error| format!("{error}; the complete lines before it are in the output")),
    );
    if let Some(name) = name {
        let mut message = format!("wrote {} to {name}", plural::of(written.lines, "line"));
        if written.blocks > 0 {
            message += &format!(
                " ({}, {}, {})",
                plural::of(written.blocks, "block"),
                plural::of(written.shards, "shard"),
                bytes(written.bytes_out)
            );
        } else if written.bytes_out != written.bytes_in {
            message += &format!(" ({})", bytes(written.bytes_out));
        }
        if report.lines_out < report.lines_in {
            message += &format!(
                "; removed {}",
                plural::of(report.lines_in - report.lines_out, "duplicate line")
            );
        }
        if report.runs > 0 {
            message += &format!(
                "; spilled {} ({})",
                plural::of(report.runs as u64, "run"),
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
