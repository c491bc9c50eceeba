//! A server that runs for years: limits, changes of its files, takedowns, and its end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod serving;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serving::{Running, ask, write_flat, write_zipnum};
use waypost_archive::{AccessLog, Options};

fn lines(count: usize, digest: &str) -> Vec<String> {
    let line = |n| {
        format!(
            "com,site{n:06})/ 20200101000000 {{\"url\": \"http://site{n:06}.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"{digest}\"}}"
        )
    };
    (0..count).map(line).collect()
}

fn serve(path: PathBuf, options: Options) -> Running {
    Running::start(&[("test", &[path])], options)
}

/// Waits until the server has what it should.
fn eventually(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "still not so after a minute"
        );
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_that_is_replaced_is_picked_up() {
    let folder = tempfile::tempdir().unwrap();
    let flat = write_flat(&folder.path().join("a.cdxj"), &lines(10, "OLD"));
    let zipnum = write_zipnum(&folder.path().join("zipnum"), &lines(10, "OLD"), 3);
    let server = Running::start(
        &[("flat", from_ref(&flat)), ("zipnum", from_ref(&zipnum))],
        Options::default(),
    );
    let asked = |name: &str| {
        server
            .get(&format!("/{name}/cdx?url=site000004.com"))
            .text()
            .to_owned()
    };
    assert!(asked("flat").contains("OLD") && asked("zipnum").contains("OLD"));
    let new = write_flat(&folder.path().join("new"), &lines(10, "NEW"));
    fs::rename(new, &flat).unwrap();
    let other = write_zipnum(&folder.path().join("other"), &lines(10, "NEW"), 3);
    for file in ["cdx-00000.gz", "cluster.idx"] {
        fs::rename(other.join(file), zipnum.join(file)).unwrap();
        // Whatever was replaced first, no request fails.
        assert!(asked("zipnum").contains("\"digest\": "));
    }
    eventually(|| asked("flat").contains("NEW") && asked("zipnum").contains("NEW"));
    let metrics = ask(server.metrics, "GET", "/metrics", &[]);
    assert!(metrics.text().contains("waypost_indexes_reopened_total"));
    assert_eq!(ask(server.metrics, "GET", "/health", &[]).status, 200);
}

#[test]
fn a_file_that_is_truncated_gives_errors_and_the_server_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(100_000, "D"));
    let line = fs::metadata(&path).unwrap().len() / 100_000;
    let server = serve(path.clone(), Options::default());
    let last = "/test/cdx?url=site099999.com";
    assert_eq!(server.get(last).status, 200);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(5000).unwrap();
    assert_eq!(server.get(last).status, 503);
    // What is left is served, but nothing else is absent.
    eventually(|| server.get("/test/cdx?url=site000003.com").status == 200);
    assert_eq!(server.get(last).status, 503);
    // Even if what is left ends with a whole line.
    file.set_len(5000 - 5000 % line).unwrap();
    server.server.refresh();
    assert_eq!(server.get("/test/cdx?url=site000003.com").status, 200);
    assert_eq!(server.get(last).status, 503);
    let health = ask(server.metrics, "GET", "/health", &[]);
    assert!(
        health.text().contains("was truncated while"),
        "{}",
        health.text()
    );
    // A file that is gone is kept.
    fs::remove_file(&path).unwrap();
    server.server.refresh();
    assert_eq!(server.get("/test/cdx?url=site000003.com").status, 200);
    assert_eq!(server.get(last).status, 503);
    assert!(
        server.server.refresh().is_empty(),
        "a problem is reported once"
    );
    // Another file under the same name is complete.
    let new = write_flat(&folder.path().join("new"), &lines(10, "NEW"));
    fs::rename(new, &path).unwrap();
    server.server.refresh();
    assert_eq!(server.get(last).status, 404);
}

