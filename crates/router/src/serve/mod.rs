//! The HTTP server: MemGator's endpoints, with fewer surprises.
//!
//! | module | subject |
//! |---|---|
//! | `route` | which request is meant by a path; pure |
//! | `exchange` | a request and what becomes of it, for logs and metrics |
//! | `found` | answers made from what archives hold |
//! | `reply` | answers that do not depend on archives |
//! | `body` | bodies that are made while they are sent |
//! | `proxy` | mementos that are passed on; pure |
//! | `files` | files of a folder |
//! | `filters` | the lookup service: what summaries say |
//! | `about` | the page about the service; pure |
//! | `home` | the page for people, and the events that keep it current |
//! | `monitor` | events for clients of `/monitor` |
//! | `operators` | metrics and health, on another port |

mod about;
mod body;
mod exchange;
mod explain;
mod files;
mod filters;
mod found;
mod home;
mod monitor;
mod operators;
mod own_map;
mod proxy;
mod reply;
pub(crate) mod route;

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use waypost_memento::Datetime;
use waypost_net::server::{Limits, serve};
use waypost_summary::Preference;

pub use about::About;

use crate::answer::{self, Addresses};
use crate::config::{ClientConfig, ServerConfig};
use crate::{
    Aggregator, CacheDirective, Lookup, Router, Selection, Wanted, asks_for_page, explanation,
};
use exchange::Exchange;
use filters::Filters;
use found::LookedUp;
use own_map::OwnMap;
use reply::{
    Answer, TEXT, busy, error, method_not_allowed, not_found, plain, preflight, status_text, vary,
    with_body,
};
use route::{BadRequest, Route, Target};

/// The headers of answers that scripts in browsers may read.
const EXPOSED: &str = "Link, Location, X-Memento-Count, Server, Memento-Datetime, Vary, Age, \
    X-Waypost-Incomplete, X-Waypost-Cache, X-Request-Id, ETag, X-False-Positive-Rate";

const SERVER: &str = concat!("Waypost/", env!("CARGO_PKG_VERSION"));

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How a server answers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How requests are accepted.
    pub config: ServerConfig,
    /// How long a lookup may take.
    pub deadline: Duration,
    /// Whether a TimeMap says in its link to itself from when until when it reaches.
    pub span: bool,
    /// What the page about the service says of its configuration.
    pub about: About,
    /// Whether `/` is the page for people, not the page about the service as in MemGator.
    pub page: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            config: ServerConfig::default(),
            deadline: ClientConfig::default().deadline,
            span: true,
            about: About::default(),
            page: true,
        }
    }
}

/// An aggregator on the Web.
pub struct Server {
    aggregator: Arc<Aggregator>,
    options: Options,
    addresses: Addresses,
    own_map: Option<OwnMap>,
    filters: Option<Filters>,
    requests: Arc<Semaphore>,
    /// Becomes true when the server is told to stop.
    stopping: watch::Sender<bool>,
}

/// Why there is no lookup to answer with.
enum Refusal {
    /// The request is malformed: how.
    Malformed(String),
    /// Too many requests are answered at the moment.
    Busy,
    /// No answer is kept, and the client does not want archives to be asked.
    NotKept,
}

impl From<BadRequest> for Refusal {
    fn from(BadRequest(text): BadRequest) -> Refusal {
        Refusal::Malformed(text)
    }
}

impl Server {
    /// A server of an aggregator, whose links start with the public URL of the options, or with
    /// `base` if there is none.
    pub fn new(aggregator: Arc<Aggregator>, options: Options, base: &str) -> Server {
        let public = options.config.public_url.as_deref();
        let addresses = Addresses::new(public.unwrap_or(base));
        Server {
            own_map: OwnMap::of(&options.config, addresses.base()),
            filters: Filters::of(&aggregator, &options, addresses.base()),
            addresses,
            aggregator,
            requests: Arc::new(Semaphore::new(options.config.max_requests)),
            stopping: watch::Sender::new(false),
            options,
        }
    }

    /// Why the map of the configuration can't be served, if it can't.
    pub fn map_problem(&self) -> Option<&str> {
        self.own_map.as_ref().and_then(OwnMap::problem)
    }

