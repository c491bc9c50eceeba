//! Looking up hashes in an open filter.
//!
//! A lookup in memory is a little arithmetic followed by one memory access: two adjacent blocks of a
//! ribbon filter, or one block of a Bloom filter. So once all shards are verified, lookups do
//! nothing else, and batches prefetch what they will need. Everything is forcibly inlined: the
//! fewer instructions a lookup takes, the more lookups the processor can overlap.

use std::sync::atomic::Ordering;

use super::bloom::{self, BLOCK};
use super::format::{Kind, Layout, Part};
use super::hash::{Hash, high, spread};
use super::read::{Filter, Way};
use super::ribbon::{self, Folded, Parity, Place, Work};
use crate::error::{Error, Result};

/// How many hashes are prefetched ahead.
const AHEAD: usize = 32;

impl Filter {
    /// Whether a hash may be held.
    ///
    /// # Errors
    /// If the shard of the hash is damaged or unreadable, or if the filter has several widths, so
    /// that one has to be [named](Filter::contains_at).
    #[inline(always)]
    pub fn contains(&self, hash: Hash) -> Result<bool> {
        let found = match self.way {
            Way::Ribbon => {
                self.sound(|| shard_of(&self.only, hash))?;
                let (filter, hash) = (self, &hash);
                self.processor.run(One::<false> { filter, hash })
            }
            Way::Eight => {
                self.sound(|| shard_of(&self.only, hash))?;
                let (filter, hash) = (self, &hash);
                self.processor.run(One::<true> { filter, hash })
            }
            _ => return self.contains_otherwise(hash),
        };
        self.bytes.check_quickly()?;
        Ok(found)
    }

    /// Asks the processor to fetch what [`contains`](Filter::contains) will read.
    pub(super) fn prefetch_hash(&self, hash: Hash) {
        match self.way {
            Way::Ribbon => self
                .layout
                .probe::<false>(&self.only, hash)
                .prefetch(&self.bytes),
            Way::Eight => self
                .layout
                .probe::<true>(&self.only, hash)
                .prefetch(&self.bytes),
            Way::Bloom => waypost_io::mapped::prefetch(&self.bytes, self.block_at(hash)),
            Way::Other | Way::Several => {}
        }
    }

    #[inline(never)]
    fn contains_otherwise(&self, hash: Hash) -> Result<bool> {
        if self.way == Way::Several {
            return Err(self.several());
        }
        let found = self.probe(&self.only, hash)?;
        self.bytes.check_quickly()?;
        Ok(found)
    }

    /// Whether a hash may be held, according to the filter of one width. A width that does not
    /// occur holds nothing.
    ///
    /// # Errors
    /// If the shard of the hash is damaged or unreadable.
    pub fn contains_at(&self, width: u8, hash: Hash) -> Result<bool> {
        let found = match self.layout.parts.iter().find(|part| part.width == width) {
            Some(part) => self.probe(part, hash)?,
            None => false,
        };
        self.bytes.check_quickly()?;
        Ok(found)
    }

    /// Whether each of many hashes may be held, in order. Memory is prefetched, so that many
    /// accesses overlap.
    ///
    /// # Errors
    /// As [`contains`](Filter::contains).
    pub fn contains_all(&self, hashes: &[Hash], out: &mut Vec<bool>) -> Result<()> {
        let (part, bytes) = (self.only, &self.bytes[..]);
        out.reserve(hashes.len());
        match self.way {
            Way::Ribbon | Way::Eight => {
                self.all_sound(hashes, |hash| shard_of(&part, hash))?;
                let filter = self;
                match self.way {
                    Way::Eight => self.processor.run(Many::<true> {
                        filter,
                        hashes,
                        out,
                    }),
                    _ => self.processor.run(Many::<false> {
                        filter,
                        hashes,
                        out,
                    }),
                }
            }
            Way::Bloom => {
                self.all_sound(hashes, |hash| self.shard_of_block(hash))?;
                ahead(
                    hashes,
                    out,
                    |hash| {
                        let at = self.block_at(hash);
                        waypost_io::mapped::prefetch(bytes, at);
                        (at, hash)
                    },
                    |(at, hash)| in_block(bytes, at, hash),
                );
            }
            Way::Other => {
                for &hash in hashes {
                    out.push(self.probe(&part, hash)?);
                }
            }
            Way::Several => return Err(self.several()),
        }
        self.check_intact()
    }

    #[cold]
    fn several(&self) -> Error {
        Error::invalid("it has filters of several widths: name one").in_file(self.name())
    }

    #[inline]
    fn probe(&self, part: &Part, hash: Hash) -> Result<bool> {
        let bytes = &self.bytes[..];
        match self.layout.head.kind {
            _ if part.shards == 0 => Ok(false),
            _ if !self.is_in_memory() => self.probe_by_range(part, hash),
            Kind::Ribbon => {
                self.sound(|| shard_of(part, hash))?;
                Ok(self.processor.run(At {
                    filter: self,
                    part,
                    hash,
                }))
            }
            Kind::Bloom => {
                self.sound(|| self.shard_of_block(hash))?;
                Ok(in_block(bytes, self.block_at(hash), hash))
            }
            Kind::Hashes => {
                let shard = shard_of(part, hash);
                self.sound(|| shard)?;
                Ok(search(self.range(shard), hash))
            }
        }
    }

