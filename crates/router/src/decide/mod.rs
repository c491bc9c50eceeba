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
//! | `summaries`, `snapshot` | the summaries of an archive, replaced without a pause; private copies |
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
mod downloads;
mod explain;
mod learned;
mod logs;
mod recent;
mod rules;
mod simulate;
mod snapshot;
mod summaries;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use waypost_memento::Datetime;
use waypost_summary::{Answer, Frequency, Presence, SurtWriter, combine};
use waypost_surt::{Dialect, Surt};

pub use audit::AuditedRecall;
pub(crate) use catalogue::RouterCatalogue;
pub use downloads::published_map;
pub use explain::{batch_line, explanation};
pub use logs::{LogReport, learn_log};
pub use rules::{Pattern, Period, Rules};
pub use simulate::{ArchiveTally, Completeness, Simulation, Truth, simulate};
pub use watch::Watch;

use audit::Audit;
use learned::{Expectation, Learned, Parts, Seed};
use recent::{LastAnswer, Recent};
use rules::Hindrance;
pub use summaries::SummaryState;
use summaries::{OpenSummary, Shelf, State};

use crate::{Lookup, Outcome, Registry, Reply, RoutingConfig};

/// Which archives are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// All archives of the registry: those that are asked first, in the order in which they are to be
    /// asked, then those that are asked if the first had nothing, then the others.
    pub choices: Vec<Choice>,
}

impl Decision {
    /// The archives that are asked first.
    pub fn asked(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(|choice| choice.asked)
    }

    /// The archives that are asked if the first had nothing.
    pub fn asked_later(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(|choice| choice.later)
    }
}

/// What was decided about an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its place in the registry.
    pub archive: usize,
    /// Whether it is asked.
    pub asked: bool,
    /// Whether it is asked if those that are asked first have nothing.
    pub later: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// What its summaries say.
    pub presence: Presence,
    /// The summary that decides.
    pub summary: Option<Arc<str>>,
    /// The key of that summary that decides.
    pub key: Option<Vec<u8>>,
    /// The frequency of that key.
    pub frequency: Option<Frequency>,
    /// The age of that summary.
    pub age: Option<Duration>,
    /// Why a summary that can't be trusted can't.
    pub problem: Option<Arc<str>>,
    /// How many mementos are expected; `None` if nothing is known.
    pub estimate: Option<f64>,
    /// How long the archive is expected to take.
    pub latency: Option<Duration>,
    /// The learned chance that it has something, if that may leave it out.
    chance: Option<f64>,
}

/// Why an archive is asked or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has no summary, or none that covers the lookup.
    Unknown,
    /// All summaries that cover the lookup are older than the registry allows.
    Stale,
    /// A summary can't be read or trusted.
    Damaged,
    /// A summary says that it may hold something.
    Present,
    /// A summary says that it holds nothing.
    Absent,
    /// A summary says that it holds nothing, but it is asked to see whether that is true.
    Probe,
    /// Its patterns in the registry exclude the URI.
    Pattern,
    /// It has no captures of that time, according to the registry.
    Period,
    /// It does not show captures of that time yet, according to the registry.
    Embargo,
    /// It has seldom had anything like this, and the configuration accepts a recall below 1.
    Unlikely,
    /// Others are more promising.
    Rest,
    /// The client did not select it.
    NotSelected,
}

impl Reason {
    /// The reason in a word.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Unknown => "unknown",
            Reason::Stale => "stale",
            Reason::Damaged => "damaged",
            Reason::Present => "present",
            Reason::Absent => "absent",
            Reason::Probe => "probe",
            Reason::Pattern => "pattern",
            Reason::Period => "period",
            Reason::Embargo => "embargo",
            Reason::Unlikely => "unlikely",
            Reason::Rest => "rest",
            Reason::NotSelected => "not-selected",
        }
    }
}

/// How many lookups for a part of the key space must have been seen before an archive is left out
/// because of them.
const ENOUGH: f64 = 20.0;

