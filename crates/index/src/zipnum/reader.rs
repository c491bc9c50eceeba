//! Reads ZipNum: finds the blocks of a key range, and inflates their lines.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flate2::read::MultiGzDecoder;
use libdeflater::Decompressor;
use waypost_io::members::MemberReader;
use waypost_io::{
    Error, ErrorKind, FileRange, IoContext, LineWriter, Mapped, Ordered, Phase, Progress,
    RangeRead, Result, Source, Written,
};

use super::ahead::Packed;
use super::idx::{Flavour, Row};
use super::location::{Candidate, Locations};
use super::rows::{PAGE, Rows};
use crate::search::line_around;

/// Maximum size of an inflated block. A typical block has a megabyte.
pub(super) const LARGEST_BLOCK: u64 = 1 << 30;

/// How much is inflated at a time if only a part of a block may be needed.
const PIECE: usize = 64 << 10;

/// Maximum number of open data files.
const OPEN_FILES: usize = 512;

/// Maximum size of a `.loc` file.
const LARGEST_LOCATIONS: u64 = 64 << 20;

/// Opens what is at a URL, or under another name that is not a path.
pub type Opener = Arc<dyn Fn(&str) -> Result<Arc<dyn RangeRead>> + Send + Sync>;

/// A ZipNum index that is not in a folder: on the Web, or in an archive file.
pub struct Remote<'a> {
    /// The URL or name of its `.idx` file. Names of data files are relative to it.
    pub url: &'a str,
    /// A copy of the `.idx` file, if there is one.
    pub copy: Option<&'a Path>,
    /// Opens its files.
    pub open: Opener,
    /// Maximum number of concurrent reads.
    pub connections: usize,
}

/// An open data file.
#[derive(Clone)]
pub(super) struct DataFile {
    pub(super) bytes: Arc<dyn RangeRead>,
    /// `None` if it is remote.
    path: Option<PathBuf>,
}

/// A ZipNum index.
pub struct ZipNum {
    /// The path or URL of the `.idx` file.
    path: PathBuf,
    pub(super) idx: Rows,
    /// The offset of the first row, after header lines.
    pub(super) rows: usize,
    flavour: Flavour,
    /// The only data file of a WACZ.
    only_part: Vec<u8>,
    pub(super) locations: Locations,
    files: Mutex<HashMap<Vec<u8>, DataFile>>,
    open: Option<Opener>,
    connections: usize,
    pub(super) packed: Packed,
    /// Set when the last row was found to end where its data end.
    pub(super) ends: OnceLock<()>,
}

impl ZipNum {
    /// Opens the folder of a ZipNum index, or its `.idx` file.
    ///
    /// # Errors
    /// If the folder contains no `.idx` file, or several.
    pub fn open(path: &Path) -> Result<ZipNum> {
        match path.is_dir() {
            true => ZipNum::of(&Source::new(find_idx(path)?)),
            false => ZipNum::of(&Source::new(path)),
        }
    }

