//! The papers' rule on all cores: the map is cut into pieces between subtrees, each is compacted by
//! itself, and the results are written in order.
//!
//! A cut is safe where no node that can roll up has rows on both sides. Top-level domains never roll
//! up, so most maps can be cut between any two registered domains. What the pieces cannot decide is
//! left to a [single thread](super::once): it also reports errors with the numbers of their lines.

use std::path::Path;

use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::{Format, LONGEST_LINE, LineWriter, Progress, Resources, Source};

use super::once::Once;
use super::queue::Queue;
use super::{Style, Summed};
use crate::error::{Error, Result};
use crate::map::solve::papers::{Cuts, Papers};
use crate::map::tree::common_prefix;
use crate::map::tree::pass::{Pass, Walked, walk_rows};
use crate::map::tree::rows::{Order, Rows};
use crate::map::tree::text::{Cutting, Permit, Sizes, Texts};

/// Pieces are cut at the first safe place after so many bytes.
pub(crate) const PIECE: usize = 1 << 20;

/// A subtree of more bytes is not held in memory, even if there is room.
const LONGEST: usize = 32 << 20;

/// How many bytes are skipped at least where many lines are below the same host.
const STRIDE: usize = 1 << 8;

/// Where a map can be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Safe {
    /// The number of leading labels whose hosts never roll up.
    labels: usize,
}

impl Safe {
    pub(crate) fn new(cuts: &Cuts) -> Safe {
        Safe {
            labels: cuts.labels_that_stay(),
        }
    }

    /// Whether a map can be cut between two lines that follow each other. No if in doubt.
    ///
    /// Only ports may come later: `com,a,b` · `com,a-b` | `com,a0` · `com,a:8080`. They are rare, and
    /// [`is_torn`] finds them when they are read.
    pub(crate) fn between(self, before: &[u8], after: &[u8]) -> bool {
        let is_usual = |line: &[u8]| matches!(line.first(), Some(b'a'..=b'z' | b'0'..=b'9'));
        if !is_usual(before) || !is_usual(after) {
            return false;
        }
        let common = common_prefix(before, after);
        let (Some(&last), Some(&next)) = (before.get(common), after.get(common)) else {
            return false;
        };
        let start = memchr::memrchr(b',', &after[..common]).map_or(0, |comma| comma + 1);
        let labels = memchr::memchr_iter(b',', &after[..start]).count();
        last < next
            && !self.is_below(&after[..common])
            // A host that is a part of the last label, or all of it, has had its pages and subdomains.
            && (labels < self.labels
                || after[start..=common].iter().all(|&byte| byte > b',' && byte != b':'))
    }

    /// Whether keys that start like this are below a host that can roll up.
    fn is_below(self, start: &[u8]) -> bool {
        memchr::memchr_iter(b',', start).count() > self.labels
            || memchr::memchr3(b')', b'/', b' ', start).is_some()
    }

    /// The last safe place in a text of whole lines, as the start of a line.
    pub(crate) fn last_in(self, text: &[u8]) -> Option<usize> {
        let lines_end = |end: usize| memchr::memrchr(b'\n', &text[..end]);
        let start_of = |end: usize| lines_end(end).map_or(0, |at| at + 1);
        // The end of the line that would come after the cut.
        let mut end = lines_end(text.len())?;
        let mut stride = STRIDE;
        loop {
            let start = lines_end(end)? + 1;
            // In a sorted text, all lines between two that are below the same host are below it.
            let far = start_of(start.saturating_sub(stride));
            let common = common_prefix(&text[far..start], &text[start..end]);
            if self.is_below(&text[start..start + common]) {
                end = far + memchr::memchr(b'\n', &text[far..])?;
                stride *= 2;
                continue;
            }
            let before = start_of(start - 1);
            if self.between(&text[before..start - 1], &text[start..end]) {
                return Some(start);
            }
            end = start - 1;
            stride = (stride / 2).max(STRIDE);
        }
    }
}

/// Whether the other rows of a host with a port may be before the first row of the piece that has the
/// port.
pub(crate) fn is_torn(host: &[u8], first: &[u8]) -> bool {
    let rest = first.strip_prefix(host);
    rest.is_some_and(|rest| !matches!(rest.first(), Some(b')' | b',' | b':')))
}

