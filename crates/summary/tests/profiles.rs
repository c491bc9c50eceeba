//! Profiles through the public interface: their files, their answers, and what must not affect
//! them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waypost_io::{Resources, Source};
use waypost_summary::filter;
use waypost_summary::holdings::{Input, gather};
use waypost_summary::profile::{self, Options, Profile, Report, Row};
use waypost_summary::{Answer, Archive, By, Lookup, LookupBuffer, Summary};
use waypost_surt::{Dialect, Policy, Surt};

#[path = "../../../tests/oracles.rs"]
mod oracles;

fn options(folder: Option<&Path>, policies: &[Policy]) -> Options {
    Options {
        policies: policies.to_vec(),
        archive: Archive::default(),
        date: None,
        folder: folder.map(Path::to_owned),
        name: "a".into(),
        gzip: false,
    }
}

fn input(paths: &[PathBuf]) -> Input {
    Input::new(paths.iter().cloned().map(Source::new).collect())
}

fn build(paths: &[PathBuf], folder: &Path) -> Report {
    profile::build(&input(paths), &options(Some(folder), &Policy::ALL), None).unwrap()
}

/// Rows of a profile: key → captures and URI-Rs as text.
fn rows(path: &Path) -> BTreeMap<String, (u64, String, u64)> {
    let text = String::from_utf8(fs::read(path).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    let mut key = Vec::new();
    let mut last = String::new();
    for line in text.lines().filter(|line| !line.starts_with('!')) {
        let fields = if line.split(' ').nth(1).unwrap().starts_with('{') {
            1
        } else {
            2
        };
        let row = Row::parse(line.as_bytes(), fields, &mut key).unwrap();
        let key = String::from_utf8(key.clone()).unwrap();
        assert!(key > last || last.is_empty(), "{key} after {last}");
        last.clone_from(&key);
        let captures = row.frequency.captures.unwrap();
        found.insert(
            key,
            (
                captures.value,
                row.frequency.urirs.unwrap().to_string(),
                row.spread,
            ),
        );
    }
    found
}

fn path(folder: &Path, policy: Policy) -> PathBuf {
    folder.join(format!("a.{policy}.cdxj"))
}

/// SURTs with every byte that sorts unexpectedly around separators, and captures of them.
fn captures() -> impl Strategy<Value = Vec<(String, u32)>> {
    let surt = "(com|uk,co|org|com,x-a)(,[ab]{1,2}[-0b]?){1,3}(:81)?\\)/([ab]{0,2}[-0.]?/?){0,4}(\\?[ab=]{1,4})?";
    prop::collection::vec((surt, 2000..2004u32), 1..60)
}

fn line(surt: &str, year: u32) -> String {
    format!("{surt} {year}0102030405 - text/html 200 AAAA - - 5 9 x.warc.gz\n")
}

fn write(folder: &Path, name: &str, captures: &[(String, u32)], sorted: bool) -> PathBuf {
    let mut lines: Vec<String> = captures
        .iter()
        .map(|(surt, year)| line(surt, *year))
        .collect();
    if sorted {
        lines.sort();
    }
    let path = folder.join(name);
    fs::write(&path, lines.concat()).unwrap();
    path
}

fn expected(captures: &[(String, u32)], policy: Policy) -> BTreeMap<String, (u64, String, u64)> {
    let mut counts: BTreeMap<String, (u64, BTreeSet<&str>)> = BTreeMap::new();
    for (surt, _) in captures {
        let mut key = Vec::new();
        policy.cut(&Surt::new(surt.as_bytes()), &mut key);
        let counts = counts.entry(String::from_utf8(key).unwrap()).or_default();
        counts.0 += 1;
        counts.1.insert(surt);
    }
    counts
        .into_iter()
        .map(|(key, (captures, surts))| (key, (captures, surts.len().to_string(), 1)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn profiles_are_exact_and_do_not_depend_on_order_memory_or_threads(captures in captures(), threads in 1..4usize) {
        let folder = tempfile::tempdir().unwrap();
        let sorted = write(folder.path(), "sorted.cdx", &captures, true);
        let unsorted = write(folder.path(), "unsorted.cdx", &captures, false);
        let half = captures.len() / 2;
        let parts = [write(folder.path(), "1.cdx", &captures[..half], true), write(folder.path(), "2.cdx", &captures[half..], true)];
        let (a, b, c) = (folder.path().join("A"), folder.path().join("B"), folder.path().join("C"));
        let report = build(std::slice::from_ref(&sorted), &a);
        build(&[unsorted], &b);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut little = input(&parts);
        little.resources.memory = 4096;
        pool.install(|| profile::build(&little, &options(Some(&c), &Policy::ALL), None)).unwrap();
        let dry = profile::build(&input(&[sorted]), &options(None, &Policy::ALL), None).unwrap();
        for (made, counted) in report.profiles.iter().zip(&dry.profiles) {
            let policy = made.policy;
            let found = rows(&path(&a, policy));
            prop_assert_eq!(&found, &expected(&captures, policy), "{}", policy);
            prop_assert_eq!(made.size.keys, found.len() as u64);
            prop_assert_eq!(counted.size.keys, found.len() as u64, "dry run of {}", policy);
            prop_assert_eq!(found.values().map(|row| row.0).sum::<u64>(), captures.len() as u64);
            let bytes = fs::read(path(&a, policy)).unwrap();
            prop_assert_eq!(&bytes, &fs::read(path(&b, policy)).unwrap());
            prop_assert_eq!(&bytes, &fs::read(path(&c, policy)).unwrap());
        }
    }

    #[test]
    fn a_sorted_index_is_written_while_it_is_read_with_the_same_bytes(
        captures in captures(),
        copies in prop_oneof![Just(1usize), 40..80usize],
        block in 1..20_000usize,
        gzip: bool,
        by in prop::option::of(Just(By::Year)),
        late in prop::option::weighted(0.3, captures()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        // Enough that profiles have more than one block.
        let many: Vec<(String, u32)> = (0..copies)
            .flat_map(|n| captures.iter().map(move |(surt, year)| (surt.replace(")/", &format!(",n{n:02})/")), *year)))
            .collect();
        let sorted = write(folder.path(), "sorted.cdx", &many, true);
        // What is out of order at the end of a file is not seen at its start.
        let late = write(folder.path(), "late.cdx", &late.unwrap_or_default(), false);
        let mut lines = fs::read(&sorted).unwrap();
        lines.extend(fs::read(&late).unwrap());
        fs::write(&sorted, &lines).unwrap();
        let (a, b) = (folder.path().join("A"), folder.path().join("B"));
        let mut streamed = Input { block: Some(block), by, ..input(std::slice::from_ref(&sorted)) };
        let mut to_a = options(Some(&a), &Policy::ALL);
        to_a.gzip = gzip;
        profile::build(&streamed, &to_a, None).unwrap();
        let to_b = profile::Options { folder: Some(b.clone()), ..to_a };
        streamed.block = None;
        let (mut held, reading) = gather(&streamed, None).unwrap();
        profile::write(&mut held, reading, &streamed, &to_b).unwrap();
        let mut files = 0;
        for file in fs::read_dir(&a).unwrap() {
            let name = file.unwrap().file_name();
            prop_assert!(fs::read(a.join(&name)).unwrap() == fs::read(b.join(&name)).unwrap(), "{:?}", name);
            files += 1;
        }
        prop_assert_eq!(files, Policy::ALL.len());
    }

    #[test]
    fn no_held_uri_is_called_absent_and_answers_are_the_rows(captures in captures(), asked in captures()) {
        let folder = tempfile::tempdir().unwrap();
        let sorted = write(folder.path(), "sorted.cdx", &captures, true);
        let gzipped = folder.path().join("z");
        build(std::slice::from_ref(&sorted), folder.path());
        let mut gzip = options(Some(&gzipped), &Policy::ALL);
        gzip.gzip = true;
        profile::build(&input(&[sorted]), &gzip, None).unwrap();
        for policy in Policy::ALL {
            let plain = Profile::open(&path(folder.path(), policy)).unwrap();
            let packed = Profile::open(&gzipped.join(format!("a.{policy}.cdxj.gz"))).unwrap();
            let expected = expected(&captures, policy);
            prop_assert_eq!(plain.size().keys, expected.len() as u64);
            let surts: Vec<&[u8]> = captures.iter().chain(&asked).map(|(surt, _)| surt.as_bytes()).collect();
            let mut batch = LookupBuffer::new(Dialect::Ia);
            let batch = batch.fill(&surts);
            let lookups: Vec<Lookup<'_>> = batch.valid().collect();
            let all = plain.lookup_all(&lookups).unwrap();
            let packed_all = packed.lookup_all(&lookups).unwrap();
            prop_assert_eq!(&all, &packed_all);
            let answers = plain.answer_all(&lookups).unwrap();
            for (index, (lookup, brief)) in lookups.iter().zip(&all).enumerate() {
                let frequency = brief.found().map(|found| found.frequency);
                let one = plain.lookup(lookup).unwrap();
                prop_assert_eq!(&one, &packed.lookup(lookup).unwrap());
                prop_assert_eq!(&one, &answers[index]);
                let mut key = Vec::new();
                policy.cut(lookup.surt(), &mut key);
                let row = expected.get(std::str::from_utf8(&key).unwrap());
                match one {
                    Answer::Absent => prop_assert!(row.is_none() && frequency.is_none() && index >= captures.len()),
                    Answer::Present(found) => {
                        let row = row.unwrap();
                        prop_assert_eq!(found.frequency.to_string(), format!("{}/{}", row.0, row.1));
                        prop_assert_eq!(Some(found.frequency), frequency);
                        prop_assert_eq!(found.key, Some(key));
                    }
                    Answer::Unknown => prop_assert!(false, "made from all captures"),
                }
            }
        }
    }

    #[test]
    fn merging_parts_equals_profiling_the_whole_in_any_order(captures in captures()) {
        let folder = tempfile::tempdir().unwrap();
        let whole = write(folder.path(), "whole.cdx", &captures, true);
        build(&[whole], &folder.path().join("whole"));
        let third = captures.len() / 3;
        for (name, part) in [("x", &captures[..third]), ("y", &captures[third..2 * third]), ("z", &captures[2 * third..])] {
            let index = write(folder.path(), name, part, true);
            build(&[index], &folder.path().join(format!("of-{name}")));
        }
        for policy in Policy::ALL {
            let of = |name: &str| path(&folder.path().join(format!("of-{name}")), policy);
            let merged = |inputs: &[PathBuf], name: &str| {
                let out = folder.path().join(name);
                profile::merge(inputs, None, None, None, &Resources::default(), &out).unwrap();
                out
            };
            let all = merged(&[of("x"), of("y"), of("z")], "all");
            let left = merged(&[of("x"), of("y")], "left");
            let left = merged(&[left, of("z")], "left-all");
            let right = merged(&[of("z"), of("y")], "right");
            let right = merged(&[right, of("x")], "right-all");
            let bytes = fs::read(&all).unwrap();
            prop_assert_eq!(&bytes, &fs::read(&left).unwrap());
            prop_assert_eq!(&bytes, &fs::read(&right).unwrap());
            let (once, sum) = (rows(&path(&folder.path().join("whole"), policy)), rows(&all));
            prop_assert_eq!(once.len(), sum.len());
            for ((key, once), (merged_key, merged)) in once.iter().zip(&sum) {
                prop_assert_eq!(key, merged_key);
                prop_assert_eq!(once.0, merged.0);
                let exact: u64 = once.1.parse().unwrap();
                match merged.1.strip_suffix('-') {
                    Some(bound) => prop_assert!(bound.parse::<u64>().unwrap() >= exact && merged.2 > 1),
                    None => prop_assert!(merged.1 == once.1 && merged.2 == 1),
                }
            }
        }
    }

    #[test]
    fn a_coarser_policy_is_the_same_from_a_finer_profile(captures in captures()) {
        let folder = tempfile::tempdir().unwrap();
        let index = write(folder.path(), "a.cdx", &captures, true);
        build(&[index], folder.path());
        for (finer, coarser) in [("HxPx", "H3P1"), ("URIR", "DQry"), ("H3P3", "H2P1"), ("HxP1", "H1P0"), ("URIR", "HxP2")] {
            let out = folder.path().join("coarser");
            let coarser: Policy = coarser.parse().unwrap();
            let finer = path(folder.path(), finer.parse().unwrap());
            profile::merge(&[finer], Some(coarser), None, None, &Resources::default(), &out).unwrap();
            prop_assert_eq!(fs::read(&out).unwrap(), fs::read(path(folder.path(), coarser)).unwrap());
        }
    }

    #[test]
    fn a_second_key_splits_the_counts(captures in captures()) {
        let folder = tempfile::tempdir().unwrap();
        let index = write(folder.path(), "a.cdx", &captures, false);
        let mut by_year = input(&[index]);
        by_year.by = Some(By::Year);
        profile::build(&by_year, &options(Some(folder.path()), &Policy::ALL), None).unwrap();
        for policy in Policy::ALL {
            let file = folder.path().join(format!("a.{policy}.year.cdxj"));
            let mut expected: BTreeMap<String, (u64, BTreeSet<&str>)> = BTreeMap::new();
            for (surt, year) in &captures {
                let mut key = Vec::new();
                policy.cut(&Surt::new(surt.as_bytes()), &mut key);
                let counts = expected.entry(format!("{} {year}", String::from_utf8(key).unwrap())).or_default();
                counts.0 += 1;
                counts.1.insert(surt);
            }
            let expected: BTreeMap<_, _> = expected.into_iter().map(|(key, (n, surts))| (key, (n, surts.len().to_string(), 1))).collect();
            prop_assert_eq!(rows(&file), expected);
            let profile = Profile::open(&file).unwrap();
            for (surt, _) in &captures {
                let mut buffer = Vec::new();
                let lookup = Lookup::of_surt(surt.as_bytes(), &mut buffer);
                let Answer::Present(found) = profile.lookup(&lookup).unwrap() else { panic!("{surt}") };
                let brief = profile.lookup_all(&[lookup]).unwrap();
                prop_assert_eq!(Some(found.frequency), brief[0].found().map(|found| found.frequency));
            }
        }
    }
}

#[test]
fn each_input_can_be_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let capture = |surt: &str| (surt.to_owned(), 2000);
    let one = write(
        folder.path(),
        "1.cdx",
        &[capture("com,a)/x"), capture("com,b)/")],
        true,
    );
    let two = write(
        folder.path(),
        "2.cdx",
        &[capture("com,a)/x"), capture("com,a)/y")],
        true,
    );
    let mut both = input(&[one, two]);
    both.each_a_source = true;
    profile::build(&both, &options(Some(folder.path()), &Policy::ALL), None).unwrap();
    let found = rows(&path(folder.path(), "HxP0".parse().unwrap()));
    assert_eq!(found["com,a)/"], (3, "2".into(), 2));
    assert_eq!(found["com,b)/"], (1, "1".into(), 1));
}

#[test]
fn keys_that_come_back_late_are_worked_in() {
    let folder = tempfile::tempdir().unwrap();
    // The root of a host with three labels recurs after all of its paths.
    let mut captures: Vec<(String, u32)> = (0..5000)
        .map(|i| (format!("com,x,y)/a{i:05}/b"), 2000))
        .collect();
    captures.push(("com,x,y)/".into(), 2000));
    captures.push(("com,x,y,z)/q".into(), 2001));
    let index = write(folder.path(), "a.cdx", &captures, true);
    let mut little = input(&[index]);
    little.resources.memory = 1;
    profile::build(&little, &options(Some(folder.path()), &Policy::ALL), None).unwrap();
    let dry = profile::build(&little, &options(None, &Policy::ALL), None).unwrap();
    for counted in dry.profiles {
        let found = rows(&path(folder.path(), counted.policy));
        assert_eq!(
            found,
            expected(&captures, counted.policy),
            "{}",
            counted.policy
        );
        assert_eq!(counted.size.keys, found.len() as u64, "{}", counted.policy);
    }
}

#[test]
fn coarser_keys_that_come_late_are_merged_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut captures: Vec<(String, u32)> = (0..10_000)
        .map(|i| (format!("com,host{i:05})/"), 2000))
        .collect();
    captures.push(("com:8080)/x".into(), 2000));
    let index = write(folder.path(), "a.cdx", &captures, true);
    build(&[index], folder.path());
    let finest = path(folder.path(), "HxPx".parse().unwrap());
    for policy in Policy::ALL {
        let out = folder.path().join("merged");
        if profile::merge(
            std::slice::from_ref(&finest),
            Some(policy),
            None,
            None,
            &Resources::default(),
            &out,
        )
        .is_err()
        {
            assert!(
                !policy.is_coarser_or_equal("HxPx".parse().unwrap()),
                "{policy}"
            );
            continue;
        }
        let merged: Vec<_> = rows(&out)
            .into_iter()
            .map(|(key, row)| (key, row.0))
            .collect();
        let built = rows(&path(folder.path(), policy));
        let built: Vec<_> = built.into_iter().map(|(key, row)| (key, row.0)).collect();
        assert_eq!(merged, built, "{policy}");
    }
}

#[test]
fn the_golden_profiles_are_made_again_byte_for_byte() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        archive: Archive {
            id: String::from("small").into(),
            name: String::from("A Small Archive").into(),
            home: String::from("https://archive.example.org/").into(),
            timegate: String::from("https://archive.example.org/timegate/{URI}").into(),
            ..Archive::default()
        },
        name: "small".into(),
        ..options(Some(folder.path()), &Policy::ALL)
    };
    profile::build(&input(&[golden.join("small.cdxj")]), &options, None).unwrap();
    for policy in Policy::ALL {
        let name = format!("small.{policy}.cdxj");
        let made = fs::read_to_string(folder.path().join(&name)).unwrap();
        if std::env::var_os("WAYPOST_BLESS").is_some() {
            fs::write(golden.join(&name), &made).unwrap();
        }
        assert_eq!(
            made,
            fs::read_to_string(golden.join(&name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn the_published_counts_of_keys_are_found_again() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let cdx = shared.join("vectors/cdx/archive_profiler_mit");
    let inputs = [cdx.join("index-1.cdx"), cdx.join("index-2.cdx")];
    let report = profile::build(&input(&inputs), &options(None, &Policy::ALL), None).unwrap();
    let counts: BTreeMap<String, u64> = report
        .profiles
        .iter()
        .map(|p| (p.policy.to_string(), p.size.keys))
        .collect();
    assert_eq!(report.reading.captures, 713);
    for (policy, keys) in [
        ("H1P0", 5),
        ("H2P0", 10),
        ("H2P1", 143),
        ("H2P2", 164),
        ("H3P0", 14),
        ("H3P1", 146),
        ("H3P2", 167),
        ("H3P3", 264),
        ("H4P0", 14),
        ("H5P0", 14),
        ("HxP0", 14),
        ("HxP1", 148),
        ("HxP2", 169),
        ("HxP3", 267),
        ("HxP4", 317),
        ("HxP5", 317),
        ("HxPx", 317),
        ("DDom", 10),
        ("DSub", 11),
        ("DPth", 24),
        ("DQry", 26),
        ("DIni", 51),
    ] {
        assert_eq!(counts[policy], keys, "{policy}");
    }
}

#[test]
fn what_is_no_profile_or_not_sorted_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = folder.path().join("p.cdxj");
        fs::write(&path, text).unwrap();
        path
    };
    for (text, expected) in [
        ("com,a)/ {\"frequency\": 1}\n", "no header names the policy"),
        ("!meta {\"policy\": \"H9\"}\n", "`H9` is not a policy"),
        (
            "!meta {\"policy\": \"H1P0\"}\nb 1\na 1\n",
            "line 3: not sorted",
        ),
        (
            "!meta {\"policy\": \"H1P0\"}\na 1\na 1\n",
            "line 3: not sorted",
        ),
        (
            "!meta {\"policy\": \"H1P0\"}\na x\n",
            "line 2, column 2: `x` is no frequency",
        ),
        (
            "!meta {\"policy\": \"H1P0\"\n",
            "line 1, column 24: a comma or }",
        ),
    ] {
        let error = Profile::open(&file(text)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut key = Vec::new();
    assert!(Row::parse(b"a {\"frequency\": 1, \"spread\": 1", 1, &mut key).is_err());
}

#[test]
fn a_build_ends_with_everything_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.txt");
    let uris: String = (0..5_000)
        .map(|n| format!("http://{}.example.com/{n}\n", n % 97))
        .collect();
    fs::write(&path, uris).unwrap();
    let mut input = input(&[path]);
    let check = |progress: &waypost_io::Progress, what: &str| {
        let last = progress.snapshot();
        assert_eq!(last.phase.name(), "writing", "{what}");
        assert_eq!(last.total, Some(last.done), "{what}");
        assert!(last.done > 5_000, "{what}");
    };
    let out = options(Some(folder.path()), &Policy::ALL);
    profile::build(&input, &out, None).unwrap();
    check(&input.progress, "profile");
    input.progress = waypost_io::Progress::new();
    let map = folder.path().join("map.ukvs");
    waypost_summary::map::build(&input, &Archive::default(), None, &map).unwrap();
    check(&input.progress, "map");
    for kind in filter::Kind::ALL {
        let recipe = filter::Recipe {
            kind,
            ..filter::Recipe::default()
        };
        let given = filter::Input::new(&input.sources);
        filter::build(given, &recipe, &folder.path().join("filter")).unwrap();
        check(&recipe.progress, &kind.to_string());
    }
}
