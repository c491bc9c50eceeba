//! Decides which archives are asked for a lookup, in which order, and why.
//!
//! ```text
//! summaries ─► absent · present · unknown ─► rules ─► order ─► cut ─► asked · asked later · not asked
//!                                                      ▲
//!                                    learned chance, mementos and latency
//! ```
//!
//! Recall comes first: an archive is left out only if a summary that covers the lookup, is intact and
//! not too old says that it holds nothing, or if the registry says so. What was learned orders archives.
//! It leaves them out only if the configuration accepts a recall below 1.
//!
//! | module | subject |
//! |---|---|
//! | `choice` | what is decided |
//! | `consult` | what the summaries of an archive say |
//! | `seats`, `summaries`, `snapshot` | the summaries of an archive, replaced without a pause; private copies |
//! | `downloads` | summaries that archives publish: found, checked, installed |
//! | `rules` | patterns, periods and embargoes of the registry |
//! | `learned` | hits and misses by parts of the key space, which decay |
//! | `audit` | probes of archives that were left out, and the recall that follows |
//! | `recent` | what archives answered lately |
//! | `logs` | learning from logs |
//! | `simulate` | what routing would have done for a list of lookups |
//! | `explain` | why, as JSON |
//! | `catalogue` | the summaries, as the lookup service sees them |

mod audit;
mod catalogue;
mod choice;
mod consult;
mod downloads;
mod explain;
mod learned;
mod logs;
mod recent;
mod rules;
mod seats;
mod simulate;
mod snapshot;
mod summaries;
#[cfg(test)]
mod tests;
mod watch;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use waypost_index::timestamp::Time;
use waypost_memento::Datetime;
use waypost_summary::Presence;
use waypost_surt::{Dialect, Surt};

pub use audit::AuditedRecall;
pub(crate) use catalogue::RouterCatalogue;
pub use choice::{Choice, Decision, Reason};
pub use downloads::published_map;
pub use explain::{batch_line, explanation};
pub use logs::{LogReport, learn_log};
pub use rules::{Pattern, Period, Rules};
pub use simulate::{ArchiveTally, Completeness, Simulation, Truth, simulate};
pub use watch::Watch;

use audit::{Audit, Dice};
use choice::leave_out_unlikely;
use consult::{Clocks, Consultation, Questions, Spellings, usual_surt};
use learned::{Learned, Parts, Seed};
use recent::{LastAnswer, Recent};
use rules::Hindrance;
pub(crate) use seats::Seats;
use summaries::Shelf;
pub use summaries::SummaryState;

use crate::{ForPages, Lookup, Outcome, Registry, Reply, RoutingConfig, Wanted};

/// How many lookups for a part of the key space must have been seen before an archive is left out
/// because of them.
const ENOUGH: f64 = 20.0;

