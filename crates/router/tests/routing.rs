//! Routing by a server with fake archives behind it: who is asked, why, and what is published.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fakes::{Answer, Fake};
use running::{Running, ask};
use serde_json::Value;
use waypost_router::serve::Options;
use waypost_router::{Archive, RoutingConfig, ServerConfig};

/// An archive that holds every URI of this host.
fn holder(host: &'static str) -> Fake {
    Fake::start(move |request| match request.original().contains(host) {
        true => Answer::timemap(request.original(), request, &["2010", "2012"]),
        false => Answer::new(404, ""),
    })
}

fn map(host: &str) -> String {
    format!(
        "!fields {{\"keys\": [\"surt\"], \"values\": [\"frequency\"]}}\n!meta {{\"type\": \"MementoMap\"}}\nexample,{host})/* 20/10\n"
    )
}

fn with_map(archive: Archive, folder: &Path, host: &str) -> Archive {
    let path = folder.join(format!("{}.ukvs", archive.id));
    fs::write(&path, map(host)).unwrap();
    Archive {
        summaries: vec![path],
        ..archive
    }
}

/// Reads the summaries of all archives.
fn refresh(server: &Running, config: RoutingConfig) {
    let router = server.server.aggregator().router();
    router.decider().update(&config);
    router.decider().refresh(router.registry(), false);
}

fn count(server: &Running, uri: &str) -> usize {
    let reply = ask(server.address, "GET", &format!("/timemap/json/{uri}"), &[]);
    reply.header("x-memento-count").unwrap().parse().unwrap()
}

#[test]
fn only_archives_that_can_answer_are_asked_and_the_server_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b, c) = (
        holder("a.example"),
        holder("b.example"),
        holder("c.example"),
    );
    let server = Running::start(vec![
        with_map(a.entry("a"), folder.path(), "a"),
        with_map(b.entry("b"), folder.path(), "b"),
        c.entry("c"),
    ]);
    refresh(&server, RoutingConfig::default());
    assert_eq!(count(&server, "http://a.example/x"), 2);
    let asked = || [&a, &b, &c].map(|fake| fake.requests().len());
    assert_eq!(asked(), [1, 0, 1], "the third may have anything");
    assert_eq!(count(&server, "http://d.example/"), 0);
    assert_eq!(asked(), [1, 0, 2]);
    let why = ask(server.address, "GET", "/explain/http://a.example/x", &[]);
    let why: Value = serde_json::from_str(why.text()).unwrap();
    let of = |id: &str| {
        let archives = why["archives"].as_array().unwrap();
        archives
            .iter()
            .find(|archive| archive["id"] == id)
            .unwrap()
            .clone()
    };
    assert_eq!(of("a")["decision"], "present");
    assert_eq!(of("a")["key"], "example,a)/*");
    assert_eq!(of("a")["last"]["mementos"], 2);
    assert_eq!(of("b")["decision"], "absent");
    assert_eq!(of("b")["asked"], false);
    assert_eq!(of("b")["last"], Value::Null);
    assert_eq!(of("c")["decision"], "unknown");
    let html = [("Accept", "text/html,*/*;q=0.8")];
    let page = ask(server.address, "GET", "/explain/http://a.example/x", &html);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(page.text().contains("example,a)/*"));
    let json = ask(
        server.address,
        "GET",
        "/explain/json/http://a.example/x",
        &html,
    );
    assert_eq!(json.header("content-type"), Some("application/json"));
}

#[test]
fn an_archive_that_starts_lying_is_found_out_by_probes() {
    let folder = tempfile::tempdir().unwrap();
    let liar = Fake::holding(&["2010"]);
    let server = Running::start(vec![with_map(liar.entry("liar"), folder.path(), "a")]);
    let config = RoutingConfig {
        probe: 1.0,
        ..RoutingConfig::default()
    };
    refresh(&server, config);
    for number in 0..10 {
        // Its map says that it has nothing of this host; it has.
        assert_eq!(count(&server, &format!("http://b.example/{number}")), 1);
        assert_eq!(count(&server, &format!("http://a.example/{number}")), 1);
    }
    let metrics = ask(server.operators, "GET", "/metrics", &[]);
    let value = |name: &str| -> f64 {
        let line = metrics.text().lines().find(|line| line.starts_with(name));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("waypost_routing_pairs{kind=\"probes\"}"), 10.0);
    assert_eq!(value("waypost_routing_pairs{kind=\"missed\"}"), 10.0);
    let recall = value("waypost_routing_recall{bound=\"estimate\"}");
    assert!((recall - 0.5).abs() < 1e-6, "{recall}");
    assert!(value("waypost_routing_recall{bound=\"low\"}") <= recall);
    assert!(value("waypost_routing_recall{bound=\"high\"}") >= recall);
}

