//! Adds Last-Modified times to an index: `"lastmod"` in the rows that have one, and every other byte as
//! it was.
//!
//! Entries and rows are joined by file and offset. Entries that fit in memory are looked up while the
//! index is rewritten. If there are more, they are read in slices: each slice is joined with the index
//! in a pass of its own, which only reads it and notes the matches, in order, in a temporary file; the
//! last pass writes the index with all of them. Memory is bounded by that of a slice.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_index::layout::{FileLayout, Line};
use waypost_index::zipnum::{self, BlockRewrite, BlockWork, ZipNum};
use waypost_index::{Field, Fields};
use waypost_io::gzip::Gzip;
use waypost_io::pieces::{self, PIECE, Piece, Pieces};
use waypost_io::{
    AtomicFile, Error, ErrorKind, Format, IoContext, Mapped, Phase, Progress, Resources, Result,
    Source, Written, temporary,
};

use super::file::{Entry, Found, LastmodReader, Slice};

/// The index to rewrite.
pub enum Index {
    /// A ZipNum index, whose blocks keep their borders.
    ZipNum(Arc<ZipNum>),
    /// A file of CDXJ, compressed or not.
    File(Source),
}

/// How to write.
#[derive(Clone, Debug)]
pub struct Options {
    /// Compression level, from 1 (fastest) to 12 (smallest).
    pub level: u8,
    /// Limits.
    pub resources: Resources,
    /// Where to report progress.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: 6,
            resources: Resources::default(),
            progress: Progress::default(),
        }
    }
}

/// How many entries without a row are named.
const NAMED: usize = 5;

/// What was joined.
#[derive(Debug, Default)]
pub struct Added {
    /// Rows of captures.
    pub rows: u64,
    /// Rows that got a time.
    pub added: u64,
    /// Rows that had one before, and were left as they were.
    pub had: u64,
    /// Rows for whose file and offset there is an entry with another time of capture.
    pub other_capture: u64,
    /// Lines that are not rows of captures, and were left as they were.
    pub other_lines: u64,
    /// Entries.
    pub entries: u64,
    /// Entries that no row matched.
    pub left_over: u64,
    /// The first of them, with the names of their files.
    pub first_left_over: Vec<(String, Entry)>,
    /// The number of slices in which the entries were read.
    pub slices: usize,
    /// What was written.
    pub written: Written,
}

/// Counts of some lines.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rows: u64,
    added: u64,
    had: u64,
    other_capture: u64,
    other_lines: u64,
}

impl Tally {
    fn merge(&mut self, later: Tally) {
        self.rows += later.rows;
        self.added += later.added;
        self.had += later.had;
        self.other_capture += later.other_capture;
        self.other_lines += later.other_lines;
    }
}

/// A match: the number of the block, or 0 in a file; the number of the line in it; the time.
type Match = (u64, u64, i64);

/// Matches in a temporary file, sorted.
struct Matches {
    bytes: Mapped,
}

const MATCH: usize = 24;

impl Matches {
    fn at(&self, number: usize) -> Match {
        let field = |at: usize| {
            let start = number * MATCH + 8 * at;
            let bytes = self.bytes[start..start + 8].first_chunk().copied();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        (field(0), field(1), field(2).cast_signed())
    }

    fn find(&self, block: u64, line: u64) -> Option<i64> {
        let (mut low, mut high) = (0, self.bytes.len() / MATCH);
        while low < high {
            let middle = (low + high) / 2;
            let (b, l, time) = self.at(middle);
            match (b, l).cmp(&(block, line)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(time),
            }
        }
        None
    }
}

/// Where the times of rows come from.
enum Times {
    /// All entries.
    Slice(Slice),
    /// Matches of earlier passes.
    Matches(Vec<Matches>),
}

/// Finds the times of the lines of an index.
struct Joiner {
    layout: FileLayout,
    times: Times,
}

/// What is known about a line.
struct Joined {
    /// The time to add.
    time: Option<i64>,
}

impl Joiner {
    /// Joins a line without its line end.
    fn join(&self, line: &[u8], block: u64, number: u64, tally: &mut Tally) -> Joined {
        let wanted: Fields = Field::Filename | Field::Offset | Field::LastMod;
        let Line::Capture(capture, _) = self.layout.read(line, wanted, false) else {
            tally.other_lines += 1;
            return Joined { time: None };
        };
        tally.rows += 1;
        if capture.raw(Field::LastMod).is_some() {
            tally.had += 1;
            return Joined { time: None };
        }
        let time = match &self.times {
            Times::Matches(all) => all.iter().find_map(|matches| matches.find(block, number)),
            Times::Slice(slice) => {
                let (Some(file), Some(offset), Some(_)) = (
                    capture.text(Field::Filename),
                    capture.number(Field::Offset),
                    capture.json(),
                ) else {
                    return Joined { time: None };
                };
                match slice.find(&file, offset, capture.timestamp()) {
                    Found::Time(time) => Some(time),
                    Found::OtherCapture => {
                        tally.other_capture += 1;
                        None
                    }
                    Found::Nothing => None,
                }
            }
        };
        tally.added += u64::from(time.is_some());
        Joined { time }
    }