/// A compacted piece.
struct Compacted {
    lines: Vec<u8>,
    written: Summed,
    rows: u64,
    rolled: u64,
    _permit: Permit,
}

/// The result of compacting in pieces.
pub(crate) struct Whole {
    pub(crate) rows: u64,
    pub(crate) rolled: u64,
    pub(crate) written: Summed,
    pub(crate) bytes: u64,
}

/// Compacts a map in pieces of about `size` bytes. `None` if that is not possible: nothing was
/// written then.
pub(crate) fn compact(
    source: &Source,
    papers: &Papers,
    head: &[u8],
    size: usize,
    room: &Resources,
    progress: &Progress,
    out: &Path,
) -> Result<Option<Whole>> {
    let threads = room.threads;
    let width = Width {
        threads,
        pieces: 2 * threads + 2,
    };
    let sizes = Sizes {
        piece: size,
        longest: (room.memory / 4).clamp(size, LONGEST.max(size)),
        // A piece and what becomes of it, and as much again for what is read and written.
        together: (room.memory / 4).max(size),
    };
    let safe = Safe::new(&Cuts::new(papers));
    let last_cut = |text: &[u8]| safe.last_in(text).map(|at| (at, ()));
    let mut pieces = Texts::open(source, progress, sizes, last_cut)?;
    let mut lines = LineWriter::create(out, &Format::of_name(out), threads)?;
    lines.push_lines(head)?;
    let mut whole = Whole {
        rows: 0,
        rolled: 0,
        written: Summed::default(),
        bytes: 0,
    };
    let mut possible = true;
    let name = source.to_string();
    let pool = Pool::new();
    let done = pipeline::run(
        width,
        || pieces.next().map_err(|error| error.in_file(&name)),
        || {
            let mut queue = Queue::to_bytes(Style::Published);
            let (name, pool) = (&name, &pool);
            move |piece| alone(piece, name, papers, &mut queue, pool)
        },
        |compacted| {
            let Some(compacted) = compacted else {
                possible = false;
                return Err(Error::invalid("the map cannot be compacted in pieces"));
            };
            lines.push_lines(&compacted.lines)?;
            whole.rows += compacted.rows;
            whole.rolled += compacted.rolled;
            whole.written.add(&compacted.written);
            Ok(())
        },
    );
    match done {
        Err(_) if !possible => Ok(None),
        Err(error) => Err(error),
        Ok(()) => {
            whole.bytes = lines.finish()?.bytes_out;
            Ok(Some(whole))
        }
    }
}

/// Compacts a piece. `None` if that takes more than this piece.
fn alone(
    piece: Cutting<()>,
    name: &str,
    papers: &Papers,
    queue: &mut Queue,
    pool: &Pool<Vec<u8>>,
) -> Result<Option<Compacted>> {
    let Cutting::Piece(text, _) = piece else {
        return Ok(None);
    };
    let bytes = text.bytes(pool.get());
    let (piece, permit) = bytes.map_err(|error| error.in_file(name))?;
    if has_long_line(&piece) {
        return Ok(None);
    }
    let first = memchr::memchr2(b' ', b'\n', &piece).unwrap_or(piece.len());
    let first = piece[..first].to_vec();
    let mut once = Once::in_piece(papers, first, queue);
    let Ok(mut rows) = Rows::of_text(piece, name, Order::Watch) else {
        return Ok(None);
    };
    let Ok(Walked::Whole { rows: count }) = walk_rows(&mut rows, None, &mut once) else {
        return Ok(None);
    };
    pool.put(rows.into_buffer());
    if once.gives_up() {
        return Ok(None);
    }
    let rolled = once.rolled;
    let (lines, written) = queue.take_lines();
    Ok(Some(Compacted {
        lines,
        written,
        rows: count,
        rolled,
        _permit: permit,
    }))
}

/// Whether a line is too long. Few pieces are long enough to have one.
fn has_long_line(piece: &[u8]) -> bool {
    piece.len() > LONGEST_LINE
        && (piece.split(|&byte| byte == b'\n')).any(|line| line.len() > LONGEST_LINE)
}
