//! Writing lines: plain, gzipped, or to a [`BlockSink`].
//!
//! Where blocks end depends only on the lines, so that the bytes of a file do not depend on the number of
//! threads. Threads compress blocks, and one writes what they have compressed.

use std::io::Write;
use std::path::Path;

use crossbeam_channel::{Receiver, unbounded};

use crate::atomic::AtomicFile;
use crate::error::{IoContext, Result};
use crate::gzip::{self, Gzip, MEMBER};
use crate::ordered::Ordered;
use crate::plain::PlainFile;

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
    /// Writes a block. `packed` is its gzip member.
    ///
    /// # Errors
    /// If it cannot be written.
    fn take(&mut self, block: &Block, packed: &[u8]) -> Result<()>;

    /// Gives the files their final names, after the last block.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be renamed.
    fn commit(self: Box<Self>, written: &mut Written) -> Result<()>;

    /// Has the first bytes replaced at the end, in a sink that has been given a start.
    fn replace_start(&mut self, _start: Vec<u8>) {}
}

/// Writes lines. Nothing appears under the final name before [`LineWriter::finish`].
pub struct LineWriter {
    block: Block,
    most_bytes: usize,
    most_lines: u64,
    written: Written,
    out: Out,
}

enum Out {
    /// Blocks may end after any line, because they are written as they are.
    Plain(PlainFile),
    Packed(Packed),
}

/// Compresses blocks.
struct Packed {
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
        let out = match *format {
            Format::Plain => Out::Plain(PlainFile::create(path)?),
            Format::Gzip { level } => {
                let flat = Flat::create(path)?;
                Out::Packed(Packed::start(Box::new(flat), level, threads)?)
            }
        };
        Ok(LineWriter::new(out, MEMBER, u64::MAX))
    }

    /// Starts to write `path` with a line that [`LineWriter::finish_with_start`] replaces. In a gzip file,
    /// it is a member of its own that is not compressed.
    ///
    /// # Errors
    /// If the file or folder cannot be made.
    pub fn with_start(
        path: &Path,
        format: &Format,
        threads: usize,
        start: &[u8],
    ) -> Result<LineWriter> {
        let out = match *format {
            Format::Plain => Out::Plain(PlainFile::start(AtomicFile::create_rewritable(path)?)?),
            Format::Gzip { level } => {
                let mut flat = Flat {
                    output: AtomicFile::create_rewritable(path)?,
                    size: 0,
                    start: Vec::new(),
                };
                flat.write(&gzip::stored(start)?)?;
                Out::Packed(Packed::start(Box::new(flat), level, threads)?)
            }
        };
        let mut writer = LineWriter::new(out, MEMBER, u64::MAX);
        if matches!(format, Format::Plain) {
            writer.push_lines(start)?;
        }
        Ok(writer)
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
        let packed = Packed::start(sink, level, threads)?;
        Ok(LineWriter::new(
            Out::Packed(packed),
            usize::MAX,
            lines.max(1),
        ))
    }

    fn new(out: Out, most_bytes: usize, most_lines: u64) -> LineWriter {
        LineWriter {
            block: Block::default(),
            most_bytes,
            most_lines,
            written: Written::default(),
            out,
        }
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
    pub fn push_lines(&mut self, mut lines: &[u8]) -> Result<()> {
        while !lines.is_empty() {
            let (block, rest) = lines.split_at(self.end_of_block(lines));
            self.block.bytes.extend_from_slice(block);
            self.block.lines += memchr::memchr_iter(b'\n', block).count() as u64;
            if block.last() != Some(&b'\n') {
                self.block.bytes.push(b'\n');
                self.block.lines += 1;
            }
            if self.block.bytes.len() >= self.most_bytes || self.block.lines >= self.most_lines {
                self.flush()?;
            }
            lines = rest;
        }
        Ok(())
    }

    /// Writes `count` whole lines, each with its newline, and empties `lines`. They are not copied if
    /// the output is plain: `lines` is replaced by a buffer that was written earlier.
    ///
    /// # Errors
    /// If earlier lines could not be written.
    pub fn push_buffer(&mut self, lines: &mut Vec<u8>, count: u64) -> Result<()> {
        if matches!(self.out, Out::Packed(_)) {
            self.push_lines(lines)?;
            lines.clear();
            return Ok(());
        }
        if lines.is_empty() {
            return Ok(());
        }
        if self.block.lines > 0 {
            self.flush()?;
        }
        self.block.lines = count;
        std::mem::swap(&mut self.block.bytes, lines);
        self.flush()
    }

    /// How many bytes of `lines` belong to the current block: all, or up to the line that fills it.
    fn end_of_block(&self, lines: &[u8]) -> usize {
        let end = if self.most_lines < u64::MAX {
            let more = (self.most_lines - self.block.lines).saturating_sub(1);
            memchr::memchr_iter(b'\n', lines).nth(usize::try_from(more).unwrap_or(usize::MAX))
        } else {
            let from = (self.most_bytes - self.block.bytes.len()).saturating_sub(1);
            let rest = lines.get(from..).unwrap_or_default();
            memchr::memchr(b'\n', rest).map(|at| from + at)
        };
        end.map_or(lines.len(), |end| end + 1)
    }

    /// Writes the rest and gives the files their final names.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be renamed.
    pub fn finish(self) -> Result<Written> {
        self.finish_with_start(b"")
    }

    /// The same after replacing the first line by another one of the same length.
    ///
    /// # Errors
    /// Like [`finish`](LineWriter::finish).
    pub fn finish_with_start(mut self, start: &[u8]) -> Result<Written> {
        if self.block.lines > 0 {
            self.flush()?;
        }
        match self.out {
            Out::Plain(file) => self.written.bytes_out = file.finish(start)?,
            Out::Packed(packed) => {
                let mut sink = packed.ordered.finish()?;
                if !start.is_empty() {
                    sink.replace_start(gzip::stored(start)?);
                }
                sink.commit(&mut self.written)?;
            }
        }
        Ok(self.written)
    }

    fn flush(&mut self) -> Result<()> {
        let buffer = match &self.out {
            Out::Plain(file) => file.buffer(),
            Out::Packed(packed) => packed.empty.try_recv().unwrap_or_default(),
        };
        let next = Block {
            bytes: buffer,
            lines: 0,
        };
        let block = std::mem::replace(&mut self.block, next);
        self.written.lines += block.lines;
        self.written.bytes_in += block.bytes.len() as u64;
        match &mut self.out {
            Out::Plain(file) => file.give(block.bytes),
            Out::Packed(packed) => packed.ordered.give(block),
        }
    }
}

