//! Whatever is put into a summary is found by the same URI: lists and indexes of unusual URIs,
//! built into every kind of summary under every dialect, and looked up by URI and by SURT.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../surt/tests/generated/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of waypost-surt")]
mod generated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use waypost_index::Fields;
use waypost_index::layout::{FileLayout, Line};
use waypost_io::{Resources, Source};
use waypost_summary::filter::{self, Filter};
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Budget, Finder, LeastCost, Map, Papers, Rule, SourceMap, Style};
use waypost_summary::profile::{self, Profile};
use waypost_summary::{Answer, Archive, Lookup, LookupBuffer, Summary};
use waypost_surt::{Canonicalizer, Dialect, Key, Policy, Reach, Surt};

/// URIs that were once lost to bugs, and similar ones.
const ODD: &[&str] = &[
    "http://[::1]/a",
    "http://[::1]:8080/a",
    "http://[::]/",
    "http://[2001:db8::1]/x/y?z",
    "http://[::ffff:1.2.3.4]/",
    "http://:80/a",
    "http://,/",
    "http://,,/a",
    "http://com,,/a/b",
    "http://a,.com/",
    "http://a%2fb.com/x",
    "http://a%2fb/",
    "http://a.com:8080/x",
    "http://com:8080/x",
    "http://a.com):80/x",
    "http://(a).com/",
    "http://a.(com/x",
    "http://a.com/x/*",
    "http://a.com/*",
    "http://a.com/x/*/y",
    "http://a.com/x,*",
    "http://*.a.com/",
    "http://*/",
    "urn:x/y/*",
    "urn:isbn:123",
    "mailto:a(b)c@d.e",
    "javascript:f()",
    "dns:x.y..a:00?b-",
    "dns:x.y..a:00?c",
    "data:text/plain,a b",
    "!a/b",
    "@a/b",
    "{a}/b",
    "[a/b",
    "\"a\"/b",
    "\\a/b",
    "http://!a/",
    "http://x.!a/",
    "http://{x}/",
    "http://\"x\"/",
    "http://\\x/",
    "http://a.com/x\u{7f}y",
    "http://a.com/x y",
    "http://a.com/x\ty?a b",
    "http://a.com/x%20y",
    "http://a b.com/",
    "http://a.com//x//",
    "http://a.com/?",
    "http://a.com/x?y/z/*",
    "com,a)/x y",
    "com,,)/",
    "com,a,)/x",
    "com,a):81/x",
    ",)/",
    ")/",
    "::1)/a",
    "*)/",
];

/// Lines of a list: unusual URIs and generated ones.
fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let odd = prop::collection::vec(prop::sample::select(ODD), 0..20);
    (odd, any::<u64>(), 0..40usize).prop_map(|(odd, seed, count)| {
        let mut uris = generated::Uris::new(seed);
        let odd = odd.into_iter().map(|uri| uri.as_bytes().to_vec());
        odd.chain((0..count).map(|_| uris.next_uri())).collect()
    })
}

/// The lines that are valid in a list and have a SURT.
fn listed(lines: Vec<Vec<u8>>, dialect: Dialect) -> Vec<Vec<u8>> {
    let mut writer = waypost_summary::SurtWriter::new(dialect);
    lines
        .into_iter()
        .filter(|line| !line.contains(&b'\n') && !line.trim_ascii().starts_with(b"#"))
        .filter(|line| !line.trim_ascii().is_empty())
        .filter(|line| writer.write(line, &mut Vec::new()).is_ok())
        .collect()
}

