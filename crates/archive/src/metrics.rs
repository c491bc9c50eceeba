//! What the server counts, for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::reply::Answer;

/// Labels of a request: what was asked for, and the status of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestLabels {
    kind: &'static str,
    status: u16,
}

impl RequestLabels {
    pub(crate) fn of(kind: &'static str, answer: &Answer) -> RequestLabels {
        RequestLabels {
            kind,
            status: answer.status().as_u16(),
        }
    }
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("kind", self.kind).encode(encoder.encode_label())?;
        ("status", self.status).encode(encoder.encode_label())
    }
}

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) rows: Counter,
    pub(crate) running: Gauge,
    pub(crate) refused: Counter,
    pub(crate) reopened: Counter,
    pub(crate) failures: Counter,
    pub(crate) problems: Gauge<u64, AtomicU64>,
    pub(crate) unchecked: Gauge<u64, AtomicU64>,
    pub(crate) cache_hits: Gauge<u64, AtomicU64>,
    pub(crate) cache_bytes: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("waypost");
        let requests = Family::default();
        registry.register("requests", "Requests by kind and status", requests.clone());
        // From a tenth of a millisecond to 100 seconds.
        let seconds = Histogram::new(exponential_buckets(0.0001, 4.0, 11));
        registry.register(
            "query_seconds",
            "Time until an answer starts",
            seconds.clone(),
        );
        let rows = Counter::default();
        registry.register("rows", "Captures returned", rows.clone());
        let running = Gauge::default();
        registry.register("queries_running", "Queries under way", running.clone());
        let refused = Counter::default();
        registry.register(
            "queries_refused",
            "Queries refused because too many were under way",
            refused.clone(),
        );
        let reopened = Counter::default();
        registry.register(
            "indexes_reopened",
            "Indexes reopened because their files changed",
            reopened.clone(),
        );
        let failures = Counter::default();
        registry.register(
            "index_failures",
            "Queries that failed because an index could not be read",
            failures.clone(),
        );
        let problems = Gauge::<u64, AtomicU64>::default();
        registry.register(
            "indexes_unusable",
            "Indexes that cannot be used, or not all of them: what is not found is unknown",
            problems.clone(),
        );
        let unchecked = Gauge::<u64, AtomicU64>::default();
        registry.register(
            "indexes_unchecked",
            "Indexes whose order is still being checked: what is not found is unknown",
            unchecked.clone(),
        );
        let cache_hits = Gauge::<u64, AtomicU64>::default();
        registry.register(
            "block_cache_hits",
            "Blocks found in the cache",
            cache_hits.clone(),
        );
        let cache_bytes = Gauge::<u64, AtomicU64>::default();
        registry.register(
            "block_cache_bytes",
            "Bytes of inflated blocks in the cache",
            cache_bytes.clone(),
        );
        Metrics {
            registry,
            requests,
            seconds,
            rows,
            running,
            refused,
            reopened,
            failures,
            problems,
            unchecked,
            cache_hits,
            cache_bytes,
        }
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to memory cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
