//! Filters as whole files: nothing held is ever missing, the same holdings give the same bytes, and
//! damage is detected.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use waypost_io::Source;
use waypost_summary::filter::check::{check, check_holdings};
use waypost_summary::filter::{
    self, Budget, BuildReport, Filter, Hasher, Input, Keyer, Kind, Metadata, Recipe, Secret,
};
use waypost_summary::{Answer, Lookup, LookupBuffer, Presence, Summary};
use waypost_surt::{Dialect, Policy};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

fn secret() -> Secret {
    Secret::parse("000102030405060708090a0b0c0d0e0f").unwrap()
}

fn recipe(kind: Kind, bits: Option<f64>) -> Recipe {
    Recipe {
        kind,
        budget: bits.map_or(Budget::default(), Budget::Bits),
        ..Recipe::default()
    }
}

fn build_from(
    sources: &[PathBuf],
    recipe: &Recipe,
    change: impl FnOnce(&mut Input<'_>),
    out: &Path,
) -> BuildReport {
    let sources: Vec<Source> = sources.iter().map(Source::new).collect();
    let mut input = Input::new(&sources);
    change(&mut input);
    filter::build(input, recipe, out).unwrap().0
}

fn uris(count: u64, site: &str) -> Vec<String> {
    (0..count)
        .map(|n| format!("http://www.{site}.org/a/{n}?x={}", n % 7))
        .collect()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn the_same_holdings_give_the_same_bytes_whatever_the_order_the_input_and_the_memory() {
    let place = Place::new();
    let mut lines = uris(30_000, "example");
    let sorted = place.write("a.txt", lines.join("\n"));
    let mut cdxj: Vec<String> = lines
        .iter()
        .flat_map(|uri| {
            let mut surt = Vec::new();
            waypost_surt::Canonicalizer::new(Default::default())
                .canonicalize(uri.as_bytes(), &mut surt)
                .unwrap();
            let surt = String::from_utf8(surt).unwrap();
            ["2004", "2005"].map(|year| format!("{surt} {year}0102030405 {{\"url\": \"{uri}\"}}"))
        })
        .collect();
    cdxj.sort();
    let cdxj = place.write("a.cdxj", cdxj.join("\n"));
    lines.reverse();
    let (half, rest) = lines.split_at(10_000);
    let halves = [
        place.write("b.txt", half.join("\r\n")),
        place.write("c.txt", rest.join("\n") + "\n"),
        sorted.clone(),
    ];
    for kind in Kind::ALL {
        // A date is taken from captures and a list has none, so both are given one.
        let mut recipe = recipe(kind, None);
        recipe.metadata.add("date", "2021").unwrap();
        recipe.metadata.add("coverage", "all").unwrap();
        build_from(
            std::slice::from_ref(&sorted),
            &recipe,
            |_| {},
            &place.path("1"),
        );
        build_from(
            &halves,
            &recipe,
            |input| input.resources.memory = 0,
            &place.path("2"),
        );
        build_from(
            std::slice::from_ref(&cdxj),
            &recipe,
            |input| input.resources.memory = 100_000,
            &place.path("3"),
        );
        let small = Recipe {
            resources: recipe.resources.with_memory(100_000),
            ..recipe.clone()
        };
        rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap()
            .install(|| build_from(&halves, &small, |_| {}, &place.path("4")));
        for other in ["2", "3", "4"] {
            assert!(
                bytes(&place.path("1")) == bytes(&place.path(other)),
                "{kind} {other}"
            );
        }
    }
}

/// URIs, some unusual, some SURTs, some invalid.
fn any_uri() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "https?://[a-z]{1,6}\\.(com|org|co\\.uk)(:[0-9]{2,4})?/[a-zA-Z0-9/%._-]{0,12}(\\?[a-z]=[0-9]{1,3}(&[a-z]=[a-z])?)?",
        1 => "[a-z]{2},[a-z]{1,8}\\)/[a-z/]{0,10}",
        1 => "[^\n\r#]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_held_is_ever_called_absent(
        list in proptest::collection::vec(any_uri(), 0..300),
        kind in prop_oneof![Just(Kind::Ribbon), Just(Kind::Bloom), Just(Kind::Hashes)],
        width in 1.0f64..=32.0,
        policy in prop_oneof![Just("URIR"), Just("HxPx"), Just("H3P1"), Just("DSub")],
        keyed in any::<bool>(),
    ) {
        let place = Place::new();
        let path = place.write("list", list.join("\n"));
        let hasher = Hasher::new(keyed.then(secret));
        let policy: Policy = policy.parse().unwrap();
        // A list of unusual lines can look like an index or a summary; a valid URI in front
        // prevents that.
        let path = {
            let text = std::fs::read(&path).unwrap();
            place.write("list", [b"http://first.example/\n".repeat(40), text].concat())
        };
        let sources = [Source::new(&path)];
        let input = Input { hasher, policy, ..Input::new(&sources) };
        let built = filter::build(input, &recipe(kind, (kind != Kind::Hashes).then_some(width)), &place.path("f"));
        let (made, _) = built.unwrap();
        let mut filter = Filter::open(&place.path("f")).unwrap();
        let ranged = Filter::open_by_range(&place.path("f")).unwrap();
        prop_assert_eq!(filter.head(), &made.head);
        prop_assert_eq!(filter.length(), made.bytes);
        if keyed {
            prop_assert!(filter.contains(0).is_ok() && Keyer::of(&filter).is_err());
            filter = filter.with_secret(secret()).unwrap();
        }
        let mut keyer = Keyer::of(&filter).unwrap();
        let mut hashes = BTreeSet::new();
        for uri in list.iter().map(|uri| uri.as_bytes().trim_ascii()).chain([&b"http://first.example/"[..]]) {
            if uri.is_empty() || uri.starts_with(b"#") {
                continue;
            }
            if let Ok(hash) = keyer.hash(uri) {
                prop_assert!(filter.contains(hash).unwrap());
                prop_assert!(ranged.contains(hash).unwrap());
                hashes.insert(hash);
            }
        }
        prop_assert_eq!(made.head.count, hashes.len() as u64);
        let mut answers = Vec::new();
        filter.contains_all(&hashes.into_iter().collect::<Vec<_>>(), &mut answers).unwrap();
        prop_assert!(answers.into_iter().all(|present| present));
    }
}

