use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use waypost_index::scan::Pieces;
use waypost_io::Source;
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::holdings::{Gather, Input};
use waypost_summary::profile::{self, Options, Report};
use waypost_surt::Dialect;

use super::options::{AboutOptions, ByArgument, DateOption, classes, policies, report_rejects};
use crate::args::{BadLines, Filters, Format, Inputs, ResourceArgs, default_dialect, dialects};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::overwrite;
use crate::plural;
use crate::printer::Printer;

/// Options of `waypost profile`.
#[derive(Args)]
pub(crate) struct Build {
    #[command(flatten)]
    inputs: Inputs,
    /// The folder to write to; created if missing
    #[arg(
        short,
        long,
        value_name = "FOLDER",
        required_unless_present = "dry_run"
    )]
    output: Option<PathBuf>,
    /// Count without writing any files
    #[arg(long)]
    dry_run: bool,
    /// Policies, separated by commas (H3P0,HxP1,DDom) [default: all 23]
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// Also count by this
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<ByArgument>,
    /// Classes for --by class: a domain or SURT prefix and a name per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    classes: Option<PathBuf>,
    /// Count each input as a separate source, not all of them as one
    #[arg(long)]
    sources: bool,
    /// Compress the profiles with gzip
    #[arg(long)]
    gzip: bool,
    /// Canonicalisation rules [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    #[command(flatten)]
    date: DateOption,
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
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(self.dialect, &sources, out);
        let output = self.output.as_deref().filter(|_| !self.dry_run);
        let resources = self.resources.resources(output)?;
        let select = self.filters.of_summary()?;
        let archive = self.about.archive()?;
        let name = file_name(archive.id.first(), &sources)?;
        let progress = out.progress();
        let input = Input {
            sources,
            dialect,
            select,
            by: self.by.map(Into::into),
            classes: classes(self.by, self.classes.as_deref())?,
            each_a_source: self.sources,
            resources,
            strict: self.bad_lines.strict,
            progress: progress.clone(),
            pieces: self.inputs.pieces.clone(),
            ..Input::new(Vec::new())
        };
        let options = Options {
            policies: policies(self.policy.as_deref())?,
            archive,
            date: self.date.time()?,
            folder: self.output.filter(|_| !self.dry_run),
            name,
            gzip: self.gzip,
        };
        let outputs = profile::output_paths(&input, &options);
        overwrite::check_folder(outputs, &input.sources, self.bad_lines.path())?;
        let mut rejects = self.bad_lines.file()?;
        let report = profile::build(&input, &options, rejects.as_mut())?;
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        self.filters.takedowns.report(out);
        let whole = report_rejects(&report.reading, out);
        if report.reading.sorted {
            out.note("the input was not sorted; sorted it first");
        }
        if report.reading.captures == 0 {
            out.warn(
                "nothing was counted: is this an index or a list of URIs, and do any captures pass the filters?",
            );
        }
        match self.format {
            Format::Table => write!(out.data(), "{}", text(&report))?,
            Format::Json => writeln!(out.data(), "{:#}", object(&report))?,
        }
        if let Some(folder) = &options.folder {
            out.note(format_args!(
                "wrote {} to {}",
                plural::of(report.profiles.len() as u64, "profile"),
                folder.display()
            ));
        }
        Ok(if whole && report.reading.captures > 0 {
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
        let job = job.of_source(if self.sources { task.source } else { 0 });
        let mut select = self.filters.of_summary()?;
        select.dialect(dialect);
        task.read(&job, select, &self.bad_lines)
    }
}

/// The base name of the files: the archive's id, else the name of the first input.
fn file_name(id: Option<&str>, sources: &[Source]) -> anyhow::Result<String> {
    if let Some(id) = id {
        if id.is_empty() || id.starts_with('.') || id.contains(['/', '\0']) {
            return Err(anyhow::anyhow!(
                "the id `{id}` cannot be used in a file name"
            ))
            .hint("use letters, digits and dashes");
        }
        return Ok(id.to_owned());
    }
    let Some(source) = sources.first().filter(|source| !source.is_stdin()) else {
        return Ok("profile".to_owned());
    };
    let name = source
        .container()
        .unwrap_or(source)
        .path()
        .file_name()
        .context("an input without a name")?
        .to_string_lossy();
    let mut stem = &name[..];
    for end in [
        ".gz", ".zst", ".bz2", ".cdxj", ".cdx", ".wacz", ".txt", ".uris", ".lst", ".json",
    ] {
        stem = stem
            .strip_suffix(end)
            .filter(|stem| !stem.is_empty())
            .unwrap_or(stem);
    }
    Ok(stem.to_owned())
}