    /// Opens a ZipNum index by its `.idx` file.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn of(idx: &Source) -> Result<ZipNum> {
        let path = idx.path();
        let locations = find_locations(path)?;
        ZipNum::new(path.to_owned(), Rows::Mapped(Mapped::of(idx)?), locations)
    }

    /// Opens a ZipNum index that is not in a folder. Its files are read in parts.
    ///
    /// # Errors
    /// If its `.idx` or `.loc` file cannot be read.
    pub fn remote(remote: Remote<'_>) -> Result<ZipNum> {
        ZipNum::remote_in_pages(remote, PAGE)
    }

    /// The same with another size of pages, for tests.
    #[doc(hidden)]
    pub fn remote_in_pages(remote: Remote<'_>, page: usize) -> Result<ZipNum> {
        let idx = match remote.copy {
            Some(copy) => Rows::Mapped(Mapped::open(copy)?),
            None => Rows::paged((remote.open)(remote.url)?, page)?,
        };
        let mut locations = Locations::beside_url(remote.url);
        if let Some(text) = read_locations(&remote)? {
            locations.parse(&text);
        }
        let zipnum = ZipNum::new(PathBuf::from(remote.url), idx, locations)?;
        Ok(zipnum.with_opener(remote.open, remote.connections))
    }

    fn new(path: PathBuf, idx: Rows, locations: Locations) -> Result<ZipNum> {
        let in_file = |error: Error| error.in_file(path.display());
        let mut rows = 0;
        let mut only_part = Vec::new();
        while let Some((line, next)) = idx.line(rows).map_err(in_file)?
            && line.first() == Some(&b'!')
        {
            if let Some(name) = meta_file_name(line) {
                only_part = name.into_bytes();
            }
            rows = next.min(idx.len());
        }
        let first = idx.line(rows).map_err(in_file)?;
        let first = first.map_or(&[][..], |(line, _)| line);
        let flavour = if rows > 0 || (!first.is_empty() && !first.contains(&b'\t')) {
            Flavour::Wacz
        } else {
            Flavour::Cluster
        };
        if flavour == Flavour::Wacz && only_part.is_empty() {
            only_part = path
                .with_extension("cdx.gz")
                .file_name()
                .map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec());
        }
        let zipnum = ZipNum {
            locations,
            path,
            idx,
            rows,
            flavour,
            only_part,
            files: Mutex::default(),
            open: None,
            connections: 1,
            packed: Packed::default(),
            ends: OnceLock::new(),
        };
        // Detect a file of another kind now, not at the first lookup that reads a row of it.
        if let Some((row, _)) = zipnum.row(rows)? {
            zipnum.parse(row, rows)?;
        }
        Ok(zipnum)
    }

    /// Reads data files that are at URLs through `open`, at most `connections` at a time, unless the
    /// index was opened with an opener already.
    #[must_use]
    pub fn with_opener(mut self, open: Opener, connections: usize) -> ZipNum {
        if self.open.is_none() {
            self.open = Some(open);
            self.connections = connections.max(1);
        }
        self
    }

    /// Whether some of its files may be remote.
    pub(crate) fn is_remote(&self) -> bool {
        self.open.is_some() && self.locations.any_url()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Allows data files outside the folder of the index.
    #[must_use]
    pub fn anywhere(mut self, anywhere: bool) -> ZipNum {
        self.locations.anywhere(anywhere);
        self
    }

    /// The path or URL of the `.idx` file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format of its rows.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The number of blocks.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub fn blocks(&self) -> Result<u64> {
        self.row_starts()
            .try_fold(0, |count, start| start.map(|_| count + 1))
    }

    /// The `.idx` file, and the `.loc` file if there is one.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.path.clone()];
        files.extend(self.locations.file().map(Path::to_owned));
        files
    }

    /// The data files, each once, in the order of their first blocks.
    ///
    /// # Errors
    /// If a row is invalid, a data file is missing or remote, or the last row does not end where its data end.
    pub fn parts(&self) -> Result<Vec<PathBuf>> {
        let local = |part: &Vec<u8>| {
            let file = self.file(part)?;
            file.path.ok_or_else(|| only_files(file.bytes.name()))
        };
        self.check_end()?;
        self.part_names()?.iter().map(local).collect()
    }

    /// The data files as sources, local or remote, in the order of their first blocks.
    ///
    /// # Errors
    /// If a row is invalid, a data file is missing, or the last row does not end where its data end.
    pub fn sources(&self) -> Result<Vec<Source>> {
        let source = |part: &Vec<u8>| {
            let file = self.file(part)?;
            Ok(match file.path {
                Some(path) => Source::new(path),
                None => Source::of_remote(file.bytes, self.connections),
            })
        };
        self.check_end()?;
        self.part_names()?.iter().map(source).collect()
    }

    /// The names of the data files in the rows, each once.
    pub(super) fn part_names(&self) -> Result<Vec<Vec<u8>>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut at = self.rows;
        while let Some((row, next)) = self.row(at)? {
            let row = self.parse(row, at)?;
            // The blocks of a part are usually adjacent.
            if parts.last().is_none_or(|last| last != row.part)
                && !parts.iter().any(|known| known == row.part)
            {
                parts.push(row.part.to_vec());
            }
            at = next;
        }
        Ok(parts)
    }

    /// The offset of the row of the first block that may contain lines not smaller than `start`.
    pub(crate) fn first_row(&self, start: &[u8]) -> Result<usize> {
        let mut at = self.bound(start)?;
        // The block before starts with a smaller line and may extend to ours. A row contains only the
        // start of the first line of its block. If that is also the start of our line, or equal to
        // the row before, the block before that one must be read, too.
        while let Some(before) = self.row_before(at)? {
            let key = self.key(before)?;
            at = before;
            let unsure = start.starts_with(key)
                || match self.row_before(before)? {
                    Some(earlier) => self.key(earlier)? == key,
                    None => false,
                };
            if !unsure {
                break;
            }
        }
        Ok(at)
    }

    /// The offset of the row of the first block that starts with `end` or a larger line.
    pub(crate) fn bound(&self, end: &[u8]) -> Result<usize> {
        let flavour = self.flavour;
        self.idx
            .lower_bound(self.rows, end, |row| flavour.key(row))
            .map_err(|error| error.in_file(self.name()))
    }

    /// The row at `at`, and the offset of the next one. `None` after the last.
    pub(crate) fn row(&self, at: usize) -> Result<Option<(&[u8], usize)>> {
        self.idx
            .line(at)
            .map_err(|error| error.in_file(self.name()))
    }

    /// The offsets of the rows, in order. Ends after an error.
    pub(crate) fn row_starts(&self) -> impl Iterator<Item = Result<usize>> + '_ {
        let mut at = Some(self.rows);
        std::iter::from_fn(move || {
            let start = at?;
            match self.row(start) {
                Ok(Some((_, next))) => {
                    at = Some(next);
                    Some(Ok(start))
                }
                Ok(None) => None,
                Err(error) => {
                    at = None;
                    Some(Err(error))
                }
            }
        })
    }

    /// The number of lines before the rows.
    pub(super) fn header_lines(&self) -> Result<u64> {
        let (mut at, mut lines) = (0, 0);
        while let Some((_, next)) = self.row(at)?.filter(|_| at < self.rows) {
            (at, lines) = (next, lines + 1);
        }
        Ok(lines)
    }

    /// The name of the `.idx` file.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// A data file that exists and is named in the `.loc` file, but has no rows.
    pub(super) fn parts_without_rows(&self, has_rows: impl Fn(&[u8]) -> bool) -> Option<String> {
        let mut parts: Vec<&[u8]> = self
            .locations
            .parts()
            .filter(|part| !has_rows(part))
            .collect();
        parts.sort_unstable();
        parts.into_iter().find_map(|part| {
            let bytes = self.file(part).ok()?.bytes;
            (bytes.size().ok()? > 0).then(|| bytes.name().to_owned())
        })
    }

    /// The offset of the row before the one at `at`.
    pub(crate) fn row_before(&self, at: usize) -> Result<Option<usize>> {
        if at <= self.rows {
            return Ok(None);
        }
        let start = self.idx.start_of((at - 1).min(self.idx.len() - 1));
        let start = start.map_err(|error| error.in_file(self.name()))?;
        Ok(Some(start.max(self.rows)))
    }

    /// The offset of the row at the fraction `place` / `places` of the index.
    pub(crate) fn row_near(&self, place: usize, places: usize) -> Result<usize> {
        let bytes = (self.idx.len() - self.rows) as u128;
        let at = self.rows + (bytes * place as u128 / places.max(1) as u128) as usize;
        let start = self.idx.start_of(at);
        let start = start.map_err(|error| error.in_file(self.name()))?;
        Ok(start.max(self.rows))
    }

    /// The lines of the block of the row at `at`.
    pub(crate) fn block(&self, at: usize) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        if let Some((row, _)) = self.row(at)? {
            let row = self.parse(row, at)?;
            Blocks::new().read(self, &row, &mut lines)?;
        }
        Ok(lines)
    }

    /// The start of the first line of a block, according to the row at `at`.
    pub(crate) fn key(&self, at: usize) -> Result<&[u8]> {
        let row = self.row(at)?.map_or(&[][..], |(row, _)| row);
        Ok(self.flavour.key(row))
    }

    /// Parses the row `row`, which is at `at`.
    pub(crate) fn parse<'a>(&'a self, row: &'a [u8], at: usize) -> Result<Row<'a>> {
        let mut row = self
            .flavour
            .parse(row)
            .map_err(|error| error.in_file(self.path.display()).at_byte(at as u64))?;
        if self.flavour == Flavour::Wacz {
            row.part = &self.only_part;
        }
        Ok(row)
    }

    pub(super) fn file(&self, part: &[u8]) -> Result<DataFile> {
        let files = || self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files().get(part) {
            return Ok(file.clone());
        }
        // Not locked: a remote file may answer slowly.
        let file = self.find(part)?;
        let mut files = files();
        if files.len() >= OPEN_FILES {
            files.clear();
        }
        // Another thread may have opened it, too. All reads should go through the same one, which
        // knows the version of a remote file.
        Ok(files.entry(part.to_vec()).or_insert(file).clone())
    }

    /// Opens the first of the candidate locations of a part that exists.
    fn find(&self, part: &[u8]) -> Result<DataFile> {
        let mut candidates = self.locations.candidates(part);
        let (mut refused, mut failed) = (None, None);
        let only = candidates.len() == 1;
        for candidate in candidates.drain(..) {
            let opened = match candidate {
                Candidate::File(path) => FileRange::open(&path).map(|file| DataFile {
                    bytes: Arc::new(file),
                    path: Some(path),
                }),
                Candidate::Url(url) => match &self.open {
                    Some(open) => open(&url).and_then(|bytes| {
                        // Nothing else to try: the first read will tell.
                        if !only {
                            bytes.size()?;
                        }
                        Ok(DataFile { bytes, path: None })
                    }),
                    None => Err(only_files(&url).in_file(self.name())),
                },
                Candidate::Refused(name) => {
                    let message = if self.locations.is_remote() {
                        format!("a remote index may not name the local file {name}")
                    } else {
                        format!("{name} is outside the folder of the index and is not read")
                    };
                    let error = Error::new(ErrorKind::Format(message));
                    refused = refused.or(Some(error.in_file(self.name())));
                    continue;
                }
            };
            match opened {
                Ok(file) => return Ok(file),
                Err(error) if error.is_missing() => failed = failed.or(Some(error)),
                // A message that says more than that there is no such file.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let error = refused.or(failed);
        Err(error.unwrap_or_else(|| Error::new(ErrorKind::NoIndex)))
    }
}

fn only_files(url: &str) -> Error {
    let message = format!("the data is at {url}, and only files are read");
    Error::new(ErrorKind::Format(message))
}

/// The content of the `.loc` file of a remote index.
fn read_locations(remote: &Remote<'_>) -> Result<Option<Vec<u8>>> {
    let (file, query) = match remote.url.find(['?', '#']) {
        Some(at) => remote.url.split_at(at),
        None => (remote.url, ""),
    };
    let Some((stem, _)) = file.rsplit_once('.') else {
        return Ok(None);
    };
    let read = || -> Result<Vec<u8>> {
        let file = (remote.open)(&format!("{stem}.loc{query}"))?;
        let size = file.size()?;
        if size > LARGEST_LOCATIONS {
            return Err(too_large(size).in_file(file.name()));
        }
        let mut text = vec![0; size as usize];
        file.read_at(0, &mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        // Some servers deny access to files that do not exist.
        Err(error) if error.is_missing() || error.is_denied() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes all lines of a ZipNum index. Blocks are inflated on `threads` threads.
///
/// # Errors
/// If a block cannot be read or is not where its row says, or if the rows are out of order or do not
/// cover all of the data.
pub fn unzip(
    zipnum: ZipNum,
    threads: usize,
    progress: &Progress,
    out: LineWriter,
) -> Result<Written> {
    zipnum.check_rows()?;
    let stored = |at: Result<usize>| -> Result<u64> {
        let at = at?;
        match zipnum.row(at)? {
            Some((row, _)) => Ok(zipnum.parse(row, at)?.length),
            None => Ok(0),
        }
    };
    let total = zipnum.row_starts().map(stored).sum::<Result<u64>>()?;
    progress.begin(Phase::Writing, Some(total));
    let zipnum = Arc::new(zipnum);
    let shared = Arc::clone(&zipnum);
    let mut inflating = Ordered::new(
        threads,
        || {
            let (zipnum, progress) = (Arc::clone(&shared), progress.clone());
            let mut blocks = Blocks::new();
            move |at: usize| -> Result<Vec<u8>> {
                let mut lines = Vec::new();
                if let Some((row, _)) = zipnum.row(at)? {
                    let row = zipnum.parse(row, at)?;
                    blocks.read(&zipnum, &row, &mut lines)?;
                    progress.add(row.length);
                }
                Ok(lines)
            }
        },
        out,
        |out, lines: Result<Vec<u8>>| out.push_lines(&lines?),
    )?;
    for at in zipnum.row_starts() {
        inflating.give(at?)?;
    }
    inflating.finish()?.finish()
}

/// Inflates the blocks of a ZipNum index, one at a time, into one buffer.
pub(crate) struct Blocks {
    decompressor: Decompressor,
    /// For blocks that are not inflated to their end.
    reader: MemberReader,
    packed: Vec<u8>,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            decompressor: Decompressor::new(),
            reader: MemberReader::default(),
            packed: Vec::new(),
        }
    }

    /// Inflates a block into `lines`.
    pub(crate) fn read(
        &mut self,
        zipnum: &ZipNum,
        row: &Row<'_>,
        lines: &mut Vec<u8>,
    ) -> Result<()> {
        let file = self.fetch(zipnum, row)?;
        self.inflate(lines)
            .and_then(|()| check_start(lines, row.key))
            .map_err(|error| error.in_file(file.name()).at_byte(row.offset))
    }

    /// Inflates a block into memory of its size, which `room` provides.
    pub(crate) fn read_into<M: DerefMut<Target = [u8]>>(
        &mut self,
        zipnum: &ZipNum,
        row: &Row<'_>,
        room: impl Fn(usize) -> M,
    ) -> Result<M> {
        let file = self.fetch(zipnum, row)?;
        let mut inflated = None;
        if let Some(size) = self.stored_size() {
            let mut lines = room(size);
            inflated = self.inflate_member(&mut lines).then_some(lines);
        }
        let lines = match inflated {
            Some(lines) => Ok(lines),
            None => self.inflate_members().map(|members| {
                let mut lines = room(members.len());
                lines.copy_from_slice(&members);
                lines
            }),
        };
        lines
            .and_then(|lines| check_start(&lines, row.key).map(|()| lines))
            .map_err(|error| error.in_file(file.name()).at_byte(row.offset))
    }

    /// Inflates a block into `lines` until there is a line that is not smaller than `end`. Whole lines
    /// only; all of them if there is no such line.
    pub(crate) fn read_until(
        &mut self,
        zipnum: &ZipNum,
        row: &Row<'_>,
        end: &[u8],
        lines: &mut Vec<u8>,
    ) -> Result<()> {
        let file = self.fetch(zipnum, row)?;
        self.inflate_until(end, lines)
            .and_then(|()| check_start(lines, row.key))
            .map_err(|error| error.in_file(file.name()).at_byte(row.offset))
    }

    /// Reads the bytes of a block.
    fn fetch(&mut self, zipnum: &ZipNum, row: &Row<'_>) -> Result<Arc<dyn RangeRead>> {
        zipnum.read_packed(row, &mut self.packed)?;
        Ok(zipnum.file(row.part)?.bytes)
    }

    /// Inflates the first lines: see [`read_until`](Blocks::read_until).
    fn inflate_until(&mut self, end: &[u8], lines: &mut Vec<u8>) -> Result<()> {
        self.reader.restart();
        if self.packed.is_empty() {
            lines.clear();
            return Ok(());
        }
        // All of it at once: pieces that are outgrown would leave gaps in memory.
        if let Some(size) = self.stored_size()
            && size > lines.capacity()
        {
            *lines = Vec::with_capacity(size + PIECE);
        }
        let mut filled = 0;
        // The start of the first line that was not compared yet.
        let mut seen = 0;
        loop {
            if lines.len() < filled + PIECE {
                lines.resize(filled + PIECE, 0);
            }
            let read = self
                .reader
                .read(&self.packed, &mut lines[filled..filled + PIECE])?;
            filled += read;
            if filled as u64 > LARGEST_BLOCK {
                return Err(too_large(filled as u64));
            }
            if let Some(newline) = memchr::memrchr(b'\n', &lines[seen..filled]) {
                let last = line_around(&lines[..seen + newline], seen + newline).0;
                seen += newline + 1;
                if &lines[last..seen - 1] >= end {
                    filled = seen;
                    break;
                }
            }
            if self.reader.is_ended() && !self.reader.next_member(&self.packed) {
                break;
            }
        }
        lines.truncate(filled);
        Ok(())
    }

    /// The size of the block according to its last four bytes, which is right if it is one member.
    fn stored_size(&self) -> Option<usize> {
        let size = match self.packed.last_chunk::<4>() {
            Some(size) => u64::from(u32::from_le_bytes(*size)),
            None => 0,
        };
        // Deflate cannot compress better than 1032 to 1: a larger size is invalid.
        let possible = size <= LARGEST_BLOCK && size <= self.packed.len() as u64 * 1032;
        possible.then_some(size as usize)
    }

    fn inflate(&mut self, lines: &mut Vec<u8>) -> Result<()> {
        if let Some(size) = self.stored_size() {
            lines.resize(size, 0);
            if self.inflate_member(lines) {
                return Ok(());
            }
        }
        *lines = self.inflate_members()?;
        Ok(())
    }

    /// Inflates a block that is a single member of the size of `lines`. Returns whether it is.
    fn inflate_member(&mut self, lines: &mut [u8]) -> bool {
        let done = self.decompressor.gzip_decompress(&self.packed, lines);
        done.is_ok_and(|done| done == lines.len()) && is_one_member(&self.packed)
    }

    /// Inflates a block of any number of members.
    fn inflate_members(&self) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        let read = MultiGzDecoder::new(&self.packed[..])
            .take(LARGEST_BLOCK + 1)
            .read_to_end(&mut lines);
        match read {
            Ok(_) if lines.len() as u64 > LARGEST_BLOCK => Err(too_large(lines.len() as u64)),
            Ok(_) => Ok(lines),
            Err(error) => Err(not_inflated(&error)),
        }
    }
}

fn not_inflated(error: &std::io::Error) -> Error {
    let compression = "gzip";
    Error::new(match error.kind() {
        std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated { compression },
        _ => ErrorKind::Corrupt {
            compression,
            detail: error.to_string(),
        },
    })
}

/// Checks that a block starts with the line given in its row.
fn check_start(lines: &[u8], key: &[u8]) -> Result<()> {
    if lines
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default()
        >= key
    {
        return Ok(());
    }
    let message = "the block does not start with the line given in its row";
    Err(Error::new(ErrorKind::Format(message.to_owned())))
}

pub(super) fn too_large(size: u64) -> Error {
    let message =
        format!("a block of {size} bytes or more exceeds the limit of {LARGEST_BLOCK} bytes");
    Error::new(ErrorKind::Format(message))
}

/// Whether there is certainly only one member. The decompressor stops after the first without
/// reporting its length. A later member would start with three known bytes; if these occur by
/// chance, the slow path is taken unnecessarily.
fn is_one_member(packed: &[u8]) -> bool {
    packed.len() < 2 || memchr::memmem::find(&packed[1..], &[0x1f, 0x8b, 8]).is_none()
}

/// Finds the `.idx` file in a folder.
fn find_idx(folder: &Path) -> Result<PathBuf> {
    for name in [Flavour::Cluster.file_name(), Flavour::Wacz.file_name()] {
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).doing("read the folder", folder)? {
        let path = entry.doing("read the folder", folder)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "idx" || extension == "summary")
        {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => {
            let message = if found.is_empty() {
                "no cluster.idx, index.idx, *.idx or *.summary in this folder"
            } else {
                "several .idx files in this folder: name the one to use"
            };
            Err(Error::new(ErrorKind::Format(message.to_owned())).in_file(folder.display()))
        }
    }
}

/// The `.loc` file of the same name, or the only one next to the `.idx` file.
fn find_locations(idx: &Path) -> Result<Locations> {
    let folder = match idx.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let same_name = idx.with_extension("loc");
    if same_name.is_file() {
        return Locations::read(&same_name);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).doing("read the folder", folder)? {
        let path = entry.doing("read the folder", folder)?.path();
        if path.extension().is_some_and(|extension| extension == "loc") && path.is_file() {
            found.push(path);
        }
    }
    match &found[..] {
        [only] => Locations::read(only),
        _ => Ok(Locations::beside(folder)),
    }
}

/// The data file named in a line `!meta 0 {…}`.
fn meta_file_name(line: &[u8]) -> Option<String> {
    let json = line.iter().position(|&byte| byte == b'{')?;
    let json: serde_json::Value = serde_json::from_slice(&line[json..]).ok()?;
    Some(json.get("filename")?.as_str()?.to_owned())
}
