//! A request and what becomes of it, which is counted and logged, also if the client leaves.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use crate::ask::is_public;
use crate::{AnsweredRequest, Operations, Session};

/// The status in logs of a request whose client left before it was answered, as in nginx.
const CLIENT_LEFT: u16 = 499;

/// A request and what becomes of it.
pub(super) struct Exchange<'a> {
    pub(super) request: &'a Parts,
    /// What is asked for, in one word.
    pub(super) kind: &'static str,
    /// Its session, if it asks for mementos.
    pub(super) session: Option<Arc<Session>>,
    /// Counts it among the requests that are answered.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// The body of the request, until someone reads it.
    pub(super) body: Option<Incoming>,
    number: u64,
    operations: Arc<Operations>,
    client: IpAddr,
    started: Instant,
    status: u16,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        request: &'a Parts,
        body: Incoming,
        client: SocketAddr,
        operations: &Arc<Operations>,
    ) -> Exchange<'a> {
        Exchange {
            request,
            kind: "refused",
            session: None,
            permit: None,
            body: Some(body),
            number: operations.next_number(),
            operations: Arc::clone(operations),
            client: client.ip(),
            started: Instant::now(),
            status: CLIENT_LEFT,
        }
    }

    /// The number of the request, which all its log lines have.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Who asks. A proxy in the same network says for whom it does.
    pub(super) fn client(&self) -> IpAddr {
        let forwarded = self.request.headers.get("x-forwarded-for");
        let last = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next());
        let said = last.and_then(|client| client.trim().parse().ok());
        said.filter(|_| !is_public(self.client))
            .unwrap_or(self.client)
    }

    /// When it arrived.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The path and query.
    pub(super) fn target(&self) -> &'a str {
        let target = self.request.uri.path_and_query();
        target.map_or("/", |target| target.as_str())
    }

    /// An answer with this status is going to be sent.
    pub(super) fn finish(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.operations.answered(&AnsweredRequest {
            number: self.number,
            kind: self.kind,
            method: self.request.method.as_str(),
            target: self.target(),
            client: self.client,
            status: self.status,
            took: self.started.elapsed(),
            session: self.session.as_deref(),
        });
    }
}
