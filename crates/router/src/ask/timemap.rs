//! Asks an archive for a TimeMap: its first document, and all that belong to it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use url::Url;
use waypost_memento::Memento;

use super::Asked;
use super::document::{self, Document};
use super::fetch::{Answer, Conversation, Failure};
use crate::Reply;

/// How many documents of a TimeMap are fetched at a time.
const AT_ONCE: usize = 4;

/// Documents above this size are parsed on a thread for blocking work.
const LARGE: usize = 256 << 10;

impl Conversation<'_> {
    /// All mementos of the TimeMap at a URI.
    pub(super) async fn timemap(&self, first: Url) -> Asked {
        let limits = &self.archive.limits;
        let mut found = Collected::default();
        let mut seen = HashSet::from([document::identity(&first)]);
        let mut waiting = VecDeque::from([first]);
        let mut running = FuturesUnordered::new();
        let mut fetched = 0;
        let mut status = 200;
        loop {
            while running.len() < AT_ONCE
                && let Some(url) = waiting.pop_front()
            {
                if fetched == limits.max_pages.max(1) {
                    found.fail(Failure::Failed(format!("more than {fetched} pages")));
                    waiting.clear();
                    break;
                }
                fetched += 1;
                running.push(self.page(url));
            }
            let Some(page) = running.next().await else {
                break;
            };
            found.parsing += page.parsing;
            match page.result {
                Err(Failure::Status(other)) if fetched == 1 && is_nothing(other) => status = other,
                Err(failure) => found.fail(failure),
                Ok(document) => {
                    let new = document.pages.into_iter();
                    waiting.extend(new.filter(|url| seen.insert(document::identity(url))));
                    found.mementos.extend(document.mementos);
                    if let Some(cut) = page.cut {
                        found.fail(cut);
                    }
                }
            }
            if found.mementos.len() > limits.max_mementos {
                found.mementos.truncate(limits.max_mementos);
                let why = format!("more than {} mementos", limits.max_mementos);
                found.fail(Failure::Failed(why));
                break;
            }
        }
        found.into_asked(status)
    }

    async fn page(&self, url: Url) -> Page {
        match self.get(url).await {
            Ok(answer) => self.parse(answer).await,
            Err(failure) => Page {
                result: Err(failure),
                cut: None,
                parsing: Duration::ZERO,
            },
        }
    }

    async fn parse(&self, answer: Answer) -> Page {
        let start = Instant::now();
        if answer.status != 200 {
            return Page {
                result: Err(Failure::Status(answer.status)),
                cut: None,
                parsing: Duration::ZERO,
            };
        }
        let replay = self.archive.replay.clone();
        let is_large = answer.body.len() > LARGE;
        let is_empty = answer.body.is_empty();
        let read = move || {
            let content_type = answer.content_type.as_deref();
            document::read(content_type, &answer.body, &answer.url, replay.as_ref())
        };
        let result = match is_large {
            false => read(),
            true => match tokio::task::spawn_blocking(read).await {
                Ok(result) => result,
                Err(error) => Err(error.to_string()),
            },
        };
        // What could not be read is worth less than why the rest of it is missing.
        let result = match (result, &answer.cut) {
            (Ok(_), Some(cut)) if is_empty => Err(cut.clone()),
            (Err(_), Some(cut)) => Err(cut.clone()),
            (result, _) => result.map_err(Failure::Failed),
        };
        Page {
            result,
            cut: answer.cut,
            parsing: start.elapsed(),
        }
    }
}

/// Whether a status says that the archive has nothing.
pub(super) fn is_nothing(status: u16) -> bool {
    matches!(status, 204 | 404 | 410)
}

struct Page {
    result: Result<Document, Failure>,
    /// Why the document is not complete.
    cut: Option<Failure>,
    parsing: Duration,
}

/// What was found so far.
#[derive(Default)]
struct Collected {
    mementos: Vec<Memento>,
    /// The first failure.
    failure: Option<Failure>,
    parsing: Duration,
}

impl Collected {
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn into_asked(self, status: u16) -> Asked {
        let count = self.mementos.len();
        let reply = match self.failure {
            None if count == 0 => Reply::Nothing(status),
            None => Reply::Mementos(count),
            Some(failure) if count == 0 => failure.into(),
            Some(failure) => Reply::Partial(count, Reply::from(failure).to_string()),
        };
        Asked {
            mementos: self.mementos,
            reply,
            parsing: self.parsing,
        }
    }
}
