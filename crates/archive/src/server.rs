//! The server: requests in, answers out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use waypost_index::lookup::{BlockCache, Order};
use waypost_index::range::Match;
use waypost_index::timestamp::Time;
use waypost_index::{Field, Fields, Takedowns};
use waypost_io::{Error, Stamp};
use waypost_memento::{Datetime, Link, Replay};
use waypost_net::server::Limits;

use crate::access::Embargo;
use crate::body::{AnswerBody, Chunks, Sink, Small, Start, Text, Turn};
use crate::collection::{Collection, Slot};
use crate::failure::Failure;
use crate::log::AccessLog;
use crate::metrics::{Metrics, RequestLabels};
use crate::query::{Api, BadQuery, Limit, Output, Query};
use crate::render::{Renderer, TimeMapHead, datetime};
use crate::reply::{
    Answer, JSON, allow_everyone, busy, cores, lock, message, method_not_allowed, plain, set,
};
use crate::route::{self, Route};
use crate::running::{self, Runnable};
use crate::search::{Clock, View};

/// How long a query waits for others before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a query may take that is not given to a thread of its own.
const QUICK: Duration = Duration::from_millis(5);

/// What a server shows, and how much of it.
#[derive(Clone)]
pub struct Options {
    /// How long a query may take, including the time in which its answer is sent.
    pub time_limit: Duration,
    /// Maximum number of rows in an answer.
    pub most_rows: u64,
    /// Maximum number of queries at a time.
    pub queries: usize,
    /// Captures that are younger are not shown.
    pub embargo: Option<Embargo>,
    /// A list of takedowns, whose captures are not shown; read again when it changes.
    pub exclude_list: Option<PathBuf>,
    /// Where captures are replayed; needed for TimeMaps and TimeGates.
    pub replay: Option<Replay>,
    /// The URL of the server as clients see it.
    pub public_url: Option<String>,
    /// Where requests are logged.
    pub access_log: Option<Arc<AccessLog>>,
    /// Limits on connections.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            time_limit: Duration::from_secs(300),
            most_rows: u64::MAX,
            queries: 64,
            embargo: None,
            exclude_list: None,
            replay: None,
            public_url: None,
            access_log: None,
            limits: Limits::default(),
        }
    }
}

/// A CDX server and Memento archive over collections of indexes.
pub struct Server {
    collections: BTreeMap<String, Arc<Collection>>,
    options: Options,
    takedowns: RwLock<Option<(Stamp, Arc<Takedowns>)>>,
    permits: Arc<Semaphore>,
    /// As many as there are cores, and a few for those that wait for a disk.
    turns: Arc<Semaphore>,
    cache: Arc<BlockCache>,
    metrics: Metrics,
    /// Why queries failed since the last report.
    failures: Mutex<BTreeSet<String>>,
    /// The problems that were reported last, so that they are not reported every second.
    reported: Mutex<Vec<String>>,
}

impl Server {
    /// A server of these collections, which share a cache. Their [problems](Collection::problems) count as
    /// reported.
    ///
    /// # Errors
    /// If the list of takedowns cannot be read.
    pub fn new(
        collections: Vec<Collection>,
        cache: Arc<BlockCache>,
        options: Options,
    ) -> waypost_io::Result<Server> {
        let takedowns = options.exclude_list.as_deref();
        let takedowns = takedowns.map(read_takedowns).transpose()?;
        let reported = collections.iter().flat_map(Collection::problems).collect();
        let named = collections
            .into_iter()
            .map(|collection| (collection.name().to_owned(), Arc::new(collection)));
        Ok(Server {
            collections: named.collect(),
            permits: Arc::new(Semaphore::new(options.queries)),
            turns: Arc::new(Semaphore::new(cores() + 2)),
            takedowns: RwLock::new(takedowns),
            options,
            cache,
            metrics: Metrics::new(),
            failures: Mutex::default(),
            reported: Mutex::new(reported),
        })
    }

    /// Answers requests until `stop` is ready, and metrics on another port if there is one. What
    /// happens to the indexes meanwhile is passed to `report`.
    pub async fn run(
        self: Arc<Server>,
        listener: TcpListener,
        metrics: Option<TcpListener>,
        report: impl Fn(String) + Send + 'static,
        stop: impl Future<Output = ()>,
    ) {
        running::run(&self, listener, metrics, report, stop).await;
    }