    /// Appends lines with their times. `first` is the number of the first line.
    fn rewrite(&self, lines: &[u8], block: u64, first: u64, out: &mut Vec<u8>) -> Tally {
        let mut tally = Tally::default();
        out.reserve(lines.len() + lines.len() / 8);
        for (number, full) in (first..).zip(lines.split_inclusive(|&byte| byte == b'\n')) {
            let line = without_end(full);
            let joined = self.join(line, block, number, &mut tally);
            match (joined.time, memchr::memrchr(b'}', line)) {
                (Some(time), Some(end)) => {
                    out.extend_from_slice(&full[..end]);
                    push_member(&line[..end], time, out);
                    out.extend_from_slice(&full[end..]);
                }
                _ => out.extend_from_slice(full),
            }
        }
        tally
    }

    /// The matches of lines.
    fn matches(&self, lines: &[u8], block: u64, first: u64) -> (Vec<Match>, Tally) {
        let mut tally = Tally::default();
        let lines = (first..).zip(lines.split_inclusive(|&byte| byte == b'\n'));
        let matches = lines
            .filter_map(|(number, full)| {
                let joined = self.join(without_end(full), block, number, &mut tally);
                Some((block, number, joined.time?))
            })
            .collect();
        (matches, tally)
    }
}

fn without_end(full: &[u8]) -> &[u8] {
    let line = full.strip_suffix(b"\n").unwrap_or(full);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends the member, spaced as the others of its object, which is given without its last brace.
fn push_member(object: &[u8], time: i64, out: &mut Vec<u8>) {
    let is_spaced = memchr::memmem::find(object, b"\": ").is_some();
    let is_empty = object.trim_ascii_end().ends_with(b"{");
    if !is_empty {
        out.extend_from_slice(if is_spaced { b", " } else { b"," });
    }
    let colon = if is_spaced { ": " } else { ":" };
    out.extend_from_slice(format!("\"lastmod\"{colon}\"{time}\"").as_bytes());
}

/// Adds the times in `lastmod` to `index` and writes it to `out`.
///
/// # Errors
/// If something cannot be read or written, or the index is not CDXJ.
pub fn add(index: &Index, lastmod: &[Source], options: &Options, out: &Path) -> Result<Added> {
    let layout = index.layout()?;
    let memory = options.resources.memory / 2;
    let mut slices = Slices::new(lastmod, memory);
    let mut added = Added::default();
    let folder = temporary::folder_in(&options.resources.temporary)?;
    let mut stored: Vec<Matches> = Vec::new();
    let mut slice = slices.next()?.unwrap_or_default();
    // As long as there is another slice, matches are noted.
    loop {
        added.slices += 1;
        added.entries += slice.len() as u64;
        let next = slices.next()?;
        if next.is_none() && stored.is_empty() {
            let joiner = Joiner {
                layout,
                times: Times::Slice(slice),
            };
            let (tally, joiner) = index.rewrite(joiner, options, out, &mut added)?;
            added.take(tally);
            if let Times::Slice(slice) = &joiner.times {
                added.leave(slice);
            }
            return Ok(added);
        }
        let joiner = Joiner {
            layout: layout.clone(),
            times: Times::Slice(slice),
        };
        let path = folder.path().join(format!("matches-{}", stored.len()));
        let (tally, joiner) = index.note(joiner, options, &path)?;
        // What does not match this slice may match another one.
        added.other_capture += tally.other_capture;
        if let Times::Slice(slice) = &joiner.times {
            added.leave(slice);
        }
        stored.push(Matches {
            bytes: Mapped::open(&path)?,
        });
        match next {
            Some(next) => slice = next,
            None => break,
        }
    }
    let other_capture = added.other_capture;
    let joiner = Joiner {
        layout,
        times: Times::Matches(stored),
    };
    let (tally, joiner) = index.rewrite(joiner, options, out, &mut added)?;
    if let Times::Matches(all) = &joiner.times {
        all.iter().try_for_each(|matches| matches.bytes.check())?;
    }
    added.take(tally);
    added.other_capture = other_capture;
    Ok(added)
}

impl Added {
    fn take(&mut self, tally: Tally) {
        self.rows = tally.rows;
        self.added = tally.added;
        self.had = tally.had;
        self.other_capture = tally.other_capture;
        self.other_lines = tally.other_lines;
    }

    fn leave(&mut self, slice: &Slice) {
        let (count, first) = slice.left_over(NAMED - self.first_left_over.len());
        self.left_over += count;
        self.first_left_over.extend(first);
    }
}

/// The slices of several files.
struct Slices<'a> {
    files: std::slice::Iter<'a, Source>,
    reader: Option<LastmodReader>,
    memory: usize,
}

impl<'a> Slices<'a> {
    fn new(files: &'a [Source], memory: usize) -> Slices<'a> {
        Slices {
            files: files.iter(),
            reader: None,
            memory,
        }
    }

    fn next(&mut self) -> Result<Option<Slice>> {
        loop {
            if let Some(reader) = &mut self.reader
                && let Some(slice) = reader.next_slice(self.memory / 2)?
            {
                return Ok(Some(slice));
            }
            match self.files.next() {
                Some(source) => self.reader = Some(LastmodReader::open(source)?),
                None => return Ok(None),
            }
        }
    }
}

impl Index {
    /// The layout, from the first lines. It must be CDXJ.
    fn layout(&self) -> Result<FileLayout> {
        let source = match self {
            Index::File(source) => source.clone(),
            Index::ZipNum(zipnum) => match zipnum.sources()?.into_iter().next() {
                Some(source) => source,
                None => return Ok(FileLayout::default()),
            },
        };
        let mut sample = vec![0; FileLayout::SAMPLE];
        let (length, error) = source.open()?.read_full(&mut sample);
        if let Some(error) = error {
            return Err(error);
        }
        let sample = &sample[..length];
        let layout = FileLayout::detect(sample);
        let is_cdxj = sample.split(|&byte| byte == b'\n').take(100).any(|line| {
            matches!(layout.read(line, Fields::NONE, false), Line::Capture(capture, _) if capture.json().is_some())
        });
        if !is_cdxj && !sample.trim_ascii().is_empty() {
            let message = "not CDXJ: only rows with JSON can hold Last-Modified times".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(source));
        }
        Ok(layout)
    }

