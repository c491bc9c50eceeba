//! Unnamed files, which get a name when they are complete: a killed run leaves nothing.

use std::fs::File;
use std::io;
use std::path::Path;

/// A new unnamed file in `folder`. `None` if the system has none; other errors occur again when a named
/// file is created instead.
#[cfg(target_os = "linux")]
pub(super) fn create(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    // The file is linked through this folder.
    if !Path::new("/proc/self/fd").is_dir() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))
        .ok()
        .map(File::from)
}

/// Gives it a name that must not exist.
#[cfg(target_os = "linux")]
pub(super) fn name(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    use std::os::fd::AsRawFd;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(
        CWD,
        open,
        CWD,
        path,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn create(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
