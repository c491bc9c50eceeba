use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use waypost_report::{bytes, count};
use waypost_summary::holdings::Input;
use waypost_summary::map;
use waypost_surt::Dialect;

use crate::args::{BadLines, Filters, Inputs, Memory};
use crate::cmd::profile::{AboutOptions, ByArgument, tell_bad};
use crate::exit::Exit;
use crate::printer::Printer;

/// Make a map of what an archive holds: every place once, without wildcards
///
/// Inputs are indexes, lists of URIs or HxPx profiles, in any order. Keys have no query; the
/// frequency is captures/URI-Rs.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost map build archive.cdxj.gz -o archive.ukvs\n  \
    waypost map build --status 200 --mime text/html --by year 2023.cdx 2024.cdx -o pages.ukvs.gz\n\n\
    Exit code 1: an input was damaged, or nothing was counted.")]
pub(crate) struct Build {
    #[command(flatten)]
    inputs: Inputs,
    /// The map to write, gzipped if its name ends with .gz; `-` is standard output
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// A second key
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<ByArgument>,
    /// The rules of canonicalisation: ia, commoncrawl or commoncrawl-legacy
    #[arg(long, default_value_t)]
    dialect: Dialect,
    #[command(flatten)]
    memory: Memory,
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
        let progress = out.reading(&sources);
        let input = Input {
            dialect: self.dialect,
            select: self.filters.select()?,
            by: self.by.map(Into::into),
            memory: self.memory.memory,
            temporary: temporary(&self.output),
            strict: self.bad_lines.strict,
            progress: Arc::clone(progress.bytes()),
            ..Input::new(sources)
        };
        let mut rejects = self.bad_lines.file()?;
        let made = map::build(
            &input,
            &self.about.archive()?,
            rejects.as_mut(),
            &self.output,
        )?;
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        let whole = tell_bad(&made.reading, out);
        if made.rows == 0 {
            out.warn(
                "nothing was counted: is this an index or a list of URIs, and do the filters fit?",
            );
        }
        out.note(format_args!(
            "wrote {} keys ({}) of {} captures and {} URI-Rs to {}",
            count(made.rows),
            bytes(made.bytes),
            count(made.reading.captures),
            count(made.reading.urirs),
            self.output.display()
        ));
        Ok(if whole && made.rows > 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}

/// Temporary files go where the output goes: there is room for it.
pub(super) fn temporary(output: &Path) -> PathBuf {
    match output.parent() {
        Some(folder)
            if folder.is_dir() && output.as_os_str() != "-" && !output.starts_with("/dev") =>
        {
            folder.to_owned()
        }
        Some(folder) if folder.as_os_str().is_empty() && output.as_os_str() != "-" => {
            PathBuf::from(".")
        }
        _ => std::env::temp_dir(),
    }
}
