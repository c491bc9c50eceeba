//! The server on a free port, with fake archives behind it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fakes::{Answer, Body, Fake};
use running::{Running, ask};
use serde_json::{Value, json};
use waypost_memento::{Datetime, Format, Link, TimeMap};
use waypost_router::serve::Options;
use waypost_router::{CacheConfig, Config, Registry, ServerConfig};

/// An archive that has TimeMaps, a TimeGate and mementos of every URI but `http://notfound.example/`.
fn archive(timestamps: &'static [&'static str]) -> Fake {
    Fake::start(move |request| {
        let uri = request.original();
        let base = &request.base;
        if uri.contains("notfound") {
            return Answer::new(404, "");
        }
        if request.path.starts_with("/timemap/") {
            return Answer::timemap(uri, request, timestamps);
        }
        if request.path.starts_with("/timegate/") {
            let memento = |stamp: &&str| {
                let datetime = Datetime::parse_timestamp(stamp).unwrap();
                Link::new(format!("{base}/{}/{uri}", datetime.timestamp()))
                    .with("rel", "memento")
                    .with("datetime", datetime.http())
            };
            let links: Vec<Link> = timestamps.iter().map(memento).collect();
            let answer = Answer::new(302, "").with("Location", &links[0].uri);
            let links: Vec<String> = links.iter().map(ToString::to_string).collect();
            return answer.with("Link", links.join(", "));
        }
        Answer::new(200, format!("BODY {}", request.path))
            .with("Content-Type", "text/html")
            .with("Memento-Datetime", "Fri, 15 Jun 2012 12:00:00 GMT")
            .with("Set-Cookie", "a=b")
            .with("X-Up", "yes")
    })
}

fn json(reply: &running::Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

fn dead() -> waypost_router::Archive {
    waypost_router::Archive {
        timemap: Some("http://127.0.0.1:9/timemap/".to_owned()),
        timegate: Some("http://127.0.0.1:9/timegate/".to_owned()),
        ..waypost_router::Archive::new("dead")
    }
}

const VARY: &str = "accept-datetime, accept, accept-language, referer";

#[test]
fn timemaps_hold_the_mementos_of_all_archives() {
    let (a, b) = (archive(&["2010", "2012"]), archive(&["2011", "2012"]));
    let server = Running::start(vec![a.entry("a"), b.entry("b"), dead()]);
    for format in Format::ALL {
        let path = format!("/timemap/{}/http://example.com/?x=1", format.name());
        let reply = server.get(&path);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some(format.media_type()));
        assert_eq!(reply.header("x-memento-count"), Some("4"));
        assert_eq!(reply.header("x-waypost-incomplete"), Some("dead"));
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        let (timemap, problems) = TimeMap::read(format, &reply.body, None).unwrap();
        assert_eq!(problems, []);
        assert_eq!(timemap.original, "http://example.com/?x=1");
        let uris: Vec<&str> = timemap.mementos.iter().map(|m| &m.uri[..]).collect();
        let memento = |fake: &Fake, year: &str| {
            format!("{}/{year}0101000000/http://example.com/?x=1", fake.base())
        };
        let expected = [
            memento(&a, "2010"),
            memento(&b, "2011"),
            memento(&a, "2012"),
            memento(&b, "2012"),
        ];
        assert_eq!(uris, expected);
        let this = timemap.this.unwrap();
        assert_eq!(this.uri, format!("{}{path}", server.base()));
        if format == Format::Link {
            assert_eq!(this.from, Some(timemap.mementos[0].datetime));
            assert_eq!(this.until, Some(timemap.mementos[3].datetime));
        }
        let head = ask(server.address, "HEAD", &path, &[]);
        assert_eq!(head.status, 200);
        assert_eq!(head.body, b"");
        for name in ["content-length", "content-type", "x-memento-count"] {
            assert_eq!(head.header(name), reply.header(name), "{name}");
        }
    }
}

