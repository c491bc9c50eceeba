//! Aggregates: decides whom to ask, asks everyone at once, merges what arrives.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use waypost_memento::{Datetime, Memento};

use crate::ask::{Asked, Client, NamedHosts};
use crate::decide::{Choice, Decider, Decision, Reason, Seats};
use crate::manners::{Change, Manners};
use crate::merge::{merge, sort};
use crate::tally::Tallies;
use crate::{Aggregate, Lookup, Outcome, Registry, Reply, Wanted};

/// How long the last answers may still be parsed after the deadline.
const GRACE: Duration = Duration::from_millis(200);

/// Asks the archives of a registry. Clones share connections and what is known about archives.
#[derive(Clone)]
pub struct Router {
    registry: Arc<Registry>,
    hosts: NamedHosts,
    client: Client,
    manners: Arc<Manners>,
    decider: Arc<Decider>,
    tallies: Arc<Tallies>,
    /// The archives as the decider knows them, in the order of the registry.
    seats: Arc<Seats>,
}

/// How a lookup is to be answered.
#[derive(Clone)]
pub struct AggregateOptions {
    /// How long to wait for archives. What has arrived by then is the answer.
    pub deadline: Duration,
    /// Who is told what happens.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for AggregateOptions {
    fn default() -> AggregateOptions {
        AggregateOptions {
            deadline: Duration::from_secs(60),
            observer: None,
        }
    }
}

/// Is told what happens while a lookup is answered.
pub trait Observer: Send + Sync {
    /// Something happened. Must not block.
    fn observe(&self, event: &Event);
}

/// What happens while a lookup is answered. Archives are named by their places in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An archive is going to be asked.
    Asking {
        /// Which.
        archive: usize,
        /// When.
        at: SystemTime,
    },
    /// An archive has answered, or has failed to.
    Fetched {
        /// Which.
        archive: usize,
        /// When it was asked.
        start: SystemTime,
        /// When its answer was there.
        end: SystemTime,
        /// What became of it.
        reply: Reply,
    },
    /// The mementos of an archive were read from its answer.
    Extracted {
        /// Which.
        archive: usize,
        /// How many there are.
        count: usize,
        /// When reading began.
        start: SystemTime,
        /// When it was finished.
        end: SystemTime,
    },
    /// An archive is left alone from now on, or asked again.
    Changed {
        /// Which.
        archive: usize,
        /// How.
        change: Change,
    },
    /// The mementos of all archives were merged.
    Merged {
        /// How many there are.
        count: usize,
        /// When merging began.
        start: SystemTime,
        /// When it was finished.
        end: SystemTime,
    },
}

impl Router {
    /// A router that asks the archives of a registry, with the usual manners.
    pub fn new(registry: Registry, client: Client) -> Router {
        Router::with_manners(registry, client, Arc::default())
    }

    /// A router that asks the archives of a registry, with manners that know them already. They take
    /// the limits of the registry.
    pub fn with_manners(registry: Registry, client: Client, manners: Arc<Manners>) -> Router {
        manners.update(&registry);
        let decider = Arc::<Decider>::default();
        Router {
            hosts: NamedHosts::new(&registry),
            seats: Arc::new(decider.seats(&registry)),
            registry: Arc::new(registry),
            client,
            manners,
            decider,
            tallies: Arc::default(),
        }
    }

    /// The same router with another decider.
    #[must_use]
    pub fn with_decider(mut self, decider: Arc<Decider>) -> Router {
        self.seats = Arc::new(decider.seats(&self.registry));
        self.decider = decider;
        self
    }

    /// A router of another registry, with the same connections and what is known about archives.
    pub fn with_registry(&self, registry: Registry) -> Router {
        let manners = Arc::clone(&self.manners);
        let mut router = Router::with_manners(registry, self.client.clone(), manners)
            .with_decider(Arc::clone(&self.decider));
        router.tallies = Arc::clone(&self.tallies);
        router
    }

    /// How archives are doing.
    pub fn manners(&self) -> &Manners {
        &self.manners
    }

    /// The archives as the decider knows them, in the order of the registry.
    pub(crate) fn seats(&self) -> &Seats {
        &self.seats
    }

    /// What was asked of each archive.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// What decides which archives are asked.
    pub fn decider(&self) -> &Arc<Decider> {
        &self.decider
    }

    /// Decides which archives are asked for a lookup.
    pub fn decide(&self, lookup: &Lookup) -> Decision {
        self.decider.decide(&self.registry, &self.seats, lookup)
    }

    /// The archives.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Asks the archives for a lookup and merges what they answer before the deadline. Dropping the
    /// future ends all requests.
    pub async fn aggregate(&self, lookup: &Lookup, options: &AggregateOptions) -> Aggregate {
        let start = Instant::now();
        let deadline = start + options.deadline.min(Duration::from_secs(365 * 24 * 3600));
        // Before the decision: a summary that changes meanwhile counts as changed.
        let sets = self.seats.sets();
        let decision = self.decide(lookup);
        let lookup = Arc::new(lookup.clone());
        let first = decision.asked().map(|choice| choice.archive);
        let mut lists: Vec<(usize, Vec<Memento>)> = Vec::new();
        let mut outcomes = self
            .ask_all(first.collect(), &lookup, deadline, options, &mut lists)
            .await;
        let later = still_needed(&decision, lookup.wanted, &lists);
        if !later.is_empty() && Instant::now() < deadline {
            let more = self.ask_all(later, &lookup, deadline, options, &mut lists);
            outcomes.extend(more.await);
        }
        outcomes.sort_by_key(|outcome| outcome.archive);
        self.decider
            .observe(&self.registry, &self.seats, &decision, &lookup, &outcomes);
        self.tallies.add(&self.registry, &decision, &outcomes);
        let merging = SystemTime::now();
        let mementos = merge(lists);
        if let Some(observer) = &options.observer {
            observer.observe(&Event::Merged {
                count: mementos.len(),
                start: merging,
                end: SystemTime::now(),
            });
        }
        let absent = |choice: &&Choice| choice.reason == Reason::Absent;
        let left_out = decision.choices.iter().filter(absent);
        let left_out = left_out.map(|choice| (choice.archive, sets[choice.archive].identity));
        Aggregate {
            mementos,
            outcomes,
            left_out: left_out.collect(),
        }
    }

