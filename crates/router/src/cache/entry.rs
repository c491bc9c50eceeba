//! An answer that is kept: with the ids of the archives, because their places may change, and the
//! time, because it grows old.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_memento::{Datetime, Memento};
use xxhash_rust::xxh3::xxh3_64;

use crate::merge::merge;
use crate::{Aggregate, Found, Lookup, Outcome, Registry, Reply, Selection, Wanted};

/// What is asked for, as the key of an answer.
pub(super) type Key = Arc<str>;

/// The key of a lookup. All datetimes from now on stand for the latest memento. Answers for which not
/// all archives were asked that may have something else are kept apart.
pub(super) fn key(lookup: &Lookup, now: Duration) -> Key {
    let wanted = match lookup.wanted {
        Wanted::All => "all".to_owned(),
        Wanted::Closest(datetime) => {
            let seconds = datetime.to_jiff().as_second();
            match u64::try_from(seconds).is_ok_and(|seconds| seconds >= now.as_secs()) {
                true => "latest".to_owned(),
                false => datetime.timestamp(),
            }
        }
    };
    let (sign, ids) = match &lookup.archives {
        Selection::All => ("", &[][..]),
        Selection::Only(ids) => ("+", &ids[..]),
        Selection::Except(ids) => ("!", &ids[..]),
    };
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let kind = match lookup.page {
        _ if lookup.for_page => "page ",
        Some(_) if lookup.wanted != Wanted::All => "part ",
        _ => "",
    };
    format!("{kind}{wanted} {sign}{} {}", ids.join(","), lookup.uri).into()
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When it was fetched, since 1970.
    pub(super) at: Duration,
    /// The ids of all archives that were considered. Places in the answer are places in this list.
    pub(super) ids: Vec<String>,
    pub(super) aggregate: Arc<Aggregate>,
}

impl Entry {
    /// An answer that was fetched now. What an archive answered earlier is kept if it failed this
    /// time.
    pub(super) fn new(
        registry: &Registry,
        fetched: Aggregate,
        at: Duration,
        earlier: Option<&Entry>,
    ) -> Entry {
        let earlier = earlier.map(|entry| entry.seen_by(registry));
        let archives = registry.archives.iter();
        Entry {
            at,
            ids: archives.map(|archive| archive.id.clone()).collect(),
            aggregate: Arc::new(match earlier {
                Some(earlier) => keep(&earlier, fetched),
                None => fetched,
            }),
        }
    }

    /// Whether every archive was considered that a lookup would ask now.
    pub(super) fn covers(&self, registry: &Registry, lookup: &Lookup) -> bool {
        let same = self.is_of(registry);
        let known: HashSet<&String> = match same {
            true => HashSet::new(),
            false => self.ids.iter().collect(),
        };
        let mut archives = registry.archives.iter();
        same || archives.all(|a| known.contains(&a.id) || !lookup.archives.has(&a.id))
    }

    fn is_of(&self, registry: &Registry) -> bool {
        let archives = registry.archives.iter();
        self.ids.iter().eq(archives.map(|archive| &archive.id))
    }

