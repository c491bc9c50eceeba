use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use waypost_index::kind::{self, FileKind};
use waypost_index::lookup::{Filter, Index, Located, Query, choose};
use waypost_index::range::{Match, ranges};
use waypost_index::timestamp::Time;
use waypost_index::wacz::Wacz;
use waypost_index::warc::WarcRecord;
use waypost_io::opened::same_file;
use waypost_io::{AtomicFile, FileRange, RangeRead, Source};
use waypost_surt::Canonicalizer;

use super::keys::KeyArgs;
use super::lookup::filter;
use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;
use crate::remote::{RemoteArgs, RemoteFiles, as_url};
use crate::time::first_of;

/// Fetch the record of a capture through an index
///
/// The index says in which WARC or ARC file the record is, and where. The file is read in the folder
/// of the index, below --warcs FOLDER, or by a range request below --warcs https://…/. The index may
/// be remote, too: https://…/cluster.idx. In a WACZ file, both are in the same file.
///
/// The latest capture is fetched, or the one closest to --at. For a revisit, which has no content of
/// its own, it is the capture with the same digest.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index fetch crawl.cdxj http://www.example.com/\n\
    \x20 waypost index fetch crawl.cdxj http://www.example.com/ --at 2020-03 \\\n\
    \x20   --warcs warcs --as headers\n\
    \n\
    Exit code 1: there is no such capture.")]
pub(crate) struct Fetch {
    /// The index: a sorted file, the folder of a ZipNum index, or the path or URL of its .idx file
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The URI of the capture
    #[arg(value_name = "URI")]
    uri: String,
    /// Fetch the capture closest to this time: 2004, 20040131, 2004-01-31 [default: the latest]
    #[arg(long, value_name = "TIME", value_parser = first_of)]
    at: Option<Time>,
    /// Only captures that pass, as in `index lookup`; may be repeated
    #[arg(short, long, value_name = "FILTER", value_parser = filter)]
    filter: Vec<Filter>,
    /// The folder or URL that file names are relative to [default: that of the index]
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::DirPath)]
    warcs: Option<PathBuf>,
    /// Which part of the record to write
    #[arg(long = "as", value_name = "PART", value_enum, default_value_t = Part::Body)]
    part: Part,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Read files outside the folders if the index names them
    #[arg(long)]
    anywhere: bool,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The record with its WARC headers, uncompressed
    Record,
    /// The HTTP message as it was captured
    Http,
    /// The headers of the HTTP message
    Headers,
    /// The body of the HTTP message, without chunks and compression (gzip, deflate, br, zstd)
    Body,
}

/// What a search needs.
struct Search<'a> {
    index: &'a Index,
    canonicalizer: Canonicalizer,
    files: &'a RemoteFiles,
    /// Maximum size of a record.
    limit: usize,
}

