//! The structure of a block as bits.

use super::simd::{CHUNK, Marker, WORD};
use super::usual::{AFTER, SeamState};
use super::{LineAt, Lines, Strings};

/// How many chunks are marked at once: one for each bit of [`Events::unread`], and few enough to be in the
/// fastest cache when they are read.
pub(super) const AHEAD: usize = u64::BITS as usize;

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
    /// One bit for each byte of a chunk.
    pub(super) words: [u64; AHEAD],
    /// The chunks with events that were not taken yet, one bit for each.
    pub(super) unread: u64,
}

impl Words {
    pub(super) fn new(with_seams: bool) -> Words {
        Words {
            strings: vec![[0; WORD]; MORE],
            events: Events {
                words: [0; AHEAD],
                unread: 0,
            },
            seams: with_seams.then(SeamState::default),
        }
    }
}

impl Events {
    /// Takes the events of the next chunk that has any, and returns its number, too.
    #[inline(always)]
    fn next_chunk(&mut self) -> Option<(usize, u64)> {
        if self.unread == 0 {
            return None;
        }
        let chunk = self.unread.trailing_zeros() as usize;
        self.unread &= self.unread - 1;
        Some((chunk, self.words[chunk]))
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
    /// The offset in the block of the chunks that were marked last.
    from: usize,
    /// The remaining events of the current chunk, and its offset in the block.
    events: u64,
    events_from: usize,
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

    /// The offset of the next event, for a line that starts at `start`.
    #[inline(always)]
    fn next_event(&mut self, start: usize) -> Option<usize> {
        while self.events == 0 {
            match self.words.events.next_chunk() {
                Some((chunk, events)) => {
                    (self.events, self.events_from) = (events, self.from + chunk * CHUNK);
                }
                None if self.mark_more(start) => {}
                None => return None,
            }
        }
        let at = self.events_from + self.events.trailing_zeros() as usize;
        self.events &= self.events - 1;
        Some(at)
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
            events: 0,
            events_from: 0,
            next: 0,
            start: 0,
            has_control: false,
            odd: None,
        }
    }

    /// Nearly all lines have two events: an odd byte and the newline.
    #[inline(always)]
    fn next_line(&mut self) -> Option<LineAt> {
        let start = self.next;
        let (mut has_nul, mut has_control) = (false, false);
        let (mut odd, mut odd_count) = (0, 0);
        let end = loop {
            match self.next_event(start) {
                Some(at) => match self.block[at] {
                    b'\n' => break at,
                    byte @ 0..b' ' => {
                        has_nul |= byte == 0;
                        has_control = true;
                    }
                    _ => {
                        odd = at;
                        odd_count += 1;
                    }
                },
                None if start >= self.block.len() => return None,
                None => {
                    // The seam at the end of an object has a newline.
                    odd_count = 0;
                    break self.block.len();
                }
            }
        };
        (self.start, self.next) = (start, end + 1);
        self.has_control = has_control;
        self.odd = (odd_count == 1).then_some(odd);
        Some(LineAt {
            start,
            end,
            has_nul,
        })
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
