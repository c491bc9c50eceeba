//! One of several files that are written at the same time, each by one thread as long as it is small.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::LARGE;
use super::large::{Buffer, Large, Writers};
use crate::atomic::AtomicFile;
use crate::error::{IoContext, Result};
use crate::ordered::lost;

/// How much of a small file is written at a time.
const SMALL_BUFFER: usize = 128 << 10;

/// The same for a large one.
const LARGE_BUFFER: usize = 512 << 10;

/// The usual size of a write. A larger one may move the buffer, which is then aligned once more.
const USUAL_WRITE: usize = 128 << 10;

impl Writers {
    /// Starts them for several files that `threads` threads write in bursts. Up to `waiting` bytes are
    /// queued, but at least one buffer.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn for_files(threads: usize, waiting: usize) -> Result<Writers> {
        Writers::with_queue(threads, (waiting / LARGE_BUFFER).max(1))
    }
}

/// A file that [`Writers`] write when it is large. Nothing appears under the final name before
/// [`PooledFile::commit`].
pub struct PooledFile {
    out: Out,
    writers: Arc<Writers>,
    /// What is to be written next.
    buffer: Buffer,
    /// How much is written at a time.
    most: usize,
    /// When so many bytes were written, the file is large.
    large: u64,
    size: u64,
}

enum Out {
    Small(AtomicFile),
    Large(Large),
    Failed,
}

impl PooledFile {
    /// Starts to write `path`.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, writers: &Arc<Writers>) -> Result<PooledFile> {
        PooledFile::with_large(path, writers, LARGE)
    }

    fn with_large(path: &Path, writers: &Arc<Writers>, large: u64) -> Result<PooledFile> {
        Ok(PooledFile {
            out: Out::Small(AtomicFile::create(path)?),
            writers: Arc::clone(writers),
            buffer: Buffer::default(),
            most: SMALL_BUFFER,
            large,
            size: 0,
        })
    }

    /// Writes bytes after those before.
    ///
    /// # Errors
    /// If they, or bytes before them, could not be written.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.push(bytes);
        if self.buffer.bytes().len() >= self.most {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let written = match &mut self.out {
            Out::Small(file) => {
                let bytes = self.buffer.bytes();
                self.size += bytes.len() as u64;
                file.write_all(bytes).doing("write", file.path())?;
                self.buffer.clear();
                true
            }
            Out::Large(large) => {
                // What is carried over is copied here, so that nothing has to be moved when it is written.
                let next = Buffer::aligned(self.writers.buffer(), self.most + USUAL_WRITE);
                let given = large.give(std::mem::replace(&mut self.buffer, next), &self.writers);
                self.buffer.push(&large.take_carry());
                given
            }
            Out::Failed => false,
        };
        if !written {
            return self.end().and_then(|_| Err(lost()));
        }
        if self.size >= self.large {
            self.become_large();
        }
        Ok(())
    }

    /// Lets the writers write the rest, if the file is one for which that is possible.
    fn become_large(&mut self) {
        self.large = u64::MAX;
        self.out = match std::mem::replace(&mut self.out, Out::Failed) {
            Out::Small(file) => match Large::new(file) {
                Ok(large) => {
                    self.most = LARGE_BUFFER;
                    Out::Large(large)
                }
                Err(file) => Out::Small(file),
            },
            out => out,
        };
    }

    fn end(&mut self) -> Result<AtomicFile> {
        match std::mem::replace(&mut self.out, Out::Failed) {
            Out::Small(file) => Ok(file),
            Out::Large(mut large) => {
                // Only what was carried over is left.
                large.give(std::mem::take(&mut self.buffer), &self.writers);
                large.end()
            }
            Out::Failed => Err(lost()),
        }
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// If the disk is full, or the file cannot be renamed.
    pub fn commit(self) -> Result<()> {
        self.commit_with_start(b"")
    }

    /// The same after replacing the first bytes of the file by `start`.
    ///
    /// # Errors
    /// Like [`commit`](PooledFile::commit); or if it is a device or a pipe.
    pub fn commit_with_start(mut self, start: &[u8]) -> Result<()> {
        self.flush()?;
        let file = self.end()?;
        if !start.is_empty() {
            (file.overwrite_start(start)).doing("write the start of", file.path())?;
        }
        file.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn files_that_share_writers_have_the_bytes_that_were_written_to_them(
            writes in prop::collection::vec((0usize..4, prop_oneof![0usize..100, 0usize..900_000]), 0..30),
            large in 0u64..1_000_000,
            threads in 1usize..70,
            start in prop::option::of(1usize..50),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let writers = Arc::new(Writers::start(threads).unwrap());
            let path = |number: usize| folder.path().join(number.to_string());
            let mut files: Vec<_> = (0..4)
                .map(|number| PooledFile::with_large(&path(number), &writers, large).unwrap())
                .collect();
            let mut expected = vec![Vec::new(); 4];
            for (number, length) in writes {
                let start = expected[number].len();
                let bytes: Vec<u8> = (start..start + length).map(|at| (at * 31 + number) as u8).collect();
                files[number].write_all(&bytes).unwrap();
                expected[number].extend(bytes);
            }
            for (number, file) in files.into_iter().enumerate() {
                match start.filter(|start| *start <= expected[number].len()) {
                    Some(start) => {
                        expected[number][..start].fill(b'#');
                        file.commit_with_start(&vec![b'#'; start]).unwrap();
                    }
                    None => file.commit().unwrap(),
                }
                prop_assert!(std::fs::read(path(number)).unwrap() == expected[number]);
            }
        }
    }
}
