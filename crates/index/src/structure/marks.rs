//! The structure of a block as bits.

use super::simd::{CHUNK, Marker};
use super::{LineAt, Lines, Strings};

/// How many chunks are marked at once: few enough to be in the fastest cache when they are read.
const AHEAD: usize = 64;

/// The structure of 64 bytes, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// `"` and `\`.
    pub(super) strings: u64,
    /// Control characters, of which newlines are the most frequent.
    pub(super) controls: u64,
}

/// Looks at every byte once. Chunks are marked shortly before they are parsed, so that their bytes are
/// still in the cache then, and the words of lines that were parsed are dropped.
pub(crate) struct Marks<'a> {
    marker: Marker,
    block: &'a [u8],
    words: Vec<Word>,
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
        let from = self.base + self.words.len() * CHUNK;
        let rest = self.block.get(from..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let parsed = (start - self.base) / CHUNK;
        self.words.drain(..parsed);
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
            if self.read == self.words.len() && !self.mark_more(start) {
                return None;
            }
            self.left = self.words[self.read].controls;
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
            words: Vec::new(),
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
            words: &self.words,
            start: self.start - self.base,
            has_control: self.has_control,
        }
    }
}

/// Finds strings by their bits.
#[derive(Clone, Copy)]
struct MarkedStrings<'a> {
    words: &'a [Word],
    /// The offset of the text from that of the words.
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
        loop {
            // The bits of the next 64 bytes, wherever they start: so the usual string is found without
            // a branch that depends on where it is.
            let word = |number: usize| Some(u128::from(self.words.get(number)?.strings));
            let pair = word(from / CHUNK)? | word(from / CHUNK + 1).unwrap_or(0) << CHUNK;
            let bits = (pair >> (from % CHUNK)) as u64;
            if bits != 0 {
                let found = from + bits.trailing_zeros() as usize - self.start;
                return (found < text.len()).then_some(found);
            }
            from += CHUNK;
        }
    }

    #[inline]
    fn has_control(self, text: &[u8]) -> bool {
        // It may be before the text, or the end of a line with two bytes.
        self.has_control && text.iter().any(|byte| *byte < 0x20)
    }
}