    /// Reopens what has changed, and returns what there is to say about it.
    pub fn refresh(&self) -> Vec<String> {
        // One at a time: an older version must not replace a newer one.
        let mut reported = lock(&self.reported);
        let mut said: Vec<String> = std::mem::take(&mut *lock(&self.failures))
            .into_iter()
            .map(|failure| format!("queries failed: {failure}"))
            .collect();
        let mut problems = Vec::new();
        for (name, collection) in &self.collections {
            let reopened = collection.refresh();
            if reopened > 0 {
                self.metrics.reopened.inc_by(reopened as u64);
                said.push(format!("reopened {reopened} changed index(es) of {name}"));
            }
            problems.extend(collection.problems());
        }
        if let Some(path) = &self.options.exclude_list {
            let stamp = Stamp::of_path(path).ok();
            let known = self.takedowns.read();
            let known = known.unwrap_or_else(PoisonError::into_inner);
            let changed = known.as_ref().map(|(stamp, _)| stamp) != stamp.as_ref();
            drop(known);
            match changed.then(|| read_takedowns(path)) {
                None => {}
                Some(Ok(new)) => {
                    said.push(format!("read {} again", path.display()));
                    let known = self.takedowns.write();
                    *known.unwrap_or_else(PoisonError::into_inner) = Some(new);
                }
                // Better the old list than none.
                Some(Err(error)) => {
                    problems.push(format!("{error}; still using the previous version"));
                }
            }
        }
        let news = problems
            .iter()
            .filter(|problem| !reported.contains(problem));
        said.extend(news.cloned());
        *reported = problems;
        said
    }

    async fn respond(self: Arc<Server>, request: Parts, peer: SocketAddr) -> Answer {
        let started = Instant::now();
        let (path, query) = (request.uri.path(), request.uri.query());
        let route = Route::of(path, query);
        let kind = route.as_ref().map_or("other", Route::kind);
        let mut answer = match (&request.method, route) {
            (&Method::GET | &Method::HEAD, Some(route)) => {
                Arc::clone(&self).answer(route, &request, started).await
            }
            (&Method::GET | &Method::HEAD, None) => message(
                StatusCode::NOT_FOUND,
                "not found: ask /COLLECTION/cdx?url=URL",
            ),
            _ => method_not_allowed("GET, HEAD", "only GET and HEAD"),
        };
        allow_everyone(&mut answer);
        let labels = RequestLabels::of(kind, &answer);
        self.metrics.requests.get_or_create(&labels).inc();
        self.metrics
            .seconds
            .observe(started.elapsed().as_secs_f64());
        if let Some(log) = &self.options.access_log {
            log.entry(&request, peer, started, &mut answer);
        }
        answer
    }

    async fn answer(self: Arc<Server>, route: Route, request: &Parts, started: Instant) -> Answer {
        let (name, wanted) = match route {
            Route::Collections => {
                let names: Vec<&String> = self.collections.keys().collect();
                let list = json!({ "collections": names });
                return plain(StatusCode::OK, JSON, list.to_string());
            }
            Route::Collection(name, wanted) => (name, wanted),
        };
        let Some(collection) = self.collections.get(&name).cloned() else {
            let text = format!("unknown collection {name}");
            return message(StatusCode::NOT_FOUND, &text);
        };
        let gzip = accepts_gzip(&request.headers);
        match wanted {
            route::Request::Cdx(api) => {
                let query = request.uri.query().unwrap_or_default();
                match Query::parse(api, query) {
                    Ok(query) if query.output == Output::Link && self.options.replay.is_none() => {
                        no_replay()
                    }
                    Ok(query) => self.rows(collection, query, None, gzip, started).await,
                    Err(error) => message(StatusCode::BAD_REQUEST, &error.to_string()),
                }
            }
            route::Request::TimeMap { format, url } => {
                let links = self.links(&collection, &url, &request.headers);
                self.timemap(collection, &format, links, gzip, started)
                    .await
            }
            route::Request::TimeGate { url } => {
                let links = self.links(&collection, &url, &request.headers);
                self.timegate(collection, links, &request.headers, started)
                    .await
            }
        }
    }