/// Decides which archives are asked. Shared by all routers of a server, whatever their registry.
pub struct Decider {
    config: RwLock<RoutingConfig>,
    shelves: Mutex<HashMap<String, Arc<Shelf>>>,
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

/// An archive as the decider knows it.
#[derive(Clone)]
pub(crate) struct Seat {
    shelf: Arc<Shelf>,
    seed: Seed,
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
            let seat = self.seat(&archive.id);
            let mut warn = |text: String| (self.warn)(&text);
            let mut paths = archive.summaries.clone();
            if let Some(folder) = &folder {
                let sources = archive.sources.iter();
                let installed = sources.map(|url| downloads::installed(folder, &archive.id, url));
                // Before the first download there is nothing to warn about.
                paths.extend(installed.filter(|path| path.exists() || seat.shelf.knows(path)));
            }
            seat.shelf
                .refresh(&archive.id, &paths, &self.room, settle, &mut warn);
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

    fn seat(&self, id: &str) -> Seat {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        Seat {
            shelf: Arc::clone(shelves.entry(id.to_owned()).or_default()),
            seed: Seed::of(id),
        }
    }

    /// The archives of a registry, in its order.
    pub(crate) fn seats(&self, registry: &Registry) -> Vec<Seat> {
        let archives = registry.archives.iter();
        archives.map(|archive| self.seat(&archive.id)).collect()
    }

    /// Decides which archives are asked for a lookup, in which order, and why.
    pub(crate) fn decide(&self, registry: &Registry, seats: &[Seat], lookup: &Lookup) -> Decision {
        let config = self.read_config();
        let mut spellings = Spellings::new(&lookup.uri);
        let (view, usual) = (self.learned.view(), spellings.get(Dialect::default()));
        let parts = usual.as_deref().map(|surt| Parts::of(&Surt::new(surt)));
        let page = lookup.page.as_deref().and_then(|page| {
            let surt = Spellings::new(page).get(Dialect::default())?;
            self.recent.get(&surt)
        });
        // Once: thirty archives would read the clocks sixty times.
        let clocks = (SystemTime::now(), Instant::now());
        let now = Timestamp::try_from(clocks.0).ok().and_then(Datetime::new);
        let mut ranked: Vec<(bool, i64, f64, Choice)> = Vec::with_capacity(seats.len());
        for (place, (archive, seat)) in registry.archives.iter().zip(seats).enumerate() {
            let mut choice = Choice::unknown(place);
            if !lookup.archives.has(&archive.id) {
                choice.reason = Reason::NotSelected;
                ranked.push((false, 0, 0.0, choice));
                continue;
            }
            let max_age = archive.max_age.or(config.max_age);
            self.consult(&seat.shelf, max_age, clocks, &mut spellings, &mut choice);
            let expected = match (&view, &parts) {
                (Some(view), Some(parts)) => view.expect(seat.seed, parts),
                _ => Expectation::default(),
            };
            choice.latency = expected
                .seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            choice.expect(&expected, archive.probability);
            choice.asked = choice.presence.is_possible();
            let excluded = archive.rules.has_patterns()
                && spellings
                    .get(archive.dialect)
                    .is_some_and(|surt| archive.rules.excludes(&Surt::new(&surt)));
            let hindrance = match excluded {
                true => Some(Hindrance::Pattern),
                false => now.and_then(|now| archive.rules.outside(lookup.wanted, now)),
            };
            if let Some(hindrance) = hindrance.filter(|_| choice.asked) {
                choice.asked = false;
                choice.later = hindrance != Hindrance::Pattern;
                choice.reason = match hindrance {
                    Hindrance::Pattern => Reason::Pattern,
                    Hindrance::Period => Reason::Period,
                    Hindrance::Embargo => Reason::Embargo,
                };
                if hindrance == Hindrance::Pattern {
                    choice.presence = Presence::Absent;
                    choice.estimate = Some(0.0);
                }
            }
            if choice.reason == Reason::Absent && self.audit.draws(config.probe) {
                choice.asked = true;
                choice.reason = Reason::Probe;
            }
            let first = page.as_ref().is_some_and(|page| page.found_in(&archive.id));
            let seconds = expected.seconds.unwrap_or(1.0);
            let value = choice.estimate.unwrap_or(0.5) / (0.25 + seconds);
            let weight = match config.recall < 1.0 && expected.lookups >= ENOUGH {
                true => expected.chance,
                false => None,
            };
            choice.chance = weight;
            ranked.push((first, archive.priority, value, choice));
        }
        ranked.sort_by(|a, b| {
            let order = (b.0, b.1).cmp(&(a.0, a.1));
            order.then_with(|| b.2.total_cmp(&a.2))
        });
        let mut choices: Vec<Choice> = ranked.into_iter().map(|ranked| ranked.3).collect();
        if config.recall < 1.0 {
            leave_out_unlikely(&mut choices, config.recall);
        }
        if let Some(top) = config.top {
            let regular = |choice: &&mut Choice| choice.asked && choice.reason != Reason::Probe;
            for choice in choices.iter_mut().filter(regular).skip(top) {
                choice.asked = false;
                choice.later = true;
                choice.reason = Reason::Rest;
            }
        }
        choices.sort_by_key(|choice| match (choice.asked, choice.later) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        });
        Decision { choices }
    }

