//! Opening an input once, whatever it is: a regular file, a pipe, standard input.
//!
//! Several parts of a program read the same input: one detects what it is, the next reads it, and
//! some read it twice. All of them must see the same bytes.
//!
//! A regular file stays open for as long as its [`Source`] lives, so that a file that
//! is renamed to its path meanwhile is not read instead. If there are more than 64 of them, the
//! others are opened again, and it is an error if the file is no longer the same.
//!
//! A pipe can be read only once. Every pipe that is opened is remembered by its device and inode
//! until the process ends:
//!
//! - A reader that has read no more than 32 MiB gives them back when it is dropped, and the next one
//!   reads them again.
//! - [`Source::keep`](crate::Source::keep) writes all of it to an unnamed temporary file, which is
//!   read instead from then on.
//! - Opening a pipe of which more was read than is kept is an error. Nothing is ever lost silently.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::Crc;

use crate::LONGEST_LINE;
use crate::adapters::{self, TableAdapter};
use crate::ahead::AheadReader;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::meter;
use crate::ranged::{FileRange, FileReader, RangeRead};
use crate::source::Source;

/// How many bytes of a pipe are given back: enough for a first line of any length.
pub(crate) const KEPT: usize = 2 * LONGEST_LINE;

/// What kind of thing an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A file that can be read at any place, and again.
    Regular,
    /// A pipe, FIFO, socket or device, which can be read once.
    Pipe,
    /// Standard input, when it is no regular file.
    Stdin,
}

/// How many regular files are kept open. Systems allow 256 or 1024 by default, and a merge opens 150.
const MOST_HELD: usize = 64;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// An input that is open for reading.
pub(crate) enum Opened {
    /// A regular file, a section of one, or something else that was kept.
    Regular(FileSection),
    Pipe(PipeReader),
    Inflated(Inflater),
    Remote(AheadReader),
    /// The lines of a table.
    Table(Box<dyn Read + Send>),
}

/// A regular file, or a section of one, that is open.
#[derive(Clone, Debug)]
pub struct FileSection {
    /// The file.
    pub file: Arc<File>,
    /// Where the section starts.
    pub start: u64,
    /// Its length.
    pub length: u64,
    /// Where reading ends, if the file goes on after the section.
    end: Option<u64>,
}

impl FileSection {
    fn whole(file: Arc<File>, length: u64) -> FileSection {
        FileSection {
            file,
            start: 0,
            length,
            end: None,
        }
    }

    /// Whether this is the whole file.
    pub(crate) fn is_whole(&self) -> bool {
        self.end.is_none()
    }

    /// Reads from byte `at` of the section on.
    pub fn reader(&self, at: u64) -> FileReader {
        FileReader {
            file: Arc::clone(&self.file),
            at: self.start.saturating_add(at),
            end: self.end,
        }
    }
}

/// An input that is known: what its path stood for when it was first opened.
pub(crate) enum Entry {
    Regular(Regular),
    Pipe(Arc<Pipe>),
    Part(Box<Part>),
    Remote(Remote),
    Table(Table),
}

/// A table, which is read as lines.
pub(crate) struct Table {
    bytes: Arc<dyn RangeRead>,
    adapter: &'static TableAdapter,
    /// The temporary file that its lines were written to.
    kept: Mutex<Option<FileSection>>,
}

impl Table {
    fn open(&self) -> Result<Opened> {
        if let Some(kept) = &*locked(&self.kept) {
            return Ok(Opened::Regular(kept.clone()));
        }
        let lines = (self.adapter.lines)(Arc::clone(&self.bytes))?;
        Ok(Opened::Table(lines))
    }
}

/// A file that is not on this machine.
pub(crate) struct Remote {
    bytes: Arc<dyn RangeRead>,
    connections: usize,
    /// The temporary file that it was copied to.
    kept: Mutex<Option<FileSection>>,
}

impl Remote {
    pub(crate) fn new(bytes: Arc<dyn RangeRead>, connections: usize) -> Remote {
        Remote {
            bytes,
            connections,
            kept: Mutex::default(),
        }
    }

