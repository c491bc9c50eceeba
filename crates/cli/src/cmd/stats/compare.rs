use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use waypost_insight::stats::{Statistics, compare};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::html::write_html;
use crate::printer::Printer;

/// Show statistics side by side: two crawls, two archives
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost --quiet stats 2020.cdxj --format json > 2020.json\n\
    \x20 waypost --quiet stats 2021.cdxj --format json > 2021.json\n\
    \x20 waypost stats compare 2020.json 2021.json --html years.html")]
pub(crate) struct Compare {
    /// Files that `waypost stats --format json` wrote
    #[arg(required = true, num_args = 2.., value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write a page as one HTML file, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable tables
    Table,
    /// All tables, each after a line with its title
    Csv,
}

impl Compare {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut all = Vec::new();
        for path in &self.files {
            all.push(read(path)?);
        }
        for (title, table) in compare::tables(&all) {
            match self.format {
                Format::Table => writeln!(out.data(), "{title}\n{table}")?,
                Format::Csv => writeln!(out.data(), "# {title}\n{}", table.csv())?,
            }
        }
        if let Some(path) = &self.html {
            write_html(path, &compare::html(&all))?;
            out.note(format_args!("wrote {}", path.display()));
        }
        Ok(Exit::Yes)
    }
}

fn read(path: &Path) -> anyhow::Result<Statistics> {
    const HINT: &str = "make it with `waypost stats INDEX --format json`";
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let found: Statistics = serde_json::from_slice(&text)
        .with_context(|| format!("{}: not the statistics of an archive", path.display()))
        .hint(HINT)?;
    if found.format != "waypost-stats" || found.version != 1 {
        return Err(anyhow::anyhow!(
            "{}: format `{}` version {}, but this program reads waypost-stats version 1",
            path.display(),
            found.format,
            found.version
        ))
        .hint(HINT);
    }
    Ok(found)
}
