//! `waypost index fetch`: the record of a capture, from files and from a server.

use std::fs;
use std::path::{Path, PathBuf};

use super::server::{Files, Reply, Server};
use super::zip::{deflated, stored, zip};
use super::{Run, example, run};

const HOME: &str = "http://www.example.com/";
const ABOUT: &str = "http://example.com/About/";

/// `crawl.warc.gz` and its index `crawl.cdxj`.
fn crawl(folder: &Path) -> PathBuf {
    let warc = folder.join("crawl.warc.gz");
    fs::copy(example("crawl.warc.gz"), &warc).unwrap();
    index(&warc, &folder.join("crawl.cdxj"))
}

fn index(warc: &Path, out: &Path) -> PathBuf {
    let args = [
        "index",
        "warc",
        warc.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ];
    let made = run(&args, b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    out.to_owned()
}

fn fetch(index: impl AsRef<Path>, uri: &str, more: &[&str]) -> Run {
    let index = index.as_ref().to_str().unwrap();
    run(&[&["index", "fetch", index, uri], more].concat(), b"")
}

/// Changes the line of a URI in an index.
fn change(index: &Path, uri: &str, from: &str, to: &str) {
    let text = fs::read_to_string(index).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().find(|line| line.contains(uri)).unwrap();
    assert!(line.contains(from), "{line}");
    *line = line.replace(from, to);
    fs::write(index, lines.join("\n") + "\n").unwrap();
}

#[test]
fn each_part_of_a_record_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let body = fetch(&index, ABOUT, &[]);
    assert_eq!(
        (body.stdout.as_str(), body.code),
        ("<h1>About</h1>", 0),
        "{}",
        body.stderr
    );
    let headers = fetch(&index, ABOUT, &["--as", "headers"]).stdout;
    assert_eq!(
        headers,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 14\r\n\r\n"
    );
    let http = fetch(&index, ABOUT, &["--as", "http"]).stdout;
    assert_eq!(http, format!("{headers}<h1>About</h1>"));
    let record = fetch(&index, ABOUT, &["--as", "record"]).stdout;
    assert!(record.starts_with("WARC/1.0\r\n"), "{record}");
    assert!(
        record.ends_with(&format!("\r\n\r\n{http}\r\n\r\n")),
        "{record}"
    );
    // What was fetched can be indexed.
    let warc = folder.path().join("about.warc");
    let saved = fetch(
        &index,
        ABOUT,
        &["--as", "record", "-o", warc.to_str().unwrap()],
    );
    assert_eq!((saved.stdout.as_str(), saved.code), ("", 0));
    assert_eq!(fs::read_to_string(&warc).unwrap(), record);
    let again = self::index(&warc, &folder.path().join("about.cdxj"));
    assert_eq!(fetch(again, ABOUT, &[]).stdout, "<h1>About</h1>");
}

#[test]
fn records_come_from_a_server_through_a_remote_index() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let zipnum = folder.path().join("zipnum");
    let args = [
        "index",
        "zipnum",
        index.to_str().unwrap(),
        "-o",
        zipnum.to_str().unwrap(),
    ];
    assert_eq!(run(&args, b"").code, 0);
    let files = Files::of_folder(&zipnum);
    files.put(
        "/data/crawl.warc.gz",
        fs::read(example("crawl.warc.gz")).unwrap(),
    );
    let server = Server::of(&files);
    let url = server.at("/cluster.idx");
    for prefix in [server.at("/data"), server.at("/data/")] {
        for index in [&url, index.to_str().unwrap(), zipnum.to_str().unwrap()] {
            let found = fetch(index, ABOUT, &["--warcs", &prefix]);
            assert_eq!(found.stdout, "<h1>About</h1>", "{}", found.stderr);
        }
    }
    let range = |request: &super::server::Request| {
        request
            .path
            .ends_with(".warc.gz")
            .then(|| request.range().unwrap())
    };
    assert_eq!(
        server.requests().iter().find_map(range),
        Some((582, Some(909)))
    );
    // By default next to the index, where it is not.
    let missing = fetch(&url, ABOUT, &[]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("/crawl.warc.gz: byte 582"),
        "{}",
        missing.stderr
    );
    assert!(
        missing
            .stderr
            .contains("hint: say where the WARC files are"),
        "{}",
        missing.stderr
    );
    // The name in the index is a URL.
    let name = server.at("/data/crawl.warc.gz");
    change(&index, ABOUT, "\"crawl.warc.gz\"", &format!("\"{name}\""));
    assert_eq!(fetch(&index, ABOUT, &[]).stdout, "<h1>About</h1>");
}

