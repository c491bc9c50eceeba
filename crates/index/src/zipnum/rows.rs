//! The lines of an `.idx` file: memory-mapped, or read in pages.
//!
//! A remote file is read in pages as they are needed, each once. A page has the lines that start in it,
//! so that every line is contiguous in memory. Pages are kept until the index is closed: a binary search
//! reads a dozen of them, and later ones mostly the same.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memchr::{memchr, memrchr};
use waypost_io::{Error, ErrorKind, LONGEST_LINE, Mapped, RangeRead, Result};

use crate::search::{Bounds, line_around, lower_bound};

/// How much of a remote file is read at a time.
pub(super) const PAGE: usize = 128 * 1024;

/// What is read in addition, so that the last line of a page is usually complete.
const SLACK: usize = 4 * 1024;

/// Maximum size of an `.idx` file that is not mapped. That of Common Crawl has 150 MB.
const LARGEST: u64 = 16 << 30;

/// The lines of an `.idx` file.
pub(super) enum Rows {
    Mapped(Mapped),
    Paged(Pages),
}

impl Rows {
    /// The lines of a file that is not mapped.
    pub(super) fn paged(file: Arc<dyn RangeRead>, page: usize) -> Result<Rows> {
        let size = file.size()?;
        // A server may claim any size, and there is memory for each page.
        if size > LARGEST {
            let message = format!("{size} bytes are too many for an .idx file");
            return Err(Error::new(ErrorKind::Format(message)).in_file(file.name()));
        }
        let size = size as usize;
        let pages = std::iter::repeat_with(Slot::default).take(size.div_ceil(page));
        Ok(Rows::Paged(Pages {
            pages: pages.collect(),
            file,
            size,
            page,
        }))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Mapped(map) => map.len(),
            Rows::Paged(pages) => pages.size,
        }
    }

    /// The line that starts at `at`, and the offset of the next one. `None` at the end.
    pub(super) fn line(&self, at: usize) -> Result<Option<(&[u8], usize)>> {
        if at >= self.len() {
            return Ok(None);
        }
        let rest = match self {
            Rows::Mapped(map) => &map[at..],
            Rows::Paged(pages) => {
                let page = pages.read(at / pages.page)?;
                page.lines
                    .get(at.saturating_sub(page.start)..)
                    .unwrap_or_default()
            }
        };
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        Ok(Some((&rest[..end], at + end + 1)))
    }

    /// The start of the line that contains byte `at`.
    pub(super) fn start_of(&self, at: usize) -> Result<usize> {
        let pages = match self {
            Rows::Mapped(map) => return Ok(line_around(map, at).0),
            Rows::Paged(pages) => pages,
        };
        if pages.pages.is_empty() {
            return Ok(0);
        }
        let last = (at / pages.page).min(pages.pages.len() - 1);
        for number in (0..=last).rev() {
            let page = pages.read(number)?;
            if page.lines.is_empty() || page.start > at {
                continue;
            }
            let lines = &page.lines[..page.lines.len().min(at - page.start)];
            let start = memrchr(b'\n', lines).map_or(0, |newline| newline + 1);
            return Ok(page.start + start);
        }
        Ok(0)
    }

    /// The offset of the first line from `from` on whose key is not smaller than `target`.
    pub(super) fn lower_bound(
        &self,
        from: usize,
        target: &[u8],
        key: impl Fn(&[u8]) -> &[u8],
    ) -> Result<usize> {
        match self {
            Rows::Mapped(map) => Ok(from + lower_bound(&map[from..], target, key)?),
            Rows::Paged(pages) => pages.lower_bound(from, target, key),
        }
    }
}

/// A file that is read in pages.
pub(super) struct Pages {
    file: Arc<dyn RangeRead>,
    size: usize,
    page: usize,
    pages: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Held while the page is read, so that no other thread reads it, too.
    reading: Mutex<()>,
    page: OnceLock<Page>,
}

/// The lines that start in a page.
struct Page {
    /// The offset of the first of them.
    start: usize,
    lines: Box<[u8]>,
}

impl Page {
    /// The lines from `from` on.
    fn lines_from(&self, from: usize) -> (usize, &[u8]) {
        let skipped = from.saturating_sub(self.start).min(self.lines.len());
        (self.start + skipped, &self.lines[skipped..])
    }
}

impl Pages {
    fn read(&self, number: usize) -> Result<&Page> {
        let slot = &self.pages[number];
        if let Some(page) = slot.page.get() {
            return Ok(page);
        }
        let _reading = slot.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = slot.page.get() {
            return Ok(page);
        }
        let page = self.load(number)?;
        Ok(slot.page.get_or_init(|| page))
    }

    fn load(&self, number: usize) -> Result<Page> {
        let begin = number * self.page;
        let border = (begin + self.page).min(self.size);
        // A line starts here if the byte before is a newline.
        let before = begin.saturating_sub(1);
        let mut bytes = Vec::new();
        self.extend(before, (border + SLACK).min(self.size), &mut bytes)?;
        let first = match number {
            0 => Some(0),
            _ => memchr(b'\n', &bytes).map(|newline| newline + 1),
        };
        let Some(first) = first.filter(|first| before + first < border) else {
            let lines = Box::default();
            return Ok(Page {
                start: border,
                lines,
            });
        };
        // To the end of the line that contains the last byte of the page.
        let mut at = border - 1 - before;
        let end = loop {
            if let Some(newline) = memchr(b'\n', &bytes[at..]) {
                break at + newline + 1;
            }
            at = bytes.len();
            if before + at >= self.size {
                break at;
            }
            if at > LONGEST_LINE + self.page {
                return Err(Error::line_too_long(LONGEST_LINE).in_file(self.file.name()));
            }
            let more = (before + at + self.page).min(self.size);
            self.extend(before + at, more, &mut bytes)?;
        };
        Ok(Page {
            start: before + first,
            lines: bytes[first..end].into(),
        })
    }

