//! Writing a file as it is, in the order of its bytes.

use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::atomic::AtomicFile;
use crate::error::{IoContext, Result};
use crate::ordered::{lost, spawn};

/// How many buffers wait for the thread that writes.
const WAITING: usize = 2;

/// The maximum number of buffers of a file: those that wait, the one that is written and the next one.
pub(crate) const BUFFERS: usize = WAITING + 2;

/// A file that a thread of its own writes.
pub(crate) struct PlainFile {
    size: u64,
    /// `None` after a failure.
    writer: Option<Writer>,
    /// Buffers that were written.
    empty: Receiver<Vec<u8>>,
}

struct Writer {
    buffers: Sender<Vec<u8>>,
    thread: JoinHandle<Result<AtomicFile>>,
}

impl PlainFile {
    /// Starts to write `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(path: &Path) -> Result<PlainFile> {
        PlainFile::start(AtomicFile::create(path)?)
    }

    /// Starts to write a file.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start(mut file: AtomicFile) -> Result<PlainFile> {
        let (buffers, take) = bounded::<Vec<u8>>(WAITING);
        let (give_back, empty) = unbounded();
        let thread = spawn("waypost-write", move || {
            for mut bytes in take {
                file.write_all(&bytes).doing("write", file.path())?;
                bytes.clear();
                // The receiver is gone if the file was dropped.
                let _ = give_back.send(bytes);
            }
            Ok(file)
        })?;
        Ok(PlainFile {
            size: 0,
            writer: Some(Writer { buffers, thread }),
            empty,
        })
    }

    /// A buffer for reuse.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.empty.try_recv().unwrap_or_default()
    }

    /// Writes bytes after those before. Blocks while too many wait.
    ///
    /// # Errors
    /// If earlier bytes could not be written.
    pub(crate) fn give(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.size += bytes.len() as u64;
        match &self.writer {
            Some(writer) if writer.buffers.send(bytes).is_ok() => Ok(()),
            _ => self.end().and_then(|_| Err(lost())),
        }
    }

    /// Waits until everything is written.
    fn end(&mut self) -> Result<AtomicFile> {
        let Writer { buffers, thread } = self.writer.take().ok_or_else(lost)?;
        drop(buffers);
        thread.join().map_err(|_| lost())?
    }

    /// Replaces the first bytes by `start`, and gives the file its final name. Returns its size.
    ///
    /// # Errors
    /// If the disk is full, or the file cannot be renamed.
    pub(crate) fn finish(mut self, start: &[u8]) -> Result<u64> {
        self.end()?.commit_with_start(start)?;
        Ok(self.size)
    }
}

/// Waits, so that a temporary file is removed before the process ends.
impl Drop for PlainFile {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_bytes_that_were_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut file = PlainFile::create(&path).unwrap();
        let mut expected = Vec::new();
        for length in [0, 1, 4096, 70_000, 3, 1 << 20, 0, 17] {
            let mut bytes = file.buffer();
            assert!(bytes.is_empty());
            bytes.extend((0..length).map(|at| (at * 31 + expected.len()) as u8));
            expected.extend_from_slice(&bytes);
            file.give(bytes).unwrap();
        }
        expected[..9].fill(b'#');
        assert_eq!(file.finish(b"#########").unwrap(), expected.len() as u64);
        assert!(std::fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn a_file_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PlainFile::create(&folder.path().join("out")).unwrap();
        file.give(vec![b'a'; 1 << 20]).unwrap();
        drop(file);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_that_is_full_stops_the_producer() {
        let mut file = PlainFile::create(Path::new("/dev/full")).unwrap();
        let error = (0..100).find_map(|_| file.give(vec![b'a'; 100]).err());
        let error = error.unwrap().to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}
