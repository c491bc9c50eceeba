//! Groups of options that many commands share: inputs, filters of captures, bad lines, resources.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use waypost_index::rejects::RejectsFile;
use waypost_index::scan::Pieces;
use waypost_index::select::{Revisits, Select};
use waypost_index::{input, wacz};
pub(crate) use waypost_io::quantity::{number, size};
use waypost_io::{Resources, Source};
use waypost_summary::Scope;
use waypost_surt::Dialect;

use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::TakedownArgs;
use crate::time;

/// Which indexes to read.
#[derive(Args)]
pub(crate) struct Inputs {
    /// Indexes: files, folders, URLs (http, https, s3, webhdfs), or `-` for standard input; plain, gz, zst, bz2 or WACZ
    #[arg(required = true, value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    inputs: Vec<PathBuf>,
    /// What other machines have read of them, if they are not to be read here.
    #[arg(skip)]
    pub(crate) pieces: Option<Pieces>,
}

impl Inputs {
    /// The paths as given.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Expands folders to the index files in them, and reports the files that are skipped.
    pub(crate) fn sources(&self, out: &Printer) -> anyhow::Result<Vec<Source>> {
        let expanded = input::expand(&self.inputs)?;
        match &expanded.skipped[..] {
            [] => {}
            [one] => out.note(format_args!(
                "skipping {}: not an index file",
                one.display()
            )),
            [first, rest @ ..] => out.note(format_args!(
                "skipping {} and {}: not index files",
                first.display(),
                plural::of(rest.len() as u64, "other file")
            )),
        }
        Ok(expanded.sources)
    }
}

/// What lookups are for.
#[derive(Args)]
pub(crate) struct Purpose {
    /// Look up only pages: HTML with status 200. Summaries of pages can call them absent
    #[arg(long = "for", value_enum)]
    purpose: Option<Preset>,
}

impl Purpose {
    pub(crate) fn is_pages(&self) -> bool {
        self.purpose == Some(Preset::Pages)
    }

    /// The captures to look up.
    pub(crate) fn wanted(&self) -> Scope {
        Scope::of(&self.restrict(Select::new()))
    }

    /// Restricts holdings to these captures.
    pub(crate) fn restrict(&self, mut select: Select) -> Select {
        if self.is_pages() {
            select.html();
        }
        select
    }
}

/// Capture filters.
#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// A predefined set of filters
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Only captures with these statuses: 200,3xx
    #[arg(long, value_name = "LIST")]
    status: Option<String>,
    /// Only captures of these media types: text/html,image/*
    #[arg(long, value_name = "LIST")]
    mime: Option<String>,
    /// Only captures at this time or later: 2004, 20040131, 2004-01-31
    #[arg(long, value_name = "TIME", value_parser = time::digits)]
    from: Option<String>,
    /// Only captures at this time or earlier; 2004 is the end of 2004
    #[arg(long, value_name = "TIME", value_parser = time::digits)]
    to: Option<String>,
    /// Only captures whose key starts with com,example) or com,example, or whose URL matches ~REGEX.
    /// May be repeated; a capture must match one of them
    #[arg(long, value_name = "SURT|~REGEX")]
    include: Vec<String>,
    /// Skip captures whose key starts with this, or whose URL matches ~REGEX. May be repeated;
    /// summaries record it, and lookups there are unknown
    #[arg(long, value_name = "SURT|~REGEX")]
    exclude: Vec<String>,
    /// Include rows that are not captures of the Web (dns:, warcinfo, screenshots, …)
    #[arg(long)]
    include_non_web: bool,
    /// What to do with revisits
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = RevisitsArgument::Keep)]
    revisits: RevisitsArgument,
    #[command(flatten)]
    pub(crate) takedowns: TakedownArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// HTML with status 200, without robots.txt and sitemap.xml
    Pages,
}

#[derive(Clone, Copy, ValueEnum)]
enum RevisitsArgument {
    /// Count them as captures
    Keep,
    /// Skip them
    Drop,
    /// Give them the status and media type of the capture that they repeat
    Resolve,
}

impl Filters {
    /// The filters of a summary, which keeps revisits that may repeat what is selected.
    pub(crate) fn of_summary(&self) -> anyhow::Result<Select> {
        let mut select = self.select()?;
        select.keep_unresolved(true);
        Ok(select)
    }

    pub(crate) fn select(&self) -> anyhow::Result<Select> {
        let mut select = Select::new();
        match self.preset {
            Some(Preset::Pages) => drop(select.pages()?),
            None => {}
        }
        if let Some(list) = &self.status {
            select.status(list).context("--status")?;
        }
        if let Some(list) = &self.mime {
            select.mime(list).context("--mime")?;
        }
        if let Some(digits) = &self.from {
            select.from(digits).context("--from")?;
        }
        if let Some(digits) = &self.to {
            select.to(digits).context("--to")?;
        }
        let from = self.from.as_deref().map(time::first_of);
        let to = self.to.as_deref().map(time::last_of);
        time::check_span(from.and_then(Result::ok), to.and_then(Result::ok))?;
        for pattern in &self.include {
            select.include(pattern).context("--include")?;
        }
        for pattern in &self.exclude {
            select.exclude(pattern).context("--exclude")?;
        }
        select
            .takedowns(self.takedowns.list()?)
            .include_non_web(self.include_non_web)
            .revisits(match self.revisits {
                RevisitsArgument::Keep => Revisits::Keep,
                RevisitsArgument::Drop => Revisits::Drop,
                RevisitsArgument::Resolve => Revisits::Resolve,
            });
        Ok(select)
    }
}