#[test]
fn the_best_archives_are_asked_first_and_the_others_if_they_have_nothing() {
    let (a, b) = (holder("a.example"), holder("b.example"));
    let server = Running::start(vec![
        Archive {
            priority: 1,
            ..a.entry("a")
        },
        b.entry("b"),
    ]);
    let config = RoutingConfig {
        top: Some(1),
        ..RoutingConfig::default()
    };
    refresh(&server, config);
    assert_eq!(count(&server, "http://a.example/"), 2);
    assert_eq!((a.requests().len(), b.requests().len()), (1, 0));
    assert_eq!(count(&server, "http://b.example/"), 2);
    assert_eq!((a.requests().len(), b.requests().len()), (2, 1));
}

#[test]
fn our_own_map_is_served_and_every_answer_links_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs");
    fs::write(&path, map("a")).unwrap();
    let archive = holder("a.example");
    let options = Options {
        config: ServerConfig {
            mementomap: Some(path),
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let with_source = Archive {
        sources: vec!["http://other.example/map.ukvs".to_owned()],
        ..archive.entry("a")
    };
    let server = Running::with(vec![with_source], options);
    let link = format!(
        "<http://{}/.well-known/mementomap>; rel=\"mementomap\"",
        server.address
    );
    for path in [
        "/about",
        "/timemap/link/http://a.example/",
        "/nothing",
        "/timemap/x",
    ] {
        let reply = ask(server.address, "GET", path, &[]);
        let links = reply.headers.iter().filter(|(name, _)| name == "link");
        assert!(
            links.clone().any(|(_, value)| *value == link),
            "{path}: {reply:?}"
        );
    }
    let whole = ask(server.address, "GET", "/.well-known/mementomap", &[]);
    assert_eq!((whole.status, whole.text()), (200, &map("a")[..]));
    let links: Vec<&(String, String)> = whole
        .headers
        .iter()
        .filter(|(name, _)| name == "link")
        .collect();
    assert!(
        links
            .iter()
            .any(|(_, value)| value.contains("http://other.example/map.ukvs")
                && value.contains(&format!("anchor=\"{}/\"", archive.base()))),
        "{links:?}"
    );
    let part = [("Range", "bytes=1-6")];
    let part = ask(server.address, "GET", "/.well-known/mementomap", &part);
    assert_eq!((part.status, part.text()), (206, "fields"));
    let known = [("If-None-Match", whole.header("etag").unwrap())];
    let known = ask(server.address, "GET", "/.well-known/mementomap", &known);
    assert_eq!(known.status, 304);
    let packed = ask(server.address, "HEAD", "/.well-known/mementomap.gz", &[]);
    assert_eq!(packed.header("content-type"), Some("application/gzip"));
}

#[test]
fn published_summaries_are_found_and_the_last_good_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let page = "<html><head><link rel=\"mementomap\" href=\"/static/a.ukvs\"></head></html>";
    let published = Arc::new(Mutex::new(Answer::new(200, map("a"))));
    let content = Arc::clone(&published);
    let archive = Fake::start(move |request| match &request.path[..] {
        "/" => Answer::new(200, page).with("Content-Type", "text/html"),
        "/static/a.ukvs" => content.lock().unwrap().clone(),
        _ => Answer::timemap(request.original(), request, &["2010"]),
    });
    let with_source = Archive {
        sources: vec![format!("{}/", archive.base())],
        ..archive.entry("a")
    };
    let server = Running::start(vec![with_source]);
    let config = RoutingConfig {
        downloads: Some(folder.path().to_owned()),
        refresh: Duration::from_secs(3600),
        ..RoutingConfig::default()
    };
    let router = server.server.aggregator().router();
    let update = || {
        router.decider().download(router.registry());
        refresh(&server, config.clone());
    };
    refresh(&server, config.clone());
    assert_eq!(
        count(&server, "http://b.example/0"),
        1,
        "nothing is known yet"
    );
    update();
    assert_eq!(count(&server, "http://a.example/1"), 1);
    assert_eq!(count(&server, "http://b.example/1"), 0, "the map says so");
    for garbage in [
        Answer::new(500, "sorry"),
        Answer::new(200, "garbage\u{0}"),
        Answer::new(200, "<html></html>").with("Content-Type", "text/html"),
        Answer::new(200, map("c")).claiming(Some(5000)),
        Answer::new(404, ""),
    ] {
        *published.lock().unwrap() = garbage.clone();
        update();
        assert_eq!(count(&server, "http://b.example/2"), 0, "{garbage:?}");
        assert_eq!(count(&server, "http://a.example/2"), 1, "{garbage:?}");
    }
    *published.lock().unwrap() = Answer::new(200, map("b") + "example,c)/ 1/1\n");
    update();
    assert_eq!(count(&server, "http://b.example/3"), 1);
    assert_eq!(count(&server, "http://a.example/3"), 0);
}