    /// The rows of a query.
    async fn rows(
        self: Arc<Server>,
        collection: Arc<Collection>,
        query: Query,
        links: Option<Links>,
        gzip: bool,
        started: Instant,
    ) -> Answer {
        let gzip = gzip && query.gzip;
        let form = AnswerForm::of(&query);
        if let Some(small) = self.at_once(&collection, &query, links.as_ref(), gzip, started) {
            return match small {
                Ok(start) => form.answer(start, None),
                Err(failure) => failed(&failure),
            };
        }
        let Some((permit, turn)) = self.permission().await else {
            return self.too_busy();
        };
        let deadline = started + self.options.time_limit;
        let (mut sink, start, chunks) = Sink::new(turn, gzip, deadline);
        let server = Arc::clone(&self);
        spawn_blocking(move || {
            server.metrics.running.inc();
            let clock = Clock::new(deadline, Some(sink.listener()));
            let result = server.write_rows(&collection, &query, links.as_ref(), &clock, &mut sink);
            drop(clock);
            if let Err(Failure::Index(error)) = &result {
                server.failed(error);
            }
            sink.finish(result);
            server.metrics.running.dec();
            drop(permit);
        });
        match start.await {
            Ok(Ok(start)) => form.answer(start, Some(chunks)),
            Ok(Err(failure)) => failed(&failure),
            Err(_) => message(StatusCode::INTERNAL_SERVER_ERROR, "the query failed"),
        }
    }

    /// The rows of one URL in flat files, which take microseconds: giving them to another thread would
    /// take longer. `None` if the query turns out to take more.
    fn at_once(
        &self,
        collection: &Collection,
        query: &Query,
        links: Option<&Links>,
        gzip: bool,
        started: Instant,
    ) -> Option<Result<Start, Failure>> {
        let quick = query.kind == Match::Exact
            && query.page.is_none()
            && (collection.slots().iter().filter_map(Slot::usable))
                .all(|open| open.index.is_flat());
        if !quick {
            return None;
        }
        let mut text = Small::default();
        let clock = Clock::new(started + QUICK.min(self.options.time_limit), None);
        match self.write_rows(collection, query, links, &clock, &mut text) {
            Ok(rows) => Some(Ok(text.finish(rows, gzip))),
            Err(Failure::NotSmall | Failure::TooLong) => None,
            Err(failure) => {
                if let Failure::Index(error) = &failure {
                    self.failed(error);
                }
                Some(Err(failure))
            }
        }
    }

    /// Runs a query. Returns the number of rows.
    fn write_rows(
        &self,
        collection: &Collection,
        query: &Query,
        links: Option<&Links>,
        clock: &Clock,
        out: &mut impl Text,
    ) -> Result<u64, Failure> {
        let mut renderer = Renderer::new(query, self.options.replay.as_ref());
        if let Some(links) = links {
            renderer = renderer.timemap(TimeMapHead {
                original: &links.original,
                timemap: links.timemap.clone(),
                timegate: links.timegate.clone(),
            });
        }
        let view = self.view(collection);
        let search = view.search(query, clock, self.options.most_rows, renderer.wanted());
        if let Some(page) = query.page.filter(|_| query.count_pages) {
            let pages = search.pages(page)?;
            if pages.pages == 0 {
                view.check_absent()?;
            }
            let text = match query.api {
                Api::Pywb => {
                    let (pages, blocks, size) = (pages.pages, pages.blocks, page.size);
                    format!("{{\"pages\": {pages}, \"pageSize\": {size}, \"blocks\": {blocks}}}\n")
                }
                Api::Wayback => format!("{}\n", pages.pages.max(1)),
            };
            out.text().extend_from_slice(text.as_bytes());
            return Ok(0);
        }
        let found = search.run(&mut |row| {
            renderer.row(row, out.text());
            out.flush_if_full()
        })?;
        if found.rows == 0 {
            view.check_absent()?;
        }
        renderer.end(found.resume.as_ref(), out.text());
        self.metrics.rows.inc_by(found.rows);
        Ok(found.rows)
    }

    async fn timemap(
        self: Arc<Server>,
        collection: Arc<Collection>,
        format: &str,
        links: Links,
        gzip: bool,
        started: Instant,
    ) -> Answer {
        let output = match format {
            "link" => Output::Link,
            "json" => Output::Json,
            "cdxj" => Output::Cdxj,
            _ => {
                let text = format!("unknown TimeMap format {format}: use link, json or cdxj");
                return message(StatusCode::NOT_FOUND, &text);
            }
        };
        if output == Output::Link && self.options.replay.is_none() {
            return no_replay();
        }
        let query = Query::of_url(links.original.as_bytes(), output);
        let header = links.header(None);
        let mut answer = self
            .rows(collection, query, Some(links), gzip, started)
            .await;
        if answer.status() == StatusCode::NOT_FOUND {
            return plain(StatusCode::NOT_FOUND, output.media_type(), String::new());
        }
        if answer.status() == StatusCode::OK {
            set(&mut answer, header::LINK, &header);
            let vary = HeaderValue::from_static("accept-datetime");
            answer.headers_mut().append(header::VARY, vary);
        }
        answer
    }

