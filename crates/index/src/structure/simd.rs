//! Marks the structure of 64 bytes with vector instructions. The only module of this crate with
//! `unsafe` code.
//!
//! Every x86-64 processor has SSE2. Whether it has AVX2 or AVX-512, each of which halves the work, is
//! found out when the program runs.
#![allow(
    unsafe_code,
    reason = "the compiler cannot know that the processor was checked, nor where windows end"
)]

use std::arch::x86_64::*;

use memchr::memchr;
use waypost_io::lines::common_prefix;

use super::marks::{AHEAD, Events, MORE, Words};
use super::usual::{AFTER, SeamState, Seams};

/// How many bytes have their bits in one word.
pub(super) const CHUNK: usize = 64;

/// The bytes of a word.
pub(super) const WORD: usize = CHUNK / 8;

/// A chunk and the bytes after it that decide about its seams.
const WINDOW: usize = CHUNK + AFTER;

/// Marks with some of the instructions that the processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker {
    /// Private, so that it is one that was checked.
    level: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Sse2,
    Avx2,
    Avx512,
}

impl Marker {
    /// The fastest one.
    pub(super) fn detect() -> Marker {
        let has_bmi = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
        let level = if has_bmi && is_x86_feature_detected!("avx512bw") {
            Level::Avx512
        } else if has_bmi && is_x86_feature_detected!("avx2") {
            Level::Avx2
        } else {
            Level::Sse2
        };
        Marker { level }
    }

    /// Appends the words of the chunks in `bytes`, which are followed by the first bytes [`AFTER`] them. Replaces
    /// the events by those of these chunks.
    pub(super) fn mark(self, bytes: &[u8], words: &mut Words) {
        let chunks = (bytes.len() - AFTER) / CHUNK;
        debug_assert!(chunks <= AHEAD);
        let before = words.strings.len() - MORE;
        words.strings.resize(before + chunks + MORE, [0; WORD]);
        let unmarked = Unmarked {
            bytes,
            strings: &mut words.strings[before..],
            events: &mut words.events,
            seams: &mut words.seams,
        };
        match self.level {
            // SAFETY: every processor of this architecture has SSE2.
            Level::Sse2 => unsafe { by_sse2(unmarked) },
            // SAFETY: `detect` checked that the processor has AVX2 and BMI.
            Level::Avx2 => unsafe { by_avx2(unmarked) },
            // SAFETY: `detect` checked that it has AVX-512BW, of which F is a part, and BMI.
            Level::Avx512 => unsafe { by_avx512(unmarked) },
        }
    }

    /// How many bytes two texts have in common at their starts.
    #[inline]
    pub(super) fn common(self, a: &[u8], b: &[u8]) -> usize {
        match self.level {
            Level::Sse2 | Level::Avx2 => common_prefix(a, b),
            // SAFETY: `detect` checked that the processor has AVX-512BW.
            Level::Avx512 => unsafe { common_by_avx512(a, b) },
        }
    }

    /// The offset of the first space.
    #[inline]
    pub(super) fn first_space(self, text: &[u8]) -> Option<usize> {
        match self.level {
            Level::Sse2 | Level::Avx2 => memchr(b' ', text),
            // SAFETY: `detect` checked that the processor has AVX-512BW.
            Level::Avx512 => unsafe { first_space_by_avx512(text) },
        }
    }
}

/// Chunks to mark, and what is to be filled.
struct Unmarked<'a> {
    bytes: &'a [u8],
    strings: &'a mut [[u8; WORD]],
    events: &'a mut Events,
    seams: &'a mut Option<SeamState>,
}

