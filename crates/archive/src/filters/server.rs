//! The lookup service alone: a server with an access log, metrics and a graceful end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use waypost_net::server::{Limits, serve};

use super::service::Service;
use crate::log::{AccessLog, LogEntry};
use crate::server::{Answer, lock, message, plain};

/// How often files are checked for changes.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// A server of the lookup service.
pub struct FilterServer {
    service: Service,
    limits: Limits,
    access_log: Option<Arc<AccessLog>>,
    /// The problem that was reported last, so that it is not reported every second.
    reported: Mutex<Option<String>>,
}

impl FilterServer {
    /// A server of this service.
    pub fn new(
        service: Service,
        limits: Limits,
        access_log: Option<Arc<AccessLog>>,
    ) -> FilterServer {
        FilterServer {
            service,
            limits,
            access_log,
            reported: Mutex::default(),
        }
    }

    /// Answers requests until `stop` is ready, and metrics on another port if there is one. Then writes
    /// what was added to filters. What happens to the files meanwhile is passed to `report`.
    ///
    /// # Errors
    /// If a filter cannot be written at the end. What was acknowledged is still in the log.
    pub async fn run(
        self: Arc<FilterServer>,
        listener: TcpListener,
        metrics: Option<TcpListener>,
        report: impl Fn(String) + Send + 'static,
        stop: impl Future<Output = ()>,
    ) -> waypost_io::Result<()> {
        let checks = tokio::spawn(Arc::clone(&self).check_often(report));
        let metrics = metrics.map(|listener| {
            let server = Arc::clone(&self);
            let handler = move |request: Request<Incoming>, _| {
                let answer = server.about_itself(request.uri().path());
                async move { answer }
            };
            let limits = self.limits;
            tokio::spawn(serve(listener, limits, handler, std::future::pending()))
        });
        let server = Arc::clone(&self);
        let handler =
            move |request: Request<Incoming>, peer| Arc::clone(&server).handle(request, peer);
        serve(listener, self.limits, handler, stop).await;
        checks.abort();
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        let holdings = Arc::clone(self.service.holdings());
        match spawn_blocking(move || holdings.close()).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }

    async fn handle(
        self: Arc<FilterServer>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Answer {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut answer = self.service.answer(&parts, body, started).await;
        if let Some(log) = &self.access_log {
            let status = answer.status().as_u16();
            answer.body_mut().log = Some(LogEntry {
                log: Arc::clone(log),
                client: peer.ip(),
                request: format!("{} {} {:?}", parts.method, parts.uri, parts.version),
                status,
                bytes: 0,
                started,
                failure: None,
            });
        }
        answer
    }

    /// Metrics and health.
    fn about_itself(&self, path: &str) -> Answer {
        match path {
            "/metrics" => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                plain(StatusCode::OK, kind, self.service.metrics.text())
            }
            "/health" => message(StatusCode::OK, "ok"),
            _ => message(StatusCode::NOT_FOUND, "ask for /metrics or /health"),
        }
    }

    /// Opens what has changed, and returns what there is to say about it.
    pub fn refresh(&self) -> Option<String> {
        let refreshed = self.service.holdings().refresh();
        let mut reported = lock(&self.reported);
        match refreshed {
            Ok(false) => {
                *reported = None;
                None
            }
            Ok(true) => {
                *reported = None;
                self.service.metrics.reopened.inc();
                let archives = self.service.holdings().snapshot().archives().len();
                Some(format!("reopened changed files: {archives} archive(s)"))
            }
            Err(error) => {
                let problem = format!("{error}; still using the previous version");
                let news = reported.as_ref() != Some(&problem);
                *reported = Some(problem.clone());
                news.then_some(problem)
            }
        }
    }

    async fn check_often(self: Arc<FilterServer>, report: impl Fn(String)) {
        let mut ticks = interval(BETWEEN_CHECKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let server = Arc::clone(&self);
            if let Ok(Some(news)) = spawn_blocking(move || server.refresh()).await {
                report(news);
            }
        }
    }
}