    async fn timegate(
        self: Arc<Server>,
        collection: Arc<Collection>,
        links: Links,
        headers: &HeaderMap,
        started: Instant,
    ) -> Answer {
        if self.options.replay.is_none() {
            return no_replay();
        }
        let wanted = match headers.get("accept-datetime").map(HeaderValue::to_str) {
            None => crate::query::now(),
            Some(text) => {
                let parsed = text.ok().and_then(|text| Datetime::parse_http(text).ok());
                let time = parsed.and_then(|time| Time::first_of(time.timestamp().as_bytes()));
                match time {
                    Some(time) => time,
                    None => {
                        let text = "invalid Accept-Datetime: write Sun, 26 Jan 2014 20:06:24 GMT";
                        return message(StatusCode::BAD_REQUEST, text);
                    }
                }
            }
        };
        let Some((permit, turn)) = self.permission().await else {
            return self.too_busy();
        };
        let mut query = Query::of_url(links.original.as_bytes(), Output::Link);
        query.order = Order::Closest(wanted);
        query.limit = Limit::First(1);
        let deadline = started + self.options.time_limit;
        let server = Arc::clone(&self);
        let closest = spawn_blocking(move || {
            let closest = server.closest(&collection, &query, deadline);
            drop((turn, permit));
            closest
        });
        match closest.await {
            Ok(Ok(Some((datetime, memento)))) => {
                let mut answer = plain(StatusCode::FOUND, "text/plain", String::new());
                set(&mut answer, header::LOCATION, &memento);
                let link = links.header(Some(
                    Link::new(memento)
                        .with("rel", "memento")
                        .with("datetime", datetime.http()),
                ));
                set(&mut answer, header::LINK, &link);
                let vary = HeaderValue::from_static("accept-datetime");
                answer.headers_mut().insert(header::VARY, vary);
                answer
            }
            Ok(Ok(None)) => {
                let text = format!("No Captures found for: {}", links.original);
                message(StatusCode::NOT_FOUND, &text)
            }
            Ok(Err(failure)) => failed(&failure),
            Err(_) => message(StatusCode::INTERNAL_SERVER_ERROR, "the query failed"),
        }
    }

    /// The memento that is closest to the time of the query.
    fn closest(
        &self,
        collection: &Collection,
        query: &Query,
        deadline: Instant,
    ) -> Result<Option<(Datetime, String)>, Failure> {
        let view = self.view(collection);
        let clock = Clock::new(deadline, None);
        let search = view.search(query, &clock, 1, Fields::from(Field::Url));
        let mut closest = None;
        search.run(&mut |row| {
            let url = row.text(Field::Url).unwrap_or_default();
            let url = String::from_utf8_lossy(&url);
            if let (Some(time), Some(replay)) =
                (datetime(row.capture.timestamp()), &self.options.replay)
            {
                closest = Some((time, replay.uri(time, &url)));
            }
            Ok(())
        })?;
        if closest.is_none() {
            view.check_absent()?;
        }
        Ok(closest)
    }

    /// Remembers why an index could not be read. Clients are not told, but the operator is.
    fn failed(&self, error: &Error) {
        self.metrics.failures.inc();
        let mut failures = lock(&self.failures);
        if failures.len() < 16 {
            failures.insert(error.to_string());
        }
    }

    /// What is shown of a collection now.
    fn view(&self, collection: &Collection) -> View {
        let takedowns = self.takedowns.read();
        let takedowns = takedowns.unwrap_or_else(PoisonError::into_inner);
        let embargo = self.options.embargo;
        let slots = collection.slots();
        View {
            indexes: slots.iter().filter_map(Slot::usable).cloned().collect(),
            slots,
            takedowns: takedowns.as_ref().map(|(_, list)| Arc::clone(list)),
            latest: embargo.map(|embargo| embargo.latest(Timestamp::now())),
        }
    }

