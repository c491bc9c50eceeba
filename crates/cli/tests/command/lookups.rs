//! Lookups in every kind of summary: answered in order, while the input is open, in bounded memory.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{run, waypost};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small.cdxj");

/// A map, a profile and a filter of the example, each with the words of its lookup.
fn summaries(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let made = [
        ("map", folder.join("full.ukvs")),
        ("profile", folder.join("small.HxPx.cdxj")),
        ("filter", folder.join("small.filter")),
    ];
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    for args in [
        vec!["map", "build", EXAMPLE, "-o", &text(&made[0].1)],
        vec![
            "profile",
            EXAMPLE,
            "--policy",
            "HxPx",
            "-o",
            folder.to_str().unwrap(),
        ],
        vec!["filter", "build", EXAMPLE, "-o", &text(&made[2].1)],
    ] {
        let done = run(&args, b"");
        assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
    }
    made.to_vec()
}

#[test]
fn every_format_gives_the_same_answers_in_the_order_of_the_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let held = "http://library.example.org/";
    let lines: Vec<String> = (0..20_000)
        .map(|n| match n % 4 {
            0 => held.to_owned(),
            1 => format!("http://absent{n}.example/"),
            2 => "http://x:y/".to_owned(),
            _ => "org,example,library)/".to_owned(),
        })
        .collect();
    let input = lines.join("\n");
    for (kind, path) in summaries(folder.path()) {
        let answers = |format: &str| {
            let path = path.to_str().unwrap();
            let args = [kind, "lookup", path, "--batch", "-", "--format", format];
            let done = run(&args, input.as_bytes());
            assert_eq!(done.code, 0, "{kind} {format}: {}", done.stderr);
            done.stdout
        };
        let tsv: Vec<[String; 2]> = answers("tsv")
            .lines()
            .map(|line| {
                let mut cells = line.split('\t').map(str::to_owned);
                [cells.next().unwrap(), cells.next().unwrap()]
            })
            .collect();
        assert!(tsv.iter().map(|[lookup, _]| lookup).eq(&lines), "{kind}");
        for (n, [_, answer]) in tsv.iter().enumerate() {
            // A filter may be wrong about what is absent.
            let expected = ["present", "absent", "rejected", "present"][n % 4];
            assert!(
                answer == expected || (kind, n % 4) == ("filter", 1),
                "{kind} {n}"
            );
        }
        let json: Vec<[String; 2]> = answers("json")
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                ["lookup", "answer"].map(|name| row[name].as_str().unwrap().to_owned())
            })
            .collect();
        assert_eq!(json, tsv, "{kind}");
        let table: Vec<[String; 2]> = answers("table")
            .lines()
            .skip(1)
            .map(|line| {
                let mut cells = line.split_whitespace().map(str::to_owned);
                [cells.next().unwrap(), cells.next().unwrap()]
            })
            .collect();
        assert_eq!(table, tsv, "{kind}");
    }
}

#[test]
fn a_program_that_waits_for_each_answer_gets_it_while_the_pipe_is_open() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, path) in summaries(folder.path()) {
        for format in ["table", "tsv", "json"] {
            let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
                .args([
                    kind,
                    "lookup",
                    path.to_str().unwrap(),
                    "--batch",
                    "-",
                    "--format",
                    format,
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
            for n in 0..3 {
                let uri = format!("http://library.example.org/page{n}");
                writeln!(stdin, "{uri}").unwrap();
                let mut answer = answers.next().unwrap().unwrap();
                if (format, n) == ("table", 0) {
                    answer = answers.next().unwrap().unwrap();
                }
                assert!(answer.contains(&uri), "{kind} {format}: {answer}");
            }
            drop(stdin);
            child.wait().unwrap();
        }
    }
}

#[test]
fn a_line_that_is_too_long_is_a_bad_line_and_the_rest_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut input = b"http://library.example.org/\nhttp://a.example/".to_vec();
    input.resize(input.len() + (17 << 20), b'x');
    input.extend_from_slice(b"\nhttp://library.example.org/\n");
    for (kind, path) in summaries(folder.path()) {
        let args = [
            kind,
            "lookup",
            path.to_str().unwrap(),
            "--batch",
            "-",
            "--format",
            "tsv",
        ];
        let done = waypost(&args).write_stdin(input.clone()).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let answers: Vec<&str> = text
            .lines()
            .map(|line| line.split('\t').nth(1).unwrap())
            .collect();
        assert_eq!(answers, ["present", "rejected", "present"], "{kind}");
        assert!(text.len() < 1_000, "{kind}: an excerpt is enough");
    }
    let keys = waypost(&["keys", "--policy", "none"])
        .write_stdin(input)
        .output()
        .unwrap();
    assert_eq!(keys.status.code(), Some(0));
    let stderr = String::from_utf8(keys.stderr).unwrap();
    assert!(stderr.contains("line 2: longer than"), "{stderr}");
}
