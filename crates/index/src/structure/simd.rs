//! Marks the structure of 64 bytes with vector instructions. The only module of this crate with
//! `unsafe` code.
//!
//! Every x86-64 processor has SSE2. Whether it has AVX2 or AVX-512, each of which halves the work, is
//! found out when the program runs.
#![allow(
    unsafe_code,
    reason = "the compiler cannot know that the processor was checked"
)]

use std::arch::x86_64::*;

use super::marks::Words;

/// How many bytes have their bits in one word.
pub(super) const CHUNK: usize = 64;

/// The bytes of a word.
pub(super) const WORD: usize = CHUNK / 8;

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
        let level = if is_x86_feature_detected!("avx512bw") {
            Level::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Level::Avx2
        } else {
            Level::Sse2
        };
        Marker { level }
    }

    /// Appends the words of some chunks.
    pub(super) fn mark(self, chunks: &[[u8; CHUNK]], all: &mut Words) {
        let before = all.controls.len();
        let after = before + chunks.len();
        all.strings.resize(after + 1, [0; WORD]);
        all.controls.resize(after, 0);
        let words = all.strings[before..].iter_mut();
        let words = words.zip(&mut all.controls[before..]);
        match self.level {
            // SAFETY: SSE2 is part of x86-64.
            Level::Sse2 => unsafe { by_sse2(chunks, words) },
            // SAFETY: `detect` checked that the processor has AVX2.
            Level::Avx2 => unsafe { by_avx2(chunks, words) },
            // SAFETY: `detect` checked that the processor has AVX-512BW, of which F is a part.
            Level::Avx512 => unsafe { by_avx512(chunks, words) },
        }
    }
}

/// The words of a chunk: its strings, and its control characters.
type Bits<'a> = (&'a mut [u8; WORD], &'a mut u64);

#[target_feature(enable = "avx512f,avx512bw")]
fn by_avx512<'a>(chunks: &[[u8; CHUNK]], words: impl Iterator<Item = Bits<'a>>) {
    let (quote, backslash) = (_mm512_set1_epi8(b'"' as i8), _mm512_set1_epi8(b'\\' as i8));
    let space = _mm512_set1_epi8(b' ' as i8);
    for (chunk, (strings, controls)) in chunks.iter().zip(words) {
        // SAFETY: 64 bytes are read, and they need not be aligned.
        let bytes = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
        let marks = _mm512_cmpeq_epi8_mask(bytes, quote) | _mm512_cmpeq_epi8_mask(bytes, backslash);
        *strings = marks.to_le_bytes();
        *controls = _mm512_cmplt_epu8_mask(bytes, space);
    }
}

#[target_feature(enable = "avx2")]
fn by_avx2<'a>(chunks: &[[u8; CHUNK]], words: impl Iterator<Item = Bits<'a>>) {
    let (quote, backslash) = (_mm256_set1_epi8(b'"' as i8), _mm256_set1_epi8(b'\\' as i8));
    let last_control = _mm256_set1_epi8(0x1f);
    for (chunk, (strings, controls)) in chunks.iter().zip(words) {
        let mut marks = 0;
        for (number, bytes) in chunk.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: 32 bytes are read, and they need not be aligned.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            let both = _mm256_or_si256(
                _mm256_cmpeq_epi8(bytes, quote),
                _mm256_cmpeq_epi8(bytes, backslash),
            );
            // Vectors have no unsigned comparison, but a minimum.
            let low = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, last_control), bytes);
            let shift = 32 * number;
            marks |= u64::from(_mm256_movemask_epi8(both) as u32) << shift;
            *controls |= u64::from(_mm256_movemask_epi8(low) as u32) << shift;
        }
        *strings = marks.to_le_bytes();
    }
}

#[target_feature(enable = "sse2")]
fn by_sse2<'a>(chunks: &[[u8; CHUNK]], words: impl Iterator<Item = Bits<'a>>) {
    let (quote, backslash) = (_mm_set1_epi8(b'"' as i8), _mm_set1_epi8(b'\\' as i8));
    let last_control = _mm_set1_epi8(0x1f);
    for (chunk, (strings, controls)) in chunks.iter().zip(words) {
        let mut marks = 0;
        for (number, bytes) in chunk.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: 16 bytes are read, and they need not be aligned.
            let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            let both = _mm_or_si128(
                _mm_cmpeq_epi8(bytes, quote),
                _mm_cmpeq_epi8(bytes, backslash),
            );
            let low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
            let shift = 16 * number;
            marks |= u64::from(_mm_movemask_epi8(both) as u16) << shift;
            *controls |= u64::from(_mm_movemask_epi8(low) as u16) << shift;
        }
        *strings = marks.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_has_its_bits_whatever_the_processor(
            chunks in prop::collection::vec(prop::array::uniform32(any::<[u8; 2]>()), 0..5),
        ) {
            let chunks: Vec<[u8; CHUNK]> = chunks
                .iter()
                .map(|pairs| pairs.concat().try_into().unwrap())
                .collect();
            let bits = |chunk: &[u8; CHUNK], is_marked: fn(u8) -> bool| {
                (0..CHUNK).fold(0, |bits, at| bits | u64::from(is_marked(chunk[at])) << at)
            };
            let expected = Words {
                strings: chunks
                    .iter()
                    .map(|chunk| bits(chunk, |byte| matches!(byte, b'"' | b'\\')).to_le_bytes())
                    .chain([[0; WORD]])
                    .collect(),
                controls: chunks
                    .iter()
                    .map(|chunk| bits(chunk, |byte| byte < 0x20))
                    .collect(),
            };
            let best = Marker::detect().level;
            for level in [Level::Sse2, Level::Avx2, Level::Avx512] {
                // Who has the best one has those before it.
                let marker = Marker { level };
                let mut words = Words::default();
                marker.mark(&chunks, &mut words);
                prop_assert_eq!(&words, &expected);
                if level == best {
                    break;
                }
            }
        }
    }
}
