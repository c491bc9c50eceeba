//! A file as memory, and asking for memory before it is needed. The one place of this crate with
//! `unsafe` code.
#![allow(
    unsafe_code,
    reason = "a memory map cannot be made without, and prefetching takes a pointer"
)]

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use memmap2::{Mmap, MmapMut};

use crate::error::{Error, Result};

/// The bytes of a file, read when they are looked at.
pub(crate) struct Map {
    /// `None` for an empty file, which cannot be mapped.
    bytes: Option<Mmap>,
}

impl Map {
    pub(crate) fn open(path: &Path) -> Result<Map> {
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let length = file
            .metadata()
            .map_err(|error| Error::io("open", path, error))?
            .len();
        if length == 0 {
            return Ok(Map { bytes: None });
        }
        // SAFETY: the map is only read, and as bytes, for which every value is valid. When another
        // process writes to the file meanwhile the bytes change under us, and a lookup may be
        // wrong, but every access is checked against the length of the map. A file that is cut short
        // meanwhile ends the process with a signal, as in every program that maps files.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", path, error))?;
        Ok(Map { bytes: Some(bytes) })
    }

    /// Reads all of a file into memory of its own, on large pages where the system has them. What is
    /// looked up all over a large file is then found without a walk through the page table each time.
    pub(crate) fn load(path: &Path) -> Result<Map> {
        let fail = |error| Error::io("read", path, error);
        let mut file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let length = file.metadata().map_err(fail)?.len();
        if length == 0 {
            return Ok(Map { bytes: None });
        }
        let length = usize::try_from(length)
            .map_err(|_| Error::invalid("larger than the memory of this machine"))?;
        let mut bytes = MmapMut::map_anon(length).map_err(fail)?;
        // Only a wish: small pages do, too.
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        file.read_exact(&mut bytes).map_err(fail)?;
        let bytes = bytes.make_read_only().map_err(fail)?;
        Ok(Map { bytes: Some(bytes) })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

/// Asks the processor to bring the byte at `index` near. Does nothing where it cannot, or if there
/// is no such byte.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], index: usize) {
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