    /// The aggregator that answers.
    pub fn aggregator(&self) -> &Arc<Aggregator> {
        &self.aggregator
    }

    /// Answers requests until `stop` is ready, and then those that are under way. Metrics and health
    /// are served on a listener of their own, if there is one, until all others are answered.
    pub async fn run(
        self: Arc<Server>,
        listener: TcpListener,
        operators: Option<TcpListener>,
        stop: impl Future<Output = ()>,
    ) {
        let config = &self.options.config;
        let limits = Limits {
            connections: config.max_connections,
            header_timeout: config.header_timeout,
            send_timeout: config.send_timeout,
            grace: config.grace,
            head: usize::try_from(config.max_headers.saturating_add(config.max_uri))
                .unwrap_or(usize::MAX),
            ..Limits::default()
        };
        let server = Arc::clone(&self);
        let handler = move |request: Request<Incoming>, peer| {
            let (parts, body) = request.into_parts();
            Arc::clone(&server).handle(parts, body, peer)
        };
        let stopping = self.stopping.clone();
        let stop = async move {
            stop.await;
            // Events have no end of their own.
            stopping.send_replace(true);
        };
        let answering = serve(listener, limits, handler, stop);
        let Some(operators) = operators else {
            return answering.await;
        };
        let server = Arc::clone(&self);
        let handler = move |request: Request<Incoming>, _| {
            let (parts, _) = request.into_parts();
            let stopping = *server.stopping.borrow();
            let filters = server.filters.as_ref();
            let answer = operators::answer(&server.aggregator, filters, &parts, stopping);
            async move { answer }
        };
        let limits = Limits {
            connections: 64,
            ..limits
        };
        tokio::select! {
            () = answering => {}
            () = serve(operators, limits, handler, pending()) => {}
        }
    }

    async fn handle(self: Arc<Server>, request: Parts, body: Incoming, peer: SocketAddr) -> Answer {
        let mut exchange = Exchange::new(&request, body, peer, self.aggregator.operations());
        let mut answer = match self.too_long(&request) {
            Some(refused) => refused,
            None => self.route(&mut exchange).await,
        };
        if let Some(permit) = exchange.permit.take() {
            answer.body_mut().hold(permit);
        }
        let headers = answer.headers_mut();
        let fixed = [
            (header::SERVER, SERVER),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(REQUEST_ID, exchange.number().into());
        if let Some(map) = self
            .own_map
            .as_ref()
            .filter(|_| exchange.kind != "mementomap")
        {
            headers.append(header::LINK, map.link.clone());
        }
        exchange.finish(answer.status().as_u16());
        answer
    }

    /// The answer to a request that is too long.
    fn too_long(&self, request: &Parts) -> Option<Answer> {
        let config = &self.options.config;
        let headers = request.headers.iter();
        let length: usize = headers
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        let target = request
            .uri
            .path_and_query()
            .map_or("", |target| target.as_str());
        let query = request.uri.query().unwrap_or_default();
        let status = match () {
            () if target.len() as u64 > config.max_uri => StatusCode::URI_TOO_LONG,
            () if query.len() as u64 > config.max_query => StatusCode::URI_TOO_LONG,
            () if length as u64 > config.max_headers => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            () => return None,
        };
        Some(status_text(status))
    }

    async fn route(&self, exchange: &mut Exchange<'_>) -> Answer {
        let route = Route::of(&self.options.config.root, exchange.target());
        exchange.kind = route.as_ref().map_or("malformed", Route::kind);
        if let (Ok(Route::Filters(target)), Some(filters)) = (&route, &self.filters) {
            return filters.answer(target, exchange).await;
        }
        match exchange.request.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return preflight(),
            _ => {
                let mut answer = method_not_allowed();
                if matches!(route, Ok(Route::TimeGate(_))) {
                    vary(&mut answer);
                }
                return answer;
            }
        }
        let answered = match route {
            Ok(route) => self.answer(route, exchange).await,
            Err(bad) => Err(bad.into()),
        };
        answered.unwrap_or_else(|refusal| match refusal {
            Refusal::Malformed(text) => {
                self.aggregator.operations().log.error(&text);
                error(StatusCode::BAD_REQUEST, &text)
            }
            Refusal::Busy => busy(),
            Refusal::NotKept => error(
                StatusCode::GATEWAY_TIMEOUT,
                "no answer is kept, and only-if-cached forbids to ask archives",
            ),
        })
    }

