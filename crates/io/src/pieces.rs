//! Processes lines on all cores: one thread reads pieces of whole lines, all cores process them, and
//! the caller takes the results in input order, all at the same time.
//!
//! ```
//! use waypost_io::pieces::{self, PIECE, Piece, Pieces};
//!
//! let input = std::io::Cursor::new("one\ntwo\nthree\n");
//! let mut lengths = Vec::new();
//! let count = || |piece: Piece| Ok(piece.lines().map(<[u8]>::len).collect::<Vec<_>>());
//! pieces::run(2, Pieces::new("input", input, PIECE), count, |some| {
//!     lengths.extend(some);
//!     Ok::<_, waypost_io::Error>(())
//! })?;
//! assert_eq!(lengths, [3, 3, 5]);
//! # Ok::<_, waypost_io::Error>(())
//! ```
//!
//! A piece is what one read returns, so a program that writes a line and waits gets its answer at
//! once. The number of pieces in flight is bounded: a slow consumer stops the workers, and slow
//! workers stop the reader.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::LONGEST_LINE;
use crate::error::{Error, Result};
use crate::pipeline::{self, Width};

/// Bytes read at a time.
pub const PIECE: usize = 256 << 10;

/// How much of a line that is too long is kept, to show it.
const EXCERPT: usize = 200;

/// Whole lines of an input. The last one may have no line feed.
#[derive(Debug)]
pub struct Piece {
    buffer: Vec<u8>,
    end: usize,
    /// The number of its first line, counted from 1.
    pub first_line: u64,
    /// The piece is the start of one line that is longer than [`LONGEST_LINE`].
    pub too_long: bool,
    spare: Spare,
}

/// Buffers for reuse.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

impl Piece {
    /// The lines as they are, with their line ends.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// The lines, without their line ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = &self.buffer[..self.end];
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        Lines(Some(bytes))
    }
}

/// The parts of some bytes between line feeds.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let line = match memchr::memchr(b'\n', rest) {
            Some(feed) => {
                self.0 = Some(&rest[feed + 1..]);
                &rest[..feed]
            }
            None => {
                self.0 = None;
                rest
            }
        };
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(buffer);
    }
}

/// A stream cut into pieces.
#[derive(Debug)]
pub struct Pieces<R> {
    name: String,
    source: R,
    size: usize,
    /// The start of a line whose end has not been read yet.
    unfinished: Vec<u8>,
    /// Lines returned so far.
    lines: u64,
    ended: bool,
    spare: Spare,
}

impl<R: Read> Pieces<R> {
    /// Pieces of about `size` bytes, or less if a read returns less. `name` is used in errors.
    pub fn new(name: impl Into<String>, source: R, size: usize) -> Pieces<R> {
        Pieces {
            name: name.into(),
            source,
            size,
            unfinished: Vec::new(),
            lines: 0,
            ended: false,
            spare: Spare::default(),
        }
    }

    /// The next piece, or `None` at the end.
    ///
    /// # Errors
    /// Those of the source.
    #[expect(clippy::should_implement_trait, reason = "it gives errors, too")]
    pub fn next(&mut self) -> Result<Option<Piece>> {
        self.read_piece()
            .map_err(|error| Error::from_read(error).in_file(&self.name))
    }

