//! Real archives and real clients of the aggregator: two servers of pywb, one of which redirects to exact
//! mementos, and `waypost index serve` are asked; pywb and memento_client ask. Runs where
//! `WAYPOST_PYTHON` names a Python that has the packages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use peers::{Peer, run};
use serde_json::Value;

#[path = "../../../tests/http.rs"]
mod http;
#[path = "../../../tests/oracles.rs"]
mod oracles;
#[path = "../../../tests/peers.rs"]
mod peers;

use http::{Reply, ask};

const PAGE: &str = "http://www.example.com/page";

/// What a capture of the page says.
fn content(archive: &str, stamp: &str) -> String {
    format!("<html><body><a href=\"/x\">{archive} {stamp}</a></body></html>")
}

/// A WARC file with captures of the page at these timestamps.
fn write_warc(path: &Path, archive: &str, stamps: &[&str]) {
    let mut file = fs::File::create(path).unwrap();
    for (number, stamp) in stamps.iter().enumerate() {
        let body = content(archive, stamp);
        let http = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let date = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &stamp[..4],
            &stamp[4..6],
            &stamp[6..8],
            &stamp[8..10],
            &stamp[10..12],
            &stamp[12..]
        );
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {PAGE}\r\nWARC-Date: {date}\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
            http.len()
        );
        let mut member = GzEncoder::new(&mut file, Compression::default());
        member.write_all(record.as_bytes()).unwrap();
        member.finish().unwrap();
    }
}

/// Indexes a WARC file.
fn index(warc: &Path) -> PathBuf {
    let index = warc.with_file_name("index.cdxj");
    let status = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(["--quiet", "index", "warc"])
        .arg(warc)
        .arg("-o")
        .arg(&index)
        .status()
        .unwrap();
    assert!(status.success());
    index
}

/// A server of pywb that has captures of the page.
fn pywb_archive(python: &Path, folder: &Path, name: &str, exact: bool, stamps: &[&str]) -> Peer {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    let warc = folder.join("a.warc.gz");
    write_warc(&warc, name, stamps);
    index(&warc);
    let config = format!(
        "redirect_to_exact: {exact}\ncollections:\n  coll:\n    index_paths: ./index.cdxj\n    archive_paths: ./\n"
    );
    fs::write(folder.join("config.yaml"), config).unwrap();
    Peer::start(python, "wayback", &folder)
}

/// A server of our own, which is stopped when it is dropped.
struct Served {
    process: Child,
    address: SocketAddr,
}

impl Served {
    fn start(folder: &Path, words: &[&str]) -> Served {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args(words)
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = said.map(Result::unwrap).find_map(|line| {
            let address = line.strip_prefix("listening on http://")?;
            Some(address.trim_end_matches('/').parse().unwrap())
        });
        Served {
            process,
            address: address.expect("the server listens"),
        }
    }

