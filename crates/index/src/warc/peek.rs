//! Reads the heads of a compressed record and finds its end without inflating its body.
//!
//! The head of a WARC record gives the length of all that is in its gzip member, and the last four
//! bytes of a member are that length. So the member ends at the next position before which this number
//! stands and at which another member can start, provided that no other such position is within
//! reach: whatever a body contains (a WARC file, or bytes made up to look like the end of the member),
//! the real end is one of them, so if there is only one, that is the real one. In every other case,
//! the record is inflated.

use std::collections::VecDeque;

use memchr::memmem::Finder;
use waypost_io::members::{self, MemberReader};

use super::record::Record;
use super::units::{GZIP, Unit};

/// How much is inflated at first, and then if the heads are longer.
const STEPS: [usize; 3] = [2 << 10, 8 << 10, 64 << 10];

/// Records up to this size are inflated: that takes no longer, and checks them.
pub(super) const SMALL: u64 = 4 << 10;

/// The line breaks behind a record.
const BEHIND: u64 = 4;

/// How many positions are kept: more of them are within reach only of very large records.
const MOST_STARTS: usize = 1 << 20;

/// The heads of a record, and its length.
pub(super) struct Peeked {
    /// How much of the buffer is filled.
    pub(super) filled: usize,
    /// The length of the record with the line breaks behind it.
    pub(super) total: u64,
}

/// Says whether the body of a record is needed.
pub(super) type NeedsBody<'a> = Box<dyn Fn(&Record<'_>) -> bool + 'a>;

/// Looks at the heads of records.
pub(super) struct Peek<'a> {
    needs_body: NeedsBody<'a>,
    reader: MemberReader,
    starts: Starts<'a>,
}

impl<'a> Peek<'a> {
    pub(super) fn new(needs_body: NeedsBody<'a>, file: &'a [u8]) -> Peek<'a> {
        Peek {
            needs_body,
            reader: MemberReader::default(),
            starts: Starts::new(file),
        }
    }

    /// Inflates the heads of the member at `start` into `buffer`. Returns also where it ends. `None`
    /// if it has to be inflated.
    pub(super) fn member(&mut self, start: usize, buffer: &mut Vec<u8>) -> Option<(Peeked, usize)> {
        let (end, length) = self.starts.after(start)?;
        if u64::from(length) <= SMALL {
            return None;
        }
        let member = &self.starts.file[start..end];
        self.reader.restart();
        let reader = &mut self.reader;
        let peeked = heads(&self.needs_body, buffer, |out| {
            reader.read(member, out).ok().filter(|_| !reader.is_ended())
        })?;
        let is_end = peeked.total as u32 == length && self.starts.is_only(start, end, peeked.total);
        is_end.then_some((peeked, end))
    }

    /// The same for a zstd frame of a known end and length.
    pub(super) fn frame(
        &self,
        mut stream: impl std::io::Read,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<Peeked> {
        if length <= SMALL {
            return None;
        }
        let peeked = heads(&self.needs_body, buffer, |out| {
            super::units::read_full(&mut stream, out).ok()
        })?;
        (peeked.total == length).then_some(peeked)
    }
}

/// Fills `buffer` until it has the heads of a record. `None` if its body is needed, or if there is
/// anything unusual.
fn heads(
    needs_body: &NeedsBody<'_>,
    buffer: &mut Vec<u8>,
    mut read: impl FnMut(&mut [u8]) -> Option<usize>,
) -> Option<Peeked> {
    let mut filled = 0;
    for wanted in STEPS {
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        filled += read(&mut buffer[filled..wanted])?;
        let unit = Unit {
            offset: 0,
            length: 0,
            bytes: &buffer[..filled],
            total: u64::MAX,
            is_compressed: true,
        };
        // A head that ends with what was read may go on, even in the middle of a number.
        if let Ok(Some(record)) = Record::parse(&unit)
            && record.is_warc()
            && record.start < filled
            && record.has_heads()
        {
            let total = (record.start as u64)
                .checked_add(record.length)?
                .checked_add(BEHIND)?;
            let needed = buffer[0] != b'W' || needs_body(&record);
            return (!needed).then_some(Peeked { filled, total });
        }
        if filled < wanted {
            break;
        }
    }
    None
}

