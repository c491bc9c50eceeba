//! The description of the HTTP API, compared with a server that runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use fakes::{Answer, Fake};
use running::Running;
use running::http::ask_with_body;
use serde_json::Value;
use waypost_router::Archive;

/// What the archive holds.
const MAP: &str = "!fields {\"keys\": [\"surt\"], \"values\": [\"frequency\"]}\n\
    !meta {\"type\": \"MementoMap\"}\nexample,held)/* 20/10\nexample,notfound)/* 2/1\n";

fn description() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_server_answers_as_it_is_described() {
    let archive = Fake::start(|request| match request.original() {
        uri if uri.contains("notfound") => Answer::new(404, ""),
        uri => {
            let links = fakes::timemap(uri, &request.base, &["20100203040506", "20151231"]);
            let header = String::from_utf8(links.clone()).unwrap().replace('\n', " ");
            Answer::links(links).with("Link", header.trim_end())
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let summary = folder.path().join("held.ukvs");
    std::fs::write(&summary, MAP).unwrap();
    let running = Running::start(vec![Archive {
        summaries: vec![summary],
        ..archive.entry("held")
    }]);
    let router = running.server.aggregator().router();
    router.decider().refresh(router.registry(), false);
    let mut examples = 0;
    let description = description();
    let operations = description["paths"].as_object().unwrap().iter();
    let operations = operations.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path, method.to_uppercase(), operation))
    });
    for (path, method, operation) in operations {
        for example in operation["x-examples"].as_array().unwrap() {
            let target = example["path"].as_str().unwrap();
            let headers: Vec<(&str, &str)> = example["headers"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (&name[..], value.as_str().unwrap()))
                .collect();
            let body = example["body"].as_str().map(str::as_bytes);
            let reply = ask_with_body(running.address, &method, target, &headers, body);
            let status = example["status"].as_u64().unwrap();
            assert_eq!(
                u64::from(reply.status),
                status,
                "{path}: {target} {reply:?}"
            );
            let described = &operation["responses"][status.to_string()]["content"];
            let media_type = reply.header("content-type").unwrap();
            let known = described.as_object().unwrap().contains_key(media_type);
            assert!(known, "{path}: {target} is {media_type}, not {described}");
            examples += 1;
        }
    }
    assert!(examples > 25);
}

#[test]
fn every_endpoint_is_described() {
    let route = concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve/route.rs");
    let source = std::fs::read_to_string(route).unwrap();
    let (_, arms) = source.split_once("match endpoint {").unwrap();
    let (arms, _) = arms.split_once("\n        }\n    }\n").unwrap();
    let description = description();
    let paths = description["paths"].as_object().unwrap();
    let mut endpoints = 0;
    for line in arms.lines() {
        // An arm of the outermost match: `            "timemap" => {`.
        let Some(names) = line.strip_prefix("            \"") else {
            continue;
        };
        let Some((names, _)) = names.split_once("\" =>") else {
            continue;
        };
        for name in names.split("\" | \"") {
            let start = format!("/{name}");
            let inner = format!("{start}/");
            let known = |path: &&String| **path == start || path.starts_with(&inner);
            assert!(
                paths.keys().any(|path| known(&path)),
                "{name} is not described"
            );
            endpoints += 1;
        }
    }
    assert!(endpoints >= 9, "{endpoints}");
}
