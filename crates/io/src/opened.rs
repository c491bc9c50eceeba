//! Opening an input once, whatever it is: a regular file, a pipe, standard input.
//!
//! A pipe can be read only once, but several parts of a program want to look at an input: one tells
//! what it is, the next reads it, and some read it twice. So every pipe that is opened is remembered
//! by its device and inode for as long as the process lives:
//!
//! - A reader that has looked at no more than 32 MiB gives them back when it is dropped, and
//!   the next one sees them again.
//! - [`Source::keep`](crate::Source::keep) writes all of it to a temporary file without a name. From then on, whoever opens the
//!   pipe gets that file.
//! - Opening a pipe of which more was read than is kept is an error. Nothing is ever lost silently.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::LONGEST_LINE;
use crate::error::{Error, ErrorKind, IoContext, Result};

/// How many bytes of a pipe are given back: enough to meet a first line of any length.
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

/// An input that is open.
pub(crate) enum Opened {
    /// A regular file, or a pipe that was kept; with its length.
    Regular(Arc<File>, u64),
    Pipe(PipeReader),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Stdin,
    Node(u64, u64),
}

struct Pipe {
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

/// The kind of the input `path`; `-` is standard input.
pub(crate) fn kind(path: &Path) -> Result<InputKind> {
    Ok(match entry(path)? {
        Entry::Regular(..) => InputKind::Regular,
        Entry::Pipe(_) if is_stdin(path) => InputKind::Stdin,
        Entry::Pipe(_) => InputKind::Pipe,
    })
}

/// Opens `path`; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    match entry(path)? {
        Entry::Regular(file, length) => Ok(Opened::Regular(file, length)),
        Entry::Pipe(pipe) => {
            let mut state = locked(&pipe.state);
            match std::mem::replace(&mut *state, State::Taken) {
                State::Kept(file, length) => {
                    *state = State::Kept(Arc::clone(&file), length);
                    Ok(Opened::Regular(file, length))
                }
                State::Ready(source, start) => {
                    drop(state);
                    Ok(Opened::Pipe(PipeReader {
                        pipe,
                        source: Some(source),
                        kept: Some(start),
                        at: 0,
                    }))
                }
                State::Taken => Err(read_already(path)),
            }
        }
    }
}

/// Makes sure that `path` can be read again and at any place: writes a pipe to a temporary file in
/// `folder`. Does nothing for regular files.
pub(crate) fn keep(path: &Path, folder: &Path) -> Result<()> {
    let Opened::Pipe(mut reader) = open(path)? else {
        return Ok(());
    };
    let mut file =
        tempfile::tempfile_in(folder).doing("make a temporary file in", folder.to_owned())?;
    // From here on, what was read is in the file only.
    let start = reader.kept.take().unwrap_or_default();
    let written = file.write_all(&start);
    let mut length = start.len() as u64;
    drop(start);
    written.doing("write a temporary file in", folder)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("read", path, error)),
        };
        file.write_all(&buffer[..read])
            .doing("write a temporary file in", folder)?;
        length += read as u64;
    }
    *locked(&reader.pipe.state) = State::Kept(Arc::new(file), length);
    Ok(())
}

enum Entry {
    Regular(Arc<File>, u64),
    Pipe(Arc<Pipe>),
}

/// Looks a path up among the pipes that are known; else opens it.
fn entry(path: &Path) -> Result<Entry> {
    if is_stdin(path) {
        if let Some(pipe) = known(Id::Stdin) {
            return Ok(Entry::Pipe(pipe));
        }
        let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        return opened(stdin.doing("read", path)?, path, true);
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
    opened(File::open(path).doing("open", path)?, path, false)
}

fn opened(file: File, path: &Path, stdin: bool) -> Result<Entry> {
    let metadata = file.metadata().doing("open", path)?;
    if metadata.is_file() {
        use std::io::Seek;
        // Of a redirected file somebody else may have read the start already.
        if !stdin || (&file).stream_position().is_ok_and(|at| at == 0) {
            return Ok(Entry::Regular(Arc::new(file), metadata.len()));
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
    let pipe = Arc::new(Pipe {
        id,
        state: Mutex::new(State::Ready(file, Vec::new())),
    });
    pipes.push(Arc::clone(&pipe));
    Ok(Entry::Pipe(pipe))
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
        let read = source.read(out)?;
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

/// Reads a regular file from a place on, whoever else reads it at the same time.
#[derive(Clone, Debug)]
pub struct FileReader {
    file: Arc<File>,
    at: u64,
}

impl FileReader {
    /// Reads `file` from byte `at` on.
    pub fn new(file: Arc<File>, at: u64) -> FileReader {
        FileReader { file, at }
    }
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn all(path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match open(path)? {
            Opened::Pipe(mut reader) => reader.read_to_end(&mut bytes).doing("read", path)?,
            Opened::Regular(file, _) => FileReader::new(file, 0)
                .read_to_end(&mut bytes)
                .doing("read", path)?,
        };
        Ok(bytes)
    }

    #[test]
    fn whoever_looks_at_a_pipe_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        let path = fifo(folder.path(), text.clone());
        assert_eq!(kind(&path).unwrap(), InputKind::Pipe);
        for size in [10, 100_000, 500_000] {
            let Opened::Pipe(mut reader) = open(&path).unwrap() else {
                panic!("a FIFO is a pipe");
            };
            let mut start = vec![0; size];
            reader.read_exact(&mut start).unwrap();
            assert!(text.starts_with(&start));
        }
        assert!(all(&path).unwrap() == text);
        // All of it is less than what is kept.
        keep(&path, folder.path()).unwrap();
        assert_eq!(kind(&path).unwrap(), InputKind::Pipe);
        assert!(matches!(open(&path).unwrap(), Opened::Regular(..)));
        assert!(all(&path).unwrap() == text);
        assert!(all(&path).unwrap() == text);
    }

    #[test]
    fn a_pipe_of_which_too_much_was_read_is_refused_and_not_read_from_its_middle() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path(), vec![b'x'; KEPT + 1000]);
        assert_eq!(all(&path).unwrap().len(), KEPT + 1000);
        let error = all(&path).unwrap_err();
        assert!(error.to_string().contains("only once"), "{error}");
        assert!(keep(&path, folder.path()).is_err());
    }
}
