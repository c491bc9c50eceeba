//! The answers that pywb gave are given here, but for the differences in docs/cdx-server.md.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod serving;

use serving::{Reply, Running, ask, write_flat};
use waypost_archive::Options;

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// A recorded request and its answer.
struct Recorded {
    path: String,
    head: bool,
    accept_datetime: Option<String>,
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

fn recorded(name: &str) -> Option<Recorded> {
    let file = oracles::shared()?.join("vectors/pywb").join(name);
    let text = std::fs::read_to_string(file).unwrap().replace('\r', "");
    let (request, answer) = text.split_once('\n').unwrap();
    let (head, body) = answer.split_once("\n\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let url = request.rsplit_once(" http://").unwrap().1;
    let (_, path) = url.split_once('/').unwrap();
    let accept = request.split_once("Accept-Datetime: ");
    Some(Recorded {
        path: format!("/{path}"),
        head: request.contains(" -I "),
        accept_datetime: accept.map(|(_, rest)| rest.split_once(" http://").unwrap().0.to_owned()),
        status: status.parse().unwrap(),
        headers: lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: body.trim_end_matches('\n').to_owned(),
    })
}

/// The archive of the recordings, at the address that they were recorded at.
fn archive(port: u16) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"org,iana)/ 20140126200624 {"url": "http://www.iana.org/", "mime": "text/html", "status": "200", "digest": "OSSAPWJ23L56IYVRW3GFEAR4MCJMGPTB", "length": "2258", "offset": "334", "filename": "iana.warc.gz"}"#;
    let path = write_flat(&folder.path().join("index.cdxj"), &[line.to_owned()]);
    let public = format!("http://127.0.0.1:{port}");
    let options = Options {
        replay: Some(
            format!("{public}/test/{{timestamp}}mp_/{{url}}")
                .parse()
                .unwrap(),
        ),
        public_url: Some(public),
        ..Options::default()
    };
    (Running::start(&[("test", &[path])], options), folder)
}

fn asked(server: &Running, recorded: &Recorded) -> Reply {
    let headers: Vec<(&str, &str)> = recorded
        .accept_datetime
        .iter()
        .map(|datetime| ("Accept-Datetime", &datetime[..]))
        .collect();
    let method = if recorded.head { "HEAD" } else { "GET" };
    ask(server.address, method, &recorded.path, &headers)
}

#[test]
fn timemaps_and_queries_are_those_of_pywb() {
    for name in [
        "01_timemap_link.txt",
        "02_timemap_json.txt",
        "03_timemap_cdxj.txt",
        "04_timemap_nf.txt",
        "10_cdx.txt",
    ] {
        let Some(recorded) = recorded(name) else {
            return;
        };
        let (server, _folder) = archive(8080);
        let reply = asked(&server, &recorded);
        assert_eq!(reply.status, recorded.status, "{name}");
        // pywb names the index by its path below the folder of collections.
        let body = reply
            .text()
            .replace("\"index.cdxj\"", "\"test/indexes/index.cdxj\"");
        assert_eq!(body.trim_end_matches('\n'), recorded.body, "{name}");
        for (name, value) in &recorded.headers {
            match &name[..] {
                "content-type" | "link" => assert_eq!(reply.header(name), Some(&value[..])),
                "vary" => assert!(reply.headers.contains(&(name.clone(), value.clone()))),
                _ => {}
            }
        }
    }
}

#[test]
fn timegates_are_those_of_pywb() {
    for (name, port) in [
        ("05_timegate_200.txt", 8080),
        ("07_timegate_nf.txt", 8080),
        ("07b_timegate_nf_mp.txt", 8080),
        ("09_timegate_badad.txt", 8080),
        ("11_redir_timegate.txt", 8081),
        ("12_redir_timegate_mp.txt", 8081),
    ] {
        let Some(recorded) = recorded(name) else {
            return;
        };
        let (server, _folder) = archive(port);
        let reply = asked(&server, &recorded);
        // Where pywb sends the page itself or 307, we send the redirect of RFC 7089.
        let expected = match recorded.status {
            200 | 307 => 302,
            other => other,
        };
        assert_eq!(reply.status, expected, "{name}");
        let headers = recorded.headers.iter();
        for (header, value) in headers.filter(|(name, _)| ["link", "vary"].contains(&&name[..])) {
            assert_eq!(reply.header(header), Some(&value[..]), "{name}");
        }
        let memento =
            format!("http://127.0.0.1:{port}/test/20140126200624mp_/http://www.iana.org/");
        if expected == 302 {
            assert_eq!(reply.header("location"), Some(&memento[..]), "{name}");
        }
    }
}
