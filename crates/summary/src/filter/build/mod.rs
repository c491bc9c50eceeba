//! Building filters: from captures and URIs, from hashes, from other filters.

use std::io;
use std::path::Path;

use waypost_index::Select;
use waypost_surt::{Dialect, Policy};
use xxhash_rust::xxh3::Xxh3Default;

use super::bloom::{self, BLOCK};
use super::format::{self, Destination, Entry, Head, Kind, Metadata, Writer};
use super::hash::{Hash, HashFunction, Hasher};
use super::input::{self, Hashed, Hashing, Input, Reading};
use super::read::Filter;
use super::ribbon::{self, WORKSHOP_PER_HASH, Workshop};
use super::run::{self, Cursor, Run, RunReader, RunWriter, write_hashes};
use super::size::{self, BLOOM_SHARD, Budget};
use crate::error::{Error, Result};
use crate::scope::Scopes;
use waypost_io::Resources;
use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::progress::{Phase, Progress};

/// Options for a filter.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The kind.
    pub kind: Kind,
    /// The size or the rate.
    pub budget: Budget,
    /// The number of keys that a Bloom filter is sized for, if it is more than there are now.
    pub capacity: u64,
    /// Metadata given by the user.
    pub metadata: Metadata,
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Where to report progress.
    pub progress: Progress,
}

/// The result of building a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildReport {
    /// Its head.
    pub head: Head,
    /// Its size.
    pub bytes: u64,
}

impl BuildReport {
    /// Bits per key.
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.head.count.max(1) as f64
    }
}

/// How keys are made: what a filter and its lookups must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    hash: HashFunction,
    fingerprint: Option<super::Fingerprint>,
    dialect: Dialect,
    policy: Policy,
}

impl Keys {
    /// Keys with this hash, dialect and policy.
    pub fn new(hasher: Hasher, dialect: Dialect, policy: Policy) -> Keys {
        let hash = hasher.function();
        Keys {
            hash,
            fingerprint: (hash == HashFunction::SipHash).then(|| hasher.fingerprint()),
            dialect,
            policy,
        }
    }

    fn of(filter: &Filter) -> Keys {
        let head = filter.head();
        Keys {
            hash: head.hash,
            fingerprint: head.fingerprint,
            dialect: head.dialect,
            policy: head.policy,
        }
    }

    pub(crate) fn head(self, kind: Kind, count: u64) -> Head {
        Head {
            kind,
            hash: self.hash,
            fingerprint: self.fingerprint,
            dialect: self.dialect,
            policy: self.policy,
            count,
            estimated: false,
            rate: 0.0,
            capacity: count,
        }
    }
}

/// Builds a filter of the whole input.
///
/// # Errors
/// If the input can't be read, the filter can't be written, or the recipe is invalid.
pub fn build(input: Input<'_>, recipe: &Recipe, out: &Path) -> Result<(BuildReport, Reading)> {
    // Reports invalid options before hours are spent.
    if recipe.kind == Kind::Ribbon && !matches!(recipe.budget, Budget::Bytes(_)) {
        size::width(recipe.budget, 1)?;
    }
    format::check_place(out)?;
    let keys = Keys::new(input.hasher, input.dialect, input.policy);
    let scopes = Scopes::of(&input.select);
    let (run, reading) = input::read(input)?;
    let mut recipe = recipe.clone();
    describe(&reading, &scopes, &mut recipe.metadata)?;
    let made = encode(&run, keys, &recipe, out)?;
    Ok((made, reading))
}

/// Builds a filter from hashes that were gathered with these capture filters.
///
/// # Errors
/// If the filter can't be written, or the recipe is invalid.
pub fn write(
    hashing: &Hashing,
    hashed: Hashed,
    reading: &Reading,
    select: &Select,
    keys: Keys,
    recipe: &Recipe,
    out: &Path,
) -> Result<BuildReport> {
    format::check_place(out)?;
    let mut recipe = recipe.clone();
    describe(reading, &Scopes::of(select), &mut recipe.metadata)?;
    encode(&hashed.finish(hashing)?, keys, &recipe, out)
}

/// Builds a filter from hashes, as [`Hashing::collect`] gathers them, and writes it to `out`.
///
/// ```
/// use waypost_io::Resources;
/// use waypost_summary::filter::{self, Filter, Hasher, Hashing, Keyer, Keys, Recipe};
/// use waypost_summary::holdings::Counts;
/// use waypost_surt::{Dialect, Policy, Surt};
///
/// let keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
/// let hashing = Hashing::new(keyer, Dialect::Ia, &Resources::default());
/// let held = [(Surt::new(b"com,example)/"), Counts::of_captures(3))];
/// let hashed = hashing.collect(held)?;
/// let keys = Keys::new(Hasher::Public, Dialect::Ia, Policy::Whole);
/// let mut bytes = Vec::new();
/// filter::write_to(&hashing, hashed, keys, &Recipe::default(), &mut bytes)?;
///
/// let filter = Filter::from_bytes(bytes)?;
/// let mut keyer = Keyer::of(&filter)?;
/// assert!(filter.contains(keyer.hash(b"http://www.example.com/")?)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the filter can't be written, or the recipe is invalid.
pub fn write_to(
    hashing: &Hashing,
    hashed: Hashed,
    keys: Keys,
    recipe: &Recipe,
    mut out: impl io::Write,
) -> Result<BuildReport> {
    let run = hashed.finish(hashing)?;
    encode(&run, keys, recipe, Destination::Writer(&mut out))
}

