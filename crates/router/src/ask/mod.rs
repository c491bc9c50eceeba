//! Asks archives over HTTP.
//!
//! A lookup becomes a conversation with each archive: a TimeMap with all its pages, a TimeGate, or
//! the rows of a CDX server. Nothing is taken on trust: redirects, pages, mementos, bytes and time
//! are limited, and only hosts that the registry names or that have public addresses are contacted.
//!
//! | module | subject |
//! |---|---|
//! | `fetch` | requests, redirects, bodies; repeated if the archive is busy |
//! | `guard` | which addresses are contacted |
//! | `timemap`, `timegate` | a TimeMap and its pages; the memento that a TimeGate selects |
//! | [`document`], `cdx` | what documents say; pure functions |

mod cdx;
pub mod document;
mod fetch;
mod guard;
pub mod timegate;
mod timemap;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, redirect};
use tokio::time::Instant;
use url::Url;
use waypost_memento::Memento;

pub(crate) use guard::{NamedHosts, is_public};

use crate::manners::Permit;
use crate::{Archive, Lookup, Reply, Wanted};
use fetch::{Conversation, Failure};
use guard::{Check, PublicOnly};

/// An HTTP client for archives. Clones share connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    user_agent: String,
    /// A client of the library for each way to connect, made when it is needed.
    clients: Mutex<HashMap<(Check, Duration), reqwest::Client>>,
    /// The ids of archives whose TimeGates do not support HEAD.
    without_head: Mutex<HashSet<String>>,
}

/// What an archive was asked, and how it went.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// All that arrived, also if it is not complete.
    pub(crate) mementos: Vec<Memento>,
    pub(crate) reply: Reply,
    /// How long it took to read documents.
    pub(crate) parsing: Duration,
}

impl Asked {
    /// The archive was not asked.
    pub(crate) fn spared(why: String) -> Asked {
        Failure::Spared(why).into()
    }

    fn nothing(status: u16) -> Asked {
        Asked {
            mementos: Vec::new(),
            reply: Reply::Nothing(status),
            parsing: Duration::ZERO,
        }
    }
}

impl From<Failure> for Asked {
    fn from(failure: Failure) -> Asked {
        Asked {
            mementos: Vec::new(),
            reply: failure.into(),
            parsing: Duration::ZERO,
        }
    }
}

impl Client {
    /// Creates a client. Proxies of the environment are not used, because they would resolve names
    /// that must be checked.
    ///
    /// # Errors
    /// If the User-Agent cannot be sent, or the system provides no certificates.
    pub fn new(user_agent: impl Into<String>) -> Result<Client, String> {
        // Fails if there is a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client {
            shared: Arc::new(Shared {
                user_agent: user_agent.into(),
                clients: Mutex::default(),
                without_head: Mutex::default(),
            }),
        };
        let connect_timeout = crate::ArchiveLimits::default().connect_timeout;
        client.http(Check::Unchecked, connect_timeout)?;
        Ok(client)
    }

    /// The client of the library for a way to connect.
    fn http(&self, check: Check, connect_timeout: Duration) -> Result<reqwest::Client, String> {
        let clients = self.shared.clients.lock();
        let mut clients = clients.unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(check, connect_timeout)) {
            return Ok(client.clone());
        }
        let builder = reqwest::Client::builder()
            .user_agent(&self.shared.user_agent)
            .connect_timeout(connect_timeout)
            .redirect(redirect::Policy::none())
            .no_proxy();
        let builder = match check {
            Check::Unchecked => builder,
            Check::PublicOnly => builder.dns_resolver(Arc::new(PublicOnly)),
        };
        let client = builder
            .build()
            .map_err(|error| format!("cannot create an HTTP client: {}", fetch::cause(&error)))?;
        clients.insert((check, connect_timeout), client.clone());
        Ok(client)
    }

    /// Asks an archive for a memento, and returns the answer, whose body is not read yet. Redirects
    /// are not followed.
    pub(crate) async fn open(
        &self,
        hosts: &NamedHosts,
        archive: &Archive,
        permit: &Permit,
        uri: &str,
        deadline: Instant,
    ) -> Result<reqwest::Response, Reply> {
        let conversation = Conversation {
            client: self,
            hosts,
            archive,
            permit,
            deadline,
            bytes_left: AtomicUsize::new(0),
        };
        let invalid = |error| Reply::Failed(format!("invalid URI `{uri}`: {error}"));
        let url = Url::parse(uri).map_err(invalid)?;
        let response = conversation.send(Method::GET, &url, HeaderMap::new()).await;
        response.map_err(Reply::from)
    }

    /// Asks an archive. Returns before the deadline with all that arrived.
    pub(crate) async fn ask(
        &self,
        hosts: &NamedHosts,
        archive: &Archive,
        permit: &Permit,
        lookup: &Lookup,
        deadline: Instant,
    ) -> Asked {
        let latest = fetch::later(Instant::now(), archive.limits.total_timeout);
        let conversation = Conversation {
            client: self,
            hosts,
            archive,
            permit,
            deadline: deadline.min(latest),
            bytes_left: AtomicUsize::new(
                usize::try_from(archive.limits.max_body).unwrap_or(usize::MAX),
            ),
        };
        conversation.ask(lookup).await.unwrap_or_else(Asked::from)
    }

    fn supports_head(&self, id: &str) -> bool {
        let without = self.shared.without_head.lock();
        !without.unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Remembers that an archive does not support HEAD.
    fn mark_without_head(&self, id: &str) {
        let without = self.shared.without_head.lock();
        let mut without = without.unwrap_or_else(PoisonError::into_inner);
        without.insert(id.to_owned());
    }
}

