//! An open filter: memory-mapped, from bytes, or read shard by shard from a file.
//!
//! The head and the table are verified on opening, each shard on first access.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::format::{Head, Kind, Layout, MAGIC, Metadata, Part};
use super::hash::{Hasher, Secret};
use super::lookup::shard_of;
use super::ribbon::Processor;
use super::run::decode;
use crate::error::{Error, ErrorKind, Result};
use waypost_io::{Mapped, Source};

/// An open filter.
pub struct Filter {
    name: String,
    pub(crate) layout: Layout,
    /// All of it, unless it is read by range.
    pub(super) bytes: Mapped,
    by_range: Option<ByRange>,
    /// How a hash is looked up if no part is named.
    pub(super) way: Way,
    pub(super) processor: Processor,
    /// Its only part, unless it has several widths.
    pub(super) only: Part,
    /// Which shards are verified, and how many are not yet.
    sound: Vec<AtomicBool>,
    pub(super) unsound: AtomicUsize,
    hasher: Option<Hasher>,
    pub(crate) about: crate::About,
}

/// A file that is read by range; the last shard is cached.
struct ByRange {
    file: File,
    last: Mutex<Option<(usize, Vec<u8>)>>,
}

/// How a hash is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In a ribbon filter in memory that has shards.
    Ribbon,
    /// The same, with eight columns in all blocks.
    Eight,
    /// In a Bloom filter in memory that has blocks.
    Bloom,
    /// In hashes, or in a file that is read by range, or in a filter that holds nothing.
    Other,
    /// Not at all: it has several widths.
    Several,
}

impl Filter {
    /// Whether a file that starts with these bytes is a filter.
    pub fn begins(start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    /// Opens a source if it is a file of unkeyed hashes of whole SURTs.
    ///
    /// # Errors
    /// If it can't be read, or is a different kind of filter.
    pub(crate) fn of_hashes(source: &Source) -> Result<Option<Filter>> {
        if source.is_stdin() {
            return Ok(None);
        }
        let mut start = [0; 8];
        if source.open()?.read_full(&mut start).0 < 8 || !Filter::begins(&start) {
            return Ok(None);
        }
        let filter = Filter::of(source)?;
        let head = filter.head();
        if head.kind != Kind::Hashes
            || head.policy != waypost_surt::Policy::Whole
            || head.fingerprint.is_some()
        {
            return Err(Error::new(ErrorKind::FilterAsHoldings(
                "of filters, only unkeyed hashes of whole URIs say what is held",
            ))
            .in_file(source));
        }
        Ok(Some(filter))
    }

    /// Opens a file by memory map.
    ///
    /// # Errors
    /// If it can't be read, is not a filter, or is damaged.
    pub fn open(path: &Path) -> Result<Filter> {
        Filter::of(&Source::new(path))
    }

    /// Maps the file that a source has opened.
    ///
    /// # Errors
    /// Like [`open`](Filter::open).
    pub fn of(source: &Source) -> Result<Filter> {
        Filter::of_map(source, Mapped::of(source)?)
    }

    /// Reads a file into memory, which pays off for many lookups: in a large filter, each takes
    /// about two thirds of the time that it takes in a mapped file.
    ///
    /// # Errors
    /// If it can't be read, is not a filter, or is damaged.
    pub fn load(path: &Path) -> Result<Filter> {
        Filter::load_of(&Source::new(path))
    }

    /// Reads the file that a source has opened into memory.
    ///
    /// # Errors
    /// Like [`load`](Filter::load).
    pub fn load_of(source: &Source) -> Result<Filter> {
        Filter::of_map(source, Mapped::load_of(source)?)
    }

    fn of_map(source: &Source, map: Mapped) -> Result<Filter> {
        if !Filter::begins(&map) {
            let other = waypost_index::kind::detect(source)?.kind;
            return Err(other.instead_of("a filter").in_file(source).into());
        }
        let layout = whole(&map).map_err(|error| error.in_file(source))?;
        Ok(Filter::new(source.to_string(), layout, map, None))
    }

    /// Opens a file to be read shard by shard, as over a network: first everything before the
    /// shards, then for each lookup the shard that it needs.
    ///
    /// # Errors
    /// If it can't be read, is not a filter, or is damaged.
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
        let by_range = ByRange {
            file,
            last: Mutex::default(),
        };
        let (name, nothing) = (path.display().to_string(), Mapped::from(Vec::new()));
        Ok(Filter::new(name, layout, nothing, Some(by_range)))
    }