    async fn answer(&self, route: Route, exchange: &mut Exchange<'_>) -> Result<Answer, Refusal> {
        Ok(match route {
            Route::TimeMap(format, target) => {
                let found = self.look_up(exchange, &target, Wanted::All).await?;
                found.timemap(format)
            }
            Route::TimeGate(target) => {
                let datetime = accept_datetime(&exchange.request.headers)?;
                let wanted = Wanted::Closest(datetime);
                let found = self.look_up(exchange, &target, wanted).await?;
                found.timegate(datetime)
            }
            Route::Memento {
                form,
                datetime,
                api,
                target,
            } => {
                let wanted = Wanted::Closest(datetime);
                let found = self.look_up(exchange, &target, wanted).await?;
                found.memento(form, datetime, api).await
            }
            Route::Prediction(target) => {
                let router = self.aggregator.router();
                let headers = &exchange.request.headers;
                let lookup = lookup(&router, &target, Wanted::All, headers)?;
                let decision = router.decide(&lookup);
                let json = answer::prediction(router.registry(), &decision, &target.uri);
                plain(StatusCode::OK, "application/json", json.to_string())
            }
            Route::Explain { target, json } => {
                let router = self.aggregator.router();
                let headers = &exchange.request.headers;
                let lookup = lookup(&router, &target, Wanted::All, headers)?;
                let decision = router.decide(&lookup);
                let accept = headers.get(header::ACCEPT);
                let accept = accept.and_then(|value| value.to_str().ok());
                match accept.is_some_and(|accept| accept.contains("text/html")) && !json {
                    true => {
                        let page = explain::page(&router, &decision, &target.uri);
                        plain(StatusCode::OK, "text/html; charset=utf-8", page)
                    }
                    false => {
                        let (registry, decider) = (router.registry(), router.decider());
                        let why = explanation(registry, decider, &decision, &target.uri);
                        plain(StatusCode::OK, "application/json", why.to_string())
                    }
                }
            }
            Route::MementoMap(part) => match &self.own_map {
                Some(map) => {
                    let archives = self.aggregator.router();
                    map.answer(part, &exchange.request.headers, archives.registry())
                        .await
                }
                None => not_found(),
            },
            // Switched off.
            Route::Filters(_) => not_found(),
            Route::About => self.about(),
            Route::Monitor => self.monitor()?,
            Route::Root if self.options.config.static_files.is_some() => self.file("").await,
            Route::Root if self.options.page => self.home(exchange).await?,
            Route::Root => self.about(),
            Route::Life => self.life(),
            Route::LifeEvents => self.life_events()?,
            Route::Holdings { id, report } => self.holdings(&id, report).await,
            Route::Other(path) => self.file(&path).await,
            Route::Outside => not_found(),
        })
    }

