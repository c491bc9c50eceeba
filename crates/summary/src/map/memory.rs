//! A file as memory. The one place of this part with `unsafe` code.
#![allow(unsafe_code, reason = "a memory map cannot be made without")]

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, UncheckedAdvice};

use crate::error::{Error, Result};

/// Bytes in memory, or of a file that is read where it is looked at.
#[derive(Debug)]
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mmap),
}

impl Bytes {
    /// Maps a file.
    pub(crate) fn map(path: &Path) -> Result<Bytes> {
        let failed = |source| Error::io("open", path, source);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == 0 {
            return Ok(Bytes::Owned(Vec::new()));
        }
        // SAFETY: the map is only read, and as bytes, for which every value is valid. Should another
        // process write to the file meanwhile, lookups may miss, but every access is checked against
        // the length of the map. A file that is cut short meanwhile ends the process with a signal,
        // as it does in every program that maps files; we replace files and never cut them.
        let mapped = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Bytes::Mapped(mapped))
    }

    /// Gives back the memory of a part that was read and is not needed soon. It is read again from the
    /// file if it is.
    pub(crate) fn release(&self, part: Range<usize>) {
        if let Bytes::Mapped(mapped) = self {
            // SAFETY: the map is of a file and never written to, so the bytes stay what they are.
            // Not to be heeded is no error.
            let _ = unsafe {
                mapped.unchecked_advise_range(UncheckedAdvice::DontNeed, part.start, part.len())
            };
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(bytes) => bytes,
        }
    }
}
