//! Asks an archive's TimeGate for the memento closest to a datetime.
//!
//! TimeGates answer in many ways: 200 with `Memento-Datetime` and `Content-Location`, redirects of
//! every kind, with and without `Link`. HEAD suffices for all of them; GET is for archives that do
//! not support it.
//!
//! Only an answer that says so speaks of mementos: by a link to one, by `Memento-Datetime`, or, if it is
//! a redirect, by `Vary: accept-datetime`. pywb redirects `http://host` to `http://host/` at the
//! datetime that was asked for, whether it holds anything or not.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LINK, VARY};
use url::Url;
use waypost_memento::{Datetime, Format, Memento, TimeMap};

use super::Asked;
use super::document::{self, identity, is_web};
use super::fetch::{Conversation, Failure, MOST_REDIRECTS, header, redirect};
use super::timemap::is_nothing;
use crate::Reply;

const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");

/// What the head of a TimeGate's answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Mementos with absolute URIs: the selected one, and those that `Link` names.
    pub mementos: Vec<Memento>,
    /// Where to ask further: a redirect that does not say whether it leads to a memento.
    pub next: Option<Url>,
    /// The TimeMap in link-format, or without a type.
    pub timemap: Option<Url>,
}

/// Reads the head of a TimeGate's answer. `url` is the URI of the answer and `original` the one that
/// was asked for.
pub fn read(status: u16, headers: &HeaderMap, url: &Url, original: &str) -> Gate {
    let fields: Vec<&[u8]> = headers
        .get_all(LINK)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    let timemap = match TimeMap::read(Format::Link, &fields.join(&b",\n"[..]), None) {
        Ok((timemap, _)) => timemap,
        Err(_) => TimeMap::default(),
    };
    let is_readable = |format: Option<Format>| format.is_none_or(|f| f == Format::Link);
    let mut timemaps = timemap.timemaps.iter();
    let mut gate = Gate {
        timemap: timemaps
            .find(|link| is_readable(link.format))
            .and_then(|link| url.join(&link.uri).ok()),
        mementos: timemap.mementos,
        next: None,
    };
    document::resolve(&mut gate.mementos, url);
    let datetime = header(headers, &MEMENTO_DATETIME);
    let datetime = datetime.and_then(|text| Datetime::parse(&text).ok());
    if let Some(Ok(location)) = redirect(status, headers, url) {
        let varies = headers.get_all(VARY).iter().any(|field| {
            let field = String::from_utf8_lossy(field.as_bytes()).to_ascii_lowercase();
            let mut names = field.split(',').map(str::trim);
            names.any(|name| name == ACCEPT_DATETIME.as_str())
        });
        match varies || datetime.is_some() || !gate.mementos.is_empty() {
            true => gate.redirected(location, datetime, original),
            false => gate.next = Some(location),
        }
    } else if matches!(status, 200..=299)
        && let Some(datetime) = datetime
    {
        let location = header(headers, &CONTENT_LOCATION);
        match location.and_then(|location| url.join(&location).ok()) {
            Some(location) => gate.add(location, datetime),
            // The URI of the TimeGate stands for another memento tomorrow.
            None if gate.mementos.iter().any(|m| m.datetime == datetime) => {}
            None => gate.add(url.clone(), datetime),
        }
    }
    gate
}

impl Gate {
    /// Where the memento itself is, if all that a page says is the datetime that was asked for: the
    /// pages in which pywb frames mementos say that whether there is one or not.
    fn framed(&self, url: &Url, datetime: Option<Datetime>) -> Option<Url> {
        let first = Url::parse(&self.mementos.first()?.uri).ok()?;
        let echoes = self.mementos.iter().all(|m| Some(m.datetime) == datetime);
        (echoes && identity(&first) != identity(url)).then_some(first)
    }

    fn add(&mut self, url: Url, datetime: Datetime) {
        let same = |memento: &Memento| memento.uri == url.as_str() && memento.datetime == datetime;
        if is_web(url.as_str()) && !self.mementos.iter().any(same) {
            self.mementos.push(Memento::new(url, datetime));
        }
    }

