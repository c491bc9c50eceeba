//! Converting and rekeying indexes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use waypost_index::convert::{self, Converted, Options, Target, convert};
use waypost_index::layout::{FileLayout, Line};
use waypost_index::rekey::rekey;
use waypost_index::{Field, Fields};
use waypost_io::Source;
use waypost_surt::Dialect;

/// Converts a text. The order of lines is that of the text.
fn converted(text: &[u8], to: Target) -> (Vec<u8>, Converted) {
    let folder = tempfile::tempdir().unwrap();
    let (from, out) = (folder.path().join("from"), folder.path().join("out"));
    fs::write(&from, text).unwrap();
    let report = convert(&[Source::new(&from)], to, Options::default(), &out).unwrap();
    (fs::read(out).unwrap(), report)
}

type Row = (Vec<u8>, Vec<u8>, BTreeMap<Field, Vec<u8>>);

/// Key, timestamp and fields of every line that is not a header. No line may be bad.
fn rows(text: &[u8]) -> Vec<Row> {
    let layout = FileLayout::detect(text);
    let lines = text.split(|byte| *byte == b'\n').filter(|l| !l.is_empty());
    lines
        .filter_map(|line| match layout.read(line, Fields::ALL, true) {
            Line::Capture(capture, _) => {
                let fields = Field::ALL.into_iter().filter_map(|field| {
                    let text = capture.text(field).map(Cow::into_owned);
                    Some((field, text.filter(|text| text != b"-")?))
                });
                Some((
                    capture.key().to_vec(),
                    capture.timestamp().to_vec(),
                    fields.collect(),
                ))
            }
            Line::Header => None,
            Line::Bad(kind) => panic!("{kind}: {}", String::from_utf8_lossy(line)),
        })
        .collect()
}

/// A value of a column: any bytes but spaces and control characters.
fn column() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(b"-".to_vec()),
        3 => "[a-z\"\\\\{}é%,:;=?&/-]{1,12}".prop_map(String::into_bytes),
        2 => prop::collection::vec(prop_oneof![0x21_u8..=0x7e, 0x80_u8..=0xff], 1..12),
    ]
}

fn url() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => Just(b"-".to_vec()),
        6 => column().prop_map(|rest| [b"http://a.example/", &rest[..]].concat()),
    ]
}

fn number() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"-".to_vec()),
        "[1-9][0-9]{0,18}".prop_map(String::into_bytes)
    ]
}

fn status() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"-".to_vec()),
        "[1-5][0-9]{2}".prop_map(String::into_bytes)
    ]
}

fn filename() -> impl Strategy<Value = Vec<u8>> {
    column().prop_map(|name| match name == b"-" {
        true => name,
        false => [b"f", &name[..]].concat(),
    })
}

/// The columns of a line of CDX 14, from which all other layouts are cut.
fn line() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = "[a-z]{1,3},[a-z]{1,3}\\)/[a-z\"\\\\{}é]{0,4}".prop_map(String::into_bytes);
    let timestamp = "20[0-9]{2}(0101000000)?".prop_map(String::into_bytes);
    (
        (key, timestamp, url(), column(), status(), column()),
        (column(), column(), number(), number(), filename()),
        (number(), number(), filename()),
    )
        .prop_map(
            |((n, b, a, m, s, k), (r, flags, length, v, g), (x, y, z))| {
                vec![n, b, a, m, s, k, r, flags, length, v, g, x, y, z]
            },
        )
}

/// The columns of CDX with so many of them.
fn cut(line: &[Vec<u8>], count: usize) -> Vec<u8> {
    let places: &[usize] = match count {
        6 => &[0, 1, 2, 8, 9, 10],
        7 => &[0, 1, 2, 3, 4, 5, 8],
        9 => &[0, 1, 2, 3, 4, 5, 6, 9, 10],
        10 => &[0, 1, 2, 3, 4, 5, 6, 7, 9, 10],
        11 => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        _ => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    };
    let columns: Vec<&[u8]> = places.iter().map(|place| &line[*place][..]).collect();
    columns.join(&b' ')
}

fn header(count: usize) -> &'static [u8] {
    match count {
        6 => b" CDX N b a S V g\n",
        7 => b" CDX N b a m s k S\n",
        9 => b" CDX N b a m s k r V g\n",
        10 => b" CDX N b a m s k r M V g\n",
        11 => b" CDX N b a m s k r M S V g\n",
        _ => b"",
    }
}

