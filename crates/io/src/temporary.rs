//! Temporary files and folders with a name, their removal, and output folders.
//!
//! Most temporary files have no name: nothing is left of them, however the process ends. Those that
//! need one are created here, so that all names follow one scheme:
//!
//! ```text
//! .waypost-<scope>-<pid>-<start>-<random>.tmp
//! ```
//!
//! `pid` and `start` identify the process. `scope` identifies the boot of the machine and the namespace
//! of process ids, so that a file of another machine or container that shares the folder is never
//! removed.
//!
//! - Guards remove their file when they are dropped.
//! - The handler of a signal calls [`remove_own`].
//! - What a killed process has left is removed when another process creates something temporary in
//!   the same folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use tempfile::{NamedTempFile, TempDir};

use crate::error::{Error, IoContext, Result};

const PREFIX: &str = ".waypost-";
const SUFFIX: &str = ".tmp";

/// A temporary file in `folder`, removed when it is dropped.
///
/// # Errors
/// If the folder does not exist or cannot be written.
pub fn file_in(folder: &Path) -> Result<NamedTempFile> {
    builder(folder)
        .tempfile_in(folder)
        .doing("make a temporary file in", folder)
}

/// A temporary folder in `folder`, removed with all that is in it when it is dropped.
///
/// # Errors
/// If the folder does not exist or cannot be written.
pub fn folder_in(folder: &Path) -> Result<TempDir> {
    builder(folder)
        .tempdir_in(folder)
        .doing("make a temporary folder in", folder)
}

/// Generates names. First removes what dead processes have left in `folder`.
pub(crate) fn builder(folder: &Path) -> tempfile::Builder<'static, 'static> {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let is_new = USED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(folder.clone());
    if is_new {
        sweep(&folder);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(&**OWN).suffix(SUFFIX);
    builder
}

/// Removes everything temporary that this process has made, and [output folders](OutputFolder) that
/// are still empty: for the handler of a signal, before it ends the process.
pub fn remove_own() {
    let folders = USED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for folder in folders {
        remove(&folder, |name| name.starts_with(&**OWN));
    }
    let created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in created.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

/// A folder for output files. If it did not exist, it is created, and removed on drop if it is still
/// empty: a run that fails or is interrupted leaves no empty folder.
#[derive(Debug)]
pub struct OutputFolder {
    /// The folders that were created, parents first.
    created: Vec<PathBuf>,
}

impl OutputFolder {
    /// Creates the folder and its parents, unless they exist.
    ///
    /// # Errors
    /// If they cannot be created.
    pub fn create(folder: &Path) -> Result<OutputFolder> {
        let mut missing: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        let mut output = OutputFolder {
            created: Vec::new(),
        };
        for path in missing {
            match fs::create_dir(&path) {
                Ok(()) => {
                    CREATED
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(path.clone());
                    output.created.push(path);
                }
                // Somebody else has just created it.
                Err(_) if path.is_dir() => {}
                Err(error) => return Err(Error::io("create the folder", &path, error)),
            }
        }
        if folder.is_dir() {
            Ok(output)
        } else {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            Err(Error::io("create the folder", folder, error))
        }
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        let mut created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
        created.retain(|path| !self.created.contains(path));
        for folder in self.created.iter().rev() {
            // Fails if there is something in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The output folders that this process has created, parents first.
static CREATED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders in which something was created.
static USED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The prefix of the names of this process.
static OWN: LazyLock<String> = LazyLock::new(|| {
    let pid = std::process::id();
    let start = start_of(pid).unwrap_or(0);
    format!("{PREFIX}{}-{pid}-{start}-", *SCOPE)
});

/// The system in which a process id is valid.
static SCOPE: LazyLock<String> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = format!("{boot}{}", space.display());
    // FNV-1a: the same in every version, unlike the hasher of the standard library.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", hash >> 32)
});

/// When a process was started, in ticks since the boot. `None` if there is no such process, or if the
/// system does not say.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Removes what dead processes have left in `folder`.
fn sweep(folder: &Path) {
    // If the system does not say which processes are alive, nothing is removed.
    if start_of(std::process::id()).is_none() {
        return;
    }
    remove(folder, |name| {
        owner(name).is_some_and(|(pid, start)| start_of(pid) != Some(start))
    });
}

/// The process and its start in a name of this scope.
fn owner(name: &str) -> Option<(u32, u64)> {
    let rest = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let rest = rest.strip_prefix(&**SCOPE)?.strip_prefix('-')?;
    let mut fields = rest.splitn(3, '-');
    let owner = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().map(|_| owner)
}

/// Best effort: ignores what cannot be removed.
fn remove(folder: &Path, wanted: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(&wanted) {
            continue;
        }
        let path = entry.path();
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_folder_is_removed_if_it_was_created_and_is_empty() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("a/b");
        drop(OutputFolder::create(&inner).unwrap());
        assert!(!base.path().join("a").exists());
        let folder = OutputFolder::create(&inner).unwrap();
        fs::write(inner.join("file"), b"").unwrap();
        drop(folder);
        assert!(inner.join("file").exists());
        fs::remove_file(inner.join("file")).unwrap();
        drop(OutputFolder::create(&inner).unwrap());
        assert!(inner.exists(), "it was there before");
        fs::write(base.path().join("file"), b"").unwrap();
        for wrong in ["file", "file/a"] {
            let error = OutputFolder::create(&base.path().join(wrong)).unwrap_err();
            assert!(
                error.to_string().contains("cannot create the folder"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let name = |scope: &str, pid: u32, start: u64| {
            let path = folder
                .path()
                .join(format!("{PREFIX}{scope}-{pid}-{start}-x{SUFFIX}"));
            fs::write(&path, b"").unwrap();
            path
        };
        let me = std::process::id();
        let start = start_of(me).unwrap();
        let dead = [
            name(&SCOPE, u32::MAX - 1, 5),
            // The id was reused by another process.
            name(&SCOPE, me, start + 1),
        ];
        let alive = [
            name(&SCOPE, me, start),
            name(&SCOPE, 1, start_of(1).unwrap_or(1)),
            // Of a process on another machine, which may be alive.
            name("00000000", u32::MAX - 1, 5),
        ];
        let old = folder.path().join(".waypost-notes");
        fs::write(&old, b"").unwrap();
        let left = folder
            .path()
            .join(format!("{PREFIX}{}-{}-7-y{SUFFIX}", *SCOPE, u32::MAX - 1));
        fs::create_dir_all(left.join("inside")).unwrap();
        let mine = file_in(folder.path()).unwrap();
        assert!(dead.iter().all(|path| !path.exists()));
        assert!(!left.exists());
        assert!(alive.iter().all(|path| path.exists()) && old.exists());
        assert_eq!(
            owner(mine.path().file_name().unwrap().to_str().unwrap()),
            Some((me, start))
        );
        let inner = folder_in(folder.path()).unwrap();
        fs::write(inner.path().join("a"), b"").unwrap();
        remove(folder.path(), |name| name.starts_with(&**OWN));
        assert!(!inner.path().exists() && !mine.path().exists());
        assert!(!alive[0].exists() && alive[1].exists());
    }
}
