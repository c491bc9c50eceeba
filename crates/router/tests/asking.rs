//! What archives send, and what becomes of it: each kind of misbehaviour with its expected answer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;

use std::time::{Duration, Instant};

use fakes::{Answer, Body, Fake};
use waypost_router::{
    Aggregate, AggregateOptions, Archive, Client, Lookup, Registry, Reply, Router, Wanted,
};

const URI: &str = "http://example.com/";

fn router(archives: Vec<Archive>) -> Router {
    Router::new(Registry::new(archives), Client::new("test").unwrap())
}

fn all() -> Lookup {
    Lookup::new(URI, Wanted::All)
}

fn within(deadline: Duration) -> AggregateOptions {
    AggregateOptions {
        deadline,
        ..AggregateOptions::default()
    }
}

async fn aggregate(archives: Vec<Archive>) -> Aggregate {
    let options = within(Duration::from_secs(20));
    router(archives).aggregate(&all(), &options).await
}

/// The timestamps of what was found.
fn timestamps(aggregate: &Aggregate) -> Vec<String> {
    let found = aggregate.mementos.iter();
    found.map(|f| f.memento.datetime.timestamp()).collect()
}

fn replies(aggregate: &Aggregate) -> Vec<&Reply> {
    aggregate.outcomes.iter().map(|o| &o.reply).collect()
}

#[tokio::test]
async fn archives_are_asked_at_once_and_their_answers_merged() {
    let slow = |request: &fakes::Request| {
        Answer::timemap(request.original(), request, &["2012", "2010"])
            .after(Duration::from_millis(300))
    };
    let (a, b) = (Fake::start(slow), Fake::start(slow));
    let nothing = Fake::start(|_| Answer::new(404, "not here"));
    let broken = Fake::start(|_| Answer::new(500, "oops"));
    let start = Instant::now();
    let found = aggregate(vec![
        a.entry("a"),
        nothing.entry("n"),
        b.entry("b"),
        broken.entry("x"),
    ])
    .await;
    assert!(start.elapsed() < Duration::from_millis(550));
    let places: Vec<usize> = found.mementos.iter().map(|f| f.archive).collect();
    assert_eq!(places, [0, 2, 0, 2]);
    assert_eq!(
        timestamps(&found),
        [
            "20100101000000",
            "20100101000000",
            "20120101000000",
            "20120101000000"
        ]
    );
    assert_eq!(
        replies(&found),
        [
            &Reply::Mementos(2),
            &Reply::Nothing(404),
            &Reply::Mementos(2),
            &Reply::Status(500)
        ]
    );
    assert_eq!(found.missing().collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn at_the_deadline_the_answer_is_what_has_arrived() {
    let fast = Fake::holding(&["2010"]);
    let silent = Fake::start(|_| Answer::new(200, "").after(Duration::from_secs(60)));
    let stalled = Fake::start(|request| {
        let answer = Answer::timemap(request.original(), request, &["2011", "2012"]);
        let bytes = answer.body.len() - 30;
        answer.sent(Body::Stall(bytes))
    });
    let trickling = Fake::start(|request| {
        Answer::timemap(request.original(), request, &["2013"])
            .sent(Body::Trickle(Duration::from_millis(50)))
    });
    let archives = vec![
        fast.entry("fast"),
        silent.entry("silent"),
        stalled.entry("stalled"),
        trickling.entry("trickling"),
    ];
    let start = Instant::now();
    let options = within(Duration::from_millis(500));
    let found = router(archives).aggregate(&all(), &options).await;
    assert!(start.elapsed() < Duration::from_millis(800));
    assert_eq!(timestamps(&found), ["20100101000000", "20110101000000"]);
    assert_eq!(
        replies(&found),
        [
            &Reply::Mementos(1),
            &Reply::Late,
            &Reply::Partial(1, "no answer in time".to_owned()),
            &Reply::Late
        ]
    );
}