#[test]
fn a_server_without_ranges_or_with_a_wrong_body_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let warc = fs::read(example("crawl.warc.gz")).unwrap();
    let server = Server::start(move |_| Reply::new(200, warc.clone()));
    let found = fetch(&index, ABOUT, &["--warcs", &server.url]);
    assert_eq!((found.stdout.as_str(), found.code), ("", 2));
    assert!(
        found.stderr.contains("does not support range requests"),
        "{}",
        found.stderr
    );
    let server = Server::start(move |request| {
        let (from, to) = request.range().unwrap();
        let to = to.unwrap();
        Reply::new(206, vec![7; to - from])
            .with("Content-Range", format!("bytes {from}-{}/9999", to - 1))
    });
    let found = fetch(&index, ABOUT, &["--warcs", &server.url]);
    assert_eq!(found.code, 2);
    assert!(
        found.stderr.contains("byte 582: not a record"),
        "{}",
        found.stderr
    );
}

#[test]
fn the_latest_capture_or_the_closest_one_is_fetched_and_revisits_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let latest = fetch(&index, HOME, &[]);
    assert_eq!(latest.stdout, "<h1>Example</h1>", "{}", latest.stderr);
    assert!(
        latest.stderr.contains("at 20200401120000 is a revisit"),
        "{}",
        latest.stderr
    );
    assert!(
        latest.stderr.contains("at 20200301120000 with the same"),
        "{}",
        latest.stderr
    );
    let first = fetch(&index, HOME, &["--at", "2020-03-02"]);
    assert_eq!(
        (first.stdout.as_str(), first.stderr.as_str()),
        ("<h1>Example</h1>", "")
    );
    let none = fetch(&index, HOME, &["--filter", "=status:404"]);
    assert_eq!((none.stdout.as_str(), none.code), ("", 1));
    let none = fetch(&index, "http://example.com/nothing", &[]);
    assert_eq!((none.stdout.as_str(), none.code), ("", 1));
    assert!(none.stderr.contains("no capture of"), "{}", none.stderr);
    // The original is not in the index.
    let text = fs::read_to_string(&index).unwrap();
    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("20200301120000"))
        .collect();
    fs::write(&index, without.join("\n") + "\n").unwrap();
    let lost = fetch(&index, HOME, &[]);
    assert_eq!((lost.stdout.as_str(), lost.code), ("", 2));
    assert!(
        lost.stderr
            .contains("is a revisit of http://www.example.com/"),
        "{}",
        lost.stderr
    );
    assert!(
        lost.stderr.contains("hint: fetch another capture"),
        "{}",
        lost.stderr
    );
}

#[test]
fn an_index_that_does_not_fit_the_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let cases = [
        // The record of another URL.
        (
            "\"offset\": \"582\"",
            "\"offset\": \"256\"",
            "is of http://www.example.com/, not of",
        ),
        (
            "\"offset\": \"582\"",
            "\"offset\": \"583\"",
            "byte 583: not a record",
        ),
        (
            "\"offset\": \"582\"",
            "\"offset\": \"999999\"",
            "ends too early",
        ),
        ("\"length\": \"327\"", "\"length\": \"300\"", "truncated"),
        (
            "\"length\": \"327\"",
            "\"length\": \"328\"",
            "has 327 bytes, not the 328",
        ),
        (
            "\"filename\": \"crawl.warc.gz\"",
            "\"filename\": \"-\"",
            "does not say where",
        ),
        (
            "crawl.warc.gz",
            "other.warc.gz",
            "other.warc.gz: cannot open",
        ),
        ("crawl.warc.gz", "../crawl.warc.gz", "which is outside"),
        ("crawl.warc.gz", "/etc/passwd", "which is outside"),
    ];
    let good = fs::read(&index).unwrap();
    for (from, to, expected) in cases {
        fs::write(&index, &good).unwrap();
        change(&index, ABOUT, from, to);
        // Fields for the length of the other record.
        if to.contains("256") {
            change(&index, ABOUT, "\"length\": \"327\"", "\"length\": \"326\"");
        }
        let found = fetch(&index, ABOUT, &[]);
        assert_eq!((found.stdout.as_str(), found.code), ("", 2), "{to}");
        assert!(found.stderr.contains(expected), "{to}: {}", found.stderr);
    }
    // Outside the folder, if the user says so; in another folder of the same name; without a length.
    let other = folder.path().join("sub");
    fs::create_dir(&other).unwrap();
    let moved = other.join("moved.cdxj");
    for (from, to, more) in [
        ("crawl.warc.gz", "../crawl.warc.gz", &["--anywhere"][..]),
        (
            "crawl.warc.gz",
            "a/b/crawl.warc.gz",
            &["--warcs", folder.path().to_str().unwrap()],
        ),
        (
            ", \"length\": \"327\"",
            "",
            &["--warcs", folder.path().to_str().unwrap()],
        ),
    ] {
        fs::write(&moved, &good).unwrap();
        change(&moved, ABOUT, from, to);
        let found = fetch(&moved, ABOUT, more);
        assert_eq!(found.stdout, "<h1>About</h1>", "{to}: {}", found.stderr);
    }
}

