//! Answers that are sent while they are made.
//!
//! A query runs in a thread of its own and writes into a [`Sink`]. Small answers are sent in one piece,
//! with their length. Large ones are sent in chunks, a few of which may wait for the client, so that
//! neither a large answer nor a slow client needs much memory.

use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout_at;

use crate::failure::Failure;
use crate::log::LogEntry;

/// The size of a chunk.
const CHUNK: usize = 64 << 10;

/// How many chunks wait for the client.
const WAITING: usize = 4;

/// Answers shorter than this are not compressed: they fit in a packet.
const SMALL: usize = 1400;

/// The start of an answer.
pub(crate) struct Start {
    /// All of it, or the first chunk.
    pub(crate) first: Bytes,
    pub(crate) gzip: bool,
    /// Whether `first` is all.
    pub(crate) whole: bool,
    /// Whether no captures were found.
    pub(crate) nothing: bool,
}

/// What follows the first chunk. An empty chunk is the end; without it, the answer was cut off.
pub(crate) type Chunks = mpsc::Receiver<Result<Bytes, Failure>>;

/// The right to use a core. Without it, as many threads as there are queries would compete for few
/// cores, each with buffers of its own, and all answers would be late.
pub(crate) struct Turn {
    turns: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// Waits for a turn.
    pub(crate) async fn take(turns: Arc<Semaphore>) -> Option<Turn> {
        let permit = Arc::clone(&turns).acquire_owned().await.ok()?;
        Some(Turn {
            turns,
            _permit: permit,
        })
    }

    fn give_back(self) -> Arc<Semaphore> {
        self.turns
    }
}

/// Where the text of an answer goes.
pub(crate) trait Text {
    /// The text so far that was not sent. Append to it, and call
    /// [`flush_if_full`](Text::flush_if_full).
    fn text(&mut self) -> &mut Vec<u8>;

    /// Sends a chunk, if there is enough for one.
    fn flush_if_full(&mut self) -> Result<(), Failure>;
}

/// An answer that must fit in a chunk.
pub(crate) struct Small(Vec<u8>);

impl Default for Small {
    fn default() -> Small {
        // Room for a few captures.
        Small(Vec::with_capacity(2 << 10))
    }
}

impl Text for Small {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    fn flush_if_full(&mut self) -> Result<(), Failure> {
        match self.0.len() < CHUNK {
            true => Ok(()),
            false => Err(Failure::NotSmall),
        }
    }
}

impl Small {
    /// The answer, which has this many rows.
    pub(crate) fn finish(self, rows: u64, gzip: bool) -> Start {
        let gzip = gzip && self.0.len() >= SMALL;
        let first = match gzip {
            true => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                // Writing to memory cannot fail.
                let _ = encoder.write_all(&self.0);
                encoder.finish().unwrap_or_default()
            }
            false => self.0,
        };
        Start {
            first: first.into(),
            gzip,
            whole: true,
            nothing: rows == 0,
        }
    }
}

/// Tells whether somebody waits for an answer.
pub(crate) struct Listener(mpsc::Sender<Result<Bytes, Failure>>);

impl Listener {
    pub(crate) fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// Takes an answer in pieces.
pub(crate) struct Sink {
    turn: Option<Turn>,
    start: Option<oneshot::Sender<Result<Start, Failure>>>,
    chunks: mpsc::Sender<Result<Bytes, Failure>>,
    runtime: Handle,
    deadline: Instant,
    gzip: bool,
    encoder: Option<GzEncoder<Vec<u8>>>,
    text: Vec<u8>,
}

impl Sink {
    /// A sink, and what it is connected to. Must be called in an asynchronous context.
    pub(crate) fn new(
        turn: Turn,
        gzip: bool,
        deadline: Instant,
    ) -> (Sink, oneshot::Receiver<Result<Start, Failure>>, Chunks) {
        let (start, started) = oneshot::channel();
        let (chunks, received) = mpsc::channel(WAITING);
        let sink = Sink {
            turn: Some(turn),
            start: Some(start),
            chunks,
            runtime: Handle::current(),
            deadline,
            gzip,
            encoder: None,
            text: Vec::new(),
        };
        (sink, started, received)
    }

