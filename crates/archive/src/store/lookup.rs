//! Lookups in a filter in Redis.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use waypost_io::{Error, ErrorKind, Result};
use waypost_summary::filter::{Hash, RangedFilter, Secret};
use waypost_summary::{About, Answer, Frequency, Kind, Lookup, Match, Size, Summary};

use crate::filters::RemoteState;

use super::{PIECE, Store, current_key, generation_key, head_key, piece_key};

/// How many lookups are sent at once.
const AT_ONCE: usize = 4096;

/// How often to ask which generation is current.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// How often lookups are repeated because the generation was switched meanwhile.
const ATTEMPTS: usize = 3;

/// The current generation of an archive in Redis.
pub struct StoredFilter {
    store: Arc<Store>,
    id: String,
    secret: Option<Secret>,
    current: RwLock<Arc<Generation>>,
    about: About,
}

struct Generation {
    name: String,
    filter: RangedFilter,
    /// The keys of its pieces.
    pieces: Vec<String>,
    uploaded: SystemTime,
    checked: Instant,
}

impl StoredFilter {
    /// Opens the filter of an archive.
    ///
    /// # Errors
    /// If there is none, or the server fails.
    pub fn open(store: &Arc<Store>, id: &str, secret: Option<Secret>) -> Result<StoredFilter> {
        let generation = Generation::read(store, id, secret)?;
        Ok(StoredFilter {
            store: Arc::clone(store),
            id: id.to_owned(),
            secret,
            about: generation.filter.about(),
            current: RwLock::new(Arc::new(generation)),
        })
    }

    /// The filter, without its shards.
    pub fn describe<T>(&self, take: impl FnOnce(&RangedFilter) -> T) -> T {
        take(&self.generation().filter)
    }

    /// What the current generation is, for the lookup service.
    pub fn state(&self) -> RemoteState {
        let generation = self.generation();
        RemoteState {
            identity: generation.filter.identity(),
            rate: Some(generation.filter.head().rate),
            keys: Some(generation.filter.head().count),
            modified: generation.uploaded,
        }
    }

    fn generation(&self) -> Arc<Generation> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// The generation to use: asks for the current one every second, or at once.
    fn current(&self, at_once: bool) -> Result<Arc<Generation>> {
        let known = self.generation();
        if !at_once && known.checked.elapsed() < BETWEEN_CHECKS {
            return Ok(known);
        }
        let new = Arc::new(Generation::read(&self.store, &self.id, self.secret)?);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::clone(&new);
        Ok(new)
    }

    /// Whether each of many hashes may be held.
    ///
    /// # Errors
    /// If the server fails.
    pub fn contains_all(&self, hashes: &[Hash]) -> Result<Vec<bool>> {
        let mut answers = Vec::with_capacity(hashes.len());
        for some in hashes.chunks(AT_ONCE) {
            let mut attempt = 1;
            loop {
                let generation = self.current(attempt > 1)?;
                if generation.contains(&self.store, some, &mut answers)? {
                    break;
                }
                // Its keys have expired: another one is current by now.
                attempt += 1;
                if attempt > ATTEMPTS {
                    let problem = format!("parts of the filter of {} are missing", self.id);
                    let error = Error::new(ErrorKind::Invalid(problem));
                    return Err(error.in_file(self.store.name()));
                }
            }
        }
        Ok(answers)
    }
}

