//! Files that appear complete or not at all.
//!
//! An output is written to an unnamed file, synced, and linked to its name when it is complete. A run
//! that fails or is killed leaves the old file, if any, and never a partial one. If the system has no
//! unnamed files, it is written under a temporary name in the same folder and renamed; so are folders,
//! and, for a moment, a file that replaces an old one.

mod unnamed;

use std::fs::{self, File, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{IoContext, Result};
use crate::meter;
use crate::temporary;

/// A file that is being written.
pub struct AtomicFile {
    path: PathBuf,
    inner: Inner,
}

enum Inner {
    /// An unnamed file.
    Unnamed(File),
    /// A file in the same folder, to be renamed.
    Beside(NamedTempFile),
    /// A device, a pipe or standard output: nothing to rename.
    Direct(Box<dyn Write + Send>),
    /// The same, written when all of it is in a temporary file.
    Spooled(File, Box<dyn Write + Send>),
}

impl AtomicFile {
    /// Starts to write `path`. `-` is standard output; devices and pipes are written directly.
    ///
    /// # Errors
    /// If the folder of `path` does not exist or cannot be written.
    pub fn create(path: &Path) -> Result<AtomicFile> {
        if path.as_os_str() == "-" {
            let inner = Inner::Direct(Box::new(io::stdout()));
            return Ok(AtomicFile::new(path.to_owned(), inner));
        }
        let path = behind_links(path);
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options()
                .write(true)
                .open(&path)
                .doing("write", &path)?;
            return Ok(AtomicFile::new(path, Inner::Direct(Box::new(file))));
        }
        let inner = match unnamed::create(folder_of(&path)) {
            Some(file) => Inner::Unnamed(file),
            None => Inner::Beside(beside(&path)?),
        };
        Ok(AtomicFile::new(path, inner))
    }

    /// Like [`create`](AtomicFile::create), for a file whose start is replaced at the end: what is for a
    /// device or a pipe waits in a temporary file.
    ///
    /// # Errors
    /// Like [`create`](AtomicFile::create); or if there can be no temporary file.
    pub fn create_rewritable(path: &Path) -> Result<AtomicFile> {
        let mut file = AtomicFile::create(path)?;
        if let Inner::Direct(out) = file.inner {
            let spool = tempfile::tempfile().doing("write a temporary file for", path)?;
            file.inner = Inner::Spooled(spool, out);
        }
        Ok(file)
    }

    fn new(path: PathBuf, inner: Inner) -> AtomicFile {
        AtomicFile { path, inner }
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// If the disk is full or the file cannot be renamed.
    pub fn commit(self) -> Result<()> {
        match self.inner {
            Inner::Direct(mut out) => out.flush().doing("write", &self.path),
            Inner::Spooled(mut spool, mut out) => spool
                .rewind()
                .and_then(|()| io::copy(&mut spool, &mut out))
                .and_then(|_| out.flush())
                .doing("write", &self.path),
            Inner::Unnamed(mut file) => {
                sync(&file).doing("write", &self.path)?;
                let folder = folder_of(&self.path);
                match unnamed::name(&file, &self.path) {
                    Ok(()) => {}
                    // There is an old file. Only a rename can replace it.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let named = temporary::builder(folder)
                            .make_in(folder, |name| unnamed::name(&file, name))
                            .doing("write", &self.path)?;
                        rename(named, &self.path)?;
                    }
                    // Some file systems have unnamed files, but cannot link them.
                    Err(_) => {
                        let mut copy = beside(&self.path)?;
                        file.seek(SeekFrom::Start(0))
                            .and_then(|_| io::copy(&mut file, copy.as_file_mut()))
                            .and_then(|_| copy.as_file().sync_all())
                            .doing("write", &self.path)?;
                        rename(copy, &self.path)?;
                    }
                }
                sync_folder(folder)
            }
            Inner::Beside(temporary) => {
                sync(temporary.as_file()).doing("write", &self.path)?;
                rename(temporary, &self.path)?;
                sync_folder(folder_of(&self.path))
            }
        }
    }

    /// The same after replacing the first bytes, which must have been written, by `start`.
    ///
    /// # Errors
    /// Like [`commit`](AtomicFile::commit); or if it is a device or a pipe and was not made to be
    /// rewritten.
    pub fn commit_with_start(self, start: &[u8]) -> Result<()> {
        if start.is_empty() {
            return self.commit();
        }
        let file = match &self.inner {
            Inner::Unnamed(file) | Inner::Spooled(file, _) => Ok(file),
            Inner::Beside(file) => Ok(file.as_file()),
            Inner::Direct(_) => Err(io::ErrorKind::NotSeekable.into()),
        };
        file.and_then(|file| meter::writing(|| file.write_all_at(start, 0)))
            .doing("write the start of", &self.path)?;
        self.commit()
    }

    /// Removes what was written. Returns `false` for devices and pipes, which cannot take anything back.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn restart(&mut self) -> Result<bool> {
        let file = match &mut self.inner {
            Inner::Unnamed(file) | Inner::Spooled(file, _) => file,
            Inner::Beside(file) => file.as_file_mut(),
            Inner::Direct(_) => return Ok(false),
        };
        let cleared = file.set_len(0).and_then(|()| file.rewind());
        cleared.doing("write", &self.path)?;
        Ok(true)
    }

    /// The name, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        meter::writing(|| match &mut self.inner {
            Inner::Unnamed(file) | Inner::Spooled(file, _) => file.write(bytes),
            Inner::Beside(file) => file.write(bytes),
            Inner::Direct(out) => out.write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Unnamed(_) | Inner::Beside(_) | Inner::Spooled(..) => Ok(()),
            Inner::Direct(out) => out.flush(),
        }
    }
}

