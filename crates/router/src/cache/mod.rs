//! Keeps answers: in memory, and on disk if there is a file for them.
//!
//! An answer is fresh for a while, depending on whether it has mementos and whether archives are
//! missing from it. Then it is stale: it is still sent, but a new one is fetched. Lookups for the same
//! thing wait for one fetch, which ends when nobody waits for it any more.
//!
//! What an archive answered earlier is kept as long as it fails, so that a TimeMap never shrinks
//! because an archive is down.

mod entry;
mod memory;
mod store;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::{Aggregate, CacheConfig, Lookup, Registry, Wanted};
use entry::{Entry, Key, key};
use memory::Memory;
use store::Store;

/// How many stale answers are refreshed at a time. More are refreshed when they are asked for again.
const MOST_REFRESHES: usize = 64;

/// How far an answer may be ahead of the clock, which several threads read.
const AHEAD: Duration = Duration::from_secs(5);

/// What a client says about kept answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheDirective {
    /// A kept answer will do.
    #[default]
    Usual,
    /// `no-cache`: fetch a new answer.
    Refresh,
    /// `only-if-cached`: do not ask any archive.
    OnlyKept,
}

impl CacheDirective {
    /// Reads a `Cache-Control` header.
    pub fn parse(header: &str) -> CacheDirective {
        let has = |name: &str| {
            let mut directives = header.split(',').map(str::trim);
            directives.any(|directive| directive.eq_ignore_ascii_case(name))
        };
        match (has("only-if-cached"), has("no-cache") || has("max-age=0")) {
            (true, _) => CacheDirective::OnlyKept,
            (false, true) => CacheDirective::Refresh,
            (false, false) => CacheDirective::Usual,
        }
    }
}

/// An answer, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The answer.
    pub aggregate: Arc<Aggregate>,
    /// How old it is.
    pub age: Duration,
    /// Where it is from.
    pub origin: Origin,
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The archives were asked.
    Fetched,
    /// It was kept, and is fresh.
    Fresh,
    /// It was kept, and is no longer fresh.
    Stale,
}

impl Origin {
    /// In lower case: `fetched`, `fresh`, `stale`.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Fetched => "fetched",
            Origin::Fresh => "fresh",
            Origin::Stale => "stale",
        }
    }
}

type Fetch = BoxFuture<'static, Arc<Entry>>;
type Flight = Shared<Fetch>;

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Answers that are kept.
pub struct Cache {
    config: RwLock<CacheConfig>,
    memory: Mutex<Memory>,
    store: Option<Arc<Store>>,
    /// Fetches that are under way, with their numbers.
    flights: Mutex<HashMap<Key, (u64, WeakShared<Fetch>)>>,
    next_flight: AtomicU64,
    refreshes: Arc<Semaphore>,
    /// The time since 1970.
    clock: Clock,
}