#[test]
fn a_timegate_redirects_to_the_closest_memento() {
    let (a, b) = (archive(&["2010", "2012"]), archive(&["2012", "2014"]));
    let server = Running::start(vec![a.entry("a"), b.entry("b")]);
    let at = |datetime: &str| {
        let headers = [("Accept-Datetime", datetime)];
        ask(
            server.address,
            "GET",
            "/timegate/http://example.com/",
            &headers,
        )
    };
    let reply = at("Tue, 01 May 2012 00:00:00 GMT");
    assert_eq!(reply.status, 302);
    let closest = format!("{}/20120101000000/http://example.com/", a.base());
    assert_eq!(reply.header("location"), Some(&closest[..]));
    assert_eq!(reply.header("vary"), Some(VARY));
    assert_eq!(
        reply.text(),
        format!("<a href=\"{closest}\">Found</a>.\n\n")
    );
    let links = reply.header("link").unwrap().as_bytes();
    let (timemap, problems) = TimeMap::read(Format::Link, links, None).unwrap();
    assert_eq!(problems, []);
    let relations: Vec<String> = timemap
        .mementos
        .iter()
        .map(|m| m.relations.to_string())
        .collect();
    assert_eq!(
        relations,
        ["first prev memento", "memento", "last next memento"]
    );
    assert_eq!(timemap.mementos[1].uri, closest);
    assert_eq!(timemap.timemaps.len(), 3);
    // Without a datetime: the last.
    let now = server.get("/timegate/http://example.com/");
    let last = format!("{}/20140101000000/http://example.com/", b.base());
    assert_eq!(now.header("location"), Some(&last[..]));
    let memento = server.get("/memento/2013/http://example.com/");
    assert_eq!(memento.status, 302);
    assert_eq!(memento.header("location"), Some(&last[..]));
    assert_eq!(memento.header("link"), None);
    for datetime in ["20120615", "Fri, 15 Jun 2012 12:00:00 +0000", "x"] {
        let reply = at(datetime);
        let text = format!("Malformed Accept-Datetime: {datetime}\nExpected in RFC1123 format\n");
        assert_eq!((reply.status, reply.text()), (400, &text[..]));
    }
}

#[test]
fn nothing_found_still_says_where_to_ask() {
    let a = archive(&["2010"]);
    let server = Running::start(vec![a.entry("a"), dead()]);
    for path in [
        "timemap/link",
        "timemap/json",
        "timegate",
        "memento/2012",
        "memento/json/2012",
        "memento/proxy/2012",
    ] {
        let reply = server.get(&format!("/{path}/http://notfound.example/"));
        assert_eq!(
            (reply.status, reply.text()),
            (404, "404 page not found\n"),
            "{path}"
        );
        let links = reply.header("link").unwrap();
        for relation in ["original", "timemap", "timegate"] {
            assert!(links.contains(&format!("rel=\"{relation}\"")), "{links}");
        }
        assert_eq!(reply.header("vary"), Some(VARY));
        assert_eq!(reply.header("x-waypost-incomplete"), Some("dead"));
        let count = path.starts_with("timemap").then_some("0");
        assert_eq!(reply.header("x-memento-count"), count);
    }
    for path in ["/favicon.ico", "/foo/bar", "//x/../y"] {
        assert!([200, 404].contains(&server.get(path).status), "{path}");
    }
}

