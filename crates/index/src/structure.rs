//! Finds what gives a block its structure: the ends of its lines, and the ends of the strings in their
//! JSON.
//!
//! There are two ways, with the same results. [`Scalar`] searches for one end after the other and
//! needs nothing from the processor. [`Marks`] looks at every byte once, 64 at a time, and keeps two bits
//! for each: one by which strings are found by counting zeros, and one for bytes that need a closer look,
//! such as the ends of lines. It is used where vector instructions make that the faster way.

#[cfg(target_arch = "x86_64")]
mod marks;
#[cfg(target_arch = "x86_64")]
mod simd;
#[cfg(target_arch = "x86_64")]
mod usual;

use memchr::{memchr, memchr2};
#[cfg(any(test, not(target_arch = "x86_64")))]
use waypost_io::lines::common_prefix;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use Scalar as Best;
/// The faster way on this kind of processor.
#[cfg(target_arch = "x86_64")]
pub(crate) use marks::Marks as Best;

/// Compares texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixComparer {
    #[cfg(target_arch = "x86_64")]
    marker: simd::Marker,
}

impl PrefixComparer {
    pub(crate) fn new() -> PrefixComparer {
        PrefixComparer {
            #[cfg(target_arch = "x86_64")]
            marker: simd::Marker::detect(),
        }
    }