/// Decides which archives are asked. Shared by all routers of a server, whatever their registry.
pub struct Decider {
    config: RwLock<RoutingConfig>,
    shelves: Mutex<HashMap<String, Arc<Shelf>>>,
    /// Grows whenever a shelf changes.
    changes: Arc<AtomicU64>,
    learned: Learned,
    audit: Audit,
    recent: Recent,
    /// Where copies of summaries are made.
    room: PathBuf,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for Decider {
    fn default() -> Decider {
        Decider::without_memory(RoutingConfig::default(), |_| {})
    }
}

impl Decider {
    /// A decider that learns, but forgets when it ends. Warnings about summaries are passed to `warn`.
    pub fn without_memory(
        config: RoutingConfig,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Decider {
        Decider {
            learned: Learned::new(config.half_life),
            config: RwLock::new(config),
            shelves: Mutex::default(),
            changes: Arc::new(AtomicU64::new(1)),
            audit: Audit::default(),
            recent: Recent::default(),
            room: std::env::temp_dir(),
            warn: Box::new(warn),
        }
    }

    /// A decider that remembers what it has learned in the file that the configuration names, if any.
    ///
    /// # Errors
    /// If that file is in use or cannot be created.
    pub fn open(
        config: &RoutingConfig,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> waypost_io::Result<Decider> {
        let mut decider = Decider::without_memory(config.clone(), warn);
        if let Some(path) = &config.learned {
            let mut report = |text: String| (decider.warn)(&text);
            decider.learned = Learned::open(path, config.half_life, &mut report)?;
        }
        Ok(decider)
    }

    /// Takes another configuration. Half-life and file of what is learned stay.
    pub fn update(&self, config: &RoutingConfig) {
        let known = self.config.write();
        *known.unwrap_or_else(PoisonError::into_inner) = config.clone();
    }

    /// Opens the summaries of all archives that are new or have changed. Takes as long as it takes to
    /// read them; lookups are decided meanwhile. If `settle` is set, files that are being written at
    /// the moment are left for the next time.
    pub fn refresh(&self, registry: &Registry, settle: bool) {
        let folder = self.read_config().downloads.clone();
        for archive in &registry.archives {
            let shelf = self.shelf(&archive.id);
            let mut warn = |text: String| (self.warn)(&text);
            let mut paths = archive.summaries.clone();
            if let Some(folder) = &folder {
                let sources = archive.sources.iter();
                let installed = sources.map(|url| downloads::installed(folder, &archive.id, url));
                // Before the first download there is nothing to warn about.
                paths.extend(installed.filter(|path| path.exists() || shelf.knows(path)));
            }
            shelf.refresh(archive, &paths, &self.room, settle, &mut warn);
        }
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.retain(|id, _| registry.position(id).is_some());
    }

    fn read_config(&self) -> std::sync::RwLockReadGuard<'_, RoutingConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what was learned to its file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&self) -> waypost_io::Result<()> {
        self.learned.flush()
    }

    /// The recall of the router, as far as probes have measured it.
    pub fn audited_recall(&self) -> AuditedRecall {
        self.audit.recall()
    }

    /// How the summaries of an archive are doing.
    pub fn summaries(&self, id: &str) -> Vec<SummaryState> {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.get(id).map(Arc::clone);
        drop(shelves);
        let set = shelf.map(|shelf| shelf.current());
        let entries = set.iter().flat_map(|set| &set.entries);
        entries.map(summaries::Entry::state).collect()
    }

    fn shelf(&self, id: &str) -> Arc<Shelf> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = shelves.entry(id.to_owned());
        Arc::clone(shelf.or_insert_with(|| Arc::new(Shelf::new(Arc::clone(&self.changes)))))
    }

    /// The archives of a registry, in its order.
    pub(crate) fn seats(&self, registry: &Registry) -> Seats {
        let archives = registry.archives.iter();
        let seats = archives.map(|archive| (self.shelf(&archive.id), Seed::of(&archive.id)));
        Seats::new(seats.collect(), Arc::clone(&self.changes))
    }

