//! Filtered maps in pieces.

use super::*;
use crate::map::solve::Frozen;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn filtered_maps_are_the_same_in_pieces_on_any_number_of_threads(
        held in prop::collection::btree_set(prop_oneof![5 => "[ab](,[a-c]{1,2}){1,3}\\)(/[ab]{1,2}){1,3}", 1 => surts()], 1..80),
        asked in prop::collection::btree_map(prop_oneof![1 => places(), 3 => "[ab](,[a-c]{1,2}){1,3}\\)(/[ab]{1,2}){1,3}"], 1..9u32, 0..30),
        budget in prop_oneof![
            prop::sample::select(vec![0.5, 5.0, 50.0]).prop_map(FilteredBudget::Lambda),
            (700..2000u64).prop_map(FilteredBudget::Bytes),
        ],
        size in 30..400usize,
    ) {
        let world = World::new(&held);
        let made = [(Some(size), 1), (Some(size), 4), (None, 1)].map(|(piece, threads)| {
            let room = Resources { threads, ..Resources::default() };
            let mut given = SourceMap::open(&Source::new(world.at("full.ukvs")), &room).unwrap();
            given.piece = piece;
            let out = world.at(&format!("{threads}{}.ukvs", piece.is_some()));
            compact_filtered(&mut given, &world.filtered(budget, &asked), &out).map_err(|error| error.to_string())?;
            all_present(&out, &held).unwrap();
            let filter = companion_of(&out).unwrap().map(|filter| std::fs::read(filter).unwrap());
            Ok::<_, String>((std::fs::read_to_string(&out).unwrap(), filter))
        });
        prop_assert_eq!(&made[0], &made[1]);
        prop_assert_eq!(made[0].is_ok(), made[2].is_ok());
    }

    #[test]
    fn the_least_cost_with_filters_is_the_same_in_pieces(
        held in prop::collection::btree_map("[ab](,[a-c]{1,2}){1,3}\\)(/[ab]{1,2}){1,3}", 1..5u32, 20..90),
        asked in prop::collection::btree_map("[ab](,[a-c]{1,2}){1,3}\\)(/[ab]{1,2}){1,3}", 1..9u32, 0..60),
        lambda in prop::sample::select(vec![0.05, 0.5, 5.0, 50.0]),
        size in 30..400usize,
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.ukvs");
        let text: String = held.iter().map(|(key, count)| format!("{key} {count}/{count}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let (prices, prior, sites) = (Prices::new(), Prior::default(), Sites::default());
        let sample = sample_of(&asked);
        let prepare = |gather: &mut Gather<'_>| gather.build_outline(false, folder.path());
        let mut whole = Gather::new(&prior, &sites);
        prepare(&mut whole);
        walk(&Source::new(path.clone()), Some(&sample), &mut whole).unwrap();
        let mut given = SourceMap::open(&Source::new(path), &Resources::default()).unwrap();
        given.piece = Some(size);
        let pieces = Gather::in_pieces(&mut given, Some(&sample), &prior, &[], prepare).unwrap();
        prop_assume!(pieces.is_some());
        let mut outlines = vec![whole.outline().unwrap()];
        outlines.extend(pieces.map(|(_, outline, _)| outline));
        let terms = Terms {
            lambda,
            states: states(1..=16),
            row: RowPrice { row: 5.0, byte: 0.3 },
            void: VoidPrice::Row,
            keys: *prices.keys(),
            expects: Expects { smooth: true, ..Expects::plain(&prior) },
            top: Top::Everything,
            counting: Counting::Partition,
            miss: 0.0,
            luck: 1.0,
        };
        let mut costs = Vec::new();
        for outline in &outlines {
            let first = solve(outline, &terms, None, Some(folder.path())).unwrap();
            let totals = assess(outline, &first, &terms).unwrap();
            let keys = totals.keys.iter().zip(prices.keys()).map(|(keys, each)| keys * each);
            let size = totals.rows + keys.sum::<f64>();
            prop_assert!((size - first.value.size).abs() < 1e-6, "{} but {}", size, first.value.size);
            // Large nodes keep their choices at another price.
            let frozen = Frozen { solution: &first, most: 9.0 };
            let other = Terms { lambda: 3.0 * lambda, ..terms.clone() };
            let then = solve(outline, &other, Some(frozen), None).unwrap();
            let best = solve(outline, &other, None, None).unwrap();
            prop_assert!(then.value.cost >= best.value.cost - 1e-9, "{} but {}", then.value.cost, best.value.cost);
            costs.push((first.value.cost, first.misses, best.value.cost));
        }
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
        let (a, b) = (costs[0], costs[1]);
        prop_assert!(near(a.0, b.0) && near(a.1, b.1) && near(a.2, b.2), "{:?} but {:?}", a, b);
    }
}
