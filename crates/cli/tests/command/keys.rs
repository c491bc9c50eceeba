//! `waypost keys`.

use super::{run, waypost};

const URI: &str = "https://www.news.BBC.co.uk/images/Logo.png?width=200&height=80&rotate=90#top";

#[test]
fn a_uri_is_shown_with_its_surt_domain_and_keys() {
    let shown = run(&["keys", URI, "--policy", "H3P0,HxP1,DIni"], b"");
    assert_eq!(shown.code, 0);
    assert_eq!(
        shown.stdout,
        format!(
            "{URI}\n  SURT               uk,co,bbc,news)/images/logo.png?height=80&rotate=90&width=200\n  \
             registered domain  bbc.co.uk\n  H3P0               uk,co,bbc)/\n  \
             HxP1               uk,co,bbc,news)/images\n  DIni               uk,co,bbc)/1/2/3/i\n"
        )
    );
}

#[test]
fn all_23_policies_are_the_default() {
    let rows = run(&["keys", URI, "--format", "tsv"], b"").stdout;
    assert_eq!(rows.lines().count(), 1 + 23);
    assert!(rows.lines().next().unwrap().contains("\tSURT\t"));
    assert!(rows.lines().all(|row| row.split('\t').count() == 3));
}

#[test]
fn json_has_an_object_a_line_with_the_same_as_tsv() {
    let uri = "http://example.com/a\"b\\c?\u{e9}";
    let json = run(&["keys", uri, "--format", "json", "--policy", "none"], b"").stdout;
    let row: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(row["uri"], uri);
    assert_eq!(row["policy"], "SURT");
    assert_eq!(row["key"], "com,example)/a\"b\\c?%c3%a9");
}

#[test]
fn many_lines_keep_their_order() {
    let uris: Vec<String> = (0..50_000)
        .map(|i| format!("http://h{i}.example.com/p{i}"))
        .collect();
    let input = uris.join("\n");
    let rows = run(
        &["keys", "--policy", "none", "--format", "tsv"],
        input.as_bytes(),
    )
    .stdout;
    let expected: Vec<String> = (0..50_000)
        .map(|i| format!("http://h{i}.example.com/p{i}\tSURT\tcom,example,h{i})/p{i}"))
        .collect();
    assert!(rows.lines().eq(expected.iter().map(String::as_str)));
}

#[test]
fn a_bad_uri_has_no_row_and_is_shown_with_its_line() {
    let mixed = run(
        &["keys", "--policy", "none", "--format", "tsv"],
        b"http://a.com/\r\nhttp://b.com:99999/\n\nhttp://c.com/",
    );
    assert_eq!(mixed.code, 0);
    assert_eq!(
        mixed.stdout,
        "http://a.com/\tSURT\tcom,a)/\nhttp://c.com/\tSURT\tcom,c)/\n"
    );
    assert!(
        mixed.stderr.contains("line 2: the port is not a number"),
        "{}",
        mixed.stderr
    );
    assert!(
        mixed.stderr.contains("line 3: the URI is empty"),
        "{}",
        mixed.stderr
    );
}

#[test]
fn many_bad_uris_are_counted() {
    let input = "http://x:y/\n".repeat(1_234);
    let bad = run(&["keys"], input.as_bytes());
    assert_eq!(bad.code, 1, "nothing was found");
    assert!(bad.stderr.contains("1,234 of 1,234"), "{}", bad.stderr);
    assert_eq!(bad.stderr.lines().count(), 4);
}

#[test]
fn strict_stops_at_the_first_bad_uri() {
    let input = b"http://a.com/\nhttp://x:y/\nhttp://b.com/\n";
    let strict = run(
        &["keys", "--strict", "--policy", "none", "--format", "tsv"],
        input,
    );
    assert_eq!(strict.code, 2);
    assert_eq!(strict.stdout, "http://a.com/\tSURT\tcom,a)/\n");
    assert!(
        strict.stderr.starts_with("error: line 2: "),
        "{}",
        strict.stderr
    );
    assert!(strict.stderr.contains("\nhint: "), "{}", strict.stderr);
}

#[test]
fn surts_are_taken_as_they_are_and_dialects_differ() {
    let rows = |dialect: &str| {
        run(
            &[
                "keys",
                "--policy",
                "none",
                "--format",
                "tsv",
                "--dialect",
                dialect,
            ],
            b"com,example)/A?b\nhttp://www.www.example.com/%E9\n",
        )
        .stdout
    };
    let surt = "com,example)/A?b\tSURT\tcom,example)/A?b\n";
    let uri = "http://www.www.example.com/%E9\tSURT\t";
    assert_eq!(rows("ia"), format!("{surt}{uri}com,example,www)/%e9\n"));
    assert_eq!(
        rows("commoncrawl"),
        format!("{surt}{uri}com,example)/%e9\n")
    );
    assert_eq!(
        rows("commoncrawl-legacy"),
        format!("{surt}{uri}com,example)/%25e9\n")
    );
    assert_eq!(
        rows("webrecorder"),
        format!("{surt}{uri}com,example,www)/%e9\n")
    );
}

#[test]
fn an_unknown_policy_or_dialect_is_named_with_those_that_exist() {
    let policy = run(&["keys", "--policy", "H3P0,Nope", "http://a/"], b"");
    assert_eq!(policy.code, 2);
    assert!(
        policy.stderr.contains("`Nope`") && policy.stderr.contains("hint: "),
        "{}",
        policy.stderr
    );
    let dialect = run(&["keys", "--dialect", "nope", "http://a/"], b"");
    assert_eq!(dialect.code, 2);
    assert!(
        dialect.stderr.contains("commoncrawl-legacy"),
        "{}",
        dialect.stderr
    );
}

#[test]
fn bytes_that_are_not_utf_8_pass_through() {
    let output = waypost(&["keys", "--policy", "none", "--format", "tsv"])
        .write_stdin(&b"http://example.com/\xE9\t\xFF\n"[..])
        .output()
        .unwrap();
    assert_eq!(
        output.stdout,
        b"http://example.com/\xE9\\t\xFF\tSURT\tcom,example)/%e9%ff\n"
    );
}
