//! Answers that do not depend on archives: texts, errors, redirects, preflights.

use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::body::AnswerBody;
use crate::answer;

pub(super) type Answer = Response<AnswerBody>;

/// The methods that are allowed.
pub(super) const METHODS: &str = "GET, HEAD, OPTIONS";

/// The headers that scripts in browsers may send.
const ALLOWED_HEADERS: &str =
    "Accept-Datetime, Cache-Control, Prefer, X-Waypost-Archives, X-Memgator-Archive-Filter";

/// The media type of texts.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn with_body(status: StatusCode, media_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    answer
}

pub(super) fn plain(
    status: StatusCode,
    media_type: &'static str,
    text: impl Into<bytes::Bytes>,
) -> Answer {
    with_body(status, media_type, AnswerBody::whole(text))
}

/// An error as Go writes it.
pub(super) fn error(status: StatusCode, text: &str) -> Answer {
    let mut answer = plain(status, TEXT, format!("{text}\n"));
    let nosniff = HeaderValue::from_static("nosniff");
    answer
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    answer
}

pub(super) fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// An error that says no more than its status.
pub(super) fn status_text(status: StatusCode) -> Answer {
    let reason = status.canonical_reason().unwrap_or_default();
    error(
        status,
        &format!("{} {}", status.as_str(), reason.to_lowercase()),
    )
}

/// Too much is asked at the moment.
pub(super) fn busy() -> Answer {
    let mut answer = error(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many requests at the moment",
    );
    let seconds = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    answer
}

pub(super) fn method_not_allowed() -> Answer {
    let mut answer = status_text(StatusCode::METHOD_NOT_ALLOWED);
    let methods = HeaderValue::from_static(METHODS);
    answer.headers_mut().insert(header::ALLOW, methods);
    answer
}

pub(super) fn redirect(uri: &str) -> Answer {
    let location = answer::header_uri(uri);
    let body = answer::redirect_body(&location);
    let mut answer = plain(StatusCode::FOUND, "text/html; charset=utf-8", body);
    set(&mut answer, header::LOCATION, &location);
    answer
}

/// The answer to `OPTIONS`, with which browsers ask what scripts may do.
pub(super) fn preflight() -> Answer {
    let mut answer = Response::new(AnswerBody::whole(""));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let allowed = HeaderValue::from_static(ALLOWED_HEADERS);
    answer
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    allow_methods(&mut answer, METHODS);
    answer
}

/// Tells browsers for a day which methods scripts may use.
pub(super) fn allow_methods(answer: &mut Answer, methods: &'static str) {
    let fixed = [
        (header::ALLOW, methods),
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    for (name, value) in fixed {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
}

/// The answers of a TimeGate differ by the datetime that is asked for, by whether a page is asked for, and
/// by the page that its resource is for.
pub(super) fn vary(answer: &mut Answer) {
    let vary = HeaderValue::from_static("accept-datetime, accept, accept-language, referer");
    answer.headers_mut().insert(header::VARY, vary);
}

/// Sets a header, unless its value cannot be one.
pub(super) fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
