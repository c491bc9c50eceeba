//! Properties of all maps: nothing held is lost, and least cost is least.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use waypost_io::{Phase, Progress, Resources, Snapshot, Source};
use waypost_surt::{Key, Reach, Surt};

use super::compact::{Budget, LeastCost, Rule, SourceMap, compact};
use super::fit;
use super::lookup::Map;
use super::solve::beside::Beside;
use super::solve::papers::{Papers, PowerLaw};
use super::solve::prior::Prior;
use super::solve::sites::Sites;
use super::solve::top::Top;
use super::solve::{Expects, Gather, RowPrice, STATES, Terms, VoidPrice, assess, solve, states};
use super::tree::pass::walk;
use super::tree::rows::{Order, Rows};
use super::tree::sample::Sample;
use super::write::{Counting, Style};
use crate::Summary;

fn given(path: &Path) -> SourceMap {
    SourceMap::open(&Source::new(path.to_owned()), &Resources::default()).unwrap()
}

fn write_map(folder: &TempDir, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A folder in memory, if available: thousands of maps are written, and each of them is synced.
fn quick_folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

fn compacted(text: &str, rule: &Rule, style: Style) -> String {
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", text);
    let out = folder.path().join("b.ukvs");
    compact(&mut given(&path), rule, style, &out, false).unwrap();
    String::from_utf8(std::fs::read(out).unwrap()).unwrap()
}

fn papers(wh: f64, wp: f64) -> Papers {
    Papers {
        host_weight: wh,
        path_weight: wp,
        ..Papers::default()
    }
}

fn by_papers(text: &str, papers: Papers) -> String {
    compacted(text, &Rule::Papers(papers), Style::Reference)
}

fn least(budget: Budget, sample: Option<Sample>, voids: bool) -> Rule {
    Rule::LeastCost(Box::new(LeastCost {
        budget,
        sample,
        voids,
        prior: None,
        top: None,
    }))
}

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('!')).collect()
}

fn opened(text: &str) -> (TempDir, Map) {
    let folder = quick_folder();
    let path = write_map(&folder, "m.ukvs", text);
    let map = Map::open(&path, &Resources::default()).unwrap();
    (folder, map)
}

fn is_present(map: &Map, surt: &str) -> bool {
    map.find(&Surt::new(surt.as_bytes()), None)
        .is_some_and(|found| !found.frequency.is_void())
}

/// The rows of a map by key, without the lookup table: voids are false.
type Answers = BTreeMap<(Vec<u8>, String), bool>;

fn answers(path: &Path) -> Answers {
    let mut rows = Rows::open(&Source::new(path.to_owned()), Order::Watch).unwrap();
    let mut answers = Answers::new();
    while let Some(row) = rows.next().unwrap() {
        let key = Key::new(&row.key);
        let is = (key.stem().to_vec(), format!("{:?}", key.reach()));
        let before = answers.insert(is, !row.frequency.is_void());
        assert!(before.is_none(), "{key} comes twice");
    }
    assert!(rows.untidy().is_none(), "{:?}", rows.untidy());
    answers
}

/// The answer of the first candidate that has a row.
fn is_present_in(answers: &Answers, surt: &str) -> bool {
    Surt::new(surt.as_bytes())
        .candidates()
        .find_map(|key| answers.get(&(key.stem().to_vec(), format!("{:?}", key.reach()))))
        .copied()
        .unwrap_or(false)
}

mod faults_of_the_reference_tool {
    use super::*;

    #[test]
    fn b1_keys_behind_the_last_line_are_absent_and_end_nothing() {
        let (_folder, map) = opened("com,a)/ 1\n");
        assert!(is_present(&map, "com,a)/"));
        assert!(!is_present(&map, "zz,z)/"));
        let (_folder, empty) = opened("");
        assert!(!is_present(&empty, "com,a)/"));
    }

    #[test]
    fn b2_the_first_line_is_found() {
        let (_folder, map) = opened("br,com,* 5\ncom,a)/ 1\n");
        assert!(is_present(&map, "com,a)/"));
        assert!(is_present(&map, "br,com,x)/y"));
    }

