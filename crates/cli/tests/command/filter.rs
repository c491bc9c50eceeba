//! `waypost filter …`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Run, run};

fn here(folder: &Path, args: &[&str]) -> Run {
    let args: Vec<String> = args
        .iter()
        .map(|arg| match arg.strip_prefix('@') {
            Some(name) => folder.join(name).to_str().unwrap().to_owned(),
            None => (*arg).to_owned(),
        })
        .collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>(), b"")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let uris: String = (0..2000)
        .map(|n| format!("http://www.example.com/{n}\n"))
        .collect();
    std::fs::write(folder.path().join("uris.txt"), uris).unwrap();
    std::fs::write(
        folder.path().join("a.cdxj"),
        "com,example)/0 20040102030405 {\"url\": \"http://example.com/0\", \"status\": \"200\"}\n\
         com,example)/new 20050102030405 {\"url\": \"http://example.com/new\", \"status\": \"404\"}\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("secret"),
        "000102030405060708090a0b0c0d0e0f\n",
    )
    .unwrap();
    folder
}

#[test]
fn a_batch_is_answered_in_order_as_tsv_without_a_header() {
    let folder = folder();
    let built = here(
        folder.path(),
        &["filter", "build", "@uris.txt", "-o", "@f", "--bits", "16"],
    );
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert!(built.stderr.contains("2,000 keys"), "{}", built.stderr);
    std::fs::write(
        folder.path().join("batch"),
        "https://example.com/7\nhttp://example.com:99999/\ncom,example)/8\nhttp://nobody.example/\n",
    )
    .unwrap();
    for mmap in [&[][..], &["--no-mmap"]] {
        let args = [
            &[
                "filter", "lookup", "@f", "--batch", "@batch", "--format", "tsv",
            ][..],
            mmap,
        ]
        .concat();
        let answers = here(folder.path(), &args);
        assert_eq!(
            answers.stdout,
            "https://example.com/7\tpresent\tcom,example)/7\t/\n\
             http://example.com:99999/\trejected\t-\t-\n\
             com,example)/8\tpresent\tcom,example)/8\t/\n\
             http://nobody.example/\tabsent\t-\t-\n"
        );
        assert_eq!((answers.code, answers.stderr.as_str()), (0, ""));
    }
    let absent = here(
        folder.path(),
        &["filter", "lookup", "@f", "http://nobody.example/"],
    );
    assert_eq!(absent.code, 1);
    assert!(absent.stdout.contains("absent"));
}

#[test]
fn captures_are_filtered_and_dated_by_the_newest() {
    let folder = folder();
    here(
        folder.path(),
        &[
            "filter", "build", "@a.cdxj", "-o", "@f", "--status", "200", "--bits", "16", "--title",
            "T",
        ],
    );
    let info = here(folder.path(), &["filter", "info", "@f", "--format", "json"]);
    let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
    assert_eq!(info["keys"], 1);
    assert_eq!(info["metadata"]["date"][0], "2004-01-02");
    assert_eq!(info["metadata"]["title"][0], "T");
    assert_eq!(
        here(
            folder.path(),
            &[
                "filter",
                "lookup",
                "@f",
                "http://example.com/new",
                "--status",
                "200"
            ]
        )
        .code,
        1
    );
    assert_eq!(
        here(
            folder.path(),
            &["filter", "lookup", "@f", "http://example.com/0"]
        )
        .code,
        0
    );
}

#[test]
fn bad_lines_of_a_list_are_kept_in_their_order() {
    let folder = folder();
    let (mut list, mut bad) = (String::new(), String::new());
    // Several blocks, which are done in any order.
    for n in 0..150_000 {
        if n % 1000 == 7 {
            bad.push_str(&format!("http://x.y:99999/{n}\n"));
            list.push_str(&format!("http://x.y:99999/{n}\n"));
        } else {
            list.push_str(&format!("http://example.com/page/{n}\n"));
        }
    }
    std::fs::write(folder.path().join("list.txt"), list).unwrap();
    let made = here(
        folder.path(),
        &[
            "filter",
            "build",
            "@list.txt",
            "-o",
            "@f",
            "--rejects",
            "@bad",
        ],
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("bad")).unwrap(),
        bad
    );
}