    /// The bytes from `start` to `end`, or to the end of the file.
    pub(crate) fn section(&self, start: u64, end: u64) -> Result<AheadReader> {
        let end = end.min(self.bytes.size()?);
        let bytes = Arc::clone(&self.bytes);
        let connections = self.connections;
        Ok(AheadReader::of_section(bytes, connections, start, end))
    }

    /// Its name for messages, without a password.
    pub(crate) fn name(&self) -> &str {
        self.bytes.name()
    }

    fn open(&self) -> Result<Opened> {
        if let Some(kept) = &*locked(&self.kept) {
            return Ok(Opened::Regular(kept.clone()));
        }
        let reader = AheadReader::new(Arc::clone(&self.bytes), self.connections)?;
        Ok(Opened::Remote(reader))
    }
}

/// A part of another input, such as an entry of a zip archive.
pub(crate) struct Part {
    container: Source,
    start: u64,
    length: u64,
    packing: Packing,
    /// The temporary file that it was inflated to.
    kept: Mutex<Option<FileSection>>,
}

/// How a part is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Stored,
    /// Deflated, from this size and with this checksum.
    Deflated {
        size: u64,
        crc: u32,
    },
}

impl Part {
    pub(crate) fn new(container: Source, start: u64, length: u64, packing: Packing) -> Part {
        Part {
            container,
            start,
            length,
            packing,
            kept: Mutex::default(),
        }
    }

    fn open(&self) -> Result<Opened> {
        if let Some(kept) = &*locked(&self.kept) {
            return Ok(Opened::Regular(kept.clone()));
        }
        let Some(whole) = self.container.file()? else {
            return Err(read_already(self.container.path()));
        };
        let start = whole.start + self.start;
        let section = FileSection {
            file: whole.file,
            start,
            length: self.length,
            end: Some(start + self.length),
        };
        Ok(match self.packing {
            Packing::Stored => Opened::Regular(section),
            Packing::Deflated { size, crc } => Opened::Inflated(Inflater::new(&section, size, crc)),
        })
    }
}

/// A regular file.
pub(crate) struct Regular {
    /// `None` if too many files are open.
    file: Option<Arc<File>>,
    length: u64,
    version: Version,
}

