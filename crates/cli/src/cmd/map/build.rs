use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use waypost_index::scan::Pieces;
use waypost_report::bytes;
use waypost_summary::holdings::{Gather, Input};
use waypost_summary::map;
use waypost_surt::Dialect;

use crate::args::{
    BadLines, Filters, Format, Inputs, ResourceArgs, default_dialect, dialects,
    refuse_json_on_stdout,
};
use crate::cmd::profile::{AboutOptions, ByArgument, classes, report_rejects};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Build a map of what an archive holds, with one exact key per path
///
/// Inputs are indexes, lists of URIs or HxPx profiles, in any order. Keys have no query, and
/// frequencies are captures/URI-Rs.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map build small.cdxj -o full.ukvs\n\
    \x20 waypost map build --status 200 --mime text/html --by year small.cdxj \\\n\
    \x20   -o pages.ukvs\n\
    \n\
    Exit code 1: an input was damaged, or nothing was counted.")]
pub(crate) struct Build {
    #[command(flatten)]
    inputs: Inputs,
    /// The map to write, gzipped if its name ends with .gz; `-` is standard output
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// Also count by this
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<ByArgument>,
    /// Classes for --by class: a domain or SURT prefix and a name per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    classes: Option<PathBuf>,
    /// Canonicalisation rules [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Also write the lookup table: see `waypost map index`
    #[arg(long)]
    table: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    about: AboutOptions,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    bad_lines: BadLines,
}

impl Build {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        super::index::check(&self.output, self.table)?;
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(self.dialect, &sources, out);
        refuse_json_on_stdout(self.format, &self.output)?;
        let resources = self.resources.resources(Some(&self.output))?;
        let progress = out.progress();
        let input = Input {
            dialect,
            select: self.filters.of_summary()?,
            by: self.by.map(Into::into),
            classes: classes(self.by, self.classes.as_deref())?,
            resources,
            strict: self.bad_lines.strict,
            progress: progress.clone(),
            pieces: self.inputs.pieces.clone(),
            ..Input::new(sources)
        };
        let mut rejects = self.bad_lines.file()?;
        let built = map::build(
            &input,
            &self.about.archive()?,
            rejects.as_mut(),
            &self.output,
        )?;
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        self.filters.takedowns.report(out);
        let whole = report_rejects(&built.reading, out);
        if built.rows == 0 {
            out.warn(
                "nothing was counted: is this an index or a list of URIs, and do any captures pass the filters?",
            );
        }
        match self.format {
            Format::Table => out.note(format_args!(
                "wrote {} ({}) of {} and {} to {}",
                plural::of(built.rows, "key"),
                bytes(built.bytes),
                plural::of(built.reading.captures, "capture"),
                plural::of(built.reading.urirs, "URI-R"),
                self.output.display()
            )),
            Format::Json => {
                let bad: u64 = built
                    .reading
                    .rejected
                    .iter()
                    .map(|rejects| rejects.total())
                    .sum();
                let object = json!({
                    "map": self.output.display().to_string(),
                    "keys": built.rows,
                    "bytes": built.bytes,
                    "captures": built.reading.captures,
                    "urirs": built.reading.urirs,
                    "bad_lines": bad + built.reading.bad_uris.count,
                    "damage": built.reading.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
                });
                writeln!(out.data(), "{object:#}")?;
            }
        }
        super::index::write_beside(&self.output, self.table, &input.resources, out)?;
        Ok(if whole && built.rows > 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

impl Divide for Build {
    fn merge(&mut self, pieces: Pieces) {
        self.inputs.pieces = Some(pieces);
    }

    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>> {
        let dialect = self.dialect.unwrap_or_default();
        let by = self.by.map(Into::into);
        let job = Gather::new(dialect, by, &self.resources.limits(None)?)
            .with_classes(classes(self.by, self.classes.as_deref())?);
        let mut select = self.filters.of_summary()?;
        select.dialect(dialect);
        task.read(&job, select, &self.bad_lines)
    }
}
