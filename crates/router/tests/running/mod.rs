//! Starts aggregators on free ports.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use waypost_router::serve::{Options, Server};
use waypost_router::{
    Aggregator, Archive, Cache, CacheConfig, Client, Log, Manners, Operations, Registry, Router,
};

#[path = "../../../../tests/http.rs"]
pub(crate) mod http;

pub(crate) use http::{Reply, ask};

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) operators: SocketAddr,
    pub(crate) server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    /// Serves what archives hold.
    pub(crate) fn start(archives: Vec<Archive>) -> Running {
        Running::with(archives, Options::default())
    }

    pub(crate) fn with(archives: Vec<Archive>, options: Options) -> Running {
        let cache = CacheConfig {
            enabled: false,
            ..CacheConfig::default()
        };
        Running::with_all(archives, options, &cache, Arc::default(), Log::none())
    }

    pub(crate) fn with_all(
        archives: Vec<Archive>,
        options: Options,
        cache: &CacheConfig,
        manners: Arc<Manners>,
        log: Log,
    ) -> Running {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let operators = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let operators_address = operators.local_addr().unwrap();
        let client = Client::new("test").unwrap();
        let router = Router::with_manners(Registry::new(archives), client, manners);
        let cache = Cache::open(cache, |_| {}).unwrap();
        let aggregator = Arc::new(Aggregator::new(router, cache, Operations::new(log)));
        let base = format!("http://{address}");
        let server = Arc::new(Server::new(aggregator, options, &base));
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(Arc::clone(&server).run(listener, Some(operators), async {
            let _ = stopped.await;
        }));
        Running {
            address,
            operators: operators_address,
            server,
            stop: Some(stop),
            runtime: Some(runtime),
        }
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        ask(self.address, "GET", path, &[])
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}
