//! Writing a file as it is, in the order of its bytes.
//!
//! The start of a file is written by one thread, through the cache of the system. If the file gets
//! large, several threads write the rest past the cache.

mod large;
mod pooled;

use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::atomic::AtomicFile;
use crate::error::{IoContext, Result};
use crate::ordered::{lost, spawn};
use large::Large;

pub use large::Writers;
pub use pooled::PooledFile;

/// A file is large if it has more bytes.
const LARGE: u64 = 16 << 20;

/// How many buffers wait for the one thread that writes the start.
const WAITING: usize = 2;

/// The number of buffers that a file has at a time at most, if so many threads work.
pub(crate) fn queued(threads: usize) -> usize {
    large::count(threads) + 2
}

/// A file that is written as it is.
pub(crate) struct PlainFile {
    phase: Phase,
    /// With so many bytes, it is large.
    large: u64,
    size: u64,
    threads: usize,
    give_back: Sender<Vec<u8>>,
    /// Buffers that were written.
    empty: Receiver<Vec<u8>>,
}

enum Phase {
    /// One thread writes.
    Start {
        buffers: Sender<Vec<u8>>,
        writer: JoinHandle<Result<AtomicFile>>,
    },
    /// Several threads write.
    Large(Large, Writers),
    /// Writing failed.
    Failed,
}

impl PlainFile {
    /// Starts to write `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(path: &Path, threads: usize) -> Result<PlainFile> {
        PlainFile::with_large(path, threads, LARGE)
    }

    fn with_large(path: &Path, threads: usize, large: u64) -> Result<PlainFile> {
        let file = AtomicFile::create(path)?;
        let (give_back, empty) = unbounded();
        Ok(PlainFile {
            phase: start(file, &give_back)?,
            large,
            size: 0,
            threads,
            give_back,
            empty,
        })
    }

    /// A buffer for reuse.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        match &self.phase {
            Phase::Large(_, writers) => writers.buffer(),
            _ => self.empty.try_recv().unwrap_or_default(),
        }
    }

    /// Writes bytes after those before. Blocks while too many wait.
    ///
    /// # Errors
    /// If earlier bytes could not be written.
    pub(crate) fn give(&mut self, bytes: Vec<u8>) -> Result<()> {
        if self.size >= self.large && matches!(self.phase, Phase::Start { .. }) {
            self.become_large()?;
        }
        self.size += bytes.len() as u64;
        let given = match &mut self.phase {
            Phase::Start { buffers, .. } => buffers.send(bytes).is_ok(),
            Phase::Large(large, writers) => large.give(bytes.into(), writers),
            Phase::Failed => false,
        };
        match given {
            true => Ok(()),
            false => self.end().and_then(|_| Err(lost())),
        }
    }

    /// Lets several threads write the rest, if the file is one for which that is possible.
    fn become_large(&mut self) -> Result<()> {
        let file = self.end()?;
        self.phase = match Large::new(file) {
            Ok(large) => Phase::Large(large, Writers::start(self.threads)?),
            Err(file) => {
                self.large = u64::MAX;
                start(file, &self.give_back)?
            }
        };
        Ok(())
    }

    /// Waits until everything is written.
    fn end(&mut self) -> Result<AtomicFile> {
        match std::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::Start { buffers, writer } => {
                drop(buffers);
                writer.join().map_err(|_| lost())?
            }
            Phase::Large(large, _writers) => large.end(),
            Phase::Failed => Err(lost()),
        }
    }

    /// Gives the file its final name. Returns its size.
    ///
    /// # Errors
    /// If the disk is full, or the file cannot be renamed.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.end()?.commit()?;
        Ok(self.size)
    }
}

/// Waits, so that a temporary file is removed before the process ends.
impl Drop for PlainFile {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn start(mut file: AtomicFile, give_back: &Sender<Vec<u8>>) -> Result<Phase> {
    let (buffers, take) = bounded::<Vec<u8>>(WAITING);
    let give_back = give_back.clone();
    let writer = spawn("waypost-write", move || {
        for mut bytes in take {
            file.write_all(&bytes).doing("write", file.path())?;
            bytes.clear();
            // The receiver is gone if the file was dropped.
            let _ = give_back.send(bytes);
        }
        Ok(file)
    })?;
    Ok(Phase::Start { buffers, writer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_file_has_the_bytes_that_were_given_wherever_it_becomes_large(
            lengths in prop::collection::vec(prop_oneof![0usize..40, 4000usize..4200, 0usize..70_000], 0..40),
            large in 0u64..60_000,
            threads in 1usize..24,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            let mut file = PlainFile::with_large(&path, threads, large).unwrap();
            let mut expected = Vec::new();
            for length in lengths {
                let mut bytes = file.buffer();
                assert!(bytes.is_empty());
                bytes.extend((0..length).map(|at| (at * 31 + expected.len()) as u8));
                expected.extend_from_slice(&bytes);
                file.give(bytes).unwrap();
            }
            prop_assert_eq!(file.finish().unwrap(), expected.len() as u64);
            prop_assert!(std::fs::read(&path).unwrap() == expected);
        }
    }

    #[test]
    fn a_large_file_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PlainFile::with_large(&folder.path().join("out"), 2, 0).unwrap();
        file.give(vec![b'a'; 1 << 20]).unwrap();
        drop(file);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[test]
    fn what_is_not_a_file_is_written_by_one_thread() {
        let mut file = PlainFile::with_large(Path::new("/dev/null"), 8, 10).unwrap();
        for _ in 0..100 {
            file.give(vec![b'a'; 100]).unwrap();
        }
        assert!(matches!(file.phase, Phase::Start { .. }));
        assert_eq!(file.finish().unwrap(), 10_000);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_that_is_full_stops_the_producer() {
        let mut file = PlainFile::with_large(Path::new("/dev/full"), 2, 10).unwrap();
        let error = (0..100).find_map(|_| file.give(vec![b'a'; 100]).err());
        let error = error.unwrap().to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}
