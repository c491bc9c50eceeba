//! Inputs named by the user: files, folders, `-`.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::adapters;
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::opened::{Entry, FileSection, InputKind, Opened, Part, Remote};
use crate::ranged::{FileRange, RangeRead, Section};
use crate::stream::Stream;

/// One input: a file, a pipe, or standard input.
///
/// It is opened when it is first used and stays open. All clones read the bytes of the same file,
/// even if another file is renamed to its path meanwhile; see [`opened`](crate::opened).
#[derive(Clone)]
pub struct Source {
    path: PathBuf,
    entry: Arc<OnceLock<Entry>>,
}

/// The sources that a list of names stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The inputs in the order in which they were named; the files of a folder in the order of their
    /// names.
    pub sources: Vec<Source>,
    /// Files in folders that were skipped because of their names.
    pub skipped: Vec<PathBuf>,
}

impl Source {
    /// The input with this name; `-` is standard input.
    pub fn new(name: impl Into<PathBuf>) -> Source {
        Source {
            path: name.into(),
            entry: Arc::default(),
        }
    }

    /// Standard input.
    pub fn stdin() -> Source {
        Source::new("-")
    }

    /// A part of another input, such as an entry of a zip archive. `path` is its name for messages.
    pub(crate) fn of_part(path: PathBuf, part: Part) -> Source {
        Source {
            path,
            entry: Arc::new(OnceLock::from(Entry::Part(Box::new(part)))),
        }
    }

    /// A file that is not on this machine. It is read from its start, with up to `connections` requests
    /// at a time.
    pub fn of_remote(bytes: Arc<dyn RangeRead>, connections: usize) -> Source {
        Source {
            path: PathBuf::from(bytes.name()),
            entry: Arc::new(OnceLock::from(Entry::Remote(Remote::new(
                bytes,
                connections,
            )))),
        }
    }

    /// The input that this one is a part of, such as a zip archive.
    pub fn container(&self) -> Option<&Source> {
        self.entry.get()?.container()
    }

    /// Whether this is standard input.
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// The path; `-` is standard input.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it, unless it is open.
    pub(crate) fn entry(&self) -> Result<&Entry> {
        if let Some(entry) = self.entry.get() {
            return Ok(entry);
        }
        let entry = Entry::new(&self.path)?;
        Ok(self.entry.get_or_init(|| entry))
    }

    /// The kind of the input.
    ///
    /// # Errors
    /// If it does not exist or cannot be opened.
    pub fn kind(&self) -> Result<InputKind> {
        Ok(self.entry()?.kind(&self.path))
    }

    /// The size of the file in bytes, compressed as it is. `None` for pipes that are not
    /// [kept](Source::keep).
    pub fn size(&self) -> Option<u64> {
        let is_open = self.entry.get().is_some();
        // Opening a FIFO would wait for its writer.
        if !is_open && !self.is_stdin() && !self.path.is_file() {
            return None;
        }
        self.entry().ok()?.length()
    }

    /// Makes sure that it can be read several times and at any place: a pipe, or a deflated entry of a
    /// zip archive, is written to an unnamed temporary file in `folder`.
    ///
    /// # Errors
    /// If it cannot be read, too much of it was read before, or the disk is full.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        self.entry()?.keep(&self.path, folder)
    }

    /// The file, if it is a regular file, a section of one, or was [kept](Source::keep).
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn file(&self) -> Result<Option<FileSection>> {
        Ok(match self.entry()?.open(&self.path)? {
            Opened::Regular(section) => Some(section),
            Opened::Pipe(_) | Opened::Inflated(_) | Opened::Remote(_) | Opened::Table(_) => None,
        })
    }

    /// If it is plain text that can be read from any place on: the file, and the offset of its first line.
    ///
    /// # Errors
    /// If it cannot be opened or read, or is UTF-16.
    pub fn plain(&self) -> Result<Option<(FileSection, u64)>> {
        // A pipe can be opened only once at a time.
        let Some(file) = self.file()? else {
            return Ok(None);
        };
        let mut stream = self.open()?;
        if stream.compression() != Compression::Plain {
            return Ok(None);
        }
        // The start tells a byte-order mark.
        if let (_, Some(error)) = stream.read_full(&mut [0; 4]) {
            return Err(error);
        }
        let start = if stream.had_byte_order_mark() { 3 } else { 0 };
        Ok(Some((file, start)))
    }

    /// The rest of a gzip file, from `offset` on, where a member should begin.
    ///
    /// # Errors
    /// If it is not a regular file, or its first bytes cannot be read.
    pub fn gzip_at(&self, offset: u64) -> Result<Stream> {
        let Some(section) = self.file()? else {
            let why = "only a file can be read from its middle".to_owned();
            return Err(Error::new(ErrorKind::Invalid(why)).in_file(self));
        };
        Stream::gzip_at(self.to_string(), Box::new(section.reader(offset)), offset)
    }

    /// Whether it can be opened again by its path, here or on another machine that has it: a file, a URL,
    /// but not a pipe or a part of an archive.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn is_lasting(&self) -> Result<bool> {
        Ok(self.entry()?.is_lasting())
    }

    /// The size of a [lasting](Source::is_lasting) input, as it is stored.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn stored(&self) -> Result<Option<u64>> {
        self.entry()?.stored()
    }

    /// Reads the bytes from `start` to `end` as they are stored, or to the end of the file. `None` if it is
    /// neither a regular file nor a remote one.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn section(&self, start: u64, end: u64) -> Result<Option<Box<dyn Read + Send>>> {
        let entry = self.entry()?;
        Ok(match entry.open(&self.path)? {
            Opened::Regular(section) => Some(Box::new(
                section.reader(start).take(end.saturating_sub(start)),
            )),
            Opened::Remote(_) => match entry {
                Entry::Remote(remote) => Some(Box::new(remote.section(start, end)?)),
                _ => None,
            },
            Opened::Pipe(_) | Opened::Inflated(_) | Opened::Table(_) => None,
        })
    }

    /// Its bytes as stored, to be read at any offset. What is not in a file is first
    /// [kept](Source::keep) in `folder`.
    ///
    /// # Errors
    /// If it cannot be read, or the disk is full.
    pub fn ranged(&self, folder: &Path) -> Result<Arc<dyn RangeRead>> {
        self.keep(folder)?;
        let Opened::Regular(section) = self.entry()?.open(&self.path)? else {
            // Not reached: what was kept is regular.
            return Err(Error::new(ErrorKind::EndsEarly).in_file(self));
        };
        let whole = Arc::new(FileRange::new(Arc::clone(&section.file), &self.path));
        if section.is_whole() {
            return Ok(whole);
        }
        let name = self.to_string();
        Ok(Arc::new(Section::new(
            name,
            whole,
            section.start,
            section.length,
        )?))
    }

    /// Its bytes from the start, decompressed, as [text](Stream::text).
    ///
    /// # Errors
    /// If it does not exist or cannot be read, or is a pipe that was read already.
    pub fn open(&self) -> Result<Stream> {
        let source: Box<dyn Read + Send> = match self.entry()?.open(&self.path)? {
            Opened::Regular(section) => Box::new(section.reader(0)),
            Opened::Pipe(reader) => Box::new(reader),
            Opened::Inflated(inflater) => Box::new(inflater),
            Opened::Remote(reader) => Box::new(reader),
            Opened::Table(lines) => lines,
        };
        Ok(Stream::new(self.to_string(), source)?.text())
    }
}

