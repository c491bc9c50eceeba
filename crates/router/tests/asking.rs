//! What archives send, and what becomes of it: each kind of misbehaviour with its expected answer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;

use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fakes::{Answer, Body, Fake, Request, timemap};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use waypost_memento::Datetime;
use waypost_router::{
    Aggregate, AggregateOptions, Archive, ArchiveLimits, Change, Client, Event, Lookup, Observer,
    Registry, Reply, Router, Wanted,
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
    let slow = |request: &Request| {
        Answer::timemap(request.original(), request, &["2012", "2010"])
            .after(Duration::from_secs(2))
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
    assert!(start.elapsed() < Duration::from_millis(3900));
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
    let options = within(Duration::from_secs(2));
    let found = router(archives).aggregate(&all(), &options).await;
    assert!(start.elapsed() < Duration::from_secs(30));
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

/// What one archive, which answers like this, is worth.
async fn one(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Vec<String>, Reply) {
    limited(ArchiveLimits::default(), handler).await.0
}

/// The same within limits; also the archive.
async fn limited(
    limits: ArchiveLimits,
    handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> ((Vec<String>, Reply), Fake) {
    let fake = Fake::start(handler);
    let archive = Archive {
        limits,
        ..fake.entry("one")
    };
    let mut found = aggregate(vec![archive]).await;
    let reply = found.outcomes.remove(0).reply;
    ((timestamps(&found), reply), fake)
}

fn failed(why: &str) -> Reply {
    Reply::Failed(why.to_owned())
}

fn partial(count: usize, why: &str) -> Reply {
    Reply::Partial(count, why.to_owned())
}

const Y2010: &str = "20100101000000";
const Y2011: &str = "20110101000000";
const Y2012: &str = "20120101000000";

#[tokio::test]
async fn garbage_is_said_to_be_garbage() {
    let (found, reply) = one(|_| Answer::links(b"\x00\xFF\x80 ,;\"<<".repeat(1000))).await;
    assert!(found.is_empty());
    assert_eq!(reply, failed("expected `<` before a URI at byte 0"));
    let (_, reply) = one(|_| Answer::new(200, "<!DOCTYPE html><p>Not found")).await;
    assert_eq!(reply, failed("HTML instead of a TimeMap"));
    let (_, reply) = one(|_| Answer::new(200, "{\"mementos\": 5")).await;
    assert!(matches!(reply, Reply::Failed(why) if why.starts_with("invalid JSON")));
    let (_, reply) = one(|_| Answer::new(200, "")).await;
    assert_eq!(reply, Reply::Nothing(200));
    let (_, reply) = one(|_| Answer::new(410, "gone")).await;
    assert_eq!(reply, Reply::Nothing(410));
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_the_limit() {
    let limits = ArchiveLimits {
        max_body: 1 << 20,
        ..ArchiveLimits::default()
    };
    let link = b"<http://a.example/2010/x>; rel=\"memento\"; datetime=\"2010\",\n";
    let ((found, reply), fake) = limited(limits, |_| {
        Answer::links(&link[..]).sent(Body::Repeat(10_000_000_000))
    })
    .await;
    // They are all the same.
    assert_eq!(found, [Y2010]);
    let count = (1 << 20) / link.len();
    assert_eq!(reply, partial(count, "the answers are too large"));
    assert!(fake.sent() < 64 << 20, "{}", fake.sent());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_answers_count_decompressed() {
    let compressed = |request: &Request| {
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
        let body = timemap(URI, &request.base, &["2010", "2011"]);
        Answer::links(gzip(&body)).with("Content-Encoding", "gzip")
    };
    assert_eq!(
        one(compressed).await,
        (vec![Y2010.to_owned(), Y2011.to_owned()], Reply::Mementos(2))
    );

    let limits = ArchiveLimits {
        max_body: 1 << 20,
        ..ArchiveLimits::default()
    };
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let ((_, reply), _) = limited(limits, move |_| {
        Answer::links(bomb.clone()).with("Content-Encoding", "gzip")
    })
    .await;
    assert_eq!(reply, failed("the answers are too large"));

    let cut = |request: &Request| {
        let body = gzip(&timemap(URI, &request.base, &["2010", "2011"]));
        Answer::links(&body[..body.len() - 12]).with("Content-Encoding", "gzip")
    };
    let (found, reply) = one(cut).await;
    assert!(!found.is_empty());
    assert!(matches!(reply, Reply::Partial(_, why) if why.starts_with("damaged gzip")));
    let (_, reply) = one(|_| Answer::links("x").with("Content-Encoding", "br")).await;
    assert_eq!(reply, failed("the answer is encoded as `br`"));
}

#[tokio::test]
async fn wrong_lengths_lose_no_more_than_what_is_missing() {
    // The connection ends before the length that was promised.
    let (found, reply) = one(|request| {
        let answer = Answer::timemap(URI, request, &["2010", "2011"]);
        let length = answer.body.len();
        answer.claiming(Some(100_000)).sent(Body::Cut(length))
    })
    .await;
    assert_eq!(found, [Y2010, Y2011]);
    assert!(matches!(reply, Reply::Partial(2, why) if why.starts_with("the connection failed")));
    // Less is promised than sent: the rest is not part of the answer.
    let (found, reply) = one(|request| {
        let answer = Answer::timemap(URI, request, &["2010", "2011"]);
        let length = answer.body.len() as u64 - 40;
        answer.claiming(Some(length))
    })
    .await;
    assert_eq!((found, reply), (vec![Y2010.to_owned()], Reply::Mementos(1)));
    // No length is promised: the end of the connection is the end of the answer.
    let (found, reply) =
        one(|request| Answer::timemap(URI, request, &["2010", "2011"]).claiming(None)).await;
    assert_eq!((found.len(), reply), (2, Reply::Mementos(2)));
}

#[tokio::test]
async fn redirects_are_followed_but_not_forever() {
    let (found, reply) = one(|request| match &request.path[..] {
        "/real" => Answer::timemap(URI, request, &["2010"]),
        "/further" => Answer::new(308, "").with("Location", "../real"),
        _ => Answer::new(301, "").with("Location", "/further"),
    })
    .await;
    assert_eq!((found.len(), reply), (1, Reply::Mementos(1)));
    let ((_, reply), fake) = limited(ArchiveLimits::default(), |request| {
        Answer::new(302, "").with("Location", format!("{}x", request.path))
    })
    .await;
    assert_eq!(reply, failed("more than 10 redirects"));
    assert_eq!(fake.requests().len(), 11);
    let (_, reply) = one(|_| Answer::new(302, "").with("Location", "http://[")).await;
    assert_eq!(reply, failed("redirect to the invalid URI `http://[`"));
    let (_, reply) = one(|_| Answer::new(302, "")).await;
    assert_eq!(reply, Reply::Status(302));
}

/// A page of a TimeMap: a memento, and links to other pages.
fn page(request: &Request, timestamp: &str, links: &[&str]) -> Answer {
    let body = timemap(URI, &request.base, &[timestamp]);
    let mut body = String::from_utf8(body).unwrap();
    for link in links {
        body = format!("{},\n{link}", body.trim_end());
    }
    Answer::links(body)
}

#[tokio::test]
async fn pages_are_followed_once_each() {
    let ((found, reply), fake) = limited(ArchiveLimits::default(), |request| {
        let all = [
            r#"</timemap/link/http://example.com/>; rel="self""#,
            r#"</1>; rel="first timemap"; type="application/link-format""#,
            r#"<../../../../../2>; rel="next timemap"; type=application/link-format"#,
            r#"</3>; rel="timemap"; from="Sun, 01 Jan 2012 00:00:00 GMT""#,
            r#"</json>; rel="timemap"; type="application/json""#,
            r#"</cdxj>; rel="timemap"; type="application/cdxj+ors""#,
        ];
        match &request.path[..] {
            "/1" => page(request, "2010", &all),
            "/2" => page(request, "2011", &all),
            "/3" => page(request, "2012", &all[1..]),
            "/timemap/link/http://example.com/" => page(request, "2009", &all),
            other => panic!("{other}"),
        }
    })
    .await;
    assert_eq!(found, ["20090101000000", Y2010, Y2011, Y2012]);
    assert_eq!(reply, Reply::Mementos(4));
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test]
async fn an_index_of_timemaps_is_followed_also_as_json() {
    let (found, reply) = one(|request| match &request.path[..] {
        "/a" => page(request, "2010", &[]),
        "/b" => Answer::new(404, ""),
        _ => Answer::links(
            "<http://example.com/>; rel=original, </a>; rel=timemap, </b>; rel=timemap",
        ),
    })
    .await;
    assert_eq!(found, [Y2010]);
    assert_eq!(reply, partial(1, "status 404"));

    let (found, reply) = one(|request| match &request.path[..] {
        "/1" => Answer::new(
            200,
            r#"{"original_uri": "http://example.com/", "mementos": {"list": [{"datetime": "2010-01-01T00:00:00Z", "uri": "/m/1"}]},
                "pages": {"next": {"uri": "/2"}}, "timemap_uri": {"json_format": "/elsewhere"}}"#,
        ),
        "/2" => Answer::new(
            200,
            r#"{"original_uri": "http://example.com/", "mementos": {"list": [{"datetime": "2011-01-01T00:00:00Z", "uri": ["/m/2", "/m/3"]}]},
                "pages": {"prev": {"uri": "/1"}}}"#,
        ),
        "/elsewhere" => panic!("the same TimeMap"),
        _ => Answer::new(
            200,
            r#"{"original_uri": "http://example.com/", "timemap_index": [{"from": "2010-01-01T00:00:00Z", "until": "2011-01-01T00:00:00Z", "uri": "/1"}]}"#,
        ),
    })
    .await;
    assert_eq!(found, [Y2010, Y2011, Y2011]);
    assert_eq!(reply, Reply::Mementos(3));
}

#[tokio::test]
async fn pages_and_mementos_are_limited() {
    let endless = |request: &Request| {
        let number: u64 = request.path[1..].parse().unwrap_or(1000);
        let next = format!("</{}>; rel=\"next timemap\"", number + 1);
        page(request, &number.to_string(), &[&next])
    };
    let limits = ArchiveLimits {
        max_pages: 7,
        ..ArchiveLimits::default()
    };
    let ((found, reply), fake) = limited(limits, endless).await;
    assert_eq!(found.len(), 7);
    assert_eq!(reply, partial(7, "more than 7 pages"));
    assert_eq!(fake.requests().len(), 7);
    let limits = ArchiveLimits {
        max_mementos: 5,
        ..ArchiveLimits::default()
    };
    let ((found, reply), _) = limited(limits, endless).await;
    assert_eq!(found.len(), 5);
    assert_eq!(reply, partial(5, "more than 5 mementos"));
}

#[tokio::test]
async fn wrong_dates_are_left_out_and_duplicates_removed() {
    let a = Fake::start(|_| {
        Answer::links(
            r#"<http://m.example/1>; rel="memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT",
               <http://m.example/1>; rel="memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT",
               <http://m.example/2>; rel="memento"; datetime="Sun",
               <http://m.example/3>; rel="memento"; datetime="Fri, 31 Feb 2010 00:00:00 GMT",
               <http://m.example/4>; rel="memento",
               <http://m.example/5>; rel="memento"; datetime="2010-01-01T00:00:00Z",
               <http://m.example/x;y,z?a="b">; rel=memento; datetime=Mon, 01 Jan 2010 00:00:00 GMT"#,
        )
    });
    let b = Fake::start(|_| {
        Answer::links(
            r#"<http://m.example/5>; rel="last memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT""#,
        )
    });
    let found = aggregate(vec![b.entry("b"), a.entry("a")]).await;
    let uris: Vec<(&str, usize)> = found
        .mementos
        .iter()
        .map(|found| (&found.memento.uri[..], found.archive))
        .collect();
    assert_eq!(
        uris,
        [
            ("http://m.example/5", 0),
            ("http://m.example/1", 1),
            ("http://m.example/x;y,z?a=\"b\"", 1)
        ]
    );
}

#[tokio::test]
async fn a_busy_archive_is_asked_again_when_it_says() {
    for status in [429, 503] {
        let ((found, reply), fake) = limited(ArchiveLimits::default(), {
            let count = Mutex::new(0);
            move |request| {
                let mut count = count.lock().unwrap();
                *count += 1;
                match *count {
                    1 => Answer::new(status, "busy").with("Retry-After", "1"),
                    _ => Answer::timemap(URI, request, &["2010"]),
                }
            }
        })
        .await;
        assert_eq!((found.len(), reply), (1, Reply::Mementos(1)));
        assert_eq!(fake.requests().len(), 2);
    }
    // Not if that is after the deadline, and not again and again.
    let start = Instant::now();
    let ((_, reply), fake) = limited(ArchiveLimits::default(), |_| {
        Answer::new(429, "busy").with("Retry-After", "3600")
    })
    .await;
    assert_eq!((reply, fake.requests().len()), (Reply::Status(429), 1));
    let limits = ArchiveLimits {
        retries: 2,
        ..ArchiveLimits::default()
    };
    let ((_, reply), fake) = limited(limits, |_| Answer::new(503, "")).await;
    assert_eq!((reply, fake.requests().len()), (Reply::Status(503), 3));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn an_archive_that_hangs_up_is_asked_once_more() {
    let ((_, reply), fake) = limited(ArchiveLimits::default(), {
        let first = AtomicBool::new(true);
        move |request| match first.swap(false, Ordering::Relaxed) {
            true => Answer::hang_up(),
            false => Answer::timemap(URI, request, &["2010"]),
        }
    })
    .await;
    assert_eq!((reply, fake.requests().len()), (Reply::Mementos(1), 2));
    let ((_, reply), fake) = limited(ArchiveLimits::default(), |_| Answer::hang_up()).await;
    assert!(matches!(reply, Reply::Failed(_)));
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn redirects_and_pages_lead_only_to_public_addresses() {
    let secret = Fake::holding(&["2010"]);
    let port = secret.address().port();
    for target in [
        format!("http://127.0.0.1:{port}/timemap/link/x"),
        format!("http://localhost:{port}/timemap/link/x"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let redirect = target.clone();
        let (_, reply) = one(move |_| Answer::new(302, "").with("Location", &redirect)).await;
        let Reply::Failed(why) = &reply else {
            panic!("{target}: {reply}");
        };
        assert!(why.contains("public"), "{target}: {why}");
        let (found, reply) = one(move |request| {
            page(
                request,
                "2011",
                &[&format!("<{target}>; rel=\"next timemap\"")],
            )
        })
        .await;
        assert_eq!(found, [Y2011]);
        assert!(matches!(reply, Reply::Partial(1, why) if why.contains("public")));
        assert_eq!(secret.requests().len(), 0);
    }
    // Unless the registry names the host, or allows everything.
    let base = secret.base();
    let redirecting = Fake::start(move |_| Answer::new(302, "").with("Location", &base));
    let mut entry = redirecting.entry("a");
    let found = aggregate(vec![entry.clone(), secret.entry("secret")]).await;
    assert_eq!(replies(&found), [&Reply::Mementos(1), &Reply::Mementos(1)]);
    entry.allow_private = true;
    let found = aggregate(vec![entry]).await;
    assert_eq!(replies(&found), [&Reply::Mementos(1)]);
}

#[tokio::test]
async fn rows_of_indexes_are_mementos_by_template() {
    let cdx = "com,example)/ 20100101000000 http://example.com/ text/html 200 SHA - - 1 2 x.warc.gz\n\
               com,example)/ 20110101000000 http://example.com/ text/html 200 SHA - - 1 2 x.warc.gz\n";
    let cdxj = "com,example)/ 20100101000000 {\"url\": \"http://example.com/\"}\n\
                com,example)/ 20110101000000 {\"url\": \"http://example.com/\"}\n";
    let ndjson = "{\"urlkey\": \"com,example)/\", \"timestamp\": \"20100101000000\", \"url\": \"http://example.com/\"}\n\
                  {\"urlkey\": \"com,example)/\", \"timestamp\": \"20110101000000\", \"url\": \"http://example.com/\"}\n";
    let table = r#"[["timestamp", "original"], ["20100101000000", "http://example.com/"], ["20110101000000", "http://example.com/"]]"#;
    for body in [cdx, cdxj, ndjson, table] {
        let fake = Fake::start(move |_| Answer::new(200, body).with("Content-Type", "text/plain"));
        let archive = Archive {
            cdx: Some(format!("{}/cdx?x=y", fake.base())),
            replay: Some("http://replay.example/{timestamp}/{url}".parse().unwrap()),
            ..Archive::new("cdx")
        };
        let found = aggregate(vec![archive]).await;
        let uris: Vec<&str> = found.mementos.iter().map(|f| &f.memento.uri[..]).collect();
        assert_eq!(
            uris,
            [
                "http://replay.example/20100101000000/http://example.com/",
                "http://replay.example/20110101000000/http://example.com/"
            ],
            "{body}"
        );
        assert_eq!(fake.requests()[0].path, "/cdx?x=y&url=http://example.com/");
    }
}

async fn closest(archive: Archive) -> (Vec<(String, String)>, Reply) {
    let lookup = Lookup::new(URI, Wanted::Closest(Datetime::parse("2010").unwrap()));
    let options = within(Duration::from_secs(20));
    let mut found = router(vec![archive]).aggregate(&lookup, &options).await;
    let mementos = found.mementos.into_iter();
    let mementos = mementos.map(|f| (f.memento.uri, f.memento.datetime.timestamp()));
    (mementos.collect(), found.outcomes.remove(0).reply)
}

#[tokio::test]
async fn a_timegate_is_asked_with_head() {
    let fake = Fake::start(|request| {
        assert_eq!(
            request.header("accept-datetime"),
            Some("Fri, 01 Jan 2010 00:00:00 GMT")
        );
        Answer::new(302, "")
            .with("Location", "/20100101000000/http://example.com/")
            .with("Vary", "accept-datetime")
    });
    let (found, reply) = closest(fake.entry("a")).await;
    let uri = format!("{}/20100101000000/http://example.com/", fake.base());
    assert_eq!(found, [(uri, Y2010.to_owned())]);
    assert_eq!(reply, Reply::Mementos(1));
    let requests = fake.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method, "HEAD");
    assert_eq!(requests[0].path, "/timegate/http://example.com/");
}

#[tokio::test]
async fn a_timegate_without_head_is_asked_with_get() {
    let answers: [fn() -> Answer; 3] = [
        || Answer::new(405, ""),
        || Answer::new(501, ""),
        || Answer::new(200, "nothing in the headers"),
    ];
    for refuse in answers {
        let fake = Fake::start(move |request| match &request.method[..] {
            "HEAD" => refuse(),
            _ => Answer::new(200, "a large page".repeat(100_000))
                .with("Memento-Datetime", "Fri, 01 Jan 2010 00:00:00 GMT")
                .with("Content-Location", "/m/1"),
        });
        let router = router(vec![fake.entry("a")]);
        let lookup = Lookup::new(URI, Wanted::Closest(Datetime::parse("2010").unwrap()));
        for _ in 0..2 {
            let found = router
                .aggregate(&lookup, &within(Duration::from_secs(5)))
                .await;
            assert_eq!(found.outcomes[0].reply, Reply::Mementos(1));
        }
        let methods: Vec<String> = fake.requests().into_iter().map(|r| r.method).collect();
        assert_eq!(methods, ["HEAD", "GET", "GET"]);
    }
}

#[tokio::test]
async fn a_timegate_may_lead_to_another_one() {
    let fake = Fake::start(|request| match &request.path[..] {
        "/timegate/http://example.com/" => Answer::new(301, "").with("Location", "/other/"),
        "/other/" => Answer::new(303, "").with("Location", "/plain"),
        "/plain" => Answer::new(200, "").with("Memento-Datetime", "Fri, 01 Jan 2010 00:00:00 GMT"),
        other => panic!("{other}"),
    });
    let (found, _) = closest(fake.entry("a")).await;
    assert_eq!(
        found,
        [(format!("{}/plain", fake.base()), Y2010.to_owned())]
    );

    let looping = Fake::start(|_| Answer::new(307, "").with("Location", "/loop"));
    let (_, reply) = closest(looping.entry("a")).await;
    assert_eq!(reply, failed("more than 10 redirects"));
    let live = Fake::start(|_| Answer::new(302, "").with("Location", "https://example.com/"));
    let (_, reply) = closest(live.entry("a")).await;
    assert_eq!(reply, failed("its TimeGate redirects to the original URI"));
    let nothing = Fake::start(|_| Answer::new(404, ""));
    assert_eq!(closest(nothing.entry("a")).await.1, Reply::Nothing(404));
    let silent = Fake::start(|_| Answer::new(200, "hello"));
    let (_, reply) = closest(silent.entry("a")).await;
    assert_eq!(reply, failed("its TimeGate names no memento"));
    let private = Fake::start(|_| Answer::new(302, "").with("Location", "http://10.0.0.1/"));
    let (_, reply) = closest(private.entry("a")).await;
    assert_eq!(reply, failed("refused: the address 10.0.0.1 is not public"));
}

#[tokio::test]
async fn an_archive_needs_only_one_address() {
    // A TimeMap answers what a TimeGate would.
    let fake = Fake::holding(&["2010", "2011"]);
    let mut archive = fake.entry("a");
    archive.timegate = None;
    assert_eq!(closest(archive).await.1, Reply::Mementos(2));
    // A TimeGate says where the TimeMap is.
    let fake = Fake::start(|request| match &request.path[..] {
        "/all" => Answer::timemap(URI, request, &["2010", "2011"]),
        _ => Answer::new(200, "").with("Link", "</all>; rel=\"timemap\""),
    });
    let mut archive = fake.entry("a");
    archive.timemap = None;
    let found = aggregate(vec![archive]).await;
    assert_eq!(timestamps(&found), [Y2010, Y2011]);
    let found = aggregate(vec![Archive::new("none")]).await;
    assert_eq!(
        replies(&found),
        [&Reply::Spared("it has no address".to_owned())]
    );
}

#[tokio::test]
async fn dropping_the_future_ends_the_requests() {
    let fake = Fake::start(|_| Answer::links("x").sent(Body::Stall(0)));
    let router = router(vec![fake.entry("a")]);
    let asking = tokio::spawn(async move {
        let options = within(Duration::from_secs(60));
        router.aggregate(&all(), &options).await
    });
    let wait_for = async |busy: usize| {
        for _ in 0..400 {
            if fake.busy() == busy {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} requests instead of {busy}", fake.busy());
    };
    wait_for(1).await;
    asking.abort();
    wait_for(0).await;
}

#[tokio::test]
async fn connections_are_used_again_and_the_client_says_who_it_is() {
    let fake = Fake::holding(&["2010"]);
    let router = Router::new(
        Registry::new(vec![fake.entry("a")]),
        Client::new("Waypost/1 (+mailto:a@b.example)").unwrap(),
    );
    for _ in 0..5 {
        let options = within(Duration::from_secs(5));
        let found = router.aggregate(&all(), &options).await;
        assert_eq!(found.mementos.len(), 1);
    }
    assert_eq!(fake.connections(), 1);
    assert_eq!(
        fake.requests()[0].header("user-agent"),
        Some("Waypost/1 (+mailto:a@b.example)")
    );
}

#[tokio::test]
async fn an_archive_that_is_down_is_said_to_be_down() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let archive = Archive {
        timemap: Some(format!("http://{address}/")),
        ..Archive::new("down")
    };
    let found = aggregate(vec![archive]).await;
    let Reply::Failed(why) = &found.outcomes[0].reply else {
        panic!("{found:?}");
    };
    assert!(why.starts_with("cannot connect: "), "{why}");
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Observer for Recorder {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn an_observer_is_told_what_happens() {
    let fake = Fake::holding(&["2010", "2011"]);
    let recorder = Arc::new(Recorder::default());
    let options = AggregateOptions {
        observer: Some(recorder.clone()),
        ..within(Duration::from_secs(5))
    };
    router(vec![fake.entry("a")])
        .aggregate(&all(), &options)
        .await;
    let events = recorder.0.lock().unwrap();
    let [
        Event::Asking { archive: 0, at },
        Event::Fetched {
            archive: 0,
            start,
            end,
            reply: Reply::Mementos(2),
        },
        Event::Extracted {
            archive: 0,
            count: 2,
            start: reading,
            end: read,
        },
        Event::Merged { count: 2, .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(at == start && start < end && end == reading && reading <= read);
}

#[tokio::test]
async fn a_failing_archive_is_left_alone_and_comes_back() {
    let works = Arc::new(AtomicBool::new(false));
    let fake = Fake::start({
        let works = Arc::clone(&works);
        move |request| match works.load(Ordering::Relaxed) {
            true => Answer::timemap(URI, request, &["2010"]),
            false => Answer::new(500, ""),
        }
    });
    let mut archive = fake.entry("a");
    archive.limits.max_failures = 2;
    archive.limits.cooling = Duration::from_secs(3);
    let recorder = Arc::new(Recorder::default());
    let options = AggregateOptions {
        observer: Some(recorder.clone()),
        ..within(Duration::from_secs(5))
    };
    let router = router(vec![archive.clone()]);
    let ask = async |router: &Router| {
        let mut found = router.aggregate(&all(), &options).await;
        found.outcomes.remove(0).reply
    };
    assert_eq!(ask(&router).await, Reply::Status(500));
    assert_eq!(ask(&router).await, Reply::Status(500));
    assert!(matches!(ask(&router).await, Reply::Spared(_)));
    // A change of the registry does not make it better.
    let router = router.with_registry(Registry::new(vec![archive]));
    assert!(matches!(ask(&router).await, Reply::Spared(_)));
    assert_eq!(fake.requests().len(), 2);
    works.store(true, Ordering::Relaxed);
    let found = loop {
        match ask(&router).await {
            Reply::Spared(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => break other,
        }
    };
    assert_eq!(found, Reply::Mementos(1));
    let events = recorder.0.lock().unwrap();
    let changes = events.iter().filter_map(|event| match event {
        Event::Changed { change, .. } => Some(*change),
        _ => None,
    });
    let wait = Duration::from_secs(3);
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [Change::Rests { failures: 2, wait }, Change::Returns]
    );
}

#[tokio::test]
async fn no_more_requests_than_allowed_run_at_a_time() {
    let most = Arc::new(AtomicUsize::new(0));
    let running = AtomicUsize::new(0);
    let fake = Fake::start({
        let most = Arc::clone(&most);
        move |request| {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            running.fetch_sub(1, Ordering::SeqCst);
            Answer::timemap(URI, request, &["2010"])
        }
    });
    let mut archive = fake.entry("a");
    archive.limits.concurrency = 3;
    let router = router(vec![archive]);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let router = router.clone();
        asking.spawn(async move {
            router
                .aggregate(&all(), &within(Duration::from_secs(9)))
                .await
        });
    }
    for found in asking.join_all().await {
        assert_eq!(replies(&found), [&Reply::Mementos(1)]);
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
}