#[test]
fn false_positives_are_within_three_sigma_for_every_kind_and_width() {
    let place = Place::new();
    let list = place.write("list", uris(60_000, "example").join("\n"));
    let ribbon = (2..=32).map(|halves| (Kind::Ribbon, f64::from(halves) / 2.0));
    let bloom = [4.0, 8.0, 10.94, 12.0, 16.0, 24.0].map(|bits| (Kind::Bloom, bits));
    for (kind, bits) in ribbon.chain(bloom) {
        build_from(
            std::slice::from_ref(&list),
            &recipe(kind, Some(bits)),
            |_| {},
            &place.path("f"),
        );
        let filter = Filter::open(&place.path("f")).unwrap();
        let sources = [Source::new(&list)];
        let found = check_holdings(&filter, Input::new(&sources), 400_000).unwrap();
        assert_eq!((found.keys, found.missing), (60_000, 0));
        let sigmas = found.sigmas(filter.head().rate);
        assert!(sigmas.abs() <= 3.0, "{kind} {bits}: {sigmas}, {found:?}");
    }
    build_from(
        std::slice::from_ref(&list),
        &recipe(Kind::Hashes, None),
        |_| {},
        &place.path("f"),
    );
    let sources = [Source::new(&list)];
    let found = check_holdings(
        &Filter::open(&place.path("f")).unwrap(),
        Input::new(&sources),
        400_000,
    )
    .unwrap();
    assert_eq!((found.missing, found.false_positives), (0, 0));
}