/// Sources are equal if their paths are.
impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.path == other.path
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.path).finish()
    }
}

/// The name as the user gave it; a URL without a password.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry.get() {
            Some(Entry::Remote(remote)) => remote.name().fmt(f),
            _ => self.path.display().fmt(f),
        }
    }
}

/// Turns names into sources. Folders are searched recursively for files whose names are `wanted`. Hidden
/// files are skipped. URLs are not opened yet.
///
/// # Errors
/// If a name does not exist, a folder has no such file, or standard input is named twice.
pub fn expand<I>(names: I, wanted: impl Fn(&str) -> bool) -> Result<Expanded>
where
    I: IntoIterator,
    I::Item: Into<PathBuf>,
{
    let mut expanded = Expanded::default();
    for name in names {
        let source = Source::new(name);
        if source.is_stdin() {
            if expanded.sources.contains(&source) {
                return Err(Error::new(ErrorKind::Invalid(
                    "standard input (`-`) can be read only once".to_owned(),
                )));
            }
        } else if adapters::url_of(source.path()).is_none()
            && fs::metadata(source.path())
                .doing("open", source.path())?
                .is_dir()
        {
            let before = expanded.sources.len();
            walk(source.path(), &wanted, &mut expanded)?;
            if expanded.sources.len() == before {
                return Err(Error::new(ErrorKind::NoIndex).in_file(source));
            }
            continue;
        }
        expanded.sources.push(source);
    }
    Ok(expanded)
}

fn walk(folder: &Path, wanted: &dyn Fn(&str) -> bool, expanded: &mut Expanded) -> Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).doing("read the folder", folder)? {
        paths.push(entry.doing("read the folder", folder)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        // Links to folders are not followed: there may be cycles.
        let metadata = fs::symlink_metadata(&path).doing("read", &path)?;
        if metadata.is_dir() {
            walk(&path, wanted, expanded)?;
        } else if wanted(&name) && path.is_file() {
            expanded.sources.push(Source::new(path));
        } else {
            expanded.skipped.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cdx(name: &str) -> bool {
        name.contains(".cdx")
    }

    #[test]
    fn folders_are_searched_in_order_and_skipped_files_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for name in [
            "b.cdx",
            "a.cdxj.gz",
            "cluster.idx",
            ".hidden.cdx",
            "sub/c.cdx",
        ] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        let expanded = expand([folder.path(), Path::new("-")], is_cdx).unwrap();
        let names: Vec<String> = expanded
            .sources
            .iter()
            .map(|source| {
                source
                    .to_string()
                    .replace(&*folder.path().to_string_lossy(), "")
            })
            .collect();
        assert_eq!(names, ["/a.cdxj.gz", "/b.cdx", "/sub/c.cdx", "-"]);
        assert_eq!(expanded.skipped, [folder.path().join("cluster.idx")]);
    }

    #[test]
    fn a_folder_without_an_index_and_a_missing_file_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = expand([folder.path()], is_cdx).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoIndex), "{error}");
        let error = expand([folder.path().join("missing.cdx")], is_cdx).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Io { doing: "open", source }
                if source.kind() == std::io::ErrorKind::NotFound),
            "{error}"
        );
        let error = expand(["-", "-"], is_cdx).unwrap_err();
        assert!(error.to_string().contains("only once"), "{error}");
    }
}
