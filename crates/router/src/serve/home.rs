//! The page for people at `/`, the events that keep it current, and what archives hold.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderValue};
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use waypost_io::{Resources, Source};
use waypost_memento::Datetime;
use waypost_report::icicle;
use waypost_summary::{Kind, map};

use super::exchange::Exchange;
use super::reply::{Answer, not_found, plain};
use super::route::Target;
use super::{Refusal, Server, files, lookup, monitor, with_body};
use crate::page::{self, ArchiveLife, Form, Life, Lookedup};
use crate::{Aggregator, Archive, Wanted, original_uri};

const HTML: &str = "text/html; charset=utf-8";

/// How often pages are told how the router is doing, if that has changed.
const BETWEEN_EVENTS: Duration = Duration::from_secs(1);

/// How deep and how wide the tree of an archive's holdings is drawn.
const DEPTH: usize = 8;
const WIDTH: usize = 60;

impl Server {
    /// The page, with the answer to a lookup if there is one.
    pub(super) async fn home(&self, exchange: &mut Exchange<'_>) -> Result<Answer, Refusal> {
        let form = Form::parse(exchange.request.uri.query().unwrap_or_default());
        let root = &self.options.config.root;
        let bare = |status: StatusCode, problem: Option<&str>| {
            let life = life(&self.aggregator, root);
            let html = page::render(root, &form, problem, None, &life);
            Ok(private(plain(status, HTML, html)))
        };
        if form.url.is_empty() {
            return bare(StatusCode::OK, None);
        }
        let datetime = match form.at() {
            Ok(datetime) => datetime,
            Err(problem) => return bare(StatusCode::BAD_REQUEST, Some(&problem)),
        };
        let Some(uri) = original_uri(&form.url) else {
            let problem = format!("“{}” is not the address of a page.", form.url);
            return bare(StatusCode::BAD_REQUEST, Some(&problem));
        };
        let target = Target {
            uri,
            ..Target::default()
        };
        let found = match self.look_up(exchange, &target, Wanted::All).await {
            Ok(found) => found,
            Err(Refusal::Busy) => {
                let problem = "This router is busy at the moment. Try again in a few seconds.";
                return bare(StatusCode::SERVICE_UNAVAILABLE, Some(problem));
            }
            Err(refusal) => return Err(refusal),
        };
        let router = found.session.router();
        let wanted = lookup(router, &target, Wanted::All, &exchange.request.headers)?;
        let Some(now) = Datetime::new(Timestamp::now()) else {
            return Err(Refusal::Malformed(
                "the clock is before the year 0".to_owned(),
            ));
        };
        let decision = router.decide(&wanted);
        let shown = Lookedup {
            uri: &target.uri,
            datetime,
            now,
            registry: router.registry(),
            decision: &decision,
            aggregate: &found.kept.aggregate,
        };
        let life = life(&self.aggregator, root);
        let html = page::render(root, &form, None, Some(&shown), &life);
        let status = match found.kept.aggregate.mementos.is_empty() {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        };
        Ok(private(plain(status, HTML, html)))
    }

    /// How the router is doing, as JSON.
    pub(super) fn life(&self) -> Answer {
        let life = life(&self.aggregator, &self.options.config.root);
        let json = serde_json::to_string(&life).unwrap_or_default();
        private(plain(StatusCode::OK, "application/json", json))
    }

    /// How the router is doing, now and whenever that changes.
    pub(super) fn life_events(&self) -> Result<Answer, Refusal> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        let permit = permit.map_err(|_| Refusal::Busy)?;
        let (aggregator, root) = (
            Arc::clone(&self.aggregator),
            self.options.config.root.clone(),
        );
        let mut ticks = interval(BETWEEN_EVENTS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let events = (aggregator, root, ticks, Life::default());
        let events = futures_util::stream::unfold(
            events,
            |(aggregator, root, mut ticks, mut last)| async move {
                loop {
                    ticks.tick().await;
                    let now = life(&aggregator, &root);
                    if now != last {
                        last = now;
                        let json = serde_json::to_string(&last).unwrap_or_default();
                        let event = bytes::Bytes::from(format!("data: {json}\n\n"));
                        return Some((event, (aggregator, root, ticks, last)));
                    }
                }
            },
        );
        Ok(monitor::answer(events, self.stopping.subscribe(), permit))
    }

    /// What an archive holds, from its map; or its statistics, if there is a report.
    pub(super) async fn holdings(&self, id: &str, report: bool) -> Answer {
        let router = self.aggregator.router();
        let Some(archive) = router
            .registry()
            .archives
            .iter()
            .find(|archive| archive.id == id)
        else {
            return not_found();
        };
        if report {
            let Some((folder, name)) = archive
                .report
                .as_ref()
                .and_then(|path| Some((path.parent()?, path.file_name()?.to_str()?)))
            else {
                return not_found();
            };
            return match files::open(folder, name).await {
                Some(found) => with_body(StatusCode::OK, found.media_type, found.body()),
                None => not_found(),
            };
        }
        let Some(path) = map_of(&self.aggregator, archive) else {
            return not_found();
        };
        let title = format!("What {} holds", archive.name.as_deref().unwrap_or(id));
        let drawn = spawn_blocking(move || {
            let tree = map::show::tree(&Source::new(path), DEPTH, WIDTH, &Resources::default());
            tree.map(|tree| icicle(&title, &tree.piece()))
        });
        match drawn.await {
            Ok(Ok(html)) => plain(StatusCode::OK, HTML, html),
            _ => not_found(),
        }
    }
}

/// An answer that is different for everyone and every time.
fn private(mut answer: Answer) -> Answer {
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    answer
}

/// A map of an archive that is in use.
fn map_of(aggregator: &Aggregator, archive: &Archive) -> Option<PathBuf> {
    let states = aggregator.router().decider().summaries(&archive.id);
    let map = states
        .into_iter()
        .find(|state| state.kind == Some(Kind::Map));
    map.map(|state| state.path)
}

/// How the router is doing.
fn life(aggregator: &Aggregator, root: &str) -> Life {
    let router = aggregator.router();
    let (tallies, decider) = (router.tallies(), router.decider());
    let archives = router.registry().archives.iter().map(|archive| {
        let id = &archive.id;
        let tally = tallies.of(id);
        let summaries = decider.summaries(id);
        let has_map = summaries.iter().any(|state| state.kind == Some(Kind::Map));
        ArchiveLife {
            name: archive
                .name
                .clone()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| id.clone()),
            standing: router.manners().standing(id),
            asked: tally.asked,
            hits: tally.hits,
            spared: tally.spared,
            latency: tally.latency(),
            summaries,
            holdings: has_map.then(|| format!("{root}holdings/{id}")),
            report: archive
                .report
                .as_ref()
                .map(|_| format!("{root}holdings/{id}/report")),
            id: id.clone(),
        }
    });
    Life::new(
        tallies.lookups(),
        &decider.audited_recall(),
        archives.collect(),
    )
}
