//! Bodies of answers. Large ones are made while they are sent, so that a slow client needs little
//! memory and no thread.

use std::io;
use std::ops;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use waypost_memento::{Format, TimeMap, TimeMapWriter};

use crate::Aggregate;

/// The size of a chunk.
pub(crate) const CHUNK: usize = 64 << 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub(crate) struct AnswerBody {
    content: Content,
    /// Counts the request among those that are answered, until all of the body is sent.
    permit: Option<OwnedSemaphorePermit>,
}

enum Content {
    /// All of it, with its length.
    Whole(Bytes),
    /// A TimeMap that is written while it is sent.
    TimeMap(TimeMapText),
    /// Chunks of a file, or events.
    Chunks(mpsc::Receiver<io::Result<Bytes>>),
    /// Answers of the lookup service.
    Lookups(waypost_archive::AnswerBody),
    /// What an archive sends.
    Proxied {
        body: reqwest::Body,
        /// How much more is passed on.
        left: u64,
    },
}

impl AnswerBody {
    /// A text.
    pub(crate) fn whole(text: impl Into<Bytes>) -> AnswerBody {
        Content::Whole(text.into()).into()
    }

    /// Chunks as they arrive.
    pub(crate) fn chunks(chunks: mpsc::Receiver<io::Result<Bytes>>) -> AnswerBody {
        Content::Chunks(chunks).into()
    }

    /// Answers of the lookup service.
    pub(crate) fn lookups(body: waypost_archive::AnswerBody) -> AnswerBody {
        Content::Lookups(body).into()
    }

    /// What an archive sends, up to a number of bytes.
    pub(crate) fn proxied(body: reqwest::Body, left: u64) -> AnswerBody {
        Content::Proxied { body, left }.into()
    }

    /// Keeps a permit until all of the body is sent.
    pub(crate) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    /// A TimeMap of some of the mementos of an aggregate.
    pub(crate) fn timemap(
        links: TimeMap,
        format: Format,
        aggregate: Arc<Aggregate>,
        places: ops::Range<usize>,
    ) -> AnswerBody {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let Ok(writer) = TimeMapWriter::start(links, format, &mut text) else {
            return AnswerBody::whole(text);
        };
        let mut timemap = TimeMapText {
            aggregate,
            next: places.start,
            places,
            writer: Some(writer),
            text,
        };
        timemap.fill();
        match timemap.writer {
            None => AnswerBody::whole(timemap.text),
            Some(_) => Content::TimeMap(timemap).into(),
        }
    }
}

impl From<Content> for AnswerBody {
    fn from(content: Content) -> AnswerBody {
        AnswerBody {
            content,
            permit: None,
        }
    }
}

/// A TimeMap that is written while it is sent.
struct TimeMapText {
    aggregate: Arc<Aggregate>,
    places: ops::Range<usize>,
    next: usize,
    /// `None` at the end.
    writer: Option<TimeMapWriter>,
    text: Vec<u8>,
}

impl TimeMapText {
    /// Writes mementos until there is a chunk.
    fn fill(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        while self.text.len() < CHUNK && self.next < self.places.end {
            let first = self.next == self.places.start;
            let last = self.next + 1 == self.places.end;
            let memento = &self.aggregate.mementos[self.next].memento;
            // Writing to memory cannot fail.
            let _ = writer.memento(memento, first, last, &mut self.text);
            self.next += 1;
        }
        if self.next >= self.places.end
            && let Some(writer) = self.writer.take()
        {
            let _ = writer.finish(&mut self.text);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let data = |bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        match &mut self.get_mut().content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => data(std::mem::take(bytes)),
            Content::TimeMap(timemap) => {
                if timemap.text.is_empty() {
                    timemap.fill();
                }
                match std::mem::take(&mut timemap.text) {
                    text if text.is_empty() => Poll::Ready(None),
                    text => data(text.into()),
                }
            }
            Content::Chunks(chunks) => chunks.poll_recv(context).map(|chunk| {
                let chunk = chunk?;
                Some(chunk.map(Frame::data).map_err(Into::into))
            }),
            Content::Lookups(body) => {
                let frame = std::task::ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Content::Proxied { body, left } => {
                let frame = std::task::ready!(Pin::new(body).poll_frame(context));
                if let Some(Ok(frame)) = &frame {
                    let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                    match left.checked_sub(length) {
                        Some(rest) => *left = rest,
                        None => {
                            let text = "the memento is larger than the limit";
                            return Poll::Ready(Some(Err(text.into())));
                        }
                    }
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::TimeMap(timemap) => timemap.writer.is_none() && timemap.text.is_empty(),
            Content::Chunks(_) => false,
            Content::Lookups(body) => body.is_end_stream(),
            Content::Proxied { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Lookups(body) => body.size_hint(),
            Content::Proxied { body, .. } => body.size_hint(),
            Content::TimeMap(_) | Content::Chunks(_) => SizeHint::default(),
        }
    }
}
