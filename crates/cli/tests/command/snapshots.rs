//! Whole runs: what a person sees, kept as snapshots. Accept a change with `INSTA_UPDATE=always`.

use std::fmt::Write;
use std::path::Path;

use super::{example, waypost};

/// What the commands print, one after the other, in a folder with the example index.
fn session(commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(example("small.cdxj"), folder.path().join("small.cdxj")).unwrap();
    std::fs::copy(example("archive.cdx"), folder.path().join("archive.cdx")).unwrap();
    let mut text = String::new();
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        let run = run_in(folder.path(), &args);
        write!(text, "$ waypost {command}\n{run}\n").unwrap();
    }
    text
}

fn run_in(folder: &Path, args: &[&str]) -> String {
    let output = waypost(args).current_dir(folder).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        writeln!(text, "[stderr] {line}").unwrap();
    }
    if !output.status.success() {
        writeln!(text, "[exit code {}]", output.status.code().unwrap()).unwrap();
    }
    text
}

#[test]
fn a_uri_and_its_keys() {
    insta::assert_snapshot!(session(&[
        "keys --policy H1P0,H3P0,HxP1,DDom https://www.Example.co.uk/a/b?c=d http://x:y/",
        "keys --policy none --format json http://example.com/",
    ]));
}

#[test]
fn an_index_is_checked_and_searched() {
    insta::assert_snapshot!(session(&[
        "index check archive.cdx",
        "index lookup archive.cdx http://www.example.com/",
        "index lookup archive.cdx http://example.net/",
    ]));
}

#[test]
fn a_map_is_built_and_shown() {
    insta::assert_snapshot!(session(&[
        "map build small.cdxj -o full.ukvs",
        "map show full.ukvs --depth 2 --top 3",
        "map show full.ukvs --depth 1 --top 1 --format json",
    ]));
}

#[test]
fn errors_say_what_to_do() {
    insta::assert_snapshot!(session(&[
        "index check missing.cdxj",
        "map build small.cdxj -o full.ukvs",
        "map lookup full.ukvs",
        "index sort small.cdxj --memory 1M",
        "index lookup small.cdxj -f status=200 http://example.com/",
        "keys --policy Nope http://example.com/",
    ]));
}
