//! Every layout, read from a file, with data made for it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;

use waypost_index::check::{self, Report};
use waypost_index::input;
use waypost_index::rejects::Bad;
use waypost_index::scan::{self, At, Job};
use waypost_index::web::NonWeb;
use waypost_index::{Capture, Field, Fields};
use waypost_io::Source;

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// Keeps what captures have, as text.
struct Everything;

type Row = (String, String, Vec<(Field, String)>);

impl Job for Everything {
    type Partial = Vec<Row>;

    fn fields(&self) -> Fields {
        Fields::ALL
    }
    fn empty(&self) -> Vec<Row> {
        Vec::new()
    }
    fn add(&self, rows: &mut Vec<Row>, capture: &Capture<'_>, _: At) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, text(&capture.text(field)?))))
            .collect();
        rows.push((text(capture.key()), text(capture.timestamp()), fields));
    }
    fn merge(&self, earlier: &mut Vec<Row>, later: Vec<Row>, _: At) -> waypost_io::Result<()> {
        earlier.extend(later);
        Ok(())
    }
    fn to_bytes(&self, rows: &Vec<Row>) -> waypost_io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(rows).unwrap())
    }
    fn from_bytes(&self, bytes: &[u8]) -> waypost_io::Result<Vec<Row>> {
        Ok(serde_json::from_slice(bytes).unwrap())
    }
}

fn with_file<T>(text: impl AsRef<[u8]>, look: impl FnOnce(&[Source]) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cdx");
    fs::write(&path, text).unwrap();
    look(&[Source::new(path)])
}

fn report(text: impl AsRef<[u8]>) -> Report {
    with_file(text, |sources| {
        check::check(sources, check::Options::default()).unwrap()
    })
}

/// The layout's name and the one capture of a text.
fn only(text: &str) -> (String, Row) {
    let (mut rows, outcome) = with_file(text, |sources| {
        scan::scan(sources, &Everything, scan::Options::default()).unwrap()
    });
    assert_eq!(
        outcome.rejects.total(),
        0,
        "{:?}",
        outcome.rejects.examples()
    );
    assert_eq!(rows.len(), 1, "{text}");
    (outcome.files[0].layout.to_string(), rows.remove(0))
}

fn get(row: &Row, field: Field) -> Option<&str> {
    row.2
        .iter()
        .find(|(known, _)| *known == field)
        .map(|(_, text)| text.as_str())
}

#[test]
fn columns_are_known_by_their_number_when_no_header_names_them() {
    let start = "org,example)/a 20110203040506 http://example.org/a text/html 200 QWERTY";
    let cases = [
        ("org,example)/a 20110203040506 http://example.org/a".to_owned(), 3, None, None, None),
        ("org,example)/a 20110203040506 http://example.org/a 50 60 f.warc.gz".to_owned(), 6, Some("50"), Some("60"), Some("f.warc.gz")),
        (format!("{start} 50"), 7, Some("50"), None, None),
        (format!("{start} - 60 f.warc.gz"), 9, None, Some("60"), Some("f.warc.gz")),
        (format!("{start} - AF 60 f.warc.gz"), 10, None, Some("60"), Some("f.warc.gz")),
        (format!("{start} - - 50 60 f.warc.gz"), 11, Some("50"), Some("60"), Some("f.warc.gz")),
        (format!("{start} - 60 f.warc.gz 7 8 o.warc.gz"), 12, None, Some("60"), Some("f.warc.gz")),
        (format!("{start} - - 60 f.warc.gz 7 8 o.warc.gz"), 13, None, Some("60"), Some("f.warc.gz")),
        (format!("{start} - - 50 60 f.warc.gz 7 8 o.warc.gz"), 14, Some("50"), Some("60"), Some("f.warc.gz")),
        ("org,example)/a 20010203040506 1.2.3.4 http://example.org/a text/html 200 OLD NEW - 60 61 62 63 f.arc.gz - 50".to_owned(), 16, Some("50"), Some("60"), Some("f.arc.gz")),
    ];
    for (line, count, length, offset, file) in cases {
        let (layout, row) = only(&line);
        assert!(layout.starts_with(&format!("CDX {count} (")), "{layout}");
        assert_eq!(row.0, "org,example)/a");
        assert_eq!(
            get(&row, Field::Url),
            Some("http://example.org/a"),
            "{layout}"
        );
        assert_eq!(get(&row, Field::Length), length, "{layout}");
        assert_eq!(get(&row, Field::Offset), offset, "{layout}");
        assert_eq!(get(&row, Field::Filename), file, "{layout}");
        if (12..=14).contains(&count) {
            assert_eq!(get(&row, Field::OriginalLength), Some("7"));
            assert_eq!(get(&row, Field::OriginalFilename), Some("o.warc.gz"));
        }
    }
}

