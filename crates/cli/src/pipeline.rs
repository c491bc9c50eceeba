//! Lines in, answers out: one thread reads pieces of whole lines, all cores work on them, and the
//! caller writes the results in the order of the input, all at the same time.
//!
//! A piece is whatever one read brings, so a program that writes a line and waits gets its answer at
//! once. The pieces on their way are bounded: a slow reader of the output stops the workers, and
//! these stop the reading.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;

/// Bytes read at a time.
pub(crate) const PIECE: usize = 256 << 10;

/// Longer lines are skipped and counted as bad. No URI is this long.
pub(crate) const LONGEST_LINE: usize = waypost_io::LONGEST_LINE;

/// How much of a line that is too long is kept, to show it.
const EXCERPT: usize = 200;

/// Whole lines of an input, the last perhaps without its line feed.
pub(crate) struct Piece {
    buffer: Vec<u8>,
    end: usize,
    /// The number of its first line, counted from 1.
    pub(crate) first_line: u64,
    /// The piece is the start of one line that is longer than [`LONGEST_LINE`].
    pub(crate) too_long: bool,
    spare: Spare,
}

/// Buffers to be used again.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

impl Piece {
    /// The lines, without their line ends.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
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
pub(crate) struct Pieces<R> {
    name: String,
    source: R,
    size: usize,
    /// The start of a line whose end is still to be read.
    unfinished: Vec<u8>,
    /// Lines given so far.
    lines: u64,
    ended: bool,
    spare: Spare,
}

impl<R: Read> Pieces<R> {
    /// Pieces of about `size` bytes, or less where a read brings less. Errors call the source `name`.
    pub(crate) fn new(name: impl Into<String>, source: R, size: usize) -> Pieces<R> {
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
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Piece>> {
        self.read_piece()
            .with_context(|| format!("cannot read {}", self.name))
    }

    fn read_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut buffer = self.buffer();
        let mut filled = self.unfinished.len();
        buffer[..filled].copy_from_slice(&self.unfinished);
        self.unfinished.clear();
        // Whole lines may have come with the end of a line that was skipped.
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
        // A buffer that grew for a long line does not stay as long.
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

    /// A buffer with room for a piece. Only a new one has to be zeroed.
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

    /// Reads once: from a pipe that is whatever is there.
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

    /// Skips all that is still to come of a line, reading through `scratch`.
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

/// Takes the pieces of an input to their end. Each thread has a `worker()` of its own, which makes a
/// result of a piece; `take` sees the results in the order of the input. The first error, in that
/// order, ends everything, and so does a panic of a worker.
///
/// The reading thread is not waited for: it may wait for a pipe that stays silent, and an error is
/// reported at once.
pub(crate) fn run<R: Read + Send + 'static, O: Send, W: FnMut(Piece) -> anyhow::Result<O>>(
    threads: usize,
    mut pieces: Pieces<R>,
    worker: impl Fn() -> W + Sync,
    mut take: impl FnMut(O) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let threads = threads.max(1);
    let depth = 2 * threads + 2;
    // No channel is ever full: there are as many tickets as pieces.
    let (send_piece, read_pieces) = sync_channel::<(usize, anyhow::Result<Piece>)>(depth);
    let (send_result, results) = sync_channel::<(usize, anyhow::Result<O>)>(depth);
    let (return_ticket, tickets) = sync_channel::<()>(depth);
    for _ in 0..depth {
        let _ = return_ticket.send(());
    }
    thread::spawn(move || {
        for number in 0.. {
            if tickets.recv().is_err() {
                return;
            }
            let Some(piece) = pieces.next().transpose() else {
                return;
            };
            let last = piece.is_err();
            if send_piece.send((number, piece)).is_err() || last {
                return;
            }
        }
    });
    let queue = Queue {
        pieces: Mutex::new(read_pieces),
        stopped: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            let send_result = send_result.clone();
            let (queue, worker) = (&queue, &worker);
            scope.spawn(move || {
                let mut work = worker();
                while let Some((number, piece)) = queue.next() {
                    let result = piece.and_then(|piece| {
                        catch_unwind(AssertUnwindSafe(|| work(piece)))
                            .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker thread panicked")))
                    });
                    if send_result.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send_result);
        let taken = take_in_order(&results, &return_ticket, &mut take);
        queue.stopped.store(true, Ordering::Relaxed);
        taken
    })
}

/// The pieces that were read and are still to be worked on.
struct Queue {
    pieces: Mutex<Receiver<(usize, anyhow::Result<Piece>)>>,
    /// Nobody wants more results.
    stopped: AtomicBool,
}

impl Queue {
    /// The next piece; `None` when there are no more, or nobody wants them.
    fn next(&self) -> Option<(usize, anyhow::Result<Piece>)> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.stopped.load(Ordering::Relaxed) {
            match pieces.recv_timeout(Duration::from_millis(50)) {
                Ok(piece) => return Some(piece),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Gives the results to `take` in the order of their pieces, and a ticket back for each.
fn take_in_order<O>(
    results: &Receiver<(usize, anyhow::Result<O>)>,
    return_ticket: &SyncSender<()>,
    take: &mut impl FnMut(O) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (number, result) in results {
        waiting.insert(number, result);
        while let Some(result) = waiting.remove(&next) {
            take(result?)?;
            next += 1;
            let _ = return_ticket.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    Ok(lines.collect::<Vec<_>>())
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
    fn lines_come_whole_and_numbered_however_they_arrive() {
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
        let fail_at = |bad: &'static [u8], panics: bool| {
            run(
                4,
                Pieces::new("-", Drip(text.clone(), 7, 0), 7),
                || {
                    move |piece: Piece| {
                        if piece.lines().any(|line| line == bad) {
                            assert!(!panics, "as asked");
                            anyhow::bail!("bad")
                        }
                        Ok(())
                    }
                },
                |()| Ok(()),
            )
        };
        assert!(format!("{:#}", fail_at(b"500", false).unwrap_err()).ends_with("bad"));
        assert!(format!("{:#}", fail_at(b"500", true).unwrap_err()).contains("panicked"));
        assert!(fail_at(b"none", false).is_ok());
    }

    /// A pipe that says something and then stays open.
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
    fn an_error_ends_the_run_though_the_input_stays_open() {
        let worker = || |_: Piece| -> anyhow::Result<()> { anyhow::bail!("bad") };
        let ended = run(
            2,
            Pieces::new("-", Silent(true), PIECE),
            worker,
            |()| Ok(()),
        );
        assert_eq!(ended.unwrap_err().to_string(), "bad");
    }
}