    fn get(&self, path: &str) -> Reply {
        ask(self.address, "GET", path, &[])
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The archives and the aggregator.
struct World {
    folder: tempfile::TempDir,
    python: PathBuf,
    plain: Peer,
    exact: Peer,
    index: Served,
    aggregator: Served,
}

const PLAIN: [&str; 3] = ["20100101000000", "20140601120000", "20180301090000"];
const EXACT: [&str; 2] = ["20120229235959", "20140601120000"];
const INDEX: [&str; 2] = ["20110405060708", "20200707070707"];

impl World {
    fn start(python: PathBuf) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let plain = pywb_archive(&python, path, "plain", false, &PLAIN);
        let exact = pywb_archive(&python, path, "exact", true, &EXACT);
        let warc = path.join("index.warc.gz");
        write_warc(&warc, "index", &INDEX);
        index(&warc);
        let replay = "http://replay.example/{timestamp}/{url}";
        let index = Served::start(path, &["index", "serve", "index.cdxj", "--replay", replay]);
        let list = format!(
            r#"[{{"id": "plain", "timemap": "http://{plain}/coll/timemap/link/", "timegate": "http://{plain}/coll/mp_/"}},
                {{"id": "exact", "timemap": "http://{exact}/coll/timemap/link/", "timegate": "http://{exact}/coll/"}},
                {{"id": "index", "timemap": "http://{index}/all/timemap/link/", "timegate": "http://{index}/all/timegate/"}}]"#,
            plain = plain.address,
            exact = exact.address,
            index = index.address,
        );
        fs::write(path.join("archives.json"), list).unwrap();
        // The same captures once more, as rows of an index.
        let config = format!(
            "archives = \"archives.json\"\n[[archive]]\nid = \"rows\"\ncdx = \"http://{}/all/cdx\"\nreplay = \"{replay}\"\n",
            index.address
        );
        fs::write(path.join("waypost.toml"), config).unwrap();
        let words = ["serve", "-c", "waypost.toml", "--log", "log", "--no-cache"];
        let aggregator = Served::start(path, &words);
        World {
            python,
            plain,
            exact,
            index,
            aggregator,
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The URI of a memento.
    fn memento(&self, archive: &str, stamp: &str) -> String {
        match archive {
            "plain" => format!("http://{}/coll/{stamp}mp_/{PAGE}", self.plain.address),
            "exact" => format!("http://{}/coll/{stamp}mp_/{PAGE}", self.exact.address),
            _ => format!("http://replay.example/{stamp}/{PAGE}"),
        }
    }
}

#[test]
fn archives_and_clients_of_others_work_with_the_aggregator() {
    let Some(python) = oracles::python() else {
        return;
    };
    let world = World::start(python);
    timemaps_have_all_mementos(&world);
    timegates_are_understood(&world);
    mementos_are_passed_on(&world);
    memento_client_finds_mementos(&world);
    pywb_replays_from_all_archives(&world);
}

fn timemaps_have_all_mementos(world: &World) {
    let reply = world.aggregator.get(&format!("/timemap/json/{PAGE}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    let incomplete = reply.header("x-waypost-incomplete");
    assert_eq!(incomplete, None, "{}", world.log());
    let timemap: Value = serde_json::from_slice(&reply.body).unwrap();
    let list = timemap["mementos"]["list"].as_array().unwrap();
    let uris: Vec<&str> = list.iter().map(|m| m["uri"].as_str().unwrap()).collect();
    let expected = [
        ("plain", PLAIN[0]),
        ("index", INDEX[0]),
        ("exact", EXACT[0]),
        ("plain", PLAIN[1]),
        ("exact", EXACT[1]),
        ("plain", PLAIN[2]),
        ("index", INDEX[1]),
    ];
    let expected = expected.map(|(archive, stamp)| world.memento(archive, stamp));
    assert_eq!(uris, expected);
    // The archives have what we say they have.
    for (archive, stamp) in [("plain", PLAIN[1]), ("exact", EXACT[0])] {
        let uri = world.memento(archive, stamp).replace("mp_", "id_");
        let (authority, path) = uri["http://".len()..].split_once('/').unwrap();
        let body = ask(authority.parse().unwrap(), "GET", &format!("/{path}"), &[]);
        assert_eq!(body.text(), content(archive, stamp));
    }
    let missing = world
        .aggregator
        .get("/timemap/link/http://nothing.example/");
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.header("x-waypost-incomplete"),
        None,
        "{}",
        world.log()
    );
}

fn timegates_are_understood(world: &World) {
    for (datetime, archive, stamp) in [
        ("Fri, 01 Jan 2010 00:00:00 GMT", "plain", PLAIN[0]),
        ("Tue, 05 Apr 2011 06:07:08 GMT", "index", INDEX[0]),
        // Only this archive has it, and it answers with 307.
        ("Wed, 29 Feb 2012 23:59:59 GMT", "exact", EXACT[0]),
        ("Sun, 01 Jun 2014 12:00:00 GMT", "plain", PLAIN[1]),
        ("Tue, 07 Jul 2020 07:07:07 GMT", "index", INDEX[1]),
        ("Wed, 01 Jan 2025 00:00:00 GMT", "index", INDEX[1]),
    ] {
        let headers = [("Accept-Datetime", datetime)];
        let path = format!("/timegate/{PAGE}");
        for method in ["GET", "HEAD"] {
            let reply = ask(world.aggregator.address, method, &path, &headers);
            assert_eq!(reply.status, 302, "{reply:?}");
            let location = reply.header("location").unwrap();
            assert_eq!(location, world.memento(archive, stamp), "{datetime}");
            assert_eq!(
                reply.header("x-waypost-incomplete"),
                None,
                "{}",
                world.log()
            );
        }
    }
    let missing = world.aggregator.get("/timegate/http://nothing.example/");
    assert_eq!(missing.status, 404, "{missing:?}");
    assert_eq!(
        missing.header("x-waypost-incomplete"),
        None,
        "{}",
        world.log()
    );
}

fn mementos_are_passed_on(world: &World) {
    let path = format!("/memento/proxy/{}/{PAGE}", EXACT[0]);
    let reply = world.aggregator.get(&path);
    assert_eq!(reply.text(), content("exact", EXACT[0]), "{reply:?}");
    assert_eq!(
        reply.header("memento-datetime"),
        Some("Wed, 29 Feb 2012 23:59:59 GMT")
    );
}

/// Prints the memento closest to a datetime and those around it, as memento_client finds them.
const MEMENTO_CLIENT: &str = r"
import datetime, http.server, json, os, sys, threading
from memento_client import MementoClient

# It asks the original server first, which answers here for all servers that are not on this machine.
class Original(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()
    do_GET = do_HEAD
    def log_message(self, *_):
        pass
original = http.server.HTTPServer(('127.0.0.1', 0), Original)
threading.Thread(target=original.serve_forever, daemon=True).start()
os.environ['http_proxy'] = 'http://127.0.0.1:%d' % original.server_address[1]
os.environ['no_proxy'] = '127.0.0.1'
base, page = sys.argv[1:]
client = MementoClient(timegate_uri=base + '/timegate/', check_native_timegate=False)
found = client.get_memento_info(page, datetime.datetime(2014, 6, 1, 12, 0, 0))
print(json.dumps({
    'original': found['original_uri'],
    'mementos': {name: m['uri'] for name, m in found['mementos'].items()},
}))
";

fn memento_client_finds_mementos(world: &World) {
    let base = format!("http://{}", world.aggregator.address);
    let found = run(&world.python, MEMENTO_CLIENT, &[&base, PAGE]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["original"], PAGE, "{found}");
    let closest = world.memento("plain", PLAIN[1]);
    assert_eq!(found["mementos"]["closest"][0], closest, "{found}");
    // pywb's TimeGates name only the closest memento; those of an index name all around it.
    assert_eq!(
        found["mementos"]["first"][0],
        world.memento("index", INDEX[0]),
        "{found}"
    );
    assert_eq!(
        found["mementos"]["last"][0],
        world.memento("index", INDEX[1]),
        "{found}"
    );
}

fn pywb_replays_from_all_archives(world: &World) {
    let folder = world.folder.path().join("client");
    fs::create_dir(&folder).unwrap();
    let base = format!("http://{}", world.aggregator.address);
    let config = format!(
        "collections:\n  agg:\n    index:\n      type: memento\n      timegate_url: {base}/timegate/{{url}}\n      \
         timemap_url: {base}/timemap/link/{{url}}\n      replay_url: http://{}/coll/{{timestamp}}id_/{{url}}\n",
        world.exact.address
    );
    fs::write(folder.join("config.yaml"), config).unwrap();
    let client = Peer::start(&world.python, "wayback", &folder);
    let timemap = ask(
        client.address,
        "GET",
        &format!("/agg/timemap/link/{PAGE}"),
        &[],
    );
    assert_eq!(timemap.status, 200, "{timemap:?}");
    let links = timemap.text();
    for stamp in PLAIN.iter().chain(&EXACT).chain(&INDEX) {
        assert!(
            links.contains(&format!("/agg/{stamp}mp_/{PAGE}>")),
            "{links}"
        );
    }
    let path = format!("/agg/{}id_/{PAGE}", EXACT[0]);
    let page = ask(client.address, "GET", &path, &[]);
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.text(), content("exact", EXACT[0]));
    // The index serves TimeMaps and TimeGates, not pages.
    assert_eq!(
        world.index.get(&format!("/all/timemap/link/{PAGE}")).status,
        200
    );
}