/// Tells a file from another one with the same path.
#[derive(PartialEq, Eq)]
struct Version {
    node: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Version {
        Version {
            node: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Regular {
    /// Keeps the file open, unless too many are and it can be opened again.
    fn new(file: File, metadata: &Metadata, can_reopen: bool) -> Regular {
        let held = HELD.fetch_add(1, Ordering::Relaxed);
        let file = (held < MOST_HELD || !can_reopen).then(|| Arc::new(file));
        if file.is_none() {
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
        Regular {
            file,
            length: metadata.len(),
            version: Version::of(metadata),
        }
    }

    fn open(&self, path: &Path) -> Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = File::open(path).doing("open", path)?;
        if Version::of(&file.metadata().doing("open", path)?) != self.version {
            let message = "the file was replaced or changed while it was in use".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(path.display()));
        }
        Ok(Arc::new(file))
    }
}

impl Drop for Regular {
    fn drop(&mut self) {
        if self.file.is_some() {
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Stdin,
    Node(u64, u64),
}

pub(crate) struct Pipe {
    id: Id,
    state: Mutex<State>,
}

enum State {
    /// Nobody reads it. What was looked at comes first.
    Ready(File, Vec<u8>),
    /// Somebody reads it, or has read more than is kept.
    Taken,
    /// Written to a temporary file.
    Kept(Arc<File>, u64),
}

static PIPES: Mutex<Vec<Arc<Pipe>>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn known(id: Id) -> Option<Arc<Pipe>> {
    locked(&PIPES).iter().find(|pipe| pipe.id == id).cloned()
}

/// Lets a pipe hold more than the usual 64 KiB, so that its writer and we wait for each other less
/// often. It is as it was where the system refuses.
fn widen(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(file, 1 << 20);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn id_of(metadata: &Metadata) -> Id {
    Id::Node(metadata.dev(), metadata.ino())
}

/// Whether two paths are one file, by device and inode: links and other spellings of a path are found.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let node = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    node(one).is_some_and(|one| node(other) == Some(one))
}

impl Entry {
    /// Opens `path`, unless it is a pipe that is known. `-` is standard input.
    pub(crate) fn new(path: &Path) -> Result<Entry> {
        if let Some((url, adapter)) = adapters::url_of(path) {
            let bytes = (adapter.open)(url)?;
            return Ok(match adapters::table() {
                Some(table) if adapters::is_table_name(url) => Entry::of_table(bytes, table),
                _ => Entry::Remote(Remote::new(bytes, adapter.connections)),
            });
        }
        if is_stdin(path) {
            if let Some(pipe) = known(Id::Stdin) {
                return Ok(Entry::Pipe(pipe));
            }
            let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
            return Entry::of_file(stdin.doing("read", path)?, path, true);
        }
        // Not opened before it is known to be new: opening a FIFO again would wait for a writer.
        let metadata = fs::metadata(path).doing("open", path)?;
        if metadata.is_dir() {
            let source = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(Error::io("read", path, source));
        }
        if !metadata.is_file()
            && let Some(pipe) = known(id_of(&metadata))
        {
            return Ok(Entry::Pipe(pipe));
        }
        Entry::of_file(File::open(path).doing("open", path)?, path, false)
    }

    fn of_file(file: File, path: &Path, stdin: bool) -> Result<Entry> {
        let metadata = file.metadata().doing("open", path)?;
        if metadata.is_file() {
            use std::io::Seek;
            // Another process may already have read the start of a redirected file.
            if !stdin || (&file).stream_position().is_ok_and(|at| at == 0) {
                if let Some(table) = adapters::table()
                    && starts_with(&file, table.magic)
                {
                    let bytes = FileRange::new(Arc::new(file), path);
                    return Ok(Entry::of_table(Arc::new(bytes), table));
                }
                return Ok(Entry::Regular(Regular::new(file, &metadata, !stdin)));
            }
        }
        let shared = metadata.file_type().is_fifo() || metadata.file_type().is_socket();
        let id = if stdin && !shared {
            Id::Stdin
        } else {
            id_of(&metadata)
        };
        let mut pipes = locked(&PIPES);
        if let Some(pipe) = pipes.iter().find(|pipe| pipe.id == id) {
            return Ok(Entry::Pipe(Arc::clone(pipe)));
        }
        widen(&file);
        let pipe = Arc::new(Pipe {
            id,
            state: Mutex::new(State::Ready(file, Vec::new())),
        });
        pipes.push(Arc::clone(&pipe));
        Ok(Entry::Pipe(pipe))
    }

    fn of_table(bytes: Arc<dyn RangeRead>, adapter: &'static TableAdapter) -> Entry {
        Entry::Table(Table {
            bytes,
            adapter,
            kept: Mutex::default(),
        })
    }

    /// Whether it can be opened again by its name, as often as needed.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Entry::Regular(_) | Entry::Remote(_) | Entry::Table(_))
    }

    /// The size of the file as it is stored, if it can be opened again.
    pub(crate) fn stored(&self) -> Result<Option<u64>> {
        Ok(match self {
            Entry::Regular(file) => Some(file.length),
            Entry::Remote(remote) => Some(remote.bytes.size()?),
            Entry::Table(table) => Some(table.bytes.size()?),
            Entry::Pipe(_) | Entry::Part(_) => None,
        })
    }

    /// The kind of the input. `path` is the one that it was opened with.
    pub(crate) fn kind(&self, path: &Path) -> InputKind {
        match self {
            Entry::Regular(_) => InputKind::Regular,
            Entry::Part(part) => match part.packing {
                Packing::Stored => InputKind::Regular,
                Packing::Deflated { .. } => InputKind::Pipe,
            },
            Entry::Remote(_) | Entry::Table(_) => InputKind::Pipe,
            Entry::Pipe(_) if is_stdin(path) => InputKind::Stdin,
            Entry::Pipe(_) => InputKind::Pipe,
        }
    }

    /// The length of a regular file or of a pipe that was kept.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Entry::Regular(file) => Some(file.length),
            Entry::Part(part) => Some(match part.packing {
                Packing::Stored => part.length,
                Packing::Deflated { size, .. } => size,
            }),
            Entry::Remote(remote) => remote.bytes.size().ok(),
            // That of its lines is not known before they are read.
            Entry::Table(table) => locked(&table.kept).as_ref().map(|kept| kept.length),
            Entry::Pipe(pipe) => match &*locked(&pipe.state) {
                State::Kept(_, length) => Some(*length),
                _ => None,
            },
        }
    }

    /// The input that this one is a part of.
    pub(crate) fn container(&self) -> Option<&Source> {
        match self {
            Entry::Part(part) => Some(&part.container),
            Entry::Regular(_) | Entry::Pipe(_) | Entry::Remote(_) | Entry::Table(_) => None,
        }
    }

    /// Opens the input for reading from its start.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened> {
        let pipe = match self {
            Entry::Regular(file) => {
                let section = FileSection::whole(file.open(path)?, file.length);
                return Ok(Opened::Regular(section));
            }
            Entry::Part(part) => return part.open(),
            Entry::Remote(remote) => return remote.open(),
            Entry::Table(table) => return table.open(),
            Entry::Pipe(pipe) => pipe,
        };
        let mut state = locked(&pipe.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Kept(file, length) => {
                *state = State::Kept(Arc::clone(&file), length);
                Ok(Opened::Regular(FileSection::whole(file, length)))
            }
            State::Ready(source, start) => {
                drop(state);
                Ok(Opened::Pipe(PipeReader {
                    pipe: Arc::clone(pipe),
                    source: Some(source),
                    kept: Some(start),
                    at: 0,
                }))
            }
            State::Taken => Err(read_already(path)),
        }
    }

