//! Sorted runs on disk.
//!
//! All runs of one pass share one unnamed temporary file, so that thousands of runs need
//! one open file, and nothing is left behind if the process is killed. A run is a list of blocks
//! of whole lines, each compressed with LZ4: about a quarter of the bytes on disk, for about as much
//! processor time as it would take to write and read the rest.

use std::borrow::Borrow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tournament::SortedLines;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::meter;

/// A temporary file with runs. Any number of threads can write to it at the same time.
pub(crate) struct Spill {
    file: File,
    folder: PathBuf,
    end: AtomicU64,
    /// The size of a block, except for one with a single longer line.
    block: usize,
}

/// How many bytes of the first line of a block are remembered.
const HEAD: usize = 47;

/// A part of the file that holds one block.
#[derive(Clone, Copy)]
struct Extent {
    at: u64,
    stored: u32,
    lines: u32,
    /// How the first line starts.
    head: [u8; HEAD],
    head_length: u8,
}

impl Extent {
    /// Whether the first line of the block is surely less than `bound`. In doubt, no.
    fn starts_before(&self, bound: &[u8]) -> bool {
        let head = &self.head[..self.head_length as usize];
        match head.len() < HEAD {
            true => head < bound,
            // The line may go on.
            false => head < &bound[..bound.len().min(HEAD)],
        }
    }
}

/// One sorted run.
pub(crate) struct Run {
    spill: Arc<Spill>,
    blocks: Vec<Extent>,
}

impl Spill {
    /// A file in `folder` for runs in blocks of `block` bytes.
    pub(crate) fn new(folder: &Path, block: usize) -> Result<Arc<Spill>> {
        let file = tempfile::tempfile_in(folder).doing("make a temporary file in", folder)?;
        Ok(Arc::new(Spill {
            file,
            folder: folder.to_owned(),
            end: AtomicU64::new(0),
            block,
        }))
    }

    /// How many bytes were written.
    pub(crate) fn size(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }
}

impl Run {
    /// A run without lines.
    pub(crate) fn empty(spill: &Arc<Spill>) -> Run {
        Run {
            spill: Arc::clone(spill),
            blocks: Vec::new(),
        }
    }

    /// How many bytes the file of this run holds.
    pub(crate) fn spilled(&self) -> u64 {
        self.spill.size()
    }

    /// How many bytes its lines have.
    pub(crate) fn size(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.lines)).sum()
    }

    /// Adds the blocks of a run of greater lines in the same file.
    pub(crate) fn append(&mut self, later: Run) {
        self.blocks.extend(later.blocks);
    }

    /// The starts of lines that each stand for about `share` bytes, or for a block.
    pub(crate) fn sample(&self, share: u64) -> impl Iterator<Item = &[u8]> {
        let step = share / self.spill.block as u64;
        let blocks = self.blocks.iter().step_by((step as usize).max(1));
        blocks.map(|block| &block.head[..block.head_length as usize])
    }
}

/// Writes one run.
pub(crate) struct RunWriter {
    run: Run,
    lines: Vec<u8>,
    stored: Vec<u8>,
}

impl RunWriter {
    pub(crate) fn new(spill: &Arc<Spill>) -> RunWriter {
        RunWriter {
            run: Run::empty(spill),
            lines: Vec::with_capacity(spill.block),
            stored: Vec::new(),
        }
    }

    /// Adds a line, given without its newline.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        if self.lines.len() + line.len() + 1 > self.run.spill.block {
            self.flush()?;
        }
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        Ok(())
    }

    /// Completes the run.
    pub(crate) fn finish(mut self) -> Result<Run> {
        self.flush()?;
        Ok(self.run)
    }

    fn flush(&mut self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let spill = &self.run.spill;
        let first = memchr::memchr(b'\n', &self.lines).unwrap_or(self.lines.len());
        let length = first.min(HEAD);
        let mut head = [0; HEAD];
        head[..length].copy_from_slice(&self.lines[..length]);
        let most = lz4_flex::block::get_maximum_output_size(self.lines.len());
        self.stored.resize(most, 0);
        let stored = lz4_flex::block::compress_into(&self.lines, &mut self.stored)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        let bytes = &self.stored[..stored];
        let at = spill.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        meter::writing(|| spill.file.write_all_at(bytes, at))
            .doing("write a temporary file in", &spill.folder)?;
        self.run.blocks.push(Extent {
            at,
            stored: bytes.len() as u32,
            lines: self.lines.len() as u32,
            head,
            head_length: length as u8,
        });
        self.lines.clear();
        Ok(())
    }
}

/// Reads the lines of a run, or a range of them.
pub(crate) struct RunLines<R> {
    run: R,
    next_block: usize,
    /// The range.
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// Whether the start of the range was reached.
    inside: bool,
    stored: Vec<u8>,
    block: Vec<u8>,
    filled: usize,
    start: usize,
    end: usize,
}

impl<R: Borrow<Run>> RunLines<R> {
    /// All lines.
    pub(crate) fn new(run: R) -> RunLines<R> {
        RunLines::range(run, b"", None)
    }

    /// The lines from the first that is not less than `from` to the last that is less than `to`.
    pub(crate) fn range(run: R, from: &[u8], to: Option<&[u8]>) -> RunLines<R> {
        let blocks = &run.borrow().blocks;
        let next = blocks.partition_point(|block| block.starts_before(from));
        RunLines {
            // The last block that starts before the range may reach into it.
            next_block: next.saturating_sub(1),
            from: from.to_vec(),
            to: to.map(<[u8]>::to_vec),
            inside: false,
            run,
            stored: Vec::new(),
            block: Vec::new(),
            filled: 0,
            start: 0,
            // So that the next line starts at 0.
            end: usize::MAX,
        }
    }

    fn read_block(&mut self) -> Result<bool> {
        let run = self.run.borrow();
        let Some(&Extent {
            at, stored, lines, ..
        }) = run.blocks.get(self.next_block)
        else {
            return Ok(false);
        };
        self.next_block += 1;
        let spill = &run.spill;
        let size = lines as usize;
        if self.block.len() < size {
            self.block.resize(size, 0);
        }
        self.stored.resize(stored as usize, 0);
        meter::reading(|| spill.file.read_exact_at(&mut self.stored, at).map(|()| 0))
            .doing("read a temporary file in", &spill.folder)?;
        let got = lz4_flex::block::decompress_into(&self.stored, &mut self.block[..size]);
        if got.ok() != Some(size) {
            let message = "a temporary file was changed while it was in use".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(spill.folder.display()));
        }
        self.filled = size;
        self.end = usize::MAX;
        Ok(true)
    }

    fn next_line(&mut self) -> Result<bool> {
        let mut next = self.end.wrapping_add(1);
        if next >= self.filled {
            if !self.read_block()? {
                return Ok(false);
            }
            next = 0;
        }
        let rest = &self.block[next..self.filled];
        self.start = next;
        // Every line of a block ends with a newline.
        self.end = next + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        Ok(true)
    }
}

impl<R: Borrow<Run>> SortedLines for RunLines<R> {
    fn line(&self) -> &[u8] {
        &self.block[self.start..self.end]
    }

    fn advance(&mut self) -> Result<bool> {
        if !self.next_line()? {
            return Ok(false);
        }
        while !self.inside {
            self.inside = self.line() >= &self.from[..];
            if !self.inside && !self.next_line()? {
                return Ok(false);
            }
        }
        Ok(match &self.to {
            Some(to) => self.line() < &to[..],
            None => true,
        })
    }
}
