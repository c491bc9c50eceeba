use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use waypost_io::Resources;
use waypost_report::{bytes, count};
use waypost_summary::map;

use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Write the lookup table of a map next to it
///
/// Without a table, opening a map parses all of its rows. With MAP.wmap next to it, opening only
/// verifies that the two are intact and belong together. Lookups never write a file.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost map index small.ukvs")]
pub(crate) struct Index {
    /// The map, uncompressed and sorted
    map: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Index {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        check(&self.map, true)?;
        let room = self.resources.resources(Some(&self.map))?;
        match self.format {
            Format::Table => write(&self.map, &room, out)?,
            Format::Json => {
                let report = make(&self.map, &room)?;
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

/// Writes the table of a map that a command has just written, if requested. An existing table no
/// longer belongs to the map and is rewritten.
pub(super) fn write_beside(
    path: &Path,
    asked: bool,
    room: &Resources,
    out: &Printer,
) -> anyhow::Result<()> {
    if asked || map::is_indexed(path) {
        write(path, room, out)?;
    }
    Ok(())
}

/// Refuses early a path that cannot have a table.
pub(super) fn check(path: &Path, asked: bool) -> anyhow::Result<()> {
    let compressed = path.extension().is_some_and(|end| end == "gz");
    if asked && (compressed || path.as_os_str() == "-") {
        return Err(anyhow::anyhow!(
            "{}: only an uncompressed file can have a lookup table",
            path.display()
        ))
        .hint("name a file that does not end with .gz");
    }
    Ok(())
}

fn make(path: &Path, room: &Resources) -> anyhow::Result<map::TableReport> {
    map::index(path, room).context("cannot write the table")
}

fn write(path: &Path, room: &Resources, out: &Printer) -> anyhow::Result<()> {
    let report = make(path, room)?;
    out.note(format_args!(
        "wrote the table of {} rows ({}) to {}",
        count(report.rows),
        bytes(report.bytes),
        report.path.display()
    ));
    Ok(())
}