    /// Makes sure that the input can be read again and at any place: writes a pipe, or what is
    /// inflated, to a temporary file in `folder`. Does nothing for regular files.
    pub(crate) fn keep(&self, path: &Path, folder: &Path) -> Result<()> {
        match self.open(path)? {
            Opened::Regular(_) => {}
            Opened::Inflated(mut inflater) => {
                let file = temporary_in(folder)?;
                let length = copy(&mut inflater, &file, path, folder)?;
                if let Entry::Part(part) = self {
                    *locked(&part.kept) = Some(FileSection::whole(Arc::new(file), length));
                }
            }
            Opened::Remote(mut reader) => {
                let file = temporary_in(folder)?;
                let length = copy(&mut reader, &file, path, folder)?;
                if let Entry::Remote(remote) = self {
                    *locked(&remote.kept) = Some(FileSection::whole(Arc::new(file), length));
                }
            }
            Opened::Table(mut lines) => {
                let file = temporary_in(folder)?;
                let length = copy(&mut lines, &file, path, folder)?;
                if let Entry::Table(table) = self {
                    *locked(&table.kept) = Some(FileSection::whole(Arc::new(file), length));
                }
            }
            Opened::Pipe(mut reader) => {
                let mut file = temporary_in(folder)?;
                // From here on, what was read is in the file only.
                let start = reader.kept.take().unwrap_or_default();
                let written = file.write_all(&start);
                let before = start.len() as u64;
                drop(start);
                written.doing("write a temporary file in", folder)?;
                let length = before + copy(&mut reader, &file, path, folder)?;
                *locked(&reader.pipe.state) = State::Kept(Arc::new(file), length);
            }
        }
        Ok(())
    }
}

/// Whether a file starts with these bytes.
fn starts_with(file: &File, magic: &[u8]) -> bool {
    let mut start = vec![0; magic.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == magic
}

fn temporary_in(folder: &Path) -> Result<File> {
    tempfile::tempfile_in(folder).doing("make a temporary file in", folder.to_owned())
}

/// Appends the rest of a reader to a file. Returns its length.
fn copy(reader: &mut dyn Read, mut file: &File, path: &Path, folder: &Path) -> Result<u64> {
    let mut buffer = vec![0; 1 << 18];
    let mut length = 0;
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => return Ok(length),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::from_read(error).in_file(path.display())),
        };
        file.write_all(&buffer[..read])
            .doing("write a temporary file in", folder)?;
        length += read as u64;
    }
}

