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

use super::marks::Word;

/// How many bytes have their bits in one word.
pub(super) const CHUNK: usize = 64;

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
    pub(super) fn mark(self, chunks: &[[u8; CHUNK]], all: &mut Vec<Word>) {
        let before = all.len();
        all.resize(before + chunks.len(), Word::default());
        let words = &mut all[before..];
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

#[target_feature(enable = "avx512f,avx512bw")]
fn by_avx512(chunks: &[[u8; CHUNK]], words: &mut [Word]) {
    let (quote, backslash) = (_mm512_set1_epi8(b'"' as i8), _mm512_set1_epi8(b'\\' as i8));
    let space = _mm512_set1_epi8(b' ' as i8);
    for (chunk, word) in chunks.iter().zip(words) {
        // SAFETY: 64 bytes are read, and they need not be aligned.
        let bytes = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
        word.strings =
            _mm512_cmpeq_epi8_mask(bytes, quote) | _mm512_cmpeq_epi8_mask(bytes, backslash);
        word.controls = _mm512_cmplt_epu8_mask(bytes, space);
    }
}

#[target_feature(enable = "avx2")]
fn by_avx2(chunks: &[[u8; CHUNK]], words: &mut [Word]) {
    let (quote, backslash) = (_mm256_set1_epi8(b'"' as i8), _mm256_set1_epi8(b'\\' as i8));
    let last_control = _mm256_set1_epi8(0x1f);
    for (chunk, word) in chunks.iter().zip(words) {
        for (number, bytes) in chunk.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: 32 bytes are read, and they need not be aligned.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            let strings = _mm256_or_si256(
                _mm256_cmpeq_epi8(bytes, quote),
                _mm256_cmpeq_epi8(bytes, backslash),
            );
            // Vectors have no unsigned comparison, but a minimum.
            let controls = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, last_control), bytes);
            let shift = 32 * number;
            word.strings |= u64::from(_mm256_movemask_epi8(strings) as u32) << shift;
            word.controls |= u64::from(_mm256_movemask_epi8(controls) as u32) << shift;
        }
    }
}

#[target_feature(enable = "sse2")]
fn by_sse2(chunks: &[[u8; CHUNK]], words: &mut [Word]) {
    let (quote, backslash) = (_mm_set1_epi8(b'"' as i8), _mm_set1_epi8(b'\\' as i8));
    let last_control = _mm_set1_epi8(0x1f);
    for (chunk, word) in chunks.iter().zip(words) {
        for (number, bytes) in chunk.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: 16 bytes are read, and they need not be aligned.
            let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            let strings = _mm_or_si128(
                _mm_cmpeq_epi8(bytes, quote),
                _mm_cmpeq_epi8(bytes, backslash),
            );
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
            let shift = 16 * number;
            word.strings |= u64::from(_mm_movemask_epi8(strings) as u16) << shift;
            word.controls |= u64::from(_mm_movemask_epi8(controls) as u16) << shift;
        }
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
            let expected: Vec<Word> = chunks
                .iter()
                .map(|chunk| Word {
                    strings: bits(chunk, |byte| matches!(byte, b'"' | b'\\')),
                    controls: bits(chunk, |byte| byte < 0x20),
                })
                .collect();
            let best = Marker::detect().level;
            for level in [Level::Sse2, Level::Avx2, Level::Avx512] {
                // Who has the best one has those before it.
                let marker = Marker { level };
                let mut words = Vec::new();
                marker.mark(&chunks, &mut words);
                prop_assert_eq!(&words, &expected);
                if level == best {
                    break;
                }
            }
        }
    }
}
