use std::io::Write;

use anyhow::Context;
use clap::Args;
use waypost_index::kind::{self, FileKind};
use waypost_index::scan;
use waypost_io::Source;

use super::Task;
use super::task::{divided, parse};
use crate::args::{Inputs, size};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::overwrite;
use crate::printer::Printer;

/// Divide inputs into ranges that workers read independently
///
/// Prints one line per range. Plain files can be divided anywhere, gzip files and ZipNum indexes
/// between members; other files are one range. The command follows `--`, without its inputs.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost worker plan small.cdxj --size 64K -- profile -o profiles\n\
    \x20 waypost worker plan small.cdxj -- index check --format json > ranges")]
pub(crate) struct Plan {
    #[command(flatten)]
    inputs: Inputs,
    /// Size of a range, as stored
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    size: u64,
    /// The command, without inputs
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Plan {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        for line in self.lines(out)? {
            writeln!(out.data(), "{line}")?;
        }
        Ok(Exit::Yes)
    }

    /// The ranges, as lines.
    fn lines(&self, out: &Printer) -> anyhow::Result<Vec<String>> {
        let sources = self.inputs.sources(out)?;
        let (mut cli, matches) = parse(&self.command, sources.iter().map(Source::path))?;
        overwrite::check(&matches)?;
        let lists = divided(&mut cli, &self.command)?.reads_lists();
        let mut tasks = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let list = match kind(source)? {
                FileKind::List => lists,
                FileKind::Summary if lists => {
                    return Err(anyhow::anyhow!("{source} is a summary"))
                        .hint("name indexes or lists of URIs; only those are divided");
                }
                _ => false,
            };
            for range in scan::ranges(source.path(), self.size)? {
                tasks.push(Task {
                    number: tasks.len(),
                    ranges: 0,
                    combined: 1,
                    source: number,
                    list,
                    range,
                    command: self.command.clone(),
                    partials: Vec::new(),
                });
            }
        }
        let ranges = tasks.len();
        let lines = tasks
            .into_iter()
            .map(|task| serde_json::to_string(&Task { ranges, ..task }));
        lines
            .collect::<Result<_, _>>()
            .context("a name is not UTF-8")
    }
}

/// The kind of a source, which must be a file.
fn kind(source: &Source) -> anyhow::Result<FileKind> {
    if source.container().is_some() {
        return Err(anyhow::anyhow!("{source} cannot be divided"))
            .hint("unpack the WACZ file, and name the index in it");
    }
    if !source.is_lasting()? {
        return Err(anyhow::anyhow!("{source} cannot be divided")).hint("write it to a file first");
    }
    Ok(kind::detect(source)?.kind)
}