fn put(folder: &TempDir, name: &str, text: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn compacted(full: &Path, rule: &Rule, folder: &Path) -> Box<dyn Summary> {
    let out = folder.join("small.ukvs");
    let mut given = SourceMap::open(&Source::new(full), &Resources::default()).unwrap();
    map::compact(&mut given, rule, Style::Published, &out, false).unwrap();
    // An open file stays readable when the next one takes its name.
    Box::new(Map::open(&out, &Resources::default()).unwrap())
}

/// Every kind of summary of one file.
fn summaries(source: &Path, dialect: Dialect, folder: &Path) -> Vec<(String, Box<dyn Summary>)> {
    let sources = vec![Source::new(source.to_owned())];
    let mut input = Input::new(sources.clone());
    input.dialect = dialect;
    input.select.include_non_web(true);
    let mut all: Vec<(String, Box<dyn Summary>)> = Vec::new();

    let full = folder.join("full.ukvs");
    map::build(&input, &Archive::default(), None, &full).unwrap();
    let opened = Map::open(&full, &Resources::default()).unwrap();
    all.push(("map".into(), Box::new(opened)));

    for budget in [Budget::Keys(1), Budget::Keys(4), Budget::Lambda(0.5)] {
        let rule = Rule::LeastCost(Box::new(LeastCost {
            budget,
            sample: None,
            voids: false,
            prior: None,
            top: None,
        }));
        all.push((format!("{rule:?}"), compacted(&full, &rule, folder)));
    }
    let rule = Rule::Papers(Papers {
        host_weight: 0.1,
        path_weight: 0.1,
        ..Papers::default()
    });
    all.push(("papers' rule".into(), compacted(&full, &rule, folder)));

    let policies: Vec<Policy> = Policy::ALL.to_vec();
    let options = profile::Options {
        policies: policies.clone(),
        archive: Archive::default(),
        date: None,
        folder: Some(folder.to_owned()),
        name: "p".into(),
        gzip: false,
    };
    profile::build(&input, &options, None).unwrap();
    for policy in policies {
        let path = folder.join(format!("p.{policy}.cdxj"));
        let opened = Profile::open(&path).unwrap();
        all.push((format!("profile {policy}"), Box::new(opened)));
    }

    for policy in ["URIR", "HxP1"] {
        let mut input = filter::Input::new(&sources);
        input.dialect = dialect;
        input.policy = policy.parse().unwrap();
        input.select.include_non_web(true);
        let path = folder.join("f.filter");
        filter::build(input, &filter::Recipe::default(), &path).unwrap();
        let opened = Filter::load(&path).unwrap();
        all.push((format!("filter {policy}"), Box::new(opened)));
    }
    all
}

fn check(summary: &dyn Summary, name: &str, lookups: &[Lookup<'_>]) -> Result<(), TestCaseError> {
    let all = summary.lookup_all(lookups).unwrap();
    for (lookup, brief) in lookups.iter().zip(all) {
        let shown = lookup.uri().escape_ascii();
        prop_assert!(
            brief.found().is_some(),
            "{name}: {shown} is lost in a batch"
        );
        let answer = summary.lookup(lookup).unwrap();
        let present = matches!(answer, Answer::Present(_));
        prop_assert!(present, "{name}: {shown} is lost");
    }
    Ok(())
}

/// Looks up every line, and the SURT of every line.
fn check_all(
    lines: &[Vec<u8>],
    dialect: Dialect,
    summaries: &[(String, Box<dyn Summary>)],
) -> Result<(), TestCaseError> {
    let uris: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    let mut batch = LookupBuffer::new(dialect);
    let batch = batch.fill(&uris);
    let by_uri: Vec<Lookup<'_>> = batch.valid().collect();
    let mut canonicalizer = Canonicalizer::new(dialect);
    let surts: Vec<Vec<u8>> = uris
        .iter()
        .filter(|uri| !waypost_surt::is_surt(uri.trim_ascii()))
        .map(|uri| {
            let mut surt = Vec::new();
            // A summary holds the SURTs of URIs with a scheme.
            let uri = waypost_index::key::completed(dialect, uri.trim_ascii());
            canonicalizer.canonicalize(&uri, &mut surt).unwrap();
            surt
        })
        .collect();
    let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); surts.len()];
    let by_surt: Vec<Lookup<'_>> = surts
        .iter()
        .zip(&mut buffers)
        .map(|(surt, buffer)| Lookup::of_surt(surt, buffer))
        .collect();
    // Most SURTs are recognised as such.
    let told: Vec<&[u8]> = surts
        .iter()
        .map(Vec::as_slice)
        .filter(|surt| waypost_surt::is_surt(surt))
        .collect();
    let mut recognised = LookupBuffer::new(dialect);
    let recognised = recognised.fill(&told);
    let recognised: Vec<Lookup<'_>> = recognised.valid().collect();
    prop_assert_eq!(by_uri.len(), lines.len());
    for (name, summary) in summaries {
        for lookups in [&by_uri, &by_surt, &recognised] {
            check(&**summary, name, lookups)?;
        }
    }
    Ok(())
}

