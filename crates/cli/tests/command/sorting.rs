//! `waypost index sort`, `merge`, `zipnum`, `unzip` and `lookup`, as people use them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Run, run};

/// Runs with paths among the words.
fn with(words: &[&str], paths: &[&Path]) -> Run {
    let mut args: Vec<&str> = words.to_vec();
    args.extend(paths.iter().map(|path| path.to_str().unwrap()));
    run(&args, b"")
}

fn row(key: &str, time: &str) -> String {
    let url = waypost_surt::Surt::new(key.as_bytes()).to_uri();
    let url = String::from_utf8(url).unwrap();
    format!("{key} {time} {{\"url\": \"{url}\", \"mime\": \"text/html\", \"status\": \"200\"}}\n")
}

fn some_rows() -> String {
    [
        row("com,b)/", "20210101000000"),
        row("com,a)/", "20200101000000"),
        row("com,a:8080)/x", "20200101000000"),
        row("com,a)/x", "20190101000000"),
        row("com,a)/", "20200101000000"),
    ]
    .concat()
}

#[test]
fn an_index_is_sorted_zipped_searched_and_unzipped() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("in.cdxj"), some_rows()).unwrap();

    let sorted = with(
        &["index", "sort", "--unique", "-o"],
        &[&at("s.cdxj"), &at("in.cdxj")],
    );
    assert_eq!(sorted.code, 0, "{}", sorted.stderr);
    assert_eq!(sorted.stdout, "");
    assert!(sorted.stderr.contains("wrote 4 lines"), "{}", sorted.stderr);
    assert!(
        sorted.stderr.contains("removed 1 duplicate line"),
        "{}",
        sorted.stderr
    );
    let flat = fs::read_to_string(at("s.cdxj")).unwrap();
    let mut expected: Vec<&str> = flat.lines().collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(flat.lines().collect::<Vec<_>>(), expected);

    let zipped = with(
        &["index", "zipnum", "--lines", "2", "-o"],
        &[&at("z"), &at("s.cdxj")],
    );
    assert_eq!(zipped.code, 0, "{}", zipped.stderr);
    let unzipped = with(&["index", "unzip"], &[&at("z")]);
    assert_eq!((unzipped.code, unzipped.stdout), (0, flat));

    for index in [at("z"), at("s.cdxj"), at("z/cluster.idx")] {
        let index = index.to_str().unwrap();
        let found = run(&["index", "lookup", index, "a.com"], b"");
        assert_eq!(
            (found.code, found.stdout),
            (0, row("com,a)/", "20200101000000"))
        );
        let found = run(
            &["index", "lookup", index, "*.a.com", "--format", "text"],
            b"",
        );
        assert_eq!(
            found.stdout.lines().count(),
            3,
            "with the port: {}",
            found.stdout
        );
        let found = run(
            &[
                "index",
                "lookup",
                index,
                "-m",
                "domain",
                "a.com",
                "--as-pywb",
            ],
            b"",
        );
        assert_eq!(
            found.stdout.lines().count(),
            2,
            "without it: {}",
            found.stdout
        );
        let nothing = run(&["index", "lookup", index, "http://c.com/"], b"");
        assert_eq!((nothing.code, &nothing.stdout[..]), (1, ""));
    }
}

#[test]
fn a_batch_says_which_uris_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("in.cdxj"), some_rows()).unwrap();
    run(&["index", "sort", &at("in.cdxj"), "-o", &at("s.cdxj")], b"");
    let (index, misses) = (at("s.cdxj"), at("misses"));
    let words = [
        "index", "lookup", &index, "--batch", "-", "--misses", &misses, "--limit", "1",
    ];
    let found = run(
        &words,
        b"http://b.com/\nhttp://none.org/\n\nhttp://a.com/\nhttp://x:99999/\n",
    );
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert_eq!(found.stdout.lines().count(), 2);
    assert_eq!(
        fs::read_to_string(at("misses")).unwrap(),
        "http://none.org/\n"
    );
    assert!(
        found
            .stderr
            .contains("line 5: cannot look up http://x:99999/"),
        "{}",
        found.stderr
    );
}

