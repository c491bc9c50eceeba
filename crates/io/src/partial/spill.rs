//! The temporary file of partials.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{IoContext, Result};
use crate::meter;

/// An unnamed file that any number of partials append to. It is created when something is written and
/// removed with the last partial that refers to it, however the process ends.
#[derive(Debug)]
pub struct Spill {
    folder: PathBuf,
    /// The file and where it ends.
    file: Mutex<Option<(Arc<File>, u64)>>,
}

impl Spill {
    /// A file in `folder`.
    pub fn new(folder: &Path) -> Arc<Spill> {
        Arc::new(Spill {
            folder: folder.to_owned(),
            file: Mutex::new(None),
        })
    }

    /// The folder of the file.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends bytes. Returns their offset.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        let (file, at) = {
            let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let (file, end) = match &mut *open {
                Some(open) => open,
                none => {
                    let file = tempfile::tempfile_in(&self.folder)
                        .doing("make a temporary file in", &self.folder)?;
                    none.insert((Arc::new(file), 0))
                }
            };
            let at = *end;
            *end += bytes.len() as u64;
            (Arc::clone(file), at)
        };
        meter::writing(|| file.write_all_at(bytes, at))
            .doing("write a temporary file in", &self.folder)?;
        Ok(at)
    }

    /// Reads bytes that were appended.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, _)) = &*open else {
            return Err(super::bytes::damaged());
        };
        let file = Arc::clone(file);
        drop(open);
        meter::reading(|| file.read_exact_at(bytes, at).map(|()| 0))
            .doing("read a temporary file in", &self.folder)?;
        Ok(())
    }
}