#[test]
fn takedowns_and_embargoes_hold_for_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let row = |key: &str, url: &str, time: &str| format!("{key} {time} {{\"url\": \"{url}\"}}");
    let today = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    let path = write_flat(
        &folder.path().join("a.cdxj"),
        &[
            row("com,a)/", "http://a.com/", "20200101000000"),
            row("com,a)/", "http://a.com/", &today),
            row("com,a)/secret", "http://a.com/secret", "20200101000000"),
            row(
                "com,a)/secret/more",
                "http://a.com/secret/more",
                "20200101000000",
            ),
        ],
    );
    let list = folder.path().join("takedowns.txt");
    fs::write(&list, "http://a.com/secret/*\n").unwrap();
    let options = Options {
        exclude_list: Some(list.clone()),
        embargo: Some("6m".parse().unwrap()),
        replay: Some("http://replay/{timestamp}/{url}".parse().unwrap()),
        ..Options::default()
    };
    let server = serve(path, options);
    for path in [
        "/test/cdx?url=a.com/secret",
        "/test/index?url=a.com/secret/more",
        "/test/timemap/link/http://a.com/secret",
        "/test/timemap/json/http://a.com/secret",
        "/test/timegate/http://a.com/secret",
        "/test/http://a.com/secret",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
    let pages = server.get("/test/cdx?url=a.com/secret&showNumPages=true");
    assert!(pages.text().contains("\"pages\": 0"), "{pages:?}");
    let wayback = server.get("/test/cdx/search/cdx?url=a.com/secret");
    assert_eq!((wayback.status, wayback.text()), (200, ""));
    for path in [
        "/test/cdx?url=*.a.com",
        "/test/cdx?url=*.a.com&sort=reverse",
        "/test/cdx?url=*.a.com&closest=2030",
        "/test/cdx/search/cdx?url=*.a.com",
        "/test/timemap/cdxj/http://a.com/",
    ] {
        let found = server.lines(path);
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        assert!(found[0].starts_with("com,a)/ 20200101000000"), "{found:?}");
    }
    let gate = server.get("/test/http://a.com/");
    assert_eq!(
        gate.header("location"),
        Some("http://replay/20200101000000/http://a.com/")
    );
    // The list is read again when it changes; one that cannot be read changes nothing.
    fs::write(&list, "no page\n").unwrap();
    let said = server.server.refresh();
    assert!(said[0].contains("takedowns.txt: line 1"), "{said:?}");
    assert_eq!(server.get("/test/cdx?url=a.com/secret").status, 404);
    fs::write(&list, "com,a)/secret/more\n").unwrap();
    eventually(|| server.get("/test/cdx?url=a.com/secret").status == 200);
    assert_eq!(server.get("/test/cdx?url=a.com/secret/more").status, 404);
}

#[test]
fn large_answers_are_streamed_and_compressed_if_the_client_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(20_000, "D"));
    let server = serve(path, Options::default());
    let all = "/test/cdx?url=com&matchType=domain";
    let plain = server.get(all);
    assert!(plain.complete && plain.header("content-encoding").is_none());
    assert_eq!(plain.text().lines().count(), 20_000);
    for path in [
        all.to_owned(),
        "/test/cdx?url=com&matchType=domain&limit=50".to_owned(),
    ] {
        let packed = ask(
            server.address,
            "GET",
            &path,
            &[("Accept-Encoding", "br, gzip;q=0.5")],
        );
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed.body[..])
            .read_to_string(&mut text)
            .unwrap();
        assert!(plain.text().starts_with(&text) && packed.complete);
    }
    let refused = ask(
        server.address,
        "GET",
        all,
        &[("Accept-Encoding", "gzip;q=0")],
    );
    assert_eq!(refused.body, plain.body);
    let refused = ask(
        server.address,
        "GET",
        &format!("{all}&gzip=false"),
        &[("Accept-Encoding", "gzip")],
    );
    assert_eq!(refused.body, plain.body);
    // A client that goes away in the middle harms nobody.
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET {all} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut start = [0; 100];
    stream.read_exact(&mut start).unwrap();
    drop(stream);
    assert_eq!(server.get("/test/cdx?url=site000001.com").status, 200);
}

