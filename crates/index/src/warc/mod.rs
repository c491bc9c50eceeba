//! Indexes of WARC and ARC files, as cdxj-indexer writes them, and records read through an index.
//!
//! ```text
//! file ─► units: offset, length, content ─► record: headers ─► entry ─► CDXJ line ─► sorted
//!          (gzip member, zstd frame,              │              │
//!           or a record in a plain file)          └ http head    └ post: a request and its response
//! ```
//!
//! Each file is read by one worker. A record is inflated whole to find its end and to notice damage, but
//! only its headers are looked at, unless they lack the digest of the payload; on request, `peek`
//! inflates only the headers. Damaged records are skipped up to the next one and reported.

mod body;
mod entry;
mod fetch;
mod head;
mod peek;
mod post;
mod record;
mod starts;
mod text;
mod units;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use waypost_io::{
    Error, ErrorKind, Format, LineWriter, Mapped, Progress, Resources, Result, Source,
};
use waypost_surt::{Canonicalizer, Dialect};

use crate::input::is_wacz_name;
use crate::wacz::{self, Wacz};
use crate::web::is_crawl_fields;

use entry::{Entry, Pairs, needs_body};
pub use fetch::WarcRecord;
use record::Record;
pub use starts::{HttpHead, RecordStart, StartsReport, read_starts};
use units::Units;

/// What to index, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The types of records to index.
    pub records: Records,
    /// Whether the key of a response to a POST or PUT request contains the body of the request.
    pub post_append: bool,
    /// Whether to add the SHA-256 of each record as stored.
    pub digest: bool,
    /// Whether bodies are left compressed where the headers say all that the index needs. Damage in
    /// them is not noticed then.
    pub skip_bodies: bool,
    /// The dialect of the keys.
    pub dialect: Dialect,
    /// The folder to which [names] of files are relative.
    pub root: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            records: Records::Usual,
            post_append: false,
            digest: false,
            skip_bodies: false,
            dialect: Dialect::default(),
            root: None,
        }
    }
}

/// Which records to index, by their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// Responses, revisits, resources and metadata, without fields about the crawl or its captures
    /// (`application/warc-fields`, `text/anvl`).
    Usual,
    /// Records of these types.
    Types(Vec<String>),
    /// All of them.
    All,
}

impl Records {
    /// All types that the standard defines.
    pub const STANDARD: [&str; 8] = [
        "warcinfo",
        "response",
        "resource",
        "request",
        "metadata",
        "revisit",
        "conversion",
        "continuation",
    ];

    /// The usual types.
    pub const USUAL: [&str; 4] = ["response", "revisit", "resource", "metadata"];

    /// Parses a list of types with commas between them, or `all`.
    ///
    /// # Errors
    /// If the standard defines no type of a name, which is returned.
    pub fn parse(list: &str) -> Result<Records, String> {
        let types: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
        if types == ["all"] {
            return Ok(Records::All);
        }
        let mut names = types.iter();
        if let Some(unknown) = names.find(|name| !Records::STANDARD.contains(&&name[..])) {
            return Err(unknown.clone());
        }
        match types == Records::USUAL {
            true => Ok(Records::Usual),
            false => Ok(Records::Types(types)),
        }
    }

    fn includes(&self, record: &Record<'_>) -> bool {
        let is = |name: &str| record.kind() == Some(name.as_bytes());
        match self {
            Records::All => true,
            Records::Types(types) => types.iter().any(|name| is(name)),
            Records::Usual => {
                let is_about_crawl = record.content_type().is_some_and(is_crawl_fields)
                    && matches!(record.kind(), Some(b"resource" | b"metadata"));
                Records::USUAL.into_iter().any(is) && !is_about_crawl
            }
        }
    }
}

/// A record that was skipped, or the rest of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The place of the file among the inputs.
    file: usize,
    /// The offset of the record in the file.
    pub offset: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

impl Damage {
    fn error(&self, file: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Format(self.kind.to_string()))
            .in_file(file)
            .at_byte(self.offset)
    }
}

/// What can be wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends within the record.
    #[error("the last record is truncated")]
    Truncated,
    /// Something stands where a record should start.
    #[error("not a record")]
    NotARecord,
    /// The compressed data cannot be inflated.
    #[error("the compressed data is corrupt")]
    Corrupt,
    /// The headers lack a length, date or URI, or have an invalid one.
    #[error("the record has no valid {0}")]
    BadHeader(&'static str),
    /// The record is longer than the compressed data.
    #[error("the record is longer than its compressed data")]
    TooLong,
    /// A record is followed by something other than another one.
    #[error("the record does not end where its Content-Length says")]
    BadLength,
    /// Compressed data holds more than one record, so they have no offsets of their own.
    #[error("several records are compressed together; the rest of the file is skipped")]
    Together,
}