    /// Finds what archives hold.
    async fn look_up<'a>(
        &'a self,
        exchange: &mut Exchange<'_>,
        target: &'a Target,
        wanted: Wanted,
    ) -> Result<LookedUp<'a>, Refusal> {
        let headers = &exchange.request.headers;
        // Archives may change between here and the session; then one more or less is selected.
        let mut lookup = lookup(&self.aggregator.router(), target, wanted, headers)?;
        lookup.client = Some(exchange.client());
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        exchange.permit = Some(permit.map_err(|_| Refusal::Busy)?);
        let kind = match wanted {
            Wanted::All => "timemap",
            Wanted::Closest(_) => "timegate",
        };
        let session = self.aggregator.start(exchange.number(), &target.uri, kind);
        exchange.session = Some(Arc::clone(&session));
        let directive = headers.get(header::CACHE_CONTROL);
        let directive = directive.and_then(|value| value.to_str().ok());
        let directive = directive.map_or(CacheDirective::Usual, CacheDirective::parse);
        let deadline = self.options.deadline;
        let kept = self
            .aggregator
            .look_up(&session, &lookup, directive, deadline)
            .await;
        Ok(LookedUp {
            session,
            kept: kept.ok_or(Refusal::NotKept)?,
            target,
            addresses: &self.addresses,
            options: &self.options,
        })
    }

    fn about(&self) -> Answer {
        let router = self.aggregator.router();
        let archives = &router.registry().archives;
        let remark = |place: usize| {
            let standing = router.manners().standing(&archives.get(place)?.id);
            match (standing.resting, standing.failures) {
                (Some(_), _) => Some("DORMANT".to_owned()),
                (None, 0) => None,
                (None, failures) => Some(format!("Consecutive failures: {failures}")),
            }
        };
        let about = &self.options.about;
        let text = about.page_of(&self.addresses, router.registry(), remark);
        plain(StatusCode::OK, TEXT, text)
    }

    fn monitor(&self) -> Result<Answer, Refusal> {
        if !self.options.config.monitor {
            let text = "Benchmark monitoring not enabled";
            self.aggregator.operations().log.error(text);
            return Ok(error(StatusCode::NOT_IMPLEMENTED, text));
        }
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        let permit = permit.map_err(|_| Refusal::Busy)?;
        let events = self.aggregator.operations().monitor.subscribe();
        let events = events.stream();
        Ok(monitor::answer(events, self.stopping.subscribe(), permit))
    }

    async fn file(&self, path: &str) -> Answer {
        let Some(folder) = &self.options.config.static_files else {
            return not_found();
        };
        match files::open(folder, path).await {
            Some(found) => with_body(StatusCode::OK, found.media_type, found.body()),
            None => not_found(),
        }
    }
}

/// The lookup of a request: of the archives that its parameters or headers select.
fn lookup(
    router: &Router,
    target: &Target,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Result<Lookup, BadRequest> {
    let mut archives = target.archives.clone();
    for name in ["x-waypost-archives", "x-memgator-archive-filter"] {
        if archives != Selection::All {
            break;
        }
        if let Some(value) = headers.get(name) {
            let text = String::from_utf8_lossy(value.as_bytes());
            archives = Selection::parse(&text)
                .ok_or_else(|| BadRequest(format!("Malformed {name}: {text}")))?;
        }
    }
    let known = &router.registry().archives;
    let unknown = |id: &&String| known.iter().all(|archive| archive.id != **id);
    if let Some(id) = archives.ids().iter().find(unknown) {
        return Err(BadRequest(format!("Unknown archive: {id}")));
    }
    let referer = headers.get(header::REFERER);
    let referer = referer.and_then(|value| value.to_str().ok());
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    Ok(Lookup {
        archives,
        for_page: accept.is_some_and(|accept| asks_for_page(accept, &target.uri)),
        page: referer.and_then(explain::page_of),
        preference: preference(headers, wanted),
        ..Lookup::new(&target.uri[..], wanted)
    })
}

/// What the client of a TimeGate would like to get: the first language and the first media type that
/// it names. A client of a TimeMap names formats of TimeMaps.
fn preference(headers: &HeaderMap, wanted: Wanted) -> Preference {
    if wanted == Wanted::All {
        return Preference::default();
    }
    let first = |name: HeaderName| {
        let value = headers.get(name)?.to_str().ok()?;
        let first = value.split([',', ';']).next()?.trim();
        let specific = !first.is_empty() && !first.starts_with('*') && first.len() <= 64;
        specific.then(|| first.to_owned())
    };
    Preference {
        language: first(header::ACCEPT_LANGUAGE),
        media_type: first(header::ACCEPT),
    }
}

/// The datetime that a TimeGate is asked for: now, if the request does not say.
fn accept_datetime(headers: &HeaderMap) -> Result<Datetime, BadRequest> {
    let text = match headers.get("accept-datetime") {
        Some(value) if !value.is_empty() => String::from_utf8_lossy(value.as_bytes()),
        _ => {
            let now = Datetime::new(Timestamp::now());
            return now.ok_or_else(|| BadRequest("the clock is before the year 0".to_owned()));
        }
    };
    Datetime::parse_http(&text).map_err(|_| {
        BadRequest(format!(
            "Malformed Accept-Datetime: {text}\nExpected in RFC1123 format"
        ))
    })
}
