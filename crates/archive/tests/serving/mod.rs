//! Starts servers on free ports, and asks them.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use waypost_archive::{Collection, Options, Server, Source};
use waypost_index::lookup::BlockCache;
use waypost_index::zipnum;

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
                dialect: Default::default(),
                anywhere: false,
            });
            Collection::open(name, sources.collect(), &cache).unwrap()
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
        Running {
            address,
            metrics: metrics_address,
            server,
            stop: Some(stop),
            runtime: Some(runtime),
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

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// As sent, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the answer came to its end.
    pub(crate) complete: bool,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| &value[..])
    }
}

/// Asks a server, and reads the answer to its end.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes, method)
}

fn parse(bytes: &[u8], method: &str) -> Reply {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut reply = Reply {
        status,
        headers,
        body: Vec::new(),
        complete: true,
    };
    let mut rest = &bytes[end + 4..];
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.complete = false;
        while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            rest = &rest[line + 2..];
            if size == 0 {
                reply.complete = true;
                break;
            }
            reply.body.extend_from_slice(&rest[..size.min(rest.len())]);
            if rest.len() < size + 2 {
                break;
            }
            rest = &rest[size + 2..];
        }
    } else {
        reply.body = rest.to_vec();
        let length = reply.header("content-length").map(|n| n.parse().unwrap());
        reply.complete =
            method == "HEAD" || length.is_none_or(|length: usize| length == rest.len());
    }
    reply
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