    /// Looks up a hash in a file of which only its shard is read.
    #[inline(never)]
    fn probe_by_range(&self, part: &Part, hash: Hash) -> Result<bool> {
        if self.layout.head.kind == Kind::Bloom {
            let block = bloom::block_of(hash, self.layout.blocks) % self.layout.blocks_per_shard;
            return self.with_shard(self.shard_of_block(hash), |bytes| {
                in_block(bytes, block as usize * BLOCK, hash)
            });
        }
        let shard = shard_of(part, hash);
        let ribbon = self.layout.head.kind == Kind::Ribbon;
        self.with_shard(shard, |bytes| match ribbon {
            true => {
                let probe = self.layout.probe_in::<false>(part, hash, Place::alone);
                probe.answer::<Folded>(bytes)
            }
            false => search(bytes, hash),
        })
    }

    /// The offset of the block of a hash: the shards of a Bloom filter are contiguous.
    #[inline(always)]
    fn block_at(&self, hash: Hash) -> usize {
        let block = bloom::block_of(hash, self.layout.blocks);
        self.layout.first_block + block as usize * BLOCK
    }

    /// The shard of a hash in a Bloom filter.
    #[inline]
    fn shard_of_block(&self, hash: Hash) -> usize {
        (bloom::block_of(hash, self.layout.blocks) / self.layout.blocks_per_shard) as usize
    }

    /// Verifies the shards of all hashes on first access.
    fn all_sound(&self, hashes: &[Hash], shard: impl Fn(Hash) -> usize) -> Result<()> {
        if self.unsound.load(Ordering::Relaxed) > 0 {
            for &hash in hashes {
                self.ensure(shard(hash))?;
            }
        }
        Ok(())
    }

    /// Verifies a shard on first access.
    #[inline(always)]
    fn sound(&self, shard: impl FnOnce() -> usize) -> Result<()> {
        if self.unsound.load(Ordering::Relaxed) > 0 {
            self.ensure(shard())?;
        }
        Ok(())
    }
}

/// One lookup in the only part of a ribbon filter in memory.
struct One<'a, const EIGHT: bool> {
    filter: &'a Filter,
    /// A reference, because two words are passed in registers.
    hash: &'a Hash,
}

impl<const EIGHT: bool> Work for One<'_, EIGHT> {
    type Output = bool;

    #[inline(always)]
    fn run<P: Parity>(self) -> bool {
        let Filter { layout, only, .. } = self.filter;
        let probe = layout.probe::<EIGHT>(only, *self.hash);
        probe.answer::<P>(&self.filter.bytes)
    }
}

/// One lookup in a part of a ribbon filter in memory.
struct At<'a> {
    filter: &'a Filter,
    part: &'a Part,
    hash: Hash,
}

impl Work for At<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<P: Parity>(self) -> bool {
        let probe = self.filter.layout.probe::<false>(self.part, self.hash);
        probe.answer::<P>(&self.filter.bytes)
    }
}

/// Many lookups in the only part of a ribbon filter in memory.
struct Many<'a, const EIGHT: bool> {
    filter: &'a Filter,
    hashes: &'a [Hash],
    out: &'a mut Vec<bool>,
}

impl<const EIGHT: bool> Work for Many<'_, EIGHT> {
    type Output = ();

    #[inline(always)]
    fn run<P: Parity>(self) {
        let Filter { layout, only, .. } = self.filter;
        let bytes = &self.filter.bytes[..];
        // Without closures, which might not be inlined.
        let mut ring = [ribbon::Probe::default(); AHEAD];
        for number in 0..self.hashes.len() + AHEAD {
            let probe = &mut ring[number % AHEAD];
            if number >= AHEAD {
                self.out.push(probe.answer::<P>(bytes));
            }
            if let Some(&hash) = self.hashes.get(number) {
                *probe = layout.probe::<EIGHT>(only, hash);
                probe.prefetch(bytes);
            }
        }
    }
}

impl Layout {
    /// What to check for a hash in a part of a ribbon filter that has shards. `EIGHT` is for
    /// parts with eight columns in all blocks.
    #[inline(always)]
    fn probe<const EIGHT: bool>(&self, part: &Part, hash: Hash) -> ribbon::Probe {
        self.probe_in::<EIGHT>(part, hash, |place| place)
    }

    #[inline(always)]
    pub(super) fn probe_in<const EIGHT: bool>(
        &self,
        part: &Part,
        hash: Hash,
        place: impl Fn(Place) -> Place,
    ) -> ribbon::Probe {
        let position = ribbon::position(hash, part.shards as u64, part.buckets as u64);
        let shard = position.shard as usize;
        // Every shard has the start of each bucket and the end of the last one.
        let start = part.first_start + shard + position.bucket as usize;
        let starts = [self.starts[start], self.starts[start + 1]];
        let place = place(self.places[part.first + shard]);
        place.probe::<EIGHT>(hash, position, starts, part.width)
    }
}

/// The shard of a hash in a part that has shards; not for Bloom filters.
#[inline]
pub(super) fn shard_of(part: &Part, hash: Hash) -> usize {
    part.first + spread(high(hash), part.shards as u64) as usize
}

#[inline]
fn in_block(bytes: &[u8], at: usize, hash: Hash) -> bool {
    let block = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>);
    block.is_some_and(|block| bloom::contains(block, hash))
}

/// Answers in order, prefetching for the hashes ahead.
#[inline(always)]
fn ahead<P: Copy + Default>(
    hashes: &[Hash],
    out: &mut Vec<bool>,
    ask: impl Fn(Hash) -> P,
    answer: impl Fn(P) -> bool,
) {
    // Each closure is called in one place, so that it is inlined.
    let mut ring = [P::default(); AHEAD];
    for number in 0..hashes.len() + AHEAD {
        let asked = &mut ring[number % AHEAD];
        if number >= AHEAD {
            out.push(answer(*asked));
        }
        if let Some(&hash) = hashes.get(number) {
            *asked = ask(hash);
        }
    }
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