impl Packed {
    fn start(sink: Box<dyn BlockSink>, level: u8, threads: usize) -> Result<Packed> {
        let (give_back, empty) = unbounded();
        let ordered = Ordered::new(
            threads,
            || {
                let mut gzip = Gzip::new(level);
                move |block: Block| {
                    let mut packed = Vec::new();
                    let compressed = gzip.compress(&block.bytes, &mut packed);
                    (block, compressed.map(|()| packed))
                }
            },
            sink,
            move |sink: &mut Box<dyn BlockSink>, (block, packed): (Block, Result<Vec<u8>>)| {
                sink.take(&block, &packed?)?;
                let mut bytes = block.bytes;
                bytes.clear();
                // The receiver is gone if the writer was dropped.
                let _ = give_back.send(bytes);
                Ok(())
            },
        )?;
        Ok(Packed { ordered, empty })
    }
}

/// One gzip file.
struct Flat {
    output: AtomicFile,
    size: u64,
    /// What replaces its first bytes at the end.
    start: Vec<u8>,
}

impl Flat {
    fn create(path: &Path) -> Result<Flat> {
        Ok(Flat {
            output: AtomicFile::create(path)?,
            size: 0,
            start: Vec::new(),
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
    fn take(&mut self, _: &Block, packed: &[u8]) -> Result<()> {
        self.write(packed)
    }

    fn commit(mut self: Box<Self>, written: &mut Written) -> Result<()> {
        if self.size == 0 {
            // An empty gzip file has a member.
            let mut empty = Vec::new();
            Gzip::new(1).compress(b"", &mut empty)?;
            self.write(&empty)?;
        }
        written.bytes_out = self.size;
        self.output.commit_with_start(&self.start)
    }

    fn replace_start(&mut self, start: Vec<u8>) {
        self.start = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;
    use std::sync::Arc;

    /// Keeps the blocks.
    struct Kept(Arc<std::sync::Mutex<Vec<Vec<u8>>>>);

    impl BlockSink for Kept {
        fn take(&mut self, block: &Block, _: &[u8]) -> Result<()> {
            assert_eq!(
                block.lines,
                block.bytes.split_inclusive(|&b| b == b'\n').count() as u64
            );
            self.0.lock().unwrap().push(block.bytes.clone());
            Ok(())
        }

        fn commit(self: Box<Self>, _: &mut Written) -> Result<()> {
            Ok(())
        }
    }

    fn inflated(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .read_to_end(&mut text)
            .unwrap();
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_bytes_of_an_output_do_not_depend_on_how_lines_arrive_or_on_threads(
            lines in prop::collection::vec("[ab]{0,9}", 0..60),
            copies in prop_oneof![Just(1usize), Just(20_000usize)],
            cuts in prop::collection::vec(0usize..60, 0..5),
            most_lines in 1u64..9,
            threads in 1usize..5,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let text: Vec<Vec<u8>> = lines
                .iter()
                .map(|line| [line.repeat(copies).as_bytes(), b"\n"].concat())
                .collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            for format in [Format::Plain, Format::Gzip { level: 1 }] {
                let write = |name: &str, threads, push: &dyn Fn(&mut LineWriter)| {
                    let path = folder.path().join(name);
                    let mut out = LineWriter::create(&path, &format, threads).unwrap();
                    push(&mut out);
                    let written = out.finish().unwrap();
                    assert_eq!(written.lines, text.len() as u64);
                    let bytes = std::fs::read(path).unwrap();
                    assert_eq!(written.bytes_out, bytes.len() as u64);
                    bytes
                };
                let by_line = write("line", 1, &|out| {
                    text.iter().for_each(|line| out.push(&line[..line.len() - 1]).unwrap());
                });
                let by_piece = write("piece", threads, &|out| {
                    cuts.windows(2)
                        .for_each(|cut| out.push_lines(&text[cut[0]..cut[1]].concat()).unwrap());
                });
                let by_buffer = write("buffer", threads, &|out| {
                    for cut in cuts.windows(2) {
                        let mut lines = text[cut[0]..cut[1]].concat();
                        out.push_buffer(&mut lines, (cut[1] - cut[0]) as u64).unwrap();
                        assert!(lines.is_empty());
                    }
                });
                prop_assert!(by_line == by_piece && by_line == by_buffer);
                match format {
                    Format::Plain => prop_assert!(by_line == text.concat()),
                    Format::Gzip { .. } => prop_assert!(inflated(&by_line) == text.concat()),
                }
            }
            let kept = Arc::default();
            let sink = Box::new(Kept(Arc::clone(&kept)));
            let mut out = LineWriter::to_sink(sink, most_lines, 1, threads).unwrap();
            cuts.windows(2)
                .for_each(|cut| out.push_lines(&text[cut[0]..cut[1]].concat()).unwrap());
            out.finish().unwrap();
            let expected: Vec<Vec<u8>> = text.chunks(most_lines as usize).map(<[_]>::concat).collect();
            prop_assert!(*kept.lock().unwrap() == expected);
        }
    }

    #[test]
    fn a_first_line_is_replaced_in_files_and_pipes() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for format in [Format::Plain, Format::Gzip { level: 6 }] {
            for path in [folder.path().join("file"), pipe.clone()] {
                let read = path.clone();
                let reader = (path == pipe)
                    .then(|| std::thread::spawn(move || std::fs::read(read).unwrap()));
                let mut out = LineWriter::with_start(&path, &format, 2, b"?\n").unwrap();
                out.push_lines(b"a\nb\n").unwrap();
                out.push_buffer(&mut b"c\n".to_vec(), 1).unwrap();
                out.finish_with_start(b"!\n").unwrap();
                let bytes = match reader {
                    Some(reader) => reader.join().unwrap(),
                    None => std::fs::read(&path).unwrap(),
                };
                let text = match format {
                    Format::Plain => bytes,
                    Format::Gzip { .. } => inflated(&bytes),
                };
                assert_eq!(text, b"!\na\nb\nc\n");
            }
        }
    }

    #[test]
    fn a_last_line_without_a_line_feed_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = LineWriter::create(&path, &Format::Plain, 2).unwrap();
        out.push_lines(b"a\nb").unwrap();
        assert_eq!(out.finish().unwrap().lines, 2);
        assert_eq!(std::fs::read(path).unwrap(), b"a\nb\n");
    }
}
