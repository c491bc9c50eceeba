//! `waypost serve` and `waypost memgator`.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::fakes::{Answer, Fake};
use super::http::ask;
use super::inputs::signal;
use super::run;

/// An archive with TimeMaps and a TimeGate.
fn archive(timestamps: &'static [&'static str]) -> Fake {
    Fake::start(move |request| {
        let uri = request.original();
        if uri.contains("notfound") {
            return Answer::new(404, "");
        }
        let links = super::fakes::timemap(uri, &request.base, timestamps);
        let header = String::from_utf8(links.clone()).unwrap().replace('\n', " ");
        Answer::links(links).with("Link", header.trim_end())
    })
}

fn write_list(path: &Path, archives: &[(&str, &Fake)]) {
    let entries = archives.iter().map(|(id, fake)| {
        let base = fake.base();
        format!("{{\"id\": \"{id}\", \"timemap\": \"{base}/timemap/link\", \"timegate\": \"{base}/timegate\"}}")
    });
    let list = format!("[{}]", entries.collect::<Vec<_>>().join(", "));
    // Whole or not at all: the server reads it when it changes.
    let new = path.with_extension("new");
    fs::write(&new, list).unwrap();
    fs::rename(new, path).unwrap();
}

struct Served {
    process: Child,
    said: Lines<BufReader<ChildStderr>>,
    address: SocketAddr,
}

impl Served {
    fn start(folder: &Path, words: &[&str]) -> Served {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args(words)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = said.by_ref().map(Result::unwrap).find_map(|line| {
            let address = line.strip_prefix("listening on http://")?;
            Some(address.trim_end_matches('/').parse().unwrap())
        });
        Served {
            process,
            said,
            address: address.expect("the server listens"),
        }
    }

    fn count(&self, path: &str) -> Option<String> {
        let reply = ask(self.address, "GET", path, &[]);
        reply.header("x-memento-count").map(str::to_owned)
    }

    fn stop(mut self) {
        signal(&self.process, "-TERM");
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        assert!(self.said.any(|line| line.unwrap() == "stopped"));
    }
}

#[test]
fn an_aggregator_takes_another_list_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("archives.json");
    let (a, b) = (archive(&["2010"]), archive(&["2011", "2012"]));
    write_list(&list, &[("a", &a)]);
    let served = Served::start(
        folder.path(),
        &["serve", "-a", "archives.json", "-l", "127.0.0.1:0"],
    );
    let path = "/timemap/link/http://example.com/";
    assert_eq!(served.count(path).as_deref(), Some("1"));
    // What is kept of it is not enough for a longer list.
    let links = ask(served.address, "GET", path, &[]);
    let this = format!(
        "<http://localhost:{}{path}>; rel=\"self\"",
        served.address.port()
    );
    assert!(links.text().contains(&this), "{}", links.text());
    // A broken list changes nothing.
    fs::write(&list, "[{").unwrap();
    signal(&served.process, "-HUP");
    sleep(Duration::from_millis(200));
    assert_eq!(
        served
            .count("/timemap/link/http://example.com/2")
            .as_deref(),
        Some("1")
    );
    write_list(&list, &[("a", &a), ("b", &b)]);
    signal(&served.process, "-HUP");
    let mut attempts = 0;
    while served
        .count(&format!("/timemap/link/http://example.com/x{attempts}"))
        .as_deref()
        != Some("3")
    {
        attempts += 1;
        assert!(attempts < 1200, "the new list is not used");
        sleep(Duration::from_millis(50));
    }
    assert_eq!(served.count(path).as_deref(), Some("3"));
    // Without a signal, too.
    write_list(&list, &[("b", &b)]);
    while served.count(path).as_deref() != Some("2") {
        attempts += 1;
        assert!(attempts < 2400, "the changed list is not used");
        sleep(Duration::from_millis(50));
    }
    served.stop();
}