#[test]
fn a_keyed_filter_answers_only_with_its_key() {
    let folder = folder();
    let built = here(
        folder.path(),
        &[
            "filter",
            "build",
            "@uris.txt",
            "-o",
            "@f",
            "--key-file",
            "@secret",
        ],
    );
    assert_eq!(built.code, 0, "{}", built.stderr);
    let without = here(
        folder.path(),
        &["filter", "lookup", "@f", "http://example.com/1"],
    );
    assert_eq!((without.code, without.stdout.as_str()), (2, ""));
    assert!(without.stderr.contains("hint: "), "{}", without.stderr);
    let with = here(
        folder.path(),
        &[
            "filter",
            "lookup",
            "@f",
            "http://example.com/1",
            "--key-file",
            "@secret",
        ],
    );
    assert_eq!(with.code, 0);
    let file = std::fs::read(folder.path().join("f")).unwrap();
    let key: Vec<u8> = (0..16).collect();
    assert!(
        !file.windows(16).any(|window| window == key),
        "the key is in the file"
    );
    let privacy = here(folder.path(), &["filter", "privacy", "@f"]).stdout;
    assert!(privacy.contains("It is keyed"), "{privacy}");
}

#[test]
fn checking_with_holdings_finds_what_is_missing() {
    let folder = folder();
    here(
        folder.path(),
        &["filter", "build", "@uris.txt", "-o", "@f", "--bits", "12"],
    );
    let right = here(
        folder.path(),
        &[
            "filter",
            "check",
            "@f",
            "--holdings",
            "@uris.txt",
            "--tries",
            "100K",
        ],
    );
    assert_eq!(right.code, 0, "{}", right.stdout);
    let wrong = here(
        folder.path(),
        &[
            "filter",
            "check",
            "@f",
            "--holdings",
            "@a.cdxj",
            "--tries",
            "0",
        ],
    );
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stdout.contains("of them missing  1\n"),
        "{}",
        wrong.stdout
    );
    let mut bytes = std::fs::read(folder.path().join("f")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(folder.path().join("f"), &bytes).unwrap();
    let damaged = here(folder.path(), &["filter", "check", "@f"]);
    assert_eq!(damaged.code, 1);
    assert!(damaged.stderr.contains("checksum"), "{}", damaged.stderr);
    std::fs::write(folder.path().join("f"), &bytes[..last]).unwrap();
    let cut = here(folder.path(), &["filter", "info", "@f"]);
    assert_eq!(cut.code, 2);
    assert!(cut.stderr.starts_with("error: "), "{}", cut.stderr);
}

