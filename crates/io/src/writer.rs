//! Writing lines: plain, gzipped, or to a [`BlockSink`]. Compression runs on all threads.

use std::io::Write;
use std::path::Path;

use crossbeam_channel::{Receiver, unbounded};

use crate::atomic::AtomicFile;
use crate::error::{IoContext, Result};
use crate::gzip::{self, Gzip, MEMBER};
use crate::ordered::Ordered;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As they are.
    Plain,
    /// gzip, in members of about a megabyte, which are compressed and decompressed in parallel.
    Gzip {
        /// From 1, fast, to 12, small.
        level: u8,
    },
}

impl Format {
    /// The format for a file name: gzip for `.gz`, else plain.
    pub fn of_name(path: &Path) -> Format {
        let gzip = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        if gzip {
            Format::Gzip { level: gzip::LEVEL }
        } else {
            Format::Plain
        }
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Lines.
    pub lines: u64,
    /// Bytes of the lines, with their newlines.
    pub bytes_in: u64,
    /// Bytes of the files.
    pub bytes_out: u64,
    /// Blocks, for a [`BlockSink`] that counts them.
    pub blocks: u64,
    /// Files, for a [`BlockSink`] that writes several.
    pub shards: u64,
}

/// Whole lines that are written together.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The lines, each with its newline.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub lines: u64,
}

/// The destination of a [`LineWriter`]: receives the blocks in order and publishes the result.
pub trait BlockSink: Send {
    /// Writes a block. `packed` is its gzip member if the output is compressed.
    ///
    /// # Errors
    /// If it cannot be written.
    fn take(&mut self, block: &Block, packed: Option<&[u8]>) -> Result<()>;

    /// Gives the files their final names, after the last block.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be renamed.
    fn commit(self: Box<Self>, written: &mut Written) -> Result<()>;
}

/// Writes lines. Nothing appears under the final name before [`LineWriter::finish`].
pub struct LineWriter {
    block: Block,
    most_bytes: usize,
    most_lines: u64,
    written: Written,
    ordered: Ordered<Block, Box<dyn BlockSink>>,
    /// Buffers for reuse.
    empty: Receiver<Vec<u8>>,
}

impl LineWriter {
    /// Starts to write `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file or folder cannot be made.
    pub fn create(path: &Path, format: &Format, threads: usize) -> Result<LineWriter> {
        let level = match *format {
            Format::Plain => None,
            Format::Gzip { level } => Some(level),
        };
        let flat = Flat::create(path, level.is_some())?;
        LineWriter::start(Box::new(flat), level, MEMBER, u64::MAX, threads)
    }

    /// Writes blocks of `lines` lines, each compressed as a gzip member, to `sink`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn to_sink(
        sink: Box<dyn BlockSink>,
        lines: u64,
        level: u8,
        threads: usize,
    ) -> Result<LineWriter> {
        LineWriter::start(sink, Some(level), usize::MAX, lines.max(1), threads)
    }

    fn start(
        sink: Box<dyn BlockSink>,
        level: Option<u8>,
        most_bytes: usize,
        most_lines: u64,
        threads: usize,
    ) -> Result<LineWriter> {
        let (give_back, empty) = unbounded();
        let ordered = Ordered::new(
            if level.is_some() { threads } else { 1 },
            || {
                let mut gzip = level.map(Gzip::new);
                move |block: Block| {
                    let packed = gzip.as_mut().map(|gzip| {
                        let mut packed = Vec::new();
                        gzip.compress(&block.bytes, &mut packed).map(|()| packed)
                    });
                    (block, packed)
                }
            },
            sink,
            move |sink: &mut Box<dyn BlockSink>,
                  (block, packed): (Block, Option<Result<Vec<u8>>>)| {
                sink.take(&block, packed.transpose()?.as_deref())?;
                let mut bytes = block.bytes;
                bytes.clear();
                // The receiver is gone if the writer was dropped.
                let _ = give_back.send(bytes);
                Ok(())
            },
        )?;
        Ok(LineWriter {
            block: Block::default(),
            most_bytes,
            most_lines,
            written: Written::default(),
            ordered,
            empty,
        })
    }

    /// Writes a line, given without its newline.
    ///
    /// # Errors
    /// If earlier lines could not be written.
    pub fn push(&mut self, line: &[u8]) -> Result<()> {
        self.block.bytes.extend_from_slice(line);
        self.block.bytes.push(b'\n');
        self.block.lines += 1;
        if self.block.bytes.len() >= self.most_bytes || self.block.lines >= self.most_lines {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes whole lines, each with its newline. Only the very last may have none.
    ///
    /// # Errors
    /// If earlier lines could not be written.
    pub fn push_lines(&mut self, lines: &[u8]) -> Result<()> {
        if self.most_lines < u64::MAX {
            return lines
                .split_inclusive(|&byte| byte == b'\n')
                .try_for_each(|line| self.push(line.strip_suffix(b"\n").unwrap_or(line)));
        }
        self.block.bytes.extend_from_slice(lines);
        self.block.lines += memchr::memchr_iter(b'\n', lines).count() as u64;
        if lines.last().is_some_and(|&last| last != b'\n') {
            self.block.bytes.push(b'\n');
            self.block.lines += 1;
        }
        if self.block.bytes.len() >= self.most_bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the rest and gives the files their final names.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be renamed.
    pub fn finish(mut self) -> Result<Written> {
        if self.block.lines > 0 {
            self.flush()?;
        }
        let sink = self.ordered.finish()?;
        sink.commit(&mut self.written)?;
        Ok(self.written)
    }

    fn flush(&mut self) -> Result<()> {
        let next = Block {
            bytes: self.empty.try_recv().unwrap_or_default(),
            lines: 0,
        };
        let block = std::mem::replace(&mut self.block, next);
        self.written.lines += block.lines;
        self.written.bytes_in += block.bytes.len() as u64;
        self.ordered.give(block)
    }
}

/// One file.
struct Flat {
    output: AtomicFile,
    gzip: bool,
    size: u64,
}

impl Flat {
    fn create(path: &Path, gzip: bool) -> Result<Flat> {
        Ok(Flat {
            output: AtomicFile::create(path)?,
            gzip,
            size: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.size += bytes.len() as u64;
        self.output
            .write_all(bytes)
            .doing("write", self.output.path())
    }
}

impl BlockSink for Flat {
    fn take(&mut self, block: &Block, packed: Option<&[u8]>) -> Result<()> {
        self.write(packed.unwrap_or(&block.bytes))
    }

    fn commit(mut self: Box<Self>, written: &mut Written) -> Result<()> {
        if self.gzip && self.size == 0 {
            // An empty gzip file has a member.
            let mut empty = Vec::new();
            Gzip::new(1).compress(b"", &mut empty)?;
            self.write(&empty)?;
        }
        written.bytes_out = self.size;
        self.output.commit()
    }
}
