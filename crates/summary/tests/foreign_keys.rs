//! Indexes whose keys are not the SURTs of their URLs: whatever is put into a summary is found by
//! its URI.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use waypost_io::{Resources, Source};
use waypost_summary::evaluate::{Lookups, judge};
use waypost_summary::filter::{self, Filter, Recipe};
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::profile::{self, Options, Profile};
use waypost_summary::{Answer, Archive, Lookup, Summary};
use waypost_summary::{map, map::Map};
use waypost_surt::{Canonicalizer, Dialect, Policy};

/// Canonicalisations of other tools, each of which differs from ours for some URIs.
#[derive(Clone, Copy, Debug)]
enum Foreign {
    /// As in Webrecorder's tools: percent-encoding is kept.
    KeepEscapes,
    /// `www` is kept.
    KeepWww,
    /// The order of parameters, upper case and slashes are kept.
    KeepRest,
    /// `example.com/path`.
    NotReversed,
    /// `com,example,)/path`.
    TrailingComma,
    /// The URL.
    Url,
    /// Another dialect of ours.
    Dialect(Dialect),
}

const FOREIGN: [Foreign; 10] = [
    Foreign::KeepEscapes,
    Foreign::KeepWww,
    Foreign::KeepRest,
    Foreign::NotReversed,
    Foreign::TrailingComma,
    Foreign::Url,
    Foreign::Dialect(Dialect::Ia),
    Foreign::Dialect(Dialect::CommonCrawl),
    Foreign::Dialect(Dialect::CommonCrawlLegacy),
    Foreign::Dialect(Dialect::Webrecorder),
];

impl Foreign {
    fn key(self, uri: &str) -> String {
        let rest = uri.split_once("://").unwrap().1;
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let www = host.strip_prefix("www.").unwrap_or(host);
        let reversed = |host: &str| host.split('.').rev().collect::<Vec<_>>().join(",");
        match self {
            Foreign::KeepEscapes => format!("{}){}", reversed(www), path.to_lowercase()),
            Foreign::KeepWww => format!("{}){}", reversed(host), path.to_lowercase()),
            Foreign::KeepRest => format!("{}){path}", reversed(www)),
            Foreign::NotReversed => format!("{www}{path}"),
            Foreign::TrailingComma => format!("{},){}", reversed(www), path.to_lowercase()),
            Foreign::Url => uri.to_owned(),
            Foreign::Dialect(dialect) => String::from_utf8(surt(dialect, uri)).unwrap(),
        }
    }
}

fn surt(dialect: Dialect, uri: &str) -> Vec<u8> {
    let mut surt = Vec::new();
    Canonicalizer::new(dialect)
        .canonicalize(uri.as_bytes(), &mut surt)
        .unwrap();
    surt
}

fn uris() -> impl Strategy<Value = Vec<String>> {
    let uri = "https?://(www2?\\.){0,2}[ab]{1,2}(-x)?\\.(com|co\\.uk)/([abC]|%2f|%20|%41|%e9|%C3%A9|%25){0,3}\
               (/[aB]-?){0,2}/?(\\?[ab](=[b%2f])?(&[aC])?)?";
    prop::collection::vec(uri, 1..40)
}

fn cdxj(uris: &[String], keys: impl Fn(usize) -> Foreign) -> String {
    let line = |(at, uri): (usize, &String)| {
        let key = keys(at).key(uri);
        format!("{key} 20040102030405 {{\"url\": \"{uri}\", \"mime\": \"text/html\"}}\n")
    };
    let mut lines: Vec<String> = uris.iter().enumerate().map(line).collect();
    lines.sort();
    lines.concat()
}

fn is_present(summary: &dyn Summary, uri: &str) -> bool {
    let mut buffer = Vec::new();
    let lookup = Lookup::new(uri.as_bytes(), summary.about().dialect, &mut buffer).unwrap();
    matches!(summary.lookup(&lookup).unwrap(), Answer::Present(_))
}