    #[test]
    fn b3_a_host_below_a_rolled_one_leaves_no_stale_lines() {
        let mut text = String::new();
        for i in 0..30 {
            text += &format!("com,a)/x{i:02} 1\n");
        }
        for i in 0..20 {
            text += &format!("com,a,b,h{i:02}) 1\n");
        }
        text += "com,b) 1\n";
        assert_eq!(
            by_papers(&text, papers(1.0, 1.0)),
            "com,a)/* 30\ncom,a,b,* 20\ncom,b) 1\n"
        );
    }

    #[test]
    fn b4_children_are_counted_once() {
        let mut keys = Vec::new();
        for i in 0..10 {
            keys.extend([
                format!("com,a)/s{i}"),
                format!("com,a)/s{i}-1"),
                format!("com,a)/s{i}/1"),
            ]);
        }
        keys.sort();
        let text: String = keys.iter().map(|key| format!("{key} 1\n")).collect();
        assert_eq!(
            by_papers(&text, papers(1.0, 1.0)),
            text,
            "20 children are fewer than 24.5"
        );
    }

    #[test]
    fn b5_queries_and_slashes_leave_no_disorder_and_no_key_twice() {
        let text = "com,a)/a 1\ncom,a)/a-b 1\ncom,a)/a/ 1\ncom,a)/a/b 1\ncom,a)/a?x 1\n";
        let out = by_papers(text, papers(f64::INFINITY, f64::INFINITY));
        assert_eq!(out, "com,a)/a 3\ncom,a)/a-b 1\ncom,a)/a/b 1\n");
    }

    #[test]
    fn b6_double_slashes_skip_no_candidate() {
        let (_folder, map) = opened("com,example)/* 5\n");
        assert!(is_present(&map, "com,example)//a"));
        let (_folder, map) = opened("com,example,* 5\n");
        assert!(is_present(&map, "com,example)//a//b"));
    }

    #[test]
    fn b7_single_labels_and_addresses_are_kept() {
        let text = "127.0.0.1) 1\n127.0.0.1)/a 1\nlocalhost)/a 2\nurn:x 3\n";
        assert_eq!(by_papers(text, papers(1.0, 1.0)), text);
        let (_folder, map) = opened("127.0.0.1)/* 1\nlocalhost)/* 2\n");
        assert!(is_present(&map, "127.0.0.1)/b"));
        assert!(is_present(&map, "localhost)/a/b"));
    }

    #[test]
    fn b8_public_suffixes_can_be_kept() {
        let text: String = (10..21).map(|i| format!("uk,co,d{i}) 1\n")).collect();
        assert_eq!(
            by_papers(&text, papers(1.0, 1.0)),
            "uk,co,* 11\n",
            "as published"
        );
        let keep = Papers {
            keep_suffixes: true,
            ..papers(1.0, 1.0)
        };
        assert_eq!(by_papers(&text, keep), text);
    }

    #[test]
    fn b9_headers_are_kept() {
        let out = compacted(
            "!meta {\"name\": \"A\"}\ncom,a)/ 1\n",
            &Rule::Papers(papers(1.0, 1.0)),
            Style::Published,
        );
        assert!(out.starts_with("!meta {\"name\": \"A\""), "{out}");
        assert!(out.ends_with("com,a)/ 1\n"));
    }

    #[test]
    fn b10_and_b11_a_bad_line_is_an_error_with_its_place_and_leaves_no_file() {
        let folder = TempDir::new().unwrap();
        for (text, line) in [
            ("com,a)/ 1\ncom,b)/ -5\n", 2),
            ("com,a)/\n", 1),
            ("com,a)/ 1\n\0\u{1}\u{2}\n", 2),
        ] {
            let path = write_map(&folder, "bad.ukvs", text);
            let out = folder.path().join("out.ukvs");
            let error = compact(
                &mut given(&path),
                &Rule::Papers(papers(1.0, 1.0)),
                Style::Published,
                &out,
                false,
            )
            .unwrap_err();
            assert_eq!(error.place().line, Some(line), "{error}");
            assert!(!out.exists());
        }
    }
}

