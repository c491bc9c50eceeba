//! Ribbon filters, shard by shard.

use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::progress::Phase;

use super::Recipe;
use crate::error::{Error, Result};
use crate::filter::format::{Entry, Writer};
use crate::filter::hash::Hash;
use crate::filter::ribbon::{self, WORKSHOP_PER_HASH, Workshop};
use crate::filter::run::Run;

/// Ribbon filters of several widths for one file, in ascending order, and the rate of the first.
pub(crate) fn ribbons(parts: &[(ribbon::Width, &Run)], recipe: &Recipe) -> Result<(Writer, f64)> {
    let mut first = None;
    let mut writer = Writer::new(&recipe.resources.temporary);
    let hashes = parts.iter().map(|(_, run)| run.count()).sum::<u64>();
    recipe.progress.begin(Phase::Writing, Some(16 * hashes));
    for &(width, run) in parts {
        let shards = ribbon::shards(run.count(), width.columns());
        let buckets = ribbon::buckets(run.count(), shards, width.columns());
        let keys = (run.count() / shards + 1) as usize;
        let hashes: Pool<Vec<Hash>> = Pool::new();
        let buffers: Pool<(Vec<u8>, Vec<u8>)> = Pool::new();
        let mut reader = run.reader();
        let mut next = 0..shards;
        let give = || {
            let Some(shard) = next.next() else {
                return Ok::<_, Error>(None);
            };
            let mut held = hashes.get();
            reader.shard(shard, shards, &mut held)?;
            Ok(Some(held))
        };
        let worker = || {
            let mut workshop = Workshop::default();
            let (hashes, buffers) = (&hashes, &buffers);
            move |mut held: Vec<Hash>| {
                let (mut rows, mut starts) = buffers.get();
                let counts = (shards, buckets);
                let built = workshop.build(&held, counts, width, &mut rows, &mut starts)?;
                let entry = Entry {
                    offset: 0,
                    checksum: 0,
                    count: held.len() as u32,
                    extent: built.rows,
                    width: width.columns(),
                    narrow: built.narrow,
                };
                held.clear();
                hashes.put(held);
                Ok((entry, built.rate, rows, starts))
            }
        };
        let piece = keys * (16 + usize::from(width.columns()).div_ceil(8) + 1);
        let at_once = Width::within(recipe.resources.memory / 2, keys * WORKSHOP_PER_HASH, piece);
        let mut rates = 0.0;
        pipeline::run(at_once, give, worker, |done| {
            let (entry, rate, mut rows, mut starts) = done;
            recipe.progress.add(16 * u64::from(entry.count));
            rates += rate;
            writer.ribbon(entry, &rows, &starts)?;
            rows.clear();
            starts.clear();
            buffers.put((rows, starts));
            Ok(())
        })?;
        // Hashes are evenly distributed over shards.
        first.get_or_insert(rates / shards as f64);
    }
    Ok((writer, first.unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Hasher;
    use crate::filter::build::Keys;
    use crate::filter::format::{Kind, Metadata};
    use crate::filter::read::Filter;
    use crate::filter::run::RunWriter;
    use waypost_surt::{Dialect, Policy};

    fn run(count: u64, stream: u64) -> Run {
        let mut hashes: Vec<Hash> = (0..count)
            .map(|n| Hasher::Public.hash(format!("{stream} {n}").as_bytes()))
            .collect();
        hashes.sort_unstable();
        let mut writer = RunWriter::new(1 << 24, &std::env::temp_dir());
        writer.push(&hashes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn filters_of_several_widths_share_one_small_header() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("map.ukvs.filter");
        let recipe = Recipe::default();
        let runs: Vec<(u8, Run)> = [(1, 50), (4, 3_000), (8, 0), (9, 700), (16, 1)]
            .map(|(width, count)| (width, run(count, u64::from(width))))
            .into();
        let parts: Vec<(ribbon::Width, &Run)> = runs
            .iter()
            .map(|(width, run)| (ribbon::Width::whole(*width), run))
            .collect();
        let (writer, rate) = ribbons(&parts, &recipe).unwrap();
        let size = writer.size(Kind::Ribbon, &Metadata::default()).unwrap();
        let keys = Keys::new(Hasher::Public, Dialect::Ia, Policy::Whole);
        let mut head = keys.head(Kind::Ribbon, runs.iter().map(|(_, run)| run.count()).sum());
        assert_eq!(rate, 0.5);
        head.rate = rate;
        let bytes = writer.finish(&head, &Metadata::default(), &*out).unwrap();
        assert_eq!(bytes, size);
        let filter = Filter::open(&out).unwrap();
        assert_eq!(filter.widths(), [1, 4, 8, 9, 16]);
        let before_shards = filter.layout.range(0).start;
        assert!(before_shards <= 300 + 32 * 5, "{before_shards}");
        assert!(filter.contains(17).is_err());
        for (width, run) in &runs {
            let mut reader = run.reader();
            for &hash in reader.peek().unwrap() {
                assert!(filter.contains_at(*width, hash).unwrap(), "{width}");
            }
        }
        assert!(!filter.contains_at(8, 17).unwrap());
        assert!(!filter.contains_at(2, 17).unwrap());
    }
}