    fn links(&self, collection: &Collection, url: &str, headers: &HeaderMap) -> Links {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let base = match (&self.options.public_url, host) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => "http://localhost".to_owned(),
        };
        let base = format!("{base}/{}", collection.name());
        Links {
            original: url.to_owned(),
            timegate: format!("{base}/{url}"),
            timemap: format!("{base}/timemap/link/{url}"),
        }
    }

    /// Waits until another query may run, for as long as clients are expected to wait.
    async fn permission(&self) -> Option<(OwnedSemaphorePermit, Turn)> {
        let both = async {
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            Some((permit, Turn::take(Arc::clone(&self.turns)).await?))
        };
        timeout(PATIENCE, both).await.ok().flatten()
    }

    fn too_busy(&self) -> Answer {
        self.metrics.refused.inc();
        busy("too many queries at the moment")
    }
}

impl Runnable for Server {
    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn handle(
        self: Arc<Server>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Answer> + Send {
        let (parts, _) = request.into_parts();
        self.respond(parts, peer)
    }

    fn metrics(&self) -> String {
        self.metrics.cache_hits.set(self.cache.hits());
        self.metrics.cache_bytes.set(self.cache.bytes() as u64);
        let unchecked: usize = self.collections.values().map(|one| one.unchecked()).sum();
        self.metrics.unchecked.set(unchecked as u64);
        self.metrics.problems.set(self.problems().len() as u64);
        self.metrics.text()
    }

    fn problems(&self) -> Vec<String> {
        let collections = self.collections.values();
        collections
            .flat_map(|collection| collection.problems())
            .collect()
    }

    fn check(&self) -> Vec<String> {
        self.refresh()
    }
}

/// How the answer to a query is sent.
struct AnswerForm {
    media_type: &'static str,
    /// The error message for no captures; `None` if an empty answer is sent instead.
    nothing: Option<String>,
}

impl AnswerForm {
    fn of(query: &Query) -> AnswerForm {
        let url = String::from_utf8_lossy(&query.url);
        let nothing = format!("No Captures found for: {url}");
        AnswerForm {
            media_type: match query.count_pages {
                true => JSON,
                false => query.output.media_type(),
            },
            nothing: (query.api == Api::Pywb && !query.count_pages).then_some(nothing),
        }
    }

    fn answer(self, start: Start, chunks: Option<Chunks>) -> Answer {
        if let Some(nothing) = self.nothing.filter(|_| start.nothing) {
            return message(StatusCode::NOT_FOUND, &nothing);
        }
        let body = match chunks.filter(|_| !start.whole) {
            None => AnswerBody::whole(start.first),
            Some(chunks) => AnswerBody::streamed(start.first, chunks),
        };
        let mut answer = Response::new(body);
        let headers = answer.headers_mut();
        let kind = HeaderValue::from_static(self.media_type);
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if start.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

/// The URIs of an original resource in this archive.
struct Links {
    original: String,
    timegate: String,
    timemap: String,
}

impl Links {
    /// The `Link` header of TimeMaps and TimeGates.
    fn header(&self, memento: Option<Link>) -> String {
        let links = [
            Some(Link::new(&self.original[..]).with("rel", "original")),
            Some(Link::new(&self.timegate[..]).with("rel", "timegate")),
            Some(
                Link::new(&self.timemap[..])
                    .with("rel", "timemap")
                    .with("type", Output::Link.media_type()),
            ),
            memento,
        ];
        let links: Vec<String> = links.iter().flatten().map(ToString::to_string).collect();
        links.join(", ")
    }
}

fn no_replay() -> Answer {
    let text = "this server does not know where its captures are replayed";
    // Not 404, which says that there are no captures.
    message(StatusCode::NOT_IMPLEMENTED, text)
}

fn failed(failure: &Failure) -> Answer {
    let status = match failure {
        Failure::Bad(BadQuery(_)) | Failure::TooMany => StatusCode::BAD_REQUEST,
        Failure::TooLong => StatusCode::GATEWAY_TIMEOUT,
        Failure::Gone
        | Failure::CutOff
        | Failure::NotSmall
        | Failure::Unknown
        | Failure::Index(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    // The paths of a server are nobody else's business.
    let text = match failure {
        Failure::Index(_) => "the index cannot be read at the moment".to_owned(),
        other => other.to_string(),
    };
    message(status, &text)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        })
}

fn read_takedowns(path: &Path) -> waypost_io::Result<(Stamp, Arc<Takedowns>)> {
    // Before the content: a change in between is noticed the next time.
    let stamp = Stamp::of_path(path)?;
    Ok((stamp, Arc::new(Takedowns::read(path)?)))
}
