use std::path::PathBuf;

use clap::{Args, ValueHint};
use waypost_insight::segments::table;
use waypost_io::Source;

use crate::args::ThreadArgs;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Merge tables of parts of one crawl, such as the shards of its index
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost segments merge part-1.segments part-2.segments -o whole.segments")]
pub(crate) struct Merge {
    /// Tables of the same properties and subset
    #[arg(required = true, value_name = "TABLES", value_hint = ValueHint::FilePath)]
    tables: Vec<PathBuf>,
    /// The table to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let threads = self.threads.start()?;
        let sources: Vec<Source> = self.tables.iter().map(Source::new).collect();
        let header = table::merge(&sources, &self.output, threads)?;
        if header.crawls.len() > 1 {
            out.warn(format_args!(
                "these are tables of different crawls: {}",
                header.crawls.join(", ")
            ));
        }
        out.note(format_args!(
            "merged {} into {}: {} in {}",
            plural::of(sources.len() as u64, "table"),
            self.output.display(),
            plural::of(header.captures().iter().sum(), "capture"),
            plural::of(header.segments.len() as u64, "segment")
        ));
        Ok(Exit::Yes)
    }
}
