//! `waypost index check`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Run, run};

const INDEX: &str = " CDX N b a m s k r M S V g
com,example)/ 20040102030405 http://www.example.com/ text/html 200 QWERTY - - 50 60 a.warc.gz
com,example)/ 20050102030405 http://www.example.com/ warc/revisit - QWERTY - - 20 90 a.warc.gz
com,example)/about 20040102030406 http://example.com/about text/html 404 ASDFGH - - 50 99 a.warc.gz
dns:example.com 20040102030404 dns:example.com text/dns - ZXCVBN - - 30 10 a.warc.gz
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }
}

fn check(args: &[&str]) -> Run {
    run(&[&["index", "check"], args].concat(), b"")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_clean_index_is_described_and_the_answer_is_yes() {
    let folder = Folder::new();
    let path = folder.file("a.cdx", INDEX);
    let run = check(&[&path]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let expected = "
layout           CDX 11 (N b a m s k r M S V g)
size             401 B
lines            5
captures         3
URI-Rs           2
first            2004-01-02 03:04:05
last             2005-01-02 03:04:05
sorted           yes
duplicate lines  0
revisits         1
not of the Web   1 (dns 1)
bad lines        0
";
    assert_eq!(run.stdout, format!("index            {path}{expected}"));
}

#[test]
fn json_has_the_same_for_programs() {
    let folder = Folder::new();
    let path = folder.file("a.cdx.gz", gzip(INDEX.as_bytes()));
    let run = check(&["--format", "json", "--keys", &path]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["layout"], "CDX 11 (N b a m s k r M S V g)");
    assert_eq!(report["lines"], 5);
    assert_eq!(report["captures"], 3);
    assert_eq!(report["uri_rs"], 2);
    assert_eq!(report["sorted"], true);
    assert_eq!(report["bad"], serde_json::json!({}));
    assert_eq!(report["non_web"], serde_json::json!({"dns": 1}));
    assert_eq!(report["first"], "20040102030405");
    assert_eq!(report["last"], "20050102030405");
    assert_eq!(report["keys"]["differ"]["ia"], 0);
}

#[test]
fn what_is_wrong_is_shown_with_its_place_and_the_answer_is_no() {
    let folder = Folder::new();
    let bad = "com,a)/ 2004 {\"url\": \"http://a.com/\"}\nError -3 while decompressing\ncom,a)/ 2003 {\"url\"=1}\n";
    let path = folder.file("a.cdxj", bad);
    let kept = folder.path("bad.txt");
    let run = check(&["--rejects", kept.to_str().unwrap(), &path]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("sorted           no: line 2 of"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("bad lines        2 (text 1, json 1)"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("line 3: com,a)/ 2003 {\"url\"=1}"),
        "{}",
        run.stdout
    );
    assert_eq!(
        fs::read_to_string(kept).unwrap(),
        "Error -3 while decompressing\ncom,a)/ 2003 {\"url\"=1}\n"
    );
    let run = check(&["--strict", &path]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("a.cdxj: line 2: byte 38: bad line (text)"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("hint: leave --strict out"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_cut_file_is_counted_as_far_as_it_goes() {
    let folder = Folder::new();
    let bytes = gzip(INDEX.as_bytes());
    let path = folder.file("a.cdx.gz", &bytes[..bytes.len() - 10]);
    let run = check(&[&path]);
    assert_eq!(run.code, 1);
    let damage = format!("byte {}: the gzip data ends too early", bytes.len() - 10);
    assert!(run.stdout.contains(&damage), "{}", run.stdout);
    assert_eq!(check(&["--strict", &path]).code, 2);
}

#[test]
fn folders_and_standard_input_are_read() {
    let folder = Folder::new();
    folder.file("a.cdx", INDEX);
    folder.file("b.cdx.gz", gzip(INDEX.replace("com,", "cop,").as_bytes()));
    folder.file("cluster.idx", "x");
    let run = check(&[folder.0.path().to_str().unwrap()]);
    assert!(
        run.stdout.starts_with("index            2 files\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("URI-Rs           4\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout
            .contains("sorted           yes, each file by itself"),
        "{}",
        run.stdout
    );
    assert!(
        run.stderr.contains("cluster.idx: not an index file"),
        "{}",
        run.stderr
    );
    let run = super::run(&["index", "check", "-"], INDEX.as_bytes());
    assert_eq!(run.code, 0);
    assert!(
        run.stdout.starts_with("index            -\n"),
        "{}",
        run.stdout
    );
}

#[test]
fn filters_choose_what_is_counted() {
    let folder = Folder::new();
    let path = folder.file("a.cdx", INDEX);
    let selected = |args: &[&str]| {
        let run = check(&[&["--format", "json", &path], args].concat());
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        (
            report["selected"].as_u64().unwrap(),
            report["uri_rs"].as_u64().unwrap(),
        )
    };
    assert_eq!(selected(&["--status", "2xx"]), (1, 1));
    assert_eq!(selected(&["--mime", "text/*"]), (2, 2));
    assert_eq!(selected(&["--from", "2005"]), (1, 1));
    assert_eq!(selected(&["--to", "2004"]), (2, 2));
    assert_eq!(selected(&["--include", "com,example)/a"]), (1, 1));
    assert_eq!(selected(&["--exclude", "~about"]), (2, 1));
    assert_eq!(selected(&["--revisits", "drop"]), (2, 2));
    assert_eq!(
        selected(&["--revisits", "resolve", "--status", "200"]),
        (2, 1)
    );
    assert_eq!(selected(&["--include-non-web"]), (4, 3));
}

#[test]
fn what_is_no_index_is_not_taken_for_one() {
    let folder = Folder::new();
    let path = folder.file("a.warc", "WARC/1.0\r\nWARC-Type: warcinfo\r\n");
    let run = check(&[&path]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("this is a WARC file, not an index\nhint: "),
        "{}",
        run.stderr
    );
    let path = folder.file("a.txt", "no line\nof an index\n");
    let run = check(&[&path]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.stderr,
        "warning: no captures found: is this an index?\n"
    );
    assert!(
        run.stdout.contains("layout           unknown"),
        "{}",
        run.stdout
    );
}

#[test]
fn misuse_says_what_to_do() {
    let run = check(&["missing.cdx"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.starts_with("error: missing.cdx: cannot open: "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.ends_with("hint: check the path\n"),
        "{}",
        run.stderr
    );
    let folder = Folder::new();
    let path = folder.file("a.cdx", INDEX);
    let run = check(&["--include", "example.com", &path]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("invalid SURT prefix `example.com`"),
        "{}",
        run.stderr
    );
    assert_eq!(check(&["--memory", "lots", &path]).code, 2);
    let run = check(&[folder.path("").to_str().unwrap(), "--status", "abc"]);
    assert!(run.stderr.contains("write 200 or 3xx"), "{}", run.stderr);
}

/// A gigabyte that is one line, from a megabyte of gzip: as one member after the other, which are
/// each small enough to be inflated whole and together are not.
#[test]
#[cfg(target_os = "linux")]
fn a_gzip_bomb_does_not_use_more_memory_than_promised() {
    let folder = Folder::new();
    let member = gzip(&vec![b'0'; 64 << 20]);
    let path = folder.file("bomb.cdx.gz", member.repeat(16));
    // The limit is on what a process may write to: 300 MB.
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg("ulimit -d 300000 && exec \"$0\" index check --memory 64M --format json \"$1\"")
        .arg(assert_cmd::cargo::cargo_bin!("waypost"))
        .arg(&path)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The end of each of the 16 members ends a line.
    assert_eq!(report["bytes"], (1u64 << 30) + 16);
    assert_eq!(report["bad"], serde_json::json!({"too-long": 16}));
}
