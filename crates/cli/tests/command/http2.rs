//! An archive that speaks HTTP/2 and nothing else.

use std::convert::Infallible;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::http::ask;
use super::inputs::signal;
use super::{fakes, tls, waypost};

/// How long it takes to answer.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    versions: Mutex<Vec<Version>>,
    running: AtomicUsize,
    /// How many requests were answered at the same time.
    most: AtomicUsize,
}

/// Starts the archive on a free port. Writes the certificate of its authority and a list of archives
/// to a folder.
fn start(folder: &Path) -> (Arc<Seen>, PathBuf, PathBuf) {
    let (acceptor, authority) = tls::acceptor(&["h2"]);
    let certificate = folder.join("authority.pem");
    fs::write(&certificate, authority).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let archives = folder.join("archives.json");
    let list = format!(
        "[{{\"id\": \"new\", \"timemap\": \"{base}/timemap/link/\", \"timegate\": \"{base}/timegate/\"}}]"
    );
    fs::write(&archives, list).unwrap();
    let seen = Arc::new(Seen::default());
    let counted = Arc::clone(&seen);
    // Ends with the test.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, base) = (acceptor.clone(), base.clone());
                let seen = Arc::clone(&counted);
                seen.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request: Request<_>| {
                        answer(request, base.clone(), Arc::clone(&seen))
                    });
                    let _ = http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
    });
    (seen, certificate, archives)
}

async fn answer<B>(
    request: Request<B>,
    base: String,
    seen: Arc<Seen>,
) -> Result<Response<String>, Infallible> {
    let running = seen.running.fetch_add(1, Ordering::Relaxed) + 1;
    seen.most.fetch_max(running, Ordering::Relaxed);
    seen.versions.lock().unwrap().push(request.version());
    tokio::time::sleep(PAUSE).await;
    seen.running.fetch_sub(1, Ordering::Relaxed);
    let uri = request.uri().path().trim_start_matches("/timemap/link/");
    let links = fakes::timemap(uri, &base, &["2010", "2015"]);
    let answer = Response::builder().header("content-type", "application/link-format");
    Ok(answer.body(String::from_utf8(links).unwrap()).unwrap())
}

#[test]
fn a_timemap_is_asked_over_http2() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, certificate, archives) = start(folder.path());
    let archives = archives.to_str().unwrap();
    let timemap = ["timemap", "http://example.com/", "--archives", archives];
    let found = waypost(&timemap)
        .env("SSL_CERT_FILE", &certificate)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(0), "{stderr}");
    let text = String::from_utf8(found.stdout).unwrap();
    assert_eq!(text.matches(" memento\";").count(), 2, "{text}");
    assert_eq!(*seen.versions.lock().unwrap(), [Version::HTTP_2]);
}

#[test]
fn requests_to_an_archive_share_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, certificate, archives) = start(folder.path());
    let mut server = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args([
            "serve",
            "--no-cache",
            "--listen",
            "127.0.0.1:0",
            "--archives",
        ])
        .arg(archives)
        .args(["--log", "/dev/null"])
        .env("SSL_CERT_FILE", &certificate)
        .env_remove("SSL_CERT_DIR")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
    let address = said.by_ref().map(Result::unwrap).find_map(|line| {
        let address = line.strip_prefix("listening on http://")?;
        Some(address.trim_end_matches('/').parse().unwrap())
    });
    let address: SocketAddr = address.unwrap();
    let count = |number: usize| {
        let path = format!("/timemap/json/http://example.com/{number}");
        let reply = ask(address, "GET", &path, &[]);
        reply.header("x-memento-count").map(str::to_owned)
    };
    // Opens the connection.
    assert_eq!(count(0).as_deref(), Some("2"));
    std::thread::scope(|scope| {
        for number in 1..=6 {
            scope.spawn(move || assert_eq!(count(number).as_deref(), Some("2")));
        }
    });
    signal(&server, "-TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let versions = seen.versions.lock().unwrap();
    assert_eq!(*versions, [Version::HTTP_2; 7]);
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1);
    assert!(seen.most.load(Ordering::Relaxed) > 1, "one after the other");
}
