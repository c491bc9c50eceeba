//! An aggregator that runs: its router, the answers it keeps, and what its operators see of it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use serde_json::json;

use crate::log::{Benchmark, Log, go_duration, nanoseconds};
use crate::metrics::{Metrics, result};
use crate::monitor::Monitor;
use crate::{
    AggregateOptions, Cache, CacheDirective, Change, Config, Event, Kept, Lookup, Observer, Origin,
    Registry, Reply, Router,
};

/// An aggregator that runs.
pub struct Aggregator {
    router: RwLock<Arc<Router>>,
    cache: Arc<Cache>,
    operations: Arc<Operations>,
}

/// What operators see.
#[derive(Default)]
pub struct Operations {
    /// Where log lines go.
    pub log: Log,
    /// What is counted.
    pub metrics: Metrics,
    /// Who is told what happens.
    pub monitor: Monitor,
    /// The last number of a session.
    last: AtomicU64,
}

impl Operations {
    /// Operations with a log.
    pub fn new(log: Log) -> Operations {
        Operations {
            log,
            ..Operations::default()
        }
    }

    /// A number for a session or request: the nanoseconds since 1970, and never the same twice.
    pub fn next_number(&self) -> u64 {
        self.number_at(SystemTime::now())
    }

    fn number_at(&self, now: SystemTime) -> u64 {
        let now = nanoseconds(now);
        let last = &self.last;
        let take = |last: u64| Some(now.max(last + 1));
        let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        now.max(before.unwrap_or_default() + 1)
    }

    fn step(&self, session: u64, step: &Benchmark<'_>) {
        self.log.benchmark(session, step);
        self.monitor.send(|| step.event(session));
    }

    /// Counts and logs a request whose answer starts to be sent.
    pub fn answered(&self, request: &AnsweredRequest<'_>) {
        let AnsweredRequest {
            number,
            kind,
            method,
            target,
            client,
            status,
            took,
            session,
        } = *request;
        self.metrics.request(kind, status, took);
        let fields = || {
            json!({
                "event": "request",
                "session": number.to_string(),
                "kind": kind,
                "method": method,
                "target": target,
                "client": client.to_string(),
                "status": status,
                "seconds": took.as_secs_f64(),
            })
        };
        if let Some(session) = session {
            session.finish(status);
        }
        self.log.json("info", fields);
    }

    /// Counts and logs that the configuration was read again, or why it could not be.
    pub fn reloaded(&self, problem: Option<&str>) {
        self.metrics.reload(problem.is_none());
        match problem {
            None => {
                self.log.json("info", || json!({"event": "reload"}));
                self.log.info("Configuration reloaded");
            }
            Some(problem) => {
                let fields = || json!({"event": "reload", "error": problem});
                self.log.json("error", fields);
                self.log.error(problem);
            }
        }
    }
}

/// A request whose answer starts to be sent.
#[derive(Clone, Copy)]
pub struct AnsweredRequest<'a> {
    /// Its number, which is also that of its session.
    pub number: u64,
    /// What was asked for, in one word.
    pub kind: &'static str,
    /// The method of HTTP.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Who asked.
    pub client: IpAddr,
    /// The status of the answer.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
    /// Its session, if it asked for mementos. The session ends.
    pub session: Option<&'a Session>,
}

impl Aggregator {
    /// An aggregator with a router and the answers that it keeps.
    pub fn new(router: Router, cache: Arc<Cache>, operations: Operations) -> Aggregator {
        Aggregator {
            router: RwLock::new(Arc::new(router)),
            cache,
            operations: Arc::new(operations),
        }
    }