impl Unmarked<'_> {
    /// Fills it. `marked` returns the quotes and backslashes of a chunk, and its control characters; `special`
    /// returns both together.
    #[inline(always)]
    fn fill(
        self,
        marked: impl Fn(&[u8; WINDOW]) -> (u64, u64),
        special: impl Fn(&[u8; WINDOW]) -> u64,
        seams: impl Fn(&[u8; WINDOW]) -> Seams,
    ) {
        let chunks = (self.bytes.len() - AFTER) / CHUNK;
        let words = self.strings.iter_mut().zip(&mut self.events.words);
        let windows = (0..chunks).map(|number| {
            debug_assert!(number * CHUNK + WINDOW <= self.bytes.len());
            // SAFETY: `number < chunks`, so `(number + 1) * CHUNK + AFTER <= bytes.len()`. Slicing takes a tenth
            // more time.
            unsafe {
                &*self
                    .bytes
                    .as_ptr()
                    .add(number * CHUNK)
                    .cast::<[u8; WINDOW]>()
            }
        });
        let mut unread = 0;
        let found = words.zip(windows).enumerate();
        match self.seams {
            Some(before) => {
                // Not in memory while it changes with every chunk.
                let mut now = std::mem::take(before);
                for (number, ((strings, events), window)) in found {
                    let special = special(window);
                    *strings = special.to_le_bytes();
                    *events = now.odd(special, seams(window));
                    unread |= u64::from(*events != 0) << number;
                }
                *before = now;
            }
            None => {
                for (number, ((strings, events), window)) in found {
                    let (marks, controls) = marked(window);
                    *strings = marks.to_le_bytes();
                    *events = controls;
                    unread |= u64::from(controls != 0) << number;
                }
            }
        }
        self.events.unread = unread;
    }
}

/// Forces a mask into a general-purpose register: the compiler would combine masks in mask registers, which
/// is slower.
#[inline(always)]
fn in_register(mut bits: u64) -> u64 {
    // SAFETY: it contains no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) bits, options(pure, nomem, nostack, preserves_flags));
    }
    bits
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2")]
fn by_avx512(unmarked: Unmarked<'_>) {
    let each = |byte: u8| _mm512_set1_epi8(byte as i8);
    let (quote, backslash, space) = (each(b'"'), each(b'\\'), each(b' '));
    let (colon, comma) = (each(b':'), each(b','));
    let (brace, newline) = (each(b'}'), each(b'\n'));
    let load = |window: &[u8; WINDOW], after: usize| {
        debug_assert!(after <= AFTER);
        // SAFETY: 64 bytes are read, of which there are as many after `after`, and they need not be aligned.
        unsafe { _mm512_loadu_si512(window.as_ptr().add(after).cast()) }
    };
    // Instructions with masks are the slowest of these, so vectors are combined before they are compared: zero
    // is where all bytes are as expected.
    let differs = |bytes, byte| _mm512_xor_si512(bytes, byte);
    // `so_far | bytes ^ byte`
    let or_differs = |so_far, bytes, byte| _mm512_ternarylogic_epi64(so_far, bytes, byte, 0xf6);
    let zeros = |bytes| in_register(_mm512_testn_epi8_mask(bytes, bytes));
    let marked = |window: &[u8; WINDOW]| {
        let bytes = load(window, 0);
        let marks = _mm512_min_epu8(differs(bytes, quote), differs(bytes, backslash));
        (zeros(marks), _mm512_cmplt_epu8_mask(bytes, space))
    };
    let special = |window: &[u8; WINDOW]| {
        let bytes = load(window, 0);
        let marks = _mm512_min_epu8(differs(bytes, quote), differs(bytes, backslash));
        zeros(_mm512_min_epu8(marks, _mm512_and_si512(bytes, each(0xe0))))
    };
    let seams = |window: &[u8; WINDOW]| {
        let (second, third) = (load(window, 1), load(window, 2));
        let first = differs(load(window, 0), quote);
        let spaced = or_differs(or_differs(first, load(window, 3), quote), third, space);
        let ended = or_differs(or_differs(first, second, brace), third, newline);
        let or_ended = |seam| zeros(_mm512_min_epu8(seam, ended));
        Seams {
            colons_and_ends: or_ended(or_differs(spaced, second, colon)),
            commas_and_ends: or_ended(or_differs(spaced, second, comma)),
        }
    };
    unmarked.fill(marked, special, seams);
}

