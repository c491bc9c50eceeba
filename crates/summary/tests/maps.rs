//! Maps through the public interface: building, merging, compacting, tables, and errors.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use waypost_io::{Resources, Source};
use waypost_summary::holdings::Input;
use waypost_summary::map::{
    self, Budget, Finder, Found, LeastCost, Map, Papers, Rule, SourceMap, Span, Style,
};
use waypost_summary::profile;
use waypost_summary::{Archive, By, Lookup, LookupBuffer};
use waypost_surt::{Dialect, Policy};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.cdxj")
}

fn put(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn open(path: &Path) -> Map {
    Map::open(path, &Resources::default()).unwrap()
}

fn given(path: &Path) -> SourceMap {
    SourceMap::open(&Source::new(path.to_owned()), &Resources::default()).unwrap()
}

fn rows(path: &Path) -> Vec<String> {
    let text = String::from_utf8(fs::read(path).unwrap()).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('!'));
    rows.map(str::to_owned).collect()
}

fn find<'m>(map: &'m Map, surt: &str, at: Option<&Span>) -> Option<Found<'m>> {
    let mut buffer = Vec::new();
    Finder::new(map).find(&Lookup::of_surt(surt.as_bytes(), &mut buffer), at)
}

fn is_present(map: &Map, surt: &str) -> bool {
    find(map, surt, None).is_some_and(|found| !found.frequency.is_void())
}

fn papers(weight: f64) -> Rule {
    Rule::Papers(Papers {
        host_weight: weight,
        path_weight: weight,
        ..Papers::default()
    })
}

fn least(budget: Budget) -> Rule {
    Rule::LeastCost(Box::new(LeastCost {
        budget,
        sample: None,
        voids: false,
        prior: None,
        top: None,
    }))
}

fn compact(path: &Path, rule: &Rule, out: &Path) -> map::Report {
    map::compact(&mut given(path), rule, Style::Published, out, true).unwrap()
}

#[test]
fn a_map_of_an_hxpx_profile_is_that_of_its_captures() {
    for by in [None, Some(By::Year)] {
        let folder = TempDir::new().unwrap();
        let input = Input {
            by,
            ..Input::new(vec![Source::new(example())])
        };
        let archive = Archive::default();
        let (direct, through) = (folder.path().join("a.ukvs"), folder.path().join("b.ukvs"));
        map::build(&input, &archive, None, &direct).unwrap();
        let options = profile::Options {
            policies: vec![
                Policy::ALL
                    .iter()
                    .copied()
                    .find(|p| p.to_string() == "HxPx")
                    .unwrap(),
            ],
            archive: archive.clone(),
            date: None,
            folder: Some(folder.path().to_owned()),
            name: "p".into(),
            gzip: false,
        };
        profile::build(&input, &options, None).unwrap();
        let made = fs::read_dir(folder.path()).unwrap();
        let made: Vec<PathBuf> = made.map(|entry| entry.unwrap().path()).collect();
        let profile = made
            .iter()
            .find(|path| path.to_string_lossy().contains("HxPx"))
            .unwrap();
        let input = Input {
            by,
            ..Input::new(vec![Source::new(profile.clone())])
        };
        map::build(&input, &archive, None, &through).unwrap();
        assert!(!rows(&direct).is_empty());
        assert_eq!(rows(&direct), rows(&through), "{by:?}");
    }
}

#[test]
fn a_map_with_years_is_compacted_by_year_and_answers_by_year() {
    let folder = TempDir::new().unwrap();
    let mut text = String::from(
        "!fields {\"keys\": [\"surt\", \"datetime\"], \"values\": [\"frequency\"]}\n!meta {\"wildcards\": \"partition\"}\n",
    );
    for i in 10..60 {
        text += &format!("com,a)/p{i} 2008 2/1\ncom,a)/p{i} {} 1/1\n", 2009 + i % 3);
    }
    text += "com,b)/ 2012 7/1\n";
    let path = put(&folder, "years.ukvs", text);
    for rule in [
        papers(1.0),
        least(Budget::Keys(6)),
        least(Budget::Lambda(1e-9)),
    ] {
        let out = folder.path().join("small.ukvs");
        compact(&path, &rule, &out);
        let expected = [
            "com,a)/* 2008 100/50",
            "com,a)/* 2009 16/16",
            "com,a)/* 2010 17/17",
            "com,a)/* 2011 17/17",
        ];
        assert_eq!(rows(&out)[..4], expected);
        let map = open(&out);
        let at = |surt: &str, year: &str| {
            let span = Span::parse(year.as_bytes()).unwrap();
            find(&map, surt, Some(&span)).is_some()
        };
        assert!(at("com,a)/p10", "2008") && at("com,a)/p10", "2010"));
        assert!(!at("com,a)/p10", "2013") && at("com,b)/", "2012") && !at("com,b)/", "2008"));
    }
    let voids = put(
        &folder,
        "voids.ukvs",
        "!fields {\"keys\": [\"surt\", \"datetime\"], \"values\": [\"frequency\"]}\ncom,a)/* 2008 5\ncom,a)/x/* 2008 0\n",
    );
    let out = folder.path().join("none.ukvs");
    let refused = map::compact(
        &mut given(&voids),
        &papers(1.0),
        Style::Published,
        &out,
        false,
    );
    assert_eq!(refused.unwrap_err().place().line, Some(3));
    assert!(!out.exists());
}

