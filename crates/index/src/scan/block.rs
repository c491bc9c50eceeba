//! Parses the lines of a block, on one thread.

use memchr::{memchr, memrchr};

use super::{At, Job, Tally};
use crate::capture::{Capture, Fields};
use crate::layout::{FileLayout, Read, Shape};
use crate::rejects::Bad;
use crate::revisit::Resolver;
use crate::select::Select;
use crate::structure::{Best, LineAt, Lines};
use crate::web;

/// Options that are the same for all blocks.
pub(super) struct Reading<'a, J> {
    pub(super) job: &'a J,
    pub(super) select: &'a Select,
    pub(super) wanted: Fields,
    pub(super) whole: bool,
    /// Whether lines are URIs.
    pub(super) list: bool,
}

/// A bad line of a block.
pub(super) struct BadLine {
    pub(super) kind: Bad,
    /// More details, if the kind is not specific enough.
    pub(super) detail: Option<String>,
    pub(super) line: u64,
    /// Its position in the block.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The result of a block.
pub(super) struct Found<P> {
    pub(super) partial: P,
    pub(super) tally: Tally,
    pub(super) bad: Vec<BadLine>,
    /// The layout at the end of the block, if headers in it changed it.
    pub(super) layout: Option<FileLayout>,
}

impl<P> Found<P> {
    fn new(job: &impl Job<Partial = P>) -> Found<P> {
        Found {
            partial: job.empty(),
            tally: Tally::default(),
            bad: Vec::new(),
            layout: None,
        }
    }
}

/// The range of complete lines in a block; fragments of lines are before and after it.
pub(super) fn body(block: &[u8]) -> (usize, usize) {
    match memchr(b'\n', block) {
        Some(first) => (
            first + 1,
            memrchr(b'\n', block).map_or(block.len(), |last| last + 1),
        ),
        // The whole block is a fragment.
        None => (block.len(), block.len()),
    }
}

/// Parses lines. `bytes` starts with a line; the last line may lack its newline.
pub(super) fn read<J: Job>(
    reading: &Reading<'_, J>,
    layout: &FileLayout,
    bytes: &[u8],
    mut resolver: Option<&mut Resolver>,
) -> Found<J::Partial> {
    if reading.list {
        return read_list(reading, bytes);
    }
    let mut found = Found::new(reading.job);
    let mut learned: Option<FileLayout> = None;
    let mut shapes = ShapeCount::default();
    let mut capture = Capture::reused();
    let mut number = 0;
    let everything = reading.select.is_everything();
    let mut before = None;
    let mut lines = Best::new(bytes, reading.whole);
    while let Some(LineAt {
        start,
        end,
        has_nul,
    }) = lines.next_line()
    {
        let full = &bytes[start..end];
        let line = match full {
            [line @ .., b'\r'] => line,
            line => line,
        };
        let at = At {
            source: 0,
            line: number,
            byte: start as u64,
        };
        reading.job.line(&mut found.partial, line, before, at);
        before = Some(line);
        let current = learned.as_ref().unwrap_or(layout);
        let read = if has_nul {
            Read::Bad(Bad::Nul)
        } else {
            let (wanted, whole) = (reading.wanted, reading.whole);
            current.read_into(line, lines.strings(), wanted, whole, &mut capture)
        };
        match read {
            Read::Capture(shape) => {
                shapes.add(shape, &mut found.tally);
                let non_web = web::non_web(&capture);
                match non_web {
                    Some(kind) => found.tally.non_web[kind as usize] += 1,
                    None => {
                        found.tally.captures += 1;
                        found.tally.revisits += u64::from(capture.is_revisit());
                        found.tally.odd_timestamps += u64::from(!capture.check_time());
                    }
                }
                if non_web.is_none() || reading.select.wants_non_web() {
                    let original = resolver.as_deref_mut().and_then(|all| all.see(&capture));
                    let capture = match original {
                        Some(original) => &original.stand_in_for(&capture),
                        None => &capture,
                    };
                    if everything || reading.select.accepts_web(capture) {
                        found.tally.selected += 1;
                        reading.job.add(&mut found.partial, capture, at);
                    }
                }
            }
            Read::Header => {
                found.tally.headers += 1;
                if current.is_news(line) {
                    learned.get_or_insert_with(|| layout.clone()).learn(line);
                }
            }
            Read::Bad(kind) => found.bad.push(BadLine {
                kind,
                detail: None,
                line: number,
                start,
                end: start + line.len(),
            }),
        }
        number += 1;
    }
    if let Some(last) = before {
        reading.job.last_line(&mut found.partial, last);
    }
    shapes.flush(&mut found.tally);
    found.tally.lines = number;
    found.tally.bytes = bytes.len() as u64;
    found.layout = learned.filter(|learned| learned != layout);
    found
}

/// Reads a list of URIs.
fn read_list<J: Job>(reading: &Reading<'_, J>, bytes: &[u8]) -> Found<J::Partial> {
    let mut found = Found::new(reading.job);
    let mut number = 0;
    let mut lines = Best::new(bytes, false);
    while let Some(LineAt { start, end, .. }) = lines.next_line() {
        let full = &bytes[start..end];
        let line = full.trim_ascii();
        if !line.is_empty() && !line.starts_with(b"#") {
            match reading
                .job
                .add_uri(&mut found.partial, line, reading.select)
            {
                Ok(taken) => found.tally.uris += u64::from(taken),
                Err(why) => {
                    let start = end - full.trim_ascii_start().len();
                    found.bad.push(BadLine {
                        kind: Bad::Url,
                        detail: Some(why.to_string()),
                        line: number,
                        start,
                        end: start + line.len(),
                    });
                }
            }
        }
        number += 1;
    }
    found.tally.lines = number;
    found.tally.bytes = bytes.len() as u64;
    found
}

/// Counts shapes, nearly always the same as that of the line before.
#[derive(Default)]
struct ShapeCount {
    last: Option<Shape>,
    count: u64,
}

impl ShapeCount {
    #[inline]
    fn add(&mut self, shape: Shape, tally: &mut Tally) {
        if self.last != Some(shape) {
            self.flush(tally);
            self.last = Some(shape);
        }
        self.count += 1;
    }

    fn flush(&mut self, tally: &mut Tally) {
        if let Some(shape) = self.last
            && self.count > 0
        {
            tally.add_shape(shape, self.count);
            self.count = 0;
        }
    }
}