#[test]
fn a_body_that_cannot_be_decoded_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let http = "HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\n\r\nx";
    let metadata = "WARC/1.0\r\nWARC-Type: metadata\r\nWARC-Target-URI: http://example.com/m\r\n\
         WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nmeta\r\n\r\n";
    let warc = folder.path().join("a.warc");
    fs::write(
        &warc,
        format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {ABOUT}\r\n\
             WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Type: application/http\r\n\
             Content-Length: {}\r\n\r\n{http}\r\n\r\n{metadata}",
            http.len()
        ),
    )
    .unwrap();
    let index = index(&warc, &folder.path().join("a.cdxj"));
    let out = folder.path().join("out");
    let found = fetch(&index, ABOUT, &["-o", out.to_str().unwrap()]);
    assert_eq!(found.code, 2);
    assert!(
        found
            .stderr
            .contains("`compress` of the body is not supported"),
        "{}",
        found.stderr
    );
    assert!(
        found
            .stderr
            .contains("hint: write the body as it was captured"),
        "{}",
        found.stderr
    );
    assert!(!out.exists());
    assert_eq!(fetch(&index, ABOUT, &["--as", "http"]).stdout, http);
    let found = fetch(&index, "http://example.com/m", &["--as", "headers"]);
    assert!(
        found.stderr.contains("metadata record of"),
        "{}",
        found.stderr
    );
    assert_eq!(fetch(&index, "http://example.com/m", &[]).stdout, "meta");
}

#[test]
fn a_wacz_file_has_the_records_that_its_index_names() {
    let folder = tempfile::tempdir().unwrap();
    let index = crawl(folder.path());
    let zipnum = folder.path().join("zipnum");
    let args = [
        "index",
        "zipnum",
        index.to_str().unwrap(),
        "--wacz",
        "-o",
        zipnum.to_str().unwrap(),
    ];
    let made = run(&args, b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let read = |path: &Path| fs::read(path).unwrap();
    let flat = vec![deflated(
        "indexes/index.cdxj",
        fs::read_to_string(&index).unwrap(),
    )];
    let blocks = vec![
        stored("indexes/index.cdx.gz", read(&zipnum.join("index.cdx.gz"))),
        stored("indexes/index.idx", read(&zipnum.join("index.idx"))),
    ];
    let wacz = folder.path().join("other").join("a.wacz");
    fs::create_dir(folder.path().join("other")).unwrap();
    for mut files in [flat, blocks] {
        files.push(stored(
            "archive/crawl.warc.gz",
            read(&example("crawl.warc.gz")),
        ));
        files.push(deflated("datapackage.json", "{}"));
        fs::write(&wacz, zip(&files, 0, b"")).unwrap();
        let found = run(&["index", "lookup", wacz.to_str().unwrap(), ABOUT], b"");
        assert!(
            found.stdout.contains("\"offset\": \"582\""),
            "{}",
            found.stderr
        );
        let found = fetch(&wacz, ABOUT, &[]);
        assert_eq!(found.stdout, "<h1>About</h1>", "{}", found.stderr);
    }
}
