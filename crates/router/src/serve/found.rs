//! Answers made from what archives hold: TimeMaps, redirects of TimeGates, descriptions, mementos.

use std::sync::Arc;

use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use waypost_memento::{Datetime, Format};

use super::body::AnswerBody;
use super::reply::{Answer, error, not_found, plain, redirect, set, vary, with_body};
use super::route::{Form, Target};
use super::{Options, proxy};
use crate::answer::{self, Addresses, Around};
use crate::{Kept, Origin, Session};

const INCOMPLETE: HeaderName = HeaderName::from_static("x-waypost-incomplete");
const CACHE: HeaderName = HeaderName::from_static("x-waypost-cache");
const COUNT: HeaderName = HeaderName::from_static("x-memento-count");

/// What archives hold, and how to answer with it.
pub(super) struct LookedUp<'a> {
    pub(super) session: Arc<Session>,
    pub(super) kept: Kept,
    pub(super) target: &'a Target,
    pub(super) addresses: &'a Addresses,
    pub(super) options: &'a Options,
}

impl LookedUp<'_> {
    /// The TimeMap, or the part of it that is asked for.
    pub(super) fn timemap(&self, format: Format) -> Answer {
        let range = self.target.range;
        let aggregate = &self.kept.aggregate;
        let mementos = &aggregate.mementos;
        let places = answer::select(mementos, range.from, range.until, range.limit);
        let count = places.len();
        let mut answer = match count {
            0 => self.nothing(),
            _ => {
                let uri = &self.target.uri;
                let selected = &mementos[places.clone()];
                let span = self.options.span;
                let links = self.addresses.timemap_of(uri, format, selected, span);
                let body = AnswerBody::timemap(links, format, Arc::clone(aggregate), places);
                self.marked(with_body(StatusCode::OK, format.media_type(), body))
            }
        };
        answer.headers_mut().insert(COUNT, count.into());
        answer
    }

    /// A redirect to the memento closest to a datetime.
    pub(super) fn timegate(&self, datetime: Datetime) -> Answer {
        let mementos = &self.kept.aggregate.mementos;
        let Some(around) = Around::find(mementos, datetime) else {
            return self.nothing();
        };
        let mut links = self.addresses.links(&self.target.uri);
        links.mementos = around.mementos(mementos);
        let mut answer = redirect(&mementos[around.closest].memento.uri);
        set(&mut answer, header::LINK, &answer::link_header(&links));
        vary(&mut answer);
        self.marked(answer)
    }

    /// The memento closest to a datetime: where it is, what is around it, or its body. `api` is
    /// whether it was asked for as at Time Travel.
    pub(super) async fn memento(&self, form: Form, datetime: Datetime, api: bool) -> Answer {
        let mementos = &self.kept.aggregate.mementos;
        let Some(around) = Around::find(mementos, datetime) else {
            return self.nothing();
        };
        let uri = &self.target.uri;
        let answer = match form {
            Form::Redirect => redirect(&mementos[around.closest].memento.uri),
            Form::Description(Format::Json) if api && self.options.config.time_travel => {
                let json = around.time_travel(&self.addresses.links(uri), mementos);
                let text = format!("{json:#}\n");
                plain(StatusCode::OK, Format::Json.media_type(), text)
            }
            Form::Description(format) => {
                let text = self.addresses.description(uri, format, mementos, datetime);
                plain(StatusCode::OK, format.media_type(), text)
            }
            Form::Proxy => self.proxied(around.closest).await,
        };
        self.marked(answer)
    }

    /// The answer if there are no mementos: where else to look. That there are none is said only if an
    /// archive or a summary has said so.
    fn nothing(&self) -> Answer {
        let mut answer = match self.kept.aggregate.is_unknown() {
            true => error(
                StatusCode::SERVICE_UNAVAILABLE,
                "no archive that may have mementos has answered",
            ),
            false => not_found(),
        };
        let links = self.addresses.links(&self.target.uri);
        set(&mut answer, header::LINK, &answer::link_header(&links));
        vary(&mut answer);
        self.marked(answer)
    }

    /// Says where the answer is from, and which archives it may lack mementos of.
    fn marked(&self, mut answer: Answer) -> Answer {
        let Kept {
            aggregate,
            age,
            origin,
        } = &self.kept;
        let archives = &self.session.router().registry().archives;
        let missing = aggregate.missing();
        let missing = missing.filter_map(|place| archives.get(place));
        let ids: Vec<&str> = missing.map(|archive| &archive.id[..]).collect();
        if !ids.is_empty() {
            set(&mut answer, INCOMPLETE, &ids.join(","));
        }
        set(&mut answer, CACHE, origin.name());
        // Summaries of pages are asked only for pages.
        let vary = answer.headers_mut().entry(header::VARY);
        vary.or_insert(HeaderValue::from_static("accept"));
        if *origin != Origin::Fetched {
            answer
                .headers_mut()
                .insert(header::AGE, age.as_secs().into());
        }
        answer
    }

    /// A memento as it was captured.
    async fn proxied(&self, place: usize) -> Answer {
        let found = &self.kept.aggregate.mementos[place];
        let uri = proxy::raw_uri(&found.memento.uri);
        self.session.proxying(&uri);
        let router = self.session.router();
        let deadline = self.options.deadline;
        let response = match router.open(found.archive, &uri, deadline).await {
            Ok(response) => response,
            Err(why) => {
                let text = format!("Error proxying {uri}: {why}");
                return error(StatusCode::BAD_GATEWAY, &text);
            }
        };
        let archive = router.registry().archives.get(found.archive);
        let left = archive.map_or(0, |archive| archive.limits.max_body);
        if response
            .content_length()
            .is_some_and(|length| length > left)
        {
            let text = format!("Error proxying {uri}: larger than {left} bytes");
            return error(StatusCode::BAD_GATEWAY, &text);
        }
        let (parts, body) = http::Response::from(response).into_parts();
        let mut answer = Response::new(AnswerBody::proxied(body, left));
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = proxy::passed_on(&parts.headers);
        answer
    }
}
