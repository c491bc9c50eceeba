//! The HTTP server: MemGator's endpoints, with fewer surprises.
//!
//! | module | subject |
//! |---|---|
//! | `route` | which request is meant by a path; pure |
//! | `body` | bodies that are made while they are sent |
//! | `proxy` | mementos that are passed on; pure |
//! | `files` | files of a folder |
//! | `about` | the page about the service; pure |

mod about;
mod body;
mod files;
mod proxy;
pub(crate) mod route;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use waypost_memento::{Datetime, Format};
use waypost_net::server::{Limits, serve};

pub use about::About;

use crate::answer::{self, Addresses, Around};
use crate::config::{ClientConfig, ServerConfig};
use crate::{Aggregate, AggregateOptions, Lookup, Router, Selection, Wanted, decide};
use body::AnswerBody;
use route::{BadRequest, Form, Route, Target};

/// The headers of answers that scripts in browsers may read.
const EXPOSED: &str =
    "Link, Location, X-Memento-Count, Server, Memento-Datetime, Vary, X-Waypost-Incomplete";

/// The headers that scripts in browsers may send.
const ALLOWED_HEADERS: &str =
    "Accept-Datetime, Cache-Control, Prefer, X-Waypost-Archives, X-Memgator-Archive-Filter";

const METHODS: &str = "GET, HEAD, OPTIONS";

const SERVER: &str = concat!("Waypost/", env!("CARGO_PKG_VERSION"));

const INCOMPLETE: HeaderName = HeaderName::from_static("x-waypost-incomplete");
const COUNT: HeaderName = HeaderName::from_static("x-memento-count");

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
}

impl Default for Options {
    fn default() -> Options {
        Options {
            config: ServerConfig::default(),
            deadline: ClientConfig::default().deadline,
            span: true,
            about: About::default(),
        }
    }
}

/// An aggregator on the Web.
pub struct Server {
    router: RwLock<Arc<Router>>,
    options: Options,
    addresses: Addresses,
    requests: Semaphore,
    /// Becomes true when the server is told to stop.
    stopping: watch::Sender<bool>,
}

type Answer = Response<AnswerBody>;

impl Server {
    /// A server of an aggregator, whose links start with the public URL of the options, or with
    /// `base` if there is none.
    pub fn new(router: Router, options: Options, base: &str) -> Server {
        let public = options.config.public_url.as_deref();
        Server {
            addresses: Addresses::new(public.unwrap_or(base)),
            router: RwLock::new(Arc::new(router)),
            requests: Semaphore::new(options.config.max_requests),
            stopping: watch::Sender::new(false),
            options,
        }
    }

    /// The router that answers requests from now on. Those under way keep the one they have.
    pub fn set_router(&self, router: Router) {
        *self.router.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(router);
    }

