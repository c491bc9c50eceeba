//! The lookup service that the server embeds: what summaries say, without asking archives.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::fs;
use std::path::Path;

use fakes::Fake;
use proptest::prelude::*;
use running::http::ask_with_body;
use running::{Reply, Running, ask};
use serde_json::Value;
use waypost_io::Source;
use waypost_router::serve::Options;
use waypost_router::{Archive, RoutingConfig, ServerConfig};
use waypost_summary::filter::{self, Recipe};

fn with_filter(archive: Archive, folder: &Path, uris: &[&str]) -> Archive {
    let (list, path) = (
        folder.join("uris"),
        folder.join(format!("{}.filter", archive.id)),
    );
    fs::write(&list, uris.join("\n")).unwrap();
    let sources = [Source::new(&list)];
    filter::build(filter::Input::new(&sources), &Recipe::default(), &path).unwrap();
    Archive {
        summaries: vec![path],
        ..archive
    }
}

fn refresh(server: &Running) {
    let router = server.server.aggregator().router();
    router.decider().refresh(router.registry(), false);
}

fn post(server: &Running, body: &str) -> Reply {
    let body = Some(body.as_bytes());
    ask_with_body(server.address, "POST", "/filters/lookup", &[], body)
}

#[test]
fn lookups_are_answered_from_summaries_and_nobody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::holding(&["2010"]);
    let server = Running::start(vec![
        with_filter(
            fake.entry("a"),
            folder.path(),
            &["http://a.example/x?y=1", "http://both.example/"],
        ),
        with_filter(fake.entry("b"), folder.path(), &["http://both.example/"]),
        fake.entry("unknown"),
    ]);
    refresh(&server);
    let found = server.get("/filters/a/http://www.a.example:80/X?y=1");
    assert_eq!(found.status, 200, "{found:?}");
    let body: Value = serde_json::from_str(found.text()).unwrap();
    assert_eq!(body["answer"], "present");
    assert_eq!(body["uri"], "http://www.a.example:80/X?y=1");
    let rate: f64 = found
        .header("x-false-positive-rate")
        .unwrap()
        .parse()
        .unwrap();
    assert!(rate > 0.0 && rate < 0.1, "{rate}");
    assert!(found.header("last-modified").is_some());
    let etag = found.header("etag").unwrap();
    let again = [("If-None-Match", etag)];
    let path = "/filters/a/http://both.example/";
    assert_eq!(ask(server.address, "GET", path, &again).status, 304);
    assert_eq!(ask(server.address, "HEAD", path, &[]).status, 200);
    assert_eq!(server.get("/filters/b/http://a.example/x?y=1").status, 404);
    // Archives without summaries are not served: nothing is known about them.
    let unknown = server.get("/filters/unknown/http://a.example/");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("unknown archive"), "{unknown:?}");
    let holders = server.get("/filters/bloom/agg/http://both.example/");
    let holders: Value = serde_json::from_str(holders.text()).unwrap();
    let ids: Vec<&Value> = holders["archives"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&ids[0]["id"], &ids[1]["id"], ids.len()),
        (&"a".into(), &"b".into(), 2)
    );
    let link = ids[0]["lookup"].as_str().unwrap();
    assert_eq!(
        link,
        format!("{}/filters/a/http://both.example/", server.base())
    );
    let list: Value = serde_json::from_str(server.get("/filters/").text()).unwrap();
    assert_eq!(list["archives"][0]["keys"], 2);
    let batch = post(
        &server,
        "\"http://both.example/\"\n{\"uri\":\"http://no.example/\"}\nx\n",
    );
    assert_eq!(batch.status, 200);
    let lines: Vec<&str> = batch.text().lines().collect();
    assert_eq!(
        lines[0],
        r#"{"uri":"http://both.example/","archives":["a","b"]}"#
    );
    assert_eq!(lines[1], r#"{"uri":"http://no.example/","archives":[]}"#);
    assert!(lines[2].starts_with(r#"{"line":3,"error":"#), "{lines:?}");
    assert!(fake.requests().is_empty());
    let metrics = ask(server.operators, "GET", "/metrics", &[]);
    let metrics = metrics.text();
    assert!(metrics.contains("waypost_filters_requests_total{kind=\"batch\",status=\"200\"} 1"));
    assert_eq!(metrics.matches("# EOF").count(), 1);
}

#[test]
fn a_summary_that_changes_changes_the_answer_and_a_damaged_one_rules_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::holding(&["2010"]);
    let entry = with_filter(fake.entry("a"), folder.path(), &["http://a.example/"]);
    let path = entry.summaries[0].clone();
    let server = Running::start(vec![entry]);
    refresh(&server);
    let ask = || server.get("/filters/a/http://new.example/");
    let first = ask();
    assert_eq!(first.status, 404);
    fs::remove_file(&path).unwrap();
    with_filter(fake.entry("a"), folder.path(), &["http://new.example/"]);
    refresh(&server);
    let second = ask();
    assert_eq!(second.status, 200);
    assert_ne!(first.header("etag"), second.header("etag"));
    fs::write(&path, "damaged").unwrap();
    refresh(&server);
    let third = server.get("/filters/a/http://other.example/");
    assert_eq!(third.status, 200, "{third:?}");
    assert_eq!(third.header("x-false-positive-rate"), None);
}

#[test]
fn batches_are_limited_and_the_service_can_be_switched_off() {
    let fake = Fake::holding(&["2010"]);
    let with = |config: ServerConfig| {
        let options = Options {
            config,
            ..Options::default()
        };
        Running::with(vec![fake.entry("a")], options)
    };
    let small = with(ServerConfig {
        max_batch: 100,
        ..ServerConfig::default()
    });
    assert_eq!(post(&small, "\"http://a.example/\"\n").status, 200);
    let large = "\"http://a.example/\"\n".repeat(10);
    assert_eq!(post(&small, &large).status, 413);
    assert_eq!(small.get("/filters/lookup").status, 405);
    let add = ask_with_body(
        small.address,
        "POST",
        "/filters/a/add",
        &[],
        Some(b"\"http://a/\""),
    );
    assert_eq!(add.status, 404, "{add:?}");
    let preflight = ask(small.address, "OPTIONS", "/filters/lookup", &[]);
    assert_eq!(preflight.status, 204);
    let methods = preflight.header("access-control-allow-methods");
    assert!(methods.unwrap().contains("POST"));
    let off = with(ServerConfig {
        filters: false,
        ..ServerConfig::default()
    });
    assert_eq!(off.get("/filters/").status, 404);
    assert_eq!(post(&off, "\"http://a.example/\"\n").status, 405);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// What the service calls absent is not asked for, and the other way round.
    #[test]
    fn the_service_and_the_router_agree_and_what_is_held_is_never_absent(
        held in proptest::collection::btree_set("[a-d]{1,3}", 1..20),
        asked in proptest::collection::vec("[a-e]{1,3}", 1..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::holding(&["2010"]);
        let held: Vec<String> = held.iter().map(|name| format!("http://{name}.example/")).collect();
        let uris: Vec<&str> = held.iter().map(String::as_str).collect();
        let server = Running::start(vec![with_filter(fake.entry("a"), folder.path(), &uris)]);
        refresh(&server);
        let router = server.server.aggregator().router();
        router.decider().update(&RoutingConfig::default());
        let asked: Vec<String> = asked.iter().map(|name| format!("http://{name}.example/")).collect();
        let lookups = held.iter().chain(&asked);
        let body: String = lookups.clone().map(|uri| format!("\"{uri}\"\n")).collect();
        let batch = post(&server, &body);
        for (uri, line) in lookups.zip(batch.text().lines()) {
            let line: Value = serde_json::from_str(line).unwrap();
            let maybe = !line["archives"].as_array().unwrap().is_empty();
            prop_assert!(maybe || !held.contains(uri), "{}", uri);
            let lookup = waypost_router::Lookup::new(uri.as_str(), waypost_router::Wanted::All);
            prop_assert_eq!(router.decide(&lookup).asked().count() > 0, maybe, "{}", uri);
        }
    }
}