/// What to do with bad lines.
#[derive(Args)]
#[command(next_help_heading = "Bad lines")]
pub(crate) struct BadLines {
    /// Stop at the first bad line or damaged file
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write the bad lines to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    rejects: Option<PathBuf>,
}

impl BadLines {
    /// What `--rejects` names.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.rejects.as_deref()
    }

    /// The file for bad lines, if `--rejects` was given.
    pub(crate) fn file(&self) -> anyhow::Result<Option<RejectsFile>> {
        Ok(match &self.rejects {
            Some(path) => Some(RejectsFile::create(path)?),
            None => None,
        })
    }
}

/// Limits on memory, temporary files and threads; the same options for every command.
#[derive(Args)]
#[command(next_help_heading = "Resources")]
pub(crate) struct ResourceArgs {
    /// Memory to use, at least 64M; what exceeds it goes to temporary files
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    pub(crate) memory: usize,
    /// Folder for temporary files [default: the folder of the output, else the system's]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    temporary: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// The number of threads alone, for commands that need little memory and no temporary files.
#[derive(Args)]
#[command(next_help_heading = "Resources")]
pub(crate) struct ThreadArgs {
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl ThreadArgs {
    /// Sets the number of threads that the libraries use, and returns it. Call this once, before any
    /// work starts.
    pub(crate) fn start(&self) -> anyhow::Result<usize> {
        if let Some(threads) = self.threads {
            rayon::ThreadPoolBuilder::new()
                .num_threads(usize::from(threads))
                .build_global()
                .context("--threads")?;
        }
        Ok(rayon::current_num_threads())
    }
}

impl ResourceArgs {
    /// The limits given on the command line. Temporary files go next to `output` by default, where
    /// there is space for it. Call this once, before any work starts: it also sets the number of
    /// threads that the libraries use.
    pub(crate) fn resources(&self, output: Option<&Path>) -> anyhow::Result<Resources> {
        Ok(Resources {
            threads: self.threads.start()?,
            ..self.limits(output)?
        })
    }

    /// The same without starting threads, for work on one thread that may be done repeatedly.
    pub(crate) fn limits(&self, output: Option<&Path>) -> anyhow::Result<Resources> {
        let temporary = match &self.temporary {
            Some(folder) if !folder.is_dir() => {
                return Err(anyhow::anyhow!(
                    "--temporary: {} is not a folder",
                    folder.display()
                ))
                .hint("name a folder that exists and that you may write to");
            }
            Some(folder) => folder.clone(),
            None => folder_of(output).unwrap_or_else(std::env::temp_dir),
        };
        Ok(Resources {
            memory: self.memory,
            temporary,
            threads: 1,
        })
    }
}

/// The folder that an output is in, if it is a file in a folder.
fn folder_of(output: Option<&Path>) -> Option<PathBuf> {
    let output = output.filter(|path| path.as_os_str() != "-" && !path.starts_with("/dev"))?;
    if output.is_dir() {
        return Some(output.to_owned());
    }
    match output.parent()? {
        folder if folder.as_os_str().is_empty() => Some(PathBuf::from(".")),
        folder => folder.is_dir().then(|| folder.to_owned()),
    }
}

/// The minimum of `--memory`. Every command can work within it.
const LEAST_MEMORY: u64 = 64_000_000;

fn memory(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    if bytes < LEAST_MEMORY {
        return Err("must be at least 64M".to_owned());
    }
    usize::try_from(bytes).map_err(|_| format!("`{text}` is more than this machine can address"))
}

/// Parses the name of a dialect, and lists all of them for completions.
pub(crate) fn dialects() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.map(Dialect::name))
        .try_map(|name| name.parse::<Dialect>())
}

/// The dialect of what is made from `sources`, if it is not given. Says so if it is not the usual one.
pub(crate) fn default_dialect(
    given: Option<Dialect>,
    sources: &[Source],
    out: &Printer,
) -> Dialect {
    match given {
        Some(dialect) => dialect,
        None if input::are_wacz(sources) => {
            out.note(format_args!(
                "using the dialect {}, as WACZ files do",
                wacz::DIALECT
            ));
            wacz::DIALECT
        }
        None => Dialect::default(),
    }
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable table
    Table,
    /// JSON
    Json,
}

/// Refuses a JSON report if the output itself goes to stdout.
pub(crate) fn refuse_json_on_stdout(format: Format, output: &Path) -> anyhow::Result<()> {
    if format == Format::Json && output.as_os_str() == "-" {
        return Err(anyhow::anyhow!(
            "--format json and the output both go to stdout"
        ))
        .hint("write the output to a file with -o FILE");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_floor() {
        assert_eq!(memory("64M"), Ok(64_000_000));
        for wrong in ["0", "1M", "63M", "lots"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
