//! What operators rely on: kept answers, logs, metrics, health, events, and archives that fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fakes::{Answer, Fake};
use running::{Running, ask};
use serde_json::Value;
use waypost_router::serve::Options;
use waypost_router::{
    Archive, BreakerStyle, CacheConfig, Config, Log, LogConfig, LogFormat, Manners, Registry,
    ServerConfig,
};

const PATH: &str = "/timemap/link/http://example.com/";

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn keeping(archives: Vec<Archive>, cache: &CacheConfig) -> Running {
    let manners = Arc::default();
    Running::with_all(archives, Options::default(), cache, manners, Log::none())
}

/// An archive that can be down, and counts how often it is asked for TimeMaps.
fn failing(down: &Arc<AtomicBool>, timestamps: &'static [&'static str]) -> Fake {
    let down = Arc::clone(down);
    Fake::start(move |request| match down.load(Ordering::Relaxed) {
        true => Answer::new(500, ""),
        false => Answer::timemap(request.original(), request, timestamps),
    })
}

#[test]
fn clients_decide_whether_a_kept_answer_will_do() {
    let a = Fake::holding(&["2010", "2012"]);
    let server = keeping(vec![a.entry("a")], &CacheConfig::default());
    let asked = |path: &str, directive: &str| {
        let headers = [("Cache-Control", directive)];
        let headers = if directive.is_empty() {
            &[][..]
        } else {
            &headers
        };
        let reply = ask(server.address, "GET", path, headers);
        let cache = reply.header("x-waypost-cache").map(str::to_owned);
        (reply.status, cache, reply.header("age").is_some())
    };
    let fetched = (200, Some("fetched".to_owned()), false);
    let fresh = (200, Some("fresh".to_owned()), true);
    assert_eq!(asked(PATH, "only-if-cached").0, 504);
    assert_eq!(a.requests().len(), 0);
    assert_eq!(asked(PATH, ""), fetched);
    assert_eq!(asked(PATH, ""), fresh);
    assert_eq!(asked(PATH, "only-if-cached"), fresh);
    // A kept TimeMap answers in every format and for every datetime.
    assert_eq!(asked("/timemap/cdxj/http://example.com/", ""), fresh);
    let (status, cache, _) = asked("/memento/2012/http://example.com/", "");
    assert_eq!((status, cache.as_deref()), (302, Some("fresh")));
    assert_eq!(a.requests().len(), 1);
    assert_eq!(asked(PATH, "no-cache"), fetched);
    assert_eq!(a.requests().len(), 2);
}

#[test]
fn an_answer_survives_a_restart_and_an_archive_that_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let down = Arc::new(AtomicBool::new(false));
    let (a, b) = (failing(&down, &["2010"]), Fake::holding(&["2012"]));
    let cache = CacheConfig {
        disk: Some(folder.path().join("cache.redb")),
        ..CacheConfig::default()
    };
    let archives = || vec![a.entry("a"), b.entry("b")];
    let mut server = keeping(archives(), &cache);
    assert_eq!(server.get(PATH).header("x-memento-count"), Some("2"));
    server.stop();
    drop(server);
    let server = keeping(archives(), &cache);
    let kept = ask(
        server.address,
        "GET",
        PATH,
        &[("Cache-Control", "only-if-cached")],
    );
    assert_eq!(kept.status, 200, "{kept:?}");
    down.store(true, Ordering::Relaxed);
    // A new answer that lacks an archive has the mementos that are known of it.
    let reply = ask(
        server.address,
        "GET",
        PATH,
        &[("Cache-Control", "no-cache")],
    );
    assert_eq!(reply.header("x-memento-count"), Some("2"));
    assert_eq!(reply.header("x-waypost-incomplete"), Some("a"));
}

#[test]
fn the_same_lookup_is_asked_once_at_a_time() {
    let a = Fake::start(|request| {
        Answer::timemap(request.original(), request, &["2010"]).after(Duration::from_millis(300))
    });
    let server = keeping(vec![a.entry("a")], &CacheConfig::default());
    let address = server.address;
    let clients: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(move || ask(address, "GET", PATH, &[]).status))
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    assert_eq!(a.requests().len(), 1);
}

/// Reads events until one has this role.
fn events_until(reader: &mut impl BufRead, role: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "{events:?}");
        if let Some(event) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(event).unwrap();
            let is_last = event["role"] == role;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
}

