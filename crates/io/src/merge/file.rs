//! A sorted file that is read by ranges of lines.
//!
//! Marks are lines at regular places of the file. Between two of them, a plain file is searched for the
//! first line of a range. A gzip file can only be read from the start of a member on, so its marks are
//! the first lines of members, and a range is read from the last mark before it.
//!
//! All ranges together show whether a file is sorted: each one checks the order of its lines from where
//! it starts to where the next one starts, and that they belong to it.

use std::io::Read;

use crate::LONGEST_LINE;
use crate::compression::{Compression, EXTRA};
use crate::error::{Error, ErrorKind, Result};
use crate::lines::Lines;
use crate::members;
use crate::opened::FileSection;
use crate::sort::SortedLines;
use crate::source::Source;
use crate::stream::Stream;

/// How many bytes of a line a mark keeps.
const HEAD: usize = 128;

/// About how much memory a mark takes.
pub(super) const MARK: usize = HEAD + 64;

/// A search ends with reading this many bytes line by line.
const NEAR: u64 = 32 << 10;

/// How much is read to find the start of a member.
const WINDOW: usize = 256 << 10;

/// About how much longer a text is than its gzip file.
const RATIO: u64 = 5;

/// A line of a file.
pub(super) struct Mark {
    /// Where it starts; in a gzip file, where its member starts.
    offset: u64,
    /// How it starts.
    head: Vec<u8>,
    /// Whether that is all of it.
    whole: bool,
}

impl Mark {
    fn new(offset: u64, line: &[u8]) -> Mark {
        Mark {
            offset,
            head: line[..line.len().min(HEAD)].to_vec(),
            whole: line.len() <= HEAD,
        }
    }

    /// Whether the line is surely less than `bound`. In doubt, no.
    fn is_below(&self, bound: &[u8]) -> bool {
        match self.whole {
            true => self.head[..] < *bound,
            false => self.head[..] < bound[..bound.len().min(self.head.len())],
        }
    }

    /// The start of the line, to be used as a bound.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }
}

/// A sorted file.
pub(super) struct SortedFile {
    name: String,
    file: FileSection,
    gzip: bool,
    /// The offset of the first line.
    start: u64,
    /// In the order of their offsets.
    marks: Vec<Mark>,
}

impl SortedFile {
    /// Opens a source if it can be read from any place on.
    pub(super) fn open(source: &Source) -> Result<Option<SortedFile>> {
        // A pipe can be opened only once at a time.
        let Some(file) = source.file()? else {
            return Ok(None);
        };
        let mut stream = source.open()?;
        let gzip = match stream.compression() {
            Compression::Plain => false,
            Compression::Gzip => true,
            Compression::Zstd | Compression::Bzip2 => return Ok(None),
        };
        // Whatever is wrong with it is found again by who reads it as a stream.
        let (_, error) = stream.read_full(&mut [0; 4]);
        if error.is_some() || gzip && stream.had_byte_order_mark() {
            return Ok(None);
        }
        Ok(Some(SortedFile {
            name: source.to_string(),
            file,
            gzip,
            start: if stream.had_byte_order_mark() { 3 } else { 0 },
            marks: Vec::new(),
        }))
    }

    /// Whether it is compressed.
    pub(super) fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// About how many bytes its lines have.
    pub(super) fn text(&self) -> u64 {
        let size = self.file.length.saturating_sub(self.start);
        if self.gzip { size * RATIO } else { size }
    }

    /// The offsets at which to look for marks, so that each stands for about `share` bytes of text.
    pub(super) fn places(&self, share: u64) -> impl Iterator<Item = u64> + use<> {
        let share = if self.gzip { share / RATIO } else { share };
        let (start, end) = (self.start, self.file.length);
        (1..)
            .map(move |number| start + number * share.max(1))
            .take_while(move |&at| at < end)
    }

    /// The first line after `offset`, or the first line of the first member after it.
    pub(super) fn mark_after(&self, offset: u64) -> Result<Option<Mark>> {
        if self.gzip {
            return self.member_after(offset);
        }
        let found = self.line_after(offset)?;
        Ok(found.map(|(at, lines)| Mark::new(at, lines.line())))
    }