    /// How many bytes two texts have in common at their starts.
    #[inline]
    pub(crate) fn common(self, a: &[u8], b: &[u8]) -> usize {
        #[cfg(target_arch = "x86_64")]
        return self.marker.common(a, b);
        #[cfg(not(target_arch = "x86_64"))]
        common_prefix(a, b)
    }
}

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
    /// With `whole`, [usual](Strings::usual_object) objects are recognised.
    fn new(block: &'a [u8], whole: bool) -> Self;

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

    /// The offset of a usual object with which the line ends: all of its values are strings without escapes,
    /// separated as most tools separate them. `None` if this would have to be found out member by member.
    fn usual_object(self, line: &[u8]) -> Option<usize>;

    /// The offset of the first space.
    fn first_space(self, text: &[u8]) -> Option<usize>;
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
    fn new(block: &'a [u8], _: bool) -> Scalar<'a> {
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

    #[inline(always)]
    fn usual_object(self, _: &[u8]) -> Option<usize> {
        None
    }

    #[inline]
    fn first_space(self, text: &[u8]) -> Option<usize> {
        memchr(b' ', text)
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
    use crate::json::{self, Next};
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
        let mut lines = Scalar::new(b"a\n\0b\0\n\nc\0", false);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push((line.start, line.end, line.has_nul));
        }
        assert_eq!(
            found,
            [(0, 1, false), (2, 5, true), (6, 6, false), (7, 9, true)]
        );
        assert!(Scalar::new(b"", false).next_line().is_none());
    }

    /// Everything that can be found in a block: its lines, and the marks and control characters after
    /// some of the offsets of each.
    fn everything<'a, L: Lines<'a>>(
        block: &'a [u8],
        step: usize,
        whole: bool,
    ) -> Vec<(LineAt, Vec<Option<usize>>, bool)> {
        let mut lines = L::new(block, whole);
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
            whole: bool,
        ) {
            let block = &block[start.min(block.len())..];
            prop_assert_eq!(
                everything::<Best<'_>>(block, step, whole),
                everything::<Scalar<'_>>(block, step, whole)
            );
        }
    }

    /// The pieces of objects, usual and not, with the bytes that only look like them.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            8 => prop::sample::select(&["\": \"", "\", \""][..]),
            3 => prop::sample::select(&["\"}\n", " {\"", "\"}\nkey {\"", "{", "}", "\n"][..]),
            3 => prop::sample::select(&["\"", "\\", ":", ",", " ", "\t", "\r\n", "é"][..]),
            6 => prop::sample::select(&["a", "name", "a value that is longer than a chunk of 64 bytes, also if a part of it is cut"][..]),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
    }

    /// Lines with members that are separated as most tools separate them.
    fn usual_lines() -> impl Strategy<Value = Vec<u8>> {
        let text = "([a-z][a-z:,{} ]{0,9})?|[a-z]{50,80}";
        let members = prop::collection::vec((text, text), 1..6);
        let line = ("[a-z,)/]{1,70}", members).prop_map(|(key, members)| {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("\"n{name}\": \"{value}\""))
                .collect();
            format!("{key} {{{}}}\n", members.join(", "))
        });
        prop::collection::vec(line, 1..9).prop_map(|lines| lines.concat().into_bytes())
    }

    type Members = Vec<(Vec<u8>, Vec<u8>)>;

    /// The members of a usual object as they are found without checking it, and as they are found by
    /// checking each of them.
    fn members_of(object: &[u8], strings: impl Strings) -> [Option<Members>; 2] {
        let (mut quickly, mut slowly) = (Vec::new(), Vec::new());
        let mut order = json::Order::remembering();
        json::usual_members(
            object,
            strings,
            &mut order,
            |name| name,
            |name, value| {
                quickly.push((name.to_vec(), value.to_vec()));
                Next::More
            },
        );
        let read = json::members(object, true, |name, raw| {
            // Texts only: a value of another kind is not what was found quickly.
            let text = (raw.kind == json::Kind::Text).then(|| raw.bytes.to_vec());
            slowly.push((name.to_vec(), text.unwrap_or_default()));
            Next::More
        });
        [Some(quickly), read.ok().map(|()| slowly)]
    }

    fn usual_is_an_object_of_strings(block: &[u8]) -> Result<(), TestCaseError> {
        let mut lines = Best::new(block, true);
        while let Some(LineAt { start, end, .. }) = lines.next_line() {
            let line = &block[start..end];
            let strings = lines.strings();
            if let Some(at) = strings.usual_object(line) {
                let [quickly, slowly] = members_of(&line[at..], strings.from(at));
                prop_assert_eq!(quickly, slowly, "{}", String::from_utf8_lossy(line));
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_called_usual_is_an_object_of_strings(block in pieces()) {
            usual_is_an_object_of_strings(&block)?;
        }

        #[test]
        fn usual_lines_with_one_other_byte_are_no_longer_usual_or_still_objects(
            lines in usual_lines(),
            at in any::<prop::sample::Index>(),
            byte in byte(),
        ) {
            let mut block = lines;
            let at = at.index(block.len());
            block[at] = byte;
            usual_is_an_object_of_strings(&block)?;
        }

        #[test]
        #[cfg(target_arch = "x86_64")]
        fn objects_of_strings_are_called_usual(block in usual_lines()) {
            let mut lines = Best::new(&block, true);
            while let Some(LineAt { start, end, .. }) = lines.next_line() {
                let line = &block[start..end];
                let at = lines.strings().usual_object(line);
                prop_assert_eq!(at, memchr(b'{', line), "{}", String::from_utf8_lossy(line));
            }
        }
    }

    #[test]
    fn nearly_usual_objects_are_not_called_usual() {
        for object in [
            r#"{"a": "b""#,
            r#"{"a": "b"#,
            r#"{"a": "b"}x"#,
            r#"{"a"}"#,
            r#"{"}"#,
            r#"{", "a": "b"}"#,
            r#"{": "a": "b"}"#,
            r#"{"a": "b": "c"}"#,
            r#"{"a": "b", "c"}"#,
            r#"{"a", "b": "c"}"#,
            r#"{"a": "b\"}"#,
            r#"{"a": 1, "b": "c"}"#,
            r#"{"a": "b", x": "c"}"#,
            r#"{"a": ": "}"#,
            "{\"a\": \"\t\"}",
            "{\"a\": \"b\"}\r",
            r#" "{"a": "b"}"#,
            r#""{"a": "b"}"#,
            r#"{"a": "b"}", "c": "d"}"#,
            r#"{"a":"b"}"#,
        ] {
            // Also at the borders of chunks, and after a line that is usual.
            for length in 0..130 {
                let key = "k".repeat(length);
                let block = format!("{key}{{\"a\": \"b\"}}\n{key}{object}\n");
                let mut lines = Best::new(block.as_bytes(), true);
                lines.next_line();
                let LineAt { start, end, .. } = lines.next_line().unwrap();
                let line = &block.as_bytes()[start..end];
                assert_eq!(lines.strings().usual_object(line), None, "{object}");
            }
        }
    }

    #[test]
    fn the_common_start_of_texts_is_found_wherever_it_ends() {
        let comparer = PrefixComparer::new();
        for length in 0..200 {
            let text = vec![b'a'; length];
            assert_eq!(comparer.common(&text, &text), length);
            assert_eq!(comparer.common(&text, &text[..length / 2]), length / 2);
            for at in 0..length {
                let mut other = text.clone();
                other[at] = b'b';
                assert_eq!(comparer.common(&text, &other), at);
                assert_eq!(comparer.common(&other, &text[..=at]), at);
                assert_eq!(common_prefix(&other, &text), at);
            }
        }
    }

    #[test]
    fn the_first_space_is_found_wherever_it_is() {
        for length in 0..200 {
            let mut text = vec![b'a'; length];
            for at in (0..length).rev() {
                text[at] = b' ';
                let mut lines = Best::new(&text, true);
                lines.next_line();
                assert_eq!(lines.strings().first_space(&text), Some(at));
            }
            let none = vec![b'a'; length];
            assert_eq!(Best::new(&none, true).strings().first_space(&none), None);
        }
    }

    #[test]
    fn one_structural_byte_is_found_at_every_offset() {
        let mut block = vec![b'a'; 300];
        for at in 0..block.len() {
            for byte in [b'"', b'\\', b'\n', 0, 0x1f, b'\r'] {
                block[at] = byte;
                assert_eq!(
                    everything::<Best<'_>>(&block, 1, true),
                    everything::<Scalar<'_>>(&block, 1, true),
                    "{byte} at {at}"
                );
            }
            block[at] = b'a';
        }
    }
}
