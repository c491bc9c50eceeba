//! The client: a runtime of its own, limits on connections, redirects and time, and errors.

use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url, redirect};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use waypost_io::{Error, ErrorKind, Progress, RangeRead, RemoteProblem, Result};

use crate::range::RemoteFile;
use crate::response::retry_after;
use crate::retry::{Failure, Pause, Waits};
use crate::s3::Account;
use crate::webhdfs::HdfsFile;

/// The least number of bytes per second at which a range is received.
const LEAST_RATE: u64 = 8 * 1024;

/// The limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Maximum number of concurrent requests.
    pub connections: usize,
    /// Maximum time to connect.
    pub connect_timeout: Duration,
    /// Maximum time without a byte from the server.
    pub stall_timeout: Duration,
    /// Maximum number of attempts of a request.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with each further one.
    pub first_wait: Duration,
    /// Maximum time to wait between the attempts of a request, in total.
    pub longest_wait: Duration,
    /// Maximum number of redirects of a request.
    pub redirects: usize,
    /// Whether redirects to other hosts, or other ports of the host, are refused.
    pub same_host: bool,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connections: 4,
            connect_timeout: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(30),
            attempts: 6,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(120),
            redirects: 10,
            same_host: false,
        }
    }
}

/// What a client has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of requests, including repeated ones.
    pub requests: u64,
    /// Number of requests that repeated a failed one.
    pub repeated: u64,
    /// Number of bytes received in bodies.
    pub bytes: u64,
}

/// An HTTP client. Clones share connections and limits.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    http: reqwest::Client,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    slots: Semaphore,
    pause: Pause,
    options: ClientOptions,
    requests: AtomicU64,
    repeated: AtomicU64,
    bytes: AtomicU64,
    progress: Mutex<Progress>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, and does not panic in asynchronous code.
            runtime.shutdown_background();
        }
    }
}

/// Whether `name` is a URL of the Web.
pub fn is_url(name: &str) -> bool {
    matches!(scheme_of(name), Some("http" | "https"))
}

/// Whether `name` is that of a file that [`Client::open_any`] can open: on the Web, in S3 or in HDFS.
pub fn is_remote(name: &str) -> bool {
    scheme_of(name).is_some()
}

/// The scheme of a URL, if it is a known one.
fn scheme_of(name: &str) -> Option<&'static str> {
    let (scheme, _) = name.split_once("://")?;
    ["http", "https", "s3", "webhdfs", "swebhdfs"]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known))
}

impl Client {
    /// Creates a client. Proxies are taken from the environment.
    ///
    /// # Errors
    /// If the system provides no threads or no certificates.
    pub fn new(options: ClientOptions) -> Result<Client> {
        // Fails if there is a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        // Ranges are those of the file, not of a compressed form of it.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let http = reqwest::Client::builder()
            .user_agent(concat!("waypost/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.stall_timeout)
            .pool_max_idle_per_host(options.connections)
            .redirect(follow(options.redirects, options.same_host))
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| invalid(format!("cannot create an HTTP client: {}", cause(&error))))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(|source| {
                let doing = "start the threads of the HTTP client";
                Error::new(ErrorKind::Io { doing, source })
            })?;
        Ok(Client {
            shared: Arc::new(Shared {
                http,
                runtime: Some(runtime),
                slots: Semaphore::new(options.connections.max(1)),
                pause: Pause::default(),
                options,
                requests: AtomicU64::new(0),
                repeated: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                progress: Mutex::default(),
            }),
        })
    }

    /// A remote file. No request is made yet.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn open(&self, url: &str) -> Result<RemoteFile> {
        RemoteFile::new(self.clone(), parse(url)?)
    }

