//! The hash functions of Orestes, which give the positions of a URL in a filter.

use std::fmt;
use std::str::FromStr;

use md5::{Digest, Md5};

use crate::error::{Error, Result};

/// How the positions of a URL are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Two hashes of Murmur3 and their linear combinations: the default of Orestes.
    #[default]
    KirschMitzenmacher,
    /// Murmur3, seeded with its last result.
    Murmur3,
    /// MD5, cut into slices.
    Md5,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 3] = [Method::KirschMitzenmacher, Method::Murmur3, Method::Md5];

    /// The name in Orestes, as in its Redis layout.
    pub fn name(self) -> &'static str {
        match self {
            Method::KirschMitzenmacher => "Murmur3KirschMitzenmacher",
            Method::Murmur3 => "Murmur3",
            Method::Md5 => "MD5",
        }
    }

    /// Appends the `count` positions of a URL in a filter of `bits` bits, which must be at least 1
    /// and at most [`MOST_BITS`](super::MOST_BITS).
    pub fn positions(self, url: &[u8], bits: u64, count: u32, out: &mut Vec<u64>) {
        match self {
            Method::KirschMitzenmacher => {
                let (first, second) = pair(url);
                out.extend((0..count).map(|number| combine(first, second, number, bits)));
            }
            Method::Murmur3 => murmur_positions(url, bits, count as usize, out),
            Method::Md5 => md5_positions(url, bits, count as usize, out),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Method> {
        let mut all = Method::ALL.into_iter();
        all.find(|method| method.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names = Method::ALL.map(Method::name).join(", ");
                Error::invalid(format!("unknown hash method `{name}`: one of {names}"))
            })
    }
}

/// The two hashes that the default method combines.
pub(super) fn pair(url: &[u8]) -> (u32, u32) {
    let first = murmur3(url, 0);
    (first, murmur3(url, first))
}

/// A position by the default method.
#[inline]
pub(super) fn combine(first: u32, second: u32, number: u32, bits: u64) -> u64 {
    (u64::from(first) + u64::from(number) * u64::from(second)) % bits
}

/// Rejects hashes that would make some positions more likely than others.
fn murmur_positions(url: &[u8], bits: u64, count: usize, out: &mut Vec<u64>) {
    let most = i32::MAX as u64;
    let end = out.len() + count;
    let mut seed = 0u32;
    // Seeds repeat at last; then the rest would never be found.
    for _ in 0..count * 1000 {
        if out.len() == end {
            return;
        }
        seed = murmur3(url, seed);
        let value = u64::from((seed as i32).unsigned_abs());
        if value <= most - most % bits && seed as i32 != i32::MIN {
            out.push(value % bits);
        }
    }
    out.resize(end, 0);
}

fn md5_positions(url: &[u8], bits: u64, count: usize, out: &mut Vec<u64>) {
    let end = out.len() + count;
    let width = 64 - bits.leading_zeros();
    let mut digest: Option<[u8; 16]> = None;
    while out.len() < end {
        let mut hasher = Md5::new();
        if let Some(digest) = digest {
            hasher.update(digest);
        }
        hasher.update(url);
        let bytes: [u8; 16] = hasher.finalize().into();
        let mut rest = u128::from_le_bytes(bytes);
        for _ in 0..128 / width {
            let slice = (rest & ((1 << width) - 1)) as u64;
            rest >>= width;
            if slice < bits && out.len() < end {
                out.push(slice);
            }
        }
        digest = Some(bytes);
    }
}

/// The MD5 of a URL: its first digits are those of its filter.
pub(super) fn md5(url: &[u8]) -> [u8; 16] {
    Md5::digest(url).into()
}

/// MurmurHash3, 32 bits, for x86.
fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    fn mix(word: u32) -> u32 {
        word.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    }
    let mut hash = seed;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash ^= mix(u32::from_le_bytes(*word));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    hash ^= mix(u32::from_le_bytes(last));
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur3_is_that_of_its_author() {
        // Published values of MurmurHash3_x86_32.
        assert_eq!(murmur3(b"", 0), 0);
        assert_eq!(murmur3(b"", 1), 0x514e_28b7);
        assert_eq!(murmur3(b"\xff\xff\xff\xff", 0), 0x7629_3b50);
        assert_eq!(murmur3(b"!Ce\x87", 0), 0xf55b_516b);
        assert_eq!(murmur3(b"Hello, world!", 0x9747_b28c), 0x2488_4cba);
    }

    #[test]
    fn positions_are_within_the_filter_whatever_its_size() {
        for method in Method::ALL {
            for bits in [1, 2, 3, 7, 64, 1000, super::super::MOST_BITS] {
                let mut positions = Vec::new();
                for url in ["", "a", "http://example.com/"] {
                    method.positions(url.as_bytes(), bits, 9, &mut positions);
                }
                assert_eq!(positions.len(), 27);
                assert!(positions.iter().all(|&position| position < bits));
            }
        }
    }
}