    /// Decides which archives are asked for a lookup, in which order, and why.
    pub(crate) fn decide(&self, registry: &Registry, seats: &Seats, lookup: &Lookup) -> Decision {
        let config = self.read_config();
        let spellings = Spellings::new(&lookup.uri);
        let questions = Questions::new(&spellings, false);
        let for_page = Questions::new(&spellings, true);
        let sets = seats.sets();
        consult::prefetch(&sets, &questions);
        let usual = questions.get(Dialect::default());
        let expected = match usual {
            Some(usual) => self.learned.expect_all(seats, &Parts::of(usual.surt())),
            None => Vec::new(),
        };
        let page = lookup.page.as_deref().and_then(|page| {
            let surt = usual_surt(page)?;
            self.recent.get(&surt)
        });
        // What a page embeds is usually where the page is.
        let around = lookup.page.as_deref().filter(|_| !lookup.for_page);
        let around = around.map(Spellings::new);
        let around = around.as_ref().map(|page| Questions::new(page, true));
        let mut elsewhere: Vec<usize> = Vec::new();
        let mut is_located = false;
        let clocks = Clocks::now();
        let now = Timestamp::try_from(clocks.wall).ok();
        let now = now.and_then(Datetime::new);
        let at = match lookup.wanted {
            Wanted::Closest(datetime) => Time::parse(datetime.timestamp().as_bytes()),
            Wanted::All => None,
        };
        let mut dice = self.audit.dice(config.probe);
        let mut choices: Vec<Choice> = Vec::with_capacity(sets.len());
        // Choices are large: their ranks are sorted instead.
        let mut ranks: Vec<Rank> = Vec::with_capacity(sets.len());
        for (place, (archive, set)) in registry.archives.iter().zip(sets.iter()).enumerate() {
            let mut choice = Choice::unknown(place);
            if !lookup.archives.has(&archive.id) {
                choice.reason = Reason::NotSelected;
                choices.push(choice);
                ranks.push(Rank::last(place));
                continue;
            }
            let consultation = Consultation {
                questions: match archive.pages {
                    ForPages::Asked if lookup.for_page => &for_page,
                    ForPages::Always => &for_page,
                    ForPages::Asked | ForPages::Never => &questions,
                },
                at,
                preference: &lookup.preference,
                max_age: archive.max_age.or(config.max_age),
                fuzzy: archive.fuzzy,
                clocks,
                warn: &*self.warn,
            };
            let mut of_page = Choice::unknown(place);
            if let Some(shelf) = seats.shelf(place) {
                consultation.consult(shelf, set, &mut choice);
                if let (Some(questions), Presence::Unknown) = (&around, choice.presence) {
                    let consultation = Consultation {
                        questions,
                        ..consultation
                    };
                    consultation.consult(shelf, set, &mut of_page);
                }
            }
            let expected = expected.get(place).copied().unwrap_or_default();
            choice.latency = expected
                .seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .or(archive.latency);
            choice.expect(&expected, archive.probability);
            choice.asked = choice.presence.is_possible();
            let excluded = archive.rules.has_patterns()
                && questions
                    .get(archive.dialect)
                    .is_some_and(|question| archive.rules.excludes(question.surt()));
            let hindrance = match excluded {
                true => Some((Hindrance::Pattern, Duration::ZERO)),
                false => now.and_then(|now| archive.rules.outside(lookup.wanted, now)),
            };
            if let Some((hindrance, away)) = hindrance.filter(|_| choice.asked) {
                choice.hinder(hindrance, away);
            }
            match of_page.presence {
                Presence::Present => is_located |= choice.asked,
                Presence::Absent if choice.asked => elsewhere.push(place),
                _ => {}
            }
            if choice.reason == Reason::Absent && dice.as_mut().is_some_and(Dice::draws) {
                choice.asked = true;
                choice.reason = Reason::Probe;
            }
            if config.recall < 1.0 && expected.lookups >= ENOUGH {
                choice.chance = expected.chance;
            }
            let seconds = choice.latency.map_or(1.0, |time| time.as_secs_f64());
            ranks.push(Rank {
                first: of_page.presence == Presence::Present
                    || page.as_ref().is_some_and(|page| page.found_in(&archive.id)),
                priority: archive.priority,
                value: choice.estimate.unwrap_or(0.5) / (0.25 + seconds),
                place,
            });
            choices.push(choice);
        }
        postpone_distant(&mut choices);
        // TimeMaps list what all archives have.
        if is_located && lookup.wanted != Wanted::All {
            for place in elsewhere {
                choices[place].postpone(Reason::Rest);
            }
        }
        ranks.sort_by(Rank::order);
        if config.recall < 1.0 {
            leave_out_unlikely(&mut choices, config.recall);
        }
        if let Some(top) = config.top {
            let regular = |choice: &Choice| choice.asked && choice.reason != Reason::Probe;
            let mut asked = 0;
            for rank in &ranks {
                let choice = &mut choices[rank.place];
                if regular(choice) {
                    asked += 1;
                    if asked > top {
                        choice.postpone(Reason::Rest);
                    }
                }
            }
        }
        ranks.sort_by_key(|rank| choices[rank.place].round());
        let mut choices: Vec<Option<Choice>> = choices.into_iter().map(Some).collect();
        let ordered = ranks.iter().filter_map(|rank| choices[rank.place].take());
        Decision {
            choices: ordered.collect(),
        }
    }

