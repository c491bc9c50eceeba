//! The page for people, served over fake archives.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fakes;
mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fakes::{Answer, Fake};
use running::{Running, ask};

const STAMPS: [&str; 3] = ["20100203040506", "20100901000000", "20151231235959"];

fn archive() -> Fake {
    Fake::start(|request| match request.original() {
        uri if uri.contains("notfound") => Answer::new(404, ""),
        uri => Answer::timemap(uri, request, &STAMPS),
    })
}

fn page(running: &Running, query: &str) -> (u16, String) {
    let reply = ask(running.address, "GET", query, &[]);
    assert_eq!(
        reply.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    (reply.status, String::from_utf8(reply.body).unwrap())
}

#[test]
fn a_lookup_works_without_a_script() {
    let (held, other) = (archive(), archive());
    let running = Running::start(vec![held.entry("held"), other.entry("other")]);
    let (status, home) = page(&running, "/");
    assert_eq!(status, 200);
    assert!(home.contains("<form id=\"lookup\" action=\"/\" method=\"get\""));
    assert!(!home.contains("id=\"why\""));

    let (status, found) = page(&running, "/?url=a.example%2Fb%3Fc&datetime=2010-08-31");
    assert_eq!(status, 200);
    assert!(
        found.contains("6 copies in 2 archives, from 2010-02-03 to 2015-12-31."),
        "{found}"
    );
    // The closest comes first, and leads to its replay.
    let closest = found.find("class=\"closest\"").unwrap();
    assert!(
        found[closest..].starts_with("class=\"closest\"><a href=\"http"),
        "{found}"
    );
    assert!(
        found[closest..].contains(">2010-09-01 00:00:00</a> in held"),
        "{found}"
    );
    assert!(
        found.contains("href=\"/?url=a.example%2Fb%3Fc&#38;datetime=2010-08-31&#38;zoom=2010\""),
        "{found}"
    );
    assert!(found.contains("All 2 archives were asked."));

    let (_, year) = page(&running, "/?url=a.example%2Fb%3Fc&zoom=2010");
    assert!(year.contains(">Sep</th>"), "{year}");
    let (_, list) = year.split_once("Copies of 2010").unwrap();
    assert_eq!(list.matches("<li>").count(), 4, "{list}");
    assert!(
        list.contains(">2010-02-03 04:05:06</a>") && !list.contains("2015-12-31"),
        "{list}"
    );
}

#[test]
fn what_cannot_be_found_or_understood_is_told_kindly() {
    let held = archive();
    let running = Running::start(vec![held.entry("held")]);
    let (status, nothing) = page(&running, "/?url=notfound.example");
    assert_eq!(status, 404);
    assert!(
        nothing.contains("No archive has http://notfound.example"),
        "{nothing}"
    );
    let (status, date) = page(&running, "/?url=a.example&datetime=yesterday");
    assert_eq!(status, 400);
    assert!(date.contains("“yesterday” is not a date."), "{date}");
    let (status, address) = page(&running, "/?url=http%3A%2F%2Fa%3Ab%2F");
    assert_eq!(status, 400);
    assert!(
        address.contains("is not the address of a page."),
        "{address}"
    );
}

#[test]
fn nothing_that_others_send_becomes_markup() {
    let hostile = Fake::start(|request| {
        let links = format!(
            "<{}>; rel=\"original\",\n<javascript:alert(1)>; rel=\"memento\"; datetime=\"Fri, 15 Jun 2012 12:00:00 GMT\",\n\
             <http://x.example/\"><script>alert(2)</script>>; rel=\"memento\"; datetime=\"Fri, 15 Jun 2012 12:00:01 GMT\"\n",
            request.original()
        );
        Answer::links(links.into_bytes())
    });
    let running = Running::start(vec![hostile.entry("<b>evil</b>")]);
    let (_, html) = page(
        &running,
        "/?url=http%3A%2F%2Fa.example%2F%3Cscript%3Ealert(0)%3C%2Fscript%3E",
    );
    assert_eq!(html.matches("<script>").count(), 1, "{html}");
    assert!(
        !html.contains("javascript:alert") && !html.contains("<b>evil"),
        "{html}"
    );
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let held = archive();
    let running = Running::start(vec![held.entry("held")]);
    let (_, html) = page(&running, "/");
    assert!(
        !html.contains(" src=") && !html.contains("@import") && !html.contains("url("),
        "{html}"
    );
}

#[test]
fn pages_are_told_when_the_figures_change() {
    let held = archive();
    let running = Running::start(vec![held.entry("held")]);
    let mut events = TcpStream::connect(running.address).unwrap();
    events
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    events
        .write_all(b"GET /life/events HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut read_until = |wanted: &str| {
        let mut text = String::new();
        let mut chunk = [0; 4096];
        while !text.contains(wanted) {
            let length = events.read(&mut chunk).unwrap();
            assert!(length > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
    };
    read_until("\"key\":\"lookups\",\"name\":\"lookups\",\"value\":\"0\"");
    ask(
        running.address,
        "GET",
        "/timemap/link/http://a.example/",
        &[],
    );
    read_until("\"key\":\"lookups\",\"name\":\"lookups\",\"value\":\"1\"");
}

#[test]
fn holdings_of_unknown_archives_are_not_found() {
    let held = archive();
    let running = Running::start(vec![held.entry("held")]);
    for path in [
        "/holdings/nobody",
        "/holdings/held",
        "/holdings/held/report",
        "/holdings/",
    ] {
        assert_eq!(ask(running.address, "GET", path, &[]).status, 404, "{path}");
    }
}
