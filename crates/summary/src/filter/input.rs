//! From captures and URIs to hashes, on all cores.
//!
//! ```text
//! index ─► scan ─► captures ─► SURT ─► key ─► hash ─►
//! list  ─► blocks of lines ──► SURT ─► key ─► hash ─► partitions ─► a sorted run
//! ```

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use waypost_index::input::Source;
use waypost_index::key::{KeyCheck, Rekeyer};
use waypost_index::rejects::{Rejects, RejectsFile};
use waypost_index::scan::{self, At, Job, Tally};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Field, Fields, Select};
use waypost_surt::{Dialect, Policy};

use super::hash::{Hash, Hasher};
use super::partition::Partitions;
use super::run::Run;
use super::summary::Keyer;
use crate::error::{Error, ErrorKind, Result};
use crate::holdings::{BadUri, Content, List, tell};
use waypost_io::pipeline::Pool;

/// What to read, and how.
pub struct Input<'a> {
    /// Indexes and lists of URIs.
    pub sources: &'a [Source],
    /// Which captures count.
    pub select: Select,
    /// The rules for SURTs that must be made.
    pub dialect: Dialect,
    /// How keys are cut.
    pub policy: Policy,
    /// How they are hashed.
    pub hasher: Hasher,
    /// How much memory to use, in bytes.
    pub memory: usize,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Whether to stop at the first bad line.
    pub strict: bool,
    /// Keeps the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Counts the bytes of the sources that are done, as they are stored.
    pub progress: Option<&'a AtomicU64>,
}

impl<'a> Input<'a> {
    /// All captures of these sources, whole, unkeyed, under the default dialect, in a gibibyte.
    pub fn new(sources: &'a [Source]) -> Input<'a> {
        Input {
            sources,
            select: Select::default(),
            dialect: Dialect::default(),
            policy: Policy::Whole,
            hasher: Hasher::Public,
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
            strict: false,
            rejects: None,
            progress: None,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Lines of indexes, by what they are.
    pub tally: Tally,
    /// Bad lines of indexes, for each.
    pub rejects: Vec<Rejects>,
    /// URIs of lists.
    pub uris: u64,
    /// Lines of lists that have no SURT.
    pub bad_uris: BadUri,
    /// Sources that are cut or corrupt; what came before is in.
    pub damage: Vec<waypost_index::Error>,
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// How the keys of indexes compare with their URLs.
    pub keys: KeyCheck,
    /// What the sources were, by name: `cdx`, `uris`.
    pub kinds: Vec<&'static str>,
}

impl Reading {
    /// Captures and URIs that were hashed, repeated ones too.
    pub fn given(&self) -> u64 {
        self.tally.selected + self.uris
    }
}

/// Where hashes go. An error waits here until the reading stops.
struct Sink {
    partitions: Partitions,
    error: Option<Error>,
}

impl Sink {
    fn add(sink: &Mutex<Sink>, hashes: &[Hash]) {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.error.is_none()
            && let Err(error) = sink.partitions.add(hashes)
        {
            sink.error = Some(error);
        }
    }

    /// What went wrong, if anything did.
    fn error(sink: &Mutex<Sink>) -> Option<Error> {
        sink.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .error
            .take()
    }
}

/// Reads everything and sorts its hashes.
pub(crate) fn read(mut input: Input<'_>) -> Result<(Run, Reading)> {
    let sink = Mutex::new(Sink {
        partitions: Partitions::new(input.memory, &input.temporary),
        error: None,
    });
    let mut reading = Reading::default();
    input.select.dialect(input.dialect);
    for source in input.sources {
        let (content, damage) = content(source)?;
        let kind = match content {
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
                    Error::invalid("this is a summary, not an index or a list of URIs")
                        .in_file(source),
                );
            }
            Content::List => {
                list(&mut input, source, &sink, &mut reading)?;
                "uris"
            }
            Content::Index(_) => {
                index(&mut input, source, &sink, &mut reading)?;
                "cdx"
            }
        };
        if !reading.kinds.contains(&kind) {
            reading.kinds.push(kind);
        }
    }
    let sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    match sink.error {
        Some(error) => Err(error),
        None => Ok((sink.partitions.finish()?, reading)),
    }
}

/// What a source holds, and what damage was met before that was known.
fn content(source: &Source) -> Result<(Content, Option<waypost_index::Error>)> {
    match tell(source) {
        Ok(told) => Ok((told.content, told.damage)),
        Err(error) if matches!(error.kind(), ErrorKind::FilterAsHoldings(_)) => {
            Err(Error::invalid(
                "this is a filter already: make another from hashes with `waypost filter merge`",
            )
            .in_file(source))
        }
        Err(error) => Err(error),
    }
}

fn index(
    input: &mut Input<'_>,
    source: &Source,
    sink: &Mutex<Sink>,
    reading: &mut Reading,
) -> Result<()> {
    let job = Hashing {
        keyer: Keyer::new(input.dialect, input.policy, input.hasher),
        dialect: input.dialect,
        sink,
    };
    let options = scan::Options {
        select: input.select.clone(),
        strict: input.strict,
        rejects: input.rejects.as_deref_mut(),
        progress: input.progress,
        block: None,
    };
    let (found, outcome) = scan::scan(std::slice::from_ref(source), &job, options)?;
    reading.tally.merge(&outcome.tally);
    reading.rejects.push(outcome.rejects);
    reading.keys.merge(&found.keys);
    reading.damage.extend(outcome.damage);
    reading.first = [reading.first, found.first].into_iter().flatten().min();
    reading.last = [reading.last, found.last].into_iter().flatten().max();
    Ok(())
}

/// Hashes the captures of an index.
struct Hashing<'a> {
    keyer: Keyer,
    dialect: Dialect,
    sink: &'a Mutex<Sink>,
}