/// The measures of the paper: α bytes per line, γ captures per URI-R, τ seconds per capture.
fn measures(report: &Report) -> (f64, f64, f64) {
    let reading = &report.reading;
    let ratio = |a: f64, b: u64| if b > 0 { a / b as f64 } else { 0.0 };
    (
        ratio(reading.bytes as f64, reading.lines),
        ratio(reading.captures as f64, reading.urirs),
        ratio(report.time.as_secs_f64(), reading.captures),
    )
}

fn cost(report: &Report, keys: u64) -> f64 {
    keys as f64 / report.reading.urirs.max(1) as f64
}

fn text(report: &Report) -> String {
    let reading = &report.reading;
    let (alpha, gamma, tau) = measures(report);
    let mut about = Table::new(&[("read", Align::Left), ("", Align::Left)]);
    let layouts: Vec<String> = reading
        .contents
        .iter()
        .take(3)
        .map(|(name, content)| format!("{name} ({})", content_name(content)))
        .collect();
    let more = reading.contents.len().saturating_sub(3);
    let more = if more > 0 {
        format!(" and {} more", count(more as u64))
    } else {
        String::new()
    };
    about.row(["inputs".to_owned(), layouts.join(", ") + &more]);
    about.row(["lines", &count(reading.lines)]);
    about.row(["captures", &count(reading.captures)]);
    about.row(["URI-Rs", &count(reading.urirs)]);
    about.row(["α, bytes per line", &format!("{alpha:.1}")]);
    about.row(["γ, captures per URI-R", &format!("{gamma:.3}")]);
    about.row(["τ, per capture", &format!("{:.3} µs", tau * 1e6)]);
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("keys", Align::Right),
        ("Relative Cost", Align::Right),
        ("bytes", Align::Right),
        ("gzipped", Align::Right),
    ]);
    for profile in &report.profiles {
        let size = &profile.size;
        table.row([
            profile.policy.to_string(),
            count(size.keys),
            format!("{:.6}", cost(report, size.keys)),
            bytes(size.bytes),
            size.gzip_bytes.map_or("-".to_owned(), |gzipped| {
                let about = if size.gzip_exact { "" } else { "~" };
                format!("{about}{}", bytes(gzipped))
            }),
        ]);
    }
    format!("{about}\n{table}")
}

fn content_name(content: &waypost_summary::holdings::Content) -> String {
    use waypost_summary::holdings::Content;
    match content {
        Content::Index(layout) => layout.clone(),
        Content::List => "list of URIs".to_owned(),
        Content::Summary => "summary".to_owned(),
        Content::Empty => "empty".to_owned(),
    }
}

fn object(report: &Report) -> Value {
    let reading = &report.reading;
    let (alpha, gamma, tau) = measures(report);
    let profiles: Vec<Value> = report
        .profiles
        .iter()
        .map(|profile| {
            json!({
                "policy": profile.policy.to_string(),
                "file": profile.path.as_ref().map(|path| path.display().to_string()),
                "keys": profile.size.keys,
                "relative_cost": cost(report, profile.size.keys),
                "bytes": profile.size.bytes,
                "gzip_bytes": profile.size.gzip_bytes,
                "gzip_bytes_exact": profile.size.gzip_exact,
            })
        })
        .collect();
    json!({
        "lines": reading.lines,
        "bytes": reading.bytes,
        "captures": reading.captures,
        "urirs": reading.urirs,
        "bytes_per_line": alpha,
        "captures_per_urir": gamma,
        "seconds_per_capture": tau,
        "sorted_on_the_way": reading.sorted,
        "profiles": profiles,
    })
}
