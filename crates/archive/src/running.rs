//! How the servers of this crate run: requests on one port, metrics and health on another, and a look
//! at their files every second.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use waypost_net::server::{Limits, serve};

use crate::reply::{Answer, message, plain};

/// How often files are checked for changes.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// A server that can be run.
pub(crate) trait Runnable: Send + Sync + 'static {
    /// Limits on connections.
    fn limits(&self) -> Limits;

    /// Answers a request.
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Answer> + Send;

    /// The text that Prometheus reads.
    fn metrics(&self) -> String;

    /// What is wrong with its files.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reopens what has changed, and returns what there is to say about it.
    fn check(&self) -> Vec<String>;
}

/// Answers requests until `stop` is ready, and metrics on another port if there is one. What happens to
/// the files meanwhile is passed to `report`.
pub(crate) async fn run<S: Runnable>(
    server: &Arc<S>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    report: impl Fn(String) + Send + 'static,
    stop: impl Future<Output = ()>,
) {
    let limits = server.limits();
    let checks = tokio::spawn(check_often(Arc::clone(server), report));
    let metrics = metrics.map(|listener| {
        let server = Arc::clone(server);
        let handler = move |request: Request<Incoming>, _| {
            let answer = about_itself(&*server, request.uri().path());
            async move { answer }
        };
        tokio::spawn(serve(listener, limits, handler, std::future::pending()))
    });
    let shared = Arc::clone(server);
    let handler = move |request: Request<Incoming>, peer| Arc::clone(&shared).handle(request, peer);
    serve(listener, limits, handler, stop).await;
    checks.abort();
    if let Some(metrics) = metrics {
        metrics.abort();
    }
}

async fn check_often<S: Runnable>(server: Arc<S>, report: impl Fn(String)) {
    let mut ticks = interval(BETWEEN_CHECKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let server = Arc::clone(&server);
        if let Ok(said) = spawn_blocking(move || server.check()).await {
            said.into_iter().for_each(&report);
        }
    }
}

/// Metrics and health.
fn about_itself(server: &impl Runnable, path: &str) -> Answer {
    match path {
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            plain(StatusCode::OK, kind, server.metrics())
        }
        "/health" => match &server.problems()[..] {
            [] => message(StatusCode::OK, "ok"),
            problems => message(StatusCode::OK, &problems.join("\n")),
        },
        _ => message(StatusCode::NOT_FOUND, "ask for /metrics or /health"),
    }
}
