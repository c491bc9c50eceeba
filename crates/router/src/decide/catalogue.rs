//! The summaries of all archives, as the lookup service sees them.
//!
//! An archive surely does not hold a URI if its summaries are enough to leave it out of a lookup. It may
//! hold it otherwise: also if they are damaged, too old or do not cover the URI.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use waypost_archive::filters::{
    Catalogue, RemoteState, RemoteSummary, Snapshot as ServedSnapshot, check_id,
};
use waypost_summary::{
    About, Answer, Kind, Lookup, Match, Preference, Presence, Result, Size, Summary,
};
use xxhash_rust::xxh3::Xxh3Default;

use super::consult::{Clocks, Consultation, Questions, Spellings};
use super::summaries::{OpenSummary, Shelf, State};
use super::{Choice, Decider};
use crate::{Registry, Router};

/// The summaries of a router's archives. The router may be replaced.
pub(crate) struct RouterCatalogue<F> {
    router: F,
    known: Mutex<Option<Known>>,
}

/// What was served last.
struct Known {
    registry: Arc<Registry>,
    places: Vec<usize>,
    snapshot: Arc<ServedSnapshot>,
}

impl<F: Fn() -> Arc<Router>> RouterCatalogue<F> {
    pub(crate) fn new(router: F) -> RouterCatalogue<F> {
        RouterCatalogue {
            router,
            known: Mutex::default(),
        }
    }
}

impl<F: Fn() -> Arc<Router> + Send + Sync> Catalogue for RouterCatalogue<F> {
    fn snapshot(&self) -> Arc<ServedSnapshot> {
        let router = (self.router)();
        let registry = router.registry();
        // Those that have summaries, or will have when they are downloaded, and an id that can be part of
        // a path.
        let served = registry.archives.iter().enumerate().filter(|(_, archive)| {
            let has_some = !archive.summaries.is_empty() || !archive.sources.is_empty();
            has_some && check_id(&archive.id).is_ok()
        });
        let places: Vec<usize> = served.map(|(place, _)| place).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.registry, registry)
            && known.places == places
        {
            return Arc::clone(&known.snapshot);
        }
        let summaries = places.iter().filter_map(|&place| {
            let archive = &registry.archives[place];
            let consulted = Arc::new(Consulted::new(
                Arc::clone(router.decider()),
                router.seats().shelf(place)?,
                archive.max_age,
                archive.fuzzy,
            ));
            let summary = RemoteSummary {
                summary: Arc::clone(&consulted) as Arc<dyn Summary>,
                state: Arc::new(move || consulted.state()),
                waits: false,
            };
            Some((archive.id.clone(), summary))
        });
        let snapshot = Arc::new(ServedSnapshot::of(summaries));
        *known = Some(Known {
            registry: Arc::clone(registry),
            places,
            snapshot: Arc::clone(&snapshot),
        });
        snapshot
    }
}

/// All summaries of an archive as one.
struct Consulted {
    decider: Arc<Decider>,
    shelf: Arc<Shelf>,
    max_age: Option<Duration>,
    fuzzy: bool,
    about: About,
}

impl Consulted {
    fn new(
        decider: Arc<Decider>,
        shelf: &Arc<Shelf>,
        max_age: Option<Duration>,
        fuzzy: bool,
    ) -> Consulted {
        Consulted {
            decider,
            shelf: Arc::clone(shelf),
            max_age,
            fuzzy,
            about: About::default(),
        }
    }

    /// What they are at the moment.
    fn state(&self) -> RemoteState {
        let set = self.shelf.current();
        let mut identity = Xxh3Default::new();
        let is_known = !set.entries.is_empty();
        let mut state = RemoteState {
            identity: 0,
            rate: is_known.then_some(0.0),
            keys: is_known.then_some(0),
            modified: SystemTime::UNIX_EPOCH,
        };
        for entry in &set.entries {
            let open: &OpenSummary = match &entry.state {
                State::Open(open) => open,
                // Anything may be held.
                State::Refused(..) => {
                    identity.update(b"refused");
                    state.rate = None;
                    continue;
                }
            };
            identity.update(&open.identity().to_le_bytes());
            // One that is wrong is enough in the worst case: see `combine`.
            state.rate = state
                .rate
                .zip(open.rate)
                .map(|(all, one)| 1.0 - (1.0 - all) * (1.0 - one));
            state.keys = state.keys.zip(open.keys).map(|(all, one)| all + one);
            state.modified = state.modified.max(open.built());
        }
        state.identity = identity.digest();
        state
    }
}

impl Summary for Consulted {
    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        Size {
            keys: self.state().keys.unwrap_or_default(),
            ..Size::default()
        }
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer> {
        // The URI, not its SURT: each summary has a dialect of its own.
        let uri = String::from_utf8_lossy(lookup.uri());
        let max_age = self.max_age.or(self.decider.read_config().max_age);
        let spellings = Spellings::new(&uri);
        let consultation = Consultation {
            questions: &Questions::new(&spellings, false),
            at: None,
            preference: &Preference::default(),
            max_age,
            fuzzy: self.fuzzy,
            clocks: Clocks::now(),
            warn: &*self.decider.warn,
        };
        let mut choice = Choice::unknown(0);
        consultation.consult(&self.shelf, &self.shelf.current(), &mut choice);
        Ok(match (choice.presence, choice.frequency) {
            (Presence::Absent, _) => Answer::Absent,
            (Presence::Present, Some(frequency)) => Answer::Present(Match {
                key: choice.key,
                frequency,
            }),
            (Presence::Present | Presence::Unknown, _) => Answer::Unknown,
        })
    }
}