    /// Opens a filter from bytes: a `Vec<u8>`, an `Arc<[u8]>` or a [`Mapped`] file.
    ///
    /// # Errors
    /// If they are not a filter, or are damaged.
    pub fn from_bytes(bytes: impl Into<Mapped>) -> Result<Filter> {
        let bytes = bytes.into();
        let layout = whole(&bytes)?;
        Ok(Filter::new(String::new(), layout, bytes, None))
    }

    fn new(name: String, layout: Layout, bytes: Mapped, by_range: Option<ByRange>) -> Filter {
        let only = match layout.parts[..] {
            [part] => part,
            _ => Part::default(),
        };
        Filter {
            name,
            only,
            processor: Processor::detect(),
            way: match layout.head.kind {
                _ if layout.parts.len() > 1 => Way::Several,
                Kind::Ribbon if by_range.is_none() && is_eight(&layout) => Way::Eight,
                Kind::Ribbon if by_range.is_none() && only.shards > 0 => Way::Ribbon,
                Kind::Bloom if by_range.is_none() && only.shards > 0 => Way::Bloom,
                _ => Way::Other,
            },
            sound: layout.entries.iter().map(|_| false.into()).collect(),
            unsound: layout.entries.len().into(),
            hasher: layout.head.fingerprint.is_none().then_some(Hasher::Public),
            about: super::summary::about(&layout),
            layout,
            bytes,
            by_range,
        }
    }

    /// Sets the secret that a keyed filter was built with.
    ///
    /// # Errors
    /// If it was built with another secret, or without one.
    pub fn with_secret(mut self, secret: Secret) -> Result<Filter> {
        let problem = match self.layout.head.fingerprint {
            Some(fingerprint) if fingerprint == secret.fingerprint() => {
                self.hasher = Some(Hasher::Keyed(secret));
                return Ok(self);
            }
            Some(fingerprint) => ErrorKind::NeedsSecret(format!(
                "made with the key of fingerprint {fingerprint}, not with that of {}",
                secret.fingerprint()
            )),
            None => ErrorKind::Invalid("made without a key: none can be used with it".to_owned()),
        };
        Err(Error::new(problem).in_file(&self.name))
    }

    /// Sets the secret if the filter is keyed. Others are returned as they are.
    ///
    /// # Errors
    /// If it is keyed, and there is no secret or another one.
    pub fn unlock(self, secret: Option<Secret>) -> Result<Filter> {
        match (self.layout.head.fingerprint, secret) {
            (Some(_), Some(secret)) => self.with_secret(secret),
            _ => self.hasher().map(|_| self),
        }
    }

    /// The hash function for this filter.
    ///
    /// # Errors
    /// If it is keyed and the secret was not set.
    pub fn hasher(&self) -> Result<Hasher> {
        self.hasher
            .ok_or_else(|| Error::keyed().in_file(&self.name))
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its head.
    pub fn head(&self) -> &Head {
        &self.layout.head
    }

    /// Its metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.layout.metadata
    }

    /// The size of its file in bytes.
    pub fn length(&self) -> u64 {
        self.layout.length
    }

    /// The identity of a filter: the checksum of its head, which covers those of all shards.
    pub fn identity(&self) -> u64 {
        self.layout.checksum
    }

    /// Verifies the checksums of all shards.
    ///
    /// # Errors
    /// If one of them is damaged or can't be read.
    pub fn verify_all(&self) -> Result<()> {
        (0..self.shards()).try_for_each(|shard| self.with_shard(shard, |_| ()))
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.layout.entries.len()
    }

    /// The widths of a ribbon filter: one, unless it is the companion of a map.
    pub fn widths(&self) -> Vec<u8> {
        match self.layout.head.kind {
            Kind::Ribbon => self.layout.parts.iter().map(|part| part.width).collect(),
            _ => Vec::new(),
        }
    }