#[test]
fn every_answer_can_be_read_by_scripts_of_other_sites() {
    let a = archive(&["2010"]);
    let server = Running::start(vec![a.entry("a")]);
    for (method, path, status) in [
        ("GET", "/timemap/link/http://example.com/", 200),
        ("GET", "/timemap/xml/http://example.com/", 400),
        ("GET", "/memento/json/20151301/http://example.com/", 400),
        ("GET", "/timegate/http://notfound.example/", 404),
        ("GET", "/about", 200),
        ("GET", "/monitor", 501),
        ("GET", "/nothing", 404),
        ("POST", "/timegate/http://example.com/", 405),
        ("DELETE", "/about", 405),
        ("OPTIONS", "/timegate/http://example.com/", 204),
    ] {
        let reply = ask(server.address, method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}");
        assert_eq!(
            reply.header("access-control-allow-origin"),
            Some("*"),
            "{path}"
        );
        let exposed = reply.header("access-control-expose-headers").unwrap();
        assert!(exposed.starts_with("Link, Location, X-Memento-Count, Server"));
        assert!(reply.header("server").unwrap().starts_with("Waypost/"));
        if status == 405 {
            assert_eq!(reply.header("allow"), Some("GET, HEAD, OPTIONS"));
        }
    }
    let preflight = ask(
        server.address,
        "OPTIONS",
        "/timegate/http://example.com/",
        &[
            ("Origin", "http://x"),
            ("Access-Control-Request-Headers", "accept-datetime"),
        ],
    );
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("Accept-Datetime"), "{allowed}");
    assert_eq!(
        a.requests()
            .iter()
            .filter(|r| r.path.contains("example.com"))
            .count(),
        1
    );
}

#[test]
fn clients_choose_archives_dates_and_numbers() {
    let (a, b) = (archive(&["2010", "2011", "2012"]), archive(&["2013"]));
    let server = Running::start(vec![a.entry("a"), b.entry("b")]);
    let count = |path: &str, headers: &[(&str, &str)]| {
        let reply = ask(server.address, "GET", path, headers);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply
            .header("x-memento-count")
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    let url = "url=http%3A%2F%2Fexample.com%2F";
    assert_eq!(count(&format!("/timemap/json?{url}"), &[]), 4);
    assert_eq!(count(&format!("/timemap/json?{url}&archives=b"), &[]), 1);
    assert_eq!(count(&format!("/timemap/json?{url}&archives=!b"), &[]), 3);
    assert_eq!(
        count(&format!("/timemap/link?{url}&from=2011&until=2012"), &[]),
        2
    );
    assert_eq!(count(&format!("/timemap/cdxj?{url}&limit=-2"), &[]), 2);
    let path = "/timemap/link/http://example.com/?archives=b";
    assert_eq!(count(path, &[]), 4);
    assert_eq!(count(path, &[("X-Waypost-Archives", "b")]), 1);
    assert_eq!(count(path, &[("X-Memgator-Archive-Filter", "!b")]), 3);
    let unknown = server.get(&format!("/timegate?{url}&archives=a,c"));
    assert_eq!(
        (unknown.status, unknown.text()),
        (400, "Unknown archive: c\n")
    );
    let asked = server.get("/prediction/json/http://example.com/");
    let info = &json(&asked)["memento_info"];
    assert_eq!(info[0]["archive_id"], "a");
    assert_eq!(
        info[1]["timemap_uri"],
        format!("{}/timemap/link/http://example.com/", b.base())
    );
    let asked = json(&server.get(&format!("/prediction/json?{url}&archives=b")));
    assert_eq!(asked["memento_info"].as_array().unwrap().len(), 1);
}

#[test]
fn api_json_is_that_of_time_travel_if_switched() {
    let (a, b) = (archive(&["2010", "2012"]), archive(&["2012"]));
    let options = Options {
        config: ServerConfig {
            time_travel: true,
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let server = Running::with(vec![a.entry("a"), b.entry("b")], options);
    let reply = json(&server.get("/api/json/2012/http://example.com/"));
    let uri = |fake: &Fake| format!("{}/20120101000000/http://example.com/", fake.base());
    let both = json!({"datetime": "2012-01-01T00:00:00Z", "uri": [uri(&a), uri(&b)]});
    assert_eq!(reply["mementos"]["closest"], both);
    let one = json(&server.get("/memento/json/2012/http://example.com/"));
    assert_eq!(one["mementos"]["closest"]["uri"], uri(&a));
}

#[test]
fn a_memento_is_passed_on_as_it_was_captured() {
    let a = archive(&["20120615120000"]);
    let large = Fake::start(|request| {
        if request.path.starts_with("/2012") {
            let body = Answer::new(200, "0123456789");
            return body.sent(Body::Repeat(10 << 30)).claiming(None);
        }
        let links = format!(
            "<{}/20120615120000mp_/{}>; rel=\"memento\"; datetime=\"Fri, 15 Jun 2012 12:00:00 GMT\"",
            request.base,
            request.original()
        );
        Answer::links(&links[..]).with("Link", links)
    });
    let mut entry = large.entry("large");
    entry.limits.max_body = 1 << 20;
    let server = Running::start(vec![a.entry("a"), entry]);
    let path = "/memento/proxy?url=http://example.com/&datetime=2012&archives=";
    let reply = server.get(&format!("{path}a"));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.text(), "BODY /20120615120000id_/http://example.com/");
    assert_eq!(reply.header("x-up"), Some("yes"));
    assert_eq!(
        reply.header("memento-datetime"),
        Some("Fri, 15 Jun 2012 12:00:00 GMT")
    );
    assert_eq!(reply.header("set-cookie"), None);
    let agent = a
        .requests()
        .last()
        .unwrap()
        .header("user-agent")
        .unwrap()
        .to_owned();
    assert_eq!(agent, "test");
    let cut = server.get(&format!("{path}large"));
    assert!(
        !cut.complete && cut.body.len() <= 1 << 20,
        "{} bytes",
        cut.body.len()
    );
    assert!(
        large
            .requests()
            .last()
            .unwrap()
            .path
            .starts_with("/20120615120000id_/")
    );
}

#[test]
fn a_deadline_ends_waiting_and_a_client_that_leaves_ends_asking() {
    let slow = Fake::start(|request| {
        Answer::timemap(request.original(), request, &["2011"]).after(Duration::from_secs(60))
    });
    let a = archive(&["2010"]);
    let options = Options {
        deadline: Duration::from_secs(2),
        ..Options::default()
    };
    let server = Running::with(vec![a.entry("a"), slow.entry("slow")], options);
    let started = Instant::now();
    let reply = server.get("/timemap/link/http://example.com/");
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(reply.header("x-memento-count"), Some("1"));
    assert_eq!(reply.header("x-waypost-incomplete"), Some("slow"));

    let server = Running::start(vec![slow.entry("slow")]);
    let mut client = TcpStream::connect(server.address).unwrap();
    let request = "GET /timemap/link/http://example.com/leaving HTTP/1.1\r\nHost: x\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    let wait_until = |what: &str, condition: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}");
            sleep(Duration::from_millis(5));
        }
    };
    let asked = || slow.requests().iter().any(|r| r.path.ends_with("leaving"));
    wait_until("the archive is asked", &asked);
    drop(client);
    wait_until("the archive is left alone", &|| slow.busy() == 0);
}