    /// A remote file by any name that [is one](is_remote). No request is made yet.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn open_any(&self, name: &str) -> Result<Arc<dyn RangeRead>> {
        Ok(match scheme_of(name) {
            Some("s3") => {
                let account = Account::of_environment();
                Arc::new(RemoteFile::in_s3(self.clone(), name, account)?)
            }
            Some("webhdfs" | "swebhdfs") => Arc::new(HdfsFile::new(self.clone(), name)?),
            _ => Arc::new(self.open(name)?),
        })
    }

    /// The whole content of a small file.
    ///
    /// # Errors
    /// If it cannot be read, or has more than `most` bytes.
    pub fn get(&self, url: &str, most: usize) -> Result<Vec<u8>> {
        self.get_with_headers(url, most).map(|(body, _)| body)
    }

    /// Like [`get`](Client::get), with the headers of the answer.
    ///
    /// # Errors
    /// If it cannot be read, or has more than `most` bytes.
    pub fn get_with_headers(&self, url: &str, most: usize) -> Result<(Vec<u8>, HeaderMap)> {
        let url = parse(url)?;
        let name = shown(&url);
        let got = self.run(async || {
            let mut response = self.send(&url, HeaderMap::new()).await?;
            if response.status() != StatusCode::OK {
                return Err(self.refusal(&response));
            }
            let expected = response.content_length();
            let too_large =
                || Failure::Final(invalid(format!("the file has more than {most} bytes")));
            if expected.is_some_and(|bytes| bytes > most as u64) {
                return Err(too_large());
            }
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk(&mut response).await? {
                if body.len() + chunk.len() > most {
                    return Err(too_large());
                }
                body.extend_from_slice(&chunk);
            }
            Ok((body, std::mem::take(response.headers_mut())))
        });
        got.map_err(|error| error.in_file(name))
    }

    /// Adds the bytes of all bodies to `progress` from now on, instead of an earlier one.
    pub fn report_to(&self, progress: &Progress) {
        *self.progress() = progress.clone();
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        let progress = self.shared.progress.lock();
        progress.unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of requests that may run at a time.
    pub fn connections(&self) -> usize {
        self.shared.options.connections.max(1)
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            requests: shared.requests.load(Ordering::Relaxed),
            repeated: shared.repeated.load(Ordering::Relaxed),
            bytes: shared.bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// Runs attempts until one succeeds or fails for good.
    pub(crate) fn run<T>(&self, mut attempt: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T> {
        let shared = &self.shared;
        let Some(runtime) = &shared.runtime else {
            return Err(invalid("the HTTP client is closed"));
        };
        runtime.block_on(async {
            let mut waits = Waits::new(&shared.options);
            loop {
                shared.pause.wait().await;
                let done = {
                    // Closed never.
                    let _slot = shared.slots.acquire().await;
                    attempt().await
                };
                let (error, after) = match done {
                    Ok(done) => return Ok(done),
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Again { error, after }) => (error, after),
                    Err(Failure::Further(error)) => {
                        waits = Waits::new(&shared.options);
                        (error, None)
                    }
                };
                let Some(wait) = waits.next(after) else {
                    return Err(waits.given_up(error));
                };
                shared.repeated.fetch_add(1, Ordering::Relaxed);
                if after.is_some() {
                    // All requests wait, not only this one.
                    shared.pause.extend(wait);
                } else {
                    tokio::time::sleep(wait).await;
                }
            }
        })
    }

    /// Runs attempts to receive so many bytes, each for a limited time.
    pub(crate) fn run_within<T>(
        &self,
        length: u64,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        let options = self.options();
        let longest = options.connect_timeout
            + 2 * options.stall_timeout
            + Duration::from_secs(length / LEAST_RATE);
        self.run(
            async || match tokio::time::timeout(longest, attempt()).await {
                Ok(done) => done,
                Err(_) => Err(Failure::Again {
                    error: problem(
                        RemoteProblem::Unreachable,
                        format!(
                            "{length} bytes were not received in {} s",
                            longest.as_secs()
                        ),
                    ),
                    after: None,
                }),
            },
        )
    }

    /// The body of an answer, which must have exactly so many bytes.
    pub(crate) async fn body(
        &self,
        response: &mut Response,
        expected: u64,
    ) -> Result<Vec<u8>, Failure> {
        let wrong = |got: &str| {
            invalid(format!(
                "the answer has {got} bytes instead of the {expected} requested"
            ))
        };
        if let Some(said) = response.content_length().filter(|said| *said != expected) {
            return Err(Failure::Final(wrong(&said.to_string())));
        }
        let mut body = Vec::with_capacity(expected as usize);
        while let Some(chunk) = self.chunk(response).await? {
            if body.len() as u64 + chunk.len() as u64 > expected {
                return Err(Failure::Final(wrong("more")));
            }
            body.extend_from_slice(&chunk);
        }
        if (body.len() as u64) < expected {
            return Err(Failure::Again {
                error: wrong(&body.len().to_string()),
                after: None,
            });
        }
        Ok(body)
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, url: &Url, headers: HeaderMap) -> Result<Response, Failure> {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let request = self.shared.http.get(url.clone()).headers(headers);
        request.send().await.map_err(|error| failure(&error))
    }

    /// The next bytes of the body.
    pub(crate) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, Failure> {
        let chunk = response.chunk().await.map_err(|error| failure(&error))?;
        if let Some(chunk) = &chunk {
            let bytes = chunk.len() as u64;
            self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.progress().add(bytes);
        }
        Ok(chunk)
    }

    /// Why an answer with an unexpected status is not used.
    pub(crate) fn refusal(&self, response: &Response) -> Failure {
        let status = response.status();
        match status.as_u16() {
            404 | 410 => Failure::Final(problem(
                RemoteProblem::Missing,
                format!("the server has no such file ({status})"),
            )),
            401 | 403 | 407 => Failure::Final(problem(
                RemoteProblem::Denied,
                format!("the server denies access ({status})"),
            )),
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Failure::Again {
                error: problem(RemoteProblem::Busy, format!("the server answered {status}")),
                after: retry_after(response.headers()),
            },
            _ => Failure::Final(invalid(format!("the server answered {status}"))),
        }
    }
}

/// Follows so many redirects, and never from HTTPS to HTTP, nor to another host if that is refused.
fn follow(most: usize, same_host: bool) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let last = attempt.previous().last();
        if attempt.previous().len() > most {
            let message = format!("more than {most} redirects, the last to {}", attempt.url());
            attempt.error(message)
        } else if last.is_some_and(|last| last.scheme() == "https")
            && attempt.url().scheme() != "https"
        {
            let message = format!("a redirect from HTTPS to {}", attempt.url());
            attempt.error(message)
        } else if same_host && last.is_some_and(|last| authority(last) != authority(attempt.url()))
        {
            let message = format!("a redirect to another host: {}", attempt.url());
            attempt.error(message)
        } else {
            attempt.follow()
        }
    })
}

