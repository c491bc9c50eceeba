//! Looking up hashes in an open filter.
//!
//! A lookup in memory is a little arithmetic followed by one memory access: three contiguous blocks
//! of a ribbon filter, or one block of a Bloom filter. So once all shards are verified, lookups do
//! nothing else, and batches prefetch what they will need. Everything is forcibly inlined: the
//! fewer instructions a lookup takes, the more lookups the processor can overlap.

use std::sync::atomic::Ordering;

use super::bloom::{self, BLOCK};
use super::format::{Kind, Part};
use super::hash::Hash;
use super::read::Filter;
use super::ribbon;
use crate::error::{Error, Result};

/// How many hashes are prefetched ahead.
const AHEAD: usize = 32;

impl Filter {
    /// Whether a hash may be held.
    ///
    /// # Errors
    /// If the shard of the hash is damaged or unreadable, or if the filter has several widths, so
    /// that one has to be [named](Filter::contains_at).
    #[inline]
    pub fn contains(&self, hash: Hash) -> Result<bool> {
        let found = match self.only {
            Some(part) => self.probe(part, hash),
            None => Err(self.several()),
        }?;
        self.check_quickly()?;
        Ok(found)
    }

    /// Whether a hash may be held, according to the filter of one width. A width that does not
    /// occur holds nothing.
    ///
    /// # Errors
    /// If the shard of the hash is damaged or unreadable.
    pub fn contains_at(&self, width: u8, hash: Hash) -> Result<bool> {
        let found = match self.layout.parts.iter().find(|part| part.width == width) {
            Some(&part) => self.probe(part, hash)?,
            None => false,
        };
        self.check_quickly()?;
        Ok(found)
    }

    /// Whether each of many hashes may be held, in order. Memory is prefetched, so that many
    /// accesses overlap.
    ///
    /// # Errors
    /// As [`contains`](Filter::contains).
    pub fn contains_all(&self, hashes: &[Hash], out: &mut Vec<bool>) -> Result<()> {
        let part = self.only.ok_or_else(|| self.several())?;
        out.reserve(hashes.len());
        let answered = match (self.layout.head.kind, self.in_memory()) {
            (Kind::Ribbon, Some(bytes)) if part.shards > 0 => ahead(
                hashes,
                out,
                |hash| {
                    let probe = self.ribbon_probe(part, bytes, hash)?;
                    probe.prefetch(bytes);
                    Ok(probe)
                },
                |probe| probe.answer(bytes),
            ),
            (Kind::Bloom, Some(bytes)) if part.shards > 0 => ahead(
                hashes,
                out,
                |hash| {
                    let at = self.block_at(bytes, hash)?;
                    waypost_io::mapped::prefetch(bytes, at);
                    Ok((at, hash))
                },
                |(at, hash)| in_block(bytes, at, hash),
            ),
            _ => {
                for &hash in hashes {
                    out.push(self.probe(part, hash)?);
                }
                Ok(())
            }
        };
        answered.and_then(|()| self.check_intact())
    }

    #[cold]
    fn several(&self) -> Error {
        Error::invalid("it has filters of several widths: name one").in_file(self.name())
    }

    #[inline(always)]
    fn probe(&self, part: Part, hash: Hash) -> Result<bool> {
        match (self.in_memory(), self.layout.head.kind) {
            _ if part.shards == 0 => Ok(false),
            (Some(bytes), Kind::Ribbon) => Ok(self.ribbon_probe(part, bytes, hash)?.answer(bytes)),
            (Some(bytes), Kind::Bloom) => Ok(in_block(bytes, self.block_at(bytes, hash)?, hash)),
            (Some(bytes), Kind::Hashes) => self.probe_hashes(part, bytes, hash),
            (None, _) => self.probe_by_range(part, hash),
        }
    }

    #[inline(never)]
    fn probe_hashes(&self, part: Part, bytes: &[u8], hash: Hash) -> Result<bool> {
        let shard = shard_of(part, hash);
        self.sound(bytes, shard)?;
        Ok(search(self.range(bytes, shard), hash))
    }

