use std::path::PathBuf;

use clap::Args;
use waypost_index::zipnum::{ZipNum, unzip};
use waypost_io::{Format, LineWriter};
use waypost_report::count;

use crate::args::ThreadArgs;
use crate::exit::Exit;
use crate::printer::Printer;

/// Convert a ZipNum index to one flat file
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost index unzip zipnum -o flat.cdxj")]
pub(crate) struct Unzip {
    /// The folder of a ZipNum index, or its .idx file
    #[arg(value_name = "ZIPNUM")]
    zipnum: PathBuf,
    /// The file to write, gzipped if its name ends with .gz [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read data files outside the folder of the index if its rows or .loc file name them
    #[arg(long)]
    anywhere: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl Unzip {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let threads = self.threads.start()?;
        let zipnum = ZipNum::open(&self.zipnum)?.anywhere(self.anywhere);
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from("-"));
        let writer = LineWriter::create(&path, &Format::of_name(&path), threads)?;
        let progress = out.progress();
        let written = unzip(zipnum, threads, &progress, writer)?;
        drop(progress);
        if path.as_os_str() != "-" {
            let lines = count(written.lines);
            out.note(format_args!("wrote {lines} lines to {}", path.display()));
        }
        Ok(Exit::Yes)
    }
}
