//! What we write, read by pywb and memento_client. Runs where `WAYPOST_PYTHON` names a Python that has
//! the packages.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and say that it is skipped"
)]

use std::io::Write;
use std::process::{Command, Stdio};

use waypost_memento::{Datetime, Format, Memento, TimeMap, TimeMapLink};

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// Reads a TimeMap in link-format and prints the URI, relations and datetime of its mementos as
/// each of the packages understands them; at last the dates of both in the form of HTTP.
const PEER: &str = r"
import sys
from pywb.utils.memento import MementoUtils
from memento_client import MementoClient
from warcio.timeutils import http_date_to_timestamp, timestamp_to_http_date
text = sys.stdin.read()
for m in MementoUtils.parse_links(text)['mementos']:
    stamp = http_date_to_timestamp(m['datetime'])
    assert timestamp_to_http_date(stamp) == m['datetime'], m
    print('pywb', m['url'], m['rel'], stamp)
for uri, link in MementoClient.parse_link_header(text).items():
    if 'memento' in link['rel']:
        print('memento_client', uri, ' '.join(link['rel']), http_date_to_timestamp(link['datetime'][0]))
";

#[test]
fn timemaps_are_read_by_pywb_and_memento_client() {
    let Some(python) = oracles::python() else {
        return;
    };
    let mut timemap = TimeMap {
        original: "http://example.com/?a=1,2&b='x'".to_owned(),
        this: Some(TimeMapLink::new(
            "http://localhost/timemap/link/x",
            Format::Link,
        )),
        timegate: Some("http://localhost/timegate/x".to_owned()),
        ..TimeMap::default()
    };
    // A day in every month of 40 years.
    for month in 0..480 {
        let stamp = format!(
            "{}{:02}{:02}235959",
            1980 + month / 12,
            month % 12 + 1,
            month % 28 + 1
        );
        let uri = format!("http://archive.example/{stamp}/http://example.com/?a=1,{month}&b='x'");
        timemap.mementos.push(Memento::new(
            uri,
            Datetime::parse_timestamp(&stamp).unwrap(),
        ));
    }
    timemap.sort();
    let mut document = Vec::new();
    timemap.write(Format::Link, &mut document).unwrap();
    let mut peer = Command::new(python)
        .args(["-c", PEER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the Python of WAYPOST_PYTHON starts");
    peer.stdin.take().unwrap().write_all(&document).unwrap();
    let output = peer.wait_with_output().unwrap();
    assert!(output.status.success(), "the peer failed");
    let mut expected = String::new();
    for package in ["pywb", "memento_client"] {
        for memento in &timemap.mementos {
            let stamp = memento.datetime.timestamp();
            expected += &format!("{package} {} {} {stamp}\n", memento.uri, memento.relations);
        }
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