    /// Whether the client is still there.
    pub(crate) fn listener(&self) -> Listener {
        Listener(self.chunks.clone())
    }

    /// Ends the answer, which has this many rows.
    pub(crate) fn finish(mut self, result: Result<u64, Failure>) {
        match (result, self.start.take()) {
            (Ok(rows), Some(start)) => {
                let _ = start.send(Ok(Small(self.text).finish(rows, self.gzip)));
            }
            (Ok(_), None) => {
                let last = self.pack(true);
                if self.send(last).is_ok() {
                    let _ = self.send_chunk(Bytes::new());
                }
            }
            (Err(failure), Some(start)) => {
                let _ = start.send(Err(failure));
            }
            // The connection is closed before the end of the answer, which clients notice.
            (Err(failure), None) => {
                let _ = self.chunks.try_send(Err(failure));
            }
        }
    }

    /// The text as bytes to send.
    fn pack(&mut self, last: bool) -> Bytes {
        if !self.gzip {
            return Bytes::from(std::mem::take(&mut self.text));
        }
        let encoder = self
            .encoder
            .get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::fast()));
        // Writing to memory cannot fail.
        let _ = encoder.write_all(&self.text);
        self.text.clear();
        if last {
            let _ = encoder.try_finish();
        }
        Bytes::from(std::mem::take(encoder.get_mut()))
    }

    fn send(&mut self, chunk: Bytes) -> Result<(), Failure> {
        if chunk.is_empty() {
            return Ok(());
        }
        if let Some(start) = self.start.take() {
            let start = start.send(Ok(Start {
                first: chunk,
                gzip: self.gzip,
                whole: false,
                nothing: false,
            }));
            return start.map_err(|_| Failure::Gone);
        }
        self.send_chunk(chunk)
    }

    fn send_chunk(&mut self, chunk: Bytes) -> Result<(), Failure> {
        let chunk = match self.chunks.try_send(Ok(chunk)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(chunk)) => chunk,
            Err(TrySendError::Closed(_)) => return Err(Failure::Gone),
        };
        // While this one waits for its client, others can work.
        let turns = self.turn.take().map(|turn| turn.give_back());
        let sending = timeout_at(self.deadline.into(), async {
            let sent = self.chunks.send(chunk).await;
            let turn = match turns {
                Some(turns) => Turn::take(turns).await,
                None => None,
            };
            sent.map(|()| turn)
        });
        match self.runtime.block_on(sending) {
            Ok(Ok(turn)) => {
                self.turn = turn;
                Ok(())
            }
            Ok(Err(_)) => Err(Failure::Gone),
            Err(_) => Err(Failure::TooLong),
        }
    }
}

impl Text for Sink {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.text.len() < CHUNK {
            return Ok(());
        }
        let chunk = self.pack(false);
        self.send(chunk)
    }
}

/// The body of an answer.
pub struct AnswerBody {
    first: Bytes,
    rest: Option<Chunks>,
    /// Large, and not there for most servers.
    pub(crate) log: Option<Box<LogEntry>>,
}

impl AnswerBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> AnswerBody {
        AnswerBody {
            first: bytes.into(),
            rest: None,
            log: None,
        }
    }

    pub(crate) fn streamed(first: Bytes, rest: Chunks) -> AnswerBody {
        AnswerBody {
            first,
            rest: Some(rest),
            log: None,
        }
    }

    fn count(&mut self, bytes: &Bytes) {
        if let Some(log) = &mut self.log {
            log.bytes += bytes.len() as u64;
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let first = std::mem::take(&mut self.first);
        if !first.is_empty() {
            self.count(&first);
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        match rest.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            // The query failed while the client was slow, or panicked.
            Poll::Ready(None) => {
                self.rest = None;
                Poll::Ready(Some(Err(Failure::CutOff)))
            }
            Poll::Ready(Some(Ok(end))) if end.is_empty() => {
                self.rest = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(chunk))) => {
                self.count(&chunk);
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Poll::Ready(Some(Err(failure))) => {
                if let Some(log) = &mut self.log {
                    log.failure = Some(failure.to_string());
                }
                self.rest = None;
                Poll::Ready(Some(Err(failure)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            None => SizeHint::with_exact(self.first.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}