    /// Writes the index with the times of `joiner`.
    fn rewrite(
        &self,
        joiner: Joiner,
        options: &Options,
        out: &Path,
        added: &mut Added,
    ) -> Result<(Tally, Arc<Joiner>)> {
        let threads = options.resources.threads;
        let joiner = Arc::new(joiner);
        match self {
            Index::ZipNum(zipnum) => {
                let shared = Arc::clone(&joiner);
                let work: BlockRewrite<Tally> =
                    Arc::new(move |block, lines, out| shared.rewrite(lines, block, 0, out));
                let take = |all: &mut Tally, tally| {
                    all.merge(tally);
                    Ok(())
                };
                let (level, progress) = (options.level, &options.progress);
                let (tally, written) = zipnum::rewrite(
                    zipnum,
                    out,
                    level,
                    threads,
                    progress,
                    &work,
                    Tally::default(),
                    take,
                )?;
                added.written = written;
                Ok((tally, joiner))
            }
            Index::File(source) => {
                let gzip = match Format::of_name(out) {
                    Format::Gzip { .. } => Some(options.level),
                    Format::Plain => None,
                };
                options.progress.begin(Phase::Writing, source.size());
                let mut file = AtomicFile::create(out)?;
                let mut all = Tally::default();
                let mut written = Written::default();
                let worker = || {
                    let mut gzip = gzip.map(Gzip::new);
                    let joiner = &joiner;
                    move |piece: Piece| {
                        check_length(&piece, source)?;
                        let mut lines = Vec::new();
                        let tally = joiner.rewrite(piece.bytes(), 0, piece.first_line, &mut lines);
                        let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
                        let size = lines.len() as u64;
                        if let Some(gzip) = &mut gzip {
                            let mut packed = Vec::new();
                            gzip.compress(&lines, &mut packed)?;
                            lines = packed;
                        }
                        Ok((lines, count, size, tally))
                    }
                };
                let pieces = Pieces::new(source.to_string(), source.open()?, 4 * PIECE);
                pieces::run(threads, pieces, worker, |(bytes, lines, size, tally)| {
                    all.merge(tally);
                    written.lines += lines;
                    written.bytes_in += size;
                    written.bytes_out += bytes.len() as u64;
                    options.progress.add(size);
                    file.write_all(&bytes).doing("write", out)
                })?;
                file.commit()?;
                added.written = written;
                Ok((all, joiner))
            }
        }
    }

