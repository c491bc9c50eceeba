//! Chunks of bytes that are written once and read again. Beyond a megabyte they spill to an unnamed
//! temporary file, so memory use does not depend on the size of the map.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How many bytes are kept in memory.
const KEPT: usize = 1 << 20;

/// The chunks, by number.
#[derive(Debug)]
pub(crate) struct Tape {
    folder: PathBuf,
    /// The end of each chunk.
    ends: Vec<u64>,
    memory: Vec<u8>,
    /// How many bytes are kept in memory.
    kept: usize,
    file: Option<File>,
}

impl Tape {
    /// An empty tape. The file is created in `folder` when it is needed.
    pub(crate) fn new(folder: &Path) -> Tape {
        Tape {
            folder: folder.to_owned(),
            ends: Vec::new(),
            memory: Vec::new(),
            kept: KEPT,
            file: None,
        }
    }

    /// An empty tape that stays in memory.
    pub(crate) fn in_memory() -> Tape {
        Tape {
            kept: usize::MAX,
            ..Tape::new(Path::new(""))
        }
    }

    /// The folder of its file.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.ends.len()
    }

    /// Removes all chunks.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.memory = Vec::new();
        self.file = None;
    }

    /// Appends a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<()> {
        let start = self.ends.last().copied().unwrap_or(0);
        self.memory.extend_from_slice(chunk);
        self.ends.push(start + chunk.len() as u64);
        if self.memory.len() <= self.kept && self.file.is_none() {
            return Ok(());
        }
        let failed = |source| Error::io("write", &self.folder, source);
        let (file, at) = match &self.file {
            Some(file) => (file, start),
            None => {
                let file = tempfile::tempfile_in(&self.folder).map_err(failed)?;
                (&*self.file.insert(file), 0)
            }
        };
        file.write_all_at(&self.memory, at).map_err(failed)?;
        self.memory = Vec::new();
        Ok(())
    }

    /// Reads a chunk into `out`, replacing its content.
    pub(crate) fn read(&self, number: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = match number {
            0 => 0,
            _ => self.ends[number - 1],
        };
        let length = (self.ends[number] - start) as usize;
        out.clear();
        match &self.file {
            None => out.extend_from_slice(&self.memory[start as usize..][..length]),
            Some(file) => {
                out.resize(length, 0);
                file.read_exact_at(out, start)
                    .map_err(|source| Error::io("read", &self.folder, source))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_from_memory_and_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let chunk = |number: usize| vec![number as u8; number * 3_001 % 70_000];
        for count in [0, 1, 20, 80] {
            let mut tape = Tape::new(folder.path());
            for number in 0..count {
                tape.push(&chunk(number)).unwrap();
            }
            assert_eq!(tape.file.is_some(), count == 80);
            let mut read = Vec::new();
            for number in (0..tape.chunks()).rev() {
                tape.read(number, &mut read).unwrap();
                assert_eq!(read, chunk(number));
            }
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_it() {
        let mut tape = Tape::new(Path::new("no-such-folder"));
        let error = tape.push(&vec![0; KEPT + 1]).unwrap_err();
        assert!(error.to_string().contains("no-such-folder"), "{error}");
    }
}
