//! What operators ask on their own port: `/metrics` and `/health`.

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::filters::Filters;
use super::reply::{Answer, method_not_allowed, not_found, plain};
use crate::Aggregator;

/// The media type of metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers a request of an operator.
pub(super) fn answer(
    aggregator: &Aggregator,
    filters: Option<&Filters>,
    request: &Parts,
    stopping: bool,
) -> Answer {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return method_not_allowed();
    }
    let mut answer = match request.uri.path() {
        "/metrics" => {
            let mut text = aggregator.metrics();
            if let Some(filters) = filters {
                // One text, with one end.
                text.truncate(text.trim_end_matches("# EOF\n").len());
                text += &filters.metrics();
            }
            plain(StatusCode::OK, OPENMETRICS, text)
        }
        "/health" => {
            let status = match stopping {
                true => StatusCode::SERVICE_UNAVAILABLE,
                false => StatusCode::OK,
            };
            let health = format!("{:#}\n", health(aggregator, stopping));
            plain(status, "application/json", health)
        }
        _ => not_found(),
    };
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    answer
}

/// How the server and its archives are doing. Archives that fail do not make the server unhealthy.
fn health(aggregator: &Aggregator, stopping: bool) -> Value {
    let router = aggregator.router();
    let archives = router.registry().archives.iter().map(|archive| {
        let standing = router.manners().standing(&archive.id);
        let resting = standing.resting.map(|wait| wait.as_secs_f64());
        json!({
            "id": archive.id,
            "failures": standing.failures,
            "resting_seconds": resting,
            "running": standing.running,
        })
    });
    json!({
        "status": if stopping { "stopping" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "archives": archives.collect::<Vec<Value>>(),
    })
}