    /// A redirect leads to the selected memento, or to another TimeGate.
    fn redirected(&mut self, location: Url, datetime: Option<Datetime>, original: &str) {
        let target = identity(&location);
        let is_target = |uri: &str| Url::parse(uri).is_ok_and(|url| identity(&url) == target);
        if self.mementos.iter().any(|memento| is_target(&memento.uri)) {
            return;
        }
        match datetime.or_else(|| timestamp_in(location.as_str(), original)) {
            // pywb's `Location` and `Link` name the same memento in two ways.
            Some(datetime) if self.mementos.iter().any(|m| m.datetime == datetime) => {}
            Some(datetime) => self.add(location, datetime),
            None => self.next = Some(location),
        }
    }
}

/// The timestamp of 14 digits in a memento's URI. One in the original URI says nothing.
fn timestamp_in(uri: &str, original: &str) -> Option<Datetime> {
    let bare = |uri: &str| {
        uri.split_once("://")
            .map_or(0, |(scheme, _)| scheme.len() + 3)
    };
    let original = original[bare(original)..].trim_end_matches('/');
    let end = match original.is_empty() {
        true => uri.len(),
        false => uri.rfind(original).unwrap_or(uri.len()),
    };
    let digits = uri[..end].split(|c: char| !c.is_ascii_digit());
    digits
        .filter(|digits| digits.len() == 14)
        .find_map(|digits| Datetime::parse_timestamp(digits).ok())
}

/// The head of an answer, read.
struct Head {
    status: u16,
    gate: Gate,
}

impl Conversation<'_> {
    /// The memento closest to a datetime, and those that the TimeGate names beside it.
    pub(super) async fn timegate(&self, url: Url, datetime: Datetime, original: &str) -> Asked {
        let mut mementos = Vec::new();
        let reply = self.selected(url, Some(datetime), original, &mut mementos);
        let reply = match reply.await {
            _ if !mementos.is_empty() => Reply::Mementos(mementos.len()),
            Ok(status) => Reply::Nothing(status),
            Err(failure) => failure.into(),
        };
        Asked {
            mementos,
            reply,
            parsing: Duration::ZERO,
        }
    }

    /// The TimeMap that a TimeGate names.
    pub(super) async fn timemap_of(&self, url: Url, original: &str) -> Asked {
        let mut url = url;
        for _ in 0..=MOST_REDIRECTS {
            match self.head(&url, None, original).await {
                Err(failure) => return failure.into(),
                Ok(head) => match (head.gate.timemap, head.gate.next) {
                    (Some(timemap), _) => return self.timemap(timemap).await,
                    (None, Some(next)) => url = next,
                    (None, None) if is_nothing(head.status) => {
                        return Asked::nothing(head.status);
                    }
                    (None, None) => break,
                },
            }
        }
        Failure::Failed("its TimeGate names no TimeMap".to_owned()).into()
    }

    /// Follows a TimeGate until a memento is found. The status says that there is none.
    async fn selected(
        &self,
        mut url: Url,
        datetime: Option<Datetime>,
        original: &str,
        mementos: &mut Vec<Memento>,
    ) -> Result<u16, Failure> {
        let mut followed = false;
        for _ in 0..=MOST_REDIRECTS {
            let Head { status, gate } = self.head(&url, datetime, original).await?;
            if let Some(framed) = gate.framed(&url, datetime).filter(|_| followed) {
                url = framed;
                continue;
            }
            followed = true;
            mementos.extend(gate.mementos);
            match gate.next {
                Some(next) if is_original(&next, original) => {
                    let why = "its TimeGate redirects to the original URI";
                    return Err(Failure::Failed(why.to_owned()));
                }
                Some(next) => url = next,
                None if is_nothing(status) => return Ok(status),
                None if status >= 300 => return Err(Failure::Status(status)),
                None => {
                    let why = "its TimeGate names no memento";
                    return Err(Failure::Failed(why.to_owned()));
                }
            }
        }
        let why = format!("more than {MOST_REDIRECTS} redirects");
        Err(Failure::Failed(why))
    }

    /// The head of an answer, by HEAD if that suffices.
    async fn head(
        &self,
        url: &Url,
        datetime: Option<Datetime>,
        original: &str,
    ) -> Result<Head, Failure> {
        if self.client.supports_head(&self.archive.id) {
            let head = self.head_by(Method::HEAD, url, datetime, original).await?;
            let gate = &head.gate;
            let says = !gate.mementos.is_empty() || gate.next.is_some() || gate.timemap.is_some();
            let is_unusable = match head.status {
                400 | 403 | 405 | 501 => true,
                status => status < 300 && !says,
            };
            if !is_unusable {
                return Ok(head);
            }
        }
        let head = self.head_by(Method::GET, url, datetime, original).await?;
        if !head.gate.mementos.is_empty() {
            self.client.mark_without_head(&self.archive.id);
        }
        Ok(head)
    }

    async fn head_by(
        &self,
        method: Method,
        url: &Url,
        datetime: Option<Datetime>,
        original: &str,
    ) -> Result<Head, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(datetime) = datetime
            && let Ok(value) = HeaderValue::from_str(&datetime.http())
        {
            headers.insert(ACCEPT_DATETIME, value);
        }
        let response = self.send(method, url, headers).await?;
        let status = response.status().as_u16();
        Ok(Head {
            status,
            gate: read(status, response.headers(), url, original),
        })
    }
}

