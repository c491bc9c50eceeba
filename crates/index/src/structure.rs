//! Finds what gives a block its structure: the ends of its lines, and the ends of the strings in their
//! JSON.
//!
//! There are two ways, with the same results. [`Scalar`] searches for one end after the other and
//! needs nothing from the processor. [`Marks`] looks at every byte once, 64 at a time, and keeps two
//! bits for each; lines and strings are then found by counting zeros. It is used where vector
//! instructions make that the faster way.

#[cfg(target_arch = "x86_64")]
mod marks;
#[cfg(target_arch = "x86_64")]
mod simd;

use memchr::memchr2;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use Scalar as Best;
/// The faster way on this kind of processor.
#[cfg(target_arch = "x86_64")]
pub(crate) use marks::Marks as Best;

/// A line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineAt {
    pub(crate) start: usize,
    /// The offset of its newline, or the end of the block.
    pub(crate) end: usize,
    pub(crate) has_nul: bool,
}

/// Finds the lines of a block.
pub(crate) trait Lines<'a> {
    fn new(block: &'a [u8]) -> Self;

    /// The next line.
    fn next_line(&mut self) -> Option<LineAt>;

    /// Finds strings in the line that was found last.
    fn strings(&self) -> impl Strings;
}

/// Finds strings in a line.
pub(crate) trait Strings: Copy {
    /// The same for the bytes of the line from `at`.
    fn from(self, at: usize) -> Self;

    /// The offset of the first `"` or `\` at `at` or later.
    fn next_mark(self, text: &[u8], at: usize) -> Option<usize>;

    /// Whether there is any control character, which JSON forbids in strings.
    fn has_control(self, text: &[u8]) -> bool;
}

/// Searches for one byte after the other.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Debug)]
pub(crate) struct Scalar<'a> {
    block: &'a [u8],
    start: usize,
}

#[cfg(any(test, not(target_arch = "x86_64")))]
impl<'a> Lines<'a> for Scalar<'a> {
    fn new(block: &'a [u8]) -> Scalar<'a> {
        Scalar { block, start: 0 }
    }

    #[inline]
    fn next_line(&mut self) -> Option<LineAt> {
        let start = self.start;
        let (mut end, mut has_nul) = (start, false);
        // NULs are searched together with newlines: another pass would double the cost.
        loop {
            let rest = self.block.get(end..).unwrap_or_default();
            match memchr2(b'\n', 0, rest) {
                Some(found) if rest[found] == 0 => {
                    has_nul = true;
                    end += found + 1;
                }
                Some(found) => {
                    end += found;
                    break;
                }
                None => {
                    end = self.block.len();
                    break;
                }
            }
        }
        if start >= self.block.len() {
            return None;
        }
        self.start = end + 1;
        Some(LineAt {
            start,
            end,
            has_nul,
        })
    }

    #[inline]
    fn strings(&self) -> impl Strings {
        ScalarStrings
    }
}

/// Searches for one string after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarStrings;

impl Strings for ScalarStrings {
    #[inline(always)]
    fn from(self, _: usize) -> ScalarStrings {
        self
    }

    #[inline(always)]
    fn next_mark(self, text: &[u8], at: usize) -> Option<usize> {
        quote_or_backslash(text.get(at..)?).map(|found| at + found)
    }

    #[inline]
    fn has_control(self, text: &[u8]) -> bool {
        text.iter().any(|byte| *byte < 0x20)
    }
}

/// Finds the first `"` or `\`. Names and most values are so short that checking two words here is
/// faster than calling `memchr2`.
#[inline(always)]
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = LOW << 7;
    let hits = |word: u64, byte: u8| {
        // The high bits that remain mark zero bytes; the lowest of them is always correct.
        let zeros = word ^ (LOW * u64::from(byte));
        zeros.wrapping_sub(LOW) & !zeros & HIGH
    };
    let words = text.as_chunks().0;
    let words = &words[..words.len().min(2)];
    for (number, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let found = hits(word, b'"') | hits(word, b'\\');
        if found != 0 {
            return Some(8 * number + found.trailing_zeros() as usize / 8);
        }
    }
    let from = 8 * words.len();
    memchr2(b'"', b'\\', text.get(from..)?).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quote_or_backslash_is_found_wherever_it_is() {
        for length in 0..40 {
            let mut text = vec![b'#'; length];
            assert_eq!(quote_or_backslash(&text), None);
            for at in (0..length).rev() {
                text[at] = if at % 3 == 0 { b'\\' } else { b'"' };
                assert_eq!(quote_or_backslash(&text), Some(at), "{length}");
            }
        }
    }

    #[test]
    fn nuls_belong_to_their_lines_and_the_last_line_may_lack_its_end() {
        let mut lines = Scalar::new(b"a\n\0b\0\n\nc\0");
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push((line.start, line.end, line.has_nul));
        }
        assert_eq!(
            found,
            [(0, 1, false), (2, 5, true), (6, 6, false), (7, 9, true)]
        );
        assert!(Scalar::new(b"").next_line().is_none());
    }

    /// Everything that can be found in a block: its lines, and the marks and control characters after
    /// some of the offsets of each.
    fn everything<'a, L: Lines<'a>>(
        block: &'a [u8],
        step: usize,
    ) -> Vec<(LineAt, Vec<Option<usize>>, bool)> {
        let mut lines = L::new(block);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line() {
            let text = &block[line.start..line.end];
            let from = text.len().min(step);
            let strings = lines.strings().from(from);
            let marks = (0..text.len() + 3 - from)
                .step_by(step)
                .map(|at| strings.next_mark(&text[from..], at))
                .collect();
            all.push((line, marks, strings.has_control(&text[from..])));
        }
        all
    }

    /// Bytes with structure, and others that differ from them by one bit.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            4 => prop::sample::select(&b"\"\\\n\r\0\t\x1f"[..]),
            4 => prop::sample::select(&b"a #!]\x0a\x20\x1e\x7f\xa2\xdc\x80\xff\x9f"[..]),
            1 => any::<u8>(),
        ]
    }

    proptest! {
        #[test]
        fn both_ways_find_the_same(
            block in prop::collection::vec(
                prop_oneof![
                    6 => prop::collection::vec(byte(), 0..20),
                    // Runs without any structure, also longer than what is marked at once.
                    3 => (0usize..150).prop_map(|length| vec![b'a'; length]),
                    1 => (4_000usize..4_200).prop_map(|length| vec![b'a'; length]),
                ],
                0..30,
            ).prop_map(|pieces| pieces.concat()),
            start in 0usize..70,
            step in 1usize..9,
        ) {
            let block = &block[start.min(block.len())..];
            prop_assert_eq!(everything::<Best<'_>>(block, step), everything::<Scalar<'_>>(block, step));
        }
    }

    #[test]
    fn one_structural_byte_is_found_at_every_offset() {
        let mut block = vec![b'a'; 300];
        for at in 0..block.len() {
            for byte in [b'"', b'\\', b'\n', 0, 0x1f, b'\r'] {
                block[at] = byte;
                assert_eq!(
                    everything::<Best<'_>>(&block, 1),
                    everything::<Scalar<'_>>(&block, 1),
                    "{byte} at {at}"
                );
            }
            block[at] = b'a';
        }
    }
}