impl Conversation<'_> {
    /// Asks what the archive has an address for. A TimeMap also answers what a TimeGate is asked for,
    /// and a TimeGate knows where the TimeMap is.
    async fn ask(&self, lookup: &Lookup) -> Result<Asked, Failure> {
        let uri = &lookup.uri[..];
        let at = |prefix: &str| append(prefix, uri).map_err(Failure::Failed);
        let Archive {
            timemap,
            timegate,
            cdx,
            ..
        } = self.archive;
        Ok(match (lookup.wanted, timemap, cdx, timegate) {
            (Wanted::Closest(datetime), _, _, Some(prefix)) => {
                self.timegate(at(prefix)?, datetime, uri).await
            }
            (_, Some(prefix), _, _) => self.timemap(at(prefix)?).await,
            (_, None, Some(cdx), _) => {
                let query = query(cdx, uri).map_err(Failure::Failed)?;
                self.timemap(query).await
            }
            (_, None, None, Some(prefix)) => self.timemap_of(at(prefix)?, uri).await,
            (_, None, None, None) => {
                return Err(Failure::Spared("it has no address".to_owned()));
            }
        })
    }
}

/// The URI of a TimeMap or TimeGate: the original URI behind a prefix.
///
/// # Errors
/// If the result would be another resource of the archive.
fn append(prefix: &str, uri: &str) -> Result<Url, String> {
    let start = Url::parse(prefix).map_err(|error| format!("invalid URL `{prefix}`: {error}"))?;
    let invalid = |error| format!("invalid URI `{uri}`: {error}");
    // Parsing resolves dot segments. They must not reach into the prefix.
    let has_dots = uri.contains("..") || uri.to_ascii_lowercase().contains("%2e");
    let uri = match has_dots {
        true => Url::parse(uri).map_err(invalid)?.into(),
        false => uri.to_owned(),
    };
    let url = match start.query() {
        None => Url::parse(&format!("{prefix}{uri}")).map_err(invalid)?,
        Some(_) => Url::parse(&format!("{prefix}{}", escaped(&uri))).map_err(invalid)?,
    };
    let is_inside = url.origin() == start.origin() && url.path().starts_with(start.path());
    match is_inside {
        true => Ok(url),
        false => Err(format!("invalid URI `{uri}`")),
    }
}

/// The query of a CDX server for a URI.
fn query(cdx: &str, uri: &str) -> Result<Url, String> {
    let mut url = Url::parse(cdx).map_err(|error| format!("invalid URL `{cdx}`: {error}"))?;
    let query = match url.query() {
        None | Some("") => format!("url={}", escaped(uri)),
        Some(query) => format!("{query}&url={}", escaped(uri)),
    };
    url.set_query(Some(&query));
    Ok(url)
}

/// A URI as the value of a query's parameter.
fn escaped(uri: &str) -> String {
    let mut escaped = String::with_capacity(uri.len());
    for &byte in uri.as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' => {
                escaped.push(byte as char);
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_appended_and_stays_behind_the_prefix() {
        let to = |uri: &str| append("http://a.example/tm/link/", uri).map(String::from);
        assert_eq!(
            to("http://b.com/x?y=z&b=//").as_deref(),
            Ok("http://a.example/tm/link/http://b.com/x?y=z&b=//")
        );
        assert_eq!(
            to("http://b.com/../../../../x").as_deref(),
            Ok("http://a.example/tm/link/http://b.com/x")
        );
        assert_eq!(
            to("http://b.com/%2e%2E/../x").as_deref(),
            Ok("http://a.example/tm/link/http://b.com/x")
        );
        for uri in ["http://b.com/.\t./.\t./.\t./.\t./x", "../../x"] {
            assert!(to(uri).is_err(), "{uri}");
        }
        let in_query = append("http://a.example/?u=", "http://b.com/?x=1&y=2#z");
        assert_eq!(
            in_query.unwrap().as_str(),
            "http://a.example/?u=http://b.com/%3Fx%3D1%26y%3D2%23z"
        );
        assert_eq!(
            query("http://a.example/cdx?x=1", "http://b.com/?x=é")
                .unwrap()
                .as_str(),
            "http://a.example/cdx?x=1&url=http://b.com/%3Fx%3D%C3%A9"
        );
    }
}