#[test]
fn a_configuration_is_checked_and_overruled() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = archive(&["2010"]);
    write_list(&at("archives.json"), &[("a", &a)]);
    fs::write(
        at("ok.toml"),
        "archives = \"archives.json\"\n[server]\nroot = \"x\"\n",
    )
    .unwrap();
    fs::write(
        at("bad.toml"),
        "archives = \"archives.json\"\n[server]\nrooot = \"x\"\n",
    )
    .unwrap();
    let path = |name: &str| at(name).to_str().unwrap().to_owned();
    let checked = run(
        &[
            "serve",
            "-c",
            &path("ok.toml"),
            "--root",
            "y",
            "--check-config",
        ],
        b"",
    );
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains("root = \"/y/\""),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.contains("id = \"a\""), "{}", checked.stdout);
    let bad = run(&["serve", "-c", &path("bad.toml"), "--check-config"], b"");
    assert_eq!(bad.code, 2);
    assert!(
        bad.stderr.contains("bad.toml")
            && bad.stderr.contains("line 3")
            && bad.stderr.contains("rooot"),
        "{}",
        bad.stderr
    );
    let served = Served::start(
        folder.path(),
        &[
            "serve",
            "-c",
            "ok.toml",
            "--listen",
            "127.0.0.1:0",
            "--proxy",
            "https://agg.example/",
        ],
    );
    let reply = ask(
        served.address,
        "GET",
        "/x/timemap/json/http://example.com/",
        &[],
    );
    assert!(
        reply
            .text()
            .contains("\"self\": \"https://agg.example/timemap/json/http://example.com/\""),
        "{}",
        reply.text()
    );
    served.stop();
    let nothing = run(&["serve"], b"");
    assert_eq!(nothing.code, 2);
    fs::write(at("empty.json"), "[]").unwrap();
    let empty = run(&["serve", "-a", &path("empty.json")], b"");
    assert!(
        empty.code == 2 && empty.stderr.contains("hint: "),
        "{}",
        empty.stderr
    );
}

#[test]
fn memgator_prints_timemaps_and_descriptions() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("archives.json");
    let (a, b) = (archive(&["2010", "2012"]), archive(&["2011"]));
    write_list(&list, &[("a", &a), ("b", &b)]);
    let list = list.to_str().unwrap();
    let uri =
        |fake: &Fake, year: &str| format!("{}/{year}0101000000/http://example.com", fake.base());
    let cdxj = run(
        &[
            "memgator",
            &format!("--arcs={list}"),
            "-f=CDXJ",
            "example.com",
        ],
        b"",
    );
    assert_eq!(cdxj.code, 0, "{}", cdxj.stderr);
    let expected = format!(
        "!context [\"https://oduwsdl.github.io/contexts/memento\"]\n\
         !id {{\"uri\": \"http://localhost:1208/timemap/cdxj/http://example.com\"}}\n\
         !keys [\"memento_datetime_YYYYMMDDhhmmss\"]\n\
         !meta {{\"original_uri\": \"http://example.com\"}}\n\
         !meta {{\"timegate_uri\": \"http://localhost:1208/timegate/http://example.com\"}}\n\
         !meta {{\"timemap_uri\": {{\"link_format\": \"http://localhost:1208/timemap/link/http://example.com\", \
         \"json_format\": \"http://localhost:1208/timemap/json/http://example.com\", \
         \"cdxj_format\": \"http://localhost:1208/timemap/cdxj/http://example.com\"}}}}\n\
         20100101000000 {{\"uri\": \"{}\", \"rel\": \"first memento\", \"datetime\": \"Fri, 01 Jan 2010 00:00:00 GMT\"}}\n\
         20110101000000 {{\"uri\": \"{}\", \"rel\": \"memento\", \"datetime\": \"Sat, 01 Jan 2011 00:00:00 GMT\"}}\n\
         20120101000000 {{\"uri\": \"{}\", \"rel\": \"last memento\", \"datetime\": \"Sun, 01 Jan 2012 00:00:00 GMT\"}}\n",
        uri(&a, "2010"),
        uri(&b, "2011"),
        uri(&a, "2012"),
    );
    assert_eq!(cdxj.stdout, expected);
    let described = run(
        &[
            "memgator",
            "-Vm",
            "-a",
            list,
            "-P",
            "https://agg.example/x/",
            "-f",
            "link",
            "http://example.com",
            "2011",
            "extra",
        ],
        b"",
    );
    let lines: Vec<&str> = described.stdout.lines().collect();
    assert_eq!(lines.len(), 8, "{}", described.stdout);
    assert_eq!(
        lines[2],
        format!(
            "<{}>; rel=\"memento\"; datetime=\"Sat, 01 Jan 2011 00:00:00 GMT\",",
            uri(&b, "2011")
        )
    );
    assert_eq!(
        lines[7],
        "<https://agg.example/x/timegate/http://example.com>; rel=\"timegate\""
    );
    // Only the first archives.
    for (most, rows) in [("0", 0), ("1", 2), ("2", 3), ("-1", 3), ("99", 3)] {
        let top = run(
            &[
                "memgator",
                "-a",
                list,
                "-k",
                most,
                "-f",
                "cdxj",
                "http://example.com",
            ],
            b"",
        );
        assert_eq!(
            top.stdout
                .lines()
                .filter(|line| line.starts_with("20"))
                .count(),
            rows,
            "{most}"
        );
    }
}

