//! The lookup service: answers, limits, and what was added survives.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use http::{Reply, ask};
use proptest::prelude::*;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use waypost_archive::AccessLog;
use waypost_archive::filters::live::{LiveArchive, LiveOptions};
use waypost_archive::filters::{FilterServer, Holdings, HoldingsOptions, ServiceOptions};
use waypost_io::Source;
use waypost_net::server::Limits;
use waypost_summary::filter::{self, Filter, Hasher, Keyer, Kind, Recipe, Secret};
use waypost_surt::{Dialect, Policy};

#[path = "../../../tests/http.rs"]
mod http;

fn write_filter(path: &Path, urls: &[&str], kind: Kind, hasher: Hasher) {
    let list = path.with_extension("list");
    fs::write(&list, urls.join("\n")).unwrap();
    let sources = [Source::new(&list)];
    let recipe = Recipe {
        kind,
        ..Recipe::default()
    };
    let input = filter::Input {
        hasher,
        ..filter::Input::new(&sources)
    };
    filter::build(input, &recipe, path).unwrap();
    fs::remove_file(list).unwrap();
}

struct Running {
    address: SocketAddr,
    metrics: SocketAddr,
    server: Arc<FilterServer>,
    log: Arc<Mutex<Vec<u8>>>,
    /// What it has said about its files, whoever asked it to look.
    said: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
    runtime: Runtime,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Running {
    fn start(folder: &Path, options: HoldingsOptions) -> Running {
        Running::with(folder, options, ServiceOptions::default())
    }

    fn with(folder: &Path, options: HoldingsOptions, limits: ServiceOptions) -> Running {
        let holdings = Holdings::open(Some(folder), options).unwrap();
        let shared = Shared::default();
        let log = Arc::clone(&shared.0);
        let access_log = Some(Arc::new(AccessLog::new(shared)));
        let server = Arc::new(FilterServer::new(
            Arc::new(holdings),
            limits,
            Limits::default(),
            access_log,
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (listener, metrics) = (bind(), bind());
        let (address, metrics_address) = (
            listener.local_addr().unwrap(),
            metrics.local_addr().unwrap(),
        );
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let run = Arc::clone(&server);
        let said = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&said);
        let report = move |message| report.lock().unwrap().push(message);
        runtime.spawn(async move {
            run.run(listener, Some(metrics), report, async {
                let _ = stopped.await;
            })
            .await
            .unwrap();
            let _ = end.send(());
        });
        Running {
            address,
            metrics: metrics_address,
            server,
            log,
            said,
            stop: Some(stop),
            ended: Some(ended),
            runtime,
        }
    }

    fn get(&self, path: &str) -> Reply {
        ask(self.address, "GET", path, &[])
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        http::ask_with_body(self.address, "POST", path, &[], Some(body.as_bytes()))
    }

    /// Ends the server as a signal does.
    fn stop(mut self) {
        drop(self.stop.take());
        let ended = self.ended.take().unwrap();
        self.runtime.block_on(ended).unwrap();
    }
}

fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("haw")).unwrap();
    let (public, ribbon) = (Hasher::Public, Kind::Ribbon);
    write_filter(
        &path.join("haw/2020.filter"),
        &["http://a.hr/"],
        ribbon,
        public,
    );
    write_filter(
        &path.join("haw/2021.filter"),
        &["http://b.hr/?q"],
        Kind::Hashes,
        public,
    );
    write_filter(
        &path.join("ia.filter"),
        &["http://b.hr/?q", "http://c.com/"],
        Kind::Bloom,
        public,
    );
    fs::write(path.join("bl.ukvs"), "uk,* 5\n").unwrap();
    fs::write(path.join("sitemap.xml"), "<urlset/>").unwrap();
    folder
}