    /// What the summaries of an archive say about a lookup.
    fn consult(
        &self,
        shelf: &Shelf,
        max_age: Option<Duration>,
        (clock, steady): (SystemTime, Instant),
        spellings: &mut Spellings<'_>,
        choice: &mut Choice,
    ) {
        let set = shelf.current();
        let mut answers: Vec<(&Arc<str>, &Arc<OpenSummary>, Answer)> =
            Vec::with_capacity(set.entries.len());
        for entry in &set.entries {
            let open = match &entry.state {
                State::Open(open) => open,
                State::Refused(_, why) => {
                    choice.blame(Reason::Damaged, &entry.name);
                    choice.problem = Some(Arc::clone(why));
                    continue;
                }
            };
            if let Some(max_age) = max_age
                && open.age_at(clock, steady).is_none_or(|age| age > max_age)
            {
                choice.blame(Reason::Stale, &entry.name);
                choice.age = open.age_at(clock, steady);
                continue;
            }
            let about = open.summary.about();
            let Some(surt) = spellings.get(about.dialect) else {
                continue;
            };
            let answer = with_lookup(&surt, |lookup| open.summary.lookup(lookup));
            match answer {
                Ok(answer) => answers.push((&entry.name, open, answer)),
                Err(error) => {
                    let why = error.to_string();
                    (self.warn)(&format!("{}: {why}; it is no longer used", entry.name));
                    shelf.distrust(open, &why);
                    choice.blame(Reason::Damaged, &entry.name);
                }
            }
        }
        let combined = match &answers[..] {
            [] => return,
            [(_, _, answer)] => answer.clone(),
            _ => combine(
                answers
                    .iter()
                    .map(|(_, open, answer)| (open.summary.about(), answer.clone())),
            ),
        };
        let presence = combined.presence();
        if presence == Presence::Unknown {
            if choice.reason == Reason::Unknown {
                choice.summary = answers.first().map(|(name, ..)| Arc::clone(name));
            }
            return;
        }
        let decisive = answers.iter().find(|(_, _, answer)| *answer == combined);
        if let Some((name, open, _)) = decisive {
            choice.summary = Some(Arc::clone(name));
            choice.age = open.age_at(clock, steady);
        }
        choice.presence = presence;
        choice.reason = match presence {
            Presence::Absent => Reason::Absent,
            _ => Reason::Present,
        };
        if let Answer::Present(found) = combined {
            choice.frequency = Some(found.frequency);
            choice.key = found.key;
        }
    }

