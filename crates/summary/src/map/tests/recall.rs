//! Nothing held is lost, whatever the rule and however often a map is compacted.

use super::*;

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
            // A map without rows is not whole.
            if part.is_empty() {
                continue;
            }
            let text = compacted(&map_text(&part), &rule(prefix), Style::Published);
            joined.extend(rows(&text).into_iter().map(str::to_owned));
        }
        prop_assert_eq!(rows(&whole), joined);
    }

    #[test]
    fn a_map_answers_as_its_candidates_do(
        entries in prop::collection::btree_map(prop_oneof![usual_places(), usual_places().prop_map(|key| format!("{}/*", key.trim_end_matches('/'))), "[ab](,[ab]){0,1}".prop_map(|host| format!("{host},*")), Just("*".to_owned())], 0..2u64, 1..12),
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