    /// The router that answers lookups now.
    pub fn router(&self) -> Arc<Router> {
        Arc::clone(&self.router.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What operators see.
    pub fn operations(&self) -> &Arc<Operations> {
        &self.operations
    }

    /// Takes the archives and lifetimes of another configuration. Lookups under way keep those that
    /// they have, and what is known about archives that stay is kept.
    pub fn reload(&self, config: &Config) {
        let router = self.router().with_registry(config.registry.clone());
        router.decider().update(&config.routing);
        let known = self.router.write();
        *known.unwrap_or_else(PoisonError::into_inner) = Arc::new(router);
        self.cache.update(&config.cache);
        self.operations.log.reopen();
        self.operations.reloaded(None);
    }

    /// The text that Prometheus reads.
    pub fn metrics(&self) -> String {
        let router = self.router();
        let monitors = self.operations.monitor.clients();
        let metrics = &self.operations.metrics;
        let (registry, audited) = (router.registry(), router.decider().audited_recall());
        metrics.text(registry, router.manners(), &self.cache, monitors, &audited)
    }

    /// Starts a session: the answer to one request for mementos, with the number of the request.
    /// `kind` is `timemap` or `timegate`.
    pub fn start(&self, number: u64, uri: &str, kind: &'static str) -> Arc<Session> {
        let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(number);
        let operations = Arc::clone(&self.operations);
        let session = Session {
            number,
            router: self.router(),
            operations,
            uri: uri.to_owned(),
            kind,
            started,
            outcome: Mutex::default(),
        };
        let created = session.step("AGGREGATOR", "createsess", "Session created", started);
        session.tell(&created);
        let log = &session.operations.log;
        log.info(format_args!("Aggregating Mementos for {uri}"));
        Arc::new(session)
    }

    /// Answers the lookup of a session. `None` if the directive forbids to ask, and nothing is kept.
    pub async fn look_up(
        &self,
        session: &Arc<Session>,
        lookup: &Lookup,
        directive: CacheDirective,
        deadline: Duration,
    ) -> Option<Kept> {
        let router = Arc::clone(&session.router);
        let registry = Arc::clone(router.registry());
        let options = AggregateOptions {
            deadline,
            observer: Some(Arc::clone(session) as Arc<dyn Observer>),
        };
        let current = Arc::clone(&router);
        let wanted = lookup.clone();
        let fetch = move || async move { router.aggregate(&wanted, &options).await };
        let again = fetch.clone();
        let cache = &self.cache;
        let mut kept = cache.get(&registry, lookup, directive, fetch).await;
        // What a summary has ruled out, another one may hold.
        let outdated = kept
            .take_if(|kept| kept.origin != Origin::Fetched && !current.is_current(&kept.aggregate));
        if outdated.is_some() && directive != CacheDirective::OnlyKept {
            let refresh = CacheDirective::Refresh;
            kept = cache.get(&registry, lookup, refresh, again).await;
        }
        let origin = kept.as_ref().map(|kept| kept.origin);
        let name = origin.map_or("missing", Origin::name);
        self.operations.metrics.lookup(name);
        *lock(&session.outcome) = kept.as_ref().map(|kept| Looked {
            at: SystemTime::now(),
            origin: name,
            mementos: kept.aggregate.mementos.len(),
            missing: kept.aggregate.missing().collect(),
        });
        kept
    }
}

/// The answer to one request for mementos: what happens is logged, counted and told to clients that
/// monitor.
pub struct Session {
    number: u64,
    /// The router at its start, which it keeps.
    router: Arc<Router>,
    operations: Arc<Operations>,
    uri: String,
    kind: &'static str,
    started: SystemTime,
    outcome: Mutex<Option<Looked>>,
}

/// What a lookup found.
struct Looked {
    at: SystemTime,
    origin: &'static str,
    mementos: usize,
    missing: Vec<usize>,
}

impl Session {
    /// The router of this session.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// The number that all its log lines have.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The body of a memento is going to be passed on.
    pub(crate) fn proxying(&self, uri: &str) {
        let log = &self.operations.log;
        log.info(format_args!("Serving as proxy for: {uri}"));
    }

    /// Ends the session: its answer, with this status, starts to be sent.
    pub fn finish(&self, status: u16) {
        let took = self.started.elapsed().unwrap_or_default();
        let looked = lock(&self.outcome).take();
        let (count, origin) = match &looked {
            Some(looked) => (looked.mementos, looked.origin),
            None => (0, "missing"),
        };
        if let Some(looked) = looked {
            let registry = self.router.registry();
            let missing: Vec<&str> = looked
                .missing
                .iter()
                .filter_map(|&place| Some(&registry.archives.get(place)?.id[..]))
                .collect();
            self.operations.log.json("info", || {
                json!({
                    "event": "lookup",
                    "session": self.number.to_string(),
                    "uri": self.uri,
                    "kind": self.kind,
                    "status": status,
                    "count": count,
                    "origin": origin,
                    "missing": missing,
                    "seconds": took.as_secs_f64(),
                })
            });
            if count > 0 {
                let relations = "Navigational relations annotated";
                self.tell(&self.step("AGGREGATOR", "setnav", relations, looked.at));
                let serialized = format!("{count} mementos serialized");
                self.tell(&self.step("AGGREGATOR", "serialize", serialized, looked.at));
            }
        }
        let total = format!("Total Mementos: {count} in {}", go_duration(took));
        self.operations.log.info(total);
        self.tell(&self.step("SESSION", self.kind, "Complete session", self.started));
    }

    /// A step that ends now.
    fn step<'a>(
        &self,
        origin: &'a str,
        role: &'a str,
        info: impl Into<String>,
        start: SystemTime,
    ) -> Benchmark<'a> {
        Benchmark {
            origin,
            role,
            info: info.into(),
            start,
            end: SystemTime::now(),
        }
    }

    fn tell(&self, step: &Benchmark<'_>) {
        self.operations.step(self.number, step);
    }