    /// Looks up a hash in a file of which only its shard is read.
    #[inline(never)]
    fn probe_by_range(&self, part: Part, hash: Hash) -> Result<bool> {
        if self.layout.head.kind == Kind::Bloom {
            let block = bloom::block_of(hash, self.layout.blocks);
            let (shard, block) = (
                block / self.layout.blocks_per_shard,
                block % self.layout.blocks_per_shard,
            );
            return self.with_shard(shard as usize, |bytes| {
                in_block(bytes, block as usize * BLOCK, hash)
            });
        }
        let (shard, position) = place_of(part, hash);
        let layout = &self.layout;
        self.with_shard(shard, |bytes| match layout.places.get(shard) {
            Some(place) => place
                .alone()
                .probe(hash, position, &layout.deviations)
                .answer(bytes),
            None => search(bytes, hash),
        })
    }

    #[inline(always)]
    fn ribbon_probe(&self, part: Part, bytes: &[u8], hash: Hash) -> Result<ribbon::Probe> {
        let (shard, position) = place_of(part, hash);
        self.sound(bytes, shard)?;
        let layout = &self.layout;
        Ok(layout.places[shard].probe(hash, position, &layout.deviations))
    }

    /// The offset of the block of a hash: the shards of a Bloom filter are contiguous.
    #[inline(always)]
    fn block_at(&self, bytes: &[u8], hash: Hash) -> Result<usize> {
        let block = bloom::block_of(hash, self.layout.blocks);
        if self.unsound.load(Ordering::Relaxed) > 0 {
            self.ensure(bytes, (block / self.layout.blocks_per_shard) as usize)?;
        }
        Ok(self.layout.first_block + block as usize * BLOCK)
    }

    /// Verifies a shard on first access.
    #[inline(always)]
    fn sound(&self, bytes: &[u8], shard: usize) -> Result<()> {
        if self.unsound.load(Ordering::Relaxed) > 0 {
            self.ensure(bytes, shard)?;
        }
        Ok(())
    }
}

/// The shard of a hash in a part that has shards; not for Bloom filters.
#[inline]
pub(super) fn shard_of(part: Part, hash: Hash) -> usize {
    place_of(part, hash).0
}

/// The same, with the position of the hash in the shard.
#[inline(always)]
fn place_of(part: Part, hash: Hash) -> (usize, u64) {
    let (shard, position) = ribbon::shard_of(hash, part.shards as u64);
    (part.first + shard as usize, position)
}

#[inline]
fn in_block(bytes: &[u8], at: usize, hash: Hash) -> bool {
    let block = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>);
    block.is_some_and(|block| bloom::contains(block, hash))
}

/// Answers in order, prefetching for the hashes ahead.
#[inline]
fn ahead<P: Copy + Default>(
    hashes: &[Hash],
    out: &mut Vec<bool>,
    ask: impl Fn(Hash) -> Result<P>,
    answer: impl Fn(P) -> bool,
) -> Result<()> {
    let mut ring = [P::default(); AHEAD];
    for (asked, &hash) in ring.iter_mut().zip(hashes) {
        *asked = ask(hash)?;
    }
    for number in 0..hashes.len() {
        let asked = &mut ring[number % AHEAD];
        out.push(answer(*asked));
        if let Some(&hash) = hashes.get(number + AHEAD) {
            *asked = ask(hash)?;
        }
    }
    Ok(())
}

/// Whether a hash is among sorted ones. Hashes are evenly distributed, so this starts with
/// interpolation.
fn search(bytes: &[u8], hash: Hash) -> bool {
    let (hashes, _) = bytes.as_chunks::<16>();
    let at = |index: usize| u128::from_le_bytes(hashes[index]);
    let (mut low, mut high) = (0, hashes.len());
    // A few interpolation steps narrow the range; binary search does the rest.
    for _ in 0..4 {
        if high - low < 64 {
            break;
        }
        let (first, last) = (at(low), at(high - 1));
        if hash < first || hash > last {
            return false;
        }
        let span = (last - first) as f64;
        let share = (hash - first) as f64 / span.max(1.0);
        let guess = low + (share * (high - 1 - low) as f64) as usize;
        let slack = (high - low) / 64 + 8;
        let (left, right) = (
            guess.saturating_sub(slack).max(low),
            (guess + slack).min(high),
        );
        if right > left && at(left) <= hash && hash <= at(right - 1) {
            (low, high) = (left, right);
        } else {
            break;
        }
    }
    hashes[low..high]
        .binary_search_by(|bytes| u128::from_le_bytes(*bytes).cmp(&hash))
        .is_ok()
}