#[target_feature(enable = "avx512f,avx512bw,bmi1")]
fn first_space_by_avx512(text: &[u8]) -> Option<usize> {
    // Most keys are so short that nothing else is needed.
    let Some(chunk) = text.first_chunk::<CHUNK>() else {
        return memchr(b' ', text);
    };
    // SAFETY: 64 bytes are read, and they need not be aligned.
    let bytes = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
    match _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b' ' as i8)) {
        0 => memchr(b' ', &text[CHUNK..]).map(|at| CHUNK + at),
        spaces => Some(spaces.trailing_zeros() as usize),
    }
}

#[target_feature(enable = "avx512f,avx512bw,bmi1")]
fn common_by_avx512(a: &[u8], b: &[u8]) -> usize {
    let load = |chunk: &[u8; CHUNK]| {
        // SAFETY: 64 bytes are read, and they need not be aligned.
        unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) }
    };
    let mut at = 0;
    for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
        let different = _mm512_cmpneq_epi8_mask(load(a), load(b));
        if different != 0 {
            return at + different.trailing_zeros() as usize;
        }
        at += CHUNK;
    }
    at + common_prefix(&a[at..], &b[at..])
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn by_avx2(unmarked: Unmarked<'_>) {
    let each = |byte: u8| _mm256_set1_epi8(byte as i8);
    let (quote, backslash, last_control) = (each(b'"'), each(b'\\'), each(0x1f));
    let (colon, comma, space) = (each(b':'), each(b','), each(b' '));
    let (brace, newline) = (each(b'}'), each(b'\n'));
    let load = |window: &[u8; WINDOW], at: usize| {
        debug_assert!(at <= CHUNK - 32 + AFTER);
        // SAFETY: 32 bytes are read, of which there are as many after `at`, and they need not be aligned.
        unsafe { _mm256_loadu_si256(window.as_ptr().add(at).cast()) }
    };
    let bits = |both: [__m256i; 2]| {
        let [low, high] = both.map(|marked| u64::from(_mm256_movemask_epi8(marked) as u32));
        low | high << 32
    };
    let halves = [0, 32];
    let marked = |window: &[u8; WINDOW]| {
        let both = halves.map(|at| load(window, at));
        let marks = both.map(|bytes| {
            _mm256_or_si256(
                _mm256_cmpeq_epi8(bytes, quote),
                _mm256_cmpeq_epi8(bytes, backslash),
            )
        });
        // Vectors have no unsigned comparison, but a minimum.
        let low = both.map(|bytes| _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, last_control), bytes));
        (bits(marks), bits(low))
    };
    let special = |window: &[u8; WINDOW]| {
        let (marks, controls) = marked(window);
        marks | controls
    };
    let seams = |window: &[u8; WINDOW]| {
        let is = |at, after, byte| _mm256_cmpeq_epi8(load(window, at + after), byte);
        let and = |a, b| _mm256_and_si256(a, b);
        let spaced =
            halves.map(|at| and(and(is(at, 0, quote), is(at, 3, quote)), is(at, 2, space)));
        let [low, high] = spaced;
        let ended =
            halves.map(|at| and(and(is(at, 0, quote), is(at, 1, brace)), is(at, 2, newline)));
        let or_ended = |kind| {
            let [low_end, high_end] = ended;
            let low = _mm256_or_si256(and(low, is(0, 1, kind)), low_end);
            let high = _mm256_or_si256(and(high, is(32, 1, kind)), high_end);
            bits([low, high])
        };
        Seams {
            colons_and_ends: or_ended(colon),
            commas_and_ends: or_ended(comma),
        }
    };
    unmarked.fill(marked, special, seams);
}

