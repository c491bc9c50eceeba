//! `cargo bench -p waypost-summary --bench filter`: building filters from hashes, and lookups after
//! hashing, compared with other libraries.
//!
//! `bench/filter` measures the command, from URIs to a file. `KEYS=20000000` sets the number of
//! keys; a filter of the default million fits in the processor's caches.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use waypost_io::Source;
use waypost_summary::filter::{self, Budget, Filter, Hash, Hasher, Input, Kind, Recipe, check};
use xorf::Filter as _;

/// Keys to look up, none of which is held.
const LOOKUPS: u64 = 1_000_000;

type Group<'a> = BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn keys() -> u64 {
    std::env::var("KEYS").map_or(1_000_000, |keys| keys.parse().unwrap())
}

/// SplitMix64.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hashes(count: u64, from: u64) -> Vec<Hash> {
    (from..from + count)
        .map(|n| Hasher::Public.hash(&mixed(n).to_le_bytes()))
        .collect()
}

fn recipe(kind: Kind, bits: f64) -> Recipe {
    Recipe {
        kind,
        budget: Budget::Bits(bits),
        ..Recipe::default()
    }
}

/// A file of hashes of this many URIs.
fn master(folder: &Path) -> Filter {
    let list = folder.join("uris");
    let text: String = (0..keys())
        .map(|n| format!("http://site{:x}.example/{n}\n", mixed(n) & 0xffff))
        .collect();
    std::fs::write(&list, text).unwrap();
    let path = folder.join("hashes");
    let sources = [Source::new(&list)];
    filter::build(Input::new(&sources), &recipe(Kind::Hashes, 1.0), &path).unwrap();
    Filter::open(&path).unwrap()
}

fn encode(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let master = [master(folder.path())];
    let mut group = c.benchmark_group("from hashes to a file");
    group
        .throughput(Throughput::Elements(keys()))
        .sample_size(10);
    let out = folder.path().join("filter");
    for (kind, bits) in [
        (Kind::Ribbon, 1.0),
        (Kind::Ribbon, 4.0),
        (Kind::Ribbon, 8.0),
        (Kind::Ribbon, 16.0),
        (Kind::Bloom, 12.2),
    ] {
        group.bench_function(format!("{kind} {bits}"), |b| {
            b.iter(|| filter::merge(&master, &recipe(kind, bits), &out).unwrap());
        });
    }
    group.finish();
}

fn lookup(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let master = [master(folder.path())];
    let asked = hashes(LOOKUPS, 1 << 40);
    let mut group = c.benchmark_group("lookup");
    group
        .throughput(Throughput::Elements(LOOKUPS))
        .sample_size(10);
    for (kind, bits) in [
        (Kind::Ribbon, 4.0),
        (Kind::Ribbon, 7.5),
        (Kind::Ribbon, 8.0),
        (Kind::Bloom, 12.2),
    ] {
        let path = folder.path().join("filter");
        filter::merge(&master, &recipe(kind, bits), &path).unwrap();
        for (how, filter) in [
            ("mapped", Filter::open(&path).unwrap()),
            ("loaded", Filter::load(&path).unwrap()),
        ] {
            // Every shard is verified on first access, which is not part of the measurement.
            check::check(&filter);
            lookups(&mut group, &format!("{kind} {bits} {how}"), &filter, &asked);
        }
    }
    peers(&mut group);
    group.finish();
}

fn lookups(group: &mut Group<'_>, name: &str, filter: &Filter, asked: &[Hash]) {
    group.bench_function(format!("{name}, random"), |b| {
        b.iter(|| {
            black_box(asked)
                .iter()
                .filter(|&&hash| filter.contains(hash).unwrap())
                .count()
        });
    });
    // Each lookup waits for the answer to the one before, as when a router asks now and then.
    group.bench_function(format!("{name}, each after the one before"), |b| {
        b.iter(|| {
            asked.iter().fold(0usize, |found, &hash| {
                // Zero, but neither the compiler nor the processor knows. Both halves of a hash
                // must depend on it: only one of them says where to look.
                let zero = (found >> 40) as u128;
                let hash = hash ^ zero ^ zero << 64;
                found + usize::from(filter.contains(hash).unwrap())
            })
        });
    });
    let mut answers = Vec::with_capacity(asked.len());
    group.bench_function(format!("{name}, batched"), |b| {
        b.iter(|| {
            answers.clear();
            filter.contains_all(asked, &mut answers).unwrap();
            answers.iter().filter(|&&present| present).count()
        });
    });
}

fn peers(group: &mut Group<'_>) {
    let halves = |count, from| -> Vec<u64> {
        let hashes = hashes(count, from);
        hashes.into_iter().map(|hash| hash as u64).collect()
    };
    let (held, asked) = (halves(keys(), 0), halves(LOOKUPS, 1 << 40));
    let fuse = xorf::BinaryFuse8::try_from(&held).unwrap();
    group.bench_function("xorf BinaryFuse8, random", |b| {
        b.iter(|| asked.iter().filter(|key| fuse.contains(key)).count());
    });
    let mut bloom = fastbloom::BloomFilter::with_false_pos(1.0 / 256.0)
        .seed(&1)
        .expected_items(held.len());
    for key in &held {
        bloom.insert(key);
    }
    group.bench_function("fastbloom at 0.39%, random", |b| {
        b.iter(|| asked.iter().filter(|key| bloom.contains(*key)).count());
    });
}

criterion_group!(benches, encode, lookup);
criterion_main!(benches);
