//! Has the system write a large file to disk while it grows.
//!
//! A file is complete when all of it is on disk. If the system began with that only at the end, a run
//! would wait for it with nothing else to do.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::mapped::start_writing;

/// The system is told to write whenever there are so many more bytes.
const STEP: u64 = 16 << 20;

/// How much space is reserved at a time. Finding it for one page after the other, while they are
/// written, takes a third of the time of writing.
const SPACE: u64 = 64 << 20;

/// Writes a file from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The bytes that the system was told to write.
    started: u64,
    /// The end of the space that was reserved.
    reserved: u64,
    /// Whether reserving has failed.
    refused: bool,
}

impl Pace {
    /// For the end of a file of which so many bytes are on disk.
    pub(super) fn ending(size: u64) -> Pace {
        Pace {
            started: size,
            reserved: size,
            refused: true,
        }
    }

    /// Writes bytes at `at`, the end of those before.
    pub(super) fn write_all(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        if end > SPACE && end > self.reserved && !self.refused {
            let from = at.max(self.reserved);
            // If the disk is too full, writing says so when it is.
            self.refused = reserve(file, from, end - from + SPACE).is_err();
            self.reserved = end + SPACE;
        }
        file.write_all_at(bytes, at)?;
        if end - self.started >= STEP {
            start_writing(file, self.started, end - self.started);
            self.started = end;
        }
        Ok(())
    }
}

/// Gives back the space that a complete file of this size does not need.
pub(super) fn release(file: &File, size: u64) -> io::Result<()> {
    let metadata = file.metadata()?;
    let reserved = size > SPACE && metadata.blocks() * 512 > size;
    if reserved || metadata.len() != size {
        file.set_len(size)?;
    }
    Ok(())
}

/// Reserves space, if it is known that nothing but time depends on it: there are file systems that do
/// not compress what has been reserved.
#[cfg(target_os = "linux")]
fn reserve(file: &File, at: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate, fstatfs};
    const EXT4: u64 = 0xef53;
    if fstatfs(file)?.f_type as u64 != EXT4 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, at, length)?)
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_has_its_bytes_and_no_more_space_than_it_needs() {
        let file = tempfile::tempfile().unwrap();
        let mut pace = Pace::default();
        let (step, mut at) = (vec![b'a'; 5 << 20], 0);
        while at < 3 * SPACE {
            pace.write_all(&file, &step, at).unwrap();
            at += step.len() as u64;
        }
        pace.write_all(&file, b"end", at).unwrap();
        release(&file, at + 3).unwrap();
        file.sync_all().unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), at + 3);
        assert!(metadata.blocks() * 512 < at + SPACE / 2);
        let mut end = [0; 8];
        file.read_exact_at(&mut end, at - 5).unwrap();
        assert_eq!(&end, b"aaaaaend");
    }
}