/// A line of an index.
fn line(surt: &[u8], uri: &[u8]) -> Vec<u8> {
    let uri = serde_json::Value::from(std::str::from_utf8(uri).unwrap());
    let rest =
        format!(" 20040102030405 {{\"url\": {uri}, \"mime\": \"text/html\", \"status\": \"200\"}}");
    [surt, rest.as_bytes()].concat()
}

/// Whether a line of an index is accepted rather than reported as bad.
fn is_capture(line: &[u8]) -> bool {
    let layout = FileLayout::detect(line);
    matches!(layout.read(line, Fields::ALL, true), Line::Capture(..))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_a_list_holds_is_found_by_uri_and_by_surt(
        lines in lines(),
        dialect in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let lines = listed(lines, dialect);
        let folder = TempDir::new().unwrap();
        // The kind is detected from the first line, which is clearly a URI.
        let mut text = b"http://example.com/\n".to_vec();
        for line in &lines {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        let list = put(&folder, "list.txt", &text);
        check_all(&lines, dialect, &summaries(&list, dialect, folder.path()))?;
    }

    #[test]
    fn what_an_index_holds_is_found_by_uri_and_by_surt(
        lines in lines(),
        dialect in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for uri in listed(lines, dialect) {
            let uri = uri.trim_ascii();
            let mut surt = Vec::new();
            if waypost_surt::is_surt(uri) || canonicalizer.canonicalize(uri, &mut surt).is_err() {
                continue;
            }
            // No index contains what a row of an index can't contain.
            let white = |byte: &u8| byte.is_ascii_whitespace() || *byte < b' ';
            if !waypost_index::web::can_be_url(uri) || surt.is_empty() || surt.iter().any(white) || std::str::from_utf8(uri).is_err() || surt.starts_with(b"!") {
                continue;
            }
            if is_capture(&line(&surt, uri)) {
                rows.insert(surt, uri.to_vec());
            }
        }
        let mut text = Vec::new();
        let example = (b"com,example)/".to_vec(), b"http://example.com/".to_vec());
        let mut sorted: Vec<_> = rows.iter().map(|(a, b)| (a.clone(), b.clone())).chain([example]).collect();
        sorted.sort();
        for (surt, uri) in &sorted {
            text.extend_from_slice(&line(surt, uri));
            text.push(b'\n');
        }
        let folder = TempDir::new().unwrap();
        let index = put(&folder, "index.cdxj", &text);
        let lines: Vec<Vec<u8>> = rows.into_values().collect();
        check_all(&lines, dialect, &summaries(&index, dialect, folder.path()))?;
    }
}

/// Labels of hosts, including empty ones and ports.
fn host() -> impl Strategy<Value = String> {
    "(|a|b|\\*|::1|:)((,|:)(|a|b|8)){0,3}"
}

fn path() -> impl Strategy<Value = String> {
    "((/|)(|a|b|\\*|a,\\*)){0,3}"
}

fn odd_surt() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (host(), path(), "(|\\?|\\?a|\\?/\\*)").prop_map(|(host, path, query)| format!("{host}){path}{query}")),
        1 => "[!@{\\[\"\\\\](a|,b){0,2}\\)(/a){0,2}",
        1 => "(a:|)(a|b|/|\\*){0,4}",
    ]
}

fn odd_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => odd_surt(),
        2 => host().prop_map(|host| format!("{host},*")),
        2 => (host(), path()).prop_map(|(host, path)| format!("{host}){path}/*")),
        1 => Just("*".to_owned()),
        1 => Just(",*".to_owned()),
    ]
}

