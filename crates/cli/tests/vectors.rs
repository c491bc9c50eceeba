//! Recorded runs of MemGator's command: those of `waypost memgator` are the same, but for what
//! docs/memgator.md lists. Runs where `WAYPOST_SHARED` names the folder that holds them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use fakes::{Answer, Fake, Request};
use waypost_memento::{Datetime, Link};

#[path = "../../router/tests/fakes/mod.rs"]
mod fakes;
#[path = "../../../tests/oracles.rs"]
mod oracles;

const A: [&str; 4] = [
    "20100101000000",
    "20120615120000",
    "20150704080910",
    "20200229235959",
];
const B: [&str; 3] = ["20110301000000", "20120615120000", "20181231000000"];

/// The archive that was asked then: its TimeMap and its TimeGate list all mementos.
fn archive(stamps: &'static [&'static str]) -> Fake {
    Fake::start(move |request| {
        let uri = request.original();
        if uri.contains("notfound") {
            return Answer::new(404, "");
        }
        let links: Vec<String> = stamps.iter().map(|stamp| link(request, stamp)).collect();
        Answer::links(links.join(", ")).with("Link", links.join(", "))
    })
}

fn link(request: &Request, stamp: &str) -> String {
    let datetime = Datetime::parse_timestamp(stamp).unwrap();
    Link::new(format!("{}/{stamp}/{}", request.base, request.original()))
        .with("rel", "memento")
        .with("datetime", datetime.http())
        .to_string()
}

/// A fake of each style of TimeGate.
fn timegate(style: &'static str) -> Fake {
    Fake::start(move |request| {
        let stamp = A[0];
        let location = format!("{}/{stamp}/{}", request.base, request.original());
        let original = Link::new(request.original()).with("rel", "original");
        let link = link(request, stamp);
        match style {
            "st200" => Answer::new(200, "").with("Link", link),
            "multi" => Answer::new(302, "")
                .with("Location", location)
                .with("Link", original)
                .with("Link", link),
            "nolink" => Answer::new(302, "").with("Location", location),
            status => Answer::new(status[2..].parse().unwrap(), "")
                .with("Location", location)
                .with("Link", link),
        }
    })
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(folder: &Path, words: &[&str]) -> Ran {
    let ran = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .arg("memgator")
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    Ran {
        code: ran.status.code().unwrap(),
        stdout: String::from_utf8(ran.stdout).unwrap(),
        stderr: String::from_utf8(ran.stderr).unwrap(),
    }
}

fn entry(id: &str, name: &str, base: &str) -> String {
    format!(
        "{{\"id\": \"{id}\", \"name\": \"{name}\", \"timemap\": \"{base}/timemap/\", \"timegate\": \"{base}/timegate/\"}}"
    )
}

/// The runs in a recording: their words, what was printed without log lines, and the exit code.
fn runs(text: &str) -> Vec<(String, Vec<String>, i32)> {
    let mut runs: Vec<(String, Vec<String>, i32)> = Vec::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("$ ") {
            runs.push((words.to_owned(), Vec::new(), 0));
        } else if let Some((_, printed, code)) = runs.last_mut() {
            match line.strip_prefix("rc=") {
                Some(rc) => *code = rc.parse().unwrap(),
                None => printed.push(line.to_owned()),
            }
        }
    }
    runs
}

fn is_log(line: &str) -> bool {
    let logs = ["INFO: ", "ERROR: ", "BENCHMARK: "];
    logs.iter().any(|log| line.starts_with(log))
}

