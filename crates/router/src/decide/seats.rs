//! The archives of a registry as the decider knows them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::learned::Seed;
use super::summaries::{Shelf, SummarySet};

/// The summaries of all archives of a registry, in its order.
pub(crate) type Sets = Arc<[Arc<SummarySet>]>;

/// The archives of a registry, in its order.
pub(crate) struct Seats {
    shelves: Vec<Arc<Shelf>>,
    seeds: Vec<Seed>,
    /// Their places in the registry, in the order of their seeds.
    by_seed: Vec<(Seed, usize)>,
    /// Grows whenever a shelf changes.
    changes: Arc<AtomicU64>,
    /// What was on the shelves at some number of changes: decisions take it in one go.
    kept: RwLock<(u64, Sets)>,
}

impl Seats {
    pub(super) fn new(seats: Vec<(Arc<Shelf>, Seed)>, changes: Arc<AtomicU64>) -> Seats {
        let (shelves, seeds): (Vec<_>, Vec<_>) = seats.into_iter().unzip();
        let places = seeds.iter().enumerate();
        let mut by_seed: Vec<(Seed, usize)> = places.map(|(place, seed)| (*seed, place)).collect();
        by_seed.sort_unstable();
        Seats {
            shelves,
            seeds,
            by_seed,
            changes,
            kept: RwLock::new((0, Arc::from([]))),
        }
    }

    /// What is on all shelves now.
    pub(crate) fn sets(&self) -> Sets {
        let changes = self.changes.load(Ordering::Acquire);
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.0 == changes {
                return Arc::clone(&kept.1);
            }
        }
        let sets: Sets = self.shelves.iter().map(|shelf| shelf.current()).collect();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.0 < changes {
            *kept = (changes, Arc::clone(&sets));
        }
        sets
    }

    pub(super) fn shelf(&self, place: usize) -> Option<&Arc<Shelf>> {
        self.shelves.get(place)
    }

    pub(super) fn seed(&self, place: usize) -> Option<Seed> {
        self.seeds.get(place).copied()
    }

    /// The number of archives.
    pub(super) fn len(&self) -> usize {
        self.shelves.len()
    }

    /// The places of the archives, in the order of their seeds.
    pub(super) fn by_seed(&self) -> &[(Seed, usize)] {
        &self.by_seed
    }
}