    /// Learns from what became of a lookup.
    pub(crate) fn observe(
        &self,
        registry: &Registry,
        seats: &[Seat],
        decision: &Decision,
        lookup: &Lookup,
        outcomes: &[Outcome],
    ) {
        let Some(surt) = Spellings::new(&lookup.uri).get(Dialect::default()) else {
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
            if let Some(seat) = seats.get(outcome.archive) {
                self.learned
                    .add(seat.seed, &parts, found, Some(outcome.took));
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
        let surt = Spellings::new(uri).get(Dialect::default())?;
        self.recent.get(&surt)
    }
}

impl Choice {
    fn unknown(archive: usize) -> Choice {
        Choice {
            archive,
            asked: false,
            later: false,
            reason: Reason::Unknown,
            presence: Presence::Unknown,
            summary: None,
            key: None,
            frequency: None,
            age: None,
            problem: None,
            estimate: None,
            latency: None,
            chance: None,
        }
    }

    /// A summary can't answer. Another one still may.
    fn blame(&mut self, reason: Reason, summary: &Arc<str>) {
        self.reason = reason;
        self.summary = Some(Arc::clone(summary));
    }

    /// Estimates the number of mementos from the frequency of the key and from what was learned.
    fn expect(&mut self, expected: &Expectation, probability: f64) {
        let counted = self.frequency.and_then(|frequency| {
            let captures = frequency.captures?.value as f64;
            let exact = self.key.as_ref().is_some_and(|key| !key.ends_with(b"*"));
            match frequency.urirs {
                Some(urirs) if urirs.value > 0 => Some(captures / urirs.value as f64),
                _ => exact.then_some(captures),
            }
        });
        let mementos = counted.or(expected.mementos);
        self.estimate = match self.presence {
            Presence::Absent => Some(0.0),
            Presence::Present => Some(mementos.unwrap_or(1.0) * expected.chance.unwrap_or(1.0)),
            Presence::Unknown => {
                let chance = expected
                    .chance
                    .or((probability > 0.0).then_some(probability.min(1.0)));
                chance.map(|chance| chance * mementos.unwrap_or(1.0))
            }
        };
    }
}

/// Leaves out the least likely archives, as long as all of them together are not expected to hold more
/// than what the recall allows to miss.
fn leave_out_unlikely(choices: &mut [Choice], recall: f64) {
    let regular = |choice: &Choice| choice.asked && choice.reason != Reason::Probe;
    // Those about which too little is known may hold anything.
    let chance = |choice: &Choice| choice.chance.unwrap_or(1.0);
    let total: f64 = choices.iter().filter(|c| regular(c)).map(chance).sum();
    let mut may_miss = (1.0 - recall) * total;
    let mut order: Vec<usize> = (0..choices.len())
        .filter(|&at| regular(&choices[at]) && choices[at].chance.is_some())
        .collect();
    order.sort_by(|&a, &b| chance(&choices[a]).total_cmp(&chance(&choices[b])));
    for at in order {
        may_miss -= chance(&choices[at]);
        if may_miss < 0.0 {
            break;
        }
        choices[at].asked = false;
        choices[at].reason = Reason::Unlikely;
    }
}

thread_local! {
    /// Canonicalisers keep buffers, which are worth keeping, too.
    static WRITERS: RefCell<Vec<(Dialect, SurtWriter)>> = const { RefCell::new(Vec::new()) };
}

/// The SURTs of a URI in the dialects that were needed so far.
struct Spellings<'a> {
    uri: &'a str,
    known: Vec<(Dialect, Option<Arc<[u8]>>)>,
}

impl<'a> Spellings<'a> {
    fn new(uri: &'a str) -> Spellings<'a> {
        let known = Vec::with_capacity(1);
        Spellings { uri, known }
    }

    /// `None` if the URI has no SURT.
    fn get(&mut self, dialect: Dialect) -> Option<Arc<[u8]>> {
        let known = self.known.iter().find(|(known, _)| *known == dialect);
        if let Some((_, surt)) = known {
            return surt.clone();
        }
        let surt = WRITERS.with_borrow_mut(|writers| {
            let at = writers.iter().position(|(known, _)| *known == dialect);
            let at = at.unwrap_or_else(|| {
                writers.push((dialect, SurtWriter::new(dialect)));
                writers.len() - 1
            });
            let mut surt = Vec::with_capacity(self.uri.len() + 8);
            let written = writers[at].1.write(self.uri.as_bytes(), &mut surt);
            written.ok().map(|()| Arc::from(surt))
        });
        self.known.push((dialect, surt.clone()));
        surt
    }
}

/// Calls a function with the lookup of a SURT.
fn with_lookup<T>(surt: &[u8], call: impl FnOnce(&waypost_summary::Lookup<'_>) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| call(&waypost_summary::Lookup::of_surt(surt, buffer)))
}
