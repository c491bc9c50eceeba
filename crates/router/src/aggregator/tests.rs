use std::net::Ipv4Addr;

use super::*;
use crate::{Archive, CacheConfig, Client, LogFormat, Wanted};

fn aggregator(format: LogFormat) -> (Aggregator, Text) {
    let names = [
        ("a.example", "Archive A"),
        ("nf.example", "Archive NotFound"),
        ("dead.example", "Archive Dead"),
        ("late", ""),
        ("dormant", ""),
    ];
    let archives = names.map(|(id, name)| Archive {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        // Archives without an address are never asked.
        ..Archive::new(id)
    });
    let registry = Registry::new(archives.to_vec());
    let router = Router::new(registry, Client::new("test").unwrap());
    let cache = Cache::open(&CacheConfig::default(), |_| {}).unwrap();
    let (log, text) = Log::in_memory(format);
    let aggregator = Aggregator::new(router, cache, Operations::new(log));
    (aggregator, text)
}

/// What was logged.
type Text = Arc<Mutex<String>>;

fn logged(aggregator: &Aggregator, text: &Text) -> String {
    aggregator.operations().log.flush();
    lock(text).clone()
}

fn start(aggregator: &Aggregator, uri: &str, kind: &'static str) -> Arc<Session> {
    aggregator.start(aggregator.operations().next_number(), uri, kind)
}

