//! Bytes of files in memory, and asking for memory before it is needed. The one module with
//! `unsafe` code.
#![allow(
    unsafe_code,
    reason = "a memory map cannot be made without, and prefetching takes a pointer"
)]

use std::fs::File;
use std::io::Read;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, MmapMut, UncheckedAdvice};

use crate::error::{Error, ErrorKind, IoContext, Result};

/// Bytes: of a file that is read where it is looked at, or in memory.
#[derive(Debug)]
pub struct Mapped {
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Owned(Vec<u8>),
    /// Memory of our own, on large pages where the system has them.
    Loaded(Mmap),
    File(Mmap),
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// When it cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Mapped> {
        let file = File::open(path).doing("open", path)?;
        if file.metadata().doing("open", path)?.len() == 0 {
            // An empty file cannot be mapped.
            return Ok(Mapped::from(Vec::new()));
        }
        // SAFETY: the map is only read, and as bytes, for which every value is valid. Should another
        // process write to the file meanwhile, lookups may miss, but every access is checked against
        // the length of the map. A file that is cut short meanwhile ends the process with a signal,
        // as it does in every program that maps files; we replace files and never cut them.
        let bytes = unsafe { Mmap::map(&file) }.doing("map", path)?;
        Ok(Mapped {
            bytes: Bytes::File(bytes),
        })
    }

    /// Reads all of a file into memory of its own, on large pages where the system has them. What is
    /// looked up all over a large file is then found without a walk through the page table each time.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than the memory.
    pub fn load(path: &Path) -> Result<Mapped> {
        let mut file = File::open(path).doing("open", path)?;
        let length = file.metadata().doing("open", path)?.len();
        if length == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        let length = usize::try_from(length).map_err(|_| {
            let message = "larger than the memory of this machine".to_owned();
            Error::new(ErrorKind::Invalid(message)).in_file(path.display())
        })?;
        let mut bytes = MmapMut::map_anon(length).doing("read", path)?;
        // Best effort: falls back to small pages.
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        file.read_exact(&mut bytes).doing("read", path)?;
        let bytes = bytes.make_read_only().doing("read", path)?;
        Ok(Mapped {
            bytes: Bytes::Loaded(bytes),
        })
    }

    /// Gives back the memory of a part that was read and is not needed soon. It is read again from the
    /// file if it is.
    pub fn release(&self, part: Range<usize>) {
        if let Bytes::File(mapped) = &self.bytes {
            // SAFETY: the map is of a file and never written to, so the bytes stay what they are.
            // Advice that is not taken is no error.
            let _ = unsafe {
                mapped.unchecked_advise_range(UncheckedAdvice::DontNeed, part.start, part.len())
            };
        }
    }
}

impl From<Vec<u8>> for Mapped {
    fn from(bytes: Vec<u8>) -> Mapped {
        Mapped {
            bytes: Bytes::Owned(bytes),
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Loaded(bytes) | Bytes::File(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Asks the processor to bring the byte at `index` near. Does nothing where it cannot, or if there
/// is no such byte.
#[inline]
pub fn prefetch(bytes: &[u8], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is that of a reference, and a prefetch reads nothing that could be
        // seen: SSE is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, index);
}
