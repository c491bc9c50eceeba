//! Summaries without files: read from bytes, built from iterators, written to memory.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use waypost_io::{Mapped, Resources, Source};
use waypost_summary::filter::{self, Filter, Hasher, Hashing, Keyer, Keys, Recipe};
use waypost_summary::holdings::{Counts, Gather, Input, Reading};
use waypost_summary::map::{self, Map};
use waypost_summary::profile::{self, Options, Profile};
use waypost_summary::{Archive, Lookup, Summary, SurtWriter, from_bytes, open};
use waypost_surt::{Dialect, Policy, Surt};

/// URIs in no order, some of them twice, with queries, ports and hosts of all depths.
fn uris() -> Vec<String> {
    let mut uris: Vec<String> = (0..3_000u32)
        .map(|n| {
            let n = n.wrapping_mul(2_654_435_761) % 2_500;
            match n % 4 {
                0 => format!("http://site{}.example.com/{n}", n % 17),
                1 => format!("https://example.org:8080/a/{}?q={n}", n % 31),
                2 => format!("http://www.example.co.uk/{}/", n % 400),
                _ => format!("http://h{}.test/", n % 900),
            }
        })
        .collect();
    uris.push("http://example.com".to_owned());
    uris
}

fn surts(uris: &[String]) -> Vec<Vec<u8>> {
    let mut writer = SurtWriter::new(Dialect::Ia);
    let surt = |uri: &String| {
        let mut surt = Vec::new();
        writer.write(uri.as_bytes(), &mut surt).unwrap();
        surt
    };
    uris.iter().map(surt).collect()
}

fn options(folder: &Path, policy: &str) -> Options {
    Options {
        policies: vec![policy.parse().unwrap()],
        archive: Archive::default(),
        date: None,
        folder: Some(folder.to_owned()),
        name: "p".to_owned(),
        gzip: false,
    }
}

/// Writes a map, two profiles and a filter of the URIs. Returns the names of their files.
fn built(folder: &Path) -> [&'static str; 4] {
    let list = folder.join("uris.txt");
    std::fs::write(&list, uris().join("\n")).unwrap();
    let sources = [Source::new(&list)];
    let input = Input::new(sources.to_vec());
    map::build(&input, &Archive::default(), None, &folder.join("map.ukvs")).unwrap();
    for policy in ["H3P1", "DDom"] {
        profile::build(&input, &options(folder, policy), None).unwrap();
    }
    let filter = folder.join("f.filter");
    filter::build(filter::Input::new(&sources), &Recipe::default(), &filter).unwrap();
    ["map.ukvs", "p.H3P1.cdxj", "p.DDom.cdxj", "f.filter"]
}

fn answers(summary: &dyn Summary) -> Vec<String> {
    let others = (0..500).map(|n| format!("http://h{n}.test/{n}"));
    let all: Vec<String> = uris().into_iter().chain(others).collect();
    let surts = surts(&all);
    let mut buffers = vec![Vec::new(); surts.len()];
    let lookups: Vec<Lookup<'_>> = surts
        .iter()
        .zip(&mut buffers)
        .map(|(surt, buffer)| Lookup::of_surt(surt, buffer))
        .collect();
    let one_by_one = lookups.iter().map(|lookup| summary.lookup(lookup).unwrap());
    let one_by_one: Vec<String> = one_by_one.map(|answer| format!("{answer:?}")).collect();
    let together = summary.answer_all(&lookups).unwrap();
    let together: Vec<String> = together
        .iter()
        .map(|answer| format!("{answer:?}"))
        .collect();
    assert_eq!(one_by_one, together);
    one_by_one
}

#[test]
fn a_summary_read_from_bytes_answers_as_the_one_read_from_its_path() {
    let folder = tempfile::tempdir().unwrap();
    for name in built(folder.path()) {
        let path = folder.path().join(name);
        let expected = open(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let shared: Arc<[u8]> = bytes.clone().into();
        let summaries: [Box<dyn Summary>; 3] = [
            from_bytes(bytes).unwrap(),
            from_bytes(shared).unwrap(),
            from_bytes(Mapped::open(&path).unwrap()).unwrap(),
        ];
        for summary in &summaries {
            assert_eq!(answers(&**summary), answers(&*expected), "{name}");
            assert_eq!(summary.size(), expected.size(), "{name}");
        }
    }
}

#[test]
fn what_is_built_from_an_iterator_and_written_to_memory_equals_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [map, first, second, filter] = built(folder.path());
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let surts = surts(&uris());
    let urirs = || {
        let urirs = surts.iter();
        urirs.map(|surt| (Surt::new(surt), Counts::of_captures(1)))
    };
    let gather = Gather::new(Dialect::Ia, None, &Resources::default());
    let input = Input::new(Vec::new());
    let held = || {
        let mut held = gather.collect(urirs()).unwrap();
        let reading = Reading::of_held(&mut held).unwrap();
        (held, reading)
    };

    let mut bytes = Vec::new();
    let (mut rows, reading) = held();
    map::write_to(&mut rows, reading, &input, &Archive::default(), &mut bytes).unwrap();
    assert!(bytes == read(map));

    for (name, policy) in [(first, "H3P1"), (second, "DDom")] {
        let mut bytes = Vec::new();
        let (mut rows, reading) = held();
        let options = options(folder.path(), policy);
        let policy = policy.parse().unwrap();
        profile::write_to(&mut rows, reading, &input, policy, &options, &mut bytes).unwrap();
        assert!(bytes == read(name), "{name}");
    }

    let mut bytes = Vec::new();
    let keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
    let hashing = Hashing::new(keyer, Dialect::Ia, &Resources::default());
    let hashed = hashing.collect(urirs()).unwrap();
    let keys = Keys::new(Hasher::Public, Dialect::Ia, Policy::Whole);
    filter::write_to(&hashing, hashed, keys, &Recipe::default(), &mut bytes).unwrap();
    assert!(bytes == read(filter));
}

#[test]
fn bytes_that_are_no_summary_are_refused() {
    assert!(from_bytes(b"http://example.com/\n".to_vec()).is_err());
    assert!(Map::from_bytes(b"com,b)/ 1\ncom,a)/ 1\n".to_vec()).is_err());
    assert!(Profile::from_bytes(b"com,a)/ 1\n".to_vec()).is_err());
    assert!(Filter::from_bytes(Vec::new()).is_err());
}
