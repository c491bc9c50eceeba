//! The pages in a real browser: no errors, nothing fetched, all sections, CSV files, accessible.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

#[path = "../../../tests/oracles.rs"]
mod oracles;

fn waypost(folder: &Path, arguments: &[&str]) {
    let ran = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
    if let Some(at) = arguments.iter().position(|word| *word == "json") {
        let name = format!("{}.json", arguments[at - 2]);
        std::fs::write(folder.join(name), ran.stdout).unwrap();
    }
}

#[test]
fn pages_work_in_chromium() {
    let Some(packages) = oracles::node_packages() else {
        return;
    };
    let Some(chromium) = oracles::chromium() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for name in ["small.cdxj", "lookups.txt", "classes.txt", "segments.cdxj"] {
        std::fs::copy(format!("{examples}/{name}"), here.join(name)).unwrap();
    }
    let stats = [
        "stats",
        "small.cdxj",
        "--lookups",
        "lookups.txt",
        "--classes",
        "classes.txt",
    ];
    waypost(here, &[&stats[..], &["--html", "stats.html"]].concat());
    waypost(here, &["stats", "small.cdxj", "--format", "json"]);
    let files = ["stats", "compare", "small.cdxj.json", "small.cdxj.json"];
    waypost(here, &[&files[..], &["--html", "compare.html"]].concat());
    waypost(here, &["map", "build", "small.cdxj", "-o", "full.ukvs"]);
    waypost(here, &["map", "show", "full.ukvs", "--html", "map.html"]);
    waypost(
        here,
        &[
            "profile",
            "small.cdxj",
            "-o",
            "profiles",
            "--policy",
            "H1P0,H3P0,HxP1,DDom,URIR",
        ],
    );
    let summaries = [
        "evaluate",
        "profiles/small.H1P0.cdxj",
        "profiles/small.HxP1.cdxj",
        "full.ukvs",
    ];
    let truth = [
        "--holdings",
        "small.cdxj",
        "--lookups",
        "lookups.txt",
        "--html",
        "evaluate.html",
    ];
    waypost(here, &[&summaries[..], &truth].concat());
    let crawl = "segments.cdxj";
    waypost(here, &["segments", "tabulate", crawl, "-o", "crawl"]);
    for command in ["rank", "predict"] {
        let page = format!("{command}.html");
        waypost(here, &["segments", command, "crawl", "--html", &page]);
    }
    waypost(
        here,
        &["lastmod", "report", crawl, "--html", "lastmod.html"],
    );
    // One second holds most times.
    let text = std::fs::read_to_string(here.join(crawl)).unwrap();
    let lines = text.lines().map(|line| match line.strip_suffix('}') {
        Some(start) if !line.contains("lastmod") => {
            format!("{start}, \"lastmod\": \"1114316977\"}}\n")
        }
        _ => format!("{line}\n"),
    });
    std::fs::write(here.join("odd.cdxj"), lines.collect::<String>()).unwrap();
    waypost(
        here,
        &["lastmod", "anomalies", "odd.cdxj", "--html", "odd.html"],
    );

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/browser.mjs");
    let mut command = Command::new("node");
    command.arg(script).arg(packages).arg(chromium);
    let pages = [
        "stats", "compare", "map", "evaluate", "rank", "predict", "lastmod", "odd",
    ];
    for page in pages {
        command.arg(here.join(format!("{page}.html")));
    }
    // To look at them: WAYPOST_SHOTS=FOLDER.
    if let Some(shots) = std::env::var_os("WAYPOST_SHOTS") {
        command.arg("--shots").arg(shots);
    }
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let reports: Vec<Value> = String::from_utf8(ran.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), pages.len());
    for report in &reports {
        let name = &report["file"];
        for nothing in ["errors", "requests", "violations"] {
            assert_eq!(report[nothing], serde_json::json!([]), "{name}: {nothing}");
        }
    }
    let report = &reports[0];
    assert_eq!(
        report["sections"],
        serde_json::json!([
            "Totals",
            "Captures per URI",
            "Where from",
            "By year",
            "What kind",
            "The tree of URIs",
            "Classes",
            "What people look for"
        ])
    );
    assert!(report["figures"].as_u64().unwrap() >= 20);
    for (page, figures) in [(4, 4), (5, 1), (6, 6), (7, 1)] {
        assert!(
            reports[page]["figures"].as_u64().unwrap() >= figures,
            "{}",
            reports[page]
        );
    }
    assert!(report["tip"].is_string(), "no values on hover");
    let saved = &report["saved"][0];
    assert_eq!(saved["name"], "totals.csv");
    assert!(
        saved["text"].as_str().unwrap().contains("\ncaptures,757\n"),
        "{saved}"
    );
}

/// `waypost demo`, stopped at the end.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_page_of_a_router_works_in_chromium() {
    let (Some(packages), Some(chromium)) = (oracles::node_packages(), oracles::chromium()) else {
        return;
    };
    let words = ["demo", "--sites", "200", "--lookups", "5"];
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo(
        Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args(words)
            .args(["--listen", "127.0.0.1:0"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let lines = said.by_ref().map(Result::unwrap);
    let lines: Vec<String> = lines
        .take_while(|line| !line.starts_with("listening on "))
        .collect();
    let (base, uri) = lines
        .iter()
        .find_map(|line| line.split_once("curl ")?.1.split_once("/timemap/link/"))
        .unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/page.mjs");
    let mut command = Command::new("node");
    command.arg(script).arg(packages).arg(chromium);
    command.args([base, uri]);
    if let Some(shots) = std::env::var_os("WAYPOST_SHOTS") {
        command.arg("--shots").arg(shots);
    }
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    for nothing in ["errors", "requests", "violations"] {
        assert_eq!(report[nothing], serde_json::json!([]), "{nothing}");
    }
    for yes in ["inPlace", "live", "withoutScript"] {
        assert_eq!(report[yes], true, "{yes}");
    }
    assert!(report["address"].as_str().unwrap().starts_with("?url="));
    assert!(
        report["closest"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1")
    );
    let why = report["why"].as_array().unwrap();
    assert_eq!(why.len(), 5);
    // An archive that is known to have nothing may be probed.
    let spared = |mark: &Value| *mark == "not asked" || *mark == "asked, nothing";
    assert!(why.iter().any(spared), "{why:?}");
    assert!(why.contains(&"asked, found".into()), "{why:?}");
    assert_eq!(report["months"], 12);
    assert_eq!(
        report["nothing"],
        "No archive has http://nobody-has-this.example/"
    );
    assert!(
        report["problem"]
            .as_str()
            .unwrap()
            .contains("is not a date")
    );
    assert_eq!(report["explain"], "Which archives are asked");
}