#[test]
fn dated_maps_from_elsewhere_are_merged_by_their_dates() {
    let folder = TempDir::new().unwrap();
    let head = "!fields {keys: [\"surt\", \"datetime\"], values: [\"frequency\"]}\n";
    let a = put(
        &folder,
        "a",
        format!("{head}com,cnn)/* 2008 20\ncom,cnn)/* 2010:2012 30\n"),
    );
    let b = put(
        &folder,
        "b",
        format!("{head}com,cnn)/* 2008 1\norg,x)/ : 1\n"),
    );
    let out = folder.path().join("c");
    map::merge(
        &[a.clone(), b],
        map::Filters::Refuse,
        &Resources::default(),
        &out,
    )
    .unwrap();
    let merged = [
        "com,cnn)/* 2008 21",
        "com,cnn)/* 2010:2012 30",
        "org,x)/ : 1",
    ];
    assert_eq!(rows(&out), merged);
    let other = put(
        &folder,
        "d",
        "!fields {keys: [\"surt\", \"language\"], values: [\"frequency\"]}\ncom,a)/ en 1\n",
    );
    assert!(
        map::merge(
            &[a, other],
            map::Filters::Refuse,
            &Resources::default(),
            &out
        )
        .is_err()
    );
    assert_eq!(rows(&out), merged, "what failed leaves the old file");
}

#[test]
fn a_report_says_what_the_papers_rule_would_have_given() {
    let folder = TempDir::new().unwrap();
    let mut text = String::new();
    for host in 10..40 {
        for page in 10..(12 + host) {
            text += &format!("com,h{host})/d/p{page} 1/1\n");
        }
    }
    let path = put(&folder, "a.ukvs", text);
    let report = compact(
        &path,
        &least(Budget::Keys(60)),
        &folder.path().join("b.ukvs"),
    );
    let papers = report.papers.unwrap();
    assert!(papers.rows <= report.written.rows);
    assert!(
        papers.false_positives >= report.false_positives.unwrap() - 1e-6,
        "{report:?}"
    );
    assert_eq!(
        report.trace.last(),
        Some(&(report.rows_in, report.written.rows))
    );
}

#[test]
fn opening_a_map_writes_nothing_and_a_table_gives_the_same_answers() {
    let folder = TempDir::new().unwrap();
    let text: String = (100_000..490_000)
        .map(|n| format!("com,site)/page/{n} 1\n"))
        .collect();
    let path = put(&folder, "m.ukvs", text);
    let files = || fs::read_dir(folder.path()).unwrap().count();
    assert!(is_present(&open(&path), "com,site)/page/300000"));
    assert_eq!(files(), 1);
    let report = map::index(&path, &Resources::default()).unwrap();
    assert_eq!((report.rows, files()), (390_000, 2));
    assert_eq!(report.path, folder.path().join("m.ukvs.wmap"));
    let map = open(&path);
    assert!(is_present(&map, "com,site)/page/300000"));
    assert!(!is_present(&map, "com,site)/page/9999"));
    assert_eq!(files(), 2);
}

