//! The structure of a block as bits.

use super::simd::{CHUNK, Marker, WORD};
use super::usual::{AFTER, SeamState};
use super::{LineAt, Lines, Strings};

/// How many chunks are marked at once: few enough to be in the fastest cache when they are read.
pub(super) const AHEAD: usize = 128;

/// How many words are there that are not those of a chunk.
pub(super) const MORE: usize = 2;

/// The structure of a part of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// `"` and `\`, and control characters if odd bytes are events, one bit for each byte: words as bytes,
    /// because they are read from any byte on, two at a time, and two more that are zero.
    pub(super) strings: Vec<[u8; WORD]>,
    pub(super) events: Events,
    /// Only if odd bytes are events.
    pub(super) seams: Option<SeamState>,
}

/// What has to be looked at in the chunks that were marked last: control characters, of which newlines
/// are the most frequent, and odd bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Events {
    at: Box<EventOffsets>,
    pub(super) count: usize,
}

/// Offsets from the first of these chunks, with room for one more.
type EventOffsets = [u16; AHEAD * CHUNK + 1];

/// A list of events that is being filled.
pub(super) struct List<'a> {
    at: &'a mut EventOffsets,
    pub(super) count: usize,
}

impl Words {
    pub(super) fn new(with_seams: bool) -> Words {
        Words {
            strings: vec![[0; WORD]; MORE],
            events: Events {
                at: Box::new([0; AHEAD * CHUNK + 1]),
                count: 0,
            },
            seams: with_seams.then(SeamState::default),
        }
    }
}

impl Events {
    pub(super) fn list(&mut self) -> List<'_> {
        List {
            at: &mut self.at,
            count: self.count,
        }
    }

    /// An event and the next one.
    #[inline(always)]
    fn next_two(&self, number: usize) -> Option<(usize, usize)> {
        let [first, second] = self.at.get(number..self.count)?.first_chunk()?;
        Some((usize::from(*first), usize::from(*second)))
    }

    #[inline]
    fn get(&self, number: usize) -> Option<usize> {
        (number < self.count).then(|| usize::from(self.at[number]))
    }
}

impl List<'_> {
    /// Adds the events of a chunk.
    #[inline(always)]
    pub(super) fn add(&mut self, chunk: usize, mut bits: u64) {
        let count = bits.count_ones() as usize;
        let mut from = self.count;
        self.count += count;
        // There are seldom more than two, and whether there are any is hard to predict.
        loop {
            let mut first = || {
                let at = chunk * CHUNK + bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                at as u16
            };
            let two = [first(), first()];
            if let Some(room) = self.at.get_mut(from..from + 2) {
                room.copy_from_slice(&two);
            }
            if bits == 0 {
                break;
            }
            from += 2;
        }
    }
}

/// Looks at every byte once. Chunks are marked shortly before they are parsed, so that their bytes are
/// still in the cache then, and the words of lines that were parsed are dropped.
pub(crate) struct Marks<'a> {
    marker: Marker,
    block: &'a [u8],
    words: Words,
    /// The offset in the block of the first word.
    base: usize,
    /// The offset in the block of the chunks that were marked last, and the number of their events that
    /// were read.
    from: usize,
    read: usize,
    /// The start of the next line.
    next: usize,
    /// The start of the last line, and whether it has control characters.
    start: usize,
    has_control: bool,
    /// The only odd byte of the last line.
    odd: Option<usize>,
}

impl Marks<'_> {
    /// Marks more of the block, and drops what precedes the line that starts at `start`. Returns
    /// whether there was more.
    #[inline(never)]
    fn mark_more(&mut self, start: usize) -> bool {
        self.from = self.base + (self.words.strings.len() - MORE) * CHUNK;
        let rest = self.block.get(self.from..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let parsed = (start - self.base) / CHUNK;
        self.words.strings.drain(..parsed);
        self.base += parsed * CHUNK;
        self.read = 0;
        match rest.len().saturating_sub(AFTER) / CHUNK {
            0 => {
                // Spaces are neither events nor part of a seam's end.
                let mut last = [b' '; 2 * CHUNK + AFTER];
                last[..rest.len()].copy_from_slice(rest);
                let chunks = rest.len().div_ceil(CHUNK);
                let last = &last[..chunks * CHUNK + AFTER];
                self.marker.mark(last, &mut self.words);
            }
            chunks => {
                let chunks = chunks.min(AHEAD);
                let more = &rest[..chunks * CHUNK + AFTER];
                self.marker.mark(more, &mut self.words);
            }
        }
        true
    }

    /// The next line, whatever its events are.
    fn next_odd_line(&mut self) -> Option<LineAt> {
        let start = self.next;
        let mut has_nul = false;
        self.has_control = false;
        let mut odd = 0;
        let end = loop {
            match self.next_event(start) {
                Some(at) => match self.block[at] {
                    b'\n' => break at,
                    byte @ 0..b' ' => {
                        has_nul |= byte == 0;
                        self.has_control = true;
                    }
                    _ => {
                        self.odd = Some(at);
                        odd += 1;
                    }
                },
                None if start >= self.block.len() => return None,
                None => {
                    // The seam at the end of an object has a newline.
                    odd = 0;
                    break self.block.len();
                }
            }
        };
        if odd != 1 {
            self.odd = None;
        }
        (self.start, self.next) = (start, end + 1);
        Some(LineAt {
            start,
            end,
            has_nul,
        })
    }

    /// The offset of the next event, for a line that starts at `start`.
    #[inline]
    fn next_event(&mut self, start: usize) -> Option<usize> {
        loop {
            if let Some(at) = self.words.events.get(self.read) {
                self.read += 1;
                return Some(self.from + at);
            }
            if !self.mark_more(start) {
                return None;
            }
        }
    }
}