impl Fetch {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        // A record and its decoded body are in memory at the same time.
        let limit = self.resources.resources(None)?.memory / 4;
        let files = self.remote.files();
        let index = self.remote.open(&files, &Source::new(&self.index), out)?;
        let index = index.anywhere(self.anywhere);
        let dialect = self.keys.dialect_of(&index, &self.index, out)?;
        let mut search = Search {
            index: &index,
            canonicalizer: Canonicalizer::new(dialect),
            files: &files,
            limit,
        };
        let captures = search.captures(&self.uri, &self.filter)?;
        let Some(chosen) = choose(&captures, self.at) else {
            out.note(format_args!("no capture of {}", self.uri));
            return Ok(Exit::No);
        };
        let (located, record) = if chosen.is_revisit {
            let (located, record) = self.original(chosen, &mut search)?;
            out.note(format_args!(
                "the capture of {} at {} is a revisit; this is the capture of {} at {} with the same digest",
                chosen.url, chosen.timestamp, located.url, located.timestamp
            ));
            (located, record)
        } else {
            let record = self.record(chosen, &mut search)?;
            (chosen.clone(), record)
        };
        let whole;
        let bytes = match self.part {
            Part::Record => record.bytes(),
            Part::Http if record.http_head().is_some() => record.content(),
            Part::Headers if record.http_head().is_some() => record.http_head().unwrap_or_default(),
            Part::Http | Part::Headers => {
                return Err(anyhow::anyhow!(
                    "the {} record of {} has no HTTP message",
                    record.kind(),
                    located.url
                ))
                .hint("write its content with --as body, or all of it with --as record");
            }
            Part::Body => {
                whole = record
                    .body(limit)
                    .with_context(|| format!("{} at {}", located.url, located.timestamp))?;
                &whole[..]
            }
        };
        match &self.output {
            Some(path) => {
                let mut file = AtomicFile::create(path)?;
                file.write_all(bytes)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                file.commit()?;
            }
            None => out
                .data()
                .write_all(bytes)
                .context("cannot write to standard output")?,
        }
        Ok(Exit::Yes)
    }

    /// The capture that a revisit repeats, and its record.
    fn original(
        &self,
        revisit: &Located,
        search: &mut Search<'_>,
    ) -> anyhow::Result<(Located, WarcRecord)> {
        // Filters apply to the capture that is asked for, not to the one that it repeats.
        let same_uri = search.captures(&self.uri, &[])?;
        if let Some(original) = revisit.original(&same_uri) {
            return Ok((original.clone(), self.record(original, search)?));
        }
        // The content may have been captured at another URI, which the record names.
        let name = format!("the capture of {} at {}", revisit.url, revisit.timestamp);
        let record = self.record(revisit, search)?;
        if let Some(uri) = record.refers_to() {
            let other = search.captures(uri, &[])?;
            if let Some(original) = revisit.original(&other) {
                return Ok((original.clone(), self.record(original, search)?));
            }
            return Err(anyhow::anyhow!(
                "{name} is a revisit of {uri}, and the index has no capture of that with the same digest"
            ))
            .hint("fetch another capture with --at TIME or --filter '!=mime:warc/revisit'");
        }
        Err(anyhow::anyhow!(
            "{name} is a revisit, and the index has no capture with the same digest"
        ))
        .hint("fetch another capture with --at TIME or --filter '!=mime:warc/revisit'")
    }

    /// Reads the record of a capture, and checks that it is one of that URL.
    fn record(&self, located: &Located, search: &mut Search<'_>) -> anyhow::Result<WarcRecord> {
        let name = || format!("the capture of {} at {}", located.url, located.timestamp);
        let (Some(filename), Some(offset)) = (&located.filename, located.offset) else {
            return Err(anyhow::anyhow!(
                "the index does not say where {} is: it has no file name or no offset",
                name()
            ));
        };
        let file = self.file(filename, search.files)?;
        let read = WarcRecord::read(&*file, offset, located.length, search.limit);
        let is_missing = |error: &waypost_io::Error| error.is_missing() || error.is_denied();
        let is_missing = read.as_ref().is_err_and(is_missing);
        let read = read.with_context(name);
        let record = match is_missing && self.warcs.is_none() {
            true => read.hint(WARCS)?,
            false => read?,
        };
        let of_record = record.uri().unwrap_or_default();
        if !located.url.is_empty()
            && of_record != located.url
            && search.surt(of_record).ok() != Some(search.surt(&located.url)?)
        {
            return Err(anyhow::anyhow!(
                "{}: the record at byte {} is of {}, not of {}",
                file.name(),
                waypost_report::count(offset),
                if of_record.is_empty() {
                    "no URI"
                } else {
                    of_record
                },
                located.url
            ))
            .hint("the index and the file do not belong together; index the file again");
        }
        Ok(record)
    }

    /// Opens a file that the index names.
    fn file(&self, name: &str, files: &RemoteFiles) -> anyhow::Result<Arc<dyn RangeRead>> {
        if as_url(Path::new(name)).is_some() {
            return Ok(files.open(name)?);
        }
        if self.warcs.is_none()
            && as_url(&self.index).is_none()
            && self.index.is_file()
            && let source = Source::new(&self.index)
            && let FileKind::Wacz | FileKind::Zip = kind::detect(&source)?.kind
            && let Some(file) = Wacz::open(&source)?.warc(name)?
        {
            return Ok(file);
        }
        let base = match &self.warcs {
            Some(base) => base.clone(),
            None => folder_of(&self.index),
        };
        if let Some(prefix) = as_url(&base) {
            let slash = if prefix.ends_with('/') { "" } else { "/" };
            let name = name.replace('%', "%25").replace('?', "%3F");
            let name = name.replace('#', "%23");
            return Ok(files.open(&format!("{prefix}{slash}{}", name.trim_start_matches('/')))?);
        }
        let path = Path::new(name);
        let is_inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_inside && !self.anywhere {
            return Err(anyhow::anyhow!(
                "the index names {name}, which is outside {}",
                base.display()
            ))
            .hint("read files outside the folder with --anywhere, if you trust the index");
        }
        // An entry of a WACZ file: `crawl.wacz/archive/data.warc.gz`.
        if let Some((wacz, entry)) = name.split_once(".wacz/archive/")
            && let source = Source::new(base.join(format!("{wacz}.wacz")))
            && source.path().is_file()
            && let Some(file) = Wacz::open(&source)?.warc(entry)?
        {
            return Ok(file);
        }
        let open = |path: PathBuf| -> waypost_io::Result<_> {
            let file = FileRange::open(&path)?;
            Ok((file, path))
        };
        let file = match (open(base.join(path)), path.file_name()) {
            // The index may have been made where files were in other folders.
            (Err(error), Some(last)) if error.is_missing() => {
                open(base.join(last)).map_err(|_| error)
            }
            (below, _) => below,
        };
        if let (Ok((_, path)), Some(output)) = (&file, &self.output)
            && same_file(path, output)
        {
            return Err(anyhow::anyhow!(
                "{} has the record, and is the output",
                path.display()
            ))
            .hint("write to another file");
        }
        let file = file.map(|(file, _)| file);
        let file = file.map(|file| Arc::new(file) as Arc<dyn RangeRead>);
        match &self.warcs {
            None => file.hint(WARCS),
            Some(_) => Ok(file?),
        }
    }
}

const WARCS: &str = "say where the WARC files are with --warcs FOLDER or --warcs https://…/";

impl Search<'_> {
    fn surt(&mut self, uri: &str) -> anyhow::Result<Vec<u8>> {
        let mut surt = Vec::new();
        let whole = self.canonicalizer.dialect().complete(uri.as_bytes());
        self.canonicalizer
            .canonicalize(&whole, &mut surt)
            .with_context(|| format!("cannot look up {uri}"))?;
        Ok(surt)
    }

    fn captures(&mut self, uri: &str, filters: &[Filter]) -> anyhow::Result<Vec<Located>> {
        let surt = self.surt(uri)?;
        let query = Query {
            ranges: ranges(uri.as_bytes(), &surt, Match::Exact),
        };
        Ok(self.index.locate(&query, filters)?)
    }
}

/// The folder or URL of an index.
fn folder_of(index: &Path) -> PathBuf {
    if let Some(url) = as_url(index) {
        let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
        let end = path.rfind('/').map_or(0, |slash| slash + 1);
        return PathBuf::from(&path[..end]);
    }
    if index.is_dir() {
        return index.to_owned();
    }
    match index.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
