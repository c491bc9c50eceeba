//! From captures and URIs to hashes, on all cores.
//!
//! ```text
//! index or list ─► scan ─► captures or URIs ─► SURT ─► key ─► hash ─► partials ─► a sorted run
//! ```

use waypost_index::key::{KeyCheck, Rekeyer};
use waypost_index::rejects::{Rejects, RejectsFile};
use waypost_index::scan::{self, At, Job, Tally};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Field, Fields, Select, Span};
use waypost_io::partial::{Decoder, Encoder};
use waypost_io::progress::{Phase, Progress};
use waypost_io::{Resources, Source};
use waypost_surt::{Dialect, Policy, Surt, is_surt};

use super::hash::{Hash, Hasher};
use super::partition::Partitions;
use super::run::Run;
use super::summary::Keyer;
use crate::error::{Error, ErrorKind, Result};
use crate::fuzzy;
use crate::holdings::{BadUri, Content, Counts, check_filters, tell};

/// What to read, and how.
pub struct Input<'a> {
    /// Indexes and lists of URIs.
    pub sources: &'a [Source],
    /// Which captures to include.
    pub select: Select,
    /// The dialect of SURTs made from URIs.
    pub dialect: Dialect,
    /// The policy that cuts keys.
    pub policy: Policy,
    /// The hash function.
    pub hasher: Hasher,
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Whether to stop at the first bad line.
    pub strict: bool,
    /// Collects the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Where to report progress.
    pub progress: Progress,
    /// What other machines have read, to be merged instead of reading the sources.
    pub pieces: Option<scan::Pieces>,
}

