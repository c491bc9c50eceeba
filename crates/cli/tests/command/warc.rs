//! `waypost index warc`.

use std::fs;

use super::run;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crawl.warc.gz");

#[test]
fn a_warc_becomes_an_index_that_is_searched() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = run(&["index", "warc", EXAMPLE, "-o", &at("a.cdxj")], b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("wrote 4 lines"), "{}", made.stderr);
    let zipped = run(&["index", "warc", EXAMPLE, "--zipnum", &at("z")], b"");
    assert_eq!(zipped.code, 0, "{}", zipped.stderr);
    for index in ["a.cdxj", "z"] {
        let found = run(&["index", "lookup", &at(index), "http://example.com/"], b"");
        assert_eq!(found.stdout.lines().count(), 2, "{}", found.stderr);
    }
    let all = run(
        &["index", "warc", EXAMPLE, "--records", "all", "--digest"],
        b"",
    );
    assert_eq!(all.stdout.lines().count(), 6);
    assert_eq!(all.stdout.matches("\"recordDigest\": \"sha256:").count(), 6);
    let requests = run(&["index", "warc", EXAMPLE, "--records", "request"], b"");
    assert_eq!(requests.stdout.lines().count(), 1);
    let unknown = run(&["index", "warc", EXAMPLE, "--records", "respond"], b"");
    assert_eq!(unknown.code, 2);
    let message = "unknown record type `respond`";
    assert!(unknown.stderr.contains(message), "{}", unknown.stderr);
    let skipping = run(&["index", "warc", EXAMPLE, "--skip-bodies"], b"");
    assert_eq!(
        skipping.stdout,
        run(&["index", "warc", EXAMPLE], b"").stdout
    );
}

#[test]
fn file_names_may_be_relative_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    fs::copy(EXAMPLE, below.join("x.warc.gz")).unwrap();
    fs::write(below.join("notes.txt"), "no archive").unwrap();
    let root = folder.path().to_str().unwrap();
    let plain = run(&["index", "warc", root], b"");
    assert!(
        plain.stdout.contains("\"filename\": \"x.warc.gz\""),
        "{}",
        plain.stderr
    );
    let relative = run(&["index", "warc", root, "--dir-root", root], b"");
    assert!(
        relative.stdout.contains("\"filename\": \"a/b/x.warc.gz\""),
        "{}",
        relative.stderr
    );
}

#[test]
fn damage_is_named_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = fs::read(EXAMPLE).unwrap();
    fs::write(at("cut.warc.gz"), &whole[..whole.len() - 10]).unwrap();
    let cut = run(
        &["index", "warc", &at("cut.warc.gz"), "-o", &at("a.cdxj")],
        b"",
    );
    assert_eq!(cut.code, 1);
    let said = "byte 1,648: the last record is truncated; skipped";
    assert!(cut.stderr.contains(said), "{}", cut.stderr);
    assert_eq!(fs::read_to_string(at("a.cdxj")).unwrap().lines().count(), 3);
    fs::write(at("notes.warc"), "some text\n").unwrap();
    let refused = run(
        &["index", "warc", &at("notes.warc"), "-o", &at("b.cdxj")],
        b"",
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("not a WARC or ARC file"),
        "{}",
        refused.stderr
    );
    assert!(!folder.path().join("b.cdxj").exists());
    fs::create_dir(at("empty")).unwrap();
    let nothing = run(&["index", "warc", &at("empty")], b"");
    assert_eq!(nothing.code, 2);
    assert!(
        nothing.stderr.contains("hint: name files"),
        "{}",
        nothing.stderr
    );
}
