//! Compacting: budgets of bytes, the papers' rule, and what is reported.

use super::*;

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
        let mut gather = Gather::new(&flat, &sites);
        gather.build_outline(false, folder.path());
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
