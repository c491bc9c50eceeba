//! A filter that is open: by memory map, from bytes at hand, or shard by shard from a file.
//!
//! Head and table are checked when it is opened, each shard when it is first looked at. After that a
//! lookup in a map is a few loads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::bloom::{self, BLOCK};
use super::format::{Head, Kind, Layout, MAGIC, Metadata, Part};
use super::fuse;
use super::hash::{Hash, Hasher, Secret};
use super::memory::Map;
use super::run::decode;
use crate::error::{Error, ErrorKind, Result};

/// Hashes that are looked up side by side.
const AHEAD: usize = 32;

/// An open filter.
pub struct Filter {
    name: String,
    pub(crate) layout: Layout,
    bytes: Bytes,
    places: Vec<Place>,
    hasher: Option<Hasher>,
    pub(crate) about: crate::About,
}

/// What a lookup needs of a shard, computed once.
struct Place {
    start: usize,
    end: usize,
    seed: u64,
    /// Whether it was found sound.
    sound: AtomicBool,
}

enum Bytes {
    Map(Map),
    Memory(Vec<u8>),
    /// Read by range; the last shard that was read is kept.
    File(File, Mutex<Option<(usize, Vec<u8>)>>),
}

impl Filter {
    /// Whether a file that begins with these bytes is a filter.
    pub fn begins(start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    /// Opens a source if it is a file of hashes, each of a whole SURT, without a secret.
    ///
    /// # Errors
    /// When it cannot be read, or is another filter.
    pub(crate) fn of_hashes(source: &waypost_index::Source) -> Result<Option<Filter>> {
        let waypost_index::Source::File(path) = source else {
            return Ok(None);
        };
        let mut start = [0; 8];
        if source.open()?.read_full(&mut start).0 < 8 || !Filter::begins(&start) {
            return Ok(None);
        }
        let filter = Filter::open(path)?;
        let head = filter.head();
        if head.kind != Kind::Hashes
            || head.policy != waypost_surt::Policy::Whole
            || head.fingerprint.is_some()
        {
            return Err(Error::new(ErrorKind::FilterAsHoldings(
                "of filters, only unkeyed hashes of whole URIs say what is held",
            ))
            .in_file(path.display()));
        }
        Ok(Some(filter))
    }

    /// Opens a file by memory map.
    ///
    /// # Errors
    /// When it cannot be read, is no filter, or is damaged.
    pub fn open(path: &Path) -> Result<Filter> {
        Filter::of_map(path, Map::open(path)?)
    }

    /// Reads a file into memory, which pays for many lookups: in a large filter each takes about half
    /// the time that it takes in a file that is mapped.
    ///
    /// # Errors
    /// When it cannot be read, is no filter, or is damaged.
    pub fn load(path: &Path) -> Result<Filter> {
        Filter::of_map(path, Map::load(path)?)
    }

    fn of_map(path: &Path, map: Map) -> Result<Filter> {
        let layout = whole(&map).map_err(|error| error.in_file(path.display()))?;
        Ok(Filter::new(
            path.display().to_string(),
            layout,
            Bytes::Map(map),
        ))
    }

    /// Opens a file to be read shard by shard, as over a network: first what stands before the
    /// shards, then for each lookup the shard that it needs.
    ///
    /// # Errors
    /// When it cannot be read, is no filter, or is damaged.
    pub fn open_by_range(path: &Path) -> Result<Filter> {
        let fail = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let length = file.metadata().map_err(fail)?.len();
        let read = || -> Result<Layout> {
            let mut prefix = vec![0; length.min(128) as usize];
            file.read_exact_at(&mut prefix, 0).map_err(fail)?;
            let end = Layout::prefix(&prefix)?;
            // Never more than there is, whatever the head says.
            prefix.resize(end.min(length) as usize, 0);
            file.read_exact_at(&mut prefix, 0).map_err(fail)?;
            Layout::decode(&prefix, length)
        };
        let layout = read().map_err(|error| error.in_file(path.display()))?;
        Ok(Filter::new(
            path.display().to_string(),
            layout,
            Bytes::File(file, Mutex::default()),
        ))
    }

    /// Opens bytes.
    ///
    /// # Errors
    /// When they are no filter, or a damaged one.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Filter> {
        let layout = whole(&bytes)?;
        Ok(Filter::new(String::new(), layout, Bytes::Memory(bytes)))
    }

    fn new(name: String, layout: Layout, bytes: Bytes) -> Filter {
        Filter {
            name,
            places: (0..layout.entries.len())
                .map(|shard| Place {
                    start: layout.range(shard).start as usize,
                    end: layout.range(shard).end as usize,
                    seed: fuse::seed(layout.entries[shard].attempt),
                    sound: AtomicBool::new(false),
                })
                .collect(),
            hasher: layout.head.fingerprint.is_none().then_some(Hasher::Public),
            about: super::summary::about(&layout),
            layout,
            bytes,
        }
    }