#[test]
fn merging_what_is_not_sorted_is_an_error_with_both_lines_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.cdxj");
    fs::write(&input, some_rows()).unwrap();
    for command in ["merge", "zipnum"] {
        let out = folder.path().join("out");
        let failed = with(&["index", command, "-o"], &[&out, &input]);
        assert_eq!(failed.code, 2);
        assert!(
            failed.stderr.contains("in.cdxj: line 2: not sorted"),
            "{}",
            failed.stderr
        );
        assert!(
            failed.stderr.contains("before: com,b)/"),
            "{}",
            failed.stderr
        );
        assert!(
            failed.stderr.contains("hint: sort it first"),
            "{}",
            failed.stderr
        );
        assert!(!out.exists());
    }
}

#[test]
fn a_truncated_input_is_sorted_as_far_as_it_goes_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rows: String = (0..5000)
        .map(|n| row(&format!("com,site{n:05})/"), "2020"))
        .collect();
    fs::write(at("a.cdxj"), rows).unwrap();
    run(
        &["index", "sort", &at("a.cdxj"), "-o", &at("a.cdxj.gz")],
        b"",
    );
    let packed = fs::read(at("a.cdxj.gz")).unwrap();
    fs::write(at("cut.cdxj.gz"), &packed[..packed.len() / 2]).unwrap();
    let cut = run(
        &["index", "sort", &at("cut.cdxj.gz"), "-o", &at("b.cdxj")],
        b"",
    );
    assert_eq!(cut.code, 1);
    assert!(cut.stderr.contains("ends too early"), "{}", cut.stderr);
    let kept = fs::read_to_string(at("b.cdxj")).unwrap();
    assert!(kept.lines().count() > 100 && kept.lines().all(|line| line.ends_with('}')));
}

