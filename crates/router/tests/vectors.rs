//! Recorded answers of MemGator: ours are the same, but for what docs/memgator.md lists. Runs where
//! `WAYPOST_SHARED` names the folder that holds them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::fs;

use fakes::{Answer, Fake, Request};
use running::{Reply, Running, ask};
use waypost_memento::{Datetime, Link};
use waypost_router::serve::{About, Options};
use waypost_router::{Archive, ServerConfig};

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// A recorded request and its answer.
struct Recorded {
    name: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    status: u16,
    answer: Vec<(String, String)>,
    body: String,
}

impl Recorded {
    /// Reads `$ curl -i -H Name: value URL`, the head and the body.
    fn read(name: &str, text: &str) -> Option<Recorded> {
        let text = text.replace("\r\n", "\n");
        let (command, text) = text.strip_prefix("$ curl -i ")?.split_once('\n')?;
        let (head, body) = text.split_once("\n\n")?;
        let (options, url) = command.rsplit_once(' ').unwrap_or(("", command));
        let path = url.splitn(4, '/').nth(3)?;
        let mut headers = Vec::new();
        for header in options.split("-H ").skip(1) {
            let (name, value) = header.split_once(": ").unwrap();
            let value = value.split(" -").next().unwrap().trim();
            headers.push((name.to_owned(), value.to_owned()));
        }
        let method = match options {
            _ if options.contains("-I") => "HEAD",
            _ if options.contains("-X POST") => "POST",
            _ if options.contains("-X OPTIONS") => "OPTIONS",
            _ => "GET",
        };
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let answer = lines.filter_map(|line| line.split_once(": "));
        Some(Recorded {
            name: name.to_owned(),
            method: method.to_owned(),
            path: format!("/{path}"),
            headers,
            status,
            answer: answer
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            // Each recording ends with a line break of its own.
            body: body.strip_suffix('\n').unwrap_or(body).to_owned(),
        })
    }

    fn ask(&self, server: &Running) -> Reply {
        let headers = self.headers.iter();
        let headers: Vec<(&str, &str)> = headers.map(|(n, v)| (&n[..], &v[..])).collect();
        ask(server.address, &self.method, &self.path, &headers)
    }
}

/// The archives that were asked then: TimeMaps and TimeGates that list all mementos.
fn archive(letter: char, timestamps: &'static [&'static str]) -> Fake {
    Fake::start(move |request| answer(letter, timestamps, request))
}

fn answer(letter: char, timestamps: &[&str], request: &Request) -> Answer {
    let path = &request.path;
    let uri = ["/timemap/link/", "/timegate/", "id_/"]
        .iter()
        .find_map(|before| Some(path.split_once(before)?.1))
        .unwrap_or_default();
    if uri.contains("notfound") {
        return Answer::new(404, "");
    }
    if let Some((stamp, _)) = path[1..].split_once("id_/") {
        return Answer::new(200, format!("BODY {letter} {stamp} id_ {uri}\n"))
            .with("Content-Type", "text/html")
            .with("Link", format!("<{uri}>; rel=\"original\""))
            .with("Memento-Datetime", "Fri, 15 Jun 2012 12:00:00 GMT")
            .with("X-Up", "yes");
    }
    let links = timestamps.iter().map(|stamp| {
        let datetime = Datetime::parse_timestamp(stamp).unwrap();
        Link::new(format!("{}/{}/{uri}", request.base, datetime.timestamp()))
            .with("rel", "memento")
            .with("datetime", datetime.http())
            .to_string()
    });
    let links = links.collect::<Vec<_>>().join(", ");
    match path.starts_with("/timegate/") {
        false => Answer::links(links),
        true => Answer::new(302, "")
            .with(
                "Location",
                format!("{}/{}/{uri}", request.base, timestamps[0]),
            )
            .with("Link", links),
    }
}

struct World {
    server: Running,
    /// What the recordings say for the addresses of the fake archives.
    addresses: Vec<(String, String)>,
    _fakes: Vec<Fake>,
}

