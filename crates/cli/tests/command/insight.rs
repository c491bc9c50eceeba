//! `waypost segments` and `waypost lastmod`: tables from the Web, and what goes wrong.

use std::fs;

use super::server::{Files, Server};
use super::{example, run};

#[test]
fn segments_of_an_index_on_the_web_give_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let index = example("segments.cdxj");
    let index = index.to_str().unwrap();
    let zipnum = run(
        &[
            "index",
            "zipnum",
            index,
            "--shards",
            "2",
            "--lines",
            "50",
            "-o",
            &at("blocks"),
        ],
        b"",
    );
    assert_eq!(zipnum.code, 0, "{}", zipnum.stderr);
    let server = Server::of(&Files::of_folder(&folder.path().join("blocks")));
    let shard = [server.at("/cdx-00000.gz"), server.at("/cdx-00001.gz")];
    for (number, inputs) in [
        vec![index],
        vec![&server.at("/cluster.idx")],
        vec![&shard[0], &shard[1]],
        vec![&at("blocks")],
    ]
    .into_iter()
    .enumerate()
    {
        let out = at(&format!("table{number}"));
        let mut words = vec!["segments", "tabulate", "-o", &out];
        words.extend(inputs);
        let tabulated = run(&words, b"");
        assert_eq!(tabulated.code, 0, "{}", tabulated.stderr);
        assert!(tabulated.stdout.contains("CC-MAIN-2019-35"));
        assert_eq!(fs::read(&out).unwrap(), fs::read(at("table0")).unwrap());
    }
}

#[test]
fn a_report_of_the_best_segments_takes_existing_tables_instead_of_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("crawl.segments");
    let table = table.to_str().unwrap();
    let index = example("segments.cdxj");
    let index = index.to_str().unwrap();
    let made = run(&["segments", "tabulate", index, "-o", table], b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    for by in ["language", "mime"] {
        let words = [
            "lastmod", "report", index, index, "--proxy", "2", "--by", by, "--format", "json",
        ];
        let tabulated = run(&words, b"");
        let from_tables = run(&[&words[..], &["--tables", table, table]].concat(), b"");
        assert_eq!(from_tables.code, 0, "{}", from_tables.stderr);
        assert_eq!(from_tables.stdout, tabulated.stdout);
    }
    let lacking = [
        "lastmod", "report", index, "--proxy", "2", "--by", "tld", "--tables", table,
    ];
    let lacking = run(&lacking, b"");
    assert_eq!(lacking.code, 2);
    assert!(
        lacking.stderr.contains("no property tld in this table")
            && lacking.stderr.contains("\nhint: make it with"),
        "{}",
        lacking.stderr
    );
}

#[test]
fn what_cannot_be_ranked_dated_or_reported_is_an_error_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let small = example("small.cdxj").to_str().unwrap().to_owned();
    let cdx = example("archive.cdx").to_str().unwrap().to_owned();
    let counts = example("counts.csv").to_str().unwrap().to_owned();
    fs::write(at("times"), "!waypost-lastmod 1\n").unwrap();
    run(&["segments", "tabulate", &small, "-o", &at("none")], b"");
    for words in [
        vec!["segments", "rank", &at("none")],
        vec!["segments", "predict", &counts],
        vec![
            "segments",
            "tabulate",
            &small,
            "--by",
            "mime,,x",
            "-o",
            &at("x"),
        ],
        vec![
            "lastmod",
            "add",
            &cdx,
            "--from",
            &at("times"),
            "-o",
            &at("y"),
        ],
        vec!["lastmod", "add", &small, "--from", &small, "-o", &at("y")],
        vec!["lastmod", "report", &small],
        vec!["lastmod", "report", &small, "--proxy", "2"],
        vec![
            "lastmod", "report", &small, &small, "--proxy", "2", "--tables", &counts,
        ],
        vec![
            "lastmod",
            "report",
            &small,
            "--proxy",
            "2",
            "--tables",
            &at("none"),
        ],
    ] {
        let failed = run(&words, b"");
        assert_eq!(failed.code, 2, "{words:?}: {}", failed.stdout);
        assert!(
            failed.stderr.contains("error: ") && failed.stderr.contains("\nhint: "),
            "{words:?}: {}",
            failed.stderr
        );
    }
    assert!(!folder.path().join("y").exists());
    let nothing = run(&["lastmod", "anomalies", &small], b"");
    assert_eq!(nothing.code, 1);
    let ranked = run(&["segments", "rank", &counts], b"");
    assert!(ranked.stdout.contains("segment 0"), "{}", ranked.stdout);
}
