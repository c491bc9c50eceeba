//! One conversation with an archive: requests within its limits and before a deadline.

use std::io::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Method, Response};
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::Client;
use super::guard::NamedHosts;
use crate::manners::Permit;
use crate::{Archive, Reply};

/// Maximum number of redirects of a request.
pub(super) const MOST_REDIRECTS: usize = 10;

/// The wait before a request is repeated; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Why an archive gave no answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It took too long.
    Late,
    /// It answered with this status.
    Status(u16),
    /// It could not be reached, or its answer could not be read.
    Failed(String),
    /// It was not asked.
    Spared(String),
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Reply {
        match failure {
            Failure::Late => Reply::Late,
            Failure::Status(status) => Reply::Status(status),
            Failure::Failed(why) => Reply::Failed(why),
            Failure::Spared(why) => Reply::Spared(why),
        }
    }
}

/// An answer, after redirects.
pub(super) struct Answer {
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
    /// Why the body is not complete.
    pub(super) cut: Option<Failure>,
}

/// One conversation with an archive.
pub(super) struct Conversation<'a> {
    pub(super) client: &'a Client,
    pub(super) hosts: &'a NamedHosts,
    pub(super) archive: &'a Archive,
    pub(super) permit: &'a Permit,
    pub(super) deadline: Instant,
    /// How many bytes of bodies may still be read.
    pub(super) bytes_left: AtomicUsize,
}

impl Conversation<'_> {
    /// Gets a document, following redirects.
    pub(super) async fn get(&self, mut url: Url) -> Result<Answer, Failure> {
        for _ in 0..=MOST_REDIRECTS {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            let response = self.send(Method::GET, &url, headers).await?;
            let status = response.status().as_u16();
            match redirect(status, response.headers(), &url) {
                Some(next) => url = next?,
                None => {
                    let content_type = header(response.headers(), &CONTENT_TYPE);
                    let (body, cut) = match status {
                        200..=299 => self.body(response).await,
                        _ => (Vec::new(), None),
                    };
                    return Ok(Answer {
                        url,
                        status,
                        content_type,
                        body,
                        cut,
                    });
                }
            }
        }
        Err(Failure::Failed(format!(
            "more than {MOST_REDIRECTS} redirects"
        )))
    }

    /// Sends a request, again if the archive is busy, and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<Response, Failure> {
        let limits = &self.archive.limits;
        let check = self.hosts.check(url, self.archive);
        let check = check.map_err(|why| Failure::Failed(format!("refused: {why}")))?;
        let http = self.client.http(check, limits.connect_timeout);
        let http = http.map_err(Failure::Failed)?;
        let mut wait = FIRST_WAIT;
        let mut repeated = 0;
        let mut hung_up = false;
        loop {
            let turn = self.permit.turn(self.deadline).await;
            turn.map_err(|refusal| Failure::Spared(refusal.to_string()))?;
            let request = http.request(method.clone(), url.clone());
            let request = request.headers(headers.clone());
            let time = limits.connect_timeout.saturating_add(limits.header_timeout);
            let latest = later(Instant::now(), time).min(self.deadline);
            let response = match timeout_at(latest, request.send()).await {
                Err(_) => return Err(Failure::Late),
                Ok(Err(error)) if error.is_timeout() => return Err(Failure::Late),
                // It may have closed an idle connection at the moment at which it was used again.
                Ok(Err(error)) if !error.is_connect() && !hung_up => {
                    hung_up = true;
                    continue;
                }
                Ok(Err(error)) => return Err(Failure::Failed(cause(&error))),
                Ok(Ok(response)) => response,
            };
            let status = response.status().as_u16();
            if !matches!(status, 429 | 503) {
                return Ok(response);
            }
            let asked = waypost_net::retry_after(response.headers()).unwrap_or_default();
            // Others leave it alone meanwhile.
            self.permit.retry_after(asked);
            let pause = wait.max(asked);
            if repeated >= limits.retries || later(Instant::now(), pause) >= self.deadline {
                return Err(Failure::Status(status));
            }
            drop(response);
            sleep(pause).await;
            wait = wait.saturating_mul(2);
            repeated += 1;
        }
    }

    /// Reads the body of an answer, decompressed, and says why it is not complete.
    async fn body(&self, mut response: Response) -> (Vec<u8>, Option<Failure>) {
        let encoding = header(response.headers(), &CONTENT_ENCODING).unwrap_or_default();
        let bounded = Bounded {
            bytes: Vec::new(),
            left: &self.bytes_left,
        };
        let mut sink = match &encoding.trim().to_ascii_lowercase()[..] {
            "" | "identity" => Sink::Plain(bounded),
            "gzip" | "x-gzip" => Sink::Gzip(Box::new(MultiGzDecoder::new(bounded))),
            other => {
                let why = format!("the answer is encoded as `{other}`");
                return (Vec::new(), Some(Failure::Failed(why)));
            }
        };
        let too_large = || Failure::Failed("the answers are too large".to_owned());
        // Compressed bytes that yield nothing are bounded, too.
        let mut received = 0_u64;
        let cut = loop {
            let chunk = match timeout_at(self.deadline, response.chunk()).await {
                Err(_) => break Some(Failure::Late),
                Ok(Err(error)) if error.is_timeout() => break Some(Failure::Late),
                Ok(Err(error)) => break Some(Failure::Failed(cause(&error))),
                Ok(Ok(None)) => break None,
                Ok(Ok(Some(chunk))) => chunk,
            };
            received += chunk.len() as u64;
            match sink.write_all(&chunk) {
                _ if received > self.archive.limits.max_body => break Some(too_large()),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    break Some(too_large());
                }
                Err(error) => break Some(Failure::Failed(format!("damaged gzip: {error}"))),
            }
        };
        let (body, damage) = sink.finish();
        (body, cut.or(damage.map(Failure::Failed)))
    }
}

/// Where a redirect leads; `None` if the answer is not a redirect.
pub(super) fn redirect(
    status: u16,
    headers: &HeaderMap,
    url: &Url,
) -> Option<Result<Url, Failure>> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = header(headers, &LOCATION)?;
    let invalid = |_| Failure::Failed(format!("redirect to the invalid URI `{location}`"));
    Some(url.join(&location).map_err(invalid))
}

/// The value of a header. Archives put raw UTF-8 into them.
pub(super) fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A time that may be too far away.
pub(super) fn later(at: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    at + wait.min(FAR)
}

/// The innermost cause, which says most.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else {
        "the connection failed"
    };
    format!("{what}: {cause}")
}

/// Bytes up to a limit, which several bodies share.
struct Bounded<'a> {
    bytes: Vec<u8>,
    left: &'a AtomicUsize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = |left: usize| Some(left - left.min(bytes.len()));
        let left = self.left.fetch_update(Relaxed, Relaxed, take);
        let fits = left.unwrap_or_default().min(bytes.len());
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Sink<'a> {
    Plain(Bounded<'a>),
    Gzip(Box<MultiGzDecoder<Bounded<'a>>>),
}

impl Sink<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(sink) => sink.write_all(bytes),
            Sink::Gzip(sink) => sink.write_all(bytes),
        }
    }

    /// The bytes, and what is wrong with the end of the compressed form.
    fn finish(self) -> (Vec<u8>, Option<String>) {
        match self {
            Sink::Plain(sink) => (sink.bytes, None),
            Sink::Gzip(mut sink) => {
                let damage = sink.try_finish().err();
                let bytes = std::mem::take(&mut sink.get_mut().bytes);
                (bytes, damage.map(|error| format!("damaged gzip: {error}")))
            }
        }
    }
}