#[test]
fn a_killed_sort_leaves_no_output_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.cdxj");
    // It reads from a pipe that never ends, so it can only be killed.
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(["index", "sort", "-", "-o"])
        .arg(&out)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: when all is written, the sort is in the middle of reading.
    let rows = row("com,a)/", "2020").repeat(10_000);
    std::io::Write::write_all(&mut stdin, rows.as_bytes()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn words_that_make_no_sense_are_refused_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.cdxj");
    fs::write(&file, row("com,a)/", "2020")).unwrap();
    let file = file.to_str().unwrap();
    let taken = folder.path().to_str().unwrap();
    for (words, message) in [
        (
            vec!["lookup", file, "a.com", "--filter", "~url:("],
            "=status:200",
        ),
        (
            vec!["lookup", file, "a.com", "--from", "yesterday"],
            "2004-01-31",
        ),
        (vec!["lookup", file, "http://a:99999/"], "cannot look up"),
        (vec!["lookup", file], "URI"),
        (vec!["lookup", taken, "a.com"], "cluster.idx"),
        (vec!["lookup", "missing.cdxj", "a.com"], "check the path"),
        (vec!["merge", file, "--add", "collection"], "NAME=VALUE"),
        (vec!["zipnum", file, "-o", taken], "does not exist yet"),
        (vec!["sort", file, "--memory", "lots"], "512M"),
    ] {
        let refused = run(&[&["index"], &words[..]].concat(), b"");
        assert_eq!(refused.code, 2, "{words:?}");
        assert!(
            refused.stderr.contains(message),
            "{words:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn an_index_with_keys_of_another_spelling_is_refused_by_every_lookup_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let uri = "http://example.com:8080/a";
    for key in [
        "com,example,:8080)/a",
        "(com,example,:8080)/a",
        "http://(com,example,:8080)/a",
        "com,example):8080/a",
        "example.com:8080/a",
        "http://example.com:8080/a",
    ] {
        let line = format!("{key} 20200101000000 {uri} text/html 200 X - - 1 2 f\n");
        fs::write(at("odd.cdx"), line).unwrap();
        for lookup in [&["index", "lookup"][..], &["lookup"]] {
            let found = run(&[lookup, &[&at("odd.cdx"), uri]].concat(), b"");
            assert_eq!((found.code, &found.stdout[..]), (2, ""), "{key}");
            let hint = format!("index rekey {} --dialect ia -o FILE", at("odd.cdx"));
            assert!(found.stderr.contains(&hint), "{key}: {}", found.stderr);
        }
        let (odd, mended) = (at("odd.cdx"), at("mended.cdx"));
        let sorted = run(
            &["index", "rekey", "--dialect", "ia", &odd, "-o", &mended],
            b"",
        );
        assert_eq!(sorted.code, 0, "{key}: {}", sorted.stderr);
        for lookup in [&["index", "lookup"][..], &["lookup"]] {
            let found = run(&[lookup, &[&mended, uri]].concat(), b"");
            assert_eq!(found.code, 0, "{key}: {}", found.stderr);
            let surt = "com,example:8080)/a";
            assert!(found.stdout.contains(surt), "{key}: {}", found.stdout);
        }
    }
}

#[test]
fn an_index_with_foreign_keys_is_refused_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = |key: &str, url: &str| format!("{key} 20200101000000 {{\"url\": \"{url}\"}}\n");
    let uri = "http://www.example.com/a%2Fb";
    // As Webrecorder's tools write them: percent-escapes stay in the key.
    let escaped =
        line("com,example)/a%2fb", uri) + &line("com,example)/a/c", "http://example.com/a/c");
    fs::write(at("webrecorder.cdxj"), escaped).unwrap();
    for lookup in [&["index", "lookup"][..], &["lookup"]] {
        let found = run(&[lookup, &[&at("webrecorder.cdxj"), uri]].concat(), b"");
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    // As no dialect writes them: `www` stays in the key.
    let foreign =
        line("com,example)/a/c", "http://example.com/a/c") + &line("com,example,www)/a%2fb", uri);
    fs::write(at("w.cdxj"), foreign).unwrap();
    let refused = run(&["index", "lookup", &at("w.cdxj"), uri], b"");
    assert_eq!((refused.code, &refused.stdout[..]), (2, ""));
    let expected = "1 of 2 keys sampled from";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("index rekey "),
        "{}",
        refused.stderr
    );
    let trusted = run(
        &["index", "lookup", &at("w.cdxj"), uri, "--trust-keys"],
        b"",
    );
    assert_eq!((trusted.code, &trusted.stdout[..]), (1, ""));

    let mended = run(
        &[
            "index",
            "rekey",
            "--dialect",
            "ia",
            &at("w.cdxj"),
            "-o",
            &at("m.cdxj"),
        ],
        b"",
    );
    assert_eq!(mended.code, 0, "{}", mended.stderr);
    assert!(
        mended.stderr.contains("replaced 1 of 2 keys"),
        "{}",
        mended.stderr
    );
    let found = run(&["index", "lookup", &at("m.cdxj"), uri], b"");
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(
        found.stdout.starts_with("com,example)/a/b 2020"),
        "{}",
        found.stdout
    );

    let built = run(&["map", "build", &at("w.cdxj"), "-o", &at("w.ukvs")], b"");
    assert!(
        built.stderr.contains("1 of 2 keys are not the SURTs"),
        "{}",
        built.stderr
    );
    let found = run(&["map", "lookup", &at("w.ukvs"), uri], b"");
    assert_eq!(found.code, 0, "{}", found.stdout);
    fs::write(at("f.txt"), uri).unwrap();
    let built = run(
        &["filter", "build", &at("w.cdxj"), "-o", &at("w.filter")],
        b"",
    );
    assert!(
        built.stderr.contains("1 of 2 keys are not the SURTs"),
        "{}",
        built.stderr
    );
}

#[test]
fn the_dialect_of_an_index_is_detected_by_a_lookup() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = "com,example)/ 20200101000000 {\"url\": \"http://www.www2.example.com/\"}\n";
    fs::write(at("c.cdxj"), line).unwrap();
    let uri = "http://www.www2.example.com/";
    let found = run(&["index", "lookup", &at("c.cdxj"), uri], b"");
    assert_eq!(
        (found.code, &found.stdout[..]),
        (0, line),
        "{}",
        found.stderr
    );
    assert!(
        found.stderr.contains("of the dialect commoncrawl"),
        "{}",
        found.stderr
    );
    let refused = run(
        &["index", "lookup", &at("c.cdxj"), uri, "--dialect", "ia"],
        b"",
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("--dialect commoncrawl"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_lookup_in_a_file_that_is_not_an_index_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let uri = "http://example.com/";
    for (name, content, what) in [
        (
            "a.png",
            &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..],
            "a binary file",
        ),
        (
            "a.warc",
            b"WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n",
            "a WARC file",
        ),
        ("a.txt", b"http://example.com/\n", "a list of URIs"),
    ] {
        fs::write(at(name), content).unwrap();
        for lookup in [&["index", "lookup"][..], &["lookup"]] {
            let found = run(&[lookup, &[&at(name), uri]].concat(), b"");
            assert_eq!((found.code, &found.stdout[..]), (2, ""), "{name}");
            let message = format!("this is {what}, not an index");
            assert!(found.stderr.contains(&message), "{}", found.stderr);
        }
    }
}
