use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use waypost_report::{bytes, count};
use waypost_summary::map;

use crate::args::Format;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Write the lookup table of a map beside it
///
/// Without a table, opening a map reads all of its rows. With MAP.wmap beside it, opening only makes sure
/// that both are whole and belong together. Looking something up never writes a file.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost map index small.ukvs")]
pub(crate) struct Index {
    /// The map: plain, and in order
    map: PathBuf,
    /// How to report what was written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Index {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        match self.format {
            Format::Table => write(&self.map, out)?,
            Format::Json => {
                let report = make(&self.map)?;
                let report = serde_json::json!({
                    "table": report.path.to_string_lossy(),
                    "rows": report.rows,
                    "bytes": report.bytes,
                });
                writeln!(out.data(), "{report:#}")?;
            }
        }
        Ok(Exit::Yes)
    }
}

/// Writes the table of a map that a command has just written, if it is asked for. A table that is there
/// already would no longer belong to the map, and is made again.
pub(super) fn write_beside(path: &Path, asked: bool, out: &Printer) -> anyhow::Result<()> {
    if asked || map::is_indexed(path) {
        write(path, out)?;
    }
    Ok(())
}

/// Refuses, before anything is done, a table of what cannot have one.
pub(super) fn check(path: &Path, asked: bool) -> anyhow::Result<()> {
    let compressed = path.extension().is_some_and(|end| end == "gz");
    if asked && (compressed || path.as_os_str() == "-") {
        return Err(anyhow::anyhow!(
            "--table: only a plain file can have a table beside it"
        ))
        .hint("name an output that does not end with .gz");
    }
    Ok(())
}

fn make(path: &Path) -> anyhow::Result<map::TableReport> {
    map::index(path).context("cannot make the table")
}

fn write(path: &Path, out: &Printer) -> anyhow::Result<()> {
    let report = make(path)?;
    out.note(format_args!(
        "wrote the table of {} rows ({}) to {}",
        count(report.rows),
        bytes(report.bytes),
        report.path.display()
    ));
    Ok(())
}