    /// Learns from what became of a lookup.
    pub(crate) fn observe(
        &self,
        registry: &Registry,
        seats: &Seats,
        decision: &Decision,
        lookup: &Lookup,
        outcomes: &[Outcome],
    ) {
        let Some(surt) = usual_surt(&lookup.uri) else {
            return;
        };
        let parts = Parts::of(&Surt::new(&surt));
        let mut replies = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let Some(archive) = registry.archives.get(outcome.archive) else {
                continue;
            };
            replies.push((archive.id.clone(), outcome.took, outcome.reply.clone()));
            let found = match &outcome.reply {
                Reply::Mementos(count) | Reply::Partial(count, _) if *count > 0 => *count as u64,
                Reply::Mementos(_) | Reply::Nothing(_) => 0,
                _ => continue,
            };
            if let Some(seed) = seats.seed(outcome.archive) {
                let took = Some(outcome.took);
                self.learned.add(seed, &parts, lookup.client, found, took);
            }
            let mut choices = decision.choices.iter();
            match choices.find(|choice| choice.archive == outcome.archive) {
                Some(choice) if choice.reason == Reason::Probe => self.audit.probed(found > 0),
                _ => self.audit.asked(found > 0),
            }
        }
        let excluded = |choice: &&Choice| {
            let left_out = matches!(
                choice.reason,
                Reason::Absent | Reason::Unlikely | Reason::Pattern
            );
            left_out || choice.reason == Reason::Probe
        };
        let excluded = decision.choices.iter().filter(excluded).count();
        self.audit.excluded(excluded as u64);
        self.recent.put(
            &surt,
            LastAnswer {
                at: SystemTime::now(),
                replies,
            },
        );
    }

    /// What became of the last lookup of a URI.
    pub(crate) fn last_answer(&self, uri: &str) -> Option<Arc<LastAnswer>> {
        self.recent.get(&usual_surt(uri)?)
    }
}

/// Mementos that are further away from a datetime than this are not near it.
const NEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Postpones archives whose summaries say that they have nothing near the datetime that is asked for,
/// if there are others that may have.
fn postpone_distant(choices: &mut [Choice]) {
    let near = |choice: &Choice| choice.away <= NEAR;
    let regular = |choice: &Choice| choice.asked && choice.reason == Reason::Present;
    let distant = choices
        .iter()
        .any(|choice| regular(choice) && !near(choice));
    if !distant || !choices.iter().any(|choice| choice.asked && near(choice)) {
        return;
    }
    for choice in choices.iter_mut().filter(|choice| regular(choice)) {
        if !near(choice) {
            choice.postpone(Reason::Time);
        }
    }
}

/// What the order of an archive depends on.
struct Rank {
    /// Whether the page that the lookup belongs to was found there.
    first: bool,
    priority: i64,
    /// Expected mementos per second.
    value: f64,
    place: usize,
}

impl Rank {
    fn last(place: usize) -> Rank {
        Rank {
            first: false,
            priority: 0,
            value: 0.0,
            place,
        }
    }

    fn order(&self, other: &Rank) -> Ordering {
        let order = (other.first, other.priority).cmp(&(self.first, self.priority));
        order.then_with(|| other.value.total_cmp(&self.value))
    }
}
