//! Routing from end to end: three real pywb archives with different WARC files, whose maps and filters
//! decide which of them are asked. Their own access logs are the proof. Runs where `WAYPOST_PYTHON`
//! names a Python that has the packages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use peers::Peer;
use serde_json::Value;

#[path = "../../../tests/http.rs"]
mod http;
#[path = "../../../tests/oracles.rs"]
mod oracles;
#[path = "../../../tests/peers.rs"]
mod peers;

use http::ask;

fn waypost(folder: &Path, words: &[&str]) -> String {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .arg("--quiet")
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() < Some(2), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A WARC file with a capture of each URI.
fn write_warc(path: &Path, archive: &str, uris: &[String]) {
    let mut file = fs::File::create(path).unwrap();
    for (number, uri) in uris.iter().enumerate() {
        let body = format!("<html><body>{archive} {number}</body></html>");
        let http = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2015-0{}-01T00:00:00Z\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
            1 + number % 9,
            http.len()
        );
        let mut member = GzEncoder::new(&mut file, Compression::default());
        member.write_all(record.as_bytes()).unwrap();
        member.finish().unwrap();
    }
}

/// A server of our own, which is stopped when it is dropped.
struct Served {
    process: Child,
    address: SocketAddr,
}

impl Served {
    fn start(folder: &Path, config: &str) -> Served {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args(["serve", "--config", config, "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = said.by_ref().map(Result::unwrap).find_map(|line| {
            let address = line.strip_prefix("listening on http://")?;
            Some(address.trim_end_matches('/').parse().unwrap())
        });
        // Whatever it says later must not fill the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Served {
            process,
            address: address.expect("the server listens"),
        }
    }

    /// The mementos of a URI, as `datetime uri`.
    fn mementos(&self, uri: &str) -> Vec<String> {
        let reply = ask(self.address, "GET", &format!("/timemap/json/{uri}"), &[]);
        if reply.status == 404 {
            return Vec::new();
        }
        assert_eq!(reply.status, 200, "{reply:?}");
        let json: Value = serde_json::from_str(reply.text()).unwrap();
        let list = json["mementos"]["list"].as_array().unwrap();
        list.iter()
            .map(|memento| format!("{} {}", memento["datetime"], memento["uri"]))
            .collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How often each URI was asked of an archive, according to its access log.
fn asked(log: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let Some((_, rest)) = line.split_once("/coll/timemap/link/") else {
            continue;
        };
        let uri = rest.split(' ').next().unwrap();
        *counts.entry(uri.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn only_holders_are_asked_and_nothing_is_missed() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let uris: Vec<String> = (0..90)
        .map(|n| format!("http://host{}.example/page{n}", n % 17))
        .collect();
    // Every URI is in one archive, in two, in all or in none.
    let held = |archive: usize, number: usize| match number % 5 {
        0..3 => number % 3 == archive || (number.is_multiple_of(7) && archive == 1),
        3 => number.is_multiple_of(2),
        _ => false,
    };
    fs::write(path.join("lookups.txt"), uris.join("\n") + "\n").unwrap();
    let (mut archives, mut predicted) = (Vec::new(), Vec::new());
    let (mut routed, mut broadcast) = (String::new(), String::new());
    for (archive, summary) in ["map", "filter", "coarse"].into_iter().enumerate() {
        let own: Vec<String> = (0..uris.len())
            .filter(|&number| held(archive, number))
            .map(|number| uris[number].clone())
            .collect();
        let place = path.join(summary);
        fs::create_dir(&place).unwrap();
        write_warc(&place.join("a.warc.gz"), summary, &own);
        waypost(&place, &["index", "warc", "a.warc.gz", "-o", "index.cdxj"]);
        let file = match summary {
            "map" => {
                waypost(&place, &["map", "build", "index.cdxj", "-o", "full.ukvs"]);
                waypost(
                    &place,
                    &[
                        "map",
                        "compact",
                        "full.ukvs",
                        "--keys",
                        "60%",
                        "-o",
                        "a.ukvs",
                    ],
                );
                "a.ukvs"
            }
            "filter" => {
                waypost(&place, &["filter", "build", "index.cdxj", "-o", "a.filter"]);
                "a.filter"
            }
            // Wrong in one of four cases, so that there is something to predict.
            _ => {
                waypost(
                    &place,
                    &[
                        "filter",
                        "build",
                        "index.cdxj",
                        "--bits",
                        "2",
                        "-o",
                        "a.filter",
                    ],
                );
                "a.filter"
            }
        };
        let evaluated = waypost(
            &place,
            &[
                "evaluate",
                file,
                "--holdings",
                "index.cdxj",
                "--lookups",
                "../lookups.txt",
                "--format",
                "json",
            ],
        );
        let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
        assert_eq!(evaluated[0]["false_negatives"], 0);
        predicted.push(evaluated[0]["false_positives"].as_u64().unwrap());
        let config =
            "collections:\n  coll:\n    index_paths: ./index.cdxj\n    archive_paths: ./\n";
        fs::write(place.join("config.yaml"), config).unwrap();
        if summary == "map" {
            // The recipe of docs/routing.md.
            fs::create_dir_all(place.join("static")).unwrap();
            fs::create_dir(place.join("templates")).unwrap();
            fs::copy(place.join("a.ukvs"), place.join("static/mementomap.ukvs")).unwrap();
            let link = "<link rel=\"mementomap\" href=\"/static/mementomap.ukvs\">\n";
            fs::write(place.join("templates/head.html"), link).unwrap();
        }
        let published = place.join("static/summaries");
        fs::create_dir_all(&published).unwrap();
        fs::copy(place.join(file), published.join(file)).unwrap();
        let peer = Peer::start(&python, "wayback", &place);
        let table = format!(
            "[[archive]]\nid = \"{summary}\"\ntimemap = \"http://{}/coll/timemap/link/\"\n",
            peer.address
        );
        broadcast += &table;
        fs::write(path.join("routed.toml"), routed + &table).unwrap();
        let url = format!("http://{}/static/summaries/", peer.address);
        waypost(&place, &["publish", "static/summaries", "--url", &url]);
        if summary == "map" {
            // The recipe has the same effect, without a sitemap.
            let home = format!("http://{}/", peer.address);
            let found = waypost(path, &["discover", &home, "-o", "recipe"]);
            assert!(found.contains("static/mementomap.ukvs"), "{found}");
        }
        let copies = format!("copies/{summary}");
        let words = ["discover", &url, "-o", &copies, "--config", "routed.toml"];
        let found = waypost(path, &[&words[..], &["--archive", summary]].concat());
        assert!(
            found.contains(&format!("static/summaries/{file}")),
            "{found}"
        );
        routed = fs::read_to_string(path.join("routed.toml")).unwrap();
        assert!(
            routed.contains(&format!("static/summaries/{file}\"]")),
            "{routed}"
        );
        archives.push(peer);
    }
    assert!(predicted[2] > 0, "something is predicted: {predicted:?}");
    fs::write(path.join("broadcast.toml"), &broadcast).unwrap();
    let server = Served::start(path, "routed.toml");
    let answers: Vec<Vec<String>> = uris.iter().map(|uri| server.mementos(uri)).collect();
    drop(server);
    let names = ["map", "filter", "coarse"];
    // Logs are written after answers.
    let log = |name: &str| path.join(name).join("wayback.log");
    let expected: Vec<u64> = (0..3)
        .map(|archive| {
            let held = (0..uris.len())
                .filter(|&number| held(archive, number))
                .count();
            held as u64 + predicted[archive]
        })
        .collect();
    let started = Instant::now();
    let requests = loop {
        let requests = names.map(|name| asked(&log(name)).values().sum::<u64>());
        if requests[..] == expected[..] || started.elapsed() > Duration::from_secs(60) {
            break requests;
        }
        sleep(Duration::from_millis(100));
    };
    assert_eq!(
        requests[..],
        expected[..],
        "holders, and the predicted false positives"
    );
    for (archive, name) in names.into_iter().enumerate() {
        let asked = asked(&log(name));
        for (number, uri) in uris.iter().enumerate() {
            if held(archive, number) {
                assert_eq!(asked.get(uri), Some(&1), "{name} holds {uri}");
            }
        }
    }
    let server = Served::start(path, "broadcast.toml");
    for (uri, routed) in uris.iter().zip(&answers) {
        assert_eq!(*routed, server.mementos(uri), "{uri}");
    }
    assert!(answers.iter().filter(|found| found.is_empty()).count() >= 18);
    assert!(answers.iter().any(|found| found.len() > 1));
}