/// The host, and the port unless both are usual ones.
fn authority(url: &Url) -> (Option<&str>, Option<u16>) {
    (url.host_str(), url.port())
}

pub(crate) fn parse(url: &str) -> Result<Url> {
    let parsed = if is_url(url) {
        Url::parse(url).map_err(|error| error.to_string())
    } else {
        Err("only http and https are supported".to_owned())
    };
    parsed.map_err(|why| invalid(format!("invalid URL: {why}")).in_file(url))
}

/// A URL for messages, without a password.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Only fails for URLs that have neither.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}

/// Sorts an error of the library: which can be repeated.
fn failure(error: &reqwest::Error) -> Failure {
    let cause = cause(error);
    if error.is_redirect() || error.is_builder() {
        return Failure::Final(invalid(cause));
    }
    let detail = if error.is_timeout() {
        "the server did not answer in time".to_owned()
    } else if error.is_connect() {
        format!("cannot connect: {cause}")
    } else {
        format!("the connection failed: {cause}")
    };
    let unreachable = problem(RemoteProblem::Unreachable, detail);
    if is_untrusted(error) {
        return Failure::Final(unreachable);
    }
    Failure::Again {
        error: unreachable,
        after: None,
    }
}

/// Whether the certificate of the server was refused.
fn is_untrusted(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // An error of TLS is wrapped in an error of I/O, which hides it from `source`.
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        if inner.is_some_and(|inner| inner.is::<rustls::Error>()) || error.is::<rustls::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The innermost cause, which says most.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

pub(crate) fn problem(problem: RemoteProblem, detail: impl Display) -> Error {
    Error::new(ErrorKind::Remote {
        problem,
        detail: detail.to_string(),
    })
}

pub(crate) fn invalid(detail: impl Display) -> Error {
    problem(RemoteProblem::Invalid, detail)
}