#[test]
fn hashes_become_any_filter_and_forget_what_is_taken_down() {
    let folder = folder();
    let ok = |args: &[&str]| {
        let done = here(folder.path(), args);
        assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
    };
    ok(&[
        "filter",
        "build",
        "@uris.txt",
        "--kind",
        "hashes",
        "-o",
        "@u.hashes",
    ]);
    ok(&[
        "filter",
        "build",
        "@a.cdxj",
        "--kind",
        "hashes",
        "-o",
        "@a.hashes",
    ]);
    ok(&[
        "filter",
        "merge",
        "@u.hashes",
        "@a.hashes",
        "-o",
        "@all.hashes",
    ]);
    std::fs::write(folder.path().join("takedown"), "http://example.com/new\n").unwrap();
    ok(&[
        "filter",
        "exclude",
        "@all.hashes",
        "@takedown",
        "-o",
        "@all.hashes",
    ]);
    ok(&[
        "filter",
        "merge",
        "@all.hashes",
        "--kind",
        "ribbon",
        "--bits",
        "16",
        "-o",
        "@f",
    ]);
    assert_eq!(
        here(
            folder.path(),
            &[
                "filter",
                "lookup",
                "@f",
                "http://example.com/new",
                "--status",
                "200"
            ]
        )
        .code,
        1
    );
    ok(&["filter", "lookup", "@f", "http://example.com/1999"]);
    ok(&[
        "filter",
        "merge",
        "@all.hashes",
        "--kind",
        "bloom",
        "--fpr",
        "0.1%",
        "--room",
        "5K",
        "-o",
        "@b",
    ]);
    ok(&["filter", "add", "@b", "@a.cdxj"]);
    ok(&["filter", "lookup", "@b", "http://example.com/new"]);
    let refused = here(folder.path(), &["filter", "add", "@f", "@a.cdxj"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("hint: "), "{}", refused.stderr);
}

#[test]
fn a_plan_shows_every_kind_and_the_papers_filters() {
    let plan = run(
        &[
            "filter", "plan", "--uris", "800M", "--growth", "200M", "--years", "10", "--fpr", "1%",
        ],
        b"",
    );
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    for word in [
        "ribbon",
        "bloom",
        "hashes",
        "the paper's 16 filters",
        "in 10 years",
        "3.94 GB",
    ] {
        assert!(plan.stdout.contains(word), "no {word} in\n{}", plan.stdout);
    }
}

#[test]
fn privacy_is_told_in_numbers() {
    let folder = folder();
    here(
        folder.path(),
        &["filter", "build", "@uris.txt", "-o", "@f", "--fpr", "1%"],
    );
    let told = here(folder.path(), &["filter", "privacy", "@f"]).stdout;
    for word in [
        "2,000 keys",
        "not keyed",
        "0.10%",
        "1.0%",
        "10%",
        "3,000,000,000",
        "minutes",
    ] {
        assert!(told.contains(word), "no {word} in\n{told}");
    }
}

#[test]
fn a_build_that_is_killed_leaves_no_file() {
    let folder = folder();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(["filter", "build", "-", "--memory", "64M", "--temporary"])
        .arg(folder.path())
        .arg("-o")
        .arg(folder.path().join("f"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: when all is written, the build is in the middle of reading.
    for n in 0..200_000 {
        writeln!(stdin, "http://www.example.com/{n}").unwrap();
    }
    stdin.flush().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["a.cdxj", "secret", "uris.txt"]);
}

#[test]
fn filters_apply_to_lists_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "http://www.s.com/secret\nhttp://t.com/\ncom,s)/also\ncom,t)/b\n";
    std::fs::write(folder.path().join("list.txt"), text).unwrap();
    let outputs: [(&[&str], &str); 3] = [
        (&["filter", "build", "@list.txt", "--kind", "hashes"], "@f"),
        (&["map", "build", "@list.txt"], "@m.ukvs"),
        (&["profile", "@list.txt", "--policy", "URIR"], "@p"),
    ];
    for (command, out) in outputs {
        let built = here(
            folder.path(),
            &[command, &["--exclude", "com,s", "-o", out]].concat(),
        );
        assert_eq!(built.code, 0, "{command:?}: {}", built.stderr);
        for option in [
            &["--status", "200"][..],
            &["--mime", "text/html"],
            &["--from", "2004"],
            &["--to", "2004"],
            &["--revisits", "drop"],
        ] {
            let refused = here(folder.path(), &[command, option, &["-o", out]].concat());
            assert_eq!(refused.code, 2, "{command:?} {option:?}");
            assert!(
                refused.stderr.contains("list.txt: a list of URIs has no"),
                "{}",
                refused.stderr
            );
        }
    }
    let text = std::fs::read_to_string(folder.path().join("m.ukvs")).unwrap();
    assert!(
        !text.contains("com,s)") && text.contains("com,t)/b"),
        "{text}"
    );
    let profile = std::fs::read_dir(folder.path().join("p"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let text = std::fs::read_to_string(profile.path()).unwrap();
    assert!(
        !text.contains("com,s)") && text.contains("com,t)/b"),
        "{text}"
    );
    for (uri, answer) in [
        ("http://s.com/secret", "unknown"),
        ("http://s.com/also", "unknown"),
        ("http://t.com/b", "present"),
    ] {
        let found = here(folder.path(), &["filter", "lookup", "@f", uri]);
        assert!(found.stdout.contains(answer), "{uri}: {}", found.stdout);
    }
}