fn monitor(address: SocketAddr) -> BufReader<TcpStream> {
    let mut client = TcpStream::connect(address).unwrap();
    let time = Some(Duration::from_secs(10));
    client.set_read_timeout(time).unwrap();
    client
        .write_all(b"GET /monitor HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    BufReader::new(client)
}

#[test]
fn clients_that_monitor_are_told_and_a_stalled_one_stops_nobody() {
    let a = Fake::holding(&["2010"]);
    let options = Options {
        config: ServerConfig {
            monitor: true,
            max_requests: 4,
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let mut server = Running::with(vec![a.entry("a")], options);
    let mut reading = monitor(server.address);
    let stalled = monitor(server.address);
    let monitors = || server.server.aggregator().operations().monitor.clients();
    wait_until("both monitor", || monitors() == 2);
    assert_eq!(server.get(PATH).status, 200);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reading.read_line(&mut head).unwrap(), 0);
    }
    let head = head.to_ascii_lowercase();
    for line in [
        "http/1.1 200",
        "content-type: text/event-stream",
        "cache-control: no-cache",
        "access-control-allow-origin: *",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let events = events_until(&mut reading, "timemap");
    let roles: Vec<&str> = events.iter().map(|e| e["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        [
            "createsess",
            "timemapfetch",
            "extractmementos",
            "aggregate",
            "setnav",
            "serialize",
            "timemap"
        ]
    );
    let session = &events[0]["session"];
    assert!(events.iter().all(|event| event["session"] == *session));
    // Far more events than fit between a client that does not read and the server.
    for number in 0..400 {
        assert_eq!(server.get(&format!("{PATH}{number}")).status, 200);
    }
    // Clients that monitor count as requests that are answered.
    let (_third, _fourth) = (monitor(server.address), monitor(server.address));
    wait_until("all monitor", || monitors() == 4);
    assert_eq!(server.get(PATH).status, 503);
    drop(stalled);
    wait_until("one left", || monitors() == 3);
    assert_eq!(server.get(PATH).status, 200);
    // Events end when the server stops.
    server.stop();
    let mut rest = Vec::new();
    reading.read_to_end(&mut rest).unwrap();
}

#[test]
fn operators_see_metrics_and_health_on_a_port_of_their_own() {
    let (a, broken) = (
        Fake::holding(&["2010"]),
        Fake::start(|_| Answer::new(500, "")),
    );
    let mut entry = broken.entry("broken");
    entry.limits.max_failures = 1;
    let server = keeping(vec![a.entry("a"), entry], &CacheConfig::default());
    assert_eq!(server.get(PATH).status, 200);
    assert_eq!(server.get("/metrics").status, 404);
    let metrics = ask(server.operators, "GET", "/metrics", &[]);
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    for line in [
        "waypost_requests_total{kind=\"timemap\",status=\"200\"} 1",
        "waypost_archive_lookups_total{archive=\"broken\",result=\"status\"} 1",
        "waypost_archive_failures{archive=\"broken\"} 1",
        "waypost_cache_entries 1",
        "# EOF",
    ] {
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
    let health = ask(server.operators, "GET", "/health", &[]);
    assert_eq!(health.status, 200);
    let health: Value = serde_json::from_slice(&health.body).unwrap();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["archives"][0]["failures"], 0);
    assert!(health["archives"][1]["resting_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(ask(server.operators, "POST", "/health", &[]).status, 405);
    assert_eq!(ask(server.operators, "GET", PATH, &[]).status, 404);
    let about = server.get("/about");
    assert!(
        about
            .text()
            .contains("2. [broken](https://broken/) - (DORMANT)\n"),
        "{}",
        about.text()
    );
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_line_of_the_log_has_the_request_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = LogConfig {
        file: Some(path.clone()),
        ..LogConfig::default()
    };
    let (a, stalled) = (
        Fake::holding(&["2010"]),
        Fake::start(|request| match request.path.ends_with("slow") {
            true => Answer::new(200, "").after(Duration::from_secs(60)),
            false => Answer::new(404, ""),
        }),
    );
    let server = Running::with_all(
        vec![a.entry("a"), stalled.entry("stalled")],
        Options::default(),
        &CacheConfig::default(),
        Arc::default(),
        Log::open(&config, false).unwrap(),
    );
    let flush = || server.server.aggregator().operations().log.flush();
    let reply = server.get(PATH);
    let id = reply.header("x-request-id").unwrap();
    flush();
    let logged = lines(&path);
    assert!(
        logged.iter().all(|line| line["session"] == id),
        "{logged:?}"
    );
    let one = |event: &str, archive: Option<&str>| {
        let mut found = logged.iter();
        found
            .find(|line| line["event"] == event && line["archive"].as_str() == archive)
            .unwrap()
            .clone()
    };
    let asked = one("archive", Some("a"));
    assert_eq!(
        (&asked["count"], &asked["uri"]),
        (&1.into(), &"http://example.com/".into())
    );
    assert!(asked["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(one("archive", Some("stalled"))["status"], 404);
    assert_eq!(one("lookup", None)["count"], 1);
    assert_eq!(one("request", None)["status"], 200);

    // A client that leaves.
    let mut client = TcpStream::connect(server.address).unwrap();
    let request = format!("GET {PATH}slow HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    wait_until("the archive is asked", || stalled.busy() == 1);
    drop(client);
    wait_until("the request is logged", || {
        flush();
        lines(&path).iter().any(|line| line["status"] == 499)
    });
    // What cannot be answered.
    assert_eq!(server.get("/timemap/xml/x").status, 400);
    flush();
    let logged = lines(&path);
    let last = logged.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["status"]),
        (&"malformed".into(), &400.into())
    );
}

#[test]
fn dormancy_is_that_of_memgator() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let broken = Fake::start(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Answer::new(500, "")
    });
    let limits = |mut archive: Archive| {
        archive.limits.max_failures = 3;
        archive.limits.retries = 0;
        archive.limits.cooling = Duration::from_secs(60);
        archive
    };
    let dead = Archive {
        timemap: Some("http://127.0.0.1:9/timemap/".to_owned()),
        ..Archive::new("dead.example")
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = LogConfig {
        file: Some(path.clone()),
        format: LogFormat::MemGator,
        benchmark: None,
    };
    let cache = CacheConfig {
        enabled: false,
        ..CacheConfig::default()
    };
    let server = Running::with_all(
        vec![limits(broken.entry("err.example")), limits(dead)],
        Options::default(),
        &cache,
        Arc::new(Manners::new(BreakerStyle::MemGator)),
        Log::open(&config, false).unwrap(),
    );
    let about = || server.get("/about").text().to_owned();
    server.get(PATH);
    assert!(about().contains("(https://dead.example/) - (Consecutive failures: 1)\n"));
    for _ in 0..3 {
        server.get(PATH);
    }
    // Only what is a network error counts.
    assert!(
        about().contains("1. [err.example](https://err.example/)\n"),
        "{}",
        about()
    );
    assert!(
        about().contains("(https://dead.example/) - (DORMANT)\n"),
        "{}",
        about()
    );
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    server.server.aggregator().operations().log.flush();
    let text = fs::read_to_string(path).unwrap();
    let found = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!(
        found(" dead.example => Dormant after 3 consecutive failures"),
        1,
        "{text}"
    );
    assert_eq!(
        found(" err.example => Response error: 500 Internal Server Error"),
        4
    );
    assert_eq!(found(" Aggregating Mementos for http://example.com/"), 4);
}

#[test]
fn a_client_that_takes_nothing_is_dropped() {
    // Far more than sockets buffer.
    let body: Vec<u8> = (0..200_000)
        .flat_map(|number| {
            format!("<http://a.example/{number}/x>; rel=\"memento\"; datetime=\"Fri, 01 Jan 2010 00:00:00 GMT\",\n")
                .into_bytes()
        })
        .collect();
    let a = Fake::start(move |_| Answer::links(body.clone()));
    let options = Options {
        config: ServerConfig {
            send_timeout: Duration::from_secs(3),
            max_requests: 1,
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let server = Running::with(vec![a.entry("a")], options);
    let mut stalled = TcpStream::connect(server.address).unwrap();
    stalled
        .write_all(format!("GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
        .unwrap();
    stalled.peek(&mut [0]).unwrap();
    // It counts as a request until it is dropped.
    assert_eq!(server.get("/timemap/link/http://b.example/").status, 503);
    wait_until("the stalled client is dropped", || {
        ask(server.address, "HEAD", PATH, &[]).status == 200
    });
    let mut received = Vec::new();
    let _ = stalled.read_to_end(&mut received);
    assert!(received.len() < 15_000_000, "{} bytes", received.len());
}

#[test]
fn archives_come_and_go_while_requests_are_answered() {
    let (a, b) = (Fake::holding(&["2010"]), Fake::holding(&["2011", "2012"]));
    let server = Running::start(vec![a.entry("a")]);
    let address = server.address;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut counts = [0; 4];
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let reply = ask(address, "GET", &format!("{PATH}{client}/{number}"), &[]);
                    assert_eq!(reply.status, 200, "{reply:?}");
                    assert_eq!(reply.header("x-waypost-incomplete"), None, "{reply:?}");
                    let count = reply.header("x-memento-count").unwrap();
                    counts[count.parse::<usize>().unwrap()] += 1;
                }
                counts
            })
        })
        .collect();
    for turn in 0..40 {
        let archives = match turn % 2 {
            0 => vec![a.entry("a"), b.entry("b")],
            _ => vec![a.entry("a")],
        };
        let config = Config {
            registry: Registry::new(archives),
            ..Config::default()
        };
        server.server.aggregator().reload(&config);
        sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    let mut total = [0; 4];
    for client in clients {
        for (sum, count) in total.iter_mut().zip(client.join().unwrap()) {
            *sum += count;
        }
    }
    assert!(
        total[1] > 0 && total[3] > 0 && total[0] + total[2] == 0,
        "{total:?}"
    );
}