#[test]
fn a_header_wins_over_the_number_of_columns() {
    let (layout, row) = only(" CDX N b a\norg,example)/ 20110203040506 http://example.org/\n");
    assert_eq!(layout, "CDX 3 (N b a)");
    assert_eq!(get(&row, Field::Url), Some("http://example.org/"));
    let (layout, row) = only(
        " CDX b s N a m k g V S M r\n20110203040506 200 org,example)/ http://example.org/ text/html QWE f.gz 60 50 - -\n",
    );
    assert_eq!(layout, "CDX 11 (b s N a m k g V S M r)");
    assert_eq!(get(&row, Field::Offset), Some("60"));
    // wget's eleven columns are not those of others, with a header and without.
    let line = "http://example.org/ 20220301145028 http://example.org/ text/html 200 QWERTY - - 848 f.warc.gz <urn:uuid:f3c7>\n";
    for text in [
        format!(" CDX a b a m s k r M V g u\n{line}"),
        line.to_owned(),
    ] {
        let (layout, row) = only(&text);
        assert_eq!(
            layout,
            "CDX 11 of wget (a b a m s k r M V g u), keys are URLs"
        );
        assert_eq!(get(&row, Field::Filename), Some("f.warc.gz"));
        assert_eq!(get(&row, Field::Offset), Some("848"));
    }
}

#[test]
fn the_json_of_every_tool_is_read_and_named() {
    let cases = [
        (
            "pywb",
            r#"org,example)/ 20110203040506 {"url":"http://example.org/","mime":"text/html","status":"200","digest":"QWE","length":"50","offset":"60","filename":"f.warc.gz"}"#,
        ),
        (
            "cdxj-indexer",
            r#"org,example)/ 20110203040506 {"url": "http://example.org/", "mime": "text/html", "status": "200", "digest": "sha1:QWE", "length": "50", "offset": "60", "filename": "f.warc.gz"}"#,
        ),
        (
            "Webrecorder",
            r#"org,example)/ 20110203040506789 {"url":"http://example.org/","digest":"sha-256:a8","mime":"text/html","offset":60,"length":50,"recordDigest":"sha256:e5","status":200,"filename":"f.warc.gz"}"#,
        ),
        (
            "Common Crawl",
            r#"org,example)/ 20110203040506 {"url": "http://example.org/", "mime": "text/html", "mime-detected": "text/html", "status": "200", "digest": "QWE", "length": "50", "offset": "60", "filename": "crawl-data/CC-MAIN-2024-22/segments/1/warc/f.warc.gz", "charset": "UTF-8", "languages": "eng"}"#,
        ),
        (
            "Common Crawl with lastmod",
            r#"org,example)/ 20110203040506 {"url": "http://example.org/", "mime": "text/html", "mime-detected": "text/html", "status": "200", "length": "50", "offset": "60", "filename": "f.warc.gz", "lastmod": "1296702000"}"#,
        ),
        (
            "OutbackCDX",
            r#"org,example)/ 20110203040506 {"url":"http://example.org/","mime":"text/html","status":"200","length":"50","offset":"60","filename":"f.warc.gz","originalLength":"7","originalOffset":"8","originalFilename":"o.warc.gz"}"#,
        ),
        (
            "arquivo.pt",
            r#"org,example)/ 20110203040506 {"url": "http://example.org/", "mime": "text/html", "status": "200", "length": "50", "offset": "60", "filename": "f.warc.gz", "collection": "AWP1"}"#,
        ),
        (
            "webarchive-indexing",
            r#"org,example)/ 20110203040506 {"u": "http://example.org/", "m": "text/html", "status": "200", "s": "50", "o": "60", "w": "f.warc.gz"}"#,
        ),
    ];
    for (tool, line) in cases {
        let (layout, row) = only(line);
        assert_eq!(layout, format!("CDXJ of {tool}"));
        assert_eq!(get(&row, Field::Url), Some("http://example.org/"), "{tool}");
        assert_eq!(get(&row, Field::Mime), Some("text/html"), "{tool}");
        assert_eq!(get(&row, Field::Status), Some("200"), "{tool}");
        assert_eq!(get(&row, Field::Length), Some("50"), "{tool}");
        assert_eq!(get(&row, Field::Offset), Some("60"), "{tool}");
        assert!(get(&row, Field::Filename).is_some(), "{tool}");
    }
    let (layout, row) = only(
        "!context [\"http://example.org/contexts\"]\n!meta {\"generator\": \"x\"}\norg,example)/a/ 20110203040506 {\"locator\": \"urn:ipfs/A/B\", \"original_uri\": \"http://example.org/a/\", \"mime_type\": \"text/html\", \"status_code\": \"200\"}\n",
    );
    assert_eq!(layout, "CDXJ of ipwb");
    assert_eq!(get(&row, Field::Status), Some("200"));
    assert_eq!(get(&row, Field::Url), Some("http://example.org/a/"));
}

