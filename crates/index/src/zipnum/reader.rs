//! Reads ZipNum: finds the blocks of a key range, and inflates their lines.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;
use libdeflater::Decompressor;
use waypost_io::{
    Error, ErrorKind, FileRange, IoContext, LineWriter, Mapped, Ordered, Phase, Progress,
    RangeRead, Result, Written,
};

use super::idx::{Flavour, Row};
use super::location::Locations;
use crate::search::{line_around, lower_bound};

/// Maximum size of an inflated block. A typical block has a megabyte.
pub(super) const LARGEST_BLOCK: u64 = 1 << 30;

/// How much is inflated at a time if only a part of a block may be needed.
const PIECE: usize = 32 << 10;

/// Maximum number of open data files.
const OPEN_FILES: usize = 64;

/// An open data file.
#[derive(Clone)]
pub(super) struct DataFile {
    pub(super) bytes: Arc<dyn RangeRead>,
    path: PathBuf,
}

/// A ZipNum index.
pub struct ZipNum {
    path: PathBuf,
    idx: Mapped,
    /// The offset of the first row, after header lines.
    rows: usize,
    flavour: Flavour,
    /// The only data file of a WACZ.
    only_part: Vec<u8>,
    locations: Locations,
    files: Mutex<HashMap<Vec<u8>, DataFile>>,
}

impl ZipNum {
    /// Opens the folder of a ZipNum index, or its `.idx` file.
    ///
    /// # Errors
    /// If the folder contains no `.idx` file, or several.
    pub fn open(path: &Path) -> Result<ZipNum> {
        let path = if path.is_dir() {
            find_idx(path)?
        } else {
            path.to_owned()
        };
        let idx = Mapped::open(&path)?;
        let mut rows = 0;
        let mut only_part = Vec::new();
        while idx.get(rows) == Some(&b'!') {
            let (_, end) = line_around(&idx, rows);
            if let Some(name) = meta_file_name(&idx[rows..end]) {
                only_part = name.into_bytes();
            }
            rows = (end + 1).min(idx.len());
        }
        let (_, end) = line_around(&idx, rows);
        let flavour = if rows > 0 || (end > rows && !idx[rows..end].contains(&b'\t')) {
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
            locations: find_locations(&path)?,
            path,
            idx,
            rows,
            flavour,
            only_part,
            files: Mutex::default(),
        };
        // Detect a file of another kind now, not at the first lookup that reads a row of it.
        if let Some((row, _)) = zipnum.row(rows) {
            zipnum.parse(row, rows)?;
        }
        Ok(zipnum)
    }

    /// Allows data files outside the folder of the index.
    #[must_use]
    pub fn anywhere(mut self, anywhere: bool) -> ZipNum {
        self.locations.anywhere(anywhere);
        self
    }

