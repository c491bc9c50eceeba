//! Hashing keys to 128 bits, with or without a secret.
//!
//! Everything else in a filter works on these bits alone. The upper half determines where a hash
//! goes (its shard, its block), so the order of hashes is the order of shards.

use std::fmt;
use std::fs;
use std::path::Path;

use siphasher::sip128::SipHasher24;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};

/// The 128-bit hash of a key.
pub type Hash = u128;

/// The upper 64 bits.
#[inline]
pub(crate) fn high(hash: Hash) -> u64 {
    (hash >> 64) as u64
}

/// The lower 64 bits.
#[inline]
pub(crate) fn low(hash: Hash) -> u64 {
    hash as u64
}

/// Maps `value` evenly to `0..count`, preserving the order.
#[inline]
pub(crate) fn spread(value: u64, count: u64) -> u64 {
    ((u128::from(value) * u128::from(count)) >> 64) as u64
}

/// The hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// XXH3, 128 bits: anyone can compute it.
    Xxh3,
    /// SipHash-2-4, 128 bits, under a secret key: only those who have the key can compute it.
    SipHash,
}

impl HashFunction {
    /// The name in documentation and reports.
    pub fn name(self) -> &'static str {
        match self {
            HashFunction::Xxh3 => "xxh3-128",
            HashFunction::SipHash => "siphash-2-4-128",
        }
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A 128-bit secret. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

/// Identifies a secret without revealing it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) [u8; 16]);

impl Secret {
    /// Parses 32 hexadecimal digits; surrounding white space is ignored.
    ///
    /// # Errors
    /// On anything else.
    pub fn parse(text: &str) -> Result<Secret> {
        let digits = text.trim().as_bytes();
        let wrong = || Error::invalid("invalid secret key: expected 32 hexadecimal digits");
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut key = [0; 16];
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
            *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
        }
        Ok(Secret(key))
    }

    /// Reads the key from a file.
    ///
    /// # Errors
    /// If the file can't be read or does not contain a key.
    pub fn read(path: &Path) -> Result<Secret> {
        let bytes = fs::read(path).map_err(|error| Error::io("read", path, error))?;
        Secret::parse(&String::from_utf8_lossy(&bytes))
            .map_err(|error| error.in_file(path.display()))
    }

    /// The fingerprint in filters built with this key. It is the hash of a string that isn't a
    /// SURT, so it reveals nothing about any SURT.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.hash(b"waypost filter key fingerprint").to_le_bytes())
    }

    fn hash(&self, key: &[u8]) -> Hash {
        let hash = SipHasher24::new_with_key(&self.0).hash(key);
        u128::from_le_bytes(hash.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.fingerprint())
    }
}

impl Fingerprint {
    /// The fingerprint in unkeyed filters.
    pub(crate) const NONE: Fingerprint = Fingerprint([0; 16]);
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Makes hashes of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hasher {
    /// Without a secret.
    Public,
    /// With one.
    Keyed(Secret),
}

impl Hasher {
    /// With the secret, if there is one.
    pub fn new(secret: Option<Secret>) -> Hasher {
        secret.map_or(Hasher::Public, Hasher::Keyed)
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        match self {
            Hasher::Public => xxh3_128(key),
            Hasher::Keyed(secret) => secret.hash(key),
        }
    }

    /// The function.
    pub fn function(&self) -> HashFunction {
        match self {
            Hasher::Public => HashFunction::Xxh3,
            Hasher::Keyed(_) => HashFunction::SipHash,
        }
    }

    /// The fingerprint of the secret, or zeros.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        match self {
            Hasher::Public => Fingerprint::NONE,
            Hasher::Keyed(secret) => secret.fingerprint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_is_that_of_its_authors() {
        // From the reference implementation's vectors of SipHash-2-4-128: the key is 00 01 … 0f,
        // the messages are the empty one and the single byte 00.
        let secret = Secret::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let hex = |message: &[u8]| Fingerprint(secret.hash(message).to_le_bytes()).to_string();
        assert_eq!(hex(b""), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(hex(b"\0"), "da87c1d86b99af44347659119b22fc45");
    }

    #[test]
    fn xxh3_is_that_of_its_authors() {
        // The published value of XXH3_128bits for no bytes.
        assert_eq!(
            Hasher::Public.hash(b""),
            0x99aa_06d3_0147_98d8_6001_c324_468d_497f
        );
    }

    #[test]
    fn a_key_is_32_digits_and_never_shown() {
        let text = "00112233445566778899aabbccddeeff\n";
        let secret = Secret::parse(text).unwrap();
        assert!(!format!("{secret:?}").contains("00112233"));
        assert_ne!(secret.fingerprint(), Fingerprint::NONE);
        for wrong in ["", "00", "zz112233445566778899aabbccddeeff", &text[1..]] {
            assert!(Secret::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spreading_keeps_the_order_and_the_bounds() {
        assert_eq!(spread(0, 7), 0);
        assert_eq!(spread(u64::MAX, 7), 6);
        assert_eq!(spread(u64::MAX, 1), 0);
        assert_eq!(spread(1 << 63, 1 << 40), 1 << 39);
    }
}