fn is_original(url: &Url, original: &str) -> bool {
    Url::parse(original).is_ok_and(|original| identity(&original) == identity(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: &str = "http://b.com/20010101000000/";

    fn gate(status: u16, fields: &[(&'static str, &str)]) -> Gate {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let url = format!("http://a.example/gate/{ORIGINAL}");
        read(status, &headers, &Url::parse(&url).unwrap(), ORIGINAL)
    }

    fn found(gate: &Gate) -> Vec<(&str, String)> {
        let mementos = gate.mementos.iter();
        mementos
            .map(|memento| (&memento.uri[..], memento.datetime.timestamp()))
            .collect()
    }

    const MEMENTO: &str = "http://a.example/20100101000000/http://b.com/20010101000000/";
    const VARIES: &str = "negotiate, Accept-Datetime";
    const DATE: &str = "Fri, 01 Jan 2010 00:00:00 GMT";

    #[test]
    fn every_style_of_timegate_names_its_memento() {
        let link = format!("<{MEMENTO}>; rel=\"memento\"; datetime=\"{DATE}\"");
        let original = format!("<{ORIGINAL}>; rel=\"original\"");
        let relative = "/20100101000000/http://b.com/20010101000000/";
        let mut styles: Vec<(u16, Vec<(&'static str, &str)>)> = vec![
            (200, vec![("link", &link)]),
            (
                200,
                vec![("memento-datetime", DATE), ("content-location", relative)],
            ),
            (200, vec![("memento-datetime", DATE), ("link", &link)]),
            (200, vec![("link", &original), ("link", &link)]),
            (406, vec![("link", &link)]),
            (
                302,
                vec![
                    ("location", "/other"),
                    ("memento-datetime", DATE),
                    ("link", &link),
                ],
            ),
        ];
        for status in [301, 302, 303, 307, 308] {
            styles.push((status, vec![("location", MEMENTO), ("link", &link)]));
            styles.push((status, vec![("location", relative), ("vary", VARIES)]));
            styles.push((
                status,
                vec![("location", MEMENTO), ("memento-datetime", DATE)],
            ));
            // As pywb: another URI of the same memento.
            let pywb = "/20100101000000mp_/http://b.com/20010101000000/";
            styles.push((status, vec![("location", pywb), ("link", &link)]));
        }
        for (status, fields) in styles {
            let gate = gate(status, &fields);
            assert_eq!(
                found(&gate),
                [(MEMENTO, "20100101000000".to_owned())],
                "{status} {fields:?}"
            );
            assert_eq!(gate.next, None);
        }
    }

    #[test]
    fn a_redirect_that_says_nothing_is_followed() {
        // The digits are those of the original URI.
        let same = format!("https://a.example/gate/{ORIGINAL}");
        let other = format!("<{ORIGINAL}>; rel=\"original\"");
        for fields in [
            vec![("location", &same[..]), ("vary", VARIES)],
            vec![("location", &same), ("vary", "accept-encoding")],
            // As pywb: the datetime that was asked for.
            vec![("location", MEMENTO), ("link", &other)],
        ] {
            let gate = gate(307, &fields);
            assert_eq!(gate.next.unwrap().as_str(), fields[0].1);
            assert_eq!(gate.mementos, []);
        }
    }

    #[test]
    fn nonsense_is_not_a_memento() {
        for (status, fields) in [
            (200, vec![("memento-datetime", "yesterday")]),
            (
                200,
                vec![("link", "<javascript:x>; rel=memento; datetime=2010")],
            ),
            (302, vec![("location", "http://[")]),
            (302, vec![]),
            (200, vec![("location", MEMENTO)]),
        ] {
            assert_eq!(
                gate(status, &fields),
                Gate::default(),
                "{status} {fields:?}"
            );
        }
    }
}
