//! What the lookup service counts, for Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::RequestLabels;

/// The metrics of the service.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) lookups: Counter,
    pub(crate) present: Counter,
    pub(crate) added: Counter,
    pub(crate) refused: Counter,
    pub(crate) reopened: Counter,
    pub(crate) failures: Counter,
    pub(crate) unreadable: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("waypost_filters");
        let requests = Family::default();
        registry.register("requests", "Requests by kind and status", requests.clone());
        // From a hundredth of a millisecond to 10 seconds.
        let seconds = Histogram::new(exponential_buckets(0.00001, 4.0, 11));
        registry.register(
            "request_seconds",
            "Time until an answer starts",
            seconds.clone(),
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let lookups = counter("lookups", "URIs looked up");
        let present = counter("present", "URIs that some archive may hold");
        let added = counter("added", "URIs added");
        let refused = counter("refused", "Batches refused because too many were under way");
        let reopened = counter("reopened", "Times that changed files were reopened");
        let failures = counter(
            "failures",
            "Requests that failed because a file could not be read or written",
        );
        let unreadable = Gauge::default();
        registry.register(
            "unreadable",
            "Summaries that cannot be read at the moment",
            unreadable.clone(),
        );
        Metrics {
            registry,
            unreadable,
            requests,
            seconds,
            lookups,
            present,
            added,
            refused,
            reopened,
            failures,
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
