//! Statistics equal those of a naive script with numpy and scipy, and those of cdx-summary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use waypost_index::generate::{Generator, Kind};
use waypost_insight::stats::{self, Options, Statistics};
use waypost_io::Source;
use waypost_summary::holdings::Input;

use super::oracles;

fn statistics(path: &Path, top: usize) -> Statistics {
    let options = Options {
        top,
        ..Options::default()
    };
    let input = Input::new(vec![Source::new(path)]);
    stats::statistics(&input, &options, None).unwrap().0
}

fn run(python: &Path, arguments: &[&str]) -> Value {
    let ran = Command::new(python).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Every value of `expected` is in `found`, numbers to nine digits.
fn compare(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (_, Value::Object(members)) => {
            for (name, value) in members {
                compare(&found[name], value, &format!("{place}.{name}"));
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{place}");
            for (at, (item, other)) in items.iter().zip(others).enumerate() {
                compare(item, other, &format!("{place}[{at}]"));
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!(
                (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                "{place}: {a} and {b}"
            );
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

/// Captures of hosts, paths and queries that share prefixes; the same in every run.
fn index(lines: u64, mut state: u64) -> String {
    let mut next = move |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let hosts = [
        "com,a",
        "com,a,b",
        "com,a-b",
        "com,a:8080",
        "org,c",
        "org,c,d",
        "org,c,d,e",
        "uk,co,f",
        "uk,co,f,g",
        "uk,co,h",
    ];
    let segments = ["a", "a-b", "a.b", "b", "x0", "~u"];
    let mut all = Vec::new();
    for _ in 0..lines {
        // Some are captured much more often than others.
        let rank = next(30).min(next(30)).min(next(30));
        let host = hosts[(rank % 10) as usize];
        let mut path = String::from("/");
        for _ in 0..next(5) {
            path += segments[next(segments.len() as u64).min(rank % 6) as usize];
            path.push('/');
        }
        let path = if path.len() > 1 {
            path.trim_end_matches('/')
        } else {
            "/"
        };
        let query = ["", "", "?q=1", "?q=1&r=2"][next(4) as usize];
        let (year, month) = (1996 + next(12).min(next(12)), 1 + next(12));
        let (authority, port) = host.split_once(':').unwrap_or((host, ""));
        let mut labels: Vec<&str> = authority.split(',').collect();
        labels.reverse();
        let port = if port.is_empty() {
            String::new()
        } else {
            format!(":{port}")
        };
        let url = format!("http://{}{port}{path}{query}", labels.join("."));
        all.push(format!(
            "{host}){path}{query} {year}{month:02}02030405 {url} text/html 200 AAAA - - 5 9 x.warc.gz\n"
        ));
    }
    all.sort();
    all.concat()
}

#[test]
fn numbers_equal_those_of_numpy_and_scipy() {
    let Some(python) = oracles::python() else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/naive.py");
    let folder = tempfile::tempdir().unwrap();
    for (lines, seed) in [(60, 1), (900, 2), (3_000, 3)] {
        let path = folder.path().join(format!("{lines}.cdx"));
        fs::write(&path, index(lines, 0x9e37_79b9 + seed)).unwrap();
        let expected = run(&python, &[script, path.to_str().unwrap()]);
        let statistics = statistics(&path, 10);
        let mut found = serde_json::to_value(&statistics).unwrap();
        // The script computes reductions only where everything is rolled up.
        for tree in ["host_tree", "path_tree"] {
            for layer in found[tree].as_array_mut().unwrap() {
                let end = |curve: &Value| json!([curve.as_array().unwrap().last().unwrap()[1]]);
                layer["global"] = end(&layer["global_reduction"]);
                layer["incremental"] = end(&layer["incremental_reduction"]);
            }
        }
        found["tlds"].as_array_mut().unwrap().truncate(10);
        compare(&found, &expected, &lines.to_string());
    }
}

#[test]
fn every_number_that_cdx_summary_reports_is_equal() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("generated.cdx");
    let mut file = fs::File::create(&path).unwrap();
    Generator::new(Kind::Cdx11, 20_000, 7)
        .write(&mut file)
        .unwrap();
    let program = "from cdxsummary.__main__ import main; main()";
    let name = path.to_str().unwrap();
    let peer = run(
        &python,
        &["-c", program, "--json", "--tophosts", "100", name],
    );
    let ours = statistics(&path, 100);
    let found = serde_json::to_value(&ours.cdx_summary).unwrap();
    for number in [
        "captures",
        "urls",
        "hosts",
        "bytes",
        "first",
        "last",
        "mimestatus",
        "pathquery",
        "yearmonth",
    ] {
        assert_eq!(found[number], peer[number], "{number}");
    }
    // Equal hosts may be cut off in another order.
    let hosts = |value: &Value| -> BTreeMap<String, u64> {
        serde_json::from_value(value["tophosts"].clone()).unwrap()
    };
    let (ours, theirs) = (hosts(&found), hosts(&peer));
    let least = theirs.values().min().copied().unwrap();
    for (host, captures) in theirs.iter().filter(|(_, captures)| **captures > least) {
        assert_eq!(ours.get(host), Some(captures), "{host}");
    }
    // The real tool reads ours. It expects media types there, not groups of them, and takes the group
    // `Text` for an unknown type.
    let file = folder.path().join("ours.json");
    fs::write(&file, found.to_string()).unwrap();
    let loaded = run(
        &python,
        &["-c", program, "--load", "--json", file.to_str().unwrap()],
    );
    for number in ["captures", "pathquery", "yearmonth", "samples"] {
        assert_eq!(loaded[number], found[number], "{number}");
    }
}