#[test]
fn answers_of_servers_and_the_withdrawn_draft_are_read() {
    let (layout, row) = only(
        r#"{"urlkey": "org,example)/", "timestamp": "20110203040506", "url": "http://example.org/", "mime": "text/html", "status": "200", "digest": "QWE", "length": "50", "offset": "60", "filename": "f.warc.gz", "encoding": "UTF-8", "languages": "eng"}"#,
    );
    assert_eq!(layout, "NDJSON of Common Crawl");
    assert_eq!(
        (row.0.as_str(), row.1.as_str()),
        ("org,example)/", "20110203040506")
    );
    assert_eq!(get(&row, Field::Charset), Some("UTF-8"));
    let (layout, row) = only(
        r#"{"urlkey":"org,example)/","timestamp":"20110203040506","original":"http://example.org/","mimetype":"text/html","statuscode":"200","digest":"QWE","length":"50"}"#,
    );
    assert_eq!(layout, "NDJSON of a CDX server");
    assert_eq!(get(&row, Field::Status), Some("200"));
    let (layout, row) = only(
        "!OpenWayback-CDXJ 1.0\n(org,example,)/ 2011-02-03T04:05:06Z response {\"uri\":\"http://example.org/\",\"sha\":\"QWE\",\"hsc\":200,\"mct\":\"text/html\"}\n",
    );
    assert_eq!(layout, "CDXJ of OpenWayback, keys in parentheses");
    assert_eq!(row.1, "20110203040506");
    assert_eq!(get(&row, Field::Mime), Some("text/html"));
}

#[test]
fn keys_of_every_form_count_as_one_uri_r() {
    let json = "20110203040506 {\"url\": \"http://www.example.org:8080/A\"}";
    for key in [
        "org,example:8080)/a",
        "org,example,:8080)/a",
        "(org,example,:8080)/a",
        "http://(org,example,:8080)/a",
        "example.org:8080/a",
        "http://www.example.org:8080/A",
        "org,example):8080/a",
    ] {
        let text = format!("org,example:8080)/a {json}\n{key} {json}\n");
        let report = report(&text);
        assert_eq!(report.uri_rs, 1, "{key}");
        assert_eq!(report.outcome.tally.captures, 2, "{key}");
    }
}

