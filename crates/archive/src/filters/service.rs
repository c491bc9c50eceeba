//! Requests in, answers out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::Body;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout_at;

use super::batch::{self, Answered, Parsed};
use super::holdings::Holdings;
use super::metrics::Metrics;
use super::snapshot::{LookupError, ServedArchive, Snapshot};
use crate::body::AnswerBody;
use crate::failure::Failure;
use crate::route::with_scheme;
use crate::server::{Answer, JSON, cores, message, plain, set};

/// The header with the probability that a maybe is wrong.
const RATE: HeaderName = HeaderName::from_static("x-false-positive-rate");

/// The media type of batches.
const NDJSON: &str = "application/x-ndjson";

/// Blocks of this size are answered at once.
const BLOCK: usize = 256 << 10;

/// What clients may use.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Maximum size of a batch.
    pub most_bytes: usize,
    /// How long a batch may take.
    pub time_limit: Duration,
    /// Maximum number of batches at a time.
    pub batches: usize,
}

impl Default for ServiceOptions {
    fn default() -> ServiceOptions {
        ServiceOptions {
            most_bytes: 32 << 20,
            time_limit: Duration::from_secs(300),
            batches: 16,
        }
    }
}

/// The lookup service.
pub struct Service {
    pub(super) holdings: Arc<Holdings>,
    options: ServiceOptions,
    permits: Arc<Semaphore>,
    pub(super) metrics: Arc<Metrics>,
}