/// Where a path leads. A link stays a link: what it points to is replaced, even if it does not exist yet.
fn behind_links(path: &Path) -> PathBuf {
    // As many as systems follow.
    let mut path = path.to_owned();
    for _ in 0..40 {
        match (fs::canonicalize(&path), fs::read_link(&path)) {
            (Ok(place), _) => return place,
            (_, Ok(target)) => path = folder_of(&path).join(target),
            (Err(_), Err(_)) => break,
        }
    }
    path
}

/// A file under a temporary name in the same folder.
fn beside(path: &Path) -> Result<NamedTempFile> {
    temporary::builder(folder_of(path))
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(path))
        .doing("write", path)
}

/// Waits until all of a file is on disk.
fn sync(file: &File) -> io::Result<()> {
    meter::writing(|| file.sync_all())
}

fn rename<F>(temporary: NamedTempFile<F>, path: &Path) -> Result<()> {
    temporary
        .persist(path)
        .map(drop)
        .map_err(|error| error.error)
        .doing("rename to", path)
}

/// A folder that appears complete or not at all.
pub struct AtomicFolder {
    path: PathBuf,
    temporary: tempfile::TempDir,
}

impl AtomicFolder {
    /// Starts to write the folder `path`, which must not exist or be empty.
    ///
    /// # Errors
    /// If it exists and is not empty, or cannot be written.
    pub fn create(path: &Path) -> Result<AtomicFolder> {
        let path = &behind_links(path);
        let taken = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if taken {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists)).doing("write", path);
        }
        let temporary = temporary::builder(folder_of(path))
            .permissions(Permissions::from_mode(0o777))
            .tempdir_in(folder_of(path))
            .doing("write", path)?;
        Ok(AtomicFolder {
            path: path.to_owned(),
            temporary,
        })
    }

    /// The folder to write files to until [`AtomicFolder::commit`].
    pub fn inside(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the folder its final name. All files must have been synced.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn commit(self) -> Result<()> {
        sync_folder(self.temporary.path())?;
        fs::rename(self.temporary.path(), &self.path).doing("rename to", &self.path)?;
        // The name is gone, so there is nothing to remove when the guard is dropped.
        let _ = self.temporary.keep();
        sync_folder(folder_of(&self.path))
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename durable.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .doing("write", folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_no_name_until_it_is_complete_and_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for text in ["first", "second", "third"] {
            let before = names(folder.path());
            let old = fs::read(&path).ok();
            let mut out = AtomicFile::create(&path).unwrap();
            out.write_all(text.as_bytes()).unwrap();
            if matches!(out.inner, Inner::Unnamed(_)) {
                assert_eq!(names(folder.path()), before);
            }
            assert_eq!(fs::read(&path).ok(), old);
            out.commit().unwrap();
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
            assert_eq!(names(folder.path()), ["out"]);
        }
    }

    #[test]
    fn links_stay_links_whether_or_not_they_lead_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("second", at("first")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("second")).unwrap();
        for text in ["one", "two"] {
            let mut out = AtomicFile::create(&at("first")).unwrap();
            out.write_all(b"what is removed").unwrap();
            assert!(out.restart().unwrap());
            out.write_all(text.as_bytes()).unwrap();
            out.commit().unwrap();
            assert_eq!(fs::read_to_string(at("file")).unwrap(), text);
            assert_eq!(names(folder.path()), ["file", "first", "second"]);
            assert!(fs::symlink_metadata(at("first")).unwrap().is_symlink());
        }
    }

    #[test]
    fn an_abandoned_output_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = AtomicFile::create(&folder.path().join("out")).unwrap();
        out.write_all(b"half").unwrap();
        drop(out);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_output_has_the_permissions_of_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("out"), folder.path().join("plain"));
        AtomicFile::create(&path).unwrap().commit().unwrap();
        File::create(&plain).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }
}
