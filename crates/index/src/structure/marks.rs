//! The structure of a block as bits.

use super::simd::{CHUNK, Marker, WORD};
use super::{LineAt, Lines, Strings};

/// How many chunks are marked at once: few enough to be in the fastest cache when they are read.
const AHEAD: usize = 64;

/// The structure of chunks: a word with one bit for each byte.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// `"` and `\`: words as bytes, because they are read from any byte on, and one more that is zero.
    pub(super) strings: Vec<[u8; WORD]>,
    /// Control characters, of which newlines are the most frequent.
    pub(super) controls: Vec<u64>,
}

/// Looks at every byte once. Chunks are marked shortly before they are parsed, so that their bytes are
/// still in the cache then, and the words of lines that were parsed are dropped.
pub(crate) struct Marks<'a> {
    marker: Marker,
    block: &'a [u8],
    words: Words,
    /// The offset in the block of the first word.
    base: usize,
    /// The number of words read, and the control characters that are left in the last of them.
    read: usize,
    left: u64,
    /// The start of the next line.
    next: usize,
    /// The start of the last line, and whether it has control characters.
    start: usize,
    has_control: bool,
}

impl Marks<'_> {
    /// Marks more of the block, and drops what precedes the line that starts at `start`. Returns
    /// whether there was more.
    #[inline(never)]
    fn mark_more(&mut self, start: usize) -> bool {
        let from = self.base + self.words.controls.len() * CHUNK;
        let rest = self.block.get(from..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let parsed = (start - self.base) / CHUNK;
        self.words.strings.drain(..parsed);
        self.words.controls.drain(..parsed);
        self.base += parsed * CHUNK;
        self.read -= parsed;
        let (chunks, tail) = rest[..rest.len().min(AHEAD * CHUNK)].as_chunks();
        self.marker.mark(chunks, &mut self.words);
        if !tail.is_empty() {
            let mut chunk = [b' '; CHUNK];
            chunk[..tail.len()].copy_from_slice(tail);
            self.marker.mark(&[chunk], &mut self.words);
        }
        true
    }

    /// The offset of the next control character, for a line that starts at `start`.
    #[inline]
    fn next_control(&mut self, start: usize) -> Option<usize> {
        while self.left == 0 {
            if self.read == self.words.controls.len() && !self.mark_more(start) {
                return None;
            }
            self.left = self.words.controls[self.read];
            self.read += 1;
        }
        let bit = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(self.base + (self.read - 1) * CHUNK + bit)
    }
}

impl<'a> Lines<'a> for Marks<'a> {
    fn new(block: &'a [u8]) -> Marks<'a> {
        Marks {
            marker: Marker::detect(),
            block,
            words: Words::default(),
            base: 0,
            read: 0,
            left: 0,
            next: 0,
            start: 0,
            has_control: false,
        }
    }

    #[inline]
    fn next_line(&mut self) -> Option<LineAt> {
        let start = self.next;
        let mut has_nul = false;
        self.has_control = false;
        let end = loop {
            match self.next_control(start) {
                Some(at) => match self.block[at] {
                    b'\n' => break at,
                    byte => {
                        has_nul |= byte == 0;
                        self.has_control = true;
                    }
                },
                None if start >= self.block.len() => return None,
                None => break self.block.len(),
            }
        };
        (self.start, self.next) = (start, end + 1);
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
        // The bits from `from` on, at least 57, by one load wherever they start: where a string begins is
        // known only when the one before was found, so each step of this is waited for.
        while let Some(word) = self.bits.get(from / 8..).and_then(<[u8]>::first_chunk) {
            let bits = u64::from_le_bytes(*word) >> (from % 8);
            if bits != 0 {
                let found = from + bits.trailing_zeros() as usize - self.start;
                return (found < text.len()).then_some(found);
            }
            from = (from / 8 + WORD) * 8;
        }
        None
    }

    #[inline]
    fn has_control(self, text: &[u8]) -> bool {
        // It may be before the text, or the end of a line with two bytes.
        self.has_control && text.iter().any(|byte| *byte < 0x20)
    }
}
