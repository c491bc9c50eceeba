//! What archives answered lately: for explanations, and for the resources of a page, which go first to
//! the archive where the page was found.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::Reply;

/// How many URIs are remembered.
const MOST: usize = 10_000;

/// What became of the last lookup of a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastAnswer {
    pub(crate) at: SystemTime,
    /// By id: how long it took, and what it answered.
    pub(crate) replies: Vec<(String, Duration, Reply)>,
}

impl LastAnswer {
    /// Whether an archive had mementos.
    pub(crate) fn found_in(&self, id: &str) -> bool {
        let mut replies = self.replies.iter();
        replies.any(|(archive, _, reply)| {
            archive == id
                && matches!(reply, Reply::Mementos(count) | Reply::Partial(count, _) if *count > 0)
        })
    }
}

/// What archives answered lately.
#[derive(Default)]
pub(crate) struct Recent {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By SURT.
    answers: HashMap<Arc<[u8]>, Arc<LastAnswer>>,
    order: VecDeque<Arc<[u8]>>,
}

impl Recent {
    pub(crate) fn put(&self, surt: &[u8], answer: LastAnswer) {
        let mut known = self.known();
        let key: Arc<[u8]> = surt.into();
        let replaced = known.answers.insert(Arc::clone(&key), Arc::new(answer));
        if replaced.is_none() {
            known.order.push_back(key);
        }
        while known.order.len() > MOST {
            if let Some(oldest) = known.order.pop_front() {
                known.answers.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, surt: &[u8]) -> Option<Arc<LastAnswer>> {
        self.known().answers.get(surt).cloned()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