#[test]
fn memgator_exits_as_memgator_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let a = archive(&["2010"]);
    write_list(Path::new(&at("list.json")), &[("a", &a)]);
    fs::write(at("empty.json"), "[]").unwrap();
    fs::write(at("bad.json"), "[{bad").unwrap();
    fs::write(at("type.json"), r#"[{"id": "a", "probability": "x"}]"#).unwrap();
    let (list, empty) = (at("list.json"), at("empty.json"));
    for (words, code, stdout, stderr) in [
        (vec![], 0, "", "Usage:"),
        (vec!["-h"], 0, "", "-f, --format=Link"),
        (vec!["-v"], 0, "MemGator (1.0-rc9)", ""),
        (
            vec!["--nope"],
            2,
            "",
            "flag provided but not defined: --nope\nSee 'waypost memgator --help'.\n",
        ),
        (
            vec!["-a", &list, "-k", "x", "http://example.com/"],
            2,
            "",
            "invalid value \"x\" for flag -k",
        ),
        (
            vec!["-a", &list, "-T", "5", "http://example.com/"],
            2,
            "",
            "missing unit in duration",
        ),
        (vec!["-a", &empty, "http://example.com/"], 0, "", ""),
        (vec!["-a", &list, "http://notfound.example/"], 0, "", ""),
        (
            vec!["-a", &list, "-f", "xml", "http://example.com/"],
            0,
            "Unrecognized format: xml\n",
            "",
        ),
        (
            vec!["-a", &list, "http://exa mple:port/"],
            1,
            "",
            "FATAL: URI parsing error (http://exa mple:port/)",
        ),
        (
            vec!["-a", &list, "http://example.com/", "2012x"],
            1,
            "",
            "FATAL: Malformed datetime (YYYY[MM[DD[hh[mm[ss]]]]]): 2012x\n",
        ),
        (
            vec!["-a", &list, "http://example.com/", "20121301"],
            1,
            "",
            "FATAL: Time parsing error (20121301)",
        ),
        (
            vec!["-a", "/nonexistent", "http://example.com/"],
            1,
            "",
            "FATAL: Error reading list of archives (/nonexistent)",
        ),
        (
            vec!["-a", &at("bad.json"), "http://example.com/"],
            1,
            "",
            "FATAL: ",
        ),
        (
            vec!["-a", &at("type.json"), "http://example.com/"],
            1,
            "",
            "FATAL: ",
        ),
    ] {
        let words: Vec<&str> = ["memgator"].into_iter().chain(words).collect();
        let ran = run(&words, b"");
        assert_eq!(ran.code, code, "{words:?}: {}", ran.stderr);
        assert!(
            ran.stdout.contains(stdout) && stdout.is_empty() == ran.stdout.is_empty(),
            "{words:?}: {}",
            ran.stdout
        );
        assert!(ran.stderr.contains(stderr), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn memgator_serves() {
    let folder = tempfile::tempdir().unwrap();
    let a = archive(&["2010"]);
    write_list(&folder.path().join("archives.json"), &[("a", &a)]);
    let words = [
        "memgator",
        "-a",
        "archives.json",
        "-p",
        "0",
        "-H",
        "agg.example",
        "-R",
        "mg",
        "-F",
        "3",
        "-d",
        "3s",
        "server",
    ];
    let served = Served::start(folder.path(), &words);
    assert!(served.address.ip().is_loopback());
    let about = ask(served.address, "GET", "/mg/", &[]);
    for line in [
        "TimeMap:  http://agg.example:0/mg/timemap/{FORMAT}/{URI-R}\n",
        "Archives list location: archives.json\n",
        "Service path prefix:    /mg/\n",
        "Response timeout:       1m0s\n\nFailure tolerance:      3\nDormant period:         3s\n\n",
        "Benchmark location:     STDERR\n",
    ] {
        assert!(about.text().contains(line), "{}", about.text());
    }
    let timemap = ask(
        served.address,
        "GET",
        "/mg/timemap/link/http://example.com/",
        &[],
    );
    let this = "<http://agg.example:0/mg/timemap/link/http://example.com/>; rel=\"self\"; type=\"application/link-format\",\n";
    assert!(timemap.text().contains(this), "{}", timemap.text());
    served.stop();
}

#[test]
fn memgator_logs_as_memgator_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let a = archive(&["2010"]);
    write_list(Path::new(&at("list.json")), &[("a", &a)]);
    let words = |more: &[&str], uri: &str| -> Vec<String> {
        let list = at("list.json");
        let words = ["memgator", "-a", &list];
        let words = words.iter().chain(more).chain([&uri]);
        words.map(|word| (*word).to_owned()).collect()
    };
    let run = |more: &[&str], uri: &str| {
        let words = words(more, uri);
        run(&words.iter().map(String::as_str).collect::<Vec<_>>(), b"")
    };
    let silent = run(&[], "http://example.com/");
    assert_eq!((silent.code, &silent.stderr[..]), (0, ""));
    let loud = run(&["-V"], "http://example.com/");
    let first: Vec<String> = loud
        .stderr
        .lines()
        .map(|line| {
            let mut words = line.split(' ').collect::<Vec<_>>();
            words.drain(1..3);
            words.join(" ")
        })
        .collect();
    assert_eq!(
        first[1],
        format!("INFO: Loading archives from {}", at("list.json"))
    );
    assert!(
        first[2].contains("\"role\": \"createsess\", \"info\": \"Session created - Duration: ")
    );
    assert_eq!(
        first[3],
        "INFO: Aggregating Mementos for http://example.com/"
    );
    let last = first.last().unwrap();
    assert!(last.starts_with("INFO: Uptime: "), "{last}");
    // To files.
    let (log, benchmark) = (at("log"), at("benchmark"));
    let quiet = run(&["-l", &log, "-b", &benchmark], "http://example.com/");
    assert_eq!((quiet.code, &quiet.stderr[..]), (0, ""));
    let (log, benchmark) = (
        fs::read_to_string(log).unwrap(),
        fs::read_to_string(benchmark).unwrap(),
    );
    assert!(log.lines().all(|line| line.starts_with("INFO: ")), "{log}");
    assert!(
        benchmark
            .lines()
            .all(|line| line.starts_with("BENCHMARK: ")),
        "{benchmark}"
    );
    assert_eq!(benchmark.lines().count(), 7, "{benchmark}");
    // Only errors are told without being asked for.
    fs::write(
        at("list.json"),
        "[{\"id\": \"dead\", \"timemap\": \"http://127.0.0.1:9/\"}]",
    )
    .unwrap();
    let dead = run(&[], "http://example.com/");
    assert_eq!(dead.stderr.lines().count(), 1, "{}", dead.stderr);
    assert!(
        dead.stderr.starts_with("ERROR: ") && dead.stderr.contains(": dead => Network error: ")
    );
}

#[test]
fn timemap_and_memento_print_what_archives_hold() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("archives.json");
    let (a, b) = (archive(&["2010", "2012"]), archive(&["2011"]));
    write_list(&list, &[("a", &a), ("b", &b)]);
    let list = list.to_str().unwrap();
    let uri = "http://example.com/";
    let timemap = run(&["timemap", uri, "-a", list, "--format", "cdxj"], b"");
    assert_eq!((timemap.code, &timemap.stderr[..]), (0, ""));
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("20")).count();
    assert_eq!(rows(&timemap.stdout), 3, "{}", timemap.stdout);
    let some = run(
        &[
            "timemap",
            uri,
            "-a",
            list,
            "-f",
            "cdxj",
            "--from",
            "2011-01-01",
            "--limit",
            "-1",
        ],
        b"",
    );
    assert_eq!(rows(&some.stdout), 1, "{}", some.stdout);
    assert!(some.stdout.contains("\n20120101000000 "), "{}", some.stdout);
    let only = run(
        &["timemap", uri, "-a", list, "-f", "cdxj", "--only", "b"],
        b"",
    );
    assert_eq!(rows(&only.stdout), 1, "{}", only.stdout);
    let memento = run(&["memento", uri, "2011", "-a", list], b"");
    let expected = format!("{}/20110101000000/{uri}\n", b.base());
    assert_eq!((memento.code, memento.stdout), (0, expected));
    let now = run(&["memento", uri, "-a", list, "--format", "json"], b"");
    let json: serde_json::Value = serde_json::from_str(&now.stdout).unwrap();
    let last = format!("{}/20120101000000/{uri}", a.base());
    assert_eq!(json["mementos"]["closest"]["uri"], last);
    for (words, code, message) in [
        (
            vec!["timemap", "http://notfound.example/", "-a", list],
            1,
            "no mementos found",
        ),
        (
            vec!["memento", "http://notfound.example/", "-a", list],
            1,
            "no mementos found",
        ),
        (
            vec!["timemap", uri, "-a", list, "--only", "c"],
            2,
            "hint: the archives are: a, b",
        ),
        (
            vec!["timemap", uri, "-a", list, "--only", "a,!b"],
            2,
            "a,b or !a,!b",
        ),
        (
            vec!["timemap", "http://exa mple:port/", "-a", list],
            2,
            "hint: write it as",
        ),
        (
            vec!["timemap", uri, "-a", list, "-f", "xml"],
            2,
            "link, json or cdxj",
        ),
        (
            vec!["memento", uri, "soon", "-a", list],
            2,
            "invalid time `soon`",
        ),
        (vec!["timemap", uri], 2, "--archives"),
    ] {
        let ran = run(&words, b"");
        assert_eq!(ran.code, code, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{words:?}: {}", ran.stderr);
    }
    // Archives that fail are named.
    let dead = folder.path().join("dead.json");
    let entries = format!(
        "[{{\"id\": \"dead\", \"timemap\": \"http://127.0.0.1:9/\"}}, {{\"id\": \"a\", \"timemap\": \"{}/timemap/link/\"}}]",
        a.base()
    );
    fs::write(&dead, entries).unwrap();
    let some = run(&["timemap", uri, "-a", dead.to_str().unwrap()], b"");
    assert_eq!(some.code, 0);
    assert!(
        some.stderr.starts_with("warning: dead: cannot connect"),
        "{}",
        some.stderr
    );
}
