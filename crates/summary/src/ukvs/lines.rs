//! The lines of a reader, in a buffer of limited size.

use std::io::{self, Read};

use crate::error::{Error, Result};

/// Lines longer than this are errors.
pub const LONGEST: usize = 16 << 20;

/// How much is read at a time.
const BLOCK: usize = 256 << 10;

/// Lines, without their terminators. The last line need not have one.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The current line is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The start of the next line, and the end of the data in the buffer.
    next: usize,
    filled: usize,
    ended: bool,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// The lines of `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            next: 0,
            filled: 0,
            ended: false,
            number: 0,
        }
    }

    /// The current line, without its line feed.
    pub fn line(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Moves to the next line. `false` at the end.
    ///
    /// # Errors
    /// When the source cannot be read, or a line is longer than [`LONGEST`].
    pub fn advance(&mut self) -> Result<bool> {
        let mut searched = self.next;
        loop {
            let feed = memchr::memchr(b'\n', &self.buffer[searched..self.filled]);
            let (end, next) = match feed {
                Some(at) => (searched + at, searched + at + 1),
                None if self.ended && self.next == self.filled => return Ok(false),
                None if self.ended => (self.filled, self.filled),
                None => {
                    searched = self.filled - self.next;
                    self.fill()?;
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

    /// Moves the unfinished line to the start of the buffer and reads on.
    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.filled > LONGEST {
            return Err(Error::syntax("the line is longer than 16 MiB", LONGEST + 1)
                .at_line(self.number + 1));
        }
        if self.buffer.len() < self.filled + BLOCK {
            self.buffer.resize(self.filled + BLOCK, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(read) => {
                    self.filled += read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The input reports damage as an I/O error.
                Err(error) => return Err(of_io(error)),
            }
        }
    }
}

fn of_io(error: io::Error) -> Error {
    match error.downcast::<waypost_io::Error>() {
        Ok(error) => error.into(),
        Err(source) => waypost_io::Error::new(waypost_io::ErrorKind::Io {
            doing: "read",
            source,
        })
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(
            bytes in prop::collection::vec(prop::sample::select(b"\nab\r".to_vec()), 0..60),
            drip in 1usize..9,
        ) {
            let mut expected: Vec<Vec<u8>> = bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            let mut lines = Lines::new(Drip(&bytes, drip));
            let mut found = Vec::new();
            while lines.advance().unwrap() {
                found.push(lines.line().to_vec());
            }
            prop_assert_eq!(found, expected);
        }
    }
}