#[test]
fn examples_of_the_papers_figures_answer_as_meant() {
    let figure = "!context [\"http://oduwsdl.github.io/contexts/ukvs\"]\n\
        !id {uri: \"http://archive.example.org/\"}\n\
        !fields {keys: [\"surt\"], values: [\"frequency\"]}\n\
        !meta {type: \"MementoMap\", name: \"A Test Web Archive\", year: 1996}\n\
        * 54321/20000\ncom,* 10000+\ncom,twitter)/ 250\ncom,twitter)/* 100\norg,arxiv)/ 100\norg,arxiv)/* 2500~/900\norg,arxiv)/pdf/* 0\nuk,co,bbc)/images/* 300+/20-\n";
    let (_folder, map) = opened(figure);
    let key = |surt: &str| {
        String::from_utf8(
            map.find(&Surt::new(surt.as_bytes()), None)
                .unwrap()
                .key
                .into_owned(),
        )
        .unwrap()
    };
    assert_eq!(key("com,twitter)/"), "com,twitter)/");
    assert_eq!(key("com,twitter)/a"), "com,twitter)/*");
    assert_eq!(key("com,other)/a"), "com,*");
    assert_eq!(key("net,other)/a"), "*");
    assert_eq!(key("org,arxiv)/pdf/1"), "org,arxiv)/pdf/*");
    assert!(
        !is_present(&map, "org,arxiv)/pdf/1"),
        "a void wins over the wildcard above it"
    );
    assert!(is_present(&map, "org,arxiv)/abs/1"));

    let dated = "!fields {keys: [\"surt\", \"datetime\"], values: [\"frequency\"]}\n\
        com,cnn)/* 2008 20\ncom,cnn)/* 2010:2012 30\norg,x)/ : 1\n";
    let (_folder, map) = opened(dated);
    let at = |surt: &str, time: &str| {
        let span = super::Span::parse(time.as_bytes()).unwrap();
        map.find(&Surt::new(surt.as_bytes()), Some(&span))
            .map(|found| found.frequency.to_string())
    };
    assert_eq!(at("com,cnn)/a", "2008").as_deref(), Some("20"));
    assert_eq!(at("com,cnn)/a", "200805").as_deref(), Some("20"));
    assert_eq!(at("com,cnn)/a", "2009"), None);
    assert_eq!(at("com,cnn)/a", "2011").as_deref(), Some("30"));
    assert_eq!(at("com,cnn)/a", "2008:2011").as_deref(), Some("50"));
    assert_eq!(at("org,x)/", "1999").as_deref(), Some("1"));
}

#[test]
fn both_spellings_of_the_root_are_found_and_the_order_of_rows_does_not_matter() {
    for text in ["com,x) 1\n", "com,x)/ 1\n", "org,a)/ 2\ncom,x) 1\n"] {
        let (_folder, map) = opened(text);
        assert!(is_present(&map, "com,x)/"), "{text}");
        assert!(is_present(&map, "com,x)/?q"), "{text}");
        assert!(!is_present(&map, "com,x)/a"), "{text}");
    }
}

#[test]
fn voids_that_the_map_came_with_are_never_swallowed() {
    let mut text = String::new();
    for i in 10..60 {
        text += &format!("com,a)/b{i}/x 1\n");
    }
    text += "com,a)/c/* 0\ncom,a)/c/held 2\ncom,a)/d 0\n";
    for rule in [
        Rule::Papers(papers(0.0, 0.0)),
        least(Budget::Lambda(1e-9), None, false),
        least(Budget::Keys(4), None, false),
    ] {
        let out = compacted(&text, &rule, Style::Published);
        let (_folder, map) = opened(&out);
        assert!(is_present(&map, "com,a)/b10/x"));
        assert!(!is_present(&map, "com,a)/c/other"), "{out}");
        assert!(is_present(&map, "com,a)/c/held"), "{out}");
        assert!(!is_present(&map, "com,a)/d"), "{out}");
    }
}

#[test]
fn the_wildcard_of_the_empty_label_is_not_the_wildcard_of_everything() {
    let rules = [
        Rule::Papers(papers(0.0, 0.0)),
        least(Budget::Lambda(0.0), None, false),
        least(Budget::Lambda(5.0), None, false),
        least(Budget::Keys(1), None, false),
    ];
    for rule in &rules {
        let out = compacted("* 600/600\n,* 0\n", rule, Style::Published);
        assert_eq!(rows(&out), ["* 600/600", ",* 0"]);
        let out = compacted("* 0\n,* 600/600\n", rule, Style::Published);
        assert_eq!(rows(&out), ["* 0", ",* 600/600"]);
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", ",* 2/2\n::1)/a 1/1\ncom,a)/ 1/1\n");
        let small = folder.path().join("b.ukvs");
        compact(&mut given(&path), rule, Style::Published, &small, false).unwrap();
        let answers = answers(&small);
        for held in ["::1)/a", ")/x", ",a)/", "::2)/b", "com,a)/"] {
            assert!(is_present_in(&answers, held), "{held}: {answers:?}");
        }
    }
}

