use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use waypost_io::Source;
use waypost_parquet::Options;
use waypost_report::bytes;
use waypost_surt::Dialect;

use crate::args::{BadLines, Filters, Format, Inputs, ResourceArgs, default_dialect, dialects};
use crate::cmd::profile::report_bad_lines;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Write an index as Parquet, in the schema of Common Crawl's columnar index
///
/// The files are sorted by url_surtkey, in folders crawl=…/subset=…, which the names of Common
/// Crawl's WARC files tell. Athena, DuckDB, Polars, pyarrow and Spark read them, and so do other
/// commands of this build. An index that is not sorted is sorted first, in temporary files.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index parquet sorted.cdxj -o table\n\
    \x20 waypost index parquet sorted.cdxj --crawl 2020 --status 200 --wide -o pages\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was written.")]
pub(crate) struct Parquet {
    #[command(flatten)]
    inputs: Inputs,
    /// The folder to write, which must not exist yet
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// The crawl of captures whose file name does not tell it [default: the name of the first input]
    #[arg(long, value_name = "NAME")]
    crawl: Option<String>,
    /// Write offsets and lengths with 64 bits, for WARC files of more than 2 GiB
    #[arg(long)]
    wide: bool,
    /// Rows of a row group
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Canonicalisation rules for keys that are not SURTs [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    bad_lines: BadLines,
}

impl Parquet {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(None)?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let options = Options {
            select: self.filters.select()?,
            dialect: default_dialect(self.dialect, &sources, out),
            crawl: self.crawl.unwrap_or_else(|| name_of(sources.first())),
            wide: self.wide,
            rows: usize::try_from(self.rows).ok(),
            resources,
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            progress: progress.clone(),
        };
        let written = waypost_parquet::write(&sources, options, &self.output);
        drop(progress);
        let report = match written {
            Err(error) if error.kind().to_string().contains("31 bits") => {
                Err(error).hint("write 64-bit columns with --wide")?
            }
            written => written?,
        };
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        if report.sorted {
            out.note("the input is not sorted by SURT; sorted it first");
        }
        self.filters.takedowns.report(out);
        report_bad_lines(&report.outcome.rejects, out);
        let damage = report.outcome.damage.iter();
        out.warn_some(damage.map(|error| format!("{error}; everything before it was written")));
        match self.format {
            Format::Table => out.note(format_args!(
                "wrote {} to {} in {} ({})",
                plural::of(report.rows, "capture"),
                plural::of(report.files, "file"),
                self.output.display(),
                bytes(report.bytes)
            )),
            Format::Json => writeln!(
                out.data(),
                "{:#}",
                json!({
                    "output": self.output.display().to_string(),
                    "rows": report.rows,
                    "sorted_first": report.sorted,
                    "files": report.files,
                    "bytes": report.bytes,
                    "bad_lines": report.outcome.rejects.total(),
                })
            )?,
        }
        Ok(if report.outcome.damage.is_empty() {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

/// The name of an input without its extensions.
fn name_of(source: Option<&Source>) -> String {
    let name = source.and_then(|source| source.path().file_name());
    let name = name.unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}