/// The hashes of some captures that follow each other.
struct Hashed {
    hashes: Vec<Hash>,
    tools: Option<(Rekeyer, Keyer)>,
    keys: KeyCheck,
    first: Option<Time>,
    last: Option<Time>,
    /// The timestamps of these, so that few must be understood.
    earliest: [u8; 14],
    latest: [u8; 14],
}

impl Job for Hashing<'_> {
    type Partial = Hashed;

    fn fields(&self) -> Fields {
        // For keys that are no SURTs.
        Field::Url.into()
    }

    fn partial(&self) -> Hashed {
        Hashed {
            hashes: Vec::new(),
            tools: None,
            keys: KeyCheck::default(),
            first: None,
            last: None,
            earliest: [0xff; 14],
            latest: [0; 14],
        }
    }

    fn capture(&self, found: &mut Hashed, capture: &Capture<'_>, _: At) {
        let (rekeyer, keyer) = found
            .tools
            .get_or_insert_with(|| (Rekeyer::new(self.dialect), self.keyer.clone()));
        let hash = keyer.hash_surt(rekeyer.surt(capture));
        // Captures of one URI-R mostly stand together.
        if found.hashes.last() != Some(&hash) {
            found.hashes.push(hash);
        }
        let news = match <&[u8; 14]>::try_from(capture.timestamp()) {
            Ok(digits) => {
                let news = *digits < found.earliest || *digits > found.latest;
                found.earliest = found.earliest.min(*digits);
                found.latest = found.latest.max(*digits);
                news
            }
            Err(_) => true,
        };
        if news {
            let time = capture.time();
            found.first = [found.first, time].into_iter().flatten().min();
            found.last = [found.last, time].into_iter().flatten().max();
        }
    }

    fn merge(&self, earlier: &mut Hashed, later: Hashed, _: At) {
        Sink::add(self.sink, &later.hashes);
        if let Some((rekeyer, _)) = &later.tools {
            earlier.keys.merge(rekeyer.check());
        }
        earlier.first = [earlier.first, later.first].into_iter().flatten().min();
        earlier.last = [earlier.last, later.last].into_iter().flatten().max();
    }
}

fn list(
    input: &mut Input<'_>,
    source: &Source,
    sink: &Mutex<Sink>,
    reading: &mut Reading,
) -> Result<()> {
    let (dialect, policy, hasher) = (input.dialect, input.policy, input.hasher);
    let select = &input.select;
    let list = List {
        source,
        select,
        strict: input.strict,
        rejects: input.rejects.as_deref_mut(),
        progress: input.progress,
        memory: input.memory,
    };
    let buffers: Pool<Vec<Hash>> = Pool::new();
    let worker = || {
        let mut keyer = Keyer::new(dialect, policy, hasher);
        move |hashes: &mut Vec<Hash>, line: &[u8]| {
            let surt = keyer.surt(line)?;
            let wanted = select.accepts_uri(line, surt);
            if wanted {
                hashes.push(keyer.hash_last());
            }
            Ok(wanted)
        }
    };
    let take = |mut hashes: Vec<Hash>| {
        Sink::add(sink, &hashes);
        hashes.clear();
        buffers.put(hashes);
        Sink::error(sink).map_or(Ok(()), Err)
    };
    let listed = list.read(&mut reading.bad_uris, || buffers.get(), worker, take)?;
    reading.uris += listed.uris;
    reading.damage.extend(listed.damage);
    Ok(())
}