#[test]
fn rows_that_wait_for_one_wildcard_are_all_measured() {
    let mut text = String::from("com,a)/* 5/5\n");
    for n in 0..190_000 {
        text += &format!("com,a)/some/rather/long/path/of/a/page/{n:06} 0\n");
    }
    assert!(text.len() > 8 << 20);
    let folder = TempDir::new().unwrap();
    let path = write_map(&folder, "a.ukvs", &text);
    let out = folder.path().join("b.ukvs");
    let by = |bytes: u64| {
        let rule = least(Budget::Bytes(bytes), None, false);
        compact(&mut given(&path), &rule, Style::Published, &out, false)
    };
    let error = by(100_000).unwrap_err().to_string();
    assert!(!out.exists());
    let smallest = error.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(smallest > 100_000, "{error}");
    let report = by(smallest + 100).unwrap();
    let size = Map::open(&out, &Resources::default())
        .unwrap()
        .size()
        .gzip_bytes;
    assert!(size <= smallest + 100, "{size}");
    assert!(
        report.gzipped.unwrap().abs_diff(size) < 100,
        "{size} is not {:?}",
        report.gzipped
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn more_bytes_never_give_a_worse_plain_map_and_no_budget_is_exceeded(
        hosts in prop::collection::vec(1..60u32, 1..40),
        asked in prop::collection::btree_map(places(), 1..4u32, 0..12),
    ) {
        let mut text = BTreeSet::new();
        for (host, pages) in hosts.iter().enumerate() {
            text.extend((0..*pages).map(|page| format!("com,h{host})/{}/{page}", page % 3)));
        }
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", &map_text(&text));
        let out = folder.path().join("b.ukvs");
        let mut before = f64::INFINITY;
        for allowed in [50u64, 150, 250, 400, 700, 1_500, 5_000, 50_000] {
            let sample = (!asked.is_empty()).then(|| sample_of(&asked, true));
            let rule = least(Budget::Bytes(allowed), sample, false);
            match compact(&mut given(&path), &rule, Style::Published, &out, false) {
                Ok(report) => {
                    let size = Map::open(&out, &Resources::default()).unwrap().size().gzip_bytes;
                    prop_assert!(size <= allowed, "{size} of {allowed}");
                    let wrong = report.false_positives.unwrap();
                    prop_assert!(wrong <= before + 1e-6, "{wrong} at {allowed}, {before} before");
                    before = wrong;
                }
                Err(error) => {
                    prop_assert!(before.is_infinite(), "{allowed}: {error}");
                    prop_assert!(error.to_string().contains("the smallest map takes"), "{error}");
                }
            }
        }
    }
}

#[test]
fn frequencies_add_up_when_rows_partition_and_when_they_accumulate() {
    let text = "!meta {\"wildcards\": \"partition\"}\ncom,a)/ 1/1\ncom,a)/x 2/1\ncom,a)/y/* 30/9\ncom,a)/y/z 4/1\n";
    let out = compacted(
        text,
        &least(Budget::Lambda(0.0), None, false),
        Style::Published,
    );
    assert_eq!(rows(&out), ["com,a)/* 37/12"], "{out}");
    let cumulative = text.replace("partition", "accumulate");
    let out = compacted(
        &cumulative,
        &least(Budget::Lambda(0.0), None, false),
        Style::Published,
    );
    assert_eq!(rows(&out), ["com,a)/* 33/11"], "{out}");
}

/// Small trees: hosts of up to three labels, paths of up to two segments.
fn places() -> impl Strategy<Value = String> {
    ("[ab](,[ab]){0,2}", "(/[ab-]{1,2}){0,2}").prop_map(|(host, path)| {
        if path.is_empty() {
            format!("{host})/")
        } else {
            format!("{host}){path}")
        }
    })
}

/// The same with wildcards and voids. Keys without a host have none.
fn with_given(held: &BTreeSet<String>, given: &BTreeMap<String, u32>) -> String {
    let mut text = map_text(held);
    for (key, frequency) in given.iter().filter(|(key, _)| key.contains(")/")) {
        text += &format!("{key} {frequency}\n");
    }
    let lines: BTreeSet<&str> = text.lines().collect();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn map_text(held: &BTreeSet<String>) -> String {
    let mut out = Vec::new();
    for key in held {
        let frequency = "2/1".parse().unwrap();
        super::tree::row::write(key.as_bytes(), None, &frequency, None, &mut out);
    }
    String::from_utf8(out).unwrap()
}

fn sample_of(asked: &BTreeMap<String, u32>, labelled: bool) -> Sample {
    let places = asked
        .iter()
        .map(|(key, times)| (key.clone().into_bytes(), f64::from(*times), 0.0))
        .collect();
    Sample::of_places(places, labelled, 1)
}

/// The cost of a map by definition: its rows, plus λ for each false positive.
fn cost_of(
    map: &BTreeMap<(String, bool), bool>,
    nodes: &BTreeMap<String, (bool, f64)>,
    lambda: f64,
    void_price: f64,
) -> Option<f64> {
    let mut cost = 0.0;
    for &present in map.values() {
        cost += if present { 1.0 } else { void_price };
    }
    for (place, &(held, asked)) in nodes {
        let surt = Surt::new(place.as_bytes());
        let decided = surt.candidates().find_map(|key| {
            let wild = key.reach() != Reach::Exact;
            map.get(&(String::from_utf8(key.stem().to_vec()).unwrap(), wild))
                .copied()
        });
        match decided {
            Some(true) => cost += lambda * asked,
            _ if held => return None,
            _ => {}
        }
    }
    Some(cost)
}

/// The least cost over all maps, by trying every set of rows at every node.
fn brute(nodes: &BTreeMap<String, (bool, f64)>, lambda: f64, void_price: Option<f64>) -> f64 {
    let mut spots: BTreeSet<(String, bool)> = BTreeSet::new();
    for place in nodes.keys() {
        for key in Surt::new(place.as_bytes()).candidates() {
            let stem = String::from_utf8(key.stem().to_vec()).unwrap();
            let wild = key.reach() != Reach::Exact;
            let root =
                key.reach() == Reach::All || (key.reach() == Reach::Hosts && !stem.contains(','));
            let real = wild || Key::new(stem.as_bytes()) == Key::new(place.as_bytes());
            if !root && real {
                // Hosts and sites are distinguished by their parenthesis.
                spots.insert((stem, wild));
            }
        }
    }
    let spots: Vec<_> = spots.into_iter().collect();
    let choices: u32 = if void_price.is_some() { 3 } else { 2 };
    let mut best = f64::INFINITY;
    for code in 0..u64::from(choices).pow(spots.len() as u32) {
        let mut code = code;
        let mut map = BTreeMap::new();
        for spot in &spots {
            match code % u64::from(choices) {
                1 => {
                    map.insert(spot.clone(), true);
                }
                2 => {
                    map.insert(spot.clone(), false);
                }
                _ => {}
            }
            code /= u64::from(choices);
        }
        if let Some(cost) = cost_of(&map, nodes, lambda, void_price.unwrap_or(1.0)) {
            best = best.min(cost);
        }
    }
    best
}

fn spots(nodes: &BTreeMap<String, (bool, f64)>) -> usize {
    let mut spots = BTreeSet::new();
    for place in nodes.keys() {
        for key in Surt::new(place.as_bytes()).candidates() {
            spots.insert((key.stem().to_vec(), key.reach() == Reach::Exact));
        }
    }
    spots.len()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 200_000, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn least_cost_is_least_of_all_maps(
        held in prop::collection::btree_set(places(), 1..4),
        asked in prop::collection::btree_map(places(), 1..4u32, 0..3),
        lambda in prop::sample::select(vec![0.05, 0.3, 0.45, 0.7, 1.1, 2.3]),
        price in prop::option::of(prop::sample::select(vec![1.0, 1.5])),
    ) {
        let mut nodes: BTreeMap<String, (bool, f64)> = BTreeMap::new();
        for key in &held {
            nodes.entry(key.clone()).or_default().0 = true;
        }
        for (key, times) in &asked {
            nodes.entry(key.clone()).or_default().1 += f64::from(*times);
        }
        let most = if price.is_some() { 11 } else { 16 };
        prop_assume!(spots(&nodes) <= most);
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", &map_text(&held));
        let sample = sample_of(&asked, true);
        let flat = Prior::power(0.0, 1.0);
        let sites = Sites::default();
        let mut gather = Gather::new(&flat, &sites).with_outline(false, folder.path());
        gather.folds = price.is_none();
        walk(&Source::new(path), Some(&sample), &mut gather).unwrap();
        let outline = gather.outline().unwrap();
        let terms = Terms {
            lambda,
            states: states(std::iter::empty()),
            row: RowPrice::ONE,
            void: price.map_or(VoidPrice::Never, VoidPrice::Fixed),
            keys: [0.0; STATES],
            expects: Expects::plain(&flat),
            top: Top::SecondLevel,
            counting: Counting::Partition,
            miss: 0.0,
            luck: 0.0,
        };
        let found = solve(&outline, &terms, None, None).unwrap().value.cost;
        let least = brute(&nodes, lambda, price);
        prop_assert!((found - least).abs() < 1e-9, "{found} but {least}");
    }
}

#[test]
fn compacting_reports_what_it_does() {
    let folder = TempDir::new().unwrap();
    let text: String = (0..40_000)
        .map(|page| format!("com,a{})/{page:05} 1/1\n", page / 1000 + 10))
        .collect();
    let path = write_map(&folder, "full.ukvs", &text);
    let out = folder.path().join("out.ukvs");
    let least = Rule::LeastCost(Box::new(LeastCost {
        budget: Budget::Keys(500),
        sample: None,
        voids: false,
        prior: None,
        top: None,
    }));
    let papers = Rule::Papers(Papers::default());
    // The papers' rule takes one pass, in which rows are written while they are read.
    for (rule, last) in [(least, Phase::Writing), (papers, Phase::Reading)] {
        let progress = Progress::new();
        let mut given = given(&path).reporting_to(&progress);
        compact(&mut given, &rule, Style::Published, &out, false).unwrap();
        let expected = Snapshot {
            phase: last,
            done: text.len() as u64,
            total: Some(text.len() as u64),
        };
        assert_eq!(progress.snapshot(), expected);
        fit::fit(&mut given).unwrap();
        assert_eq!(progress.snapshot().phase, Phase::Reading);
    }
}

proptest! {
    #[test]
    fn folding_changes_no_cost(
        held in prop::collection::btree_set(usual_places(), 1..60),
        given_rows in prop::collection::btree_map(usual_places().prop_map(|key| format!("{}/*", key.trim_end_matches('/'))), 0..2u32, 0..6),
        asked in prop::collection::btree_map(usual_places(), 1..4u32, 0..20),
        lambda in prop::sample::select(vec![1e-12, 0.05, 0.7, 2.3, 1e6]),
        rate in prop::sample::select(vec![0.0, 0.02, 1.0]),
    ) {
        let text = with_given(&held, &given_rows);
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", &text);
        let prior = Prior::power(rate, 0.5);
        let sites = Sites::default();
        let sample = sample_of(&asked, true);
        let terms = Terms {
            lambda,
            states: states(std::iter::empty()),
            row: RowPrice::ONE,
            void: VoidPrice::Never,
            keys: [0.0; STATES],
            expects: Expects::plain(&prior),
            top: Top::SecondLevel,
            counting: Counting::Partition,
            miss: 0.0,
            luck: 0.0,
        };
        let [(all, of_all), (few, of_few)] = [false, true].map(|folds| {
            let mut gather = Gather::new(&prior, &sites).with_outline(false, folder.path());
            gather.strays = true;
            gather.folds = folds;
            walk(&Source::new(&path), Some(&sample), &mut gather).unwrap();
            let outline = gather.outline().unwrap();
            let solution = solve(&outline, &terms, None, Some(folder.path())).unwrap();
            let totals = assess(&outline, &solution, &terms).unwrap();
            (solution, totals)
        });
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
        prop_assert_eq!(all.value.size, few.value.size);
        prop_assert!(near(all.value.cost, few.value.cost), "{} but {}", all.value.cost, few.value.cost);
        prop_assert!(near(all.misses, few.misses), "{} but {}", all.misses, few.misses);
        prop_assert_eq!(of_all.rows, of_few.rows);
        prop_assert!(near(of_all.wrong, of_few.wrong), "{} but {}", of_all.wrong, of_few.wrong);
    }
}

// Each case compacts and opens a map for all 64 pairs of weights.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_the_papers_rule_is_said_to_give_is_what_it_gives(
        held in prop::collection::btree_set(usual_places(), 1..60),
        given_rows in prop::collection::btree_map(usual_places().prop_map(|key| format!("{}/*", key.trim_end_matches('/'))), 0..2u32, 0..6),
        asked in prop::collection::btree_map(usual_places(), 1..4u32, 0..20),
    ) {
        let text = with_given(&held, &given_rows);
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", &text);
        let flat = Prior::power(0.0, 1.0);
        let sites = Sites::default();
        let mut gather = Gather::new(&flat, &sites).with_outline(false, folder.path());
        gather.beside = Some(Beside::new());
        walk(&Source::new(path), Some(&sample_of(&asked, true)), &mut gather).unwrap();
        for pair in gather.beside.unwrap().pairs() {
            let out = compacted(&text, &Rule::Papers(papers(pair.host_weight, pair.path_weight)), Style::Published);
            prop_assert_eq!(pair.rows, rows(&out).len() as u64, "{:?} of {} is {}", pair, text, out);
            let (_folder, map) = opened(&out);
            let wrong: u32 = asked.iter().filter(|(key, _)| is_present(&map, key)).map(|(_, times)| times).sum();
            prop_assert_eq!(pair.false_positives, f64::from(wrong), "{:?} of {} is {}", pair, text, out);
        }
    }
}

