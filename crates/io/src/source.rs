//! Inputs named by the user: files, folders, `-`.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::opened::{self, FileReader, InputKind, Opened};
use crate::stream::Stream;

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file, which can be read again.
    File(PathBuf),
    /// Standard input, which cannot.
    Stdin,
}

/// The sources that a list of names stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// What to read, in the order named; the files of a folder in the order of their names.
    pub sources: Vec<Source>,
    /// Files in folders that were not wanted, by their name.
    pub skipped: Vec<PathBuf>,
}

impl Source {
    /// The source of a name: `-` is standard input.
    pub fn new(name: impl Into<PathBuf>) -> Source {
        let path = name.into();
        if path.as_os_str() == "-" {
            Source::Stdin
        } else {
            Source::File(path)
        }
    }

    /// The path; `-` is standard input.
    pub fn path(&self) -> &Path {
        match self {
            Source::File(path) => path,
            Source::Stdin => Path::new("-"),
        }
    }

    /// What kind of thing it is.
    ///
    /// # Errors
    /// When it does not exist or cannot be opened.
    pub fn kind(&self) -> Result<InputKind> {
        opened::kind(self.path())
    }

    /// How many bytes the file has, compressed as it is. `None` for pipes that are not kept.
    pub fn size(&self) -> Option<u64> {
        match self {
            Source::File(path) if fs::metadata(path).is_ok_and(|file| !file.is_file()) => None,
            _ => self.file().ok().flatten().map(|(_, length)| length),
        }
    }

    /// Makes sure that it can be read several times and at any place: a pipe is written to a
    /// temporary file in `folder`, which has no name and is gone when the process ends.
    ///
    /// # Errors
    /// When it cannot be read, too much of it was read before, or the disk is full.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        opened::keep(self.path(), folder)
    }

    /// The file and its length, if it is a regular file or a pipe that was [kept](Source::keep).
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn file(&self) -> Result<Option<(Arc<File>, u64)>> {
        Ok(match opened::open(self.path())? {
            Opened::Regular(file, length) => Some((file, length)),
            Opened::Pipe(_) => None,
        })
    }

    /// Opens it and gives its bytes, decompressed, as [text](Stream::text).
    ///
    /// # Errors
    /// When it does not exist or cannot be read, or is a pipe that was read already.
    pub fn open(&self) -> Result<Stream> {
        let source: Box<dyn Read + Send> = match opened::open(self.path())? {
            Opened::Regular(file, _) => Box::new(FileReader::new(file, 0)),
            Opened::Pipe(reader) => Box::new(reader),
        };
        Ok(Stream::new(self.to_string(), source)?.text())
    }
}

/// The name as the user gave it.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Stdin => f.write_str("-"),
        }
    }
}

/// Turns names into sources. Folders are walked to any depth; in them, files are taken whose names
/// are `wanted`. Hidden files are passed over.
///
/// # Errors
/// A name that does not exist, a folder without any such file, standard input named twice.
pub fn expand<I>(names: I, wanted: impl Fn(&str) -> bool) -> Result<Expanded>
where
    I: IntoIterator,
    I::Item: Into<PathBuf>,
{
    let mut expanded = Expanded::default();
    for name in names {
        let source = Source::new(name);
        match &source {
            Source::Stdin => {
                if expanded.sources.contains(&Source::Stdin) {
                    return Err(Error::new(ErrorKind::Invalid(
                        "standard input (`-`) can be read only once".to_owned(),
                    )));
                }
                expanded.sources.push(source);
            }
            Source::File(path) => {
                if fs::metadata(path).doing("open", path)?.is_dir() {
                    let before = expanded.sources.len();
                    walk(path, &wanted, &mut expanded)?;
                    if expanded.sources.len() == before {
                        return Err(Error::new(ErrorKind::NoIndex).in_file(path.display()));
                    }
                } else {
                    expanded.sources.push(source);
                }
            }
        }
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
        // Links to folders are not followed: they can lead in circles.
        let metadata = fs::symlink_metadata(&path).doing("read", &path)?;
        if metadata.is_dir() {
            walk(&path, wanted, expanded)?;
        } else if wanted(&name) && path.is_file() {
            expanded.sources.push(Source::File(path));
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
    fn folders_are_walked_in_order_and_what_is_not_read_is_known() {
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
