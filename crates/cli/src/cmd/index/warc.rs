use std::path::PathBuf;

use clap::{Args, ValueHint};
use waypost_index::warc::{self, Records};
use waypost_io::{Source, sort, temporary};
use waypost_surt::Dialect;

use super::destination::{Destination, options, report_written};
use crate::args::{ResourceArgs, default_dialect, dialects};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Index WARC and ARC files into sorted CDXJ or ZipNum
///
/// Files may be gzipped or compressed with zstd record by record, or not compressed; of a WACZ file,
/// the WARC files in it are read. The lines are those of cdxj-indexer. Damaged records are skipped and
/// named.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index warc crawl.warc.gz -o crawl.cdxj\n\
    \x20 waypost index warc warcs/ --post-append --zipnum blocks\n\
    \n\
    Exit code 1: records were damaged; all others were indexed.")]
pub(crate) struct Warc {
    /// WARC, ARC and WACZ files, or folders of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Types of the records to index, with commas between them, or `all`
    /// [default: response,revisit,resource,metadata]
    #[arg(long, value_name = "LIST", value_parser = records)]
    records: Option<Records>,
    /// Append the bodies of POST and PUT requests to the URLs of their responses, as pywb does
    #[arg(short, long)]
    post_append: bool,
    /// Add the SHA-256 of each record as stored
    #[arg(short, long, visible_alias = "digest-records")]
    digest: bool,
    /// Leave bodies compressed where the headers have a digest: faster, but damage in bodies is not
    /// noticed
    #[arg(long)]
    skip_bodies: bool,
    /// The dialect of the keys [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_name = "DIALECT", value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Write file names relative to this folder [default: names without folders]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    dir_root: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Warc {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(self.destination.path())?;
        let files = warc::expand(&self.files)?;
        if files.is_empty() {
            return Err(anyhow::anyhow!("no WARC or ARC files in these inputs")).hint(
                "name files, or folders with .warc, .warc.gz, .warc.zst, .arc, .arc.gz or .wacz files",
            );
        }
        let indexing = warc::Options {
            records: self.records.clone().unwrap_or(Records::Usual),
            post_append: self.post_append,
            digest: self.digest,
            skip_bodies: self.skip_bodies,
            dialect: default_dialect(self.dialect, &files, out),
            root: self.dir_root.clone(),
        };
        let folder = temporary::folder_in(&resources.temporary)?;
        let unsorted = folder.path().join("lines");
        let progress = out.progress();
        progress.read(&files);
        let indexed = warc::index(&files, &indexing, &resources, &progress, &unsorted)?;
        let mut writer = self.destination.create(resources.threads)?;
        let options = options(resources, false, &progress);
        let report = sort::sort(&[Source::new(unsorted)], &options, &mut writer)?;
        drop(progress);
        let written = writer.finish()?;
        out.warn_some(
            indexed
                .damage
                .iter()
                .map(|error| format!("{error}; skipped")),
        );
        let exit = report_written(out, self.destination.name(), &report, &written);
        if indexed.damaged > 0 {
            out.note(format_args!(
                "skipped {} of {}",
                plural::of(indexed.damaged, "damaged record"),
                plural::of(indexed.records + indexed.damaged, "record")
            ));
            return Ok(Exit::No);
        }
        Ok(exit)
    }
}

fn records(list: &str) -> Result<Records, String> {
    Records::parse(list).map_err(|name| {
        format!(
            "unknown record type `{name}`; use `all`, or some of {}",
            Records::STANDARD.join(", ")
        )
    })
}
