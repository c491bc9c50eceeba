//! Files that appear whole or not at all.
//!
//! An output is written under a temporary name beside its place, synced, and renamed when it is
//! complete. A run that fails or is killed leaves the old file, or none, but never half of one.

pub(crate) mod lines;

pub use lines::{Format, LineWriter, Written};

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{IoContext, Result};

/// A file that is being written.
pub struct Output {
    path: PathBuf,
    inner: Inner,
}

enum Inner {
    /// Written beside its place, to be renamed.
    Beside(NamedTempFile),
    /// A device, a pipe or standard output: nothing to rename.
    Direct(Box<dyn Write + Send>),
}

impl Output {
    /// Starts to write `path`. `-` is standard output; devices and pipes are written directly.
    ///
    /// # Errors
    /// When the folder of `path` does not exist or cannot be written.
    pub fn create(path: &Path) -> Result<Output> {
        if path.as_os_str() == "-" {
            return Ok(Output {
                path: path.to_owned(),
                inner: Inner::Direct(Box::new(io::stdout())),
            });
        }
        // A link stays a link: what it points to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options()
                .write(true)
                .open(&path)
                .doing("write", &path)?;
            return Ok(Output {
                path,
                inner: Inner::Direct(Box::new(file)),
            });
        }
        let temporary = tempfile::Builder::new()
            .prefix(&temporary_prefix(&path))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder_of(&path))
            .doing("write", &path)?;
        Ok(Output {
            path,
            inner: Inner::Beside(temporary),
        })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// When the disk is full or the file cannot be renamed.
    pub fn commit(self) -> Result<()> {
        match self.inner {
            Inner::Direct(mut out) => out.flush().doing("write", &self.path),
            Inner::Beside(temporary) => {
                temporary.as_file().sync_all().doing("write", &self.path)?;
                temporary
                    .persist(&self.path)
                    .map_err(|error| error.error)
                    .doing("rename to", &self.path)?;
                sync_folder(folder_of(&self.path))
            }
        }
    }

    /// The name, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Beside(file) => file.as_file_mut().write(bytes),
            Inner::Direct(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Beside(_) => Ok(()),
            Inner::Direct(out) => out.flush(),
        }
    }
}

/// A folder of files that belong together, which appears whole or not at all.
pub(crate) struct OutputFolder {
    path: PathBuf,
    temporary: tempfile::TempDir,
}

impl OutputFolder {
    /// Starts to write the folder `path`, which must not exist or be empty.
    pub(crate) fn create(path: &Path) -> Result<OutputFolder> {
        let taken = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if taken {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists)).doing("write", path);
        }
        let temporary = tempfile::Builder::new()
            .prefix(&temporary_prefix(path))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o777))
            .tempdir_in(folder_of(path))
            .doing("write", path)?;
        Ok(OutputFolder {
            path: path.to_owned(),
            temporary,
        })
    }

    /// Where the files are to be written until [`OutputFolder::commit`].
    pub(crate) fn inside(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts the folder in its place. All files must have been synced.
    pub(crate) fn commit(self) -> Result<()> {
        sync_folder(self.temporary.path())?;
        fs::rename(self.temporary.path(), &self.path).doing("rename to", &self.path)?;
        // The name is gone, so there is nothing to remove when the guard is dropped.
        let _ = self.temporary.keep();
        sync_folder(folder_of(&self.path))
    }
}

/// The start of the temporary name: hidden, and telling what it will be, so that a leftover of a
/// killed run can be recognised and removed.
fn temporary_prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.")
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename last through a power cut.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .doing("write", folder)
}