fn read_already(path: &Path) -> Error {
    let name = if is_stdin(path) {
        "standard input"
    } else {
        "a pipe"
    };
    let message = format!("{name} can be read only once");
    Error::new(ErrorKind::Invalid(message)).in_file(path.display())
}

/// Reads a pipe. Gives back what it has read when it is dropped, unless that was too much.
pub(crate) struct PipeReader {
    pipe: Arc<Pipe>,
    source: Option<File>,
    /// All bytes from the start, unless they are too many.
    kept: Option<Vec<u8>>,
    /// How many of those this reader was given.
    at: usize,
}

impl Read for PipeReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(kept) = &self.kept
            && self.at < kept.len()
        {
            let read = out.len().min(kept.len() - self.at);
            out[..read].copy_from_slice(&kept[self.at..self.at + read]);
            self.at += read;
            return Ok(read);
        }
        let Some(source) = &mut self.source else {
            return Ok(0);
        };
        let read = meter::reading(|| source.read(out))?;
        match &mut self.kept {
            Some(kept) if kept.len() + read <= KEPT => {
                kept.extend_from_slice(&out[..read]);
                self.at = kept.len();
            }
            _ => self.kept = None,
        }
        Ok(read)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        if let (Some(source), Some(kept)) = (self.source.take(), self.kept.take()) {
            *locked(&self.pipe.state) = State::Ready(source, kept);
        }
    }
}

/// Inflates a section of a file, and compares its size and checksum at the end.
pub(crate) struct Inflater {
    source: FileReader,
    inflate: Decompress,
    input: Vec<u8>,
    start: usize,
    end: usize,
    crc: Crc,
    given: u64,
    expected: (u64, u32),
    /// Whether the deflated data has ended.
    ended: bool,
    done: bool,
}

impl Inflater {
    fn new(section: &FileSection, size: u64, crc: u32) -> Inflater {
        Inflater {
            source: section.reader(0),
            inflate: Decompress::new(false),
            input: vec![0; 64 * 1024],
            start: 0,
            end: 0,
            crc: Crc::new(),
            given: 0,
            expected: (size, crc),
            ended: false,
            done: false,
        }
    }

    fn corrupt(detail: &str) -> io::Error {
        Error::new(ErrorKind::Corrupt {
            compression: "deflate",
            detail: detail.to_owned(),
        })
        .into()
    }

    fn finish(&mut self) -> io::Result<usize> {
        self.done = true;
        if self.given != self.expected.0 {
            return Err(Inflater::corrupt("the length differs"));
        }
        match self.crc.sum() == self.expected.1 {
            true => Ok(0),
            false => Err(Inflater::corrupt("the checksum differs")),
        }
    }
}

impl Read for Inflater {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.done && !out.is_empty() {
            if self.ended {
                return self.finish();
            }
            if self.start == self.end {
                (self.start, self.end) = (0, self.source.read(&mut self.input)?);
            }
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let input = &self.input[self.start..self.end];
            let is_cut = input.is_empty();
            let result = self.inflate.decompress(input, out, FlushDecompress::None);
            let read = (self.inflate.total_in() - read) as usize;
            let written = (self.inflate.total_out() - written) as usize;
            self.start += read;
            self.crc.update(&out[..written]);
            self.given += written as u64;
            self.ended = matches!(result, Ok(Status::StreamEnd));
            match result {
                // A file that inflates to more than its directory says may never end.
                Ok(_) if self.given > self.expected.0 => return self.finish(),
                Ok(_) if written > 0 => return Ok(written),
                Ok(_) if is_cut && read == 0 && !self.ended => {
                    self.done = true;
                    let compression = "deflate";
                    return Err(Error::new(ErrorKind::Truncated { compression }).into());
                }
                Ok(_) => {}
                Err(_) => {
                    self.done = true;
                    return Err(Inflater::corrupt("it cannot be inflated"));
                }
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapped, Source};
    use std::path::PathBuf;
    use std::process::Command;
    use std::thread;

