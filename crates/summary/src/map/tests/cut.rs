//! A map in pieces is the same map.

use super::*;
use crate::map::compact::Report;
use crate::map::tree::cut::{Pieces, Sharing};
use crate::map::write::Summed;

/// Deep trees, so that maps can be cut: hosts and paths of which many share a prefix.
fn deep_places() -> impl Strategy<Value = String> {
    ("[a-c](,[a-d]{1,2}){0,3}", "(/[a-d0-2]{1,2}){0,3}").prop_map(|(host, path)| {
        if path.is_empty() {
            format!("{host})/")
        } else {
            format!("{host}){path}")
        }
    })
}

/// The compacted text, and the report, with pieces of a size. Whether the map was cut, too.
fn in_pieces(
    text: &str,
    rule: &Rule,
    piece: Option<usize>,
    threads: usize,
) -> Result<(String, Report, bool), String> {
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", text);
    let room = Resources {
        temporary: folder.path().to_owned(),
        threads,
        ..Resources::default()
    };
    let mut given = SourceMap::open(&Source::new(path), &room).unwrap();
    given.piece = given.piece.and(piece);
    let out = folder.path().join("b.ukvs");
    let done = compact(&mut given, rule, Style::Published, &out, false);
    let report = done.map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(out).unwrap();
    Ok((text, report, given.piece.is_some()))
}