#[test]
fn layouts_that_were_merged_are_read_line_by_line() {
    let text = " CDX N b a m s k r M S V g
 CDX N b a m s k r M V g
com,a)/ 2011 http://a.com/ text/html 200 QWE - - 50 60 f.warc.gz
com,b)/ 2011 http://b.com/ text/html 200 QWE - - 60 f.warc.gz
com,c)/ 2011 {\"url\": \"http://c.com/\"}
com,d)/ 2011 http://d.com/ text/html 200 QWE - 60 f.warc.gz
";
    let report = report(text);
    assert_eq!(report.outcome.tally.captures, 4);
    assert_eq!(report.outcome.rejects.total(), 0);
    assert_eq!(report.layouts().len(), 4, "{:?}", report.layouts());
}

#[test]
fn every_malformed_line_gets_its_kind() {
    let good =
        "com,example)/ 20110203040506 http://example.com/ text/html 200 QWE - - 50 60 f.warc.gz\n";
    let cdxj = "com,example)/ 20110203040506 {\"url\": \"http://example.com/\"}\n";
    let cases: &[(&str, &[u8], Bad)] = &[
        (good, b"ErrorDocument%20404%20http://example.com/wrong.html", Bad::Text),
        (good, b"ErrorDocument%20404%20http://example.com/wrong.html - 414 573085 /x/f.arc.gz", Bad::Text),
        (good, b"com,example)/ 2018 http://example.com/ - html> QWE - - 24 59 f.gz", Bad::Status),
        (cdxj, b"file:///a/Signal B.jpg 20150302104602 {\"url\":\"file:///a/Signal B.jpg\"}", Bad::Key),
        (cdxj, b"<urlopen error [Errno -3] Temporary failure in name resolution>", Bad::Text),
        (cdxj, b"Error -3 while decompressing: incorrect data check", Bad::Text),
        (good, b"com,example)/x.txt 2015 http://example.com/x.txt text/plain; charset=utf-8 200 - - - 12 f.gz", Bad::Columns),
        (good, b"com,example)/x 2014 http://example.com/x text/html 302 QWE mailto: a.b@example.com - 40 12 f.gz", Bad::Columns),
        (good, b"com,example)/ - http://example.com/ text/html 200 - - - 1 1 f.gz", Bad::Timestamp),
        (good, b"com,example)/ 123456789012345678 http://example.com/ text/html 200 - - - 1 1 f.gz", Bad::Timestamp),
        (cdxj, b"com,example)/ 201 {}", Bad::Timestamp),
        (good, b"com,example)/ 2011 some/not/even/url text/html 200 QWE - - 20 30 f.gz", Bad::Url),
        (cdxj, b"com,example)/ 2011 {\"url\": \"no url\"}", Bad::Url),
        (good, b"com,example)/ 2011 http://example.com/ text/html 200 QWE - - x12 30 f.gz", Bad::Number),
        (cdxj, b"com,example)/ 2011 {\"url\"=\"http://example.com/\"}", Bad::Json),
        (cdxj, b"com,example)/ 2011 {\"url\": \"http://example.com/\"", Bad::Json),
        (cdxj, b"20130202100000 {\"uri\": \"http://example.com/\", \"datetime\"=\"Sat\"}", Bad::Json),
        (cdxj, b"20130202100000 {\"uri\": \"http://example.com/\"}", Bad::Key),
        (cdxj, b" 2011 {\"url\": \"http://example.com/\"}", Bad::Key),
        (good, b"com,exam\0ple)/ 2011 http://example.com/ text/html 200 QWE - - 1 2 f.gz", Bad::Nul),
        (good, b"", Bad::Blank),
        (good, b"com,cnn)/ 200", Bad::Text),
        (good, b"com,example)/a 20140103030321 http://example.com/a text/ht", Bad::Columns),
    ];
    for (before, line, kind) in cases {
        let text = [before.as_bytes(), line, b"\n", before.as_bytes()].concat();
        let report = report(&text);
        let found: Vec<(Bad, u64)> = report.outcome.rejects.kinds().collect();
        assert_eq!(found, [(*kind, 1)], "{}", String::from_utf8_lossy(line));
        assert_eq!(report.outcome.tally.captures, 2);
        assert_eq!(report.outcome.rejects.examples()[0].line, 2);
    }
    // Without an end, a bad last line was cut.
    let text = [
        good.as_bytes(),
        b"com,example)/a 20140103030321 http://example.com/a text/ht",
    ]
    .concat();
    assert_eq!(report(&text).outcome.rejects.count(Bad::Cut), 1);
}