    /// The mean number of columns of a ribbon filter: the effective bits per key.
    pub fn bits(&self) -> f64 {
        let entries = &self.layout.entries;
        let rows: u64 = entries.iter().map(|entry| u64::from(entry.extent)).sum();
        let bits: u64 = (0..entries.len())
            .map(|shard| self.layout.range(shard))
            .map(|range| (range.end - range.start) * 8)
            .sum();
        bits as f64 / rows.max(1) as f64
    }

    /// The number of blocks of a Bloom filter.
    pub fn blocks(&self) -> u64 {
        self.layout.blocks
    }

    /// Whether the file is still intact, that is, was not truncated while in use.
    pub(crate) fn check_intact(&self) -> Result<()> {
        Ok(self.bytes.check()?)
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.by_range.is_none()
    }

    /// Reads a shard and passes its verified bytes to `take`.
    pub(crate) fn with_shard<T>(&self, shard: usize, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let Some(ByRange { file, last }) = &self.by_range else {
            self.verify(shard, self.gap(shard), self.range(shard))?;
            return Ok(take(self.range(shard)));
        };
        let mut kept = last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(number, _)| *number != shard) {
            let (start, range) = (self.layout.gap(shard), self.layout.range(shard));
            let mut bytes = vec![0; (range.end - start) as usize];
            file.read_exact_at(&mut bytes, start)
                .map_err(|error| Error::io("read", Path::new(&self.name), error))?;
            let shard_bytes = bytes.split_off((range.start - start) as usize);
            self.verify(shard, &bytes, &shard_bytes)?;
            *kept = Some((shard, shard_bytes));
        }
        Ok(take(kept.as_ref().map_or(&[][..], |(_, bytes)| bytes)))
    }

    /// The range of a shard in the bytes of the file. The table was checked against their length.
    pub(super) fn range(&self, shard: usize) -> &[u8] {
        let range = self.layout.range(shard);
        self.bytes
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    /// The padding before a shard.
    fn gap(&self, shard: usize) -> &[u8] {
        let end = self.layout.range(shard).start as usize;
        self.bytes
            .get(self.layout.gap(shard) as usize..end)
            .unwrap_or_default()
    }

    /// Verifies a shard on first access.
    #[cold]
    pub(super) fn ensure(&self, shard: usize) -> Result<()> {
        match self.sound.get(shard) {
            Some(sound) if !sound.load(Ordering::Relaxed) => {
                self.verify(shard, self.gap(shard), self.range(shard))
            }
            _ => Ok(()),
        }
    }

    fn verify(&self, shard: usize, gap: &[u8], bytes: &[u8]) -> Result<()> {
        let entry = &self.layout.entries[shard];
        let what = if xxh3_64(bytes) != entry.checksum {
            "the checksum does not hold"
        } else if gap.iter().any(|&byte| byte != 0) {
            "there should be zeros before it"
        } else {
            ""
        };
        if !what.is_empty() {
            return Err(Error::format(format!(
                "shard {} of {}, at byte {}: {what}: the filter is damaged",
                shard + 1,
                self.layout.entries.len(),
                entry.offset
            ))
            .in_file(&self.name));
        }
        if self.layout.head.kind == Kind::Hashes {
            self.verify_order(shard, bytes)?;
        }
        if !self.sound[shard].swap(true, Ordering::Relaxed) {
            self.unsound.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Searching relies on the order of hashes, and on each being in its shard.
    fn verify_order(&self, shard: usize, bytes: &[u8]) -> Result<()> {
        let part = self.only;
        let mut last = None;
        let sound = decode(bytes).all(|hash| {
            let larger = last.replace(hash).is_none_or(|last| last < hash);
            larger && shard_of(&part, hash) == shard
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

/// Whether there are shards, and all blocks have eight columns.
fn is_eight(layout: &Layout) -> bool {
    let mut entries = layout.entries.iter();
    !layout.entries.is_empty() && entries.all(|entry| entry.width == 8 && entry.narrow == 0)
}

fn whole(bytes: &[u8]) -> Result<Layout> {
    let end = Layout::prefix(bytes)?;
    let prefix = &bytes[..bytes.len().min(usize::try_from(end).unwrap_or(usize::MAX))];
    Layout::decode(prefix, bytes.len() as u64)
}