proptest! {
    #[test]
    fn cdx_converted_to_cdxj_and_back_has_the_same_fields(
        lines in prop::collection::vec(line(), 1..8),
        count in prop::sample::select(vec![6_usize, 7, 9, 10, 11, 14]),
    ) {
        let mut cdx = header(count).to_vec();
        for line in &lines {
            cdx.extend_from_slice(&cut(line, count));
            cdx.push(b'\n');
        }
        let before = rows(&cdx);
        prop_assert_eq!(before.len(), lines.len());
        let (cdxj, report) = converted(&cdx, Target::Cdxj);
        prop_assert_eq!(&report.lost, &BTreeMap::new());
        prop_assert_eq!(&report.escaped, &BTreeMap::new());
        prop_assert_eq!(report.lines, lines.len() as u64);
        prop_assert_eq!(&rows(&cdxj), &before);
        let (back, report) = converted(&cdxj, Target::Cdx11);
        let mut held = before.clone();
        let mut lost = BTreeMap::new();
        for field in [Field::OriginalLength, Field::OriginalOffset, Field::OriginalFilename] {
            let rows = held.iter_mut().filter_map(|row| row.2.remove(&field)).count() as u64;
            if rows > 0 {
                lost.insert(field.name().to_owned(), rows);
            }
        }
        prop_assert_eq!(&rows(&back), &held);
        prop_assert_eq!(&report.lost, &lost);
        if count == 11 {
            prop_assert_eq!(&back, &cdx);
        }
        // The same from CDX itself.
        let (same, report) = converted(&cdx, Target::Cdx11);
        prop_assert_eq!(&rows(&same), &held);
        prop_assert_eq!(&report.lost, &lost);
    }

    #[test]
    fn cdxj_with_any_values_becomes_cdx_that_can_be_read(
        values in prop::collection::vec((any::<prop::sample::Index>(), any::<String>()), 0..6),
        numbers in prop::collection::vec((any::<prop::sample::Index>(), any::<i64>()), 0..4),
    ) {
        let names = [
            "url", "original", "mime", "status", "digest", "redirect", "robotflags", "length", "offset",
            "filename", "languages", "m", "urlkey", "other name",
        ];
        let mut object = serde_json::Map::new();
        for (name, value) in values {
            let name = *name.get(&names);
            let value = if name == "url" { format!("http://a/{value}") } else { value };
            if name != "original" {
                object.insert(name.to_owned(), value.into());
            }
        }
        for (name, value) in numbers {
            object.insert(name.get(&names[2..]).to_string(), value.into());
        }
        let line = format!("com,a)/ 2020 {}\n", serde_json::Value::from(object));
        let before = rows(line.as_bytes());
        let (cdx, report) = converted(line.as_bytes(), Target::Cdx11);
        let after = rows(&cdx);
        prop_assert_eq!(after.len(), 1);
        for (field, value) in &before[0].2 {
            let name = field.name();
            let same = after[0].2.get(field) == Some(value);
            prop_assert!(
                same || report.lost.contains_key(name) || report.escaped.contains_key(name),
                "{name}: {line} {}", String::from_utf8_lossy(&cdx)
            );
        }
        // Valid CDXJ with usual names is copied.
        let (copied, _) = converted(line.as_bytes(), Target::Cdxj);
        prop_assert_eq!(rows(&copied), before);
    }
}

