//! Requests in, answers out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::Body;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout_at;

use super::batch::{self, Parsed};
use super::live::LiveArchive;
use super::metrics::Metrics;
use super::route::Route;
use super::snapshot::{Description, LookupError, ServedArchive, Snapshot};
use super::stream::{BLOCK, BatchTask, read_all};
use crate::body::AnswerBody;
use crate::failure::Failure;
use crate::metrics::RequestLabels;
use crate::reply::{Answer, JSON, allow_everyone, busy, message, method_not_allowed, plain, set};

/// The header with the probability that a maybe is wrong.
const RATE: HeaderName = HeaderName::from_static("x-false-positive-rate");

/// The media type of batches.
const NDJSON: &str = "application/x-ndjson";

/// What clients may use.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Maximum size of a batch.
    pub most_bytes: usize,
    /// How long a batch may take.
    pub time_limit: Duration,
    /// Maximum number of batches at a time.
    pub batches: usize,
    /// The URL of the service as clients see it, without a slash at its end. By default, it follows
    /// from their requests.
    pub url: Option<String>,
}

impl Default for ServiceOptions {
    fn default() -> ServiceOptions {
        ServiceOptions {
            most_bytes: 32 << 20,
            time_limit: Duration::from_secs(300),
            batches: 16,
            url: None,
        }
    }
}

/// The archives that a service looks up URIs in.
pub trait Catalogue: Send + Sync {
    /// The archives as they are now. Whoever holds them can finish with them.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// The writer of an archive, if URIs can be added to it.
    fn live(&self, id: &str) -> Option<Arc<LiveArchive>> {
        let _ = id;
        None
    }
}

/// The lookup service.
pub struct Service {
    catalogue: Arc<dyn Catalogue>,
    options: ServiceOptions,
    permits: Arc<Semaphore>,
    pub(super) metrics: Arc<Metrics>,
}

impl Service {
    /// A service of these archives.
    pub fn new(catalogue: Arc<dyn Catalogue>, options: ServiceOptions) -> Service {
        Service {
            catalogue,
            permits: Arc::new(Semaphore::new(options.batches)),
            options,
            metrics: Arc::new(Metrics::new()),
        }
    }

    /// The text that Prometheus reads.
    pub fn metrics(&self) -> String {
        self.metrics.text()
    }