    /// The answer with the places of another registry, without the archives that it does not have.
    pub(super) fn seen_by(&self, registry: &Registry) -> Arc<Aggregate> {
        if self.is_of(registry) {
            return Arc::clone(&self.aggregate);
        }
        let places: Vec<Option<usize>> = self.ids.iter().map(|id| registry.position(id)).collect();
        let place = |archive: usize| places.get(archive).copied().flatten();
        let found = self.aggregate.mementos.iter();
        let mut mementos: Vec<Found> = found
            .filter_map(|found| {
                Some(Found {
                    archive: place(found.archive)?,
                    memento: found.memento.clone(),
                })
            })
            .collect();
        mementos.sort_by_key(|found| (found.memento.datetime, found.archive));
        let outcomes = self.aggregate.outcomes.iter();
        let mut outcomes: Vec<Outcome> = outcomes
            .filter_map(|outcome| {
                Some(Outcome {
                    archive: place(outcome.archive)?,
                    ..outcome.clone()
                })
            })
            .collect();
        outcomes.sort_by_key(|outcome| outcome.archive);
        let left_out = self.aggregate.left_out.iter();
        let left_out =
            left_out.filter_map(|&(archive, identity)| Some((place(archive)?, identity)));
        Arc::new(Aggregate {
            mementos,
            outcomes,
            left_out: left_out.collect(),
        })
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let ids: usize = self
            .ids
            .iter()
            .map(|id| size_of::<String>() + id.len())
            .sum();
        let found = self.aggregate.mementos.iter();
        let mementos: usize = found
            .map(|found| {
                let parameters = found.memento.parameters.iter();
                let parameters: usize = parameters
                    .map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len())
                    .sum();
                size_of::<Found>() + found.memento.uri.len() + parameters
            })
            .sum();
        let outcomes = self.aggregate.outcomes.len() * (size_of::<Outcome>() + 32)
            + size_of_val(&self.aggregate.left_out[..]);
        size_of::<Entry>() + size_of::<Aggregate>() + ids + mementos + outcomes
    }

    /// The entry as bytes: a version, a hash of the rest, and compressed JSON.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let found = self.aggregate.mementos.iter();
        let outcomes = self.aggregate.outcomes.iter();
        let saved = Saved {
            at: u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX),
            ids: self.ids.clone(),
            outcomes: outcomes
                .map(|outcome| {
                    let took = u64::try_from(outcome.took.as_micros()).unwrap_or(u64::MAX);
                    (outcome.archive, took, outcome.reply.clone())
                })
                .collect(),
            left_out: self.aggregate.left_out.clone(),
            mementos: found
                .map(|found| {
                    let Memento {
                        uri,
                        datetime,
                        parameters,
                        ..
                    } = &found.memento;
                    let second = datetime.to_jiff().as_second();
                    (uri.clone(), second, found.archive, parameters.clone())
                })
                .collect(),
        };
        let json = serde_json::to_vec(&saved).unwrap_or_default();
        let compressed = lz4_flex::compress_prepend_size(&json);
        let mut bytes = vec![VERSION];
        bytes.extend(xxh3_64(&compressed).to_le_bytes());
        bytes.extend(compressed);
        bytes
    }

    /// Reads what [`to_bytes`](Entry::to_bytes) wrote; `None` if it is damaged or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Entry> {
        let (&version, rest) = bytes.split_first()?;
        let (hash, compressed) = rest.split_first_chunk()?;
        if version != VERSION || xxh3_64(compressed) != u64::from_le_bytes(*hash) {
            return None;
        }
        let json = lz4_flex::decompress_size_prepended(compressed).ok()?;
        let saved: Saved = serde_json::from_slice(&json).ok()?;
        let outcomes = saved.outcomes.into_iter();
        let mementos = saved.mementos.into_iter();
        let aggregate = Aggregate {
            outcomes: outcomes
                .map(|(archive, took, reply)| Outcome {
                    archive,
                    took: Duration::from_micros(took),
                    reply,
                })
                .collect(),
            mementos: mementos
                .map(|(uri, second, archive, parameters)| {
                    let datetime = Datetime::new(jiff::Timestamp::from_second(second).ok()?)?;
                    Some(Found {
                        memento: Memento {
                            parameters,
                            ..Memento::new(uri, datetime)
                        },
                        archive,
                    })
                })
                .collect::<Option<_>>()?,
            left_out: saved.left_out,
        };
        Some(Entry {
            at: Duration::from_millis(saved.at),
            ids: saved.ids,
            aggregate: Arc::new(aggregate),
        })
    }
}

/// The version of the form in which entries are saved. Others are ignored.
const VERSION: u8 = 2;

/// URI, second, place of the archive, parameters.
type SavedMemento = (String, i64, usize, Vec<(String, String)>);

#[derive(Serialize, Deserialize)]
struct Saved {
    at: u64,
    ids: Vec<String>,
    outcomes: Vec<(usize, u64, Reply)>,
    left_out: Vec<(usize, u64)>,
    mementos: Vec<SavedMemento>,
}

/// Adds to an answer what archives answered earlier that failed this time.
fn keep(earlier: &Aggregate, mut fetched: Aggregate) -> Aggregate {
    let failed: HashSet<usize> = fetched.missing().collect();
    let mut kept: HashMap<usize, Vec<Memento>> = HashMap::new();
    for found in &earlier.mementos {
        if failed.contains(&found.archive) {
            let list = kept.entry(found.archive).or_default();
            list.push(found.memento.clone());
        }
    }
    if kept.is_empty() {
        return fetched;
    }
    for outcome in &mut fetched.outcomes {
        if let Some(list) = kept.get(&outcome.archive) {
            let why = match &outcome.reply {
                Reply::Kept(_, why) => why.clone(),
                other => other.to_string(),
            };
            outcome.reply = Reply::Kept(list.len(), why);
        }
    }
    let mut lists: Vec<(usize, Vec<Memento>)> = kept.into_iter().collect();
    let mut arrived: HashMap<usize, Vec<Memento>> = HashMap::new();
    for found in std::mem::take(&mut fetched.mementos) {
        let list = arrived.entry(found.archive).or_default();
        list.push(found.memento);
    }
    lists.extend(arrived);
    Aggregate {
        mementos: merge(lists),
        ..fetched
    }
}