/// A key in canonical form. Trailing slashes of an exact key are ignored, and `b:c,*` is one row
/// whether it is the wildcard of a host or a URI with the scheme `b:`.
fn normal(key: &Key<'_>) -> (String, Reach) {
    let stem = String::from_utf8(key.stem().to_vec()).unwrap();
    match stem.strip_suffix(",*") {
        Some(host) if key.reach() == Reach::Exact && !host.contains([')', '/']) => {
            (host.to_owned(), Reach::Hosts)
        }
        _ if key.reach() == Reach::Exact => (stem.trim_end_matches('/').to_owned(), key.reach()),
        _ => (stem, key.reach()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// [`Surt::candidates`] lists the keys that match a SURT; the first one in the map decides.
    #[test]
    fn the_first_candidate_that_a_map_has_decides(
        keys in prop::collection::vec(odd_key(), 0..12),
        asked in prop::collection::vec(odd_surt(), 1..12),
    ) {
        let rows: Vec<String> = keys.into_iter().filter(|key| !key.is_empty() && !key.contains('?') && !key.trim_end_matches('/').ends_with('*') | (key.trim_end_matches('/') == key)).collect();
        // A map without rows may be one that was cut.
        prop_assume!(!rows.is_empty());
        let text: String = rows.iter().map(|key| match key.as_bytes()[0] {
            b'!' | b'@' | b'{' | b'[' | b'"' | b'\\' => format!("\\{key} 1\n"),
            _ => format!("{key} 1\n"),
        }).collect();
        let folder = TempDir::new().unwrap();
        let map = Map::open(&put(&folder, "m.ukvs", text.as_bytes()), &Resources::default()).unwrap();
        let place = |key: &[u8]| normal(&Key::new(key));
        let rows: Vec<(String, Reach)> = rows.iter().map(|row| place(row.as_bytes())).collect();
        for surt in &asked {
            let mut buffer = Vec::new();
            let lookup = Lookup::of_surt(surt.as_bytes(), &mut buffer);
            let mut candidates = lookup.surt().candidates().map(|key| normal(&key));
            let expected = candidates.find(|candidate| rows.contains(candidate));
            let found = Finder::new(&map).find(&lookup, None).map(|found| place(&found.key));
            prop_assert_eq!(found, expected, "{} in {}", surt, text);
        }
    }
}

#[test]
fn every_odd_uri_by_itself_is_found() {
    for dialect in Dialect::ALL {
        let lines: Vec<Vec<u8>> = ODD.iter().map(|uri| uri.as_bytes().to_vec()).collect();
        for line in listed(lines, dialect) {
            let folder = TempDir::new().unwrap();
            let text = [b"http://example.com/\n", &line[..], b"\n"].concat();
            let list = put(&folder, "list.txt", &text);
            let summaries = summaries(&list, dialect, folder.path());
            check_all(&[line], dialect, &summaries).unwrap();
        }
    }
}

#[test]
fn a_scheme_need_not_be_typed_under_any_dialect() {
    for dialect in Dialect::ALL {
        let folder = TempDir::new().unwrap();
        let list = put(
            &folder,
            "list.txt",
            b"http://example.com/a\nHTTP://example.org/\n",
        );
        let summaries = summaries(&list, dialect, folder.path());
        let typed = ["example.com/a", "HTTP://example.com/a", "example.org/"];
        let typed: Vec<Vec<u8>> = typed.iter().map(|uri| uri.as_bytes().to_vec()).collect();
        check_all(&typed, dialect, &summaries).unwrap();
    }
}

#[test]
fn the_wildcard_of_the_empty_label_covers_addresses() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "m.ukvs", b",* 600/600\n");
    let map = Map::open(&path, &Resources::default()).unwrap();
    for (uri, expected) in [
        ("http://[::1]/a", true),
        ("http://[::1]:8080/a", true),
        ("http://a.com/", false),
    ] {
        let mut buffer = Vec::new();
        let lookup = Lookup::new(uri.as_bytes(), Dialect::Ia, &mut buffer).unwrap();
        let found = Finder::new(&map).find(&lookup, None).is_some();
        assert_eq!(found, expected, "{uri}");
        assert_eq!(
            Key::new(b",*").covers(&Surt::new(lookup.surt().as_bytes())),
            expected
        );
    }
}