/// Fills in metadata from the input where the user gave none: dates come from captures, never from
/// the clock.
fn describe(reading: &Reading, scopes: &Scopes, metadata: &mut Metadata) -> Result<()> {
    let day = |time: waypost_index::timestamp::Time| time.to_string()[..10].to_owned();
    if let (Some(first), Some(last)) = (reading.first, reading.last) {
        if metadata.get("date").is_empty() {
            metadata.add("date", &day(last))?;
        }
        if metadata.get("coverage").is_empty() {
            metadata.add("coverage", &format!("{}/{}", day(first), day(last)))?;
        }
    }
    describe_scopes(scopes, metadata)
}

/// Records the scope of a filter.
fn describe_scopes(scopes: &Scopes, metadata: &mut Metadata) -> Result<()> {
    for scope in scopes.iter() {
        metadata.add("coverage", &format!("{}{scope}", super::summary::SCOPE))?;
    }
    Ok(())
}

/// Writes the filter of a run.
pub(crate) fn encode<'a>(
    run: &Run,
    keys: Keys,
    recipe: &Recipe,
    out: impl Into<Destination<'a>>,
) -> Result<BuildReport> {
    let mut head = keys.head(recipe.kind, run.count());
    let metadata = recipe.metadata.encode().len() as u64;
    let bytes = match recipe.kind {
        Kind::Ribbon => {
            let budget = match recipe.budget {
                Budget::Bytes(most) => Budget::Bytes(most.saturating_sub(metadata)),
                budget => budget,
            };
            let mut width = size::width(budget, run.count())?;
            let (writer, rate) = loop {
                let (writer, rate) = ribbons(&[(width, run)], recipe)?;
                let size = writer.size(Kind::Ribbon, &recipe.metadata)?;
                let over = match recipe.budget {
                    Budget::Bytes(most) => size.saturating_sub(most),
                    _ => 0,
                };
                if over == 0 {
                    break (writer, rate);
                }
                // The number of keys in each shard, and so its size, was not known before.
                let less = over as f64 * 8.0 / run.count().max(1) as f64 + 0.002;
                width = ribbon::Width::of_bits(width.bits() - less).ok_or_else(|| {
                    Error::invalid(format!(
                        "{} keys do not fit in {} bytes: the smallest filter takes {size}",
                        run.count(),
                        size - over
                    ))
                })?;
            };
            head.rate = rate;
            writer.finish(&head, &recipe.metadata, out)?
        }
        Kind::Bloom => {
            head.capacity = run.count().max(recipe.capacity);
            let mut blocks = size::blocks(recipe.budget, head.capacity, metadata)?;
            let filled = loop {
                let filled = bloom(run, blocks, None, recipe)?;
                match recipe.budget {
                    Budget::Rate(most) if filled.rate > most => blocks += blocks / 64 + 1,
                    _ => break filled,
                }
            };
            head.rate = filled.rate;
            filled.writer.finish(&head, &recipe.metadata, out)?
        }
        Kind::Hashes => {
            head.rate = run.count() as f64 * 0.5f64.powi(128);
            hashes(run, &head, recipe, out)?
        }
    };
    Ok(BuildReport { head, bytes })
}

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