impl World {
    fn start(config: ServerConfig) -> World {
        let a = archive(
            'a',
            &[
                "20100101",
                "20120615120000",
                "20150704080910",
                "20200229235959",
            ],
        );
        let b = archive('b', &["20110301", "20120615120000", "20181231"]);
        let not_found = Fake::start(|_| Answer::new(404, ""));
        let broken = Fake::start(|_| Answer::new(500, ""));
        let dead = Archive {
            timemap: Some("http://127.0.0.1:9/timemap/".to_owned()),
            timegate: Some("http://127.0.0.1:9/timegate/".to_owned()),
            ..Archive::new("dead.example")
        };
        let named = |archive: Archive, name: &str| Archive {
            name: Some(name.to_owned()),
            ..archive
        };
        let archives = vec![
            named(a.entry("a.example"), "Archive A"),
            named(b.entry("b.example"), "Archive B"),
            named(not_found.entry("nf.example"), "Archive NotFound"),
            named(dead, "Archive Dead"),
            named(broken.entry("err.example"), "Archive 500"),
        ];
        let rows = |rows: &[(&str, &str)]| {
            let rows = rows.iter();
            rows.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let about = About(vec![
            rows(&[
                ("Archives list location", "archives.json"),
                ("User-agent", "MemGator/1.0-rc9 <ops@example.org>"),
            ]),
            rows(&[
                ("Host", "localhost"),
                ("Port", "1208"),
                ("Service path prefix", "/"),
                ("Base URL (Proxy)", "http://localhost:1208/"),
            ]),
            rows(&[
                ("Connection timeout", "5s"),
                ("Header timeout", "30s"),
                ("Response timeout", "1m0s"),
            ]),
            rows(&[("Failure tolerance", "3"), ("Dormant period", "3s")]),
            rows(&[
                ("Logfile location", "memgator_samples/server.log"),
                ("Benchmark location", "memgator_samples/benchmark.log"),
                ("Monitor (Over SSE)", "http://localhost:1208/monitor"),
            ]),
        ]);
        let addresses = vec![
            (
                "http://127.0.0.1:9101/a/".to_owned(),
                format!("{}/", a.base()),
            ),
            (
                "http://127.0.0.1:9101/b/".to_owned(),
                format!("{}/", b.base()),
            ),
        ];
        let options = Options {
            config,
            // A switch, and off in `waypost memgator`.
            span: false,
            page: false,
            about,
            ..Options::default()
        };
        World {
            server: Running::with(archives, options),
            addresses,
            _fakes: vec![a, b, not_found, broken],
        }
    }

    /// A recorded text with the addresses of the fake archives.
    fn translated(&self, text: &str) -> String {
        let addresses = self.addresses.iter();
        addresses.fold(text.to_owned(), |text, (then, now)| text.replace(then, now))
    }
}

/// What is better, by docs/memgator.md: ours for each text that was recorded.
fn better(name: &str) -> Vec<(&'static str, &'static str)> {
    let mut changes = Vec::new();
    // Mementos with the same datetime are in the order of the registry, and the one before the closest
    // is at another datetime.
    match name {
        "06_timegate" | "09_memento_redirect" | "13_memento_proxy" => {}
        _ if name.starts_with("07") || name.starts_with("08c") || name.starts_with("10") => {
            changes.push((
                "/b/20120615120000/http://example.com/>; rel=\"prev memento\"; datetime=\"Fri, 15 Jun 2012 12:00:00 GMT\"",
                "/b/20110301000000/http://example.com/>; rel=\"prev memento\"; datetime=\"Tue, 01 Mar 2011 00:00:00 GMT\"",
            ));
        }
        _ if name.starts_with("11") || name.starts_with("14_") => changes.push((
            "\"prev\": {\n      \"datetime\": \"2012-06-15T12:00:00Z\",\n      \"uri\": \"http://127.0.0.1:9101/b/20120615120000/",
            "\"prev\": {\n      \"datetime\": \"2011-03-01T00:00:00Z\",\n      \"uri\": \"http://127.0.0.1:9101/b/20110301000000/",
        )),
        _ if name.starts_with("12") => changes.push((
            "20120615120000 {\"uri\": \"http://127.0.0.1:9101/b/20120615120000/http://example.com/\", \"rel\": \"prev memento\", \"datetime\": \"Fri, 15 Jun 2012 12:00:00 GMT\"}",
            "20110301000000 {\"uri\": \"http://127.0.0.1:9101/b/20110301000000/http://example.com/\", \"rel\": \"prev memento\", \"datetime\": \"Tue, 01 Mar 2011 00:00:00 GMT\"}",
        )),
        _ => changes.extend([
            ("/a/20120615120000/", "/x/20120615120000/"),
            ("/b/20120615120000/", "/a/20120615120000/"),
            ("/x/20120615120000/", "/b/20120615120000/"),
        ]),
    }
    match name {
        // The URI is repaired, or taken as it is.
        "21f_double_slash_collapse" => {
            changes.push(("http://http:/example.com/", "http://example.com/"))
        }
        "21h_ftp" => changes.push(("http://ftp://example.com/", "ftp://example.com/")),
        // A `%23` in a URI is not a fragment, and archives are asked for the whole URI.
        "21j_fragment_enc" => changes.extend([
            ("http://example.com/a#frag", "http://example.com/a%23frag"),
            (
                "http://example.com/a>; rel=\"memento\"",
                "http://example.com/a%23frag>; rel=\"memento\"",
            ),
            (
                "http://example.com/a>; rel=\"first memento\"",
                "http://example.com/a%23frag>; rel=\"first memento\"",
            ),
            (
                "http://example.com/a>; rel=\"last memento\"",
                "http://example.com/a%23frag>; rel=\"last memento\"",
            ),
        ]),
        // The client is told what is wrong.
        "21b_bad_pct" => changes.push((
            "400 Bad Request",
            "Malformed URI-R: http://example.com/%zz\n",
        )),
        _ => {}
    }
    changes
}

fn check(world: &World, recorded: &Recorded) {
    let name = &recorded.name;
    let reply = recorded.ask(&world.server);
    assert_eq!(reply.status, recorded.status, "{name}: {reply:?}");
    let changed = |text: &str| {
        let better = better(name).into_iter();
        let text = better.fold(text.to_owned(), |text, (then, now)| text.replace(then, now));
        world.translated(&text)
    };
    for (header, value) in &recorded.answer {
        let ours = reply.header(header);
        match &header[..] {
            "date" | "connection" => {}
            "server" => assert!(ours.unwrap().starts_with("Waypost/"), "{name}"),
            "content-length" if recorded.method != "HEAD" => {
                assert_eq!(ours, Some(&reply.body.len().to_string()[..]), "{name}");
            }
            "content-length" => assert!(ours.is_some(), "{name}"),
            // More of them.
            "access-control-expose-headers" | "vary" => {
                assert!(ours.unwrap().starts_with(value), "{name}")
            }
            _ => assert_eq!(ours, Some(&changed(value)[..]), "{name}: {header}"),
        }
    }
    let (ours, theirs) = (reply.text(), changed(&recorded.body));
    match ours.contains("## API Endpoints") {
        false => assert_eq!(ours, theirs, "{name}"),
        // Our own name is on the page; what happened to archives is in another test.
        true => {
            let from_endpoints = |text: &str| {
                let text = text.replace(" - (DORMANT)", "");
                text[text.find("## API Endpoints").unwrap()..].to_owned()
            };
            assert_eq!(from_endpoints(ours), from_endpoints(&theirs), "{name}");
        }
    }
}

#[test]
fn answers_are_those_of_memgator() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let world = World::start(ServerConfig {
        public_url: Some("http://localhost:1208".to_owned()),
        ..ServerConfig::default()
    });
    let mut checked = 0;
    let mut files: Vec<_> = fs::read_dir(shared.join("vectors/memgator"))
        .unwrap()
        .collect();
    files.sort_by_key(|file| file.as_ref().unwrap().file_name());
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let Some(recorded) = Recorded::read(name, &text) else {
            continue;
        };
        match name {
            // Other servers; below.
            _ if name.starts_with('4') => continue,
            // Only what reads is allowed, and a preflight is answered as one.
            "23_post" => assert_eq!(recorded.ask(&world.server).status, 405),
            "23b_options" => assert_eq!(recorded.ask(&world.server).status, 204),
            _ => check(&world, &recorded),
        }
        checked += 1;
    }
    assert!(checked >= 40, "only {checked} recordings");
}

#[test]
fn answers_under_a_root_are_those_of_memgator() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let world = World::start(ServerConfig {
        public_url: Some("https://agg.example.org/x".to_owned()),
        root: "/mg/".to_owned(),
        ..ServerConfig::default()
    });
    for name in [
        "41_root_prefix_tm",
        "42_root_noprefix_tm",
        "43_root_slash",
        "45_monitor_disabled",
    ] {
        let path = shared.join(format!("vectors/memgator/{name}.txt"));
        let recorded = Recorded::read(name, &fs::read_to_string(path).unwrap()).unwrap();
        match name {
            // Not redirected to a path that does not exist either.
            "42_root_noprefix_tm" => assert_eq!(recorded.ask(&world.server).status, 404),
            _ => check(&world, &recorded),
        }
    }
}