    /// Whether all summaries that left archives out of an answer are still the same.
    pub(crate) fn is_current(&self, answer: &Aggregate) -> bool {
        let sets = self.seats.sets();
        let known = |place: usize| sets.get(place).map(|set| set.identity);
        let mut left_out = answer.left_out.iter();
        left_out.all(|&(place, identity)| known(place) == Some(identity))
    }

    /// Asks archives, all at once. What they have is added to `lists`.
    async fn ask_all(
        &self,
        archives: Vec<usize>,
        lookup: &Arc<Lookup>,
        deadline: Instant,
        options: &AggregateOptions,
        lists: &mut Vec<(usize, Vec<Memento>)>,
    ) -> Vec<Outcome> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        let mut outcomes = Vec::with_capacity(archives.len());
        for archive in archives {
            outcomes.push(Outcome {
                archive,
                took: Duration::ZERO,
                reply: Reply::Late,
            });
            let (router, lookup) = (self.clone(), Arc::clone(lookup));
            let observer = options.observer.clone();
            running.spawn(async move {
                let began = Instant::now();
                let asked = router.ask(archive, &lookup, deadline, observer).await;
                (archive, began.elapsed(), asked)
            });
        }
        // Conversations end by themselves at the deadline, with what they have.
        while let Ok(Some(done)) = timeout_at(deadline + GRACE, running.join_next()).await {
            let Ok((archive, took, asked)) = done else {
                continue;
            };
            let outcome = outcomes.iter_mut().find(|o| o.archive == archive);
            if let Some(outcome) = outcome {
                outcome.took = took;
                outcome.reply = asked.reply;
            }
            lists.push((archive, asked.mementos));
        }
        for outcome in &mut outcomes {
            if outcome.reply == Reply::Late && outcome.took.is_zero() {
                outcome.took = start.elapsed();
            }
        }
        outcomes
    }

    /// Asks an archive for a memento, and returns the answer, whose body is not read yet. Redirects
    /// are not followed.
    pub(crate) async fn open(
        &self,
        place: usize,
        uri: &str,
        deadline: Duration,
    ) -> Result<reqwest::Response, Reply> {
        let archive = self.registry.archives.get(place);
        let archive = archive.ok_or_else(|| Reply::Spared("unknown archive".to_owned()))?;
        let deadline = Instant::now() + deadline;
        let permit = self.manners.enter(&archive.id, deadline).await;
        let permit = permit.map_err(|refusal| Reply::Spared(refusal.to_string()))?;
        let opened = self
            .client
            .open(&self.hosts, archive, &permit, uri, deadline);
        let opened = opened.await;
        permit.report(opened.as_ref().err().unwrap_or(&Reply::Mementos(1)));
        opened
    }

    async fn ask(
        &self,
        place: usize,
        lookup: &Lookup,
        deadline: Instant,
        observer: Option<Arc<dyn Observer>>,
    ) -> Asked {
        let archive = &self.registry.archives[place];
        let start = SystemTime::now();
        let observe = |event| {
            if let Some(observer) = &observer {
                observer.observe(&event);
            }
        };
        observe(Event::Asking {
            archive: place,
            at: start,
        });
        let mut changes = Vec::new();
        let mut asked = match self.manners.enter(&archive.id, deadline).await {
            Err(refusal) => Asked::spared(refusal.to_string()),
            Ok(permit) => {
                let asked = self
                    .client
                    .ask(&self.hosts, archive, &permit, lookup, deadline);
                let asked = asked.await;
                changes.extend(permit.report(&asked.reply));
                asked
            }
        };
        let end = SystemTime::now();
        let fetched = end.checked_sub(asked.parsing).unwrap_or(end).max(start);
        observe(Event::Fetched {
            archive: place,
            start,
            end: fetched,
            reply: asked.reply.clone(),
        });
        for change in changes {
            observe(Event::Changed {
                archive: place,
                change,
            });
        }
        if matches!(asked.reply, Reply::Mementos(_) | Reply::Partial(..)) {
            sort(&mut asked.mementos);
            observe(Event::Extracted {
                archive: place,
                count: asked.mementos.len(),
                start: fetched,
                end: SystemTime::now(),
            });
        }
        asked
    }
}

/// Which archives that were to be asked later are asked now that the first have answered: all if those
/// had nothing; else those that may have a memento closer to the datetime than all that was found.
pub(crate) fn still_needed(
    decision: &Decision,
    wanted: Wanted,
    lists: &[(usize, Vec<Memento>)],
) -> Vec<usize> {
    let found = lists.iter().flat_map(|(_, mementos)| mementos);
    let best = match wanted {
        Wanted::All => None,
        Wanted::Closest(datetime) => {
            let seconds = |datetime: Datetime| datetime.to_jiff().as_second();
            let away = |memento: &Memento| seconds(memento.datetime).abs_diff(seconds(datetime));
            found.clone().map(away).min()
        }
    };
    let nothing = found.count() == 0;
    let closer = |choice: &&Choice| {
        let away = choice.away.as_secs();
        nothing || (away > 0 && best.is_some_and(|best| away < best))
    };
    let later = decision.asked_later().filter(closer);
    later.map(|choice| choice.archive).collect()
}