#[test]
fn runs_are_those_of_memgator() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let recorded = |name: &str| {
        let path = shared.join(format!("vectors/memgator/{name}.txt"));
        fs::read_to_string(path).unwrap()
    };
    let (a, b) = (archive(&A), archive(&B));
    let (missing, broken) = (
        Fake::start(|_| Answer::new(404, "")),
        Fake::start(|_| Answer::new(500, "")),
    );
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let list = [
        entry("a.example", "Archive A", &a.base()),
        entry("b.example", "Archive B", &b.base()),
        entry("nf.example", "Archive NotFound", &missing.base()),
        entry("dead.example", "Archive Dead", "http://127.0.0.1:9"),
        entry("err.example", "Archive 500", &broken.base()),
    ];
    fs::write(
        folder.join("archives.json"),
        format!("[{}]", list.join(",")),
    )
    .unwrap();
    let twice = [entry("a", "", &a.base()), entry("a2", "", &a.base())];
    fs::write(folder.join("dup.json"), format!("[{}]", twice.join(","))).unwrap();
    fs::write(folder.join("bad.json"), "[{bad").unwrap();
    fs::write(folder.join("empty.json"), "[]").unwrap();
    let wrong = "[{\"id\": \"a\", \"probability\": \"x\"}]";
    fs::write(folder.join("badtype.json"), wrong).unwrap();

    let translated = |text: &str| {
        text.replace("http://127.0.0.1:9101/a/", &format!("{}/", a.base()))
            .replace("http://127.0.0.1:9101/b/", &format!("{}/", b.base()))
    };
    // TimeMaps. Mementos with the same datetime are in the order of the list.
    let swapped = |line: &str| {
        line.replace("/a/20120615120000/", "/x/20120615120000/")
            .replace("/b/20120615120000/", "/a/20120615120000/")
            .replace("/x/20120615120000/", "/b/20120615120000/")
    };
    for (words, printed, code) in runs(&recorded("30_cli_timemap")) {
        let words: Vec<&str> = words.split(' ').skip(1).collect();
        let ran = run(folder, &words);
        let printed = printed.iter().filter(|line| !is_log(line));
        let expected: Vec<String> = printed.map(|line| translated(&swapped(line))).collect();
        assert_eq!(ran.code, code, "{words:?}");
        let ours: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(ours, expected, "{words:?}");
        let said: Vec<&str> = ran.stderr.lines().collect();
        assert!(
            matches!(said[..], [line] if line.starts_with("ERROR: ") && line.contains(": dead.example => Network error: ")),
            "{said:?}"
        );
    }
    // Descriptions. The memento before the closest is at another datetime.
    for (words, printed, code) in runs(&recorded("31_cli_memento")) {
        let words: Vec<&str> = words.split(' ').skip(1).collect();
        let words: Vec<&str> = ["-a", "archives.json"].into_iter().chain(words).collect();
        let ran = run(folder, &words);
        if let Some(fatal) = printed.iter().find_map(|line| line.strip_prefix("FATAL: ")) {
            // It names the line of its source.
            let what = fatal.split(": ").nth(1).unwrap();
            assert_eq!((ran.code, &ran.stdout[..]), (code, ""), "{words:?}");
            assert!(
                ran.stderr.starts_with(&format!("FATAL: {what}")),
                "{}",
                ran.stderr
            );
            continue;
        }
        let printed = printed.iter().filter(|line| !is_log(line));
        let printed: Vec<String> = printed.map(|line| translated(line)).collect();
        let printed = printed.join("\n");
        let (then, now) = (
            format!("{}/20120615120000/", b.base()),
            format!("{}/20110301000000/", b.base()),
        );
        let expected = printed
            .replace(&format!("20120615120000 {{\"uri\": \"{then}"), &format!("20110301000000 {{\"uri\": \"{now}"))
            .replace(
                &format!("{then}http://example.com/>; rel=\"prev memento\"; datetime=\"Fri, 15 Jun 2012 12:00:00 GMT\""),
                &format!("{now}http://example.com/>; rel=\"prev memento\"; datetime=\"Tue, 01 Mar 2011 00:00:00 GMT\""),
            )
            .replace(
                "\"rel\": \"prev memento\", \"datetime\": \"Fri, 15 Jun 2012 12:00:00 GMT\"",
                "\"rel\": \"prev memento\", \"datetime\": \"Tue, 01 Mar 2011 00:00:00 GMT\"",
            )
            .replace(
                &format!("\"prev\": {{\n      \"datetime\": \"2012-06-15T12:00:00Z\",\n      \"uri\": \"{then}"),
                &format!("\"prev\": {{\n      \"datetime\": \"2011-03-01T00:00:00Z\",\n      \"uri\": \"{now}"),
            );
        assert_eq!(
            (ran.code, ran.stdout.trim_end()),
            (code, expected.trim_end()),
            "{words:?}"
        );
    }
    // Only the first archives.
    for section in recorded("35_cli_topk").split("=== topk ").skip(1) {
        let (most, rows) = section.split_once('\n').unwrap();
        let rows = rows
            .lines()
            .filter(|line| !line.is_empty() && !is_log(line));
        let expected: Vec<String> = match section.contains("/b/") {
            true => rows.map(|line| translated(&swapped(line))).collect(),
            false => rows.map(translated).collect(),
        };
        let ran = run(
            folder,
            &[
                "-a",
                "archives.json",
                "-k",
                most,
                "-f",
                "cdxj",
                "http://example.com/",
            ],
        );
        let rows: Vec<&str> = ran
            .stdout
            .lines()
            .filter(|line| !line.starts_with('!'))
            .collect();
        assert_eq!(rows, expected, "{most}");
    }
    // Each memento once.
    let ran = run(
        folder,
        &["-a", "dup.json", "-f", "cdxj", "http://example.com/"],
    );
    let mut expected: Vec<String> = Vec::new();
    for line in recorded("36_cli_duplicates").lines() {
        let line = translated(line);
        let is_same = |last: &String| line.starts_with("20") && last[..14] == line[..14];
        match expected.last_mut() {
            // The last of the two is the one that says `last`.
            Some(last) if is_same(last) && line.contains("last memento") => *last = line,
            Some(last) if is_same(last) => {}
            _ => expected.push(line),
        }
    }
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), expected);
    // How flags are written.
    let mut checked = 0;
    for (words, printed, code) in runs(&recorded("53_flag_syntax")) {
        let line = words.clone();
        let words: Vec<&str> = words.split(' ').skip(1).collect();
        match &words[..] {
            // Would ask a server on the Internet for the list.
            ["http://example.com/", ..] => continue,
            // Crashed.
            ["-Vm", ..] => assert_eq!(run(folder, &words).code, 0),
            _ => {
                let ran = run(folder, &words);
                assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
                let said = format!("{}{}", ran.stdout, ran.stderr);
                let first = printed.iter().find(|line| !line.trim().is_empty());
                let first = first.map_or("", |line| &line[..]);
                match first {
                    _ if line.ends_with("-h") => assert!(said.contains("Usage:")),
                    fatal if fatal.starts_with("FATAL: ") => {
                        let text = fatal.split(": ").nth(2).unwrap();
                        assert!(
                            said.starts_with(&format!("FATAL: {text}")),
                            "{line}: {said}"
                        );
                    }
                    first => assert!(said.contains(first), "{line}: {said}\n{first}"),
                }
            }
        }
        checked += 1;
    }
    assert!(checked > 10, "only {checked} runs");
    for (what, _, code) in runs(&recorded("32_cli_errors")) {
        let words: &[&str] = match &what[..] {
            "notfound" => &["-a", "archives.json", "http://notfound.example/"],
            "bad uri" => &["-a", "archives.json", "http://exa mple:port/"],
            "missing arcs" => &["-a", "/nonexistent", "http://example.com/"],
            "bad flag" => &["--nope"],
            _ => continue,
        };
        assert_eq!(run(folder, words).code, code, "{what}");
    }
    // TimeGates: all are understood.
    let mut styles = 0;
    for section in recorded("50_timegate_styles")
        .split("== upstream timegate style ")
        .skip(1)
    {
        let style = section.lines().next().unwrap().to_owned();
        let style: &'static str = Box::leak(style.into_boxed_str());
        let fake = timegate(style);
        let list = format!("[{}]", entry(style, "", &fake.base()));
        fs::write(folder.join("one.json"), list).unwrap();
        let ran = run(
            folder,
            &[
                "-a",
                "one.json",
                "-f",
                "cdxj",
                "http://example.com/",
                "2012",
            ],
        );
        let row = ran.stdout.lines().last().unwrap_or_default();
        if style == "nolink" {
            // It does not say that it leads to a memento.
            assert_eq!(row, "", "{style}");
            styles += 1;
            continue;
        }
        let expected = format!(
            "20100101000000 {{\"uri\": \"{}/20100101000000/http://example.com/\", \"rel\": \"first last closest memento\", \"datetime\": \"Fri, 01 Jan 2010 00:00:00 GMT\"}}",
            fake.base()
        );
        assert_eq!(row, expected, "{style}");
        styles += 1;
    }
    assert!(styles >= 8);
}
