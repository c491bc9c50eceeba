//! Bloom filters, new ones and those that keys are added to.

use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::progress::Phase;

use super::Recipe;
use crate::error::{Error, Result};
use crate::filter::bloom::{self, BLOCK};
use crate::filter::format::{Entry, Writer};
use crate::filter::hash::Hash;
use crate::filter::read::Filter;
use crate::filter::run::Run;
use crate::filter::size::BLOOM_SHARD;

/// The shards of a Bloom filter.
pub(super) struct Filled {
    pub(super) writer: Writer,
    pub(super) rate: f64,
    /// Number of hashes that set a new bit.
    pub(super) new: u64,
}

/// A shard of a Bloom filter under construction, and the hashes to be added to it.
struct Filling {
    first: u64,
    blocks: u64,
    bytes: Vec<u8>,
    hashes: Vec<Hash>,
    new: u64,
}

impl Filling {
    fn insert(&mut self) {
        let (places, _) = self.bytes.as_chunks_mut::<BLOCK>();
        for hash in self.hashes.drain(..) {
            let place = (bloom::block_of(hash, self.blocks) - self.first) as usize;
            self.new += u64::from(bloom::insert(&mut places[place], hash));
        }
    }
}

/// Blocks with the bits of a run, combined with those of a filter with as many blocks.
pub(super) fn fill(
    run: &Run,
    blocks: u64,
    old: Option<&Filter>,
    recipe: &Recipe,
) -> Result<Filled> {
    let mut writer = Writer::new(&recipe.resources.temporary);
    recipe
        .progress
        .begin(Phase::Writing, Some(blocks * BLOCK as u64));
    let (mut rate, mut new) = (0.0, 0);
    let shards: Pool<Vec<u8>> = Pool::new();
    let hashes: Pool<Vec<Hash>> = Pool::new();
    let mut reader = run.reader();
    let mut next = 0..blocks.div_ceil(BLOOM_SHARD);
    let give = || {
        let Some(shard) = next.next() else {
            return Ok::<_, Error>(None);
        };
        let first = shard * BLOOM_SHARD;
        let count = (blocks - first).min(BLOOM_SHARD) as usize;
        let mut bytes = shards.get();
        bytes.clear();
        match old {
            Some(filter) => {
                filter.with_shard(shard as usize, |old| bytes.extend_from_slice(old))?;
            }
            None => bytes.resize(count * BLOCK, 0),
        }
        let mut filling = Filling {
            first,
            blocks,
            bytes,
            hashes: hashes.get(),
            new: 0,
        };
        let here = |hash| bloom::block_of(hash, blocks) / BLOOM_SHARD <= shard;
        // If there are more hashes than a shard should have, don't wait for a worker.
        loop {
            let room = BLOOM_HASHES - filling.hashes.len();
            if !reader.take_some(here, room, &mut filling.hashes)? {
                break;
            }
            if filling.hashes.len() == BLOOM_HASHES {
                filling.insert();
            }
        }
        Ok(Some(filling))
    };
    let worker = || {
        let hashes = &hashes;
        move |mut filling: Filling| {
            filling.insert();
            hashes.put(std::mem::take(&mut filling.hashes));
            let rate = bloom::exact_rate(&filling.bytes);
            Ok((filling, rate))
        }
    };
    pipeline::run(
        bloom_width(recipe.resources.memory),
        give,
        worker,
        |(filling, here)| {
            rate += here * (filling.bytes.len() / BLOCK) as f64;
            new += filling.new;
            writer.shard(blocks_entry(filling.bytes.len()), &filling.bytes)?;
            recipe.progress.add(filling.bytes.len() as u64);
            shards.put(filling.bytes);
            Ok(())
        },
    )?;
    Ok(Filled {
        writer,
        rate: rate / blocks as f64,
        new,
    })
}

/// How many hashes are buffered for a shard of a Bloom filter; a shard with eight bits per key has
/// this many.
const BLOOM_HASHES: usize = 1 << 20;

/// How many shards of a Bloom filter are built at once, each with its bytes and its buffered
/// hashes.
fn bloom_width(memory: usize) -> Width {
    // A vector may have twice the capacity that it uses.
    let piece = BLOOM_SHARD as usize * BLOCK + 2 * 16 * BLOOM_HASHES;
    Width::within(memory / 2, 0, piece)
}

/// The table entry of a shard with this many bytes.
pub(crate) fn blocks_entry(bytes: usize) -> Entry {
    Entry {
        offset: 0,
        checksum: 0,
        count: 0,
        extent: (bytes / BLOCK) as u32,
        width: 0,
        narrow: 0,
    }
}