impl<'a> Input<'a> {
    /// All captures of these sources: whole SURTs, unkeyed, in the default dialect, in 1 GiB of
    /// memory.
    pub fn new(sources: &'a [Source]) -> Input<'a> {
        Input {
            sources,
            select: Select::default(),
            dialect: Dialect::default(),
            policy: Policy::Whole,
            hasher: Hasher::Public,
            resources: Resources::default(),
            strict: false,
            rejects: None,
            progress: Progress::default(),
            pieces: None,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Lines of indexes, by type.
    pub tally: Tally,
    /// Bad lines of indexes, by reason.
    pub rejects: Vec<Rejects>,
    /// URIs of lists.
    pub uris: u64,
    /// Lines of lists that have no SURT.
    pub bad_uris: BadUri,
    /// Sources that are truncated or corrupt; what precedes the damage is included.
    pub damage: Vec<waypost_io::Error>,
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// How the keys of indexes compare with their URLs.
    pub keys: KeyCheck,
    /// The kinds of the sources, by name: `cdx`, `uris`.
    pub kinds: Vec<&'static str>,
    /// Captures that were left out because the index does not have their URLs. Only where URLs are
    /// hashed as they are.
    pub without_url: u64,
}

impl Reading {
    /// Captures and URIs that were hashed, including duplicates.
    pub fn given(&self) -> u64 {
        self.tally.selected + self.uris
    }
}

/// Reads the whole input and sorts its hashes.
pub(crate) fn read(input: Input<'_>) -> Result<(Run, Reading)> {
    let hashing = Hashing::new(
        Keyer::new(input.dialect, input.policy, input.hasher),
        input.dialect,
        &input.resources,
    )
    .fuzzy(input.select.is_fuzzy());
    read_with(input, &hashing)
}

/// Reads the whole input and sorts the hashes that `hashing` makes.
pub(crate) fn read_with(mut input: Input<'_>, hashing: &Hashing) -> Result<(Run, Reading)> {
    let mut hashed = hashing.empty();
    let mut reading = Reading::default();
    input.select.dialect(input.dialect);
    input.progress.read(input.sources);
    for source in input.sources {
        let (content, damage) = content(source)?;
        let list = match content {
            Content::Empty => {
                // Nothing of it can be read, so nobody else would find the damage.
                if let Some(damage) = damage {
                    if input.strict {
                        return Err(damage.into());
                    }
                    reading.damage.push(damage);
                }
                continue;
            }
            Content::Summary => {
                return Err(
                    Error::invalid("a summary, not an index or a list of URIs").in_file(source)
                );
            }
            Content::List => true,
            Content::Index(_) => false,
        };
        if list {
            check_filters(&input.select, source)?;
        }
        let options = scan::Options {
            select: input.select.clone(),
            strict: input.strict,
            rejects: input.rejects.as_deref_mut(),
            list,
            progress: input.progress.clone(),
            block: None,
            pieces: input.pieces.clone(),
        };
        let (more, outcome) = scan::scan(std::slice::from_ref(source), hashing, options)?;
        hashing.merge(&mut hashed, more, At::default())?;
        reading.take(outcome, list);
    }
    (reading.first, reading.last) = (hashed.span.first, hashed.span.last);
    reading.keys.merge(&hashed.keys);
    input.progress.begin(Phase::Sorting, None);
    reading.without_url = hashed.without_url;
    Ok((hashed.finish(hashing)?, reading))
}

impl Reading {
    /// The result of reading in ranges: all pieces of all files, merged. `list` says whether the
    /// files are lists of URIs.
    pub fn of_ranges(outcome: scan::Outcome, list: bool, hashed: &Hashed) -> Reading {
        let mut reading = Reading {
            first: hashed.span.first,
            last: hashed.span.last,
            keys: hashed.keys.clone(),
            without_url: hashed.without_url,
            ..Reading::default()
        };
        reading.take(outcome, list);
        reading
    }

    fn take(&mut self, outcome: scan::Outcome, list: bool) {
        let kind = if list { "uris" } else { "cdx" };
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        if list {
            self.uris += outcome.tally.uris;
            self.bad_uris.add(&outcome.rejects);
        } else {
            self.tally.merge(&outcome.tally);
            self.rejects.push(outcome.rejects);
        }
        self.damage.extend(outcome.damage);
    }
}

/// The kind of a source, and any damage found while it was detected.
fn content(source: &Source) -> Result<(Content, Option<waypost_io::Error>)> {
    match tell(source) {
        Ok(told) => Ok((told.content, told.damage)),
        Err(error) if matches!(error.kind(), ErrorKind::FilterAsHoldings(_)) => {
            let kind = waypost_io::ErrorKind::WrongKind {
                found: "a filter",
                wanted: "an index or a list",
            };
            Err(Error::new(ErrorKind::Io(kind)).in_file(source))
        }
        Err(error) => Err(error),
    }
}

/// Hashes captures and URIs: the scan job behind every filter.
pub struct Hashing {
    keyer: Keyer,
    /// Hashes URLs as they are spelled, instead of keys.
    of_url: Option<fn(&[u8]) -> Hash>,
    /// Whether to hash what pywb would also find.
    fuzzy: bool,
    dialect: Dialect,
    resources: Resources,
}

impl Hashing {
    /// Hashes keys made by `keyer`. Hashes that exceed the memory are spilled to a
    /// temporary file.
    pub fn new(keyer: Keyer, dialect: Dialect, resources: &Resources) -> Hashing {
        Hashing {
            keyer,
            of_url: None,
            fuzzy: false,
            dialect,
            resources: resources.clone(),
        }
    }

    /// Also hashes what pywb would find: see [`fuzzy`].
    #[must_use]
    pub fn fuzzy(self, fuzzy: bool) -> Hashing {
        Hashing { fuzzy, ..self }
    }

    /// Hashes URLs as they are spelled, for filters of [Orestes](super::orestes).
    pub(crate) fn of_urls(dialect: Dialect, resources: &Resources) -> Hashing {
        let keyer = Keyer::new(dialect, Policy::Whole, Hasher::Public);
        Hashing {
            of_url: Some(super::orestes::hash_url),
            ..Hashing::new(keyer, dialect, resources)
        }
    }

    /// Hashes the keys of URI-Rs.
    ///
    /// # Errors
    /// When a temporary file cannot be written.
    pub fn collect<'s>(
        &self,
        urirs: impl IntoIterator<Item = (Surt<'s>, Counts)>,
    ) -> Result<Hashed> {
        let mut hashed = self.empty();
        let mut keyer = self.keyer.clone();
        let mut batch = Vec::with_capacity(FEW);
        for (surt, _) in urirs {
            batch.push(keyer.hash_surt(surt.as_bytes()));
            if batch.len() == FEW {
                hashed.take(self, &batch)?;
                batch.clear();
            }
        }
        hashed.take(self, &batch)?;
        Ok(hashed)
    }

    fn partitions(&self) -> Partitions {
        Partitions::new(self.resources.memory, &self.resources.temporary)
    }
}

/// The number of hashes in a partial before they are partitioned.
const FEW: usize = 1 << 16;

/// The hashes of consecutive captures. Their order does not matter.
pub struct Hashed {
    /// As long as there are few.
    hashes: Vec<Hash>,
    partitions: Option<Box<Partitions>>,
    span: Span,
    /// How the keys of indexes compare with their URLs.
    keys: KeyCheck,
    without_url: u64,
    tools: Option<(Rekeyer, Keyer)>,
}

impl Hashed {
    fn take(&mut self, hashing: &Hashing, hashes: &[Hash]) -> Result<()> {
        if self.partitions.is_none() && self.hashes.len() + hashes.len() <= FEW {
            self.hashes.extend_from_slice(hashes);
            return Ok(());
        }
        let partitions = self
            .partitions
            .get_or_insert_with(|| Box::new(hashing.partitions()));
        partitions.add(&std::mem::take(&mut self.hashes))?;
        partitions.add(hashes)
    }

    pub(crate) fn finish(self, hashing: &Hashing) -> Result<Run> {
        let mut partitions = self
            .partitions
            .unwrap_or_else(|| Box::new(hashing.partitions()));
        partitions.add(&self.hashes)?;
        partitions.finish()
    }
}

impl Job for Hashing {
    type Partial = Hashed;

    fn fields(&self) -> Fields {
        // For keys that aren't SURTs.
        Field::Url.into()
    }

    fn empty(&self) -> Hashed {
        Hashed {
            hashes: Vec::new(),
            partitions: None,
            span: Span::default(),
            keys: KeyCheck::default(),
            without_url: 0,
            tools: None,
        }
    }

    fn add(&self, found: &mut Hashed, capture: &Capture<'_>, _: At) {
        let (rekeyer, keyer) = found
            .tools
            .get_or_insert_with(|| (Rekeyer::new(self.dialect), self.keyer.clone()));
        let hash = match (self.of_url, capture.url()) {
            (None, _) => keyer.hash_surt(rekeyer.surt(capture)),
            (Some(hash), Some(url)) => hash(&url),
            (Some(_), None) => {
                found.without_url += 1;
                return;
            }
        };
        // Captures of a URI-R are mostly adjacent.
        if found.hashes.last() != Some(&hash) {
            found.hashes.push(hash);
        }
        if self.fuzzy {
            let (url, mime) = (capture.url().unwrap_or_default(), capture.mime());
            let mime = mime.unwrap_or_default();
            let keys = fuzzy::keys_of_capture(rekeyer.surt(capture), &url, &mime, capture.key());
            found
                .hashes
                .extend(keys.iter().map(|key| keyer.hash_surt(key)));
        }
        found.span.add(capture);
    }

    fn add_uri(
        &self,
        found: &mut Hashed,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        let (_, keyer) = found
            .tools
            .get_or_insert_with(|| (Rekeyer::new(self.dialect), self.keyer.clone()));
        let surt = keyer.surt(line)?;
        let wanted = select.accepts_uri(line, surt);
        let others = match wanted && self.fuzzy {
            true => fuzzy::keys_of_capture(surt, line, b"", surt),
            false => Vec::new(),
        };
        if wanted {
            found.hashes.push(match self.of_url {
                None => keyer.hash_last(),
                Some(_) if is_surt(line.trim_ascii()) => {
                    found.without_url += 1;
                    return Ok(false);
                }
                Some(hash) => hash(line.trim_ascii()),
            });
        }
        found
            .hashes
            .extend(others.iter().map(|key| keyer.hash_surt(key)));
        Ok(wanted)
    }

    fn seal(&self, found: &mut Hashed) -> waypost_io::Result<()> {
        if let Some((rekeyer, _)) = found.tools.take() {
            found.keys.merge(rekeyer.check());
        }
        Ok(())
    }

    fn merge(&self, earlier: &mut Hashed, mut later: Hashed, _: At) -> waypost_io::Result<()> {
        earlier.span.merge(&later.span);
        earlier.keys.merge(&later.keys);
        earlier.without_url += later.without_url;
        let merged = match (&earlier.partitions, later.partitions.take()) {
            (_, None) => Ok(()),
            (None, Some(partitions)) => {
                earlier.partitions = Some(partitions);
                Ok(())
            }
            (Some(_), Some(partitions)) => partitions.each(|hashes| earlier.take(self, hashes)),
        };
        merged
            .and_then(|()| earlier.take(self, &later.hashes))
            .map_err(Error::into_io)
    }

    fn to_bytes(&self, found: &Hashed) -> waypost_io::Result<Vec<u8>> {
        let mut out = Encoder::new("hashes", 2);
        out.option(found.span.first.map(Time::digits14));
        out.option(found.span.last.map(Time::digits14));
        out.text(&found.keys.to_bytes());
        out.number(found.without_url);
        let mut parts = vec![found.hashes.clone()];
        if let Some(partitions) = &found.partitions {
            let gathered = partitions.each(|hashes| {
                parts.push(hashes.to_vec());
                Ok(())
            });
            gathered.map_err(Error::into_io)?;
        }
        out.number(parts.iter().map(|hashes| hashes.len() as u64).sum());
        parts.iter().flatten().for_each(|hash| out.hash(*hash));
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> waypost_io::Result<Hashed> {
        let mut from = Decoder::new(bytes, "hashes", 2)?;
        let mut found = self.empty();
        found.span = Span::of(from.option()?, from.option()?);
        found.keys = KeyCheck::from_bytes(from.text()?)?;
        found.without_url = from.number()?;
        let count = from.count()?;
        let mut hashes = Vec::new();
        for number in 1..=count {
            hashes.push(from.hash()?);
            if hashes.len() == FEW || number == count {
                found.take(self, &hashes).map_err(Error::into_io)?;
                hashes.clear();
            }
        }
        from.finish()?;
        Ok(found)
    }
}