    fn fifo(folder: &Path, text: Vec<u8>) -> PathBuf {
        let path = folder.join("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let writer = path.clone();
        thread::spawn(move || fs::write(writer, text));
        path
    }

    fn all(source: &Source) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut stream = source.open()?;
        stream.read_to_end(&mut bytes).map_err(Error::from_read)?;
        Ok(bytes)
    }

    #[test]
    fn looking_at_a_pipe_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        let path = fifo(folder.path(), text.clone());
        assert_eq!(Source::new(&path).kind().unwrap(), InputKind::Pipe);
        for size in [10, 100_000, 500_000] {
            let mut stream = Source::new(&path).open().unwrap();
            let mut start = vec![0; size];
            stream.read_exact(&mut start).unwrap();
            assert!(text.starts_with(&start));
        }
        let source = Source::new(&path);
        assert!(all(&source).unwrap() == text);
        assert_eq!(source.file().unwrap().map(|file| file.length), None);
        // All of it is less than what is kept.
        source.keep(folder.path()).unwrap();
        for source in [source, Source::new(&path)] {
            assert_eq!(source.kind().unwrap(), InputKind::Pipe);
            let length = source.file().unwrap().map(|file| file.length);
            assert_eq!(length, Some(text.len() as u64));
            assert!(all(&source).unwrap() == text);
            assert!(all(&source).unwrap() == text);
        }
    }

    #[test]
    fn a_pipe_of_which_too_much_was_read_is_refused_and_not_read_from_its_middle() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path(), vec![b'x'; KEPT + 1000]);
        let source = Source::new(&path);
        assert_eq!(all(&source).unwrap().len(), KEPT + 1000);
        let error = all(&source).unwrap_err();
        assert!(error.to_string().contains("only once"), "{error}");
        assert!(source.keep(folder.path()).is_err());
    }

    /// A file that is renamed to the path of an open source is not read in its place.
    #[test]
    fn a_file_that_is_replaced_between_two_passes_is_still_the_one_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (first, second) in [("old\n", "newer\n"), ("", "new\n")] {
            fs::write(&path, first).unwrap();
            let source = Source::new(&path);
            assert_eq!(source.kind().unwrap(), InputKind::Regular);
            let other = folder.path().join("b");
            fs::write(&other, second).unwrap();
            fs::rename(&other, &path).unwrap();
            let copy = source.clone();
            for source in [&source, &copy] {
                assert_eq!(all(source).unwrap(), first.as_bytes());
                assert_eq!(source.size(), Some(first.len() as u64));
                assert_eq!(*Mapped::of(source).unwrap(), *first.as_bytes());
            }
            fs::remove_file(&path).unwrap();
            assert_eq!(all(&source).unwrap(), first.as_bytes());
            assert!(all(&Source::new(&path)).is_err());
        }
    }

    #[test]
    fn with_many_sources_a_replaced_file_is_an_error_and_never_another_content() {
        let folder = tempfile::tempdir().unwrap();
        let sources: Vec<Source> = (0..MOST_HELD + 20)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, format!("old {number}\n")).unwrap();
                let source = Source::new(path);
                source.kind().unwrap();
                source
            })
            .collect();
        let is_held = |source: &Source| matches!(source.entry().unwrap(), Entry::Regular(file) if file.file.is_some());
        assert!(sources.iter().any(|source| !is_held(source)));
        for (number, source) in sources.iter().enumerate() {
            assert_eq!(all(source).unwrap(), format!("old {number}\n").as_bytes());
            let other = folder.path().join("other");
            fs::write(&other, format!("new {number}\n")).unwrap();
            fs::rename(&other, source.path()).unwrap();
            match all(source) {
                Ok(text) => assert_eq!(text, format!("old {number}\n").as_bytes()),
                Err(error) => {
                    assert!(!is_held(source));
                    assert!(error.to_string().contains("replaced"), "{error}");
                }
            }
        }
    }
}