struct Filled {
    writer: Writer,
    rate: f64,
    /// Number of hashes that set a new bit.
    new: u64,
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
fn bloom(run: &Run, blocks: u64, old: Option<&Filter>, recipe: &Recipe) -> Result<Filled> {
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

fn blocks_entry(bytes: usize) -> Entry {
    Entry {
        offset: 0,
        checksum: 0,
        count: 0,
        extent: (bytes / BLOCK) as u32,
        width: 0,
        narrow: 0,
    }
}

/// The run itself: it is read once for the checksums and once for writing.
fn hashes<'a>(
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

/// Adds the whole input to a Bloom filter.
///
/// # Errors
/// If the filter is not a Bloom filter, or on a read or write error.
pub fn add(
    filter: &Filter,
    mut input: Input<'_>,
    recipe: &Recipe,
    out: &Path,
) -> Result<(BuildReport, Reading)> {
    must_be(filter, Kind::Bloom, "added to")?;
    format::check_place(out)?;
    input.hasher = filter.hasher()?;
    input.dialect = filter.head().dialect;
    input.policy = filter.head().policy;
    let scopes = Scopes::of(&input.select);
    let (run, reading) = input::read(input)?;
    let filled = bloom(&run, filter.blocks(), Some(filter), recipe)?;
    let mut head = filter.head().clone();
    head.count += filled.new;
    // A key whose bits were all set may still be new.
    head.estimated |= filled.new < run.count();
    head.rate = filled.rate;
    let mut metadata = filter.metadata().clone();
    metadata.extend(&recipe.metadata);
    describe_scopes(&scopes, &mut metadata)?;
    let bytes = filled.writer.finish(&head, &metadata, out)?;
    Ok((BuildReport { head, bytes }, reading))
}

/// Merges filters: Bloom filters with the same number of blocks into one, hashes into any kind.
///
/// # Errors
/// If they can't be merged, or on a read or write error.
pub fn merge(filters: &[Filter], recipe: &Recipe, out: &Path) -> Result<BuildReport> {
    let [first, rest @ ..] = filters else {
        return Err(Error::invalid("there is nothing to merge"));
    };
    for other in rest {
        agree(first, other)?;
    }
    let mut recipe = recipe.clone();
    for filter in filters {
        recipe.metadata.extend(filter.metadata());
    }
    if filters
        .iter()
        .all(|filter| filter.head().kind == Kind::Hashes)
    {
        let mut cursors: Vec<Cursor<'_>> = filters.iter().map(Cursor::file).collect();
        let mut merged = RunWriter::new(recipe.resources.memory / 4, &recipe.resources.temporary);
        run::union(&mut cursors, &mut merged)?;
        return encode(&merged.finish()?, Keys::of(first), &recipe, out);
    }
    for filter in filters {
        must_be(filter, Kind::Bloom, "merged")?;
    }
    if recipe.kind != Kind::Bloom {
        return Err(Error::invalid(format!(
            "Bloom filters can only become a Bloom filter, not {}: that takes hashes",
            recipe.kind
        )));
    }
    join(filters, &recipe, out)
}

fn join(filters: &[Filter], recipe: &Recipe, out: &Path) -> Result<BuildReport> {
    let first = &filters[0];
    let blocks = first.blocks();
    if let Some(other) = filters.iter().find(|other| {
        other.blocks() != blocks || other.layout.blocks_per_shard != first.layout.blocks_per_shard
    }) {
        return Err(Error::invalid(format!(
            "{} has {blocks} blocks, but {} has {}: only Bloom filters of one size can be joined",
            first.name(),
            other.name(),
            other.blocks()
        )));
    }
    let mut writer = Writer::new(&recipe.resources.temporary);
    let (mut rate, mut ones) = (0.0, 0);
    for shard in 0..first.shards() {
        let mut bytes = first.with_shard(shard, <[u8]>::to_vec)?;
        for other in &filters[1..] {
            other.with_shard(shard, |more| {
                for (byte, more) in bytes.iter_mut().zip(more) {
                    *byte |= more;
                }
            })?;
        }
        rate += bloom::exact_rate(&bytes) * (bytes.len() / BLOCK) as f64;
        ones += bloom::ones(&bytes);
        writer.shard(blocks_entry(bytes.len()), &bytes)?;
    }
    let mut head = first.head().clone();
    if filters.len() > 1 {
        let most: u64 = filters.iter().map(|filter| filter.head().count).sum();
        let least = filters
            .iter()
            .map(|filter| filter.head().count)
            .max()
            .unwrap_or(0);
        head.count = bloom::keys_for(ones, blocks).clamp(least, most);
        head.estimated = true;
    }
    head.rate = rate / blocks as f64;
    let bytes = writer.finish(&head, &recipe.metadata, out)?;
    Ok(BuildReport { head, bytes })
}

/// Builds a filter from a file of hashes without those of a list. Returns how many were removed.
///
/// # Errors
/// If `filter` is not a file of hashes, or on a read or write error.
pub fn exclude(
    filter: &Filter,
    mut list: Input<'_>,
    recipe: &Recipe,
    out: &Path,
) -> Result<(BuildReport, Reading, u64)> {
    must_be(filter, Kind::Hashes, "cut down")?;
    format::check_place(out)?;
    list.hasher = filter.hasher()?;
    list.dialect = filter.head().dialect;
    list.policy = filter.head().policy;
    let (without, reading) = input::read(list)?;
    let mut left = RunWriter::new(recipe.resources.memory / 4, &recipe.resources.temporary);
    let gone = run::difference(
        &mut Cursor::file(filter),
        &mut Cursor::Run(without.reader()),
        &mut left,
    )?;
    let mut recipe = recipe.clone();
    recipe.metadata.extend(filter.metadata());
    let made = encode(&left.finish()?, Keys::of(filter), &recipe, out)?;
    Ok((made, reading, gone))
}

fn must_be(filter: &Filter, kind: Kind, done: &str) -> Result<()> {
    let found = filter.head().kind;
    if found == kind {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a filter of kind {found} cannot be {done}; one of kind {kind} can"
    ))
    .in_file(filter.name()))
}

/// Filters can be merged only if their keys were made in the same way.
fn agree(first: &Filter, other: &Filter) -> Result<()> {
    let (a, b) = (Keys::of(first), Keys::of(other));
    let what = if a.hash != b.hash {
        "hash"
    } else if a.fingerprint != b.fingerprint {
        "secret key"
    } else if a.dialect != b.dialect {
        "dialect"
    } else if a.policy != b.policy {
        "policy"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "{} and {} were made with different {what}s",
        first.name(),
        other.name()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Hasher;

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