#[test]
fn only_plain_and_tidy_maps_have_tables() {
    let folder = TempDir::new().unwrap();
    let untidy = put(&folder, "untidy.ukvs", "com,b)/ 1\ncom,a)/ 1\n");
    assert!(
        map::index(&untidy, &Resources::default())
            .unwrap_err()
            .to_string()
            .contains("out of order")
    );
    // The map itself is sorted when it is opened.
    assert!(is_present(&open(&untidy), "com,a)/"));
    let marked = put(&folder, "marked.ukvs", "\u{feff}com,a)/ 1\n");
    assert!(map::index(&marked, &Resources::default()).is_err());
    assert!(is_present(&open(&marked), "com,a)/"));
    assert!(Map::from_bytes(fs::read(&marked).unwrap()).is_err());
    let other = put(
        &folder,
        "other.cdxj",
        "com,a)/ 2020 {\"url\": \"http://a.com/\"}\n",
    );
    let error = map::index(&other, &Resources::default()).unwrap_err();
    assert!(error.to_string().contains("not a map"), "{error}");
    for odd in [
        "com,a)/ 1\n \ncom,b)/ 1\n",
        "com,a)/ 1\n\r\ncom,b)/ 1\n",
        "com,a)/ 1\n!meta {}\ncom,b)/ 1\n",
    ] {
        let path = put(&folder, "odd.ukvs", odd);
        let map = open(&path);
        assert!(
            is_present(&map, "com,a)/") && is_present(&map, "com,b)/"),
            "{odd:?}"
        );
    }
}

fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_line_of_a_gigabyte_is_an_error_with_its_place_and_takes_little_memory() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "long.ukvs", "com,a)/ 1\n");
    // A hole in the file: endless zeros without a line feed.
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let before = peak();
    let out = folder.path().join("out.ukvs");
    let errors = [
        Map::open(&path, &Resources::default()).unwrap_err(),
        map::check::check(&Source::new(path.clone())).unwrap_err(),
        map::compact(
            &mut given(&path),
            &papers(1.0),
            Style::Published,
            &out,
            false,
        )
        .unwrap_err(),
        map::merge(
            &[path.clone(), path.clone()],
            map::Filters::Refuse,
            &Resources::default(),
            &out,
        )
        .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.place().line, Some(2), "{error}");
        let too_long = "the line is longer than 16,777,216 bytes";
        assert!(error.to_string().ends_with(too_long), "{error}");
    }
    assert!(!out.exists());
    assert!(peak() - before < 100_000, "{} kB", peak() - before);
}

#[test]
fn a_binary_file_is_not_taken_for_a_map() {
    let folder = TempDir::new().unwrap();
    for bytes in [
        &b"\x00\x01\xff\xfe\n"[..],
        b"com,a)/ 1\n\x89PNG\r\n\x1a\n\x00",
    ] {
        let path = put(&folder, "bad.ukvs", bytes);
        let error = Map::open(&path, &Resources::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("a binary file, not a map"), "{error}");
    }
}

#[test]
fn broken_maps_are_errors_with_line_and_byte() {
    let folder = TempDir::new().unwrap();
    for (text, line, byte) in [
        (&b"com,a)/ 1\ncom,b)/ -5\n"[..], 2, 9),
        (b"com,a)/ 1\ncom,b)/", 2, 8),
        (b"com,a)/ 1\ncom,b)/ 1/-2\n", 2, 9),
        (b"com,a)/ 1\n\x89PNG\r\n\x1a\n", 2, 5),
        (b"com,a)/ 99999999999999999999999\n", 1, 9),
    ] {
        let path = put(&folder, "bad.ukvs", text);
        let out = folder.path().join("out.ukvs");
        let errors = [
            Map::open(&path, &Resources::default()).unwrap_err(),
            map::check::check(&Source::new(path.clone())).unwrap_err(),
            map::compact(
                &mut given(&path),
                &papers(1.0),
                Style::Published,
                &out,
                false,
            )
            .unwrap_err(),
            map::compact(
                &mut given(&path),
                &least(Budget::Keys(1)),
                Style::Published,
                &out,
                false,
            )
            .unwrap_err(),
        ];
        for error in errors {
            let place = error.place();
            assert_eq!(
                (place.line, place.column),
                (Some(line), Some(byte)),
                "{error}"
            );
        }
        assert!(!out.exists());
    }
}

/// Keys of maps: exact ones and wildcards of hosts and paths, on few nodes.
fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => ("[ab](,[ab]){0,2}", "(/[ab]{1,2}){0,2}").prop_map(|(host, path)| format!("{host}){}", if path.is_empty() { "/".into() } else { path })),
        2 => ("[ab](,[ab]){0,2}", "(/[ab]{1,2}){0,1}").prop_map(|(host, path)| format!("{host}){path}/*")),
        1 => "[ab](,[ab]){0,1}".prop_map(|host| format!("{host},*")),
        1 => Just("*".to_owned()),
    ]
}