impl Cache {
    /// An empty cache, or one with what is on disk. What happens to the file is passed to `report`.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(
        config: &CacheConfig,
        report: impl Fn(String) + Send + Sync + 'static,
    ) -> waypost_io::Result<Arc<Cache>> {
        let since_1970 = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.unwrap_or_default()
        };
        Cache::with_clock(config, Box::new(report), Box::new(since_1970))
    }

    fn with_clock(
        config: &CacheConfig,
        report: Box<dyn Fn(String) + Send + Sync>,
        clock: Clock,
    ) -> waypost_io::Result<Arc<Cache>> {
        let store = match config.disk.as_deref().filter(|_| config.enabled) {
            Some(path) => Some(Arc::new(Store::open(path, config.disk_size, report)?)),
            None => None,
        };
        Ok(Arc::new(Cache {
            memory: Mutex::new(Memory::new(limit(config))),
            config: RwLock::new(config.clone()),
            store,
            flights: Mutex::default(),
            next_flight: AtomicU64::new(0),
            refreshes: Arc::new(Semaphore::new(MOST_REFRESHES)),
            clock,
        }))
    }

    /// Takes other sizes and lifetimes. The file stays the same.
    pub fn update(&self, config: &CacheConfig) {
        lock(&self.memory).set_limit(limit(config));
        if let Some(store) = &self.store {
            store.set_limit(config.disk_size);
        }
        let known = self.config.write();
        *known.unwrap_or_else(PoisonError::into_inner) = config.clone();
    }

    /// How many answers are in memory, and how many bytes they take.
    pub fn usage(&self) -> (usize, usize) {
        let memory = lock(&self.memory);
        (memory.len(), memory.bytes())
    }

    /// The answer to a lookup: a kept one, or that of `fetch`. `None` if the directive forbids to
    /// fetch one. If this future is dropped and nobody else waits for the answer, so is that of
    /// `fetch`.
    pub async fn get<F>(
        self: &Arc<Cache>,
        registry: &Arc<Registry>,
        lookup: &Lookup,
        directive: CacheDirective,
        fetch: impl FnOnce() -> F + Send + 'static,
    ) -> Option<Kept>
    where
        F: Future<Output = Aggregate> + Send + 'static,
    {
        let now = (self.clock)();
        let enabled = self.config().enabled;
        if directive != CacheDirective::Refresh && enabled {
            if let Some(kept) = self.find_usable(registry, lookup, now).await {
                if kept.origin == Origin::Stale && directive == CacheDirective::Usual {
                    self.refresh(registry, lookup, fetch);
                }
                return Some(kept);
            }
            if directive == CacheDirective::OnlyKept {
                return None;
            }
        }
        if directive == CacheDirective::OnlyKept {
            return None;
        }
        let entry = self.flight(registry, lookup, now, fetch).await;
        Some(Kept {
            aggregate: entry.seen_by(registry),
            age: Duration::ZERO,
            origin: Origin::Fetched,
        })
    }

    /// A kept answer that is fresh or stale. The TimeMap answers for any datetime, and an answer to a
    /// lookup for anything those for pages and their resources.
    async fn find_usable(
        &self,
        registry: &Registry,
        lookup: &Lookup,
        now: Duration,
    ) -> Option<Kept> {
        let whole = Lookup {
            wanted: Wanted::All,
            ..lookup.clone()
        };
        let mut best: Option<Kept> = None;
        let mut keys = Vec::new();
        for lookup in [&whole, lookup] {
            let anything = Lookup {
                for_page: false,
                page: None,
                ..lookup.clone()
            };
            keys.extend([key(&anything, now), key(lookup, now)]);
        }
        keys.dedup();
        for key in keys {
            let Some(entry) = self.find(&key).await else {
                continue;
            };
            let usable = self.judge(&entry, now);
            if let Some(origin) = usable.filter(|_| entry.covers(registry, lookup)) {
                let kept = Kept {
                    aggregate: entry.seen_by(registry),
                    age: now.saturating_sub(entry.at),
                    origin,
                };
                if origin == Origin::Fresh {
                    return Some(kept);
                }
                best = best.or(Some(kept));
            }
        }
        best
    }

    /// Whether an answer may still be sent.
    fn judge(&self, entry: &Entry, now: Duration) -> Option<Origin> {
        let config = self.config();
        // The clock was set back: nobody knows how old it is.
        if entry.at > now + AHEAD {
            return None;
        }
        let age = now.saturating_sub(entry.at);
        let complete = entry.aggregate.missing().next().is_none();
        let (fresh, stale) = match (complete, entry.aggregate.mementos.is_empty()) {
            (false, _) => (config.incomplete, Duration::ZERO),
            (true, true) => (config.negative, Duration::ZERO),
            (true, false) => (config.fresh, config.stale),
        };
        match age {
            age if age < fresh => Some(Origin::Fresh),
            age if age < fresh.saturating_add(stale) => Some(Origin::Stale),
            _ => None,
        }
    }

    /// What is kept under a key, however old.
    async fn find(&self, key: &Key) -> Option<Arc<Entry>> {
        if let Some(entry) = lock(&self.memory).get(key) {
            return Some(entry);
        }
        let store = Arc::clone(self.store.as_ref()?);
        let wanted = Arc::clone(key);
        let found = spawn_blocking(move || store.get(&wanted)).await.ok()??;
        let entry = Arc::new(found);
        let mut memory = lock(&self.memory);
        // A newer one may have arrived meanwhile.
        memory.get(key).or_else(|| {
            memory.insert(Arc::clone(key), Arc::clone(&entry));
            Some(entry)
        })
    }

    fn insert(&self, key: &Key, entry: &Arc<Entry>) {
        if self.config().enabled {
            lock(&self.memory).insert(Arc::clone(key), Arc::clone(entry));
            if let Some(store) = &self.store {
                store.put(Arc::clone(key), Arc::clone(entry));
            }
        }
    }

    /// Joins the fetch that is under way for a lookup, or starts one.
    fn flight<F>(
        self: &Arc<Cache>,
        registry: &Arc<Registry>,
        lookup: &Lookup,
        now: Duration,
        fetch: impl FnOnce() -> F + Send + 'static,
    ) -> Flight
    where
        F: Future<Output = Aggregate> + Send + 'static,
    {
        let key = key(lookup, now);
        let mut flights = lock(&self.flights);
        let running = flights.get(&key).and_then(|(_, flight)| flight.upgrade());
        if let Some(flight) = running.filter(|flight| flight.peek().is_none()) {
            return flight;
        }
        let landing = Landing {
            cache: Arc::clone(self),
            key: Arc::clone(&key),
            number: self.next_flight.fetch_add(1, Ordering::Relaxed),
        };
        let number = landing.number;
        let registry = Arc::clone(registry);
        let flight = async move {
            let Landing { cache, key, .. } = &landing;
            let earlier = match cache.config().enabled {
                true => cache.find(key).await,
                false => None,
            };
            let fetched = fetch().await;
            let at = (cache.clock)();
            let entry = Arc::new(Entry::new(&registry, fetched, at, earlier.as_deref()));
            cache.insert(key, &entry);
            entry
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(key, (number, weak));
        }
        flight
    }

    /// Fetches a new answer in the background.
    fn refresh<F>(
        self: &Arc<Cache>,
        registry: &Arc<Registry>,
        lookup: &Lookup,
        fetch: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = Aggregate> + Send + 'static,
    {
        if let Ok(permit) = Arc::clone(&self.refreshes).try_acquire_owned() {
            let flight = self.flight(registry, lookup, (self.clock)(), fetch);
            tokio::spawn(async move {
                flight.await;
                drop(permit);
            });
        }
    }

    fn config(&self) -> CacheConfig {
        let config = self.config.read();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Ends a flight when it is finished or dropped.
struct Landing {
    cache: Arc<Cache>,
    key: Key,
    number: u64,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut flights = lock(&self.cache.flights);
        if flights
            .get(&self.key)
            .is_some_and(|(number, _)| *number == self.number)
        {
            flights.remove(&self.key);
        }
    }
}

fn limit(config: &CacheConfig) -> usize {
    match config.enabled {
        true => usize::try_from(config.memory).unwrap_or(usize::MAX),
        false => 0,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