    /// The format of its rows.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        let rows = &self.idx[self.rows..];
        let newlines = memchr::memchr_iter(b'\n', rows).count() as u64;
        newlines + u64::from(rows.last().is_some_and(|&last| last != b'\n'))
    }

    /// The data files, each once, in the order of their first blocks.
    ///
    /// # Errors
    /// If a row is invalid or a data file is missing.
    pub fn parts(&self) -> Result<Vec<PathBuf>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut at = self.rows;
        while let Some((row, next)) = self.row(at) {
            let row = self.parse(row, at)?;
            // The blocks of a part are usually adjacent.
            if parts.last().is_none_or(|last| last != row.part)
                && !parts.iter().any(|known| known == row.part)
            {
                parts.push(row.part.to_vec());
            }
            at = next;
        }
        parts.iter().map(|part| Ok(self.file(part)?.path)).collect()
    }

    /// The offset of the row of the first block that may contain lines not smaller than `start`.
    pub(crate) fn first_row(&self, start: &[u8]) -> Result<usize> {
        let mut at = self.bound(start)?;
        // The block before starts with a smaller line and may extend to ours. A row contains only the
        // start of the first line of its block. If that is also the start of our line, or equal to
        // the row before, the block before that one must be read, too.
        while let Some(before) = self.row_before(at) {
            let key = self.key(before);
            at = before;
            let unsure = start.starts_with(key)
                || self.row_before(before).is_some_and(|b| self.key(b) == key);
            if !unsure {
                break;
            }
        }
        Ok(at)
    }

    /// The offset of the row of the first block that starts with `end` or a larger line.
    pub(crate) fn bound(&self, end: &[u8]) -> Result<usize> {
        let flavour = self.flavour;
        let found = lower_bound(&self.idx[self.rows..], end, |row| flavour.key(row));
        found
            .map(|at| self.rows + at)
            .map_err(|error| error.in_file(self.path.display()))
    }

    /// The row at `at`, and the offset of the next one. `None` after the last.
    pub(crate) fn row(&self, at: usize) -> Option<(&[u8], usize)> {
        if at >= self.idx.len() {
            return None;
        }
        let (_, end) = line_around(&self.idx, at);
        Some((&self.idx[at..end], end + 1))
    }

    /// The offsets of the rows, in order.
    pub(super) fn row_starts(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.rows;
        std::iter::from_fn(move || {
            let (_, next) = self.row(at)?;
            Some(std::mem::replace(&mut at, next))
        })
    }

    /// The number of lines before the rows.
    pub(super) fn header_lines(&self) -> u64 {
        memchr::memchr_iter(b'\n', &self.idx[..self.rows]).count() as u64
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
    pub(crate) fn row_before(&self, at: usize) -> Option<usize> {
        if at <= self.rows {
            return None;
        }
        Some(line_around(&self.idx, at - 1).0.max(self.rows))
    }

    /// The lines of the block at the fraction `place` / `places` of the index.
    pub(crate) fn block_near(&self, place: usize, places: usize) -> Result<Vec<u8>> {
        let bytes = (self.idx.len() - self.rows) as u128;
        let at = self.rows + (bytes * place as u128 / places.max(1) as u128) as usize;
        let mut lines = Vec::new();
        let start = line_around(&self.idx, at).0.max(self.rows);
        if let Some((row, _)) = self.row(start) {
            let row = self.parse(row, start)?;
            Blocks::new().read(self, &row, &mut lines)?;
        }
        Ok(lines)
    }

    /// The start of the first line of a block, according to the row at `at`.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let (_, end) = line_around(&self.idx, at);
        self.flavour.key(&self.idx[at..end])
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
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(part) {
            return Ok(file.clone());
        }
        let candidates = self.locations.candidates(part);
        let mut answer = None;
        for path in candidates.files {
            match FileRange::open(&path) {
                Ok(file) => {
                    if files.len() >= OPEN_FILES {
                        files.clear();
                    }
                    let bytes = Arc::new(file);
                    let file = DataFile { bytes, path };
                    files.insert(part.to_vec(), file.clone());
                    return Ok(file);
                }
                Err(error) => answer = answer.or(Some(error)),
            }
        }
        let message = if let Some(path) = candidates.outside.first() {
            format!(
                "{} is outside the folder of the index and is not read",
                path.display()
            )
        } else if let Some(url) = candidates.remote.first() {
            format!("the data is at {url}, and only files are read")
        } else {
            return Err(answer.unwrap_or_else(|| Error::new(ErrorKind::NoIndex)));
        };
        Err(Error::new(ErrorKind::Format(message)).in_file(self.path.display()))
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
    let stored = |at| -> Result<u64> {
        match zipnum.row(at) {
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
                if let Some((row, _)) = zipnum.row(at) {
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
        inflating.give(at)?;
    }
    inflating.finish()?.finish()
}

/// Inflates the blocks of a ZipNum index, one at a time, into one buffer.
pub(crate) struct Blocks {
    decompressor: Decompressor,
    packed: Vec<u8>,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            decompressor: Decompressor::new(),
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
        lines.clear();
        let mut inflater = MultiGzDecoder::new(&self.packed[..]);
        // The start of the first line that was not compared yet.
        let mut seen = 0;
        let inflated = loop {
            let before = lines.len();
            lines.resize(before + PIECE, 0);
            match inflater.read(&mut lines[before..]) {
                Ok(0) => {
                    lines.truncate(before);
                    break Ok(());
                }
                Ok(read) => lines.truncate(before + read),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    lines.truncate(before);
                }
                Err(error) => break Err(not_inflated(&error)),
            }
            if lines.len() as u64 > LARGEST_BLOCK {
                break Err(too_large(lines.len() as u64));
            }
            if let Some(newline) = memchr::memrchr(b'\n', &lines[seen..]) {
                let last = line_around(&lines[..seen + newline], seen + newline).0;
                seen += newline + 1;
                if &lines[last..seen - 1] >= end {
                    lines.truncate(seen);
                    break Ok(());
                }
            }
        };
        inflated
            .and_then(|()| check_start(lines, row.key))
            .map_err(|error| error.in_file(file.name()).at_byte(row.offset))
    }

    /// Reads the bytes of a block.
    fn fetch(&mut self, zipnum: &ZipNum, row: &Row<'_>) -> Result<Arc<dyn RangeRead>> {
        let file = zipnum.file(row.part)?.bytes;
        if row.length > LARGEST_BLOCK {
            return Err(too_large(row.length).in_file(zipnum.path.display()));
        }
        self.packed.clear();
        self.packed.resize(row.length as usize, 0);
        file.read_at(row.offset, &mut self.packed)
            .map_err(|error| error.in_file(file.name()).at_byte(row.offset))?;
        Ok(file)
    }

    fn inflate(&mut self, lines: &mut Vec<u8>) -> Result<()> {
        // The last four bytes of a member are its size, if the block is one member.
        let size = match self.packed.last_chunk::<4>() {
            Some(size) => u64::from(u32::from_le_bytes(*size)),
            None => 0,
        };
        // Deflate cannot compress better than 1032 to 1: a larger size is invalid.
        let possible = size <= LARGEST_BLOCK && size <= self.packed.len() as u64 * 1032;
        if possible {
            if lines.len() < size as usize {
                lines.resize(size as usize, 0);
            }
            lines.truncate(size as usize);
            let done = self.decompressor.gzip_decompress(&self.packed, lines);
            if done.is_ok_and(|done| done == lines.len()) && is_one_member(&self.packed) {
                return Ok(());
            }
        }
        lines.clear();
        let read = MultiGzDecoder::new(&self.packed[..])
            .take(LARGEST_BLOCK + 1)
            .read_to_end(lines);
        match read {
            Ok(_) if lines.len() as u64 > LARGEST_BLOCK => Err(too_large(lines.len() as u64)),
            Ok(_) => Ok(()),
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

fn too_large(size: u64) -> Error {
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
