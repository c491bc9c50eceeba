//! Starts servers on free ports, and asks them.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use waypost_archive::{Collection, Options, Server, Source};
use waypost_index::lookup::BlockCache;
use waypost_index::zipnum;

#[path = "../../../../tests/http.rs"]
mod http;

pub(crate) use http::{Reply, ask};

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    /// Serves collections of indexes.
    pub(crate) fn start(collections: &[(&str, &[PathBuf])], options: Options) -> Running {
        let cache = Arc::new(BlockCache::new(1 << 20));
        let collections = collections.iter().map(|(name, paths)| {
            let sources = paths.iter().map(|path| Source {
                path: path.clone(),
                dialect: None,
                anywhere: false,
                sorted: false,
            });
            Collection::open(name, sources.collect(), &cache)
        });
        let collections = collections.collect();
        let server = Arc::new(Server::new(collections, cache, options).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (listener, metrics) = (bind(), bind());
        let address = listener.local_addr().unwrap();
        let metrics_address = metrics.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(
            Arc::clone(&server).run(listener, Some(metrics), |_| {}, async {
                let _ = stopped.await;
            }),
        );
        let running = Running {
            address,
            metrics: metrics_address,
            server,
            stop: Some(stop),
            runtime: Some(runtime),
        };
        running.wait_until_checked();
        running
    }

    /// Waits until all indexes were read whole: before that, nothing is said to be absent.
    fn wait_until_checked(&self) {
        let started = Instant::now();
        while !ask(self.metrics, "GET", "/metrics", &[])
            .text()
            .contains("waypost_indexes_unchecked 0")
        {
            assert!(started.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// The answer to a request of a path.
    pub(crate) fn get(&self, path: &str) -> Reply {
        ask(self.address, "GET", path, &[])
    }

    /// The lines of an answer.
    pub(crate) fn lines(&self, path: &str) -> Vec<String> {
        let reply = self.get(path);
        assert!([200, 404].contains(&reply.status), "{path}: {reply:?}");
        match reply.status {
            200 => reply.text().lines().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
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

/// Writes a sorted file.
pub(crate) fn write_flat(path: &Path, lines: &[String]) -> PathBuf {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path, text).unwrap();
    path.to_owned()
}

/// Writes a ZipNum index with small blocks.
pub(crate) fn write_zipnum(path: &Path, lines: &[String], block: u64) -> PathBuf {
    let options = zipnum::Options {
        lines: block,
        ..Default::default()
    };
    let mut out = zipnum::create(path, &options, 2).unwrap();
    for line in lines {
        out.push(line.as_bytes()).unwrap();
    }
    out.finish().unwrap();
    path.to_owned()
}

/// A query string with encoded values.
pub(crate) fn encode(parameters: &[(&str, String)]) -> String {
    let pairs = parameters.iter().map(|(name, value)| {
        let value: String = value
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => (byte as char).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        format!("{name}={value}")
    });
    pairs.collect::<Vec<_>>().join("&")
}