#[test]
fn lookups_are_answered_with_rate_etag_and_time() {
    let folder = folder();
    let server = Running::start(folder.path(), HoldingsOptions::default());
    let found = server.get("/haw/https://www.a.hr/");
    assert_eq!(found.status, 200);
    let etag = found.header("etag").unwrap();
    assert!(found.header("last-modified").unwrap().ends_with("GMT"));
    let rate: f64 = found
        .header("x-false-positive-rate")
        .unwrap()
        .parse()
        .unwrap();
    assert!(rate > 0.0 && rate < 0.01, "{rate}");
    let head = ask(server.address, "HEAD", "/haw/https://www.a.hr/", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let known = [("If-None-Match", etag)];
    let again = ask(server.address, "GET", "/haw/https://www.a.hr/", &known);
    assert_eq!((again.status, again.body.len()), (304, 0));
    // The query belongs to the URI.
    assert_eq!(server.get("/haw/http://b.hr/?q").status, 200);
    assert_eq!(server.get("/haw/http://b.hr/").status, 404);
    assert_eq!(server.get("/bl/http://any.co.uk/page").status, 200);
    assert_eq!(server.get("/nobody/http://a.hr/").status, 404);
    assert_eq!(server.get("/haw/http://a.hr:99999/").status, 400);
    let refused = server.post("/haw/add", "\"http://x.hr/\"\n");
    assert_eq!(refused.status, 403);
    assert_eq!(
        ask(server.address, "DELETE", "/haw/http://a.hr/", &[]).status,
        405
    );
    assert_eq!(
        ask(server.address, "GET", "/lookup", &[]).header("allow"),
        Some("POST")
    );
    let all = server.get("/");
    assert_eq!(all.text().matches("\"id\"").count(), 3);
    let metrics = ask(server.metrics, "GET", "/metrics", &[]);
    assert!(
        metrics.text().contains("waypost_filters_lookups_total"),
        "{}",
        metrics.text()
    );
    let log = String::from_utf8(server.log.lock().unwrap().clone()).unwrap();
    assert!(
        log.contains("\"GET /haw/http://b.hr/?q HTTP/1.1\" 200"),
        "{log}"
    );
}

#[test]
fn the_aggregate_and_batches_name_the_archives() {
    let folder = folder();
    let server = Running::start(folder.path(), HoldingsOptions::default());
    let both = server.get("/bloom/agg/http://b.hr/?q");
    assert_eq!(both.status, 200);
    let both: serde_json::Value = serde_json::from_str(both.text()).unwrap();
    assert_eq!(both["archives"][0]["id"], "haw");
    assert_eq!(both["archives"][1]["id"], "ia");
    assert_eq!(both["archives"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/bloom/agg/http://nowhere.example/").status, 404);
    let batch = "\"http://b.hr/?q\"\n{\"uri\": \"http://c.com/\"}\n\nnonsense\n\
                 \"http://c.com:99999/\"\n\"http:\\/\\/www.any.co.uk\\/\"\n\"http://d.com/\"";
    let answer = server.post("/lookup", batch);
    let lines = json_lines(answer.text());
    let of = |ids: &[&str]| serde_json::json!(ids);
    assert_eq!(lines[0]["archives"], of(&["haw", "ia"]));
    assert_eq!(lines[1]["archives"], of(&["ia"]));
    assert_eq!(lines[2]["line"], 4);
    assert_eq!(lines[3]["uri"], "http://c.com:99999/");
    assert!(lines[3]["error"].is_string());
    assert_eq!(lines[4]["archives"], of(&["bl"]));
    assert_eq!(lines[5]["archives"], of(&[]));
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_large_batch_is_answered_in_order_and_a_larger_one_refused() {
    let folder = folder();
    let limits = ServiceOptions {
        most_bytes: 4 << 20,
        ..ServiceOptions::default()
    };
    let server = Running::with(folder.path(), HoldingsOptions::default(), limits);
    let uri = |n: usize| match n % 3 {
        0 => format!("http://c.com/#{n}"),
        _ => format!("http://other.example/{n}"),
    };
    let batch: String = (0..60_000).map(|n| format!("\"{}\"\n", uri(n))).collect();
    let answer = server.post("/lookup", &batch);
    assert!(answer.complete);
    let lines = json_lines(answer.text());
    assert_eq!(lines.len(), 60_000);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(line["uri"], uri(n).as_str());
        let held = line["archives"]
            .as_array()
            .unwrap()
            .iter()
            .any(|id| id == "ia");
        assert!(held || n % 3 != 0);
    }
    let long = batch.repeat(3);
    assert_eq!(server.post("/lookup", &long).status, 413);
}

#[test]
fn files_that_change_are_reopened_and_damage_is_not() {
    let folder = folder();
    let server = Running::start(folder.path(), HoldingsOptions::default());
    assert_eq!(server.get("/ia/http://new.com/").status, 404);
    let etag = server
        .get("/ia/http://c.com/")
        .header("etag")
        .unwrap()
        .to_owned();
    let urls = ["http://c.com/", "http://new.com/"];
    write_filter(
        &folder.path().join("ia.filter"),
        &urls,
        Kind::Ribbon,
        Hasher::Public,
    );
    write_filter(
        &folder.path().join("new.filter"),
        &urls,
        Kind::Ribbon,
        Hasher::Public,
    );
    server.server.refresh(false);
    assert_eq!(server.get("/ia/http://new.com/").status, 200);
    assert_eq!(server.get("/new/http://new.com/").status, 200);
    assert_ne!(
        server.get("/ia/http://c.com/").header("etag"),
        Some(&etag[..])
    );
    let bytes = fs::read(folder.path().join("ia.filter")).unwrap();
    let cut = folder.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    // Not so recently that the server itself would wait.
    let earlier = SystemTime::now() - Duration::from_secs(60);
    File::open(&cut).unwrap().set_modified(earlier).unwrap();
    fs::rename(&cut, folder.path().join("ia.filter")).unwrap();
    // The server looks at its files, too, and may have been first.
    let problems = || {
        let mut said = server.said.lock().unwrap();
        said.extend(server.server.refresh(false));
        said.iter()
            .filter(|said| said.contains("still using"))
            .count()
    };
    let started = Instant::now();
    while problems() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(problems(), 1, "a problem is reported once");
    let metrics = ask(server.metrics, "GET", "/metrics", &[]);
    assert!(metrics.text().contains("waypost_filters_unreadable 1\n"));
    assert_eq!(server.get("/ia/http://new.com/").status, 200);
}

#[test]
fn ids_that_the_server_uses_are_refused() {
    let folder = folder();
    for name in ["bloom.filter", "Lookup.filter", "a b.filter"] {
        let path = folder.path().join(name);
        fs::copy(folder.path().join("ia.filter"), &path).unwrap();
        let error = Holdings::open(Some(folder.path()), HoldingsOptions::default())
            .err()
            .unwrap();
        assert!(error.to_string().contains(name), "{error}");
        fs::remove_file(path).unwrap();
    }
    let options = HoldingsOptions {
        live: Some(LiveOptions::default()),
        create: vec!["metrics".to_owned()],
        ..HoldingsOptions::default()
    };
    assert!(Holdings::open(Some(folder.path()), options).is_err());
    let empty = tempfile::tempdir().unwrap();
    assert!(Holdings::open(Some(empty.path()), HoldingsOptions::default()).is_err());
}

#[test]
fn keyed_filters_are_looked_up_with_their_secret() {
    let folder = tempfile::tempdir().unwrap();
    let secret = Secret::parse("000102030405060708090a0b0c0d0e0f").unwrap();
    let path = folder.path().join("dark.filter");
    write_filter(
        &path,
        &["http://a.hr/"],
        Kind::Ribbon,
        Hasher::Keyed(secret),
    );
    assert!(Holdings::open(Some(folder.path()), HoldingsOptions::default()).is_err());
    let options = HoldingsOptions {
        secret: Some(secret),
        ..HoldingsOptions::default()
    };
    let server = Running::start(folder.path(), options);
    assert_eq!(server.get("/dark/http://a.hr/").status, 200);
    assert_eq!(server.get("/dark/http://b.hr/").status, 404);
}

fn writable(ids: &[&str]) -> HoldingsOptions {
    HoldingsOptions {
        live: Some(LiveOptions {
            capacity: 50,
            ..LiveOptions::default()
        }),
        create: ids.iter().map(|&id| id.to_owned()).collect(),
        ..HoldingsOptions::default()
    }
}

#[test]
fn what_crawlers_add_is_seen_by_all_and_kept() {
    let folder = folder();
    let server = Running::start(folder.path(), writable(&["crawl"]));
    assert_eq!(server.get("/crawl/http://x.hr/").status, 404);
    let batch = "\"http://x.hr/\"\n{\"uri\":\"https://www.x.hr\"}\nbad\n\"http://y.hr:99999/\"\n";
    let lines = json_lines(server.post("/crawl/add", batch).text());
    assert_eq!(lines[0]["new"], true);
    assert_eq!(lines[1]["new"], false);
    assert_eq!(lines[2]["line"], 3);
    assert!(lines[3]["error"].is_string());
    assert_eq!(server.get("/crawl/https://x.hr/").status, 200);
    let again = json_lines(server.post("/crawl/add", "\"http://x.hr/\"").text());
    assert_eq!(again[0]["new"], false);
    // Held by a file of the archive.
    let held = json_lines(server.post("/ia/add", "\"http://c.com/\"").text());
    assert_eq!(held[0]["new"], false);
    assert_eq!(server.post("/nobody/add", "\"http://x.hr/\"").status, 404);
    assert!(!folder.path().join("nobody").exists());
    // Nobody else may write.
    assert!(Holdings::open(Some(folder.path()), writable(&[])).is_err());
    // Many batches at once, more than a filter is made for.
    let add = |n: usize| {
        let batch: String = (0..20)
            .map(|m| format!("\"http://z.hr/{n}/{m}\"\n"))
            .collect();
        assert_eq!(server.post("/crawl/add", &batch).status, 200);
    };
    std::thread::scope(|scope| {
        let add = &add;
        let all: Vec<_> = (0..8).map(|n| scope.spawn(move || add(n))).collect();
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
    server.stop();
    // Also served by a server that is not writable.
    for options in [writable(&[]), HoldingsOptions::default()] {
        let server = Running::start(folder.path(), options);
        for n in 0..8 {
            for m in 0..20 {
                assert_eq!(
                    server.get(&format!("/crawl/http://z.hr/{n}/{m}")).status,
                    200
                );
            }
        }
        assert_eq!(server.get("/ia/http://c.com/").status, 200);
        server.stop();
    }
}

/// The files of added URIs in a folder, and that none has more than it is made for.
fn live_files(folder: &Path) -> Vec<Filter> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|suffix| suffix == "filter") {
            let filter = Filter::open(&path).unwrap();
            assert!(filter.head().count <= filter.head().capacity, "{path:?}");
            files.push(filter);
        }
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_rate_holds_whatever_the_room_and_the_batches(
        capacity in 1u64..500,
        sizes in proptest::collection::vec(1u64..6000, 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
        let hash = |number: u64| Hasher::Public.hash(format!("hr,a)/{number}").as_bytes());
        let options = LiveOptions { capacity, rate: 0.01, most_log: 1 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let live = LiveArchive::open(folder.path(), &keyer, Some(&options)).unwrap();
        let mut added = 0;
        for size in sizes {
            let hashes: Vec<_> = (added..added + size).map(hash).collect();
            let new = runtime.block_on(live.add(hashes.clone())).unwrap();
            let new = new.iter().filter(|new| **new).count() as f64;
            // Each filter may take one in a hundred for held.
            let layers = live_files(folder.path()).len() as f64;
            let least = size as f64 * (1.0 - 0.012 * layers) - 12.0;
            prop_assert!(new >= least, "{new} of {size} are new with {layers} filters");
            let again = runtime.block_on(live.add(hashes)).unwrap();
            prop_assert!(!again.iter().any(|new| *new));
            added += size;
        }
        // A kill, and then an end as by a signal.
        for folder in [copied(folder.path()), { live.close().unwrap(); folder }] {
            let live = LiveArchive::open(folder.path(), &keyer, Some(&options)).unwrap();
            prop_assert!((0..added).all(|number| live.contains(hash(number))));
            let layers = live_files(folder.path()).len() as f64;
            let tries = 20_000;
            let wrong = (0..tries).filter(|number| live.contains(hash(1 << 40 | *number))).count();
            let rate = wrong as f64 / tries as f64;
            prop_assert!(rate <= 0.012 * layers + 0.002, "{rate} with {layers} filters");
            prop_assert!(live.rate() <= 0.011 * layers, "{}", live.rate());
            live.close().unwrap();
        }
    }
}

/// What happens to a live archive.
#[derive(Clone, Debug)]
enum Event {
    Add(Vec<u16>),
    /// Ends as by a signal.
    Close,
    /// Copies the files as they are, and goes on with the copy: what a kill leaves.
    Kill,
    /// The same in the middle of a write to the log.
    KillTorn(Vec<u8>),
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let numbers = proptest::collection::vec(0u16..2000, 1..80);
    let event = prop_oneof![
        6 => numbers.prop_map(Event::Add),
        1 => Just(Event::Close),
        2 => Just(Event::Kill),
        1 => proptest::collection::vec(any::<u8>(), 1..60).prop_map(Event::KillTorn),
    ];
    // Each start may have other options.
    proptest::collection::vec((event, 10u64..200), 1..25)
}

/// The log first: it is cleared once the filter has what is in it, which may happen while files are
/// copied. The old filter with the cleared log is nothing that a kill could leave.
fn copied(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    let log = "live.wal";
    fs::copy(from.join(log), to.path().join(log)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        // Temporary names come and go.
        if name == log {
            continue;
        }
        match fs::copy(from.join(&name), to.path().join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
    to
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn what_was_acknowledged_is_found_after_any_adds_restarts_and_kills(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
        let mut hash = |number: u16| keyer.hash(format!("http://a.hr/{number}").as_bytes()).unwrap();
        let usual = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
        // A high rate, so that some are only found because of others.
        let options = |capacity| LiveOptions { capacity, rate: 0.2, most_log: 2000 };
        let mut folder = tempfile::tempdir().unwrap();
        let mut live = LiveArchive::open(folder.path(), &usual, Some(&options(50))).unwrap();
        let mut acknowledged = BTreeSet::new();
        for (event, capacity) in events {
            match event {
                Event::Add(numbers) => {
                    let hashes = numbers.iter().map(|&number| hash(number)).collect();
                    runtime.block_on(live.add(hashes)).unwrap();
                    acknowledged.extend(numbers);
                    continue;
                }
                Event::Close => live.close().unwrap(),
                Event::Kill | Event::KillTorn(_) => {
                    let copy = copied(folder.path());
                    live.close().unwrap();
                    folder = copy;
                    if let Event::KillTorn(garbage) = event {
                        let log = folder.path().join("live.wal");
                        let mut file = fs::File::options().append(true).open(log).unwrap();
                        file.write_all(&garbage).unwrap();
                    }
                }
            }
            let closed = runtime.block_on(live.add(vec![1]));
            prop_assert!(closed.is_err());
            live = LiveArchive::open(folder.path(), &usual, Some(&options(capacity))).unwrap();
            for &number in &acknowledged {
                prop_assert!(live.contains(hash(number)), "{} is lost", number);
            }
            let reader = LiveArchive::open(folder.path(), &usual, None).unwrap();
            for &number in &acknowledged {
                prop_assert!(reader.contains(hash(number)), "{} is lost for readers", number);
            }
        }
        live.close().unwrap();
    }
}