#[target_feature(enable = "sse2")]
fn by_sse2(unmarked: Unmarked<'_>) {
    let each = |byte: u8| _mm_set1_epi8(byte as i8);
    let (quote, backslash, last_control) = (each(b'"'), each(b'\\'), each(0x1f));
    let (colon, comma, space) = (each(b':'), each(b','), each(b' '));
    let (brace, newline) = (each(b'}'), each(b'\n'));
    let load = |window: &[u8; WINDOW], at: usize| {
        debug_assert!(at <= CHUNK - 16 + AFTER);
        // SAFETY: 16 bytes are read, of which there are as many after `at`, and they need not be aligned.
        unsafe { _mm_loadu_si128(window.as_ptr().add(at).cast()) }
    };
    let quarters = |marked: &dyn Fn(usize) -> __m128i| {
        [0, 16, 32, 48].into_iter().fold(0, |bits, at| {
            bits | u64::from(_mm_movemask_epi8(marked(at)) as u16) << at
        })
    };
    let marked = |window: &[u8; WINDOW]| {
        let marks = quarters(&|at| {
            let bytes = load(window, at);
            _mm_or_si128(
                _mm_cmpeq_epi8(bytes, quote),
                _mm_cmpeq_epi8(bytes, backslash),
            )
        });
        let controls = quarters(&|at| {
            let bytes = load(window, at);
            _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes)
        });
        (marks, controls)
    };
    let special = |window: &[u8; WINDOW]| {
        let (marks, controls) = marked(window);
        marks | controls
    };
    let seams = |window: &[u8; WINDOW]| {
        let is = |at, after, byte| _mm_cmpeq_epi8(load(window, at + after), byte);
        let and = |a, b| _mm_and_si128(a, b);
        let seam_or_end = |at, kind| {
            let spaced = and(is(at, 1, kind), and(is(at, 2, space), is(at, 3, quote)));
            let ended = and(is(at, 1, brace), is(at, 2, newline));
            and(is(at, 0, quote), _mm_or_si128(spaced, ended))
        };
        Seams {
            colons_and_ends: quarters(&|at| seam_or_end(at, colon)),
            commas_and_ends: quarters(&|at| seam_or_end(at, comma)),
        }
    };
    unmarked.fill(marked, special, seams);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What [`Marker::mark`] should find, one byte at a time.
    fn marked(bytes: &[u8], with_seams: bool) -> Words {
        let at = |at: usize, text: &[u8]| bytes[at..].starts_with(text);
        let bits = |chunk: usize, is_marked: &dyn Fn(usize) -> bool| {
            let bit = |bit| u64::from(is_marked(CHUNK * chunk + bit)) << bit;
            (0..CHUNK).map(bit).sum::<u64>()
        };
        let mut words = Words::new(with_seams);
        words.strings.clear();
        for chunk in 0..(bytes.len() - AFTER) / CHUNK {
            let marks = bits(chunk, &|place| matches!(bytes[place], b'"' | b'\\'));
            let controls = bits(chunk, &|place| bytes[place] < 0x20);
            let ends = bits(chunk, &|place| at(place, b"\"}\n"));
            let seams = Seams {
                colons_and_ends: bits(chunk, &|place| at(place, b"\": \"")) | ends,
                commas_and_ends: bits(chunk, &|place| at(place, b"\", \"")) | ends,
            };
            let (strings, events) = match &mut words.seams {
                Some(before) => (marks | controls, before.odd(marks | controls, seams)),
                None => (marks, controls),
            };
            words.strings.push(strings.to_le_bytes());
            words.events.words[chunk] = events;
            words.events.unread |= u64::from(events != 0) << chunk;
        }
        words.strings.extend([[0; WORD]; MORE]);
        words
    }

    proptest! {
        #[test]
        fn every_byte_has_its_bits_whatever_the_processor(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(&["\": \"", "\", \"", "\"}\n", "\"", "a", "\\"][..])
                        .prop_map(|seam| seam.as_bytes().to_vec()),
                    prop::collection::vec(any::<u8>(), 0..9),
                ],
                0..90,
            ),
            with_seams: bool,
        ) {
            let mut bytes = pieces.concat();
            bytes.truncate(bytes.len() / CHUNK * CHUNK);
            bytes.extend([b' '; AFTER]);
            let expected = marked(&bytes, with_seams);
            let best = Marker::detect().level;
            for level in [Level::Sse2, Level::Avx2, Level::Avx512] {
                // Who has the best one has those before it.
                let marker = Marker { level };
                let mut words = Words::new(with_seams);
                marker.mark(&bytes, &mut words);
                prop_assert_eq!(&words, &expected);
                if level == best {
                    break;
                }
            }
        }
    }
}