    /// Writes the matches of `joiner` to a temporary file.
    fn note(&self, joiner: Joiner, options: &Options, path: &Path) -> Result<(Tally, Arc<Joiner>)> {
        let threads = options.resources.threads;
        let joiner = Arc::new(joiner);
        let mut notes = Notes::create(path)?;
        match self {
            Index::ZipNum(zipnum) => {
                let shared = Arc::clone(&joiner);
                let work: BlockWork<(Vec<Match>, Tally)> =
                    Arc::new(move |block, lines| shared.matches(lines, block, 0));
                let take = |notes: &mut Notes, found| notes.take(found);
                notes = zipnum::each_block(zipnum, threads, &options.progress, &work, notes, take)?;
            }
            Index::File(source) => {
                options.progress.begin(Phase::Reading, source.size());
                let joiner = &joiner;
                let worker = || {
                    move |piece: Piece| {
                        check_length(&piece, source)?;
                        Ok::<_, Error>(joiner.matches(piece.bytes(), 0, piece.first_line))
                    }
                };
                let pieces = Pieces::new(source.to_string(), source.open()?, 4 * PIECE);
                pieces::run(threads, pieces, worker, |found| notes.take(found))?;
            }
        }
        Ok((notes.finish()?, joiner))
    }
}

fn check_length(piece: &Piece, source: &Source) -> Result<()> {
    if piece.too_long {
        let message = "the line is too long".to_owned();
        let error = Error::new(ErrorKind::Format(message));
        return Err(error.in_file(source).at_line(piece.first_line));
    }
    Ok(())
}

/// Writes matches.
struct Notes {
    path: PathBuf,
    out: std::io::BufWriter<std::fs::File>,
    tally: Tally,
}

impl Notes {
    fn create(path: &Path) -> Result<Notes> {
        let file = std::fs::File::create(path).doing("write", path)?;
        Ok(Notes {
            path: path.to_owned(),
            out: std::io::BufWriter::with_capacity(1 << 18, file),
            tally: Tally::default(),
        })
    }

    fn take(&mut self, (matches, tally): (Vec<Match>, Tally)) -> Result<()> {
        self.tally.merge(tally);
        for (block, line, time) in matches {
            for number in [block, line, time.cast_unsigned()] {
                let bytes = number.to_le_bytes();
                self.out.write_all(&bytes).doing("write", &self.path)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Tally> {
        self.out.flush().doing("write", &self.path)?;
        Ok(self.tally)
    }
}
