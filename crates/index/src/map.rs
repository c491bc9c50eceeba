//! A file as memory. The one place of this crate with `unsafe` code.
#![allow(unsafe_code, reason = "a memory map cannot be made without")]

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{IoContext, Result};

/// The bytes of a file, read when they are looked at.
pub(crate) struct Map {
    /// `None` for an empty file, which cannot be mapped.
    bytes: Option<Mmap>,
}

impl Map {
    /// Maps a file to be searched here and there.
    pub(crate) fn open(path: &Path) -> Result<Map> {
        let file = File::open(path).doing("open", path)?;
        if file.metadata().doing("open", path)?.len() == 0 {
            return Ok(Map { bytes: None });
        }
        // SAFETY: the map is only read, and as bytes, for which every value is valid. When another
        // process writes to the file meanwhile the bytes change under us, and a search may miss,
        // but nothing is built on their staying the same: every access is checked against the
        // length of the map. A file that is cut short meanwhile ends the process with a signal,
        // as it does in every program that maps files.
        let bytes = unsafe { Mmap::map(&file) }.doing("map", path)?;
        Ok(Map { bytes: Some(bytes) })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}