    fn fetched(&self, archive: usize, start: SystemTime, end: SystemTime, reply: &Reply) {
        let registry: &Registry = self.router.registry();
        let Some(archive) = registry.archives.get(archive) else {
            return;
        };
        let operations = &*self.operations;
        let (id, name) = (&archive.id[..], archive.name.as_deref().unwrap_or_default());
        let took = end.duration_since(start).unwrap_or_default();
        operations.metrics.asked(id, reply, took);
        let fields = || {
            let mut fields = json!({
                "event": "archive",
                "session": self.number.to_string(),
                "uri": self.uri,
                "archive": id,
                "result": result(reply),
                "seconds": took.as_secs_f64(),
            });
            match reply {
                Reply::Mementos(count) => fields["count"] = (*count).into(),
                Reply::Partial(count, why) => {
                    fields["count"] = (*count).into();
                    fields["error"] = why.as_str().into();
                }
                Reply::Nothing(status) | Reply::Status(status) => {
                    fields["status"] = (*status).into()
                }
                Reply::Failed(why) | Reply::Spared(why) | Reply::Kept(_, why) => {
                    fields["error"] = why.as_str().into();
                }
                Reply::Late => {}
            }
            fields
        };
        let level = match reply.is_incomplete() {
            true => "warn",
            false => "info",
        };
        operations.log.json(level, fields);
        let info = match reply {
            Reply::Mementos(_) | Reply::Partial(..) | Reply::Nothing(200..=299) => {
                format!("TimeMap fetched from {name}")
            }
            Reply::Nothing(status) | Reply::Status(status) => {
                format!("Response error in {name}, Status: {status}")
            }
            Reply::Failed(_) | Reply::Late => format!("Network error in {name}"),
            // MemGator does not say that an archive is dormant.
            Reply::Spared(_) | Reply::Kept(..) => return,
        };
        let step = Benchmark {
            origin: id,
            role: "timemapfetch",
            info,
            start,
            end,
        };
        self.tell(&step);
        match reply {
            Reply::Nothing(status) | Reply::Status(status) if !(200..300).contains(status) => {
                let reason = StatusCode::from_u16(*status).ok();
                let reason = reason.and_then(|status| status.canonical_reason());
                let reason = reason.unwrap_or_default();
                let text = format!("{id} => Response error: {status} {reason}");
                operations.log.info(text.trim_end());
            }
            Reply::Failed(why) => {
                operations
                    .log
                    .error(format_args!("{id} => Network error: {why}"));
            }
            Reply::Late => {
                operations
                    .log
                    .error(format_args!("{id} => Network error: {reply}"));
            }
            _ => {}
        }
    }

    fn changed(&self, archive: usize, change: Change) {
        let Some(archive) = self.router.registry().archives.get(archive) else {
            return;
        };
        let (id, operations) = (archive.id.clone(), Arc::clone(&self.operations));
        match change {
            Change::Returns => {
                let fields = || json!({"event": "archive returns", "archive": id});
                operations.log.json("info", fields);
                operations.log.info(format_args!("{id} => Awake"));
            }
            Change::Rests { failures, wait } => {
                let fields = || {
                    json!({
                        "event": "archive rests",
                        "archive": id,
                        "failures": failures,
                        "seconds": wait.as_secs_f64(),
                    })
                };
                operations.log.json("warn", fields);
                operations.log.info(format_args!(
                    "{id} => Dormant after {failures} consecutive failures"
                ));
                if operations.log.format() == crate::LogFormat::MemGator {
                    tokio::spawn(async move {
                        tokio::time::sleep(wait).await;
                        let after = go_duration(wait);
                        operations
                            .log
                            .info(format_args!("{id} => Awake after {after}"));
                    });
                }
            }
        }
    }
}

impl Observer for Session {
    fn observe(&self, event: &Event) {
        match event {
            Event::Asking { .. } => {}
            Event::Fetched {
                archive,
                start,
                end,
                reply,
            } => self.fetched(*archive, *start, *end, reply),
            Event::Extracted {
                archive,
                count,
                start,
                end,
            } => {
                if let Some(archive) = self.router.registry().archives.get(*archive) {
                    let name = archive.name.as_deref().unwrap_or_default();
                    let id = &archive.id;
                    self.tell(&Benchmark {
                        origin: id,
                        role: "extractmementos",
                        info: format!("{count} Mementos extracted from {name}"),
                        start: *start,
                        end: *end,
                    });
                    let log = &self.operations.log;
                    log.info(format_args!("{id} => Success: {count} mementos"));
                }
            }
            Event::Changed { archive, change } => self.changed(*archive, *change),
            Event::Merged { count, start, end } => self.tell(&Benchmark {
                origin: "AGGREGATOR",
                role: "aggregate",
                info: format!("{count} Mementos accumulated and sorted"),
                start: *start,
                end: *end,
            }),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
