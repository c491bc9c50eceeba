//! Options are honoured or refused, never ignored.

use super::basics::{commands, help};
use super::run;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small.cdxj");

#[test]
fn options_that_cannot_be_honoured_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let output = output.to_str().unwrap();
    for (args, reason) in [
        (
            &["index", "check", EXAMPLE, "--memory", "0"][..],
            "invalid size",
        ),
        (
            &["index", "check", EXAMPLE, "--memory", "1M"],
            "at least 64M",
        ),
        (
            &["index", "check", EXAMPLE, "--threads", "0"],
            "0 is not in",
        ),
        (
            &["index", "sort", EXAMPLE, "--temporary", "/no/such"],
            "not a folder",
        ),
        (
            &["index", "check", EXAMPLE, "--from", "2024", "--to", "2020"],
            "later",
        ),
        (
            &[
                "map",
                "build",
                EXAMPLE,
                "--from",
                "2024",
                "--to",
                "2020-12-31",
                "-o",
                output,
            ],
            "later",
        ),
        (
            &[
                "index",
                "lookup",
                EXAMPLE,
                "--from",
                "2024",
                "--to",
                "2020",
                "http://a/",
            ],
            "later",
        ),
        (
            &["index", "lookup", EXAMPLE, "-f", "status=200", "http://a/"],
            "=status:200",
        ),
        (
            &["index", "lookup", EXAMPLE, "-f", "=200", "http://a/"],
            "=status:200",
        ),
        (
            &[
                "index",
                "lookup",
                EXAMPLE,
                "--from",
                "2024-02-30",
                "http://a/",
            ],
            "invalid time",
        ),
        (
            &["index", "lookup", EXAMPLE, "--match", "nope", "http://a/"],
            "possible values",
        ),
        (
            &["keys", "--dialect", "nope", "http://a/"],
            "commoncrawl-legacy",
        ),
        (
            &["filter", "build", EXAMPLE, "--kind", "nope", "-o", output],
            "possible values",
        ),
    ] {
        let refused = run(args, b"");
        assert_eq!(refused.code, 2, "{args:?}");
        assert!(
            refused.stderr.contains(reason),
            "{args:?}: {}",
            refused.stderr
        );
        assert!(!folder.path().join("out").exists(), "{args:?}");
    }
}

#[test]
fn iso_dates_and_digits_select_the_same_captures() {
    let lines = |args: &[&str]| {
        let args = [
            &["index", "lookup", EXAMPLE, "http://gazette.example.com/"],
            args,
        ]
        .concat();
        run(&args, b"").stdout.lines().count()
    };
    let all = lines(&[]);
    let iso = lines(&["--from", "2021-02-20", "--to", "2021-02-20"]);
    assert_eq!(iso, lines(&["--from", "20210220", "--to", "20210220"]));
    assert!(0 < iso && iso < all, "{iso} of {all}");
}

#[test]
fn every_size_has_the_same_units() {
    let folder = tempfile::tempdir().unwrap();
    let size = |size: &str| {
        let path = folder.path().join("f");
        let args = [
            "filter",
            "build",
            EXAMPLE,
            "--bytes",
            size,
            "-o",
            path.to_str().unwrap(),
        ];
        let done = run(&args, b"");
        assert_eq!(done.code, 0, "{}", done.stderr);
        std::fs::metadata(path).unwrap().len()
    };
    assert!(size("1K") <= 1_000);
    assert!(size("1KiB") <= 1_024);
    assert!(size("0.8K") <= 800);
}

#[test]
fn a_batch_of_index_lookups_is_bounded_and_its_bad_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let misses = folder.path().join("misses");
    let mut input = b"http://gazette.example.com/\nhttp://x:y/\n".to_vec();
    input.resize(input.len() + (17 << 20), b'z');
    input.extend_from_slice(b"\nhttp://nothing.example.net/\n");
    let args = [
        "index",
        "lookup",
        EXAMPLE,
        "--batch",
        "-",
        "--misses",
        misses.to_str().unwrap(),
    ];
    let done = run(&args, &input);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.lines().count() > 1);
    assert!(
        done.stdout
            .lines()
            .all(|line| line.starts_with("com,example,gazette)/ "))
    );
    assert!(done.stderr.contains("line 2: "), "{}", done.stderr);
    assert!(
        done.stderr.contains("line 3: the line is too long"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("of 1 URI; nothing for 1 URI"),
        "{}",
        done.stderr
    );
    assert_eq!(
        std::fs::read_to_string(misses).unwrap(),
        "http://nothing.example.net/\n"
    );
}

#[test]
fn every_command_takes_the_resources_that_it_uses() {
    // These read little or nothing, or write one file from one that is mapped.
    let none = [
        "completions",
        "demo",
        "discover",
        "man",
        "publish",
        "filter import",
        "filter info",
        "filter plan",
        "filter privacy",
        "harvest",
        "learn",
        "memento",
        "memgator",
        "segments predict",
        "segments rank",
        "serve",
        "stats compare",
        "timemap",
        "worker combine",
        "worker merge",
        "worker plan",
    ];
    // These need little memory and no temporary files.
    let threads_only = [
        "keys",
        "lastmod anomalies",
        "segments merge",
        "index serve",
        "index unzip",
        "profile lookup",
        "filter lookup",
        "filter serve",
    ];
    for words in commands() {
        let help = help(&words);
        let name = words.join(" ");
        let is_group = help.contains("Commands:\n") && !["profile", "stats"].contains(&&*name);
        let expected = match &*name {
            _ if is_group || none.contains(&&*name) => [false; 3],
            name => [
                !threads_only.contains(&name),
                !threads_only.contains(&name),
                true,
            ],
        };
        let options = ["--memory <SIZE>", "--temporary <FOLDER>", "--threads <N>"];
        let found = options.map(|option| help.contains(option));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_number_of_threads_is_set_once() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = folder.path().join("hashes");
    let hashes = hashes.to_str().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lookups.txt");
    for args in [
        &["keys", "http://a.com/"][..],
        &["filter", "build", EXAMPLE, "--kind", "hashes", "-o", hashes],
        &["filter", "merge", hashes, "-o", out],
        &[
            "filter",
            "exclude",
            hashes,
            list,
            "--holdings",
            EXAMPLE,
            "-o",
            out,
        ],
        &["filter", "lookup", hashes, "http://library.example.org/"],
        &["lookup", EXAMPLE, "http://library.example.org/"],
    ] {
        let run = run(&[args, &["--threads", "2"]].concat(), b"");
        assert!(run.code < 2, "{args:?}: {}", run.stderr);
    }
}
