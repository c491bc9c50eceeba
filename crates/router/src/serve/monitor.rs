//! Sends events to clients, until they leave or the server stops.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::StatusCode;
use http::header::{self, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::body::AnswerBody;
use super::reply::{Answer, with_body};

/// How many events wait for the connection. Others wait in the buffer that all clients share, where
/// the oldest are dropped.
const WAITING: usize = 16;

/// The answer to a client that waits for events. It holds its permit until it leaves.
pub(super) fn answer(
    events: impl Stream<Item = Bytes> + Send + 'static,
    mut stopping: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
) -> Answer {
    let (send, chunks) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let _permit = permit;
        let forward = async {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                if send.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = forward => {}
            () = send.closed() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    });
    let body = AnswerBody::chunks(chunks);
    let mut answer = with_body(StatusCode::OK, "text/event-stream", body);
    let headers = answer.headers_mut();
    let no_cache = HeaderValue::from_static("no-cache");
    headers.insert(header::CACHE_CONTROL, no_cache);
    // A proxy in front of the server must not wait for more.
    let unbuffered = HeaderValue::from_static("no");
    headers.insert("x-accel-buffering", unbuffered);
    answer
}
