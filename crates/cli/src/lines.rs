//! Lines from a stream, in blocks: as they come, so that a pipe is answered while it is open, and
//! never more in memory than the longest line allowed.

use std::io::{self, Read};

/// Bytes asked of the stream at a time.
const BLOCK: usize = 4 << 20;

/// Longer lines are passed over and counted. No URI is this long.
pub(crate) const LONGEST: usize = 16 << 20;

/// A stream cut into blocks of whole lines.
pub(crate) struct Blocks<R> {
    source: R,
    buffer: Vec<u8>,
    /// What is left of the last block: the start of a line that is not whole yet.
    rest: usize,
    /// Lines given so far.
    lines: u64,
    ended: bool,
}

/// Whole lines, the last perhaps without its line feed.
pub(crate) struct Block<'a> {
    pub(crate) bytes: &'a [u8],
    /// The number of its first line, counted from 1.
    pub(crate) first_line: u64,
    /// Whether a line that was too long to keep stood at its end.
    pub(crate) cut_short: bool,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(source: R) -> Blocks<R> {
        Blocks {
            source,
            buffer: Vec::new(),
            rest: 0,
            lines: 0,
            ended: false,
        }
    }

    /// The next block, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Block<'_>>> {
        self.buffer.drain(..self.buffer.len() - self.rest);
        loop {
            let end = if self.ended {
                self.buffer.len()
            } else {
                memchr::memrchr(b'\n', &self.buffer).map_or(0, |at| at + 1)
            };
            if end > 0 {
                self.rest = self.buffer.len() - end;
                return Ok(Some(self.block(end, false)));
            }
            if self.ended {
                return Ok(None);
            }
            if self.buffer.len() > LONGEST {
                self.skip_line()?;
                return Ok(Some(self.block(0, true)));
            }
            self.fill()?;
        }
    }

    fn block(&mut self, end: usize, cut_short: bool) -> Block<'_> {
        let bytes = &self.buffer[..end];
        let first_line = self.lines + 1;
        let unfinished = bytes.last().is_some_and(|&byte| byte != b'\n');
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64
            + u64::from(unfinished)
            + u64::from(cut_short);
        Block {
            bytes,
            first_line,
            cut_short,
        }
    }

    /// Reads once: from a pipe that is whatever is there.
    fn fill(&mut self) -> io::Result<()> {
        let length = self.buffer.len();
        self.buffer.resize(length + BLOCK, 0);
        let got = loop {
            match self.source.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer.truncate(length + *got.as_ref().unwrap_or(&0));
        self.ended = got? == 0;
        Ok(())
    }

    /// Throws away what was read of a line and all that is still to come of it.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            self.fill()?;
            if let Some(feed) = memchr::memchr(b'\n', &self.buffer) {
                self.buffer.drain(..=feed);
                break;
            }
            if self.ended {
                break;
            }
        }
        self.rest = self.buffer.len();
        Ok(())
    }
}

/// The lines of a block, without their line ends.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    block
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as a pipe does.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn numbered(text: &[u8], drip: usize) -> Vec<(u64, Vec<u8>)> {
        let mut blocks = Blocks::new(Drip(text, drip));
        let mut out = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            let first = block.first_line;
            out.extend((first..).zip(lines(block.bytes).map(<[u8]>::to_vec)));
        }
        out
    }

    #[test]
    fn lines_come_whole_and_numbered_however_they_arrive() {
        let text = b"a\r\nbb\n\nccc";
        let expected = [
            (1, b"a".to_vec()),
            (2, b"bb".to_vec()),
            (3, b"".to_vec()),
            (4, b"ccc".to_vec()),
        ];
        for drip in 1..12 {
            assert_eq!(numbered(text, drip), expected, "{drip} bytes at a time");
        }
        assert_eq!(numbered(b"", 1), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_counted() {
        let mut text = b"a\n".to_vec();
        text.resize(LONGEST + (12 << 20), b'x');
        text.extend_from_slice(b"\nb\n");
        let mut blocks = Blocks::new(&text[..]);
        let mut seen = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            seen.push((block.first_line, block.bytes.to_vec(), block.cut_short));
        }
        assert_eq!(
            seen,
            [
                (1, b"a\n".to_vec(), false),
                (2, Vec::new(), true),
                (3, b"b\n".to_vec(), false)
            ]
        );
    }
}