    /// Its marks.
    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Takes the marks, in the order of their offsets. Returns `false` if they do not help to read it by
    /// ranges of about `range` bytes of text.
    pub(super) fn set_marks(&mut self, mut marks: Vec<Mark>, range: u64) -> bool {
        marks.dedup_by_key(|mark| mark.offset);
        let start = Mark::new(self.start, b"");
        self.marks = std::iter::once(start).chain(marks).collect();
        let sorted = self.marks.is_sorted_by(|a, b| a.head <= b.head);
        // Otherwise much of the file would be inflated again and again.
        let ends = self.marks.iter().skip(1).map(|mark| mark.offset);
        let ends = ends.chain([self.file.length]);
        let mut gaps = self
            .marks
            .iter()
            .zip(ends)
            .map(|(mark, end)| end - mark.offset);
        let most = (2 * range / RATIO).max(2 * members::LARGEST as u64);
        sorted && (!self.gzip || gaps.all(|gap| gap <= most))
    }

    fn reader(&self, from: u64, to: u64) -> impl Read + Send + use<> {
        self.file.reader(from).take(to.saturating_sub(from))
    }

    /// The first line after `offset`: where it starts, and lines of which it is the current one.
    fn line_after(&self, offset: u64) -> Result<Option<(u64, Lines<impl Read + use<>>)>> {
        let reader = self.reader(offset, self.file.length);
        let mut lines = Lines::with_buffer(reader, 4 << 10, LONGEST_LINE);
        if !lines.advance()? {
            return Ok(None);
        }
        let at = offset + lines.line().len() as u64 + 1;
        Ok(lines.advance()?.then_some((at, lines)))
    }

    /// The offset of the first line that is not less than `bound`, or of the end of the file.
    fn find(&self, bound: &[u8]) -> Result<u64> {
        let below = self.marks.partition_point(|mark| mark.is_below(bound));
        let mut low = self.marks[below.max(1) - 1].offset;
        let mut high = (self.marks.get(below)).map_or(self.file.length, |mark| mark.offset);
        while high.saturating_sub(low) > NEAR {
            let middle = low + (high - low) / 2;
            match self.line_after(middle)? {
                Some((at, lines)) if at < high && lines.line() < bound => low = at,
                _ => high = middle,
            }
        }
        let reader = self.reader(low, self.file.length);
        let mut lines = Lines::with_buffer(reader, NEAR as usize, LONGEST_LINE);
        while lines.advance()? {
            if lines.line() >= bound {
                return Ok(low);
            }
            low += lines.line().len() as u64 + 1;
        }
        Ok(self.file.length)
    }

    /// The first member after `offset` that has a line.
    fn member_after(&self, offset: u64) -> Result<Option<Mark>> {
        let mut window = Vec::new();
        let mut base = offset;
        while base < self.file.length && base - offset < members::LARGEST as u64 {
            window.clear();
            let reader = self.reader(base, base + WINDOW as u64);
            let mut reader = reader.take(self.file.length - base);
            reader.read_to_end(&mut window).map_err(Error::from_read)?;
            let mut at = 0;
            while let Some(found) = members::next_start(&window, at) {
                if window[found + 3] & EXTRA != 0 {
                    // Blocked gzip: members end anywhere in a line.
                    return Ok(None);
                }
                let start = base + found as u64;
                let stream = self.stream(start, self.file.length)?;
                let mut lines = Lines::with_buffer(stream, 64 << 10, LONGEST_LINE);
                // The magic number also occurs by chance. What follows is not deflated then.
                if lines.advance().unwrap_or(false) {
                    return Ok(Some(Mark::new(start, lines.line())));
                }
                at = found + 1;
            }
            // A magic number may lie across the end of the window.
            base += (window.len() as u64).saturating_sub(3).max(1);
        }
        Ok(None)
    }

    /// The text of the members from `from` to `to`.
    fn stream(&self, from: u64, to: u64) -> Result<Stream> {
        let reader = Box::new(self.reader(from, to));
        Ok(Stream::gzip_at(self.name.clone(), reader, from)?.members_end_lines())
    }