#[test]
fn names_of_other_tools_become_the_usual_ones_and_nothing_is_lost() {
    let cases = [
        // A CDX server.
        (
            r#"{"urlkey": "com,a)/", "timestamp": "2020", "original": "http://a.com/", "statuscode": "200", "x": [1, {"y": "}"}]}"#,
            r#"com,a)/ 2020 {"url": "http://a.com/", "status": "200", "x": [1, {"y": "}"}]}"#,
        ),
        // Early Common Crawl.
        (
            r#"com,a,)/ 2020 {"o": 7, "s": 10, "w": "a.warc.gz", "u": "http://a.com/"}"#,
            r#"com,a,)/ 2020 {"offset": 7, "length": 10, "filename": "a.warc.gz", "url": "http://a.com/"}"#,
        ),
        // Two names of one field: the first counts before and after.
        (
            r#"com,a)/ 2020 {"uri": "http://a.com/1", "url": "http://a.com/2"}"#,
            r#"com,a)/ 2020 {"uri": "http://a.com/1", "url": "http://a.com/2"}"#,
        ),
        (
            r#"com,a)/ 2020 {"uri": "http://a.com/1", "u": "http://a.com/2", "t": 1}"#,
            r#"com,a)/ 2020 {"url": "http://a.com/1", "u": "http://a.com/2", "t": 1}"#,
        ),
        // OpenWayback's draft.
        (
            r#"(com,a,)/ 2015-09-03T13:27:52Z response {"uri":"http://a.com/","hsc":"200"}"#,
            r#"(com,a,)/ 20150903132752 {"url": "http://a.com/", "status": "200", "record-type": "response"}"#,
        ),
        // A key with a space and one that looks like a header.
        (
            r#"{"urlkey": "com,a)/ b", "timestamp": "2020", "url": "http://a.com/"}"#,
            r#"com,a)/%20b 2020 {"url": "http://a.com/"}"#,
        ),
        (
            r#"{"urlkey": "!com,a)/", "timestamp": "2020", "url": "http://a.com/"}"#,
            r#"%21com,a)/ 2020 {"url": "http://a.com/"}"#,
        ),
        (
            r#"{"urlkey": "", "timestamp": "2020", "url": "http://a.com/"}"#,
            r#"http://a.com/ 2020 {"url": "http://a.com/"}"#,
        ),
    ];
    for (from, to) in cases {
        let (text, report) = converted(format!("{from}\n").as_bytes(), Target::Cdxj);
        assert_eq!(String::from_utf8_lossy(&text), format!("{to}\n"));
        assert_eq!(report.lost, BTreeMap::new());
    }
    // Columns without a field, of Alexa.
    let alexa = b" CDX A b e a m s c k r V v D d g M n\n\
        example.com/ 20010203040506 1.2.3.4 http://example.com/ text/html 200 old new - 10 11 12 - f.arc - 99\n";
    let (text, _) = converted(alexa, Target::Cdxj);
    assert_eq!(
        String::from_utf8_lossy(&text),
        "example.com/ 20010203040506 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \
         \"digest\": \"new\", \"length\": \"99\", \"offset\": \"10\", \"filename\": \"f.arc\", \"ip\": \"1.2.3.4\", \
         \"old-digest\": \"old\", \"uncompressed-offset\": \"11\", \"dat-offset\": \"12\"}\n"
    );
    let (_, report) = converted(alexa, Target::Cdx11);
    let lost: Vec<&str> = report.lost.keys().map(String::as_str).collect();
    assert_eq!(
        lost,
        ["dat-offset", "ip", "old-digest", "uncompressed-offset"]
    );
}

#[test]
fn names_without_end_are_counted_in_bounded_memory() {
    let mut text = String::new();
    for number in 0..3000 {
        text += &format!("com,a)/ 2020 {{\"n{number}\": \"x\"}}\n");
    }
    let (_, report) = converted(text.as_bytes(), Target::Cdx11);
    assert!(report.lost.len() <= 1001, "{}", report.lost.len());
    assert_eq!(report.lost.values().sum::<u64>(), 3000);
}

fn rekeyed(text: &str, dialect: Dialect, folder: &Path) -> (String, waypost_index::rekey::Rekeyed) {
    let (from, out) = (folder.join("from"), folder.join("out"));
    fs::write(&from, text).unwrap();
    let options = convert::Options::default();
    let report = rekey(&[Source::new(&from)], dialect, options, &out).unwrap();
    (fs::read_to_string(out).unwrap(), report)
}

#[test]
fn captures_that_cannot_be_rekeyed_keep_their_keys_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let text = "com,A)/x 2020 {\"url\": \"http://a.com/X\"}\n\
        com,b)/ 2020 {\"mime\": \"text/html\"}\n\
        com,c)/ 2020 {\"url\": \"http://c.com:99999/\"}\n\
        com,D)/?__wb_method=post&a=1 2020 {\"url\": \"http://d.com/\", \"method\": \"POST\", \"requestBody\": \"a=1\"}\n\
        com,e)/?__wb_method=post 2020 {\"url\": \"http://e.com/\"}\n\
        dns:f.com 2020 {\"url\": \"dns:f.com\", \"mime\": \"text/dns\"}\n\
        no capture\n";
    let (out, report) = rekeyed(text, Dialect::Ia, folder.path());
    assert_eq!(
        out,
        text.replace("com,A", "com,a").replace("com,D", "com,d")
    );
    assert_eq!(report.replaced, 2);
    assert_eq!(
        (report.without_url, report.without_surt, report.requests),
        (1, 1, 1)
    );
    assert_eq!(report.outcome.rejects.total(), 1);
    assert_eq!(report.examples[0].key, "com,A)/x");
    assert_eq!(report.examples[0].surt, "com,a)/x");
    assert_eq!(report.examples[0].url, "http://a.com/X");
    assert_eq!(report.examples[1].surt, "com,d)/?__wb_method=post&a=1");
}