/// The result of indexing.
#[derive(Debug, Default)]
pub struct Report {
    /// Records read.
    pub records: u64,
    /// Lines written.
    pub lines: u64,
    /// Damaged records.
    pub damaged: u64,
    /// The first damaged records, with file and offset.
    pub damage: Vec<Error>,
}

/// Number of damaged records to name.
const NAMED: usize = 100;

/// What a record may inflate to before only its first part is kept.
const LARGEST_UNIT: usize = 32 << 20;

/// Indexes files into CDXJ lines, which are written unsorted to `out`.
///
/// # Errors
/// If two files have the same [name](names), a file cannot be read or is not a WARC or ARC file, or `out`
/// cannot be written.
pub fn index(
    files: &[Source],
    options: &Options,
    resources: &Resources,
    progress: &Progress,
    out: &Path,
) -> Result<Report> {
    let names = names(files, options.root.as_deref())?;
    let threads = resources.threads.clamp(1, files.len().max(1));
    let limit = (resources.memory / 2 / threads).clamp(1 << 20, LARGEST_UNIT);
    let writer = Mutex::new(LineWriter::create(out, &Format::Plain, 1)?);
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Ok((Report::default(), Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut worker = Worker::new(options, limit, Some(&writer), progress);
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(source) = files.get(place) else {
                        break;
                    };
                    let result = source
                        .keep(&resources.temporary)
                        .and_then(|()| worker.index(place, source, &names[place]));
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Err(error) = result
                        && outcome.is_ok()
                    {
                        *outcome = Err(error);
                    }
                    if outcome.is_err() {
                        return;
                    }
                }
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if let Ok((report, damage)) = &mut *outcome {
                    report.records += worker.records;
                    report.lines += worker.lines;
                    report.damaged += worker.damaged;
                    damage.append(&mut worker.damage);
                }
            });
        }
    });
    let (mut report, mut damage) = outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)?;
    damage.sort();
    report.damage = damage
        .into_iter()
        .take(NAMED)
        .map(|damage: Damage| damage.error(&files[damage.file]))
        .collect();
    let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
    writer.finish()?;
    Ok(report)
}

/// Indexes a WARC or ARC file in memory into unsorted CDXJ lines, in which it is called `name`. `None`
/// if it is neither.
pub fn index_bytes(bytes: &[u8], name: &str, options: &Options) -> Option<(Vec<u8>, Report)> {
    let progress = Progress::default();
    let mut worker = Worker::new(options, LARGEST_UNIT, None, &progress);
    let units = Units::new(bytes, LARGEST_UNIT)?;
    let units = match options.skip_bodies {
        true => units.skip_bodies(|record| needs_body(record, options)),
        false => units,
    };
    // Nothing is written that could fail.
    let _ = worker.read(units, bytes, 0, name, |_| {});
    let report = Report {
        records: worker.records,
        lines: worker.lines,
        damaged: worker.damaged,
        damage: worker
            .damage
            .iter()
            .map(|damage| damage.error(name))
            .collect(),
    };
    Some((worker.buffer, report))
}

struct Worker<'a> {
    options: &'a Options,
    limit: usize,
    /// Without one, all lines stay in the buffer.
    writer: Option<&'a Mutex<LineWriter>>,
    progress: &'a Progress,
    canonicalizer: Canonicalizer,
    buffer: Vec<u8>,
    records: u64,
    lines: u64,
    damaged: u64,
    damage: Vec<Damage>,
}