    /// The lines from the first that is not less than `from` to the last that is less than `to`.
    ///
    /// # Errors
    /// If the file is not sorted or cannot be read. Reading the lines can fail for the same reasons.
    pub(super) fn lines(&self, from: &[u8], to: Option<&[u8]>, size: usize) -> Result<RangeLines> {
        let lines = |reader: Box<dyn Read + Send>| Lines::with_buffer(reader, size, LONGEST_LINE);
        let place = |bound: Option<&[u8]>| match bound {
            None => Ok(self.file.length),
            Some(b"") => Ok(self.start),
            Some(bound) if self.gzip => {
                let below = self.marks.partition_point(|mark| mark.is_below(bound));
                Ok(self.marks[below.max(1) - 1].offset)
            }
            Some(bound) => self.find(bound),
        };
        let (start, end) = (place(Some(from))?, place(to)?);
        if end < start {
            return Err(unsorted());
        }
        let (main, tail): (Box<dyn Read + Send>, _) = match (self.gzip, to) {
            (false, _) => (Box::new(self.reader(start, end)), None),
            (true, None) => (Box::new(self.stream(start, end)?), None),
            (true, Some(_)) => {
                let tail: Box<dyn Read + Send> = Box::new(self.stream(end, self.file.length)?);
                (Box::new(self.stream(start, end)?), Some(lines(tail)))
            }
        };
        Ok(RangeLines {
            main: lines(main),
            tail,
            in_tail: false,
            inside: false,
            may_skip: self.gzip,
            from: from.to_vec(),
            to: to.map(<[u8]>::to_vec),
            stored: end - start,
            count: 0,
        })
    }
}

fn unsorted() -> Error {
    // Only a sign: the merge by one thread says what is wrong.
    Error::new(ErrorKind::Invalid("the file is not sorted".to_owned()))
}

/// The lines of one range of a file.
pub(super) struct RangeLines {
    /// What lies before the start of the next range.
    main: Lines<Box<dyn Read + Send>>,
    /// What follows, up to the end of the range; the next range checks its order.
    tail: Option<Lines<Box<dyn Read + Send>>>,
    in_tail: bool,
    /// Whether the start of the range was reached.
    inside: bool,
    /// Whether lines may precede the range.
    may_skip: bool,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    stored: u64,
    count: u64,
}

impl RangeLines {
    /// How many bytes of the file belong to the range.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// How many lines of the range were read.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Moves to the next line, whether it is in the range or not. `false` after the range.
    fn next_line(&mut self) -> Result<bool> {
        if !self.in_tail {
            if self.main.advance_in_order()? {
                return Ok(true);
            }
            // What precedes the start of the next range is less than its bound.
            let ends_below = |to: &Vec<u8>| self.main.number() == 0 || self.main.line() < &to[..];
            if !self.to.as_ref().is_none_or(ends_below) {
                return Err(unsorted());
            }
            self.in_tail = true;
            if let Some(tail) = &mut self.tail {
                // Members of blocked gzip end anywhere in a line.
                if self.main.number() > 0 && !self.main.is_terminated() {
                    return Err(unsorted());
                }
                let more = tail.advance_in_order()?;
                if more && self.main.number() > 0 && tail.line() < self.main.line() {
                    return Err(unsorted());
                }
                return Ok(more && self.is_below_end());
            }
        }
        match &mut self.tail {
            Some(tail) => Ok(tail.advance_in_order()? && self.is_below_end()),
            None => Ok(false),
        }
    }

    fn is_below_end(&self) -> bool {
        self.to.as_ref().is_none_or(|to| self.line() < &to[..])
    }
}

impl SortedLines for RangeLines {
    fn line(&self) -> &[u8] {
        match &self.tail {
            Some(tail) if self.in_tail => tail.line(),
            _ => self.main.line(),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        while self.next_line()? {
            self.inside = self.inside || self.line() >= &self.from[..];
            if self.inside {
                self.count += 1;
                return Ok(true);
            }
            if !self.may_skip {
                return Err(unsorted());
            }
        }
        Ok(false)
    }
}