/// Where members can start in a file, and the number in the four bytes before.
struct Starts<'a> {
    file: &'a [u8],
    finder: Finder<'static>,
    /// In order, from the last record on. The end of the file is one of them.
    found: VecDeque<(usize, u32)>,
    /// Everything before this position was searched.
    searched: usize,
    has_end: bool,
}

impl<'a> Starts<'a> {
    fn new(file: &'a [u8]) -> Starts<'a> {
        Starts {
            file,
            finder: Finder::new(GZIP),
            found: VecDeque::new(),
            searched: 0,
            has_end: false,
        }
    }

    /// The first position after that of a member.
    fn after(&mut self, start: usize) -> Option<(usize, u32)> {
        while self.found.front().is_some_and(|(at, _)| *at <= start) {
            self.found.pop_front();
        }
        if self.found.is_empty() {
            self.searched = self.searched.max(start + 1);
            self.search();
        }
        self.found.front().copied()
    }

    /// Whether the member at `start`, in which `total` bytes are, can only end at `end`.
    fn is_only(&mut self, start: usize, end: usize, total: u64) -> bool {
        // The number must not stand anywhere before: the start of the next member may be damaged.
        if !members::is_whole(&self.file[start..end]) {
            return false;
        }
        // Deflate with the least memory makes 9 bits of a byte at worst.
        let longest = usize::try_from(total / 4 * 5 + (1 << 16)).unwrap_or(usize::MAX);
        let reach = start.saturating_add(longest);
        while !self.has_end && self.found.back().is_none_or(|(at, _)| *at <= reach) {
            if self.found.len() >= MOST_STARTS {
                return false;
            }
            self.search();
        }
        let within = self.found.iter().take_while(|(at, _)| *at <= reach);
        within
            .filter(|(at, length)| *at >= end && *length == total as u32)
            .count()
            == 1
    }

    /// Finds one more position.
    fn search(&mut self) {
        let mut from = self.searched;
        let at = loop {
            match self.finder.find(self.file.get(from..).unwrap_or_default()) {
                None => {
                    if self.has_end {
                        return;
                    }
                    self.has_end = true;
                    break self.file.len();
                }
                // The other bits are unused.
                Some(found)
                    if self
                        .file
                        .get(from + found + 3)
                        .is_none_or(|f| f & 0xe0 == 0) =>
                {
                    break from + found;
                }
                Some(found) => from += found + 1,
            }
        };
        self.searched = at + 1;
        let before = self.file[..at].last_chunk::<4>().copied();
        self.found
            .push_back((at, u32::from_le_bytes(before.unwrap_or_default())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_counts_if_no_other_is_within_reach() {
        let start = |length: u32| [&length.to_le_bytes()[..], b"\x1f\x8b\x08\x00"].concat();
        let one = [&[0; 50][..], &start(9000), &[0; 50], &start(7), &[0; 50]].concat();
        let mut starts = Starts::new(&one);
        assert_eq!(starts.after(0), Some((54, 9000)));
        assert!(starts.is_only(0, 54, 9000));
        assert_eq!(starts.after(54), Some((112, 7)));
        assert_eq!(starts.after(112), Some((one.len(), 0)));
        assert_eq!(starts.after(one.len()), None);
        // The same number before another one, near and far.
        for (gap, expected) in [(50, false), (80_000, true)] {
            let two = [&[0; 50][..], &start(9000), &vec![0; gap], &start(9000)].concat();
            let mut starts = Starts::new(&two);
            assert_eq!(starts.after(0), Some((54, 9000)));
            assert_eq!(starts.is_only(0, 54, 9000), expected, "{gap}");
        }
    }
}