/// What is requested.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    Archives,
    Batch,
    Aggregate(String),
    Add(&'a str),
    Lookup(&'a str, String),
}

impl<'a> Route<'a> {
    /// The route of a path and its query string, which belongs to the URI at the end of the path.
    fn of(path: &'a str, query: Option<&str>) -> Option<Route<'a>> {
        let path = path.strip_prefix('/')?;
        let whole = |uri: &str| {
            let uri = match query {
                Some(query) => format!("{uri}?{query}"),
                None => uri.to_owned(),
            };
            with_scheme(with_slashes(uri))
        };
        match path {
            "" => return Some(Route::Archives),
            "lookup" => return Some(Route::Batch),
            _ => {}
        }
        if let Some(uri) = path.strip_prefix("bloom/agg/") {
            return Some(Route::Aggregate(whole(uri)?));
        }
        match path.split_once('/')? {
            (archive, "add") => Some(Route::Add(archive)),
            (archive, uri) => Some(Route::Lookup(archive, whole(uri)?)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Route::Archives => "archives",
            Route::Batch => "batch",
            Route::Aggregate(_) => "aggregate",
            Route::Add(_) => "add",
            Route::Lookup(..) => "lookup",
        }
    }
}

/// Some proxies merge the slashes of `http://`.
fn with_slashes(uri: String) -> String {
    for scheme in ["http:/", "https:/"] {
        if let Some(rest) = uri.strip_prefix(scheme)
            && !rest.starts_with('/')
        {
            return format!("{scheme}/{rest}");
        }
    }
    uri
}

impl Service {
    /// A service of these archives.
    pub fn new(holdings: Arc<Holdings>, options: ServiceOptions) -> Service {
        Service {
            holdings,
            permits: Arc::new(Semaphore::new(options.batches)),
            options,
            metrics: Arc::new(Metrics::new()),
        }
    }

    /// The archives.
    pub fn holdings(&self) -> &Arc<Holdings> {
        &self.holdings
    }

    /// Answers a request that arrived at `started`. Another server that embeds the service strips what
    /// precedes `/ARCHIVE/URI` from the path first.
    pub async fn answer<B>(
        &self,
        request: &Parts,
        body: B,
        started: Instant,
    ) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let route = Route::of(request.uri.path(), request.uri.query());
        let kind = route.as_ref().map_or("other", Route::kind);
        let allowed = match &route {
            Some(Route::Batch | Route::Add(_)) => "POST",
            _ => "GET, HEAD",
        };
        let is_allowed = match allowed {
            "POST" => request.method == Method::POST,
            _ => request.method == Method::GET || request.method == Method::HEAD,
        };
        let mut answer = match route {
            None => message(
                StatusCode::NOT_FOUND,
                "not found: ask for /ARCHIVE/URI or /bloom/agg/URI",
            ),
            Some(_) if !is_allowed => {
                let text = format!("only {allowed}");
                let mut answer = message(StatusCode::METHOD_NOT_ALLOWED, &text);
                set(&mut answer, header::ALLOW, allowed);
                answer
            }
            Some(Route::Archives) => self.archives(),
            Some(Route::Lookup(archive, uri)) => self.lookup(archive, &uri, &request.headers),
            Some(Route::Aggregate(uri)) => self.aggregate(&uri, &request.headers),
            Some(Route::Batch) => self.batch(request, body, started),
            Some(Route::Add(archive)) => self.add(archive, request, body, started).await,
        };
        let any = HeaderValue::from_static("*");
        answer
            .headers_mut()
            .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
        let labels = vec![
            ("kind", kind.to_owned()),
            ("status", answer.status().as_str().to_owned()),
        ];
        self.metrics.requests.get_or_create(&labels).inc();
        let seconds = started.elapsed().as_secs_f64();
        self.metrics.seconds.observe(seconds);
        answer
    }

    fn archives(&self) -> Answer {
        let snapshot = self.holdings.snapshot();
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
        let snapshot = self.holdings.snapshot();
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
        let etag = archive.etag();
        let unchanged = found && matches_etag(headers, &etag);
        let (status, presence) = match (found, unchanged) {
            (_, true) => (StatusCode::NOT_MODIFIED, ""),
            (true, _) => (StatusCode::OK, "present"),
            (false, _) => (StatusCode::NOT_FOUND, "absent"),
        };
        if found {
            self.metrics.present.inc();
        }
        let text = match unchanged {
            true => String::new(),
            false => {
                let object = json!({ "archive": id, "uri": uri, "answer": presence });
                format!("{object}\n")
            }
        };
        let mut answer = plain(status, JSON, text);
        describe(&mut answer, archive, &etag);
        answer
    }

    fn aggregate(&self, uri: &str, headers: &HeaderMap) -> Answer {
        let snapshot = self.holdings.snapshot();
        self.metrics.lookups.inc();
        let remote = snapshot.archives().iter().any(ServedArchive::is_remote);
        let looked_up = without_blocking(remote, || snapshot.holders(uri.as_bytes()));
        let holders = match looked_up {
            Ok(holders) => holders,
            Err(error) => return self.failed(&error),
        };
        let base = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())
            .map_or(String::new(), |host| format!("http://{host}"));
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
            snapshot: self.holdings.snapshot(),
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
        let snapshot = self.holdings.snapshot();
        let Some(archive) = snapshot.archive(id) else {
            return message(StatusCode::NOT_FOUND, "unknown archive");
        };
        let Some(live) = self.holdings.live(id) else {
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
            let text = "too many batches at the moment";
            let mut answer = message(StatusCode::SERVICE_UNAVAILABLE, text);
            set(&mut answer, header::RETRY_AFTER, "1");
            Box::new(answer)
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
fn describe(answer: &mut Answer, archive: &ServedArchive, etag: &str) {
    let modified: SystemTime = archive.modified();
    set(answer, header::ETAG, etag);
    set(
        answer,
        header::LAST_MODIFIED,
        &httpdate::fmt_http_date(modified),
    );
    set(answer, RATE, &format!("{:.3e}", archive.rate()));
}

fn matches_etag(headers: &HeaderMap, etag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value == etag || value == "*")
}

/// The next bytes of a body; `None` at its end.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(Failure::Gone),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

async fn read_all<B>(mut body: B, most: usize) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut all = Vec::new();
    while let Some(bytes) = next(&mut body).await? {
        if all.len() + bytes.len() > most {
            return Err(Failure::TooMany);
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

type Answering = JoinHandle<Result<Answered, waypost_summary::Error>>;

/// A batch that is being answered.
struct BatchTask {
    snapshot: Arc<Snapshot>,
    metrics: Arc<Metrics>,
    most_bytes: usize,
    /// Blocks in order.
    running: VecDeque<Answering>,
    sender: mpsc::Sender<Result<Bytes, Failure>>,
}

impl BatchTask {
    async fn run<B>(mut self, mut body: B) -> Result<(), Failure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut block: Vec<u8> = Vec::with_capacity(BLOCK + (64 << 10));
        let (mut all, mut first) = (0, 1);
        while let Some(bytes) = next(&mut body).await? {
            all += bytes.len();
            if all > self.most_bytes {
                return Err(Failure::TooMany);
            }
            block.extend_from_slice(&bytes);
            if block.len() >= BLOCK
                && let Some(end) = memchr::memrchr(b'\n', &block)
            {
                let rest = block.split_off(end + 1);
                let whole = std::mem::replace(&mut block, rest);
                first = self.start(whole, first);
                while self.running.len() > 2 * cores() {
                    self.finish_one().await?;
                }
            }
        }
        self.start(block, first);
        while !self.running.is_empty() {
            self.finish_one().await?;
        }
        Ok(())
    }

    /// Starts to answer a block. Returns the number of the line after it.
    fn start(&mut self, block: Vec<u8>, first: u64) -> u64 {
        let after = first + memchr::memchr_iter(b'\n', &block).count() as u64;
        let snapshot = Arc::clone(&self.snapshot);
        self.running.push_back(spawn_blocking(move || {
            batch::answer(&snapshot, &block, first)
        }));
        after
    }

    async fn finish_one(&mut self) -> Result<(), Failure> {
        let Some(answering) = self.running.pop_front() else {
            return Ok(());
        };
        match answering.await {
            Ok(Ok(answered)) => {
                self.metrics.lookups.inc_by(answered.lookups);
                self.metrics.present.inc_by(answered.present);
                if answered.text.is_empty() {
                    return Ok(());
                }
                let sent = self.sender.send(Ok(answered.text.into())).await;
                sent.map_err(|_| Failure::Gone)
            }
            Ok(Err(error)) => {
                self.metrics.failures.inc();
                Err(Failure::Index(error.into_io()))
            }
            Err(_) => Err(Failure::CutOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_an_archive_and_a_uri() {
        let lookup = |uri: &str| Some(Route::Lookup("haw", uri.to_owned()));
        for (path, query, route) in [
            ("/haw/http://a.hr/b", None, lookup("http://a.hr/b")),
            ("/haw/http://a.hr/", Some("c=d"), lookup("http://a.hr/?c=d")),
            ("/haw/https:/a.hr/", None, lookup("https://a.hr/")),
            ("/haw/http%3A%2F%2Fa.hr%2F", None, lookup("http://a.hr/")),
            ("/haw/a.hr", None, lookup("a.hr")),
            ("/haw/add", None, Some(Route::Add("haw"))),
            ("/lookup", None, Some(Route::Batch)),
            ("/", None, Some(Route::Archives)),
            (
                "/bloom/agg/http://a.hr/",
                None,
                Some(Route::Aggregate("http://a.hr/".to_owned())),
            ),
            ("/haw/", None, None),
            ("/haw", None, None),
            ("/bloom/agg/", None, None),
        ] {
            assert_eq!(Route::of(path, query), route, "{path}");
        }
    }
}
