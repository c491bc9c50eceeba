//! The lookup service under `filters`: which archives may hold a URI, by the summaries that the router
//! consults, without asking the archives.

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use waypost_archive::filters::{Service, ServiceOptions};

use super::Options;
use super::body::AnswerBody;
use super::exchange::Exchange;
use super::reply::{Answer, allow_methods};
use crate::Aggregator;
use crate::decide::RouterCatalogue;

/// The methods that are allowed.
const METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// Maximum number of batches at a time.
const BATCHES: usize = 8;

/// The lookup service.
pub(super) struct Filters(Service);

impl Filters {
    /// The service of an aggregator, unless the options switch it off. Everything is served under
    /// `base`.
    pub(super) fn of(
        aggregator: &Arc<Aggregator>,
        options: &Options,
        base: &str,
    ) -> Option<Filters> {
        if !options.config.filters {
            return None;
        }
        let aggregator = Arc::clone(aggregator);
        let catalogue = RouterCatalogue::new(move || aggregator.router());
        let base = base.trim_end_matches('/');
        let limits = ServiceOptions {
            most_bytes: usize::try_from(options.config.max_batch).unwrap_or(usize::MAX),
            time_limit: options.deadline,
            batches: BATCHES,
            url: Some(format!("{base}/filters")),
        };
        Some(Filters(Service::new(Arc::new(catalogue), limits)))
    }

    /// Answers a request for what follows `filters` in a path.
    pub(super) async fn answer(&self, target: &str, exchange: &mut Exchange<'_>) -> Answer {
        if exchange.request.method == Method::OPTIONS {
            let mut answer = Response::new(AnswerBody::whole(""));
            *answer.status_mut() = StatusCode::NO_CONTENT;
            let headers = HeaderValue::from_static("Content-Type, If-None-Match");
            answer
                .headers_mut()
                .insert(header::ACCESS_CONTROL_ALLOW_HEADERS, headers);
            allow_methods(&mut answer, METHODS);
            return answer;
        }
        let started = exchange.started();
        let Some(body) = exchange.body.take() else {
            return super::not_found();
        };
        let answer = self.0.answer(exchange.request, target, body, started);
        answer.await.map(AnswerBody::lookups)
    }

    /// What it counts, for Prometheus.
    pub(super) fn metrics(&self) -> String {
        self.0.metrics()
    }
}
