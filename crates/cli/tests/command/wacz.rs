//! WACZ files as inputs of every command.

use std::fs;
use std::path::Path;

use super::zip::{deflated, stored, zip};
use super::{example, run};

/// Lines as Webrecorder's tools write them: an escaped slash stays in the key.
const LINES: &str = concat!(
    "com,example)/ 20200101000000 {\"url\": \"https://example.com/\", \"mime\": \"text/html\", \"status\": 200, ",
    "\"digest\": \"sha256:aa\", \"length\": 10, \"offset\": 7, \"filename\": \"crawl.warc.gz\"}\n",
    "com,example)/a%2fb 20200101000001 {\"url\": \"https://example.com/a%2Fb\", \"mime\": \"text/html\", ",
    "\"status\": 200, \"digest\": \"sha256:bb\", \"length\": 11, \"offset\": 17, \"filename\": \"crawl.warc.gz\"}\n",
);

fn write(path: &Path, index: &str) {
    let warc = fs::read(example("crawl.warc.gz")).unwrap();
    let files = [
        stored("archive/crawl.warc.gz", warc),
        deflated("indexes/index.cdxj", index),
        deflated("datapackage.json", "{}"),
    ];
    fs::write(path, zip(&files, 0, b"")).unwrap();
}

#[test]
fn every_command_reads_the_index_in_a_wacz_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    write(&folder.path().join("a.wacz"), LINES);
    let wacz = at("a.wacz");
    let check = run(&["index", "check", &wacz], b"");
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    assert!(
        check.stdout.contains("CDXJ of Webrecorder"),
        "{}",
        check.stdout
    );
    for words in [
        &["sort"][..],
        &["merge"],
        &["convert", "--to", "cdxj"],
        &["rekey", "--dialect", "webrecorder"],
    ] {
        let out = run(&[&["index"], words, &[&wacz]].concat(), b"");
        assert_eq!(
            (out.code, &out.stdout[..]),
            (0, LINES),
            "{words:?}: {}",
            out.stderr
        );
    }
    let out = run(&["index", "zipnum", &wacz, "-o", &at("zipnum")], b"");
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(run(&["index", "unzip", &at("zipnum")], b"").stdout, LINES);

    let uri = "https://example.com/a%2Fb";
    for words in [&["index", "lookup"][..], &["lookup"]] {
        let found = run(&[words, &[&wacz, uri]].concat(), b"");
        assert_eq!(found.code, 0, "{words:?}: {}", found.stderr);
        assert!(
            found.stdout.contains("com,example)/a%2fb"),
            "{}",
            found.stdout
        );
        let note = "are of the dialect webrecorder";
        assert!(found.stderr.contains(note), "{}", found.stderr);
        assert_eq!(
            run(&[words, &[&wacz, "https://example.com/c"]].concat(), b"").code,
            1
        );
    }
    let (map, filter) = (at("a.ukvs"), at("a.filter"));
    for words in [
        &["map", "build", &wacz, "-o", &map][..],
        &["filter", "build", &wacz, "-o", &filter],
        &["profile", &wacz, "-o", &at("profiles")],
        &["profile", "growth", &wacz],
    ] {
        let built = run(words, b"");
        assert_eq!(built.code, 0, "{words:?}: {}", built.stderr);
        let note = "using the dialect webrecorder, as WACZ files do";
        assert!(built.stderr.contains(note), "{words:?}: {}", built.stderr);
        let with = run(&[words, &["--dialect", "ia"]].concat(), b"");
        assert!(!with.stderr.contains(note), "{words:?}: {}", with.stderr);
    }
    run(&["map", "build", &wacz, "-o", &map], b"");
    let found = run(&["map", "lookup", &map, uri], b"");
    assert!(
        found.stdout.contains("com,example)/a%2fb"),
        "{}",
        found.stdout
    );
    assert!(folder.path().join("profiles/a.H1P0.cdxj").exists());
    fs::write(
        at("lookups.txt"),
        format!("{uri}\nhttps://example.com/no\n"),
    )
    .unwrap();
    let words = [
        "evaluate",
        &map,
        "--holdings",
        &wacz,
        "--lookups",
        &at("lookups.txt"),
    ];
    let evaluated = run(&words, b"");
    assert_eq!(evaluated.code, 0, "{}", evaluated.stderr);
}

#[test]
fn the_warc_files_in_a_wacz_file_are_indexed_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    write(&path, LINES);
    let warc = example("crawl.warc.gz");
    let expected = run(
        &[
            "index",
            "warc",
            warc.to_str().unwrap(),
            "--dialect",
            "webrecorder",
        ],
        b"",
    );
    for input in [&path, &folder.path().to_owned()] {
        let indexed = run(&["index", "warc", input.to_str().unwrap()], b"");
        assert_eq!(indexed.code, 0, "{}", indexed.stderr);
        assert_eq!(indexed.stdout, expected.stdout);
        assert!(
            indexed.stderr.contains("dialect webrecorder"),
            "{}",
            indexed.stderr
        );
    }
}

#[test]
fn what_cannot_be_read_from_a_wacz_file_is_said_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("a.zip"), zip(&[stored("a.txt", "text")], 0, b"")).unwrap();
    fs::write(at("no.wacz"), zip(&[stored("archive/a.warc", "")], 0, b"")).unwrap();
    write(&folder.path().join("a.wacz"), LINES);
    let whole = fs::read(at("a.wacz")).unwrap();
    fs::write(at("cut.wacz"), &whole[..whole.len() - 30]).unwrap();
    for (words, message) in [
        (&["index", "check", "a.zip"][..], "indexes/ and archive/"),
        (
            &["index", "lookup", "a.zip", "http://a.com/"],
            "indexes/ and archive/",
        ),
        (&["index", "sort", "no.wacz"], "waypost index warc FILE"),
        (&["map", "build", "cut.wacz", "-o", "map"], "copy it again"),
        (
            &["map", "lookup", "a.wacz", "http://a.com/"],
            "waypost map build FILE",
        ),
    ] {
        let words: Vec<String> = words
            .iter()
            .map(
                |word| match word.contains(".wacz") || word.contains(".zip") {
                    true => at(word),
                    false => (*word).to_owned(),
                },
            )
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = run(&words, b"");
        assert_eq!(refused.code, 2, "{words:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(message),
            "{words:?}: {}",
            refused.stderr
        );
    }
    let piped = run(&["index", "check", "-"], &whole);
    assert_eq!(piped.code, 2);
    assert!(
        piped.stderr.contains("cannot be read from a pipe"),
        "{}",
        piped.stderr
    );
    // A WACZ file in an input folder must not be overwritten.
    let (input, output) = (folder.path().to_str().unwrap(), at("a.wacz"));
    fs::remove_file(at("no.wacz")).unwrap();
    fs::remove_file(at("cut.wacz")).unwrap();
    let refused = run(&["index", "merge", input, "-o", &output], b"");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("is an input and an output"),
        "{}",
        refused.stderr
    );
}