fn at(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

/// What happens in a session.
fn events() -> Vec<Event> {
    let fetched = |archive, reply, took: u64| Event::Fetched {
        archive,
        start: at(1_000),
        end: at(1_000 + took),
        reply,
    };
    vec![
        fetched(2, Reply::Failed("connection refused".to_owned()), 210_152),
        fetched(0, Reply::Mementos(4), 1_678_716),
        Event::Extracted {
            archive: 0,
            count: 4,
            start: at(0),
            end: at(103_985),
        },
        fetched(1, Reply::Nothing(404), 2_488_905),
        fetched(3, Reply::Late, 1_001_395_043),
        fetched(4, Reply::Spared("it failed".to_owned()), 5),
        Event::Merged {
            count: 4,
            start: at(0),
            end: at(2_503),
        },
    ]
}

/// The fields of a line without what differs each time.
fn normalised(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    // Date and time.
    words.drain(1..3);
    let line = words.join(" ");
    match line.split_once(" - Duration: ") {
        Some((before, _)) if line.contains("\"AGGREGATOR\"") || line.contains("\"SESSION\"") => {
            before.to_owned()
        }
        _ => line,
    }
}

#[tokio::test]
async fn lines_are_those_of_memgator() {
    let (aggregator, text) = aggregator(LogFormat::MemGator);
    let session = start(&aggregator, "http://example.com/", "timemap");
    let number = session.number();
    for event in events() {
        session.observe(&event);
    }
    *lock(&session.outcome) = Some(Looked {
        at: SystemTime::now(),
        origin: "fetched",
        mementos: 4,
        missing: vec![2],
    });
    session.finish(200);
    let text = logged(&aggregator, &text);
    let source = text
        .split("log.rs:")
        .nth(1)
        .and_then(|rest| rest.split(':').next());
    let text = text.replace(&format!("log.rs:{}", source.unwrap()), "SOURCE");
    let lines: Vec<String> = text.lines().map(normalised).collect();
    let step = |origin: &str, role: &str, info: &str| {
        format!(
            "BENCHMARK: {number} {{\"origin\": \"{origin}\", \"role\": \"{role}\", \"info\": \"{info}"
        )
    };
    let end = |step: String, start: u64, end: u64| {
        let took = go_duration(Duration::from_nanos(end - start));
        format!("{step} - Duration: {took}\", \"start\": {start}, \"end\": {end}}}")
    };
    let fetch = |origin: &str, info: &str, took: u64| {
        end(step(origin, "timemapfetch", info), 1_000, 1_000 + took)
    };
    let total = lines[lines.len() - 2].clone();
    assert_eq!(
        lines,
        [
            step("AGGREGATOR", "createsess", "Session created"),
            "INFO: Aggregating Mementos for http://example.com/".to_owned(),
            fetch("dead.example", "Network error in Archive Dead", 210_152),
            "ERROR: SOURCE: dead.example => Network error: connection refused".to_owned(),
            fetch("a.example", "TimeMap fetched from Archive A", 1_678_716),
            end(
                step(
                    "a.example",
                    "extractmementos",
                    "4 Mementos extracted from Archive A"
                ),
                0,
                103_985
            ),
            "INFO: a.example => Success: 4 mementos".to_owned(),
            fetch(
                "nf.example",
                "Response error in Archive NotFound, Status: 404",
                2_488_905
            ),
            "INFO: nf.example => Response error: 404 Not Found".to_owned(),
            fetch("late", "Network error in ", 1_001_395_043),
            "ERROR: SOURCE: late => Network error: no answer in time".to_owned(),
            step(
                "AGGREGATOR",
                "aggregate",
                "4 Mementos accumulated and sorted"
            ),
            step("AGGREGATOR", "setnav", "Navigational relations annotated"),
            step("AGGREGATOR", "serialize", "4 mementos serialized"),
            total.clone(),
            step("SESSION", "timemap", "Complete session"),
        ]
    );
    assert!(total.starts_with("INFO: Total Mementos: 4 in "), "{total}");
}

#[tokio::test]
async fn lines_of_json_have_session_uri_archive_status_count_and_time() {
    let (aggregator, text) = aggregator(LogFormat::Json);
    let lookup = Lookup::new("http://example.com/\"é", Wanted::All);
    let session = start(&aggregator, &lookup.uri, "timemap");
    for event in events() {
        session.observe(&event);
    }
    let usual = CacheDirective::Usual;
    let kept = aggregator.look_up(&session, &lookup, usual, Duration::from_secs(1));
    assert_eq!(kept.await.unwrap().origin, Origin::Fetched);
    let request = AnsweredRequest {
        number: session.number(),
        kind: "timemap",
        method: "GET",
        target: "/timemap/link/http://example.com/",
        client: Ipv4Addr::LOCALHOST.into(),
        status: 404,
        took: Duration::from_millis(5),
        session: Some(&session),
    };
    aggregator.operations().answered(&request);
    let text = logged(&aggregator, &text);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let number = session.number().to_string();
    for line in &lines {
        assert_eq!(line["session"], number);
        assert!(line["time"].is_string() && line["level"].is_string());
    }
    assert_eq!(lines[0]["archive"], "dead.example");
    assert_eq!(lines[0]["error"], "connection refused");
    assert_eq!(lines[1]["count"], 4);
    assert_eq!(lines[2]["status"], 404);
    assert_eq!(lines[2]["uri"], lookup.uri);
    let [.., looked, request] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(looked["event"], "lookup");
    assert_eq!(looked["origin"], "fetched");
    assert_eq!(looked["missing"].as_array().unwrap().len(), 5);
    assert_eq!(request["status"], 404);
    let metrics = aggregator.metrics();
    for line in [
        "waypost_requests_total{kind=\"timemap\",status=\"404\"} 1",
        "waypost_lookups_total{origin=\"fetched\"} 1",
        "waypost_archive_lookups_total{archive=\"a.example\",result=\"mementos\"} 1",
        "waypost_archive_mementos_total{archive=\"a.example\"} 4",
        "waypost_archive_running{archive=\"a.example\"} 0",
        "waypost_cache_entries 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test]
async fn clients_that_monitor_see_the_steps() {
    let (aggregator, _) = aggregator(LogFormat::Json);
    let mut events = aggregator.operations().monitor.subscribe();
    let session = start(&aggregator, "http://example.com/", "timegate");
    session.finish(404);
    let number = session.number();
    let first = events.next().await.unwrap();
    let start = format!("data: {{\"session\": \"{number}\", \"origin\": \"AGGREGATOR\", ");
    assert!(first.starts_with(start.as_bytes()), "{first:?}");
    assert!(first.ends_with(b"}\n\n"));
    let last = events.next().await.unwrap();
    let last = String::from_utf8_lossy(&last);
    assert!(last.contains("\"role\": \"timegate\", \"info\": \"Complete session - "));
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_what_is_known() {
    let (aggregator, text) = aggregator(LogFormat::MemGator);
    let session = start(&aggregator, "http://example.com/", "timemap");
    let change = Change::Rests {
        failures: 3,
        wait: Duration::from_secs(3),
    };
    session.observe(&Event::Changed { archive: 2, change });
    let config = Config {
        registry: Registry::new(vec![Archive::new("new")]),
        ..Config::default()
    };
    aggregator.reload(&config);
    // The session keeps its router; others get the new one.
    assert_eq!(session.router().registry().archives.len(), 5);
    assert_eq!(aggregator.router().registry().archives.len(), 1);
    aggregator.operations().reloaded(Some("line 3: wrong"));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let text = logged(&aggregator, &text);
    let lines: Vec<&str> = text.lines().collect();
    let ends = [
        " dead.example => Dormant after 3 consecutive failures",
        " Configuration reloaded",
        ": line 3: wrong",
        " dead.example => Awake after 3s",
    ];
    let ended = lines.iter().rev().take(4).rev().zip(ends);
    for (line, end) in ended {
        assert!(line.ends_with(end), "{line}");
    }
    let numbers: Vec<u64> = (0..100)
        .map(|_| aggregator.operations().number_at(at(5)))
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
}
