//! The lookup service alone: a server with an access log, metrics and a graceful end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use http::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use waypost_net::server::Limits;

use super::holdings::Holdings;
use super::service::{Catalogue, Service, ServiceOptions};
use crate::log::AccessLog;
use crate::reply::{Answer, lock};
use crate::running::{self, Runnable};

/// A server of the lookup service.
pub struct FilterServer {
    service: Service,
    holdings: Arc<Holdings>,
    limits: Limits,
    access_log: Option<Arc<AccessLog>>,
    /// The problems that were reported last, so that they are not reported every second.
    reported: Mutex<Vec<String>>,
}

impl FilterServer {
    /// A server of these archives.
    pub fn new(
        holdings: Arc<Holdings>,
        options: ServiceOptions,
        limits: Limits,
        access_log: Option<Arc<AccessLog>>,
    ) -> FilterServer {
        FilterServer {
            reported: Mutex::new(holdings.snapshot().problems().to_vec()),
            service: Service::new(Arc::clone(&holdings) as Arc<dyn Catalogue>, options),
            holdings,
            limits,
            access_log,
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
        running::run(&self, listener, metrics, report, stop).await;
        let holdings = Arc::clone(&self.holdings);
        match spawn_blocking(move || holdings.close()).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }

    /// Opens what has changed, and returns what there is to say about it. If `settle` is set, files
    /// that are being written at the moment are left for the next time.
    pub fn refresh(&self, settle: bool) -> Vec<String> {
        // One at a time: an older version must not replace a newer one.
        let mut reported = lock(&self.reported);
        let mut said = Vec::new();
        let refreshed = self.holdings.refresh(settle);
        let snapshot = self.holdings.snapshot();
        let mut problems = snapshot.problems().to_vec();
        match refreshed {
            Ok(false) => {}
            Ok(true) => {
                self.service.metrics.reopened.inc();
                let archives = snapshot.archives().len();
                said.push(format!("reopened changed files: {archives} archive(s)"));
            }
            Err(error) => problems.push(format!("{error}; still using the previous version")),
        }
        self.service.metrics.unreadable.set(problems.len() as i64);
        let is_new = |problem: &&String| !reported.contains(problem);
        said.extend(problems.iter().filter(is_new).cloned());
        *reported = problems;
        said
    }
}

impl Runnable for FilterServer {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn handle(
        self: Arc<FilterServer>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Answer {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query();
        let target = target.map_or("/", |target| target.as_str());
        let mut answer = self.service.answer(&parts, target, body, started).await;
        if let Some(log) = &self.access_log {
            log.entry(&parts, peer, started, &mut answer);
        }
        answer
    }

    fn metrics(&self) -> String {
        self.service.metrics()
    }

    fn check(&self) -> Vec<String> {
        self.refresh(true)
    }
}
