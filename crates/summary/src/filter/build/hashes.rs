//! Files of hashes.

use std::io;

use waypost_io::progress::Phase;
use xxhash_rust::xxh3::Xxh3Default;

use super::Recipe;
use crate::error::{Error, Result};
use crate::filter::format::{self, Destination, Entry, Head};
use crate::filter::run::{Run, RunReader, write_hashes};
use crate::filter::size;

/// The run itself: it is read once for the checksums and once for writing.
pub(super) fn write<'a>(
    run: &Run,
    head: &Head,
    recipe: &Recipe,
    out: impl Into<Destination<'a>>,
) -> Result<u64> {
    let shards = size::shards_of_hashes(run.count());
    // Once for the checksums and once for writing.
    recipe
        .progress
        .begin(Phase::Writing, Some(2 * 16 * run.count()));
    let mut entries = Vec::new();
    let mut reader = run.reader();
    let mut held = Vec::new();
    let mut bytes = Vec::new();
    for shard in 0..shards {
        held.clear();
        reader.shard(shard, shards, &mut held)?;
        let mut checksum = Xxh3Default::new();
        for part in held.chunks(4096) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|hash| hash.to_le_bytes()));
            checksum.update(&bytes);
            recipe.progress.add(bytes.len() as u64);
        }
        entries.push(Entry {
            offset: 0,
            checksum: checksum.digest(),
            count: u32::try_from(held.len()).map_err(|_| Error::format("a shard is too large"))?,
            extent: 0,
            width: 0,
            narrow: 0,
        });
    }
    let mut reader = run.reader();
    format::write(
        head,
        &recipe.metadata,
        entries,
        &[],
        out,
        |_, length, out| {
            recipe.progress.add(length);
            copy(&mut reader, length / 16, out)
        },
    )
}

fn copy(reader: &mut RunReader<'_>, mut count: u64, out: &mut dyn io::Write) -> io::Result<()> {
    while count > 0 {
        let seen = reader.peek().map_err(io::Error::other)?;
        let now = (seen.len() as u64).min(count) as usize;
        if now == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_hashes(&seen[..now], out)?;
        reader.take(now);
        count -= now as u64;
    }
    Ok(())
}