#[test]
fn any_byte_that_changes_and_any_end_that_is_missing_is_found() {
    let place = Place::new();
    let list = place.write("list", uris(50, "example").join("\n"));
    for kind in Kind::ALL {
        let mut recipe = recipe(kind, None);
        recipe.metadata.add("title", "A filter").unwrap();
        build_from(
            std::slice::from_ref(&list),
            &recipe,
            |_| {},
            &place.path("f"),
        );
        let whole = bytes(&place.path("f"));
        assert!(check(&Filter::from_bytes(whole.clone()).unwrap()).is_sound());
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            let refused = match Filter::from_bytes(changed) {
                Err(_) => true,
                Ok(filter) => {
                    // A lookup in the damaged shard is also an error.
                    let mut keyer = Keyer::of(&filter).unwrap();
                    let all = uris(50, "example").iter().all(|uri| {
                        filter
                            .contains(keyer.hash(uri.as_bytes()).unwrap())
                            .is_err()
                    });
                    all && !check(&filter).is_sound()
                }
            };
            assert!(refused, "{kind}: byte {at}");
        }
        for end in 0..whole.len() {
            assert!(
                Filter::from_bytes(whole[..end].to_vec()).is_err(),
                "{kind}: {end} bytes"
            );
            if end % 37 == 0 {
                place.write("cut", &whole[..end]);
                assert!(Filter::open(&place.path("cut")).is_err());
                assert!(Filter::open_by_range(&place.path("cut")).is_err());
            }
        }
        assert!(Filter::from_bytes([&whole[..], b"x"].concat()).is_err());
    }
}

