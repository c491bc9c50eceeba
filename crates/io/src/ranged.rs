//! Bytes that can be read at any offset: a file, a section of a file, or a file on the Web.
//!
//! Code that needs only parts of a large file reads them through [`RangeRead`], so that it works on
//! remote files, too, without knowing about any protocol.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::meter;

/// Something whose bytes can be read at any offset, from several threads at a time.
pub trait RangeRead: Send + Sync {
    /// Its name for messages: a path or a URL.
    fn name(&self) -> &str;

    /// Its size in bytes.
    ///
    /// # Errors
    /// If that cannot be determined.
    fn size(&self) -> Result<u64>;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If there are fewer bytes, or they cannot be read. The error has the name.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The stamp of the current content. If it differs from an earlier one, the content has changed.
    ///
    /// # Errors
    /// If that cannot be determined.
    fn stamp(&self) -> Result<Stamp>;

    /// Whether every read has a high latency, so that reads should be few, large and concurrent.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Tells one content of a file from another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The size in bytes.
    pub size: u64,
    /// Identifies the content: device, inode and modification time, or an ETag. Empty if there is
    /// nothing but the size.
    pub tag: String,
}

impl Stamp {
    /// The stamp of a file.
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            size: metadata.len(),
            tag: format!(
                "{:x}-{:x}-{}.{:09}",
                metadata.dev(),
                metadata.ino(),
                metadata.mtime(),
                metadata.mtime_nsec()
            ),
        }
    }

    /// The stamp of the file that a path stands for now.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn of_path(path: &Path) -> Result<Stamp> {
        Ok(Stamp::of(&fs::metadata(path).doing("open", path)?))
    }
}

/// A regular file.
#[derive(Debug)]
pub struct FileRange {
    name: String,
    file: Arc<File>,
}

impl FileRange {
    /// Opens a file. Pipes and devices, which would block or never end, are refused.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<FileRange> {
        let metadata = fs::metadata(path).doing("open", path)?;
        if !metadata.is_file() {
            let message = "not a regular file".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(path.display()));
        }
        let file = File::open(path).doing("open", path)?;
        Ok(FileRange::new(Arc::new(file), path))
    }

    /// An open file.
    pub fn new(file: Arc<File>, path: &Path) -> FileRange {
        FileRange {
            name: path.display().to_string(),
            file,
        }
    }

    fn metadata(&self) -> Result<Metadata> {
        self.file.metadata().doing("read", &self.name)
    }
}

impl RangeRead for FileRange {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ends_early(&self.name),
                _ => Error::io("read", Path::new(&self.name), error),
            })
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp::of(&self.metadata()?))
    }
}

/// A section of something: an uncompressed entry of a zip archive.
pub struct Section {
    name: String,
    whole: Arc<dyn RangeRead>,
    start: u64,
    size: u64,
}

impl Section {
    /// The section of `size` bytes from `start` on. `name` is its own name, for messages.
    ///
    /// # Errors
    /// If `whole` ends before the section does.
    pub fn new(name: String, whole: Arc<dyn RangeRead>, start: u64, size: u64) -> Result<Section> {
        let end = start.checked_add(size);
        if end.is_none_or(|end| whole.size().is_ok_and(|whole| whole < end)) {
            return Err(ends_early(&name));
        }
        Ok(Section {
            name,
            whole,
            start,
            size,
        })
    }
}

impl RangeRead for Section {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(ends_early(&self.name));
        }
        self.whole.read_at(self.start + offset, buffer)
    }

    fn stamp(&self) -> Result<Stamp> {
        let mut stamp = self.whole.stamp()?;
        stamp.tag = format!("{} {}", stamp.tag, stamp.size);
        stamp.size = self.size;
        Ok(stamp)
    }

    fn is_remote(&self) -> bool {
        self.whole.is_remote()
    }
}

fn ends_early(name: &str) -> Error {
    Error::new(ErrorKind::EndsEarly).in_file(name)
}

/// Reads a regular file from a place on, whoever else reads it at the same time.
#[derive(Clone, Debug)]
pub struct FileReader {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) end: Option<u64>,
}

impl FileReader {
    /// Reads `file` from byte `at` on.
    pub fn new(file: Arc<File>, at: u64) -> FileReader {
        FileReader {
            file,
            at,
            end: None,
        }
    }

    /// Reads until the buffer is full, the file ends or an error.
    pub fn read_full(&mut self, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (filled, Some(error)),
            }
        }
        (filled, None)
    }
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.at));
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let read = meter::reading(|| self.file.read_at(&mut out[..most], self.at))?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_section_of_a_section_reads_what_a_slice_has(
            bytes: Vec<u8>,
            cuts in prop::array::uniform6(0usize..40),
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &bytes).unwrap();
            let whole: Arc<dyn RangeRead> = Arc::new(FileRange::open(file.path()).unwrap());
            let [a, b, c, d, e, f] = cuts;
            let slice = bytes.get(a..a + b);
            let section = Section::new("section".to_owned(), whole, a as u64, b as u64);
            prop_assert_eq!(section.is_ok(), slice.is_some());
            let (Ok(section), Some(slice)) = (section, slice) else { return Ok(()) };
            prop_assert_eq!(section.size().unwrap(), b as u64);
            let inner = slice.get(c..c + d);
            let section = Section::new("inner".to_owned(), Arc::new(section), c as u64, d as u64);
            prop_assert_eq!(section.is_ok(), inner.is_some());
            let (Ok(section), Some(inner)) = (section, inner) else { return Ok(()) };
            let mut buffer = vec![0; f];
            match (section.read_at(e as u64, &mut buffer), inner.get(e..e + f)) {
                (Ok(()), expected) => prop_assert_eq!(Some(&buffer[..]), expected),
                (Err(error), expected) => {
                    prop_assert!(expected.is_none());
                    prop_assert!(matches!(error.kind(), ErrorKind::EndsEarly));
                    prop_assert_eq!(error.place().file.as_deref(), Some("inner"));
                }
            }
        }
    }

    #[test]
    fn a_stamp_changes_with_the_content_and_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"one").unwrap();
        let file = FileRange::open(&path).unwrap();
        let first = file.stamp().unwrap();
        assert_eq!(file.stamp().unwrap(), first);
        assert_eq!(Stamp::of_path(&path).unwrap(), first);
        fs::write(folder.path().join("b"), b"two").unwrap();
        fs::rename(folder.path().join("b"), &path).unwrap();
        assert_ne!(Stamp::of_path(&path).unwrap(), first);
        // The open file is still the old one.
        assert_eq!(file.stamp().unwrap(), first);
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = FileRange::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