impl<'a> Worker<'a> {
    fn new(
        options: &'a Options,
        limit: usize,
        writer: Option<&'a Mutex<LineWriter>>,
        progress: &'a Progress,
    ) -> Worker<'a> {
        Worker {
            options,
            limit,
            writer,
            progress,
            canonicalizer: Canonicalizer::new(options.dialect),
            buffer: Vec::new(),
            records: 0,
            lines: 0,
            damaged: 0,
            damage: Vec::new(),
        }
    }

    fn index(&mut self, file: usize, source: &Source, name: &str) -> Result<()> {
        let bytes = Mapped::of(source)?;
        let units = Units::new(&bytes, self.limit).ok_or_else(|| {
            Error::new(ErrorKind::Format("not a WARC or ARC file".to_owned())).in_file(source)
        })?;
        let units = match self.options.skip_bodies {
            true => units.skip_bodies(|record| needs_body(record, self.options)),
            false => units,
        };
        let progress = self.progress;
        self.read(units, &bytes, file, name, |part| {
            progress.add(part.len() as u64);
            bytes.release(part);
        })?;
        bytes.check()?;
        self.flush()
    }

    /// Indexes the records of a file. Calls `passed` with parts of it that are not needed any more.
    fn read(
        &mut self,
        mut units: Units<'_>,
        bytes: &[u8],
        file: usize,
        name: &str,
        mut passed: impl FnMut(Range<usize>),
    ) -> Result<()> {
        let mut pairs = Pairs::default();
        let mut done = 0;
        while let Some(unit) = units.next() {
            let unit = match unit {
                Ok(unit) => unit,
                Err((offset, kind)) => {
                    self.report(file, offset, kind);
                    continue;
                }
            };
            let offset = unit.offset;
            if offset as usize - done > 1 << 20 {
                passed(done..offset as usize);
                done = offset as usize;
            }
            let record = match Record::parse(&unit) {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(DamageKind::Together) => {
                    self.report(file, offset, DamageKind::Together);
                    break;
                }
                Err(kind) => {
                    self.report(file, offset, kind);
                    continue;
                }
            };
            self.records += 1;
            let is_included = self.options.records.includes(&record);
            if !is_included && !self.options.post_append {
                continue;
            }
            match Entry::new(&record, &unit, bytes, is_included, self.options) {
                Ok(entry) if self.options.post_append => {
                    for entry in pairs.push(entry).into_iter().flatten() {
                        self.write(&entry, name)?;
                    }
                }
                Ok(entry) => self.write(&entry, name)?,
                Err(kind) => self.report(file, offset, kind),
            }
        }
        if let Some(entry) = pairs.finish() {
            self.write(&entry, name)?;
        }
        passed(done..bytes.len());
        Ok(())
    }

    fn report(&mut self, file: usize, offset: u64, kind: DamageKind) {
        self.damaged += 1;
        if self.damage.len() < NAMED {
            self.damage.push(Damage { file, offset, kind });
        }
    }

    fn write(&mut self, entry: &Entry, name: &str) -> Result<()> {
        if !entry.is_included {
            return Ok(());
        }
        entry.push_line(name, &mut self.canonicalizer, &mut self.buffer);
        self.lines += 1;
        if self.buffer.len() > 1 << 18 {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let Some(writer) = self.writer else {
            return Ok(());
        };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.push_lines(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// The place of a file: its path without links; that of an entry is below its WACZ file.
fn place_of(source: &Source) -> Option<PathBuf> {
    let file = source.container().unwrap_or(source).path();
    let entry = source.path().strip_prefix(file).ok()?;
    Some(
        file.canonicalize()
            .ok()?
            .components()
            .chain(entry.components())
            .collect(),
    )
}

/// The path of a file below a folder, if it is there.
pub fn path_below(folder: &Path, source: &Source) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    place_of(source)?
        .strip_prefix(folder)
        .map(Path::to_owned)
        .ok()
}

/// The names of files in the index: relative to `root`, or without folders.
///
/// # Errors
/// If two files have the same name: nobody could tell their records apart.
pub fn names(files: &[Source], root: Option<&Path>) -> Result<Vec<String>> {
    unique_names(files, |source| {
        let path = source.path();
        let last = path.file_name().map_or(path, Path::new);
        let below = root.and_then(|root| path_below(root, source));
        below
            .as_deref()
            .unwrap_or(last)
            .to_string_lossy()
            .into_owned()
    })
}

/// The names that `name` gives to files.
///
/// # Errors
/// If two files have the same one.
pub fn unique_names(files: &[Source], name: impl Fn(&Source) -> String) -> Result<Vec<String>> {
    let mut known = HashMap::new();
    let names = files.iter().map(|source| {
        let name = name(source);
        match known.insert(name.clone(), source) {
            None => Ok(name),
            Some(other) => Err(Error::new(ErrorKind::SameName {
                files: [other.to_string(), source.to_string()],
                name,
            })),
        }
    });
    names.collect()
}

/// The WARC and ARC files that paths stand for: files as they are, WACZ files with the WARC files in
/// them, and folders with all such files in them and below, in order. A file that is named twice is read
/// once.
///
/// # Errors
/// If a folder or a WACZ file cannot be read.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<Source>> {
    use waypost_io::IoContext;
    let mut files = Vec::new();
    let mut folders = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        folders.push(path.clone());
        let start = files.len();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).doing("read", &folder)? {
                let path = entry.doing("read", &folder)?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if is_archive_name(&path) || is_wacz_name(&path.to_string_lossy()) {
                    files.push(path);
                }
            }
        }
        files[start..].sort();
    }
    let mut sources = Vec::new();
    for path in files {
        let source = Source::new(path);
        // A file that cannot be opened is reported when it is read.
        if wacz::is_zip(&source).unwrap_or(false) {
            sources.extend(Wacz::open(&source)?.warcs()?);
        } else {
            sources.push(source);
        }
    }
    let mut seen = HashSet::new();
    sources.retain(|source| place_of(source).is_none_or(|place| seen.insert(place)));
    Ok(sources)
}

pub(crate) fn is_archive_name(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = [".gz", ".zst"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    name.ends_with(".warc") || name.ends_with(".arc")
}