fn budgets() -> impl Strategy<Value = Budget> {
    prop_oneof![
        // With round prices, maps of equal cost differ by the last digit of a sum.
        4 => prop::sample::select(vec![1.03e-3, 0.0511, 0.7123, 2.3137, 50.17]).prop_map(Budget::Lambda),
        1 => (1..40u64).prop_map(Budget::Keys),
        1 => (0.05..0.9f64).prop_map(Budget::Share),
        1 => (150..900u64).prop_map(Budget::Bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn least_cost_maps_are_the_same_in_pieces(
        held in prop::collection::btree_set(prop_oneof![6 => deep_places(), 1 => usual_places()], 1..90),
        given_rows in prop::collection::btree_map(deep_places().prop_map(|key| format!("{}/*", key.trim_end_matches('/'))), 0..3u32, 0..4),
        asked in prop::collection::btree_map(prop_oneof![6 => deep_places(), 1 => usual_places()], 1..4u32, 0..40),
        has_sample in any::<bool>(),
        labelled in any::<bool>(),
        voids in any::<bool>(),
        budget in budgets(),
        size in 20..400usize,
    ) {
        let text = with_given(&held, &given_rows);
        let sample = has_sample.then(|| sample_of(&asked, labelled));
        let rule = least(budget, sample, voids);
        let one = in_pieces(&text, &rule, Some(size), 1);
        let many = in_pieces(&text, &rule, Some(size), 4);
        let whole = in_pieces(&text, &rule, None, 1);
        match (one, many, whole) {
            (Ok((one, ..)), Ok((many, by_many, _)), Ok((whole, by_whole, _))) => {
                prop_assert_eq!(&one, &many);
                // Sums in another order may differ in the last digit, and so may the price.
                prop_assert_eq!(rows(&many), rows(&whole));
                prop_assert_eq!(by_many.rows_in, by_whole.rows_in);
                prop_assert_eq!(by_many.urirs, by_whole.urirs);
                // Rows that have to be sorted first are not measured.
                let counted = |report: &Report| Summed { bytes: 0, ..report.written };
                prop_assert_eq!(counted(&by_many), counted(&by_whole));
                let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                    (a, b) => a == b,
                };
                prop_assert!(near(by_many.false_positives, by_whole.false_positives), "{by_many:?} {by_whole:?}");
                prop_assert!(near(by_many.misses, by_whole.misses), "{by_many:?} {by_whole:?}");
                let papers = |report: &Report| report.papers.map(|papers| (papers.rows, (papers.false_positives * 1e6).round()));
                prop_assert_eq!(papers(&by_many), papers(&by_whole));
            }
            (one, many, whole) => {
                prop_assert_eq!(one.err(), many.err());
                prop_assert!(whole.is_err());
            }
        }
    }
}

#[test]
fn a_map_is_cut_between_labels_and_between_segments() {
    let lines: String = [
        "com,a)/",
        "com,a)/x",
        "com,a)/y",
        "com,a,b)/",
        "com,b)/",
        "org,a)/",
    ]
    .map(|key| format!("{key} 1\n"))
    .concat();
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", &lines);
    let progress = Progress::default();
    let mut pieces = Pieces::open(
        &Source::new(path),
        &progress,
        Sharing::Ancestors,
        10,
        1 << 20,
    )
    .unwrap();
    let mut text = Vec::new();
    let mut cuts = Vec::new();
    while let Some(piece) = pieces.next() {
        text.extend(piece.text.unwrap().bytes(Vec::new()).unwrap().0);
        let (start, _) = piece.borders.keys();
        cuts.push(String::from_utf8(start.to_vec()).unwrap());
    }
    assert_eq!(text, lines.as_bytes());
    assert_eq!(cuts, ["", "com,a)/y", "com,a,b", "com,b"]);
}

#[test]
fn maps_with_ports_voids_wildcards_and_keys_without_a_host_are_cut() {
    let mut held = BTreeSet::new();
    for host in 0..60 {
        for page in 0..host % 7 {
            held.insert(format!(
                "com,site{}{host:02})/a{page}/b",
                (b'a' + host % 26) as char
            ));
        }
        held.insert(format!("uk,co,site{host:02},www)/"));
        held.insert(format!("uk,co,site{host:02}:8080)/"));
        held.insert(format!("urn:{host}"));
    }
    let voids: BTreeMap<String, u32> = (0..9)
        .flat_map(|host| {
            [
                (format!("uk,co,site{host:02},www)/x/*"), 0),
                (format!("com,sitea{host:02})/*"), 3),
            ]
        })
        .collect();
    let text = with_given(&held, &voids);
    let asked = (0..99).map(|at| {
        (
            format!("com,site{}{at})/x", (b'a' + at % 26) as char),
            1 + u32::from(at) % 3,
        )
    });
    let asked: BTreeMap<String, u32> = asked.collect();
    for (voids, sample) in [(false, None), (false, Some(&asked)), (true, Some(&asked))] {
        let rule = least(
            Budget::Share(0.3),
            sample.map(|asked| sample_of(asked, true)),
            voids,
        );
        let (whole, _, is_cut) = in_pieces(&text, &rule, None, 1).unwrap();
        assert!(!is_cut);
        for threads in [1, 3] {
            let (pieces, _, is_cut) = in_pieces(&text, &rule, Some(300), threads).unwrap();
            assert!(is_cut);
            assert_eq!(rows(&pieces), rows(&whole));
        }
    }
}

#[test]
fn a_host_that_a_cut_would_tear_from_its_port_is_found() {
    let text = "com,a)/ 1\ncom,a)/x 1\ncom,a0)/ 1\ncom,a0)/x 1\ncom,a1)/ 1\ncom,a:80)/ 1\n";
    let rule = least(Budget::Keys(3), None, false);
    let (whole, ..) = in_pieces(text, &rule, None, 1).unwrap();
    let (pieces, _, is_cut) = in_pieces(text, &rule, Some(20), 2).unwrap();
    assert!(!is_cut);
    assert_eq!(pieces, whole);
}

#[test]
fn maps_that_are_not_sorted_are_sorted_and_then_cut() {
    let mut lines: Vec<String> = (0..200)
        .map(|host| format!("com,site{host})/ 1\n"))
        .collect();
    lines.sort();
    let rule = least(Budget::Keys(20), None, false);
    let (sorted, ..) = in_pieces(&lines.concat(), &rule, Some(500), 2).unwrap();
    lines.swap(57, 58);
    let (swapped, report, is_cut) = in_pieces(&lines.concat(), &rule, Some(500), 2).unwrap();
    assert!(is_cut && report.sorted);
    assert_eq!(rows(&swapped), rows(&sorted));
}