    fn read_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut buffer = self.buffer();
        let mut filled = self.unfinished.len();
        buffer[..filled].copy_from_slice(&self.unfinished);
        self.unfinished.clear();
        // Whole lines may follow the end of a line that was skipped.
        if let Some(feed) = memchr::memrchr(b'\n', &buffer[..filled]) {
            self.unfinished.extend_from_slice(&buffer[feed + 1..filled]);
            return Ok(Some(self.piece(buffer, feed + 1, false)));
        }
        while !self.ended {
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
            let read = self.read(&mut buffer[filled..])?;
            let feed = memchr::memrchr(b'\n', &buffer[filled..filled + read]);
            let line_end = feed.map(|at| filled + at + 1);
            filled += read;
            if let Some(end) = line_end {
                self.unfinished.extend_from_slice(&buffer[end..filled]);
                return Ok(Some(self.piece(buffer, end, false)));
            }
            if filled > LONGEST_LINE {
                self.skip_line(&mut buffer[EXCERPT..])?;
                buffer.truncate(self.size.max(EXCERPT));
                return Ok(Some(self.piece(buffer, EXCERPT, true)));
            }
        }
        Ok((filled > 0).then(|| self.piece(buffer, filled, false)))
    }

    fn piece(&mut self, mut buffer: Vec<u8>, end: usize, too_long: bool) -> Piece {
        let first_line = self.lines + 1;
        let bytes = &buffer[..end];
        let cut = bytes.last().is_some_and(|&byte| byte != b'\n');
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64 + u64::from(cut);
        // A buffer that grew for a long line shrinks again.
        if buffer.len() > 2 * self.size {
            buffer.truncate(end.max(self.size));
            buffer.shrink_to_fit();
        }
        Piece {
            buffer,
            end,
            first_line,
            too_long,
            spare: Arc::clone(&self.spare),
        }
    }

    /// A buffer with space for a piece. Only a new one has to be zeroed.
    fn buffer(&self) -> Vec<u8> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = spare.pop().unwrap_or_default();
        drop(spare);
        let size = self.size.max(self.unfinished.len() + 1);
        if buffer.len() < size {
            buffer.resize(size, 0);
        } else if buffer.len() > 2 * size {
            buffer.truncate(size);
            buffer.shrink_to_fit();
        }
        buffer
    }

    /// Reads once: from a pipe, what is available.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.size.max(PIECE));
        loop {
            match self.source.read(&mut buffer[..length]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read) => {
                    self.ended = read == 0;
                    return Ok(read);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Skips the rest of a line, using `scratch` as a buffer.
    fn skip_line(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        while !self.ended {
            let read = self.read(scratch)?;
            if let Some(feed) = memchr::memchr(b'\n', &scratch[..read]) {
                self.unfinished.extend_from_slice(&scratch[feed + 1..read]);
                break;
            }
        }
        Ok(())
    }
}

/// Processes all pieces of an input. Each thread has its own `worker()`, which turns a piece into a
/// result; `take` receives the results in input order. The first error in that order ends the run,
/// and so does a panic of a worker.
///
/// After an error, this does not wait for the reading thread, which may be blocked on a silent pipe.
///
/// # Errors
/// Those of the source, the workers and `take`.
pub fn run<R, O, E, W>(
    threads: usize,
    mut pieces: Pieces<R>,
    worker: impl Fn() -> W + Sync,
    mut take: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E>
where
    R: Read + Send + 'static,
    O: Send,
    E: Send + From<Error>,
    W: FnMut(Piece) -> Result<O, E>,
{
    let threads = threads.max(1);
    let width = Width {
        threads,
        pieces: 2 * threads + 2,
    };
    let (send, pieces_read) = sync_channel(1);
    thread::spawn(move || {
        while let Some(piece) = pieces.next().transpose() {
            let last = piece.is_err();
            if send.send(piece).is_err() || last {
                return;
            }
        }
    });
    let stopped = AtomicBool::new(false);
    let stop = &stopped;
    let next_piece = move || {
        while !stop.load(Ordering::Relaxed) {
            match pieces_read.recv_timeout(Duration::from_millis(50)) {
                Ok(piece) => return Ok(Some(piece?)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(None)
    };
    let worker = || {
        let mut work = worker();
        move |piece| {
            let unless_done = StopUnlessDone(stop);
            let result = work(piece)?;
            std::mem::forget(unless_done);
            Ok(result)
        }
    };
    pipeline::run(width, next_piece, worker, |result| {
        let unless_done = StopUnlessDone(stop);
        take(result)?;
        std::mem::forget(unless_done);
        Ok(())
    })
}

/// Stops the reader after an error or a panic.
struct StopUnlessDone<'a>(&'a AtomicBool);

impl Drop for StopUnlessDone<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn bad() -> Error {
        Error::new(ErrorKind::Invalid("bad".to_owned()))
    }

    /// Gives a few bytes at a time, as a pipe does.
    struct Drip(Vec<u8>, usize, usize);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len() - self.2).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[self.2..self.2 + n]);
            self.2 += n;
            Ok(n)
        }
    }

    fn numbered(text: &[u8], drip: usize, size: usize) -> Vec<(u64, Vec<u8>, bool)> {
        let mut out = Vec::new();
        run(
            3,
            Pieces::new("-", Drip(text.to_vec(), drip, 0), size),
            || {
                |piece: Piece| {
                    let lines = (piece.first_line..).zip(piece.lines().map(<[u8]>::to_vec));
                    let lines = lines.map(|(number, line)| (number, line, piece.too_long));
                    Ok::<_, Error>(lines.collect::<Vec<_>>())
                }
            },
            |lines| {
                out.extend(lines);
                Ok(())
            },
        )
        .unwrap();
        out
    }

    #[test]
    fn lines_are_whole_and_numbered_however_they_arrive() {
        let text = b"a\r\nbb\n\nccc";
        let expected = [(1, "a"), (2, "bb"), (3, ""), (4, "ccc")]
            .map(|(number, line)| (number, line.as_bytes().to_vec(), false));
        for drip in 1..12 {
            for size in [1, 3, 100] {
                assert_eq!(numbered(text, drip, size), expected, "{drip} {size}");
            }
        }
        assert!(numbered(b"", 3, 3).is_empty());
        assert_eq!(numbered(b"\n", 3, 3), [(1, Vec::new(), false)]);
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_what_follows_it_is_read() {
        for drip in [1 << 20, usize::MAX] {
            let mut text = b"first\n".to_vec();
            text.resize(6 + 2 * LONGEST_LINE, b'x');
            text.extend_from_slice(b"\nsecond\nthird\n");
            let lines = numbered(&text, drip, PIECE);
            assert_eq!(lines.len(), 4);
            assert_eq!((lines[0].0, &lines[0].1[..]), (1, &b"first"[..]));
            assert_eq!(
                (lines[1].0, lines[1].1.len(), lines[1].2),
                (2, EXCERPT, true)
            );
            assert_eq!(
                (lines[2].0, &lines[2].1[..], lines[2].2),
                (3, &b"second"[..], false)
            );
            assert_eq!((lines[3].0, &lines[3].1[..]), (4, &b"third"[..]));
            text.truncate(6 + 2 * LONGEST_LINE);
            let lines = numbered(&text, drip, PIECE);
            assert_eq!(lines.len(), 2, "a long line at the end");
            assert!(lines[1].2);
        }
    }

    #[test]
    fn the_first_error_ends_the_run_and_a_panic_is_an_error() {
        let text: Vec<u8> = (0..1000)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect();
        let fail_at = |wrong: &'static [u8], panics: bool| {
            run(
                4,
                Pieces::new("-", Drip(text.clone(), 7, 0), 7),
                || {
                    move |piece: Piece| {
                        if piece.lines().any(|line| line == wrong) {
                            assert!(!panics, "as asked");
                            return Err(bad());
                        }
                        Ok(())
                    }
                },
                |()| Ok(()),
            )
        };
        assert!(
            fail_at(b"500", false)
                .unwrap_err()
                .to_string()
                .ends_with("bad")
        );
        assert!(
            fail_at(b"500", true)
                .unwrap_err()
                .to_string()
                .contains("panicked")
        );
        assert!(fail_at(b"none", false).is_ok());
    }

    /// A pipe that gives some bytes and then stays open.
    struct Silent(bool);

    impl Read for Silent {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if !self.0 {
                loop {
                    thread::park();
                }
            }
            self.0 = false;
            buffer[..4].copy_from_slice(b"bad\n");
            Ok(4)
        }
    }

    #[test]
    fn an_error_ends_the_run_while_the_input_stays_open() {
        let worker = || |_: Piece| -> Result<()> { Err(bad()) };
        let ended = run(
            2,
            Pieces::new("-", Silent(true), PIECE),
            worker,
            |()| Ok(()),
        );
        assert_eq!(ended.unwrap_err().to_string(), "bad");
    }
}
