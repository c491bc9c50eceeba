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
    /// The problem that was reported last, so that it is not reported every second.
    reported: Mutex<Option<String>>,
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
            service: Service::new(Arc::clone(&holdings) as Arc<dyn Catalogue>, options),
            holdings,
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
        running::run(&self, listener, metrics, report, stop).await;
        let holdings = Arc::clone(&self.holdings);
        match spawn_blocking(move || holdings.close()).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }

    /// Opens what has changed, and returns what there is to say about it.
    pub fn refresh(&self) -> Option<String> {
        // One at a time: an older version must not replace a newer one.
        let mut reported = lock(&self.reported);
        match self.holdings.refresh() {
            Ok(false) => {
                *reported = None;
                None
            }
            Ok(true) => {
                *reported = None;
                self.service.metrics.reopened.inc();
                let archives = self.holdings.snapshot().archives().len();
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
        self.refresh().into_iter().collect()
    }
}