fn surts() -> impl Strategy<Value = String> {
    ("[ab](,[ab]){0,2}", "(/[ab]{1,2}){0,3}").prop_map(|(host, path)| {
        format!("{host}){}", if path.is_empty() { "/".into() } else { path })
    })
}

fn text(entries: &BTreeMap<String, u64>) -> String {
    entries
        .iter()
        .map(|(key, n)| format!("{key} {n}\n"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_either_of_two_maps_calls_present_their_merger_does(
        maps in prop::collection::vec(prop::collection::btree_map(keys(), 0..3u64, 1..10), 2..4),
        asked in prop::collection::vec(surts(), 1..30),
    ) {
        let folder = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = maps.iter().enumerate().map(|(at, entries)| put(&folder, &at.to_string(), text(entries))).collect();
        let out = folder.path().join("merged");
        map::merge(&paths, map::Filters::Refuse, &Resources::default(), &out).unwrap();
        let merged = open(&out);
        for path in &paths {
            let map = open(path);
            for surt in &asked {
                prop_assert!(!is_present(&map, surt) || is_present(&merged, surt), "{surt} of {:?} in {:?}", maps, rows(&out));
            }
        }
    }

    /// Whatever happens to a map or its table, a held URI is found, or there is an error.
    #[test]
    fn a_changed_map_or_table_is_an_error_or_answers_right(
        entries in prop::collection::btree_map(keys(), 1..3u64, 1..20),
        in_table: bool,
        at: prop::sample::Index,
        change in prop_oneof![(1..=255u8).prop_map(Some), Just(None)],
    ) {
        let folder = TempDir::new().unwrap();
        let path = put(&folder, "m.ukvs", text(&entries));
        map::index(&path, &Resources::default()).unwrap();
        let changed = if in_table { folder.path().join("m.ukvs.wmap") } else { path.clone() };
        let mut bytes = fs::read(&changed).unwrap();
        let at = at.index(bytes.len());
        match change {
            Some(bits) => bytes[at] ^= bits,
            None => bytes.truncate(at),
        }
        let modified = fs::metadata(&changed).unwrap().modified().unwrap();
        fs::write(&changed, bytes).unwrap();
        fs::File::options().write(true).open(&changed).unwrap().set_modified(modified).unwrap();
        if let Ok(map) = Map::open(&path, &Resources::default()) {
            for key in entries.keys() {
                let stem = key.trim_end_matches('*').trim_end_matches([',', '/']);
                prop_assert!(is_present(&map, stem), "{key}");
            }
        }
    }

    #[test]
    fn one_walk_of_the_papers_rule_gives_what_two_give(
        held in prop::collection::btree_map("[ab](,[ab0-]{1,2}){0,3}\\)(/[ab0.-]{1,2}){0,3}", 1..9u64, 1..60),
        bare in prop::collection::btree_map("[ab](,[ab]){0,2}(:8)?", 1..9u64, 0..4),
        weight in prop::sample::select(vec![0.0, 0.02, 0.05, 0.1, 0.2, f64::INFINITY]),
    ) {
        let folder = TempDir::new().unwrap();
        let held: BTreeMap<String, u64> = held.into_iter().map(|(key, n)| (if key.ends_with(')') { key + "/" } else { key }, n)).chain(bare).collect();
        // A void anywhere requires two passes.
        let one = put(&folder, "one", text(&held));
        let two = put(&folder, "two", text(&held) + "zz,void)/x 0\n");
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        compact(&one, &papers(weight), &a);
        compact(&two, &papers(weight), &b);
        let mut expected = rows(&b);
        expected.pop();
        prop_assert_eq!(rows(&a), expected);
    }

    #[test]
    fn many_lookups_at_once_are_answered_as_one_by_one(
        entries in prop::collection::btree_map(keys(), 0..3u64, 1..20),
        asked in prop::collection::vec(surts(), 0..200),
    ) {
        let folder = TempDir::new().unwrap();
        let path = put(&folder, "m", text(&entries));
        let map = open(&path);
        let lines: Vec<&[u8]> = asked.iter().map(|surt| surt.as_bytes()).collect();
        let mut batch = LookupBuffer::new(Dialect::Ia);
    let batch = batch.fill(&lines);
        let taken: Vec<Lookup<'_>> = batch.valid().collect();
        let mut at = 0;
        let mut same = true;
        Finder::new(&map).find_all(&taken, None, |found| {
            same &= found == find(&map, &asked[at], None);
            at += 1;
        });
        prop_assert!(same);
        prop_assert_eq!(at, asked.len());
    }
}