#[test]
fn zeros_between_the_shards_of_a_large_filter_are_checked() {
    let place = Place::new();
    let list = place.write("list", uris(150_000, "example").join("\n"));
    let mut recipe = recipe(Kind::Hashes, None);
    recipe.metadata.add("title", "Large").unwrap();
    build_from(&[list], &recipe, |_| {}, &place.path("f"));
    let whole = bytes(&place.path("f"));
    assert!(check(&Filter::from_bytes(whole.clone()).unwrap()).is_sound());
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let metadata = number(56) & 0xffff_ffff;
    let shards = number(60) & 0xffff_ffff;
    let mut end = 128 + metadata + 32 * shards;
    let mut gaps = 0;
    for shard in 0..shards {
        let entry = 128 + metadata + 32 * shard;
        let start = number(entry);
        for at in end..start {
            gaps += 1;
            let mut changed = whole.clone();
            changed[at] = 1;
            assert!(!check(&Filter::from_bytes(changed.clone()).unwrap()).is_sound());
            place.write("changed", changed);
            assert!(!check(&Filter::open_by_range(&place.path("changed")).unwrap()).is_sound());
        }
        end = start + 16 * (number(entry + 16) & 0xffff_ffff);
    }
    assert!(gaps > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_filter_is_larger_or_more_often_wrong_than_was_asked(
        keys in 0u64..4_000,
        most in 100u64..12_000,
        rate in prop_oneof![0.000_1f64..0.9, (1i32..14).prop_map(|width| 0.5f64.powi(width))],
        title in "[a-z]{1,300}",
    ) {
        let place = Place::new();
        let list = place.write("list", uris(keys, "example").join("\n"));
        for kind in [Kind::Ribbon, Kind::Bloom] {
            let mut recipe = recipe(kind, None);
            recipe.metadata.add("title", &title).unwrap();
            recipe.budget = Budget::Bytes(most);
            let out = place.path("f");
            let sources = [Source::new(&list)];
            match filter::build(Input::new(&sources), &recipe, &out) {
                Ok((made, _)) => {
                    prop_assert_eq!(made.bytes, bytes(&out).len() as u64);
                    prop_assert!(made.bytes <= most, "{}: {} of {}", kind, made.bytes, most);
                }
                Err(error) => prop_assert!(
                    most < 500 + title.len() as u64 + keys / 4,
                    "{}: {} bytes for {}: {}", kind, most, keys, error
                ),
            }
            recipe.budget = Budget::Rate(rate);
            let made = build_from(std::slice::from_ref(&list), &recipe, |_| {}, &out);
            prop_assert!(made.head.rate <= rate, "{}: {} for {}", kind, made.head.rate, rate);
            prop_assert_eq!(Filter::open(&out).unwrap().head().rate, made.head.rate);
        }
    }
}

#[test]
fn merging_and_taking_out_give_what_building_gives() {
    let place = Place::new();
    let (a, b) = (uris(3_000, "example"), uris(4_000, "example.co.uk"));
    let list_a = place.write("a", a.join("\n"));
    let list_b = place.write("b", [&a[..100], &b[..]].concat().join("\n"));
    let both = place.write("both", [&a[..], &b[..]].concat().join("\n"));
    let takedown = place.write(
        "takedown",
        [&b[..], &["http://not.held/".to_owned()]]
            .concat()
            .join("\n"),
    );
    let hashes = recipe(Kind::Hashes, None);
    for (list, name) in [(&list_a, "a.h"), (&list_b, "b.h"), (&both, "both.h")] {
        build_from(
            std::slice::from_ref(list),
            &hashes,
            |_| {},
            &place.path(name),
        );
    }
    let open = |name: &str| Filter::open(&place.path(name)).unwrap();
    filter::merge(&[open("a.h"), open("b.h")], &hashes, &place.path("m.h")).unwrap();
    assert!(bytes(&place.path("m.h")) == bytes(&place.path("both.h")));
    for kind in [Kind::Ribbon, Kind::Bloom] {
        filter::merge(
            &[open("m.h")],
            &recipe(kind, Some(9.0)),
            &place.path("remade"),
        )
        .unwrap();
        build_from(
            std::slice::from_ref(&both),
            &recipe(kind, Some(9.0)),
            |_| {},
            &place.path("direct"),
        );
        assert!(
            bytes(&place.path("remade")) == bytes(&place.path("direct")),
            "{kind}"
        );
    }
    let sources = [Source::new(&takedown)];
    let (made, _, gone) = filter::exclude(
        &open("m.h"),
        Input::new(&sources),
        &hashes,
        &place.path("left.h"),
    )
    .unwrap();
    assert_eq!((made.head.count, gone), (3_000, 4_000));
    assert!(bytes(&place.path("left.h")) == bytes(&place.path("a.h")));
}

#[test]
fn bloom_filters_are_added_to_and_joined_without_loss() {
    let place = Place::new();
    let (a, b) = (uris(3_000, "example"), uris(2_000, "example.co.uk"));
    let list_a = place.write("a", a.join("\n"));
    let list_b = place.write("b", b.join("\n"));
    let both = place.write("both", [&b[..], &a[..]].concat().join("\n"));
    let recipe = Recipe {
        capacity: 5_000,
        ..recipe(Kind::Bloom, Some(12.0))
    };
    for (list, name) in [(&list_a, "a.f"), (&list_b, "b.f"), (&both, "both.f")] {
        build_from(
            std::slice::from_ref(list),
            &recipe,
            |_| {},
            &place.path(name),
        );
    }
    let open = |name: &str| Filter::open(&place.path(name)).unwrap();
    let sources = [Source::new(&list_b)];
    let (added, _) = filter::add(
        &open("a.f"),
        Input::new(&sources),
        &recipe,
        &place.path("added.f"),
    )
    .unwrap();
    let joined = filter::merge(
        &[open("a.f"), open("b.f")],
        &recipe,
        &place.path("joined.f"),
    )
    .unwrap();
    // The bits are those of a build of both; only the information about the number of keys differs.
    let shards = |name: &str| bytes(&place.path(name))[160..].to_vec();
    assert!(shards("added.f") == shards("both.f") && shards("joined.f") == shards("both.f"));
    assert_eq!(open("both.f").head().rate, joined.head.rate);
    assert!(
        (4_950..=5_000).contains(&added.head.count),
        "{}",
        added.head.count
    );
    assert!((4_800..=5_000).contains(&joined.head.count) && joined.head.estimated);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let place = Place::new();
    let list = place.write("list", uris(100, "example").join("\n"));
    let lists = std::slice::from_ref(&list);
    let hashes = recipe(Kind::Hashes, None);
    build_from(lists, &hashes, |_| {}, &place.path("plain"));
    build_from(
        lists,
        &hashes,
        |input| input.hasher = Hasher::Keyed(secret()),
        &place.path("keyed"),
    );
    build_from(
        lists,
        &hashes,
        |input| input.policy = "H3P0".parse().unwrap(),
        &place.path("h3p0"),
    );
    build_from(
        lists,
        &recipe(Kind::Ribbon, None),
        |_| {},
        &place.path("ribbon"),
    );
    build_from(
        lists,
        &recipe(Kind::Bloom, Some(8.0)),
        |_| {},
        &place.path("bloom8"),
    );
    build_from(
        lists,
        &recipe(Kind::Bloom, Some(80.0)),
        |_| {},
        &place.path("bloom80"),
    );
    let open = |name: &str| Filter::open(&place.path(name)).unwrap();
    for (a, b, kind) in [
        ("plain", "keyed", Kind::Hashes),
        ("plain", "h3p0", Kind::Hashes),
        ("plain", "bloom8", Kind::Hashes),
        ("bloom8", "bloom80", Kind::Bloom),
        ("ribbon", "ribbon", Kind::Ribbon),
        ("bloom8", "bloom8", Kind::Ribbon),
    ] {
        assert!(
            filter::merge(&[open(a), open(b)], &recipe(kind, None), &place.path("out")).is_err(),
            "{a} {b}"
        );
    }
    let sources = [Source::new(&list)];
    assert!(
        filter::add(
            &open("ribbon"),
            Input::new(&sources),
            &Recipe::default(),
            &place.path("out")
        )
        .is_err()
    );
    assert!(
        filter::exclude(
            &open("ribbon"),
            Input::new(&sources),
            &Recipe::default(),
            &place.path("out")
        )
        .is_err()
    );
    assert!(
        open("keyed")
            .with_secret(Secret::parse(&"0".repeat(32)).unwrap())
            .is_err()
    );
    assert!(open("plain").with_secret(secret()).is_err());
    // A filter can't be the input of a build, and a failed run leaves no file.
    let sources = [Source::new(place.path("plain"))];
    assert!(filter::build(Input::new(&sources), &Recipe::default(), &place.path("out")).is_err());
    assert!(!place.path("out").exists());
}

#[test]
fn nothing_at_all_is_a_filter_that_holds_nothing() {
    let place = Place::new();
    let list = place.write("list", "");
    for kind in Kind::ALL {
        let made = build_from(
            std::slice::from_ref(&list),
            &recipe(kind, None),
            |_| {},
            &place.path("f"),
        );
        assert!(made.bytes < 300, "{kind}: {}", made.bytes);
        let filter = Filter::open(&place.path("f")).unwrap();
        assert!(!filter.contains(17).unwrap() && check(&filter).is_sound());
        assert_eq!(filter.head().rate, 0.0);
    }
}

#[test]
fn small_filters_stay_small_and_a_budget_of_bytes_is_kept() {
    let place = Place::new();
    let list = place.write("list", uris(10_000, "example").join("\n"));
    for most in [6_000, 13_000, 20_000] {
        for kind in [Kind::Ribbon, Kind::Bloom] {
            let recipe = Recipe {
                budget: Budget::Bytes(most),
                ..recipe(kind, None)
            };
            let made = build_from(
                std::slice::from_ref(&list),
                &recipe,
                |_| {},
                &place.path("f"),
            );
            assert!(
                made.bytes <= most && made.bytes * 10 > most * 8,
                "{kind}: {} of {most}",
                made.bytes
            );
            assert_eq!(made.bytes, bytes(&place.path("f")).len() as u64);
        }
    }
}

#[test]
fn a_filter_is_a_summary() {
    let place = Place::new();
    let list = place.write("list", uris(100, "example").join("\n"));
    build_from(
        std::slice::from_ref(&list),
        &recipe(Kind::Ribbon, Some(16.0)),
        |input| input.policy = "HxPx".parse().unwrap(),
        &place.path("f"),
    );
    let filter = Filter::open(&place.path("f")).unwrap();
    let surts = [&b"org,example)/a/7?y"[..], b"org,example)/b"];
    let mut batch = LookupBuffer::new(Dialect::Ia);
    let batch = batch.fill(&surts);
    let lookups: Vec<Lookup<'_>> = batch.valid().collect();
    let Answer::Present(found) = filter.lookup(&lookups[0]).unwrap() else {
        panic!("held, but called absent");
    };
    assert_eq!(found.key.as_deref(), Some(&b"org,example)/a/7"[..]));
    let all = filter.lookup_all(&lookups).unwrap();
    assert_eq!(
        all.iter().map(Answer::presence).collect::<Vec<_>>(),
        [Presence::Present, Presence::Absent]
    );
    assert_eq!(
        (filter.size().keys, filter.size().bytes),
        (100, filter.length())
    );
}

#[test]
fn every_kind_is_still_written_as_its_golden_file_and_read_from_it() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let place = Place::new();
    // Enough for two buckets, a short last block, and blocks of different widths.
    let held = uris(1_100, "example");
    let list = place.write("list", held.join("\n"));
    let mut metadata = Metadata::default();
    for (element, value) in [
        ("title", "Golden"),
        ("publisher", "Waypost"),
        ("date", "2021-12-15"),
    ] {
        metadata.add(element, value).unwrap();
    }
    let kinds = [
        ("ribbon-8.filter", Kind::Ribbon, Some(8.0), false),
        ("ribbon-2.5-keyed.filter", Kind::Ribbon, Some(2.5), true),
        ("bloom.filter", Kind::Bloom, Some(12.0), false),
        ("hashes.filter", Kind::Hashes, None, false),
    ];
    for (name, kind, bits, keyed) in kinds {
        let recipe = Recipe {
            metadata: metadata.clone(),
            ..recipe(kind, bits)
        };
        let hasher = Hasher::new(keyed.then(secret));
        build_from(
            std::slice::from_ref(&list),
            &recipe,
            |input| input.hasher = hasher,
            &place.path(name),
        );
        if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
            std::fs::copy(place.path(name), golden.join(name)).unwrap();
        }
        assert!(
            bytes(&place.path(name)) == bytes(&golden.join(name)),
            "{name}"
        );
        let mut filter = Filter::open(&golden.join(name)).unwrap();
        if keyed {
            filter = filter.with_secret(secret()).unwrap();
        }
        let mut keyer = Keyer::of(&filter).unwrap();
        for uri in &held {
            assert!(
                filter
                    .contains(keyer.hash(uri.as_bytes()).unwrap())
                    .unwrap(),
                "{name}"
            );
        }
        assert_eq!(filter.metadata().get("title"), ["Golden"]);
    }
}

#[test]
fn bad_lines_are_counted_with_the_first_of_them_or_end_a_strict_run() {
    let place = Place::new();
    let mut lines = uris(5_000, "example");
    lines.insert(4_000, "http://a b:99999/".to_owned());
    lines.insert(2_000, "http://example.com:99999/".to_owned());
    lines.insert(10, "# a comment".to_owned());
    let list = place.write("list", lines.join("\n"));
    let sources = [Source::new(&list)];
    let (made, reading) =
        filter::build(Input::new(&sources), &Recipe::default(), &place.path("f")).unwrap();
    assert_eq!(made.head.count + reading.bad_uris.count, 5_002);
    assert!(reading.bad_uris.count >= 1);
    assert!(
        reading.bad_uris.examples[0].contains("line 2,002"),
        "{:?}",
        reading.bad_uris.examples
    );
    let strict = Input {
        strict: true,
        ..Input::new(&sources)
    };
    let error = filter::build(strict, &Recipe::default(), &place.path("g")).unwrap_err();
    assert!(error.to_string().contains("line 2,002"), "{error}");
    assert!(!place.path("g").exists());
}
