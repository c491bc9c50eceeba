//! Reads lines in a buffer of bounded size.

use std::io::{self, Read};

use crate::error::{Error, ErrorKind, Result};
use crate::sort::SortedLines;

/// Reads lines from `R`. The last one need not end with a newline.
pub(crate) struct StreamLines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The current line is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Where the next line begins.
    next: usize,
    filled: usize,
    ended: bool,
    /// The longest line that is read.
    longest: usize,
    lines: u64,
    /// How often the buffer's contents were moved to its start.
    moved: u64,
}

impl<R: Read> StreamLines<R> {
    /// Lines of `reader`, which is read `size` bytes at a time; a line of more than `longest`
    /// bytes is an error.
    pub(crate) fn new(reader: R, size: usize, longest: usize) -> StreamLines<R> {
        StreamLines {
            reader,
            buffer: vec![0; size],
            start: 0,
            end: 0,
            next: 0,
            filled: 0,
            ended: false,
            longest: longest.max(size),
            lines: 0,
            moved: 0,
        }
    }

    /// How many lines have been given, counting the current one.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    /// Moves to the next line, like [`SortedLines::advance`], and compares it with the one before.
    ///
    /// # Errors
    /// When it is smaller.
    pub(crate) fn advance_in_order(&mut self) -> Result<bool> {
        let first = self.lines == 0;
        let (last_start, last_end) = (self.start, self.end);
        let moved = self.moved;
        if !self.advance()? {
            return Ok(false);
        }
        if first {
            return Ok(true);
        }
        // Reading on may have moved the line before to the start of the buffer, but keeps it.
        let shift = if self.moved == moved { 0 } else { last_start };
        let before = &self.buffer[last_start - shift..last_end - shift];
        let here = &self.buffer[self.start..self.end];
        if here < before {
            return Err(Error::not_sorted(before, here).at_line(self.lines));
        }
        Ok(true)
    }

    /// Forgets the start of a line that was read last. For damaged input, whose last line is cut.
    pub(crate) fn drop_unfinished(&mut self) {
        self.filled = self.next;
        self.ended = true;
    }

    /// Makes room behind the unfinished line and reads on. Returns how much was read. The current
    /// line stays in the buffer.
    fn fill(&mut self) -> Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.next -= self.start;
            self.end -= self.start;
            self.start = 0;
            self.moved += 1;
        }
        if self.filled == self.buffer.len() {
            if self.filled - self.next >= self.longest {
                return Err(too_long(self.longest).at_line(self.lines + 1));
            }
            let size = (self.buffer.len() * 2).min(self.next + self.longest);
            self.buffer.resize(size, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from_read(error)),
            }
        }
    }
}

/// The error for a line that does not fit in the memory that was granted.
pub(crate) fn too_long(bytes: usize) -> Error {
    Error::new(ErrorKind::LineTooLong { bytes })
}

impl<R: Read> SortedLines for StreamLines<R> {
    fn line(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn advance(&mut self) -> Result<bool> {
        let mut searched = self.next;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.filled]) {
                self.start = self.next;
                self.end = searched + at;
                self.next = self.end + 1;
                self.lines += 1;
                return Ok(true);
            }
            if self.ended {
                if self.next == self.filled {
                    return Ok(false);
                }
                self.start = self.next;
                self.end = self.filled;
                self.next = self.filled;
                self.lines += 1;
                return Ok(true);
            }
            let unfinished = self.filled - self.next;
            self.ended = self.fill()? == 0;
            searched = self.next + unfinished;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut source = StreamLines::new(bytes, size, 1 << 20);
        let mut out = Vec::new();
        while source.advance().unwrap() {
            out.push(source.line().to_vec());
        }
        out
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_size_of_the_buffer(
            bytes in prop::collection::vec(prop::sample::select(vec![b'\n', b'a', 0, b'\r']), 0..60),
            size in 1usize..9,
        ) {
            let mut expected: Vec<Vec<u8>> = bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            prop_assert_eq!(lines(&bytes, size), expected);
        }
    }

    proptest! {
        #[test]
        fn a_line_smaller_than_the_one_before_is_found_wherever_the_buffer_ends(
            lines in prop::collection::vec("[ab]{0,4}", 1..12),
            size in 1usize..9,
        ) {
            let text = lines.join("\n") + "\n";
            let mut source = StreamLines::new(text.as_bytes(), size, 1 << 20);
            let expected = lines.windows(2).position(|pair| pair[1] < pair[0]);
            let found = loop {
                match source.advance_in_order() {
                    Ok(true) => {}
                    Ok(false) => break None,
                    Err(error) => break error.place().line,
                }
            };
            prop_assert_eq!(found, expected.map(|at| at as u64 + 2));
        }
    }

    #[test]
    fn a_line_that_does_not_fit_is_an_error_and_not_a_full_memory() {
        let bytes = vec![b'x'; 5000];
        let mut source = StreamLines::new(&b"short\n"[..], 16, 64);
        assert!(source.advance().unwrap());
        let mut source = StreamLines::new(&bytes[..], 16, 64);
        let error = source.advance().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::LineTooLong { .. }),
            "{error}"
        );
    }
}