#[test]
fn odd_lines_that_still_name_a_capture_are_kept() {
    let lines = [
        "com,example)/ 20000012170449 http://example.com/ text/html 200 QWE - - 1 2 f.gz",
        "com,example)/ 20000800241623 http://example.com/ text/html 200 QWE - - 1 2 f.gz",
        "com,example)/ 201018122054100 http://example.com/ text/html 200 QWE - - 1 2 f.gz",
        "com,example)/ 2010 http://example.com/ text/html 200 QWE - - - 2 f.gz",
        "pl,example)/ 2010 http://www.example.pl:8021349/a.html text/html 200 - - - 1 1 f.gz",
        "com,example)/ 2010 http://mailto:someone@example.com/ unk 301 QWE - - 1 2 f.gz",
    ];
    let report = report(lines.join("\n"));
    assert_eq!(report.outcome.tally.captures, 6);
    assert_eq!(report.outcome.tally.odd_timestamps, 3);
    assert_eq!(report.outcome.rejects.total(), 0);
}

#[test]
fn rows_that_are_not_of_the_web_are_counted_apart() {
    let text = "- 20081119011153 filedesc://a.arc arc/filedesc0.1.0 - QWE - - 0 a.arc.gz
- 20110624224957 - warc/warcinfo0.1.0 - - - - 0 a.warc.gz
dns:example.com 20110624224957 dns:example.com text/dns - QWE - - 5 a.warc.gz
com,example)/ 20110624224957 http://example.com/ text/html 200 QWE - - 6 a.warc.gz
";
    let report = report(text);
    assert_eq!(report.outcome.tally.captures, 1);
    let kinds: Vec<(NonWeb, u64)> = report.outcome.tally.non_web_kinds().collect();
    assert_eq!(
        kinds,
        [
            (NonWeb::Dns, 1),
            (NonWeb::Filedesc, 1),
            (NonWeb::Warcinfo, 1)
        ]
    );
}

#[test]
fn the_malformed_lines_met_in_the_wild_are_all_accounted_for() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let table = fs::read_to_string(shared.join("vectors/cdx/malformed_lines.tsv")).unwrap();
    let kept = [
        "bad_timestamp",
        "length_dash",
        "mailto_as_host",
        "port_out_of_range",
        "cdxj_17_digit",
        "wget_line",
        "surt_broken_by_paren",
        "non_record",
        "wget_header",
    ];
    for row in table.lines().skip(1) {
        let columns: Vec<&str> = row.splitn(3, '\t').collect();
        let (kind, line) = (columns[0], columns[2]);
        let report = report(format!("{line}\n"));
        let tally = &report.outcome.tally;
        let read = tally.captures + tally.non_web.iter().sum::<u64>() + tally.headers;
        let expected = kept.iter().any(|name| kind.starts_with(name));
        assert_eq!(read == 1, expected, "{kind}: {:?}", report.outcome.rejects);
        assert_eq!(read + report.outcome.rejects.total(), 1, "{kind}");
    }
}

#[test]
fn real_indexes_of_many_archives_are_read() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let folder = shared.join("vectors/cdx/archive_profiler_mit");
    let sources = input::expand([folder]).unwrap().sources;
    let report = check::check(&sources, check::Options::default()).unwrap();
    assert_eq!(
        report.outcome.rejects.total(),
        0,
        "{:?}",
        report.outcome.rejects
    );
    assert!(report.outcome.tally.captures > 500);
    let layouts = report.layouts();
    assert_eq!(layouts, ["CDX 10 (N b a m s k r M V g), keys not reversed"]);
}
