//! Writes a large file past the cache of the system.
//!
//! Through the cache, only one thread writes to a file at a time, and it copies every byte: that bounds
//! how fast many cores can write. Past it, several threads write to different places of a file, and the
//! disk reads from their memory. The next program that reads the file gets it from the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Offsets, lengths and addresses of memory have to be multiples of this.
pub(crate) const ALIGNED: usize = 4096;

/// Writes bytes at an offset, past the cache if the disk allows it: there are some with larger blocks.
pub(crate) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    match file.write_all_at(bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            set(file, false)?;
            file.write_all_at(bytes, at)
        }
        written => written,
    }
}

/// Writes through the cache or past it from now on.
#[cfg(target_os = "linux")]
pub(super) fn set(file: &File, direct: bool) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(file, flags)?)
}

/// Whether the file system is one on which it is known to be faster.
#[cfg(target_os = "linux")]
pub(super) fn helps(file: &File) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    rustix::fs::fstatfs(file).is_ok_and(|system| matches!(system.f_type as u64, EXT4 | XFS))
}

/// Makes the file `length` bytes long, with space for all of them on disk: threads that write past the
/// end of a file wait for each other.
#[cfg(target_os = "linux")]
pub(crate) fn extend(file: &File, from: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::empty(), from, length)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set(_: &File, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn helps(_: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn extend(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
