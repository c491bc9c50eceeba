use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use waypost_index::scan::Pieces;
use waypost_insight::stats::{self, Counting, Estimating, Section, Statistics, memgator};
use waypost_io::Source;
use waypost_summary::evaluate::{Lookups, Shape};
use waypost_summary::holdings::Input;
use waypost_surt::Dialect;

use crate::args::{BadLines, Filters, Inputs, ResourceArgs, default_dialect, dialects};
use crate::cmd::profile::{read_classes, report_rejects};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::html::write_html;
use crate::plural;
use crate::printer::Printer;

/// Options of `waypost stats`.
#[derive(Args)]
pub(crate) struct Report {
    #[command(flatten)]
    inputs: Inputs,
    /// Write a report as one HTML file, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Lookups to compare with: URIs, an access log, or a MemGator log
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    lookups: Option<PathBuf>,
    /// Classes to count: a domain or SURT prefix and the name of its class per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    classes: Option<PathBuf>,
    /// Estimate distinct counts and distributions in little memory and without temporary files; leaves
    /// out the tree of keys and the most captured URI-Rs
    #[arg(long, conflicts_with_all = ["lookups", "classes"])]
    approximate: bool,
    /// The name of the archive, for the report [default: the name of the first input]
    #[arg(long)]
    name: Option<String>,
    /// Number of entries in lists [default: 10 in tables, 100 elsewhere]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Canonicalisation rules [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    bad_lines: BadLines,
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable tables
    Table,
    /// Everything, as described in docs/formats/stats.md
    Json,
    /// All tables, each after a line with its title
    Csv,
    /// The JSON that cdx-summary's web component shows
    CdxSummary,
}

/// How many entries the lists of the JSON and of the page have.
const LISTED: usize = 100;
/// How many the printed tables show.
const SHOWN: usize = 10;

impl Report {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(self.dialect, &sources, out);
        let resources = self.resources.resources(self.html.as_deref())?;
        let classes = match &self.classes {
            Some(path) => Some(read_classes(path)?),
            None => None,
        };
        let lookups = match &self.lookups {
            Some(path) => Some(Lookups::read_within(
                &Source::new(path),
                dialect,
                resources.memory / 4,
            )?),
            None => None,
        };
        let progress = out.progress();
        let name = match &self.name {
            Some(name) => name.clone(),
            None => sources.first().map_or(String::new(), name_of),
        };
        let input = Input {
            dialect,
            select: self.filters.select()?,
            resources,
            strict: self.bad_lines.strict,
            progress: progress.clone(),
            pieces: self.inputs.pieces.clone(),
            ..Input::new(sources)
        };
        let options = stats::Options {
            name,
            top: self.top.unwrap_or(LISTED),
            lookups: lookups.as_ref(),
            classes: classes.as_ref(),
            memory: input.resources.memory,
            approximate: self.approximate,
            progress: progress.clone(),
        };
        let mut rejects = self.bad_lines.file()?;
        let (mut found, reading) = stats::statistics(&input, &options, rejects.as_mut())?;
        if let (Some(path), Some(lookups)) = (&self.lookups, &lookups)
            && lookups.shape() == Shape::MemGator
        {
            found.memgator = memgator::read(&Source::new(path))?;
        }
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        self.filters.takedowns.report(out);
        let whole = report_rejects(&reading, out);
        if reading.sorted {
            out.note("the input was not sorted; sorted it first");
        }
        if found.totals.captures == 0 {
            out.warn(
                "nothing was counted: is this an index or a list of URIs, and do any captures pass the filters?",
            );
        }
        match self.format {
            Format::Table => print(&found, self.top.unwrap_or(SHOWN), out)?,
            Format::Json => writeln!(out.data(), "{}", serde_json::to_string_pretty(&found)?)?,
            Format::CdxSummary => {
                writeln!(
                    out.data(),
                    "{}",
                    serde_json::to_string_pretty(&found.cdx_summary)?
                )?;
            }
            Format::Csv => {
                for titled in stats::tables(&found, options.top) {
                    writeln!(out.data(), "# {}\n{}", titled.title, titled.table.csv())?;
                }
            }
        }
        if let Some(path) = &self.html {
            write_html(path, &stats::html(&found))?;
            out.note(format_args!("wrote {}", path.display()));
        }
        Ok(if whole && found.totals.captures > 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

impl Divide for Report {
    fn merge(&mut self, pieces: Pieces) {
        self.inputs.pieces = Some(pieces);
    }

    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>> {
        let dialect = self.dialect.unwrap_or_default();
        let resources = self.resources.limits(None)?;
        let mut select = self.filters.select()?;
        select.dialect(dialect);
        if self.approximate {
            let job = Estimating::new(dialect, &resources);
            return task.read(&job, select, &self.bad_lines);
        }
        task.read(&Counting::new(dialect, &resources), select, &self.bad_lines)
    }
}

/// The name of an input without its folder.
fn name_of(source: &Source) -> String {
    let source = source.container().unwrap_or(source);
    match source.path().file_name() {
        Some(name) if !source.is_stdin() => name.to_string_lossy().into_owned(),
        _ => String::new(),
    }
}

fn print(found: &Statistics, top: usize, out: &mut Printer) -> anyhow::Result<()> {
    for titled in stats::tables(found, top) {
        // Evidence is too long for a table in a terminal.
        if titled.section == Section::Defects {
            writeln!(
                out.data(),
                "{}",
                plural::of(found.defects.len() as u64, "likely defect")
            )?;
            for defect in &found.defects {
                writeln!(
                    out.data(),
                    "{}: {}\n  {}",
                    defect.title,
                    defect.evidence,
                    defect.advice
                )?;
            }
            writeln!(out.data())?;
        } else {
            writeln!(out.data(), "{}\n{}", titled.title, titled.table)?;
        }
    }
    Ok(())
}
