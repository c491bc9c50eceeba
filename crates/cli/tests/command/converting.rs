//! `waypost index convert` and `waypost index rekey`.

use std::fs;
use std::path::Path;

use super::run;

const LINES: &str = concat!(
    "com,example)/ 20200101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", ",
    "\"digest\": \"sha1:A\", \"redirect\": \"http://example.com/a b\", \"length\": \"10\", \"offset\": \"7\", ",
    "\"filename\": \"a.warc.gz\", \"languages\": \"eng\"}\n",
    "com,example)/b 20200101000001 {\"url\": \"http://example.com/b\", \"status\": 404, \"languages\": \"deu\"}\n",
);

#[test]
fn what_both_layouts_hold_survives_the_way_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("a.cdxj"), LINES).unwrap();
    let there = run(
        &[
            "index",
            "convert",
            &at("a.cdxj"),
            "--to",
            "cdx11",
            "-o",
            &at("a.cdx"),
        ],
        b"",
    );
    assert_eq!(there.code, 0, "{}", there.stderr);
    for message in [
        "left out what CDX 11 cannot hold: languages (2 lines)",
        "percent-escaped spaces in redirect (1 line)",
        "wrote 3 lines to",
    ] {
        assert!(there.stderr.contains(message), "{}", there.stderr);
    }
    assert_eq!(
        fs::read_to_string(at("a.cdx")).unwrap(),
        " CDX N b a m s k r M S V g\n\
         com,example)/ 20200101000000 http://example.com/ text/html 200 sha1:A http://example.com/a%20b - 10 7 a.warc.gz\n\
         com,example)/b 20200101000001 http://example.com/b - 404 - - - - - -\n"
    );
    let back = run(&["index", "convert", &at("a.cdx"), "--to", "cdxj"], b"");
    assert_eq!((back.code, &back.stderr[..]), (0, ""));
    assert_eq!(
        back.stdout,
        concat!(
            "com,example)/ 20200101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", ",
            "\"digest\": \"sha1:A\", \"length\": \"10\", \"offset\": \"7\", \"filename\": \"a.warc.gz\", ",
            "\"redirect\": \"http://example.com/a%20b\"}\n",
            "com,example)/b 20200101000001 {\"url\": \"http://example.com/b\", \"status\": \"404\"}\n",
        )
    );
    let same = run(&["index", "convert", "-", "--to", "cdxj"], LINES.as_bytes());
    assert_eq!((same.code, &same.stdout[..]), (0, LINES), "{}", same.stderr);
}

