//! Lines in a buffer of bounded size.

use std::io::{self, Read};

use crate::LONGEST_LINE;
use crate::error::{Error, Result};
use crate::sort::SortedLines;

/// How much is read at a time.
const BLOCK: usize = 256 << 10;

/// The lines of a reader, without their line feeds. The last line need not have one.
///
/// ```
/// use waypost_io::Lines;
///
/// let mut lines = Lines::new(&b"one\ntwo"[..]);
/// while lines.advance()? {
///     println!("{}: {}", lines.number(), String::from_utf8_lossy(lines.line()));
/// }
/// assert_eq!(lines.number(), 2);
/// # Ok::<(), waypost_io::Error>(())
/// ```
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The current line is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The start of the next line, and the end of the data in the buffer.
    next: usize,
    filled: usize,
    ended: bool,
    /// The maximum length of a line.
    longest: usize,
    number: u64,
    /// How often the content of the buffer was moved to its start.
    moved: u64,
}

impl Lines<io::Empty> {
    /// The lines of a text in memory, which is not copied.
    pub fn of_text(text: Vec<u8>) -> Lines<io::Empty> {
        Lines {
            filled: text.len(),
            ended: true,
            longest: LONGEST_LINE,
            buffer: text,
            reader: io::empty(),
            start: 0,
            end: 0,
            next: 0,
            number: 0,
            moved: 0,
        }
    }
}

impl<R: Read> Lines<R> {
    /// The lines of `reader`, each of at most [`LONGEST_LINE`] bytes.
    pub fn new(reader: R) -> Lines<R> {
        Lines::with_buffer(reader, BLOCK, LONGEST_LINE)
    }

    /// The lines of `reader`, which is read about `size` bytes at a time. A line of more than
    /// `longest` bytes is an error.
    pub fn with_buffer(reader: R, size: usize, longest: usize) -> Lines<R> {
        Lines {
            reader,
            buffer: vec![0; size],
            start: 0,
            end: 0,
            next: 0,
            filled: 0,
            ended: false,
            longest: longest.max(size),
            number: 0,
            moved: 0,
        }
    }

    /// All that was read, so that its memory can be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The current line, without its line feed. Empty before the first call of
    /// [`advance`](Lines::advance).
    #[inline]
    pub fn line(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The number of the current line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the current line ends with a line feed.
    pub(crate) fn is_terminated(&self) -> bool {
        self.next > self.end
    }

    /// The reader.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Moves to the next line. `false` at the end.
    ///
    /// # Errors
    /// If the reader fails or a line is too long.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        let mut searched = self.next;
        loop {
            let feed = memchr::memchr(b'\n', &self.buffer[searched..self.filled]);
            let (end, next) = match feed {
                Some(at) => (searched + at, searched + at + 1),
                None if self.ended && self.next == self.filled => return Ok(false),
                None if self.ended => (self.filled, self.filled),
                None => {
                    let unfinished = self.filled - self.next;
                    self.fill()?;
                    searched = self.next + unfinished;
                    continue;
                }
            };
            self.start = self.next;
            self.end = end;
            self.next = next;
            self.number += 1;
            return Ok(true);
        }
    }

    /// Moves to the next line and compares it with the current one.
    ///
    /// # Errors
    /// Like [`advance`](Lines::advance), and if the next line is smaller.
    pub(crate) fn advance_in_order(&mut self) -> Result<bool> {
        let first = self.number == 0;
        let (last_start, last_end) = (self.start, self.end);
        let moved = self.moved;
        if !self.advance()? {
            return Ok(false);
        }
        if first {
            return Ok(true);
        }
        // `fill` may have moved the preceding line to the start of the buffer, but keeps it.
        let shift = if self.moved == moved { 0 } else { last_start };
        let before = &self.buffer[last_start - shift..last_end - shift];
        let here = &self.buffer[self.start..self.end];
        if here < before {
            return Err(Error::not_sorted(before, here).at_line(self.number));
        }
        Ok(true)
    }

    /// Discards the unfinished line at the end of damaged input.
    pub(crate) fn drop_unfinished(&mut self) {
        self.filled = self.next;
        self.ended = true;
    }

    /// Reads on, after the unfinished line. Keeps the current line in the buffer.
    #[cold]
    fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.next -= self.start;
            self.end -= self.start;
            self.start = 0;
            self.moved += 1;
        }
        if self.filled == self.buffer.len() {
            if self.filled - self.next > self.longest {
                return Err(Error::line_too_long(self.longest).at_line(self.number + 1));
            }
            // One byte more than the longest line, for its line feed.
            let size = (self.buffer.len() * 2).min(self.next + self.longest + 1);
            self.buffer.resize(size, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    self.ended = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from_read(error)),
            }
        }
    }
}

impl<R: Read> SortedLines for Lines<R> {
    fn line(&self) -> &[u8] {
        self.line()
    }

    fn advance(&mut self) -> Result<bool> {
        self.advance()
    }
}

/// How many bytes two texts have in common at their starts.
///
/// ```
/// assert_eq!(waypost_io::lines::common_prefix(b"com,example)/a", b"com,example)/b"), 13);
/// ```
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
        let different = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = a[at..].iter().zip(&b[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
        all(Lines::with_buffer(bytes, size, 1 << 20))
    }

    fn all(mut source: Lines<impl Read>) -> Vec<Vec<u8>> {
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
            prop_assert_eq!(&lines(&bytes, size), &expected);
            prop_assert_eq!(all(Lines::of_text(bytes)), expected);
        }
    }

    proptest! {
        #[test]
        fn common_prefixes_are_found(
            a in prop::collection::vec(0..2u8, 0..40),
            b in prop::collection::vec(0..2u8, 0..40),
        ) {
            let expected = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &b), expected);
            prop_assert_eq!(common_prefix(&a, &a), a.len());
        }
    }

    proptest! {
        #[test]
        fn a_line_smaller_than_the_one_before_is_found_wherever_the_buffer_ends(
            lines in prop::collection::vec("[ab]{0,4}", 1..12),
            size in 1usize..9,
        ) {
            let text = lines.join("\n") + "\n";
            let mut source = Lines::with_buffer(text.as_bytes(), size, 1 << 20);
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
    fn a_line_that_is_too_long_is_an_error_and_does_not_fill_the_memory() {
        let mut text = b"short\n".to_vec();
        text.resize(text.len() + 64, b'x');
        text.extend_from_slice(b"\n");
        text.resize(text.len() + 5000, b'y');
        let mut lines = Lines::with_buffer(&text[..], 16, 64);
        assert!(lines.advance().unwrap());
        assert!(lines.advance().unwrap());
        assert_eq!(lines.line().len(), 64);
        let error = lines.advance().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::LineTooLong { bytes: 64 }),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            "line 3: the line is longer than 64 bytes"
        );
        assert!(lines.buffer.len() < 256);
    }
}