fn any_rule() -> impl Strategy<Value = (Rule, bool)> {
    let weights = || prop::sample::select(vec![0.0, 0.05, 0.2, 1.0, f64::INFINITY]);
    prop_oneof![
        (weights(), weights(), 1..5u32, 1..5u32, any::<bool>()).prop_map(
            |(wh, wp, host_depth, path_depth, keep)| {
                let law = PowerLaw { a: 3.0, k: 0.7 };
                let papers = Papers {
                    host: law,
                    path: law,
                    host_depth,
                    path_depth,
                    keep_suffixes: keep,
                    ..papers(wh, wp)
                };
                (Rule::Papers(papers), false)
            }
        ),
        (
            prop::sample::select(vec![
                Budget::Keys(1),
                Budget::Keys(3),
                Budget::Share(0.5),
                Budget::Lambda(0.0),
                Budget::Lambda(0.3),
                Budget::Lambda(5.0),
                Budget::Bytes(300)
            ]),
            any::<bool>()
        )
            .prop_map(|(budget, voids)| (least(budget, None, voids), true)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn every_held_uri_is_called_present_however_often_the_map_is_compacted(
        held in prop::collection::btree_set(odd_places(), 1..25),
        asked in prop::collection::btree_map(odd_places(), 1..4u32, 0..12),
        labelled: bool,
        rules in prop::collection::vec(any_rule(), 1..4),
    ) {
        let folder = TempDir::new().unwrap();
        let mut path = write_map(&folder, "0.ukvs", &map_text(&held));
        let mut total = None;
        for (at, (rule, learns)) in rules.into_iter().enumerate() {
            let rule = match rule {
                Rule::LeastCost(mut least) if learns && !asked.is_empty() => {
                    least.sample = Some(sample_of(&asked, labelled));
                    Rule::LeastCost(least)
                }
                rule => rule,
            };
            let out = folder.path().join(format!("{}.ukvs", at + 1));
            match compact(&mut given(&path), &rule, Style::Published, &out, false) {
                Ok(_) => {}
                // A budget of bytes may be too small.
                Err(error) => {
                    prop_assert!(error.to_string().contains("bytes are too few"), "{error}");
                    continue;
                }
            }
            let text = String::from_utf8(std::fs::read(&out).unwrap()).unwrap();
            let answers = answers(&out);
            for key in &held {
                prop_assert!(is_present_in(&answers, key), "{key} is lost: {text}");
                let query = format!("{key}?q=1");
                prop_assert!(key.ends_with('*') || is_present_in(&answers, &query), "{query} is lost: {text}");
            }
            let sum: u64 = rows(&text).iter().map(|row| row.split([' ', '/']).rev().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)).sum();
            if let Some(total) = total {
                prop_assert_eq!(total, sum, "frequencies do not add up: {}", text);
            }
            total = Some(sum);
            path = out;
        }
    }

    #[test]
    fn parts_by_host_compacted_apart_and_joined_are_the_whole(
        held in prop::collection::btree_set(places(), 1..30),
        asked in prop::collection::btree_map(places(), 1..4u32, 0..12),
        lambda in 0.01..2.0f64,
    ) {
        let rule = |prefix: &str| {
            let asked = asked.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, n)| (key.clone(), *n)).collect();
            let prior = Prior::power(0.1, 0.7);
            Rule::LeastCost(Box::new(LeastCost { budget: Budget::Lambda(lambda), sample: Some(sample_of(&asked, true)), voids: false, prior: Some(prior), top: Some(Top::SecondLevel) }))
        };
        let whole = compacted(&map_text(&held), &rule(""), Style::Published);
        let mut joined = Vec::new();
        for prefix in ["a", "b"] {
            let part: BTreeSet<String> = held.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
            let text = compacted(&map_text(&part), &rule(prefix), Style::Published);
            joined.extend(rows(&text).into_iter().map(str::to_owned));
        }
        prop_assert_eq!(rows(&whole), joined);
    }

    #[test]
    fn a_map_answers_as_its_candidates_do(
        entries in prop::collection::btree_map(prop_oneof![usual_places(), usual_places().prop_map(|key| format!("{}/*", key.trim_end_matches('/'))), "[ab](,[ab]){0,1}".prop_map(|host| format!("{host},*")), Just("*".to_owned())], 0..2u64, 0..12),
        asked in prop::collection::vec(usual_places(), 1..12),
    ) {
        let text: String = entries.iter().map(|(key, n)| format!("{key} {n}\n")).collect();
        let (_folder, map) = opened(&text);
        let mut known: BTreeMap<(Vec<u8>, String), u64> = BTreeMap::new();
        for (key, n) in &entries {
            let key = Key::new(key.as_bytes());
            *known.entry((key.stem().to_vec(), format!("{:?}", key.reach()))).or_default() += n;
        }
        for surt in asked {
            let expected = Surt::new(surt.as_bytes()).candidates().find_map(|key| known.get(&(key.stem().to_vec(), format!("{:?}", key.reach()))).copied());
            let found = map.find(&Surt::new(surt.as_bytes()), None).map(|found| found.frequency.captures.unwrap().value);
            prop_assert_eq!(found, expected, "{} in {}", surt, text);
        }
    }
}