    /// The router that answers requests.
    pub fn router(&self) -> Arc<Router> {
        Arc::clone(&self.router.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers requests until `stop` is ready, and then those that are under way.
    pub async fn run(self: Arc<Server>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let config = &self.options.config;
        let limits = Limits {
            connections: config.max_connections,
            header_timeout: config.header_timeout,
            grace: config.grace,
            head: usize::try_from(config.max_headers.saturating_add(config.max_uri))
                .unwrap_or(usize::MAX),
        };
        let server = Arc::clone(&self);
        let handler = move |request: Request<Incoming>, peer| {
            let (parts, _) = request.into_parts();
            Arc::clone(&server).handle(parts, peer)
        };
        let stopping = self.stopping.clone();
        let stop = async move {
            stop.await;
            // Events have no end of their own.
            stopping.send_replace(true);
        };
        serve(listener, limits, handler, stop).await;
    }

    async fn handle(self: Arc<Server>, request: Parts, _peer: SocketAddr) -> Answer {
        let mut answer = match self.refusal(&request) {
            Some(refused) => refused,
            None => self.route(&request).await,
        };
        let headers = answer.headers_mut();
        let fixed = [
            (header::SERVER, SERVER),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }

    /// The answer to a request that is too long.
    fn refusal(&self, request: &Parts) -> Option<Answer> {
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

    async fn route(&self, request: &Parts) -> Answer {
        let target = request
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        let route = Route::of(&self.options.config.root, target);
        match request.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return preflight(),
            _ => {
                let mut answer = status_text(StatusCode::METHOD_NOT_ALLOWED);
                let headers = answer.headers_mut();
                headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
                if matches!(route, Ok(Route::TimeGate(_))) {
                    headers.insert(header::VARY, HeaderValue::from_static("accept-datetime"));
                }
                return answer;
            }
        }
        let answered = match route {
            Ok(route) => self.answer(route, request).await,
            Err(bad) => Err(bad),
        };
        answered.unwrap_or_else(|BadRequest(text)| error(StatusCode::BAD_REQUEST, &text))
    }

    async fn answer(&self, route: Route, request: &Parts) -> Result<Answer, BadRequest> {
        Ok(match route {
            Route::TimeMap(format, target) => {
                let found = self.look_up(&target, Wanted::All, request).await?;
                found.unwrap_or_else(|found| self.timemap(format, &target, &found))
            }
            Route::TimeGate(target) => {
                let datetime = accept_datetime(&request.headers)?;
                let found = self
                    .look_up(&target, Wanted::Closest(datetime), request)
                    .await?;
                found.unwrap_or_else(|found| self.timegate(datetime, &target, &found))
            }
            Route::Memento {
                form,
                datetime,
                api,
                target,
            } => {
                let wanted = Wanted::Closest(datetime);
                match self.look_up(&target, wanted, request).await? {
                    Ok(answer) => answer,
                    Err(found) => self.memento(form, datetime, api, &target, &found).await,
                }
            }
            Route::Prediction(target) => {
                let router = self.router();
                let lookup = lookup(&router, &target, Wanted::All, &request.headers)?;
                let decision = decide(router.registry(), &lookup);
                let json = answer::prediction(router.registry(), &decision, &target.uri);
                plain(StatusCode::OK, "application/json", json.to_string())
            }
            Route::About => self.about(),
            Route::Monitor => self.monitor(),
            Route::Root if self.options.config.static_files.is_none() => self.about(),
            Route::Root => self.file("").await,
            Route::Other(path) => self.file(&path).await,
            Route::Outside => not_found(),
        })
    }

    /// Asks the archives. `Ok` is the answer if there is nothing to make one from.
    async fn look_up(
        &self,
        target: &Target,
        wanted: Wanted,
        request: &Parts,
    ) -> Result<Result<Answer, LookedUp>, BadRequest> {
        let router = self.router();
        let lookup = lookup(&router, target, wanted, &request.headers)?;
        let Ok(_permit) = self.requests.try_acquire() else {
            let mut answer = error(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at the moment",
            );
            let seconds = HeaderValue::from_static("1");
            answer.headers_mut().insert(header::RETRY_AFTER, seconds);
            return Ok(Ok(answer));
        };
        let options = AggregateOptions {
            deadline: self.options.deadline,
            ..AggregateOptions::default()
        };
        let aggregate = Arc::new(router.aggregate(&lookup, &options).await);
        Ok(Err(LookedUp { router, aggregate }))
    }

    fn timemap(&self, format: Format, target: &Target, found: &LookedUp) -> Answer {
        let range = target.range;
        let mementos = &found.aggregate.mementos;
        let places = answer::select(mementos, range.from, range.until, range.limit);
        let count = places.len();
        let mut answer = match count {
            0 => self.nothing(target),
            _ => {
                let uri = &target.uri;
                let selected = &mementos[places.clone()];
                let links = self
                    .addresses
                    .timemap_of(uri, format, selected, self.options.span);
                let aggregate = Arc::clone(&found.aggregate);
                let body = AnswerBody::timemap(links, format, aggregate, places);
                with_body(StatusCode::OK, format.media_type(), body)
            }
        };
        answer.headers_mut().insert(COUNT, count.into());
        found.mark(&mut answer);
        answer
    }

    fn timegate(&self, datetime: Datetime, target: &Target, found: &LookedUp) -> Answer {
        let mementos = &found.aggregate.mementos;
        let Some(around) = Around::find(mementos, datetime) else {
            let mut answer = self.nothing(target);
            found.mark(&mut answer);
            return answer;
        };
        let mut links = self.addresses.links(&target.uri);
        links.mementos = around.mementos(mementos);
        let mut answer = redirect(&mementos[around.closest].memento.uri);
        set(&mut answer, header::LINK, &answer::link_header(&links));
        let vary = HeaderValue::from_static("accept-datetime");
        answer.headers_mut().insert(header::VARY, vary);
        found.mark(&mut answer);
        answer
    }

    async fn memento(
        &self,
        form: Form,
        datetime: Datetime,
        api: bool,
        target: &Target,
        found: &LookedUp,
    ) -> Answer {
        let mementos = &found.aggregate.mementos;
        let mut answer = match (Around::find(mementos, datetime), form) {
            (None, _) => self.nothing(target),
            (Some(around), Form::Redirect) => redirect(&mementos[around.closest].memento.uri),
            (Some(around), Form::Description(Format::Json))
                if api && self.options.config.time_travel =>
            {
                let links = self.addresses.links(&target.uri);
                let json = around.time_travel(&links, mementos);
                let text = format!("{json:#}\n");
                plain(StatusCode::OK, Format::Json.media_type(), text)
            }
            (Some(around), Form::Description(format)) => {
                let mut links = self.addresses.links(&target.uri);
                links.mementos = around.mementos(mementos);
                let text = answer::document(&links, format);
                plain(StatusCode::OK, format.media_type(), text)
            }
            (Some(around), Form::Proxy) => {
                found.proxied(around.closest, self.options.deadline).await
            }
        };
        found.mark(&mut answer);
        answer
    }

    /// The answer if there are no mementos: where else to look.
    fn nothing(&self, target: &Target) -> Answer {
        let mut answer = not_found();
        let links = self.addresses.links(&target.uri);
        set(&mut answer, header::LINK, &answer::link_header(&links));
        let vary = HeaderValue::from_static("accept-datetime");
        answer.headers_mut().insert(header::VARY, vary);
        answer
    }

    fn about(&self) -> Answer {
        let text = self
            .options
            .about
            .page(&self.addresses, self.router().registry());
        plain(StatusCode::OK, TEXT, text)
    }

    fn monitor(&self) -> Answer {
        error(
            StatusCode::NOT_IMPLEMENTED,
            "Benchmark monitoring not enabled",
        )
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

/// What the archives answered, and who was asked.
struct LookedUp {
    router: Arc<Router>,
    aggregate: Arc<Aggregate>,
}

impl LookedUp {
    /// Names the archives whose mementos may be missing.
    fn mark(&self, answer: &mut Answer) {
        let archives = &self.router.registry().archives;
        let missing = self
            .aggregate
            .missing()
            .filter_map(|place| archives.get(place));
        let ids: Vec<&str> = missing.map(|archive| &archive.id[..]).collect();
        if !ids.is_empty() {
            set(answer, INCOMPLETE, &ids.join(","));
        }
    }

    /// A memento as it was captured.
    async fn proxied(&self, place: usize, deadline: Duration) -> Answer {
        let found = &self.aggregate.mementos[place];
        let uri = proxy::raw_uri(&found.memento.uri);
        let response = match self.router.open(found.archive, &uri, deadline).await {
            Ok(response) => response,
            Err(why) => {
                let text = format!("Error proxying {uri}: {why}");
                return error(StatusCode::BAD_GATEWAY, &text);
            }
        };
        let archive = self.router.registry().archives.get(found.archive);
        let left = archive.map_or(0, |archive| archive.limits.max_body);
        if response
            .content_length()
            .is_some_and(|length| length > left)
        {
            let text = format!("Error proxying {uri}: larger than {left} bytes");
            return error(StatusCode::BAD_GATEWAY, &text);
        }
        let (parts, body) = http::Response::from(response).into_parts();
        let mut answer = Response::new(AnswerBody::Proxied { body, left });
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = proxy::passed_on(&parts.headers);
        answer
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
    Ok(Lookup {
        archives,
        ..Lookup::new(&target.uri[..], wanted)
    })
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

const TEXT: &str = "text/plain; charset=utf-8";

fn with_body(status: StatusCode, media_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    answer
}

fn plain(status: StatusCode, media_type: &'static str, text: impl Into<bytes::Bytes>) -> Answer {
    with_body(status, media_type, AnswerBody::whole(text))
}

/// An error as Go writes it.
fn error(status: StatusCode, text: &str) -> Answer {
    let mut answer = plain(status, TEXT, format!("{text}\n"));
    let nosniff = HeaderValue::from_static("nosniff");
    answer
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    answer
}

fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

fn status_text(status: StatusCode) -> Answer {
    let reason = status.canonical_reason().unwrap_or_default();
    error(
        status,
        &format!("{} {}", status.as_str(), reason.to_lowercase()),
    )
}

fn redirect(uri: &str) -> Answer {
    let location = answer::header_uri(uri);
    let body = answer::redirect_body(&location);
    let mut answer = plain(StatusCode::FOUND, "text/html; charset=utf-8", body);
    set(&mut answer, header::LOCATION, &location);
    answer
}

fn preflight() -> Answer {
    let mut answer = Response::new(AnswerBody::whole(""));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    let fixed = [
        (header::ALLOW, METHODS),
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Sets a header, unless its value cannot be one.
fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