    fn extend(&self, from: usize, to: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let length = bytes.len();
        bytes.resize(length + to - from, 0);
        self.file.read_at(from as u64, &mut bytes[length..])
    }

    /// Finds the last page that starts with a smaller key, and the line in it.
    fn lower_bound(
        &self,
        from: usize,
        target: &[u8],
        key: impl Fn(&[u8]) -> &[u8],
    ) -> Result<usize> {
        let mut bounds = Bounds::default();
        let mut found = None;
        let (mut low, mut high) = (from / self.page, self.pages.len());
        while low < high {
            let middle = low + (high - low) / 2;
            // No line may start in a page if a line is very long, or in the one before `from`.
            let mut next = None;
            for number in middle..high {
                let (start, lines) = self.read(number)?.lines_from(from);
                if !lines.is_empty() {
                    next = Some((number, start, lines));
                    break;
                }
            }
            let Some((number, start, lines)) = next else {
                high = middle;
                continue;
            };
            let end = memchr(b'\n', lines).unwrap_or(lines.len());
            let first = key(&lines[..end]);
            if bounds
                .is_smaller(first, target)
                .map_err(|error| error.at_byte(start as u64))?
            {
                found = Some((start, lines));
                low = number + 1;
            } else {
                high = middle;
            }
        }
        match found {
            Some((start, lines)) => {
                let at = lower_bound(lines, target, key);
                let at = at.map_err(|error| match error.place().byte {
                    Some(byte) => error.at_byte(start as u64 + byte),
                    None => error,
                })?;
                Ok(start + at)
            }
            None => Ok(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use waypost_io::{ErrorKind, Stamp};

    /// Bytes in memory that count how often they are read.
    struct Counted(Vec<u8>, AtomicUsize);

    impl RangeRead for Counted {
        fn name(&self) -> &str {
            "counted"
        }

        fn size(&self) -> Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let from = offset as usize;
            let bytes = self.0.get(from..from + buffer.len());
            let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::EndsEarly))?;
            buffer.copy_from_slice(bytes);
            Ok(())
        }

        fn stamp(&self) -> Result<Stamp> {
            unreachable!("not used")
        }
    }

    proptest! {
        #[test]
        fn pages_have_the_lines_that_a_map_has(
            mut lines in prop::collection::vec("[ab]{0,9}|a{30}", 0..30),
            target in "[ab]{0,4}",
            header in 0usize..3,
            last_newline: bool,
            page in 1usize..40,
            at: prop::sample::Index,
        ) {
            lines.sort();
            let mut text: String = (0..header).map(|n| format!("!header {n}\n")).collect();
            let from = text.len();
            text += &lines.join("\n");
            if last_newline && !lines.is_empty() {
                text.push('\n');
            }
            let map = Rows::Mapped(Mapped::from(text.clone().into_bytes()));
            let file = Arc::new(Counted(text.clone().into_bytes(), AtomicUsize::new(0)));
            let pages = Rows::paged(file, page).unwrap();
            prop_assert_eq!(pages.len(), map.len());
            let mut next = 0;
            while let Some((line, after)) = map.line(next).unwrap() {
                prop_assert_eq!(pages.line(next).unwrap(), Some((line, after)));
                next = after;
            }
            prop_assert!(pages.line(next).unwrap().is_none());
            if !text.is_empty() {
                let at = at.index(text.len());
                prop_assert_eq!(pages.start_of(at).unwrap(), map.start_of(at).unwrap());
            }
            let bound = |rows: &Rows| rows.lower_bound(from, target.as_bytes(), |line| line);
            prop_assert_eq!(bound(&pages).unwrap(), bound(&map).unwrap());
        }
    }

    #[test]
    fn a_page_is_read_once_and_a_search_reads_few() {
        let text: Vec<u8> = (0..100_000)
            .flat_map(|n| format!("{n:08}\n").into_bytes())
            .collect();
        let file = Arc::new(Counted(text, AtomicUsize::new(0)));
        let bytes: Arc<dyn RangeRead> = Arc::clone(&file) as _;
        let rows = Rows::paged(bytes, 4096).unwrap();
        let bound = rows.lower_bound(0, b"00054321", |line| line).unwrap();
        assert_eq!(bound, 54_321 * 9);
        let reads = file.1.load(Ordering::Relaxed);
        assert!(reads <= 9, "{reads}");
        rows.lower_bound(0, b"00054321", |line| line).unwrap();
        rows.line(bound).unwrap();
        assert_eq!(file.1.load(Ordering::Relaxed), reads);
    }

    #[test]
    fn pages_out_of_order_are_an_error() {
        let text = b"a\nb\nm\nc\nd\n".to_vec();
        let rows = Rows::paged(Arc::new(Counted(text, AtomicUsize::new(0))), 2).unwrap();
        let error = rows.lower_bound(0, b"x", |line| line).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotSorted { .. }),
            "{error}"
        );
    }
}
