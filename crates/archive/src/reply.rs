//! Short answers, and the headers that all answers have.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::body::AnswerBody;

pub(crate) type Answer = Response<AnswerBody>;

pub(crate) const JSON: &str = "application/json; charset=utf-8";

pub(crate) fn plain(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<bytes::Bytes>,
) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// A message in pywb's form.
pub(crate) fn message(status: StatusCode, text: &str) -> Answer {
    let text = format!("{{\"message\": {}}}\n", serde_json::Value::from(text));
    plain(status, JSON, text)
}

/// The answer to a client that should come again in a second.
pub(crate) fn busy(text: &str) -> Answer {
    let mut answer = message(StatusCode::SERVICE_UNAVAILABLE, text);
    let seconds = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    answer
}

/// The answer to a request whose method is not one of those that are allowed.
pub(crate) fn method_not_allowed(allowed: &'static str, text: &str) -> Answer {
    let mut answer = message(StatusCode::METHOD_NOT_ALLOWED, text);
    let allowed = HeaderValue::from_static(allowed);
    answer.headers_mut().insert(header::ALLOW, allowed);
    answer
}

/// Lets scripts of all sites read an answer.
pub(crate) fn allow_everyone(answer: &mut Answer) {
    let any = HeaderValue::from_static("*");
    answer
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
}

/// Sets a header, unless the value cannot be one.
pub(crate) fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