impl<'a> Lines<'a> for Marks<'a> {
    fn new(block: &'a [u8], whole: bool) -> Marks<'a> {
        Marks {
            marker: Marker::detect(),
            block,
            words: Words::new(whole),
            base: 0,
            from: 0,
            read: 0,
            next: 0,
            start: 0,
            has_control: false,
            odd: None,
        }
    }

    #[inline(always)]
    fn next_line(&mut self) -> Option<LineAt> {
        let start = self.next;
        // Nearly all lines have two events.
        if let Some((odd, end)) = self.words.events.next_two(self.read)
            && self.block.get(self.from + end) == Some(&b'\n')
            && self.block.get(self.from + odd) >= Some(&b' ')
        {
            self.read += 2;
            let end = self.from + end;
            (self.start, self.next) = (start, end + 1);
            (self.has_control, self.odd) = (false, Some(self.from + odd));
            return Some(LineAt {
                start,
                end,
                has_nul: false,
            });
        }
        self.next_odd_line()
    }

    #[inline]
    fn strings(&self) -> impl Strings {
        MarkedStrings {
            bits: self.words.strings.as_flattened(),
            start: self.start - self.base,
            has_control: self.has_control,
            marker: self.marker,
            odd: self.odd.map_or(usize::MAX, |odd| odd - self.base),
        }
    }
}

/// Finds strings by their bits.
#[derive(Clone, Copy)]
struct MarkedStrings<'a> {
    bits: &'a [u8],
    /// The offset of the text from that of the bits.
    start: usize,
    has_control: bool,
    marker: Marker,
    /// The only odd byte of the line, if it has just one.
    odd: usize,
}

impl Strings for MarkedStrings<'_> {
    #[inline(always)]
    fn from(self, at: usize) -> Self {
        MarkedStrings {
            start: self.start + at,
            ..self
        }
    }

    #[inline(always)]
    fn next_mark(self, text: &[u8], at: usize) -> Option<usize> {
        let mut from = self.start + at;
        // The bits from `from` on, at least 121, by one load wherever they start: where a string begins is
        // known only when the one before was found, so each step of this is waited for. Most strings end
        // within these bits.
        while let Some(word) = self.bits.get(from / 8..).and_then(<[u8]>::first_chunk) {
            let bits = u128::from_le_bytes(*word) >> (from % 8);
            if bits != 0 {
                let found = from + bits.trailing_zeros() as usize - self.start;
                // Control characters have a bit, too, if odd bytes are events.
                match text.get(found)? {
                    0..b' ' => {
                        from += bits.trailing_zeros() as usize + 1;
                        continue;
                    }
                    _ => return Some(found),
                }
            }
            from = (from / 8 + 2 * WORD) * 8;
        }
        None
    }

    #[inline]
    fn has_control(self, text: &[u8]) -> bool {
        // It may be before the text, or the end of a line with two bytes.
        self.has_control && text.iter().any(|byte| *byte < 0x20)
    }

    #[inline(always)]
    fn usual_object(self, line: &[u8]) -> Option<usize> {
        let at = self.odd.wrapping_sub(self.start + 1);
        let is_start = match line.get(at..)?.first_chunk()? {
            // The first quote is also odd if it belongs to a seam that should not be there.
            [b'{', b'"', b':' | b',' | b'}'] => false,
            [b'{', b'"', _] => true,
            _ => false,
        };
        (is_start & line.ends_with(b"\"}") & !self.has_control).then_some(at)
    }

    #[inline(always)]
    fn first_space(self, text: &[u8]) -> Option<usize> {
        self.marker.first_space(text)
    }
}