    /// Gives the secret that a keyed filter was made with.
    ///
    /// # Errors
    /// When it was made with another, or with none.
    pub fn with_secret(mut self, secret: Secret) -> Result<Filter> {
        let problem = match self.layout.head.fingerprint {
            Some(fingerprint) if fingerprint == secret.fingerprint() => {
                self.hasher = Some(Hasher::Keyed(secret));
                return Ok(self);
            }
            Some(fingerprint) => format!(
                "made with the key of fingerprint {fingerprint}, not with that of {}",
                secret.fingerprint()
            ),
            None => "made without a key: none can be used with it".to_owned(),
        };
        Err(Error::invalid(problem).in_file(&self.name))
    }

    /// The function that makes hashes for it.
    ///
    /// # Errors
    /// When it is keyed and the secret was not given.
    pub fn hasher(&self) -> Result<Hasher> {
        self.hasher.ok_or_else(|| {
            Error::invalid("made with a secret key, without which nothing can be looked up")
                .in_file(&self.name)
        })
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says of itself.
    pub fn head(&self) -> &Head {
        &self.layout.head
    }

    /// What people say of it.
    pub fn metadata(&self) -> &Metadata {
        &self.layout.metadata
    }

    /// How many bytes its file has.
    pub fn length(&self) -> u64 {
        self.layout.length
    }

    /// What no two filters share: the checksum of their heads, which covers those of all shards.
    pub(crate) fn identity(&self) -> u64 {
        self.layout.checksum
    }

    /// How many shards it has.
    pub fn shards(&self) -> usize {
        self.layout.entries.len()
    }

    /// The widths of its fingerprints, if it is a fuse filter: one, unless it is the companion of a map.
    pub fn widths(&self) -> Vec<u8> {
        match self.layout.head.kind {
            Kind::Fuse => self.layout.parts.iter().map(|part| part.width).collect(),
            _ => Vec::new(),
        }
    }

    /// The blocks of a Bloom filter.
    pub fn blocks(&self) -> u64 {
        self.layout.blocks
    }

    /// Whether a hash may be held.
    ///
    /// # Errors
    /// When the shard of the hash is damaged or cannot be read, or when the filter has several
    /// widths, so that one must be [named](Filter::contains_at).
    #[inline]
    pub fn contains(&self, hash: Hash) -> Result<bool> {
        self.probe(self.part()?, hash)
    }

    /// Whether a hash may be held by the filter of one width. If there is none, it holds nothing.
    ///
    /// # Errors
    /// When the shard of the hash is damaged or cannot be read.
    pub fn contains_at(&self, width: u8, hash: Hash) -> Result<bool> {
        match self.layout.parts.iter().find(|part| part.width == width) {
            Some(&part) => self.probe(part, hash),
            None => Ok(false),
        }
    }

    /// Whether each of many hashes may be held, in their order. What they need is fetched ahead, so
    /// that the processor waits for many at once.
    ///
    /// # Errors
    /// As [`contains`](Filter::contains).
    pub fn contains_all(&self, hashes: &[Hash], out: &mut Vec<bool>) -> Result<()> {
        let part = self.part()?;
        out.reserve(hashes.len());
        let bytes = self.in_memory();
        match (self.layout.head.kind, bytes) {
            (Kind::Fuse, Some(bytes)) if part.shards > 0 => {
                return self.all_in_fuse(part, bytes, hashes, out);
            }
            (Kind::Bloom, Some(bytes)) => {
                for batch in hashes.chunks(AHEAD) {
                    self.prefetch_blocks(part, bytes, batch);
                    for &hash in batch {
                        out.push(self.probe(part, hash)?);
                    }
                }
            }
            _ => {
                for &hash in hashes {
                    out.push(self.probe(part, hash)?);
                }
            }
        }
        Ok(())
    }

    /// Looks many up in fuse shards. While one is answered, what those behind it need is on its way.
    fn all_in_fuse(
        &self,
        part: Part,
        bytes: &[u8],
        hashes: &[Hash],
        out: &mut Vec<bool>,
    ) -> Result<()> {
        let mut ring = [(0, fuse::Probe::default()); AHEAD];
        let probe = |hash| -> Result<(usize, fuse::Probe)> {
            let shard = self.layout.shard_of(part, hash).unwrap_or_default();
            let view = self.fuse(shard, self.shard_bytes(bytes, shard)?);
            let probe = view.probe(hash);
            view.prefetch(probe);
            Ok((shard, probe))
        };
        for (asked, &hash) in ring.iter_mut().zip(hashes) {
            *asked = probe(hash)?;
        }
        for number in 0..hashes.len() {
            let asked = &mut ring[number % AHEAD];
            let (shard, slots) = (asked.0, self.shard_bytes(bytes, asked.0)?);
            out.push(self.fuse(shard, slots).answer(asked.1));
            if let Some(&hash) = hashes.get(number + AHEAD) {
                *asked = probe(hash)?;
            }
        }
        Ok(())
    }

    fn prefetch_blocks(&self, part: Part, bytes: &[u8], batch: &[Hash]) {
        for &hash in batch {
            if let Some(shard) = self.layout.shard_of(part, hash) {
                let at = self.places[shard].start + self.layout.block_in_shard(hash) * BLOCK;
                super::memory::prefetch(bytes, at);
            }
        }
    }

    /// The bytes of a shard, which are checked when they are first asked for.
    #[inline]
    fn shard_bytes<'a>(&self, bytes: &'a [u8], shard: usize) -> Result<&'a [u8]> {
        let place = &self.places[shard];
        // The table was checked against the length of the file.
        let bytes = bytes.get(place.start..place.end).unwrap_or_default();
        if !place.sound.load(Ordering::Relaxed) {
            self.verify(shard, bytes)?;
        }
        Ok(bytes)
    }

    fn part(&self) -> Result<Part> {
        match self.layout.parts[..] {
            [part] => Ok(part),
            [] => Ok(Part {
                width: 0,
                first: 0,
                shards: 0,
            }),
            _ => {
                Err(Error::invalid("it has filters of several widths: name one")
                    .in_file(&self.name))
            }
        }
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Map(map) => Some(map),
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::File(..) => None,
        }
    }

    #[inline]
    fn probe(&self, part: Part, hash: Hash) -> Result<bool> {
        let Some(shard) = self.layout.shard_of(part, hash) else {
            return Ok(false);
        };
        match self.in_memory() {
            Some(bytes) => Ok(self.look(shard, self.shard_bytes(bytes, shard)?, hash)),
            None => self.with_shard(shard, |bytes| self.look(shard, bytes, hash)),
        }
    }

    #[inline]
    fn look(&self, shard: usize, bytes: &[u8], hash: Hash) -> bool {
        match self.layout.head.kind {
            Kind::Fuse => self.fuse(shard, bytes).contains(hash),
            Kind::Bloom => {
                let (blocks, _) = bytes.as_chunks::<BLOCK>();
                let block = blocks.get(self.layout.block_in_shard(hash));
                block.is_some_and(|block| bloom::contains(block, hash))
            }
            Kind::Hashes => search(bytes, hash),
        }
    }

    #[inline]
    fn fuse<'a>(&self, shard: usize, slots: &'a [u8]) -> fuse::Shard<'a> {
        let entry = &self.layout.entries[shard];
        fuse::Shard {
            geometry: entry.geometry(),
            seed: self.places[shard].seed,
            width: entry.width,
            slots,
        }
    }

    /// Reads a shard and gives its bytes, which were found sound, to `take`.
    pub(crate) fn with_shard<T>(&self, shard: usize, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let range = self.layout.range(shard);
        let (file, kept) = match &self.bytes {
            Bytes::File(file, kept) => (file, kept),
            _ => {
                let bytes = self.in_memory().unwrap_or_default();
                let bytes = bytes
                    .get(range.start as usize..range.end as usize)
                    .unwrap_or_default();
                self.verify(shard, bytes)?;
                return Ok(take(bytes));
            }
        };
        let mut kept = kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(number, _)| *number != shard) {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)
                .map_err(|error| Error::io("read", Path::new(&self.name), error))?;
            self.verify(shard, &bytes)?;
            *kept = Some((shard, bytes));
        }
        Ok(take(kept.as_ref().map_or(&[][..], |(_, bytes)| bytes)))
    }

    #[cold]
    fn verify(&self, shard: usize, bytes: &[u8]) -> Result<()> {
        let entry = &self.layout.entries[shard];
        if xxh3_64(bytes) != entry.checksum {
            return Err(Error::format(format!(
                "the checksum of shard {} of {}, at byte {}, does not hold: the filter is damaged",
                shard + 1,
                self.layout.entries.len(),
                entry.offset
            ))
            .in_file(&self.name));
        }
        if self.layout.head.kind == Kind::Hashes {
            self.verify_order(shard, bytes)?;
        }
        self.places[shard].sound.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Searching relies on the order of hashes, and on each being in its shard.
    fn verify_order(&self, shard: usize, bytes: &[u8]) -> Result<()> {
        let part = self.part()?;
        let mut last = None;
        let sound = decode(bytes).all(|hash| {
            let larger = last.replace(hash).is_none_or(|last| last < hash);
            larger && self.layout.shard_of(part, hash) == Some(shard)
        });
        if sound {
            Ok(())
        } else {
            Err(Error::format(format!(
                "the hashes of shard {} are not in order",
                shard + 1
            ))
            .in_file(&self.name))
        }
    }
}

fn whole(bytes: &[u8]) -> Result<Layout> {
    let end = Layout::prefix(bytes)?;
    let prefix = &bytes[..bytes.len().min(usize::try_from(end).unwrap_or(usize::MAX))];
    Layout::decode(prefix, bytes.len() as u64)
}

/// Whether a hash is among sorted ones. Hashes are evenly spread, so the place is guessed first.
fn search(bytes: &[u8], hash: Hash) -> bool {
    let (hashes, _) = bytes.as_chunks::<16>();
    let at = |index: usize| u128::from_le_bytes(hashes[index]);
    let (mut low, mut high) = (0, hashes.len());
    // A few guesses bring the ends near; halving does the rest.
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
