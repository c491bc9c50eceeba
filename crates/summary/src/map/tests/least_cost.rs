//! Least cost is the least of all maps, found by trying every one.

use super::*;

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
        let mut gather = Gather::new(&flat, &sites);
        gather.build_outline(false, folder.path());
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
            let mut gather = Gather::new(&prior, &sites);
        gather.build_outline(false, folder.path());
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
