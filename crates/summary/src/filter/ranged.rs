//! A filter whose bytes are elsewhere: which of them a lookup needs, and what they say.

use std::ops::Range;

use super::bloom::{self, BLOCK};
use super::format::{Head, Kind, Layout, Metadata};
use super::hash::{Hash, HashFunction, Hasher, Secret};
use super::ribbon::{Folded, Probe};
use super::summary::Keyer;
use crate::error::{Error, Result};

/// The longest range that a lookup needs.
pub const LONGEST_RANGE: u64 = 1024;

/// What precedes the shards of a filter.
pub struct RangedFilter {
    layout: Layout,
    hasher: Hasher,
}

impl RangedFilter {
    /// How many bytes precede the shards, given the first 128 bytes of the file.
    ///
    /// # Errors
    /// If it is not a filter.
    pub fn prefix(start: &[u8]) -> Result<u64> {
        Layout::prefix(start)
    }

    /// Reads what precedes the shards of a file of this length.
    ///
    /// # Errors
    /// If it is damaged, if its lookups need more than one range, or if the secret is missing or
    /// another one.
    pub fn new(prefix: &[u8], length: u64, secret: Option<Secret>) -> Result<RangedFilter> {
        let layout = Layout::decode(prefix, length)?;
        let head = &layout.head;
        if head.kind == Kind::Hashes || layout.parts.len() > 1 {
            return Err(Error::invalid(
                "lookups in hashes and in companions of maps need the whole file",
            ));
        }
        let hasher = match (head.hash, head.fingerprint, secret) {
            (HashFunction::Xxh3, ..) => Hasher::Public,
            (_, Some(fingerprint), Some(secret)) if fingerprint == secret.fingerprint() => {
                Hasher::Keyed(secret)
            }
            _ => return Err(Error::keyed()),
        };
        Ok(RangedFilter { layout, hasher })
    }

    /// Its head.
    pub fn head(&self) -> &Head {
        &self.layout.head
    }

    /// Its metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.layout.metadata
    }

    /// The identity of the filter: a checksum that covers those of all shards.
    pub fn identity(&self) -> u64 {
        self.layout.checksum
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.layout.length
    }

    /// What makes its keys.
    pub fn keyer(&self) -> Keyer {
        let head = self.head();
        Keyer::new(head.dialect, head.policy, self.hasher)
    }

    /// Its metadata as that of a summary.
    pub fn about(&self) -> crate::About {
        super::summary::about(&self.layout)
    }

    /// The range of the file that a lookup needs, at most [`LONGEST_RANGE`] long. `None` if the hash is
    /// not held, whatever it contains.
    pub fn range(&self, hash: Hash) -> Option<Range<u64>> {
        if self.layout.head.kind == Kind::Bloom {
            let block = bloom::block_of(hash, self.layout.blocks);
            let at = self.layout.first_block as u64 + block * BLOCK as u64;
            return (self.layout.blocks > 0).then_some(at..at + BLOCK as u64);
        }
        let range = self.probe(hash)?.range();
        (!range.is_empty()).then_some(range)
    }

    /// Whether a hash may be held, given the bytes of its range.
    pub fn answer(&self, hash: Hash, bytes: &[u8]) -> bool {
        match self.layout.head.kind {
            Kind::Bloom => bytes
                .first_chunk::<BLOCK>()
                .is_some_and(|block| bloom::contains(block, hash)),
            _ => self
                .probe(hash)
                .is_some_and(|probe| probe.alone().answer::<Folded>(bytes)),
        }
    }

    fn probe(&self, hash: Hash) -> Option<Probe> {
        let part = self.layout.parts.first().filter(|part| part.shards > 0)?;
        Some(self.layout.probe_in::<false>(part, hash, |place| place))
    }
}