    /// Answers a request that arrived at `started`. Its `target` is the path, with the query string,
    /// without what precedes `/ARCHIVE/URI` in a server that embeds the service.
    pub async fn answer<B>(
        &self,
        request: &Parts,
        target: &str,
        body: B,
        started: Instant,
    ) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let route = Route::of(target);
        let kind = route.as_ref().map_or("other", Route::kind);
        let methods = route.as_ref().map_or("GET, HEAD", Route::methods);
        let is_allowed = match methods {
            "POST" => request.method == Method::POST,
            _ => request.method == Method::GET || request.method == Method::HEAD,
        };
        let mut answer = match route {
            None => message(
                StatusCode::NOT_FOUND,
                "not found: ask for /ARCHIVE/URI or /bloom/agg/URI",
            ),
            Some(_) if !is_allowed => method_not_allowed(methods, &format!("only {methods}")),
            Some(Route::Archives) => self.archives(),
            Some(Route::Lookup(archive, uri)) => self.lookup(archive, &uri, &request.headers),
            Some(Route::Aggregate(uri)) => self.aggregate(&uri, &request.headers),
            Some(Route::Batch) => self.batch(request, body, started),
            Some(Route::Add(archive)) => self.add(archive, request, body, started).await,
        };
        allow_everyone(&mut answer);
        let labels = RequestLabels::of(kind, &answer);
        self.metrics.requests.get_or_create(&labels).inc();
        let seconds = started.elapsed().as_secs_f64();
        self.metrics.seconds.observe(seconds);
        answer
    }

    fn archives(&self) -> Answer {
        let snapshot = self.catalogue.snapshot();
        let archives: Vec<_> = snapshot
            .archives()
            .iter()
            .map(|archive| {
                json!({
                    "id": archive.id(),
                    "keys": archive.keys(),
                    "rate": archive.rate(),
                    "modified": httpdate::fmt_http_date(archive.modified()),
                    "writable": archive.is_writable(),
                })
            })
            .collect();
        let list = json!({ "archives": archives });
        plain(StatusCode::OK, JSON, format!("{list}\n"))
    }

    fn lookup(&self, id: &str, uri: &str, headers: &HeaderMap) -> Answer {
        let snapshot = self.catalogue.snapshot();
        let Some(archive) = snapshot.archive(id) else {
            return message(StatusCode::NOT_FOUND, "unknown archive");
        };
        self.metrics.lookups.inc();
        let looked_up = without_blocking(archive.is_remote(), || {
            snapshot.may_hold(archive, uri.as_bytes())
        });
        let found = match looked_up {
            Ok(found) => found,
            Err(error) => return self.failed(&error),
        };
        let description = archive.description();
        let unchanged = found && matches_etag(headers, &description);
        let (status, presence) = match (found, unchanged) {
            (_, true) => (StatusCode::NOT_MODIFIED, ""),
            (true, _) => (StatusCode::OK, "present"),
            (false, _) => (StatusCode::NOT_FOUND, "absent"),
        };
        if found {
            self.metrics.present.inc();
        }
        let mut text = Vec::new();
        if !unchanged {
            // Ids need no escapes.
            text.reserve(uri.len() + id.len() + 64);
            text.extend_from_slice(b"{\"answer\":\"");
            text.extend_from_slice(presence.as_bytes());
            text.extend_from_slice(b"\",\"archive\":\"");
            text.extend_from_slice(id.as_bytes());
            text.extend_from_slice(b"\",\"uri\":");
            push_json(uri, &mut text);
            text.extend_from_slice(b"}\n");
        }
        let mut answer = plain(status, JSON, text);
        describe(&mut answer, description);
        answer
    }

    fn aggregate(&self, uri: &str, headers: &HeaderMap) -> Answer {
        let snapshot = self.catalogue.snapshot();
        self.metrics.lookups.inc();
        let remote = snapshot.archives().iter().any(ServedArchive::is_remote);
        let looked_up = without_blocking(remote, || snapshot.holders(uri.as_bytes()));
        let holders = match looked_up {
            Ok(holders) => holders,
            Err(error) => return self.failed(&error),
        };
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let base = match (&self.options.url, host) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => String::new(),
        };
        let list: Vec<_> = holders
            .iter()
            .map(|archive| {
                json!({
                    "id": archive.id(),
                    "rate": archive.rate(),
                    "lookup": format!("{base}/{}/{uri}", archive.id()),
                })
            })
            .collect();
        if !list.is_empty() {
            self.metrics.present.inc();
        }
        let status = match list.is_empty() {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        };
        let object = json!({ "uri": uri, "archives": list });
        plain(status, JSON, format!("{object}\n"))
    }

    /// Answers a batch while it arrives.
    fn batch<B>(&self, request: &Parts, body: B, started: Instant) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let permit = match self.permission(request) {
            Ok(permit) => permit,
            Err(answer) => return *answer,
        };
        // As many as a batch can have, so that a client may send all of it before it reads anything.
        let (sender, chunks) = mpsc::channel(2 + self.options.most_bytes / BLOCK * 4);
        let batch = BatchTask {
            snapshot: self.catalogue.snapshot(),
            metrics: Arc::clone(&self.metrics),
            most_bytes: self.options.most_bytes,
            running: VecDeque::new(),
            sender,
        };
        let deadline = started + self.options.time_limit;
        tokio::spawn(async move {
            let sender = batch.sender.clone();
            let failure = match timeout_at(deadline.into(), batch.run(body)).await {
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(failure),
                Err(_) => Some(Failure::TooLong),
            };
            let end = match failure {
                None => Ok(Bytes::new()),
                Some(failure) => Err(failure),
            };
            let _ = sender.send(end).await;
            drop(permit);
        });
        let mut answer = Response::new(AnswerBody::streamed(Bytes::new(), chunks));
        set(&mut answer, header::CONTENT_TYPE, NDJSON);
        answer
    }

    /// Adds the URIs of a batch. The answer is sent when they are on the disk.
    async fn add<B>(&self, id: &str, request: &Parts, body: B, started: Instant) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let snapshot = self.catalogue.snapshot();
        let Some(archive) = snapshot.archive(id) else {
            return message(StatusCode::NOT_FOUND, "unknown archive");
        };
        let Some(live) = self.catalogue.live(id) else {
            return message(StatusCode::FORBIDDEN, "nothing can be added here");
        };
        let _permit = match self.permission(request) {
            Ok(permit) => permit,
            Err(answer) => return *answer,
        };
        let deadline = started + self.options.time_limit;
        let reading = read_all(body, self.options.most_bytes);
        let bytes = match timeout_at(deadline.into(), reading).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(Failure::TooMany)) => return too_large(self.options.most_bytes),
            Ok(Err(_)) | Err(_) => {
                return message(StatusCode::REQUEST_TIMEOUT, "the batch did not arrive");
            }
        };
        let parsed = Parsed::of(&bytes, 1);
        let mut keyer = live.keyer();
        let hashes: Vec<_> = parsed
            .lines
            .iter()
            .map(|line| keyer.hash(&line.uri).ok())
            .collect();
        // What its files hold is not new, but is added all the same: files may be replaced.
        let mut held = Vec::with_capacity(hashes.len());
        for (line, hash) in parsed.lines.iter().zip(&hashes) {
            held.push(match hash {
                Some(_) => match snapshot.may_hold(archive, &line.uri) {
                    Ok(held) => held,
                    Err(error) => return self.failed(&error),
                },
                None => false,
            });
        }
        let valid: Vec<_> = hashes.iter().copied().flatten().collect();
        let count = valid.len() as u64;
        let new = match live.add(valid).await {
            Ok(new) => new,
            Err(_) => {
                self.metrics.failures.inc();
                let text = "the URIs could not be written";
                return message(StatusCode::INSUFFICIENT_STORAGE, text);
            }
        };
        self.metrics.added.inc_by(count);
        let mut new = new.into_iter();
        let mut text = Vec::with_capacity(bytes.len() + 24 * hashes.len());
        let mut lines = parsed.lines.iter().zip(&hashes).zip(&held);
        for problem in &parsed.problems {
            if let Some((number, problem)) = problem {
                batch::push_problem(*number, problem, &mut text);
                continue;
            }
            let Some(((line, hash), held)) = lines.next() else {
                break;
            };
            if hash.is_none() {
                batch::push_invalid(line.json, &mut text);
                continue;
            }
            let is_new = new.next().unwrap_or(false) && !held;
            text.extend(format!("{{\"uri\":{},\"new\":{is_new}}}\n", line.json).into_bytes());
        }
        let mut answer = Response::new(AnswerBody::whole(text));
        set(&mut answer, header::CONTENT_TYPE, NDJSON);
        answer
    }

    /// The right to send a batch.
    fn permission(&self, request: &Parts) -> Result<OwnedSemaphorePermit, Box<Answer>> {
        let length = request.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > self.options.most_bytes as u64) {
            return Err(Box::new(too_large(self.options.most_bytes)));
        }
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            self.metrics.refused.inc();
            Box::new(busy("too many batches at the moment"))
        })
    }

    fn failed(&self, error: &LookupError) -> Answer {
        match error {
            LookupError::Uri(error) => message(StatusCode::BAD_REQUEST, &error.to_string()),
            // The paths of a server are nobody else's business.
            LookupError::Summary(_) => {
                self.metrics.failures.inc();
                let text = "the archive cannot be looked up at the moment";
                message(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        }
    }
}

/// Runs lookups that wait for another server without holding up other requests of this thread.
fn without_blocking<T>(remote: bool, run: impl FnOnce() -> T) -> T {
    match remote {
        true => tokio::task::block_in_place(run),
        false => run(),
    }
}

fn too_large(most: usize) -> Answer {
    let text = format!("a batch has at most {most} bytes");
    message(StatusCode::PAYLOAD_TOO_LARGE, &text)
}

/// Adds what is known about an archive.
fn describe(answer: &mut Answer, description: Description) {
    let Description {
        etag,
        modified,
        rate,
    } = description;
    let headers = answer.headers_mut();
    headers.insert(header::ETAG, etag);
    headers.insert(header::LAST_MODIFIED, modified);
    if let Some(rate) = rate {
        headers.insert(RATE, rate);
    }
}

/// Appends a text as JSON.
fn push_json(text: &str, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn matches_etag(headers: &HeaderMap, description: &Description) -> bool {
    let etag = description.etag.as_bytes();
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value.as_bytes() == etag || value == "*")
}
