use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use waypost_insight::lastmod::extract::{self, Examples, Extracted};
use waypost_report::{Align, Table, count};

use crate::args::{Format, ResourceArgs, refuse_json_on_stdout};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Extract the Last-Modified times of successful responses from WARC and WAT files
///
/// Dates are read leniently; what was accepted by which rule, and what was rejected, is counted and
/// shown with examples.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost lastmod extract crawl-data/ -o crawl.lastmod\n\
    \x20 waypost lastmod extract pages.warc.gz --dir-root . -o pages.lastmod.gz\n\
    \n\
    Exit code 1: records were damaged; all others were read.")]
pub(crate) struct Extract {
    /// WARC, ARC, WAT and WACZ files, or folders of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// The file to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write file names relative to this folder [default: from crawl-data/ or the subset on]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    dir_root: Option<PathBuf>,
    /// Accept times up to this many seconds after the capture
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(i64).range(0..))]
    late: i64,
    /// Output format of the counts
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Extract {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        refuse_json_on_stdout(self.format, &self.output)?;
        let resources = self.resources.resources(Some(&self.output))?;
        let files = extract::expand(&self.files)?;
        if files.is_empty() {
            return Err(anyhow::anyhow!("no WARC or WAT files in these inputs"))
                .hint("name files, or folders with .warc.gz or .warc.wat.gz files");
        }
        let options = extract::Options {
            root: self.dir_root,
            late: self.late,
        };
        let progress = out.progress();
        let found = extract::extract(&files, &options, &resources, &progress, &self.output)?;
        drop(progress);
        if self.output.as_os_str() != "-" {
            match self.format {
                Format::Table => write!(out.data(), "{}", table(&found))?,
                Format::Json => writeln!(out.data(), "{:#}", object(&found))?,
            }
        }
        out.warn_some(found.damage.iter().map(|error| format!("{error}; skipped")));
        if found.without_time > 0 {
            out.warn(format_args!(
                "{} without a time of capture; left out",
                plural::of(found.without_time, "response")
            ));
        }
        out.note(format_args!(
            "wrote {} of {} to {}",
            plural::of(found.accepted, "time"),
            plural::of(found.responses, "successful response"),
            self.output.display()
        ));
        if found.damaged > 0 {
            out.note(format_args!(
                "skipped {}",
                plural::of(found.damaged, "damaged record")
            ));
            return Ok(Exit::No);
        }
        Ok(Exit::Yes)
    }
}

fn table(found: &Extracted) -> Table {
    let mut table = Table::new(&[
        ("responses", Align::Left),
        ("count", Align::Right),
        ("examples", Align::Left),
    ]);
    let mut row = |name: String, number: u64, examples: &[String]| {
        table.row([name, count(number), examples.join(" | ")]);
    };
    row("successful".to_owned(), found.responses, &[]);
    row("with Last-Modified".to_owned(), found.with_header, &[]);
    row("accepted".to_owned(), found.accepted, &[]);
    row("  as HTTP requires".to_owned(), found.exact, &[]);
    for (form, number) in &found.forms {
        row(format!("  form {}", form.name()), *number, &[]);
    }
    for (oddity, examples) in &found.oddities {
        row(
            format!("  odd: {}", oddity.name()),
            examples.count,
            &examples.first,
        );
    }
    let rejected = found
        .rejections
        .values()
        .map(|examples| examples.count)
        .sum();
    row("rejected".to_owned(), rejected, &[]);
    for (rejection, examples) in &found.rejections {
        row(
            format!("  {}", rejection.name()),
            examples.count,
            &examples.first,
        );
    }
    table
}

fn object(found: &Extracted) -> Value {
    let examples =
        |examples: &Examples| json!({"count": examples.count, "examples": examples.first});
    let forms: serde_json::Map<String, Value> = found
        .forms
        .iter()
        .map(|(form, number)| (form.name().to_owned(), json!(number)))
        .collect();
    let odd: serde_json::Map<String, Value> = found
        .oddities
        .iter()
        .map(|(oddity, all)| (oddity.name().to_owned(), examples(all)))
        .collect();
    let rejected: serde_json::Map<String, Value> = found
        .rejections
        .iter()
        .map(|(rejection, all)| (rejection.name().to_owned(), examples(all)))
        .collect();
    json!({
        "records": found.records, "responses": found.responses, "with_header": found.with_header,
        "accepted": found.accepted, "exact": found.exact, "forms": forms, "odd": odd,
        "rejected": rejected, "without_time": found.without_time, "damaged": found.damaged,
    })
}
