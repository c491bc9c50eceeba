//! What the aggregator counts, for Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Register;

use crate::{AuditedRecall, Cache, Manners, Registry, Reply};

type Labels = Vec<(&'static str, String)>;

type Number = Gauge<u64, AtomicU64>;

/// The metrics of an aggregator.
pub struct Metrics {
    register: Register,
    requests: Family<Labels, Counter>,
    request_seconds: Family<Labels, Histogram>,
    lookups: Family<Labels, Counter>,
    asked: Family<Labels, Counter>,
    archive_seconds: Family<Labels, Histogram>,
    archive_mementos: Family<Labels, Counter>,
    archive_failures: Family<Labels, Number>,
    archive_resting: Family<Labels, Number>,
    archive_running: Family<Labels, Number>,
    cache_entries: Number,
    cache_bytes: Number,
    monitors: Number,
    reloads: Family<Labels, Counter>,
    routing_pairs: Family<Labels, Number>,
    routing_recall: Family<Labels, Gauge<f64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut register = Register::with_prefix("waypost");
        // From a millisecond to about a minute.
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let requests = Family::default();
        register.register("requests", "Requests by kind and status", requests.clone());
        let request_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let help = "Time until an answer starts, by kind";
        register.register("request_seconds", help, request_seconds.clone());
        let lookups = Family::default();
        let help = "Lookups by the origin of their answer: fetched, fresh, stale or missing";
        register.register("lookups", help, lookups.clone());
        let asked = Family::default();
        let help = "Archives asked, by what became of it";
        register.register("archive_lookups", help, asked.clone());
        let archive_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let help = "Time until an archive has answered";
        register.register("archive_seconds", help, archive_seconds.clone());
        let archive_mementos = Family::default();
        let help = "Mementos received from an archive";
        register.register("archive_mementos", help, archive_mementos.clone());
        let archive_failures = Family::default();
        let help = "Consecutive failures of an archive";
        register.register("archive_failures", help, archive_failures.clone());
        let archive_resting = Family::default();
        let help = "Seconds for which an archive is still left alone";
        register.register("archive_resting_seconds", help, archive_resting.clone());
        let archive_running = Family::default();
        let help = "Conversations with an archive that are under way";
        register.register("archive_running", help, archive_running.clone());
        let cache_entries = Number::default();
        register.register("cache_entries", "Answers in memory", cache_entries.clone());
        let cache_bytes = Number::default();
        register.register("cache_bytes", "Memory of answers", cache_bytes.clone());
        let monitors = Number::default();
        register.register("monitors", "Clients of /monitor", monitors.clone());
        let reloads = Family::default();
        let help = "Configurations read again, by result";
        register.register("reloads", help, reloads.clone());
        let routing_pairs = Family::default();
        let help = "Lookups and archives: requests with and without mementos, exclusions, probes of \
                    excluded archives and those that had mementos";
        register.register("routing_pairs", help, routing_pairs.clone());
        let routing_recall = Family::default();
        let help = "The audited recall, with its confidence interval at 95%";
        register.register("routing_recall", help, routing_recall.clone());
        Metrics {
            register,
            requests,
            request_seconds,
            lookups,
            asked,
            archive_seconds,
            archive_mementos,
            archive_failures,
            archive_resting,
            archive_running,
            cache_entries,
            cache_bytes,
            monitors,
            reloads,
            routing_pairs,
            routing_recall,
        }
    }
}

impl Metrics {
    /// Counts a request.
    pub(crate) fn request(&self, kind: &str, status: u16, took: Duration) {
        let kind = ("kind", kind.to_owned());
        let labels = vec![kind.clone(), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        let seconds = self.request_seconds.get_or_create(&vec![kind]);
        seconds.observe(took.as_secs_f64());
    }

    /// Counts a lookup by where its answer is from.
    pub(crate) fn lookup(&self, origin: &str) {
        let labels = vec![("origin", origin.to_owned())];
        self.lookups.get_or_create(&labels).inc();
    }

    /// Counts that an archive was asked.
    pub(crate) fn asked(&self, archive: &str, reply: &Reply, took: Duration) {
        let archive = ("archive", archive.to_owned());
        let labels = vec![archive.clone(), ("result", result(reply).to_owned())];
        self.asked.get_or_create(&labels).inc();
        if matches!(reply, Reply::Spared(_)) {
            return;
        }
        let labels = vec![archive];
        let seconds = self.archive_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
        if let Reply::Mementos(count) | Reply::Partial(count, _) = reply {
            let mementos = self.archive_mementos.get_or_create(&labels);
            mementos.inc_by(*count as u64);
        }
    }

    /// Counts that the configuration was read again.
    pub(crate) fn reload(&self, success: bool) {
        let result = if success { "success" } else { "failure" };
        let labels = vec![("result", result.to_owned())];
        self.reloads.get_or_create(&labels).inc();
    }

    /// Takes what probes have measured.
    fn audited(&self, audited: &AuditedRecall) {
        for (kind, count) in [
            ("hits", audited.hits),
            ("useless", audited.useless),
            ("excluded", audited.excluded),
            ("probes", audited.probes),
            ("missed", audited.missed),
        ] {
            let labels = vec![("kind", kind.to_owned())];
            self.routing_pairs.get_or_create(&labels).set(count);
        }
        let (low, high) = audited.interval.unzip();
        for (bound, value) in [("estimate", audited.recall), ("low", low), ("high", high)] {
            if let Some(value) = value {
                let labels = vec![("bound", bound.to_owned())];
                self.routing_recall.get_or_create(&labels).set(value);
            }
        }
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(
        &self,
        registry: &Registry,
        manners: &Manners,
        cache: &Cache,
        monitors: usize,
        audited: &AuditedRecall,
    ) -> String {
        self.audited(audited);
        // Archives may have gone.
        self.archive_failures.clear();
        self.archive_resting.clear();
        self.archive_running.clear();
        for archive in &registry.archives {
            let standing = manners.standing(&archive.id);
            let labels = vec![("archive", archive.id.clone())];
            let resting = standing.resting.unwrap_or_default();
            let set = |family: &Family<Labels, Number>, value| {
                family.get_or_create(&labels).set(value);
            };
            set(&self.archive_failures, u64::from(standing.failures));
            set(&self.archive_resting, resting.as_secs_f64().ceil() as u64);
            set(&self.archive_running, standing.running as u64);
        }
        let (entries, bytes) = cache.usage();
        self.cache_entries.set(entries as u64);
        self.cache_bytes.set(bytes as u64);
        self.monitors.set(monitors as u64);
        let mut text = String::new();
        // Writing to memory cannot fail.
        let _ = encode(&mut text, &self.register);
        text
    }
}

/// What became of an archive that was to be asked, in one word.
pub(crate) fn result(reply: &Reply) -> &'static str {
    match reply {
        Reply::Mementos(_) => "mementos",
        Reply::Partial(..) => "partial",
        Reply::Nothing(_) => "nothing",
        Reply::Status(_) => "status",
        Reply::Failed(_) => "failed",
        Reply::Late => "late",
        Reply::Spared(_) => "spared",
        Reply::Kept(..) => "kept",
    }
}