/// With ports, single labels, dashes, double slashes and keys without a host.
fn usual_places() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => ("[ab0](,[ab-]{1,2}){0,3}(:8[01])?", "(/[ab0.!-]{0,2}){0,3}").prop_map(|(host, path)| {
            let path = path.trim_end_matches('/');
            if path.is_empty() { format!("{host})/") } else { format!("{host}){path}") }
        }),
        1 => Just("urn:a".to_owned()),
        1 => Just("b".to_owned()),
    ]
}

/// With ports, addresses, empty and single labels, dashes, double slashes, stars, keys that start
/// like headers, quotes or JSON, and keys without a host.
pub(super) fn odd_places() -> impl Strategy<Value = String> {
    let place = |(host, path): (String, String)| {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            format!("{host})/")
        } else {
            format!("{host}){path}")
        }
    };
    let host = prop_oneof![
        12 => "[ab0](,[ab-]{1,2}){0,3}(:8[01])?",
        2 => "[ab]?(,[ab]?){0,3}(:8)?",
        1 => prop::sample::select(vec!["::1", ":", "::ffff:1,2,3,4", "fe80::1:2", "::1:80", "", ","]).prop_map(str::to_owned),
        1 => "[!@{\\[\"\\\\][ab]{0,1}(,a)?",
    ];
    prop_oneof![
        8 => (host, "(/[ab0.!-]{0,2}){0,3}").prop_map(place),
        1 => ("[ab](,[ab]){0,1}", "(/([ab*]|%2f|[{\"\\\\])){0,2}(/\\*)?").prop_map(place),
        1 => prop::sample::select(vec![
            "urn:a", "b", "urn:a,*", "mailto:a/*", "a:b,*", "!urn:x", "@a", "{a", "[::1]:80", "\"a", "\\a", "dns:a", "a,*)", ",", ":", "/",
        ]).prop_map(|text| text.trim_end_matches('/').to_owned()),
    ]
}