#[test]
fn long_requests_are_refused() {
    let a = archive(&["2010"]);
    let server = Running::start(vec![a.entry("a")]);
    let long = "x".repeat(9 << 10);
    let reply = server.get(&format!("/timemap/link/http://example.com/{long}"));
    assert_eq!(reply.status, 414);
    let reply = server.get(&format!("/timemap/link/http://example.com/?{long}"));
    assert_eq!(reply.status, 414);
    let header = "x".repeat(33 << 10);
    let reply = ask(server.address, "GET", "/about", &[("X-Long", &header)]);
    assert_eq!(reply.status, 431);
    assert_eq!(a.connections(), 0);
    let many: Vec<(&str, &str)> = vec![("X", "y"); 90];
    assert_eq!(ask(server.address, "GET", "/about", &many).status, 200);
}

#[test]
fn too_many_requests_are_told_to_come_back() {
    let slow = Fake::start(|request| {
        Answer::timemap(request.original(), request, &["2011"]).after(Duration::from_secs(60))
    });
    let options = Options {
        config: ServerConfig {
            max_requests: 1,
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let server = Running::with(vec![slow.entry("slow")], options);
    let mut client = TcpStream::connect(server.address).unwrap();
    client
        .write_all(b"GET /timemap/link/http://a/ HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    while slow.requests().is_empty() {
        sleep(Duration::from_millis(5));
    }
    let reply = server.get("/timemap/link/http://b/");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(server.get("/about").status, 200);
}

#[test]
fn a_large_timemap_is_sent_in_pieces() {
    let mut body = Vec::new();
    let mut timemap = TimeMap {
        original: "http://example.com/".to_owned(),
        ..TimeMap::default()
    };
    let start = Datetime::parse_timestamp("2000").unwrap().to_jiff();
    for second in 0..20_000_i64 {
        let datetime = Datetime::new(start + jiff::SignedDuration::from_secs(second)).unwrap();
        let uri = format!(
            "http://a.example/{}/http://example.com/",
            datetime.timestamp()
        );
        timemap
            .mementos
            .push(waypost_memento::Memento::new(uri, datetime));
    }
    timemap.write(Format::Link, &mut body).unwrap();
    let large = Fake::start(move |_| Answer::links(body.clone()));
    let server = Running::start(vec![large.entry("large")]);
    for format in Format::ALL {
        let path = format!("/timemap/{}/http://example.com/", format.name());
        let reply = server.get(&path);
        assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
        assert_eq!(reply.header("x-memento-count"), Some("20000"));
        assert!(reply.complete);
        let (read, problems) = TimeMap::read(format, &reply.body, None).unwrap();
        assert_eq!(problems, []);
        let uris = |timemap: &TimeMap| -> Vec<String> {
            timemap.mementos.iter().map(|m| m.uri.clone()).collect()
        };
        assert_eq!(uris(&read), uris(&timemap));
    }
}

#[test]
fn files_are_served_for_other_paths() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "<p>start").unwrap();
    fs::write(folder.path().join("large.txt"), vec![b'x'; 300_000]).unwrap();
    let options = Options {
        config: ServerConfig {
            root: "/mg/".to_owned(),
            public_url: Some("https://agg.example.org/x/".to_owned()),
            static_files: Some(folder.path().to_owned()),
            ..ServerConfig::default()
        },
        ..Options::default()
    };
    let a = archive(&["2010"]);
    let server = Running::with(vec![a.entry("a")], options);
    let start = server.get("/mg/");
    assert_eq!((start.status, start.text()), (200, "<p>start"));
    let large = server.get("/mg/large.txt?x");
    assert_eq!((large.status, large.body.len()), (200, 300_000));
    assert_eq!(server.get("/mg/../../etc/passwd").status, 404);
    assert_eq!(server.get("/").status, 404);
    let timemap = json(&server.get("/mg/timemap/json/http://example.com/"));
    assert_eq!(
        timemap["timegate_uri"],
        "https://agg.example.org/x/timegate/http://example.com/"
    );
    let about = server.get("/mg/about");
    assert!(
        about
            .text()
            .contains("TimeMap:  https://agg.example.org/x/timemap/{FORMAT}/{URI-R}\n")
    );
    assert!(about.text().contains("1. [a](https://a/)\n"));
}

#[test]
fn a_server_that_stops_answers_what_is_under_way() {
    let slow = Fake::start(|request| {
        Answer::timemap(request.original(), request, &["2011"]).after(Duration::from_millis(500))
    });
    let mut server = Running::start(vec![slow.entry("slow")]);
    let mut client = TcpStream::connect(server.address).unwrap();
    client
        .write_all(b"GET /timemap/link/http://a/ HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    while slow.requests().is_empty() {
        sleep(Duration::from_millis(5));
    }
    server.stop();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn another_list_of_archives_takes_the_place_of_the_first() {
    let (a, b) = (archive(&["2010"]), archive(&["2011", "2012"]));
    let server = Running::start(vec![a.entry("a")]);
    let path = "/timemap/link/http://example.com/";
    assert_eq!(server.get(path).header("x-memento-count"), Some("1"));
    let config = Config {
        registry: Registry::new(vec![b.entry("b")]),
        cache: CacheConfig {
            enabled: false,
            ..CacheConfig::default()
        },
        ..Config::default()
    };
    server.server.aggregator().reload(&config);
    assert_eq!(server.get(path).header("x-memento-count"), Some("2"));
}