#[test]
fn limits_on_time_rows_and_queries_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(200_000, "D"));
    let all = "/test/cdx?url=com&matchType=domain";
    let few = serve(
        path.clone(),
        Options {
            most_rows: 7,
            ..Options::default()
        },
    );
    assert_eq!(few.lines(all).len(), 7);
    assert_eq!(few.lines(&format!("{all}&limit=5")).len(), 5);
    assert_eq!(few.lines(&format!("{all}&limit=-9")).len(), 7);
    drop(few);
    let hasty = serve(
        path.clone(),
        Options {
            time_limit: Duration::from_nanos(1),
            ..Options::default()
        },
    );
    assert_eq!(hasty.get(&format!("{all}&filter==status:404")).status, 504);
    drop(hasty);
    // One query at a time: while a client reads slowly, others wait and are refused.
    let busy = serve(
        path,
        Options {
            queries: 1,
            ..Options::default()
        },
    );
    let mut slow = TcpStream::connect(busy.address).unwrap();
    write!(slow, "GET {all} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut start = [0; 100];
    slow.read_exact(&mut start).unwrap();
    let refused = busy.get("/test/cdx?url=site000001.com/*");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("1"))
    );
    drop(slow);
    eventually(|| busy.get("/test/cdx?url=site000001.com").status == 200);
}

#[test]
fn an_answer_that_is_cut_off_does_not_look_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(200_000, "D"));
    let options = Options {
        time_limit: Duration::from_secs(2),
        ..Options::default()
    };
    let server = serve(path, options);
    let mut slow = TcpStream::connect(server.address).unwrap();
    write!(
        slow,
        "GET /test/cdx?url=com&matchType=domain HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    .unwrap();
    let mut text = vec![0; 100];
    slow.read_exact(&mut text).unwrap();
    let running = || ask(server.metrics, "GET", "/metrics", &[]);
    eventually(|| running().text().contains("waypost_queries_running 0"));
    let _ = slow.read_to_end(&mut text);
    assert!(text.starts_with(b"HTTP/1.1 200"));
    assert!(!text.ends_with(b"0\r\n\r\n"), "{} bytes", text.len());
}

#[test]
fn the_end_waits_for_answers_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(100_000, "D"));
    let mut server = serve(path, Options::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(
        stream,
        "GET /test/cdx?url=com&matchType=domain HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    .unwrap();
    let mut text = vec![0; 100];
    stream.read_exact(&mut text).unwrap();
    server.stop();
    eventually(|| TcpStream::connect(server.address).is_err());
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("site099999") && text.ends_with("0\r\n\r\n"));
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn requests_are_logged_and_counted_and_strange_ones_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_flat(&folder.path().join("a.cdxj"), &lines(3, "D"));
    let log = Shared::default();
    let server = serve(
        path,
        Options {
            access_log: Some(Arc::new(AccessLog::new(log.clone()))),
            ..Options::default()
        },
    );
    for (method, path, status) in [
        ("GET", "/test/cdx?url=site000001.com", 200),
        ("HEAD", "/test/cdx?url=site000001.com", 200),
        ("POST", "/test/cdx?url=site000001.com", 405),
        ("GET", "/nocoll/cdx?url=site000001.com", 404),
        ("GET", "/test/cdx?url=%00%ff[&matchType=domain", 404),
        ("GET", "/test/cdx?url=a&limit=99999999999999999999", 400),
        ("GET", "/test/cdx?url=a&filter=~url:(((", 400),
        ("GET", "/test/timemap/link/http://site000001.com/", 501),
        ("GET", "/test/timemap/xml/http://site000001.com/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/", 200),
    ] {
        let reply = ask(server.address, method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        if method == "HEAD" {
            assert!(reply.body.is_empty());
        }
    }
    let logged = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    eventually(|| logged().lines().count() == 11);
    assert!(
        logged()
            .lines()
            .next()
            .unwrap()
            .starts_with("127.0.0.1 - - [")
    );
    assert!(logged().contains("\"GET /test/cdx?url=site000001.com HTTP/1.1\" 200 "));
    let metrics = ask(server.metrics, "GET", "/metrics", &[]);
    assert!(
        metrics
            .text()
            .contains("waypost_requests_total{kind=\"cdx\",status=\"400\"} 2")
    );
}
