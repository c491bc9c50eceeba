use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use waypost_index::kind::{self, FileKind};
use waypost_index::zipnum::ZipNum;
use waypost_insight::lastmod::add::{self, Index};
use waypost_io::Source;
use waypost_report::{bytes, count};

use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Add Last-Modified times to an index, as "lastmod" in the rows that have one
///
/// Rows are found by file, offset and time of capture. Every other byte stays as it was. A ZipNum index
/// keeps its data files and blocks; its .idx file says where they are.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost lastmod add pages.cdxj --from pages.lastmod -o dated.cdxj\n\
    \x20 waypost lastmod add pages-zipnum --from pages.lastmod -o dated-zipnum")]
pub(crate) struct Add {
    /// A CDXJ file, or the folder or .idx file of a ZipNum index
    #[arg(value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    index: PathBuf,
    /// What `waypost lastmod extract` wrote. May be repeated
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    from: Vec<PathBuf>,
    /// The file to write, gzipped if its name ends with .gz, or the new folder of a ZipNum index
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Compression level, from 1 (fastest) to 12 (smallest)
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=12))]
    level: u8,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Add {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(Some(&self.output))?;
        let source = Source::new(&self.index);
        let is_zipnum = self.index.is_dir()
            || matches!(
                kind::detect(&source).map(|told| told.kind),
                Ok(FileKind::ZipNumIndex)
            );
        let index = match is_zipnum {
            true => Index::ZipNum(Arc::new(ZipNum::open(&self.index)?)),
            false => Index::File(source),
        };
        let from: Vec<Source> = self.from.iter().map(Source::new).collect();
        let progress = out.progress();
        let options = add::Options {
            level: self.level,
            resources,
            progress: progress.clone(),
        };
        let added = add::add(&index, &from, &options, &self.output)
            .hint_otherwise("extract the times with `waypost lastmod extract`, and convert CDX with `waypost index convert --to cdxj`")?;
        drop(progress);
        let written = &added.written;
        out.note(format_args!(
            "wrote {}: {} of {} got a time ({})",
            self.output.display(),
            count(added.added),
            plural::of(added.rows, "row"),
            bytes(written.bytes_out)
        ));
        if added.had > 0 {
            out.note(format_args!(
                "{} had one before",
                plural::of(added.had, "row")
            ));
        }
        if added.other_lines > 0 {
            out.note(format_args!(
                "{} without a capture",
                plural::of(added.other_lines, "line")
            ));
        }
        if added.other_capture > 0 {
            out.warn(format_args!(
                "{} with another time of capture than the entry for their file and offset; not added",
                plural::of(added.other_capture, "row")
            ));
        }
        if added.left_over > 0 {
            out.warn(format_args!(
                "{} of {} match no row",
                count(added.left_over),
                plural::of(added.entries, "entry").replace("entrys", "entries")
            ));
            for (name, entry) in &added.first_left_over {
                out.note(format_args!("  {name} offset {}", entry.offset));
            }
        }
        Ok(Exit::Yes)
    }
}