impl Generation {
    fn read(store: &Store, id: &str, secret: Option<Secret>) -> Result<Generation> {
        let wrong = |what: &str| {
            let problem = format!("{what} `{id}`");
            Error::new(ErrorKind::Invalid(problem)).in_file(store.name())
        };
        for _ in 0..ATTEMPTS {
            let checked = Instant::now();
            let name: Option<String> = store.query(redis::cmd("GET").arg(current_key(id)))?;
            let name = name.ok_or_else(|| wrong("there is no archive"))?;
            let hash = generation_key(id, &name);
            let fields = ["bytes", "uploaded"];
            let (bytes, uploaded): (Option<u64>, Option<u64>) =
                store.query(redis::cmd("HMGET").arg(&hash).arg(&fields))?;
            let prefix: Vec<u8> = store.query(redis::cmd("GET").arg(head_key(id, &name)))?;
            let Some(bytes) = bytes.filter(|_| !prefix.is_empty()) else {
                // Expired in between.
                continue;
            };
            let filter = RangedFilter::new(&prefix, bytes, secret)
                .map_err(|error| error.in_file(store.name()).into_io())?;
            let pieces = (0..bytes.div_ceil(PIECE)).map(|piece| piece_key(id, &name, piece));
            return Ok(Generation {
                pieces: pieces.collect(),
                name,
                filter,
                uploaded: SystemTime::UNIX_EPOCH + Duration::from_secs(uploaded.unwrap_or(0)),
                checked,
            });
        }
        Err(wrong("parts are missing of the filter of"))
    }

    /// Appends answers. Returns false, and appends nothing, if some bytes are missing.
    fn contains(&self, store: &Store, hashes: &[Hash], answers: &mut Vec<bool>) -> Result<bool> {
        let mut pipeline = redis::Pipeline::with_capacity(hashes.len());
        let ranges: Vec<_> = hashes.iter().map(|&hash| self.filter.range(hash)).collect();
        for range in ranges.iter().flatten() {
            let piece = range.start / PIECE;
            let start = range.start % PIECE;
            let last = start + (range.end - range.start) - 1;
            pipeline
                .cmd("GETRANGE")
                .arg(&self.pieces[piece as usize])
                .arg(start)
                .arg(last);
        }
        let replies: Vec<Vec<u8>> = match ranges.iter().flatten().next() {
            Some(_) => store.run(|connection| pipeline.query(connection))?,
            None => Vec::new(),
        };
        let mut replies = replies.into_iter();
        let before = answers.len();
        for (&hash, range) in hashes.iter().zip(&ranges) {
            let Some(range) = range else {
                answers.push(false);
                continue;
            };
            let bytes = replies.next().unwrap_or_default();
            if bytes.len() as u64 != range.end - range.start {
                answers.truncate(before);
                return Ok(false);
            }
            answers.push(self.filter.answer(hash, &bytes));
        }
        Ok(true)
    }
}

impl Summary for StoredFilter {
    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        self.describe(|filter| Size {
            keys: filter.head().count,
            bytes: filter.length(),
            gzip_bytes: filter.length(),
        })
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> waypost_summary::Result<Answer> {
        let mut answers = self.answer_all(std::slice::from_ref(lookup))?;
        Ok(answers.pop().unwrap_or(Answer::Unknown))
    }

    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> waypost_summary::Result<Vec<Answer>> {
        let mut keyer = self.describe(RangedFilter::keyer);
        let hashes: Vec<Hash> = lookups
            .iter()
            .map(|lookup| keyer.hash_surt(lookup.surt().as_bytes()))
            .collect();
        let found = self.contains_all(&hashes)?;
        let answers = found.into_iter().zip(lookups).map(|(found, lookup)| {
            match (found, self.about.scopes.covers(lookup)) {
                (true, _) => Answer::Present(Match {
                    key: None,
                    frequency: Frequency::default(),
                }),
                (false, true) => Answer::Absent,
                (false, false) => Answer::Unknown,
            }
        });
        Ok(answers.collect())
    }

    fn answer_all(&self, lookups: &[Lookup<'_>]) -> waypost_summary::Result<Vec<Answer>> {
        let mut answers = self.lookup_all(lookups)?;
        let policy = self.describe(|filter| filter.head().policy);
        for (lookup, answer) in lookups.iter().zip(&mut answers) {
            if let Answer::Present(found) = answer {
                let mut key = Vec::new();
                policy.cut(lookup.surt(), &mut key);
                found.key = Some(key);
            }
        }
        Ok(answers)
    }
}

impl std::fmt::Debug for StoredFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredFilter")
            .field("store", &self.store.name())
            .field("id", &self.id)
            .field("generation", &self.generation().name)
            .finish()
    }
}