#[test]
fn the_order_of_lines_is_restored_when_separators_change_it() {
    // By bytes, `ftp:` sorts before `http:`, and `"mime"` before `"url"`.
    let cdx = "com,a)/ 2020 ftp://a.com/ x 200 - - - - - -\ncom,a)/ 2020 http://a.com/ - 200 - - - - - -\n";
    let cdxj = run(&["index", "convert", "-", "--to", "cdxj"], cdx.as_bytes());
    let line = |text: &str| format!("com,a)/ 2020 {text}\n");
    let sorted = line(r#"{"url": "ftp://a.com/", "mime": "x", "status": "200"}"#)
        + &line(r#"{"url": "http://a.com/", "status": "200"}"#);
    assert_eq!(cdxj.stdout, sorted);
    let cdxj = line(r#"{"status": "200", "url": "http://z.com/"}"#)
        + &line(r#"{"url": "http://a.com/", "status": "200"}"#);
    let cdx = run(&["index", "convert", "-", "--to", "cdx11"], cdxj.as_bytes());
    let lines: Vec<&str> = cdx.stdout.lines().collect();
    assert!(lines.is_sorted(), "{lines:?}");
    assert!(lines[1].contains("http://a.com/"), "{lines:?}");
}

#[test]
fn bad_lines_are_left_out_shown_and_kept_and_can_be_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = " CDX N b e a\ncom,a)/ 20200101000000 1.2.3.4 http://a.com/\ncom,a)/b 2020010100000x - http://a.com/b\n";
    fs::write(at("a.cdx"), text).unwrap();
    let words = ["index", "convert", &at("a.cdx"), "--to", "cdxj"];
    let converted = run(&[&words[..], &["--rejects", &at("bad")]].concat(), b"");
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    assert_eq!(
        converted.stdout,
        "com,a)/ 20200101000000 {\"url\": \"http://a.com/\", \"ip\": \"1.2.3.4\"}\n"
    );
    assert!(
        converted.stderr.contains("1 bad line: 1 timestamp"),
        "{}",
        converted.stderr
    );
    assert!(
        converted.stderr.contains("a.cdx line 3"),
        "{}",
        converted.stderr
    );
    assert_eq!(
        fs::read_to_string(at("bad")).unwrap(),
        "com,a)/b 2020010100000x - http://a.com/b\n"
    );
    let strict = run(&[&words[..], &["--strict", "-o", &at("out")]].concat(), b"");
    assert_eq!(strict.code, 2);
    assert!(!folder.path().join("out").exists());
    // Rekeying keeps them.
    let words = ["index", "rekey", &at("a.cdx"), "--dialect", "ia"];
    let rekeyed = run(&words, b"");
    assert_eq!(
        (rekeyed.code, &rekeyed.stdout[..]),
        (0, text),
        "{}",
        rekeyed.stderr
    );
    assert!(rekeyed.stderr.contains("1 bad line"), "{}", rekeyed.stderr);
    assert_eq!(run(&[&words[..], &["--strict"]].concat(), b"").code, 2);
}

#[test]
fn rekeyed_lines_are_sorted_again_and_examples_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj").to_str().unwrap().to_owned();
    let line = |key: &str, url: &str| format!("{key} 20200101000000 {{\"url\": \"{url}\"}}\n");
    let text = line("com,a)/x", "http://z.com/A/") + &line("com,b)/", "http://b.com/");
    fs::write(&path, text).unwrap();
    let rekeyed = run(&["index", "rekey", &path, "--dialect", "webrecorder"], b"");
    assert_eq!(rekeyed.code, 0, "{}", rekeyed.stderr);
    assert_eq!(
        rekeyed.stdout,
        line("com,b)/", "http://b.com/") + &line("com,z)/a/", "http://z.com/A/")
    );
    for message in [
        "replaced 1 of 2 keys by SURTs of the dialect webrecorder",
        "  com,a)/x is now com,z)/a/ (http://z.com/A/)",
    ] {
        assert!(rekeyed.stderr.contains(message), "{}", rekeyed.stderr);
    }
    // An output must not be an input.
    let refused = run(
        &["index", "rekey", &path, "--dialect", "ia", "-o", &path],
        b"",
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("is an input and an output"),
        "{}",
        refused.stderr
    );
}

#[test]
fn two_outputs_cannot_be_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let map = at("map.ukvs");
    let lines = "!meta {\"type\": \"MementoMap\"}\ncom,a)/ 1\n";
    fs::write(&map, lines).unwrap();
    std::os::unix::fs::symlink(folder.path(), at("link")).unwrap();
    for (other, message) in [
        ("out", "is named for two outputs"),
        ("link/out", "are the same output"),
    ] {
        let (out, other) = (at("out"), at(other));
        let compact = ["map", "compact", &map, "--rule", "papers"];
        let refused = run(
            &[&compact[..], &["-o", &out, "--trace", &other]].concat(),
            b"",
        );
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
        assert!(!Path::new(&out).exists());
    }
}

#[test]
fn ndjson_has_no_keys_to_replace_and_can_be_converted_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = "{\"urlkey\": \"com,b)/\", \"timestamp\": \"2020\", \"url\": \"http://a.com/\"}\n";
    fs::write(at("a.ndjson"), line).unwrap();
    let refused = run(&["index", "rekey", &at("a.ndjson"), "--dialect", "ia"], b"");
    assert_eq!((refused.code, &refused.stdout[..]), (2, ""));
    assert!(
        refused.stderr.contains("index convert FILE --to cdxj"),
        "{}",
        refused.stderr
    );
    let (from, to) = (at("a.ndjson"), at("a.cdxj"));
    run(&["index", "convert", &from, "--to", "cdxj", "-o", &to], b"");
    let rekeyed = run(&["index", "rekey", &to, "--dialect", "ia"], b"");
    assert_eq!(
        rekeyed.stdout,
        "com,a)/ 2020 {\"url\": \"http://a.com/\"}\n"
    );
}

#[test]
fn damage_is_reported_and_what_comes_before_it_converted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lines: String = (0..2000)
        .map(|n| format!("com,a)/{n:05} 2020 {{\"url\": \"http://a.com/{n:05}\"}}\n"))
        .collect();
    run(
        &["index", "sort", "-", "-o", &at("a.cdxj.gz")],
        lines.as_bytes(),
    );
    let whole = fs::read(at("a.cdxj.gz")).unwrap();
    fs::write(at("cut.cdxj.gz"), &whole[..whole.len() / 2]).unwrap();
    for words in [["convert", "--to", "cdxj"], ["rekey", "--dialect", "ia"]] {
        let run = run(
            &[&["index"], &words[..], &[&at("cut.cdxj.gz")]].concat(),
            b"",
        );
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(lines.starts_with(&run.stdout) && run.stdout.len() > 1000);
        assert!(run.stdout.ends_with("}\n"));
        assert!(run.stderr.contains("ends too early"), "{}", run.stderr);
    }
}