/// Builds a map, all profiles and a filter from an index.
fn summaries(index: &Path, dialect: Dialect, folder: &Path) -> Vec<Box<dyn Summary>> {
    let sources = vec![Source::new(index.to_owned())];
    let input = Input {
        dialect,
        ..Input::new(sources.clone())
    };
    let archive = Archive::default();
    let (a_map, a_filter) = (folder.join("a.ukvs"), folder.join("a.filter"));
    map::build(&input, &archive, None, &a_map).unwrap();
    let options = Options {
        policies: Policy::ALL.to_vec(),
        archive,
        date: None,
        folder: Some(folder.to_owned()),
        name: "a".into(),
        gzip: false,
    };
    profile::build(&input, &options, None).unwrap();
    let mut filter_input = filter::Input::new(&sources);
    filter_input.dialect = dialect;
    filter::build(filter_input, &Recipe::default(), &a_filter).unwrap();
    let mut summaries: Vec<Box<dyn Summary>> = vec![
        Box::new(Map::open(&a_map, &Resources::default()).unwrap()),
        Box::new(Filter::open(&a_filter).unwrap()),
    ];
    for policy in Policy::ALL {
        let path = folder.join(format!("a.{policy}.cdxj"));
        summaries.push(Box::new(Profile::open(&path).unwrap()));
    }
    summaries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_uri_of_an_index_is_found_whatever_its_keys_are(
        uris in uris(),
        keys in prop::collection::vec(prop::sample::select(&FOREIGN[..]), 1..3),
        dialect in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("a.cdxj");
        fs::write(&index, cdxj(&uris, |at| keys[at % keys.len()])).unwrap();
        for summary in summaries(&index, dialect, folder.path()) {
            for uri in &uris {
                prop_assert!(is_present(&*summary, uri), "{} {uri}", summary.kind());
            }
        }
        // The truth in an evaluation is also that of the URLs.
        let asked = folder.path().join("asked.txt");
        fs::write(&asked, uris.join("\n")).unwrap();
        let lookups = [Lookups::read(&Source::new(asked), dialect).unwrap()];
        let input = Input { dialect, ..Input::new(vec![Source::new(index)]) };
        let (held, reading) = Holdings::new(input).truth(&lookups).unwrap();
        prop_assert!(held[0].iter().all(|held| *held));
        let mut distinct: Vec<Vec<u8>> = uris.iter().map(|uri| surt(dialect, uri)).collect();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(reading.urirs, distinct.len() as u64);
    }
}

#[test]
fn an_index_of_webrecorder_is_told_and_counted_by_its_urls() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.cdxj");
    let uris: Vec<String> = (0..3000)
        .map(|n| match n % 100 {
            7 => format!("http://example.com/page%2F{n}"),
            _ => format!("http://example.com/page/{n}"),
        })
        .collect();
    fs::write(&index, cdxj(&uris, |_| Foreign::KeepEscapes)).unwrap();
    let input = Input::new(vec![Source::new(index)]);
    let built = map::build(
        &input,
        &Archive::default(),
        None,
        &folder.path().join("a.ukvs"),
    )
    .unwrap();
    let keys = built.reading.keys;
    assert_eq!((keys.compared, keys.differ), (3000, 30));
    assert_eq!(keys.other_dialect(), Some(Dialect::Webrecorder));
    let example = keys.example.unwrap();
    assert_eq!(example.key, "com,example)/page%2f1007");
    assert_eq!(example.surt, "com,example)/page/1007");
    assert!(built.reading.sorted);
    assert_eq!(built.reading.urirs, 3000);
    // Lookups answered by a filter or map are evaluated against the same truth.
    let asked = folder.path().join("asked.txt");
    fs::write(&asked, uris.join("\n")).unwrap();
    let lookups = [Lookups::read(&Source::new(asked), Dialect::Ia).unwrap()];
    let (held, _) = Holdings::new(input).truth(&lookups).unwrap();
    let map = Map::open(&folder.path().join("a.ukvs"), &Resources::default()).unwrap();
    let verdict = judge(&map, &lookups[0], &held[0], false, &[1]).unwrap();
    assert_eq!(verdict.confusion.false_negatives, 0);
    assert_eq!(verdict.confusion.true_positives, 3000);
}
