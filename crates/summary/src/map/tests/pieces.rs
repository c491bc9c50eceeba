//! The papers' rule in pieces gives the same map.

use super::*;
use crate::map::compact::Report;
use crate::map::write::{Summed, pieces};

/// Places of many hosts, so that maps can be cut.
fn scattered_places() -> impl Strategy<Value = String> {
    let hosts = prop_oneof![
        6 => "(c|co|com|d)(,[a-d1-]{1,2}){0,3}(:8)?",
        1 => "(com|x)(,[a-c])?",
    ];
    place_on(hosts, "(/[ab0-]{1,2}){0,3}")
}

/// Places of a few large hosts: most cuts are inside of them, and bytes tear their subtrees apart.
fn crowded_places() -> impl Strategy<Value = String> {
    let hosts = prop_oneof![
        6 => "com,[ab](,[ab])?",
        1 => "com,a(,b)?(:8[01]?|[-0])",
    ];
    place_on(hosts, "(/[ab]?([-.%!()*0_~]?[ab])?){0,5}")
}

fn place_on(
    hosts: impl Strategy<Value = String>,
    paths: &'static str,
) -> impl Strategy<Value = String> {
    (hosts, paths).prop_map(|(host, path)| {
        let path = path.trim_end_matches('/');
        match path.is_empty() {
            true => format!("{host})/"),
            false => format!("{host}){path}"),
        }
    })
}

fn any_papers() -> impl Strategy<Value = Papers> {
    let weights = || prop::sample::select(vec![0.0, 0.05, 0.1, 0.2, 1.0, f64::INFINITY]);
    let law = || prop::sample::select(vec![(16.3, 0.7), (3.0, 0.7), (1.0, 0.0), (2.0, 0.0)]);
    (
        weights(),
        weights(),
        law(),
        law(),
        1..6u32,
        1..6u32,
        any::<bool>(),
    )
        .prop_map(
            |(wh, wp, host, path, host_depth, path_depth, keep_suffixes)| {
                let law = |(a, k)| PowerLaw { a, k };
                Papers {
                    host: law(host),
                    path: law(path),
                    host_depth,
                    path_depth,
                    keep_suffixes,
                    ..papers(wh, wp)
                }
            },
        )
}

fn frequencies() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (1..9u32).prop_map(|captures| format!("{captures}/1")),
        1 => prop::sample::select(vec!["7", "5+/2", "4-", "3~/1~", "18446744073709551615/9", "/2", "/"]).prop_map(str::to_owned),
    ]
}

/// Compacts a map in pieces of a size, unless that is not possible.
fn in_pieces(
    folder: &TempDir,
    path: &Path,
    papers: &Papers,
    size: usize,
) -> Option<(String, pieces::Whole)> {
    let mut given = given(path);
    given.piece = Some(size);
    let out = folder.path().join("pieces.ukvs");
    let whole = pieces::compact(&mut given, papers, b"!meta {}\n", &out).unwrap()?;
    Some((std::fs::read_to_string(&out).unwrap(), whole))
}

/// Compacts a map on a single thread.
fn alone(folder: &TempDir, path: &Path, papers: &Papers) -> (String, Report) {
    let mut given = given(path);
    given.room.threads = 1;
    let out = folder.path().join("alone.ukvs");
    let rule = Rule::Papers(papers.clone());
    let report = compact(&mut given, &rule, Style::Published, &out, false).unwrap();
    (std::fs::read_to_string(&out).unwrap(), report)
}

fn check(
    held: &BTreeMap<String, String>,
    papers: &Papers,
    size: usize,
) -> Result<(), TestCaseError> {
    let folder = quick_folder();
    let text: String = held
        .iter()
        .map(|(key, frequency)| {
            let mut field = Vec::new();
            crate::ukvs::write_field(key.as_bytes(), true, &mut field);
            format!("{} {frequency}\n", String::from_utf8(field).unwrap())
        })
        .collect();
    let path = write_map(&folder, "a.ukvs", &text);
    let (expected, report) = alone(&folder, &path, papers);
    if let Some((found, whole)) = in_pieces(&folder, &path, papers, size) {
        prop_assert_eq!(rows(&found), rows(&expected), "{}", text);
        prop_assert_eq!(whole.rows, report.rows_in);
        prop_assert_eq!(Some(whole.rolled), report.rolled);
        // Rows that take two passes are not measured, but their URI-Rs are counted.
        let counted = |written: Summed| Summed {
            bytes: 0,
            keys: [0; 18],
            ..written
        };
        prop_assert_eq!(counted(whole.written), counted(report.written));
        let bytes: usize = rows(&found).iter().map(|row| row.len() + 1).sum();
        prop_assert_eq!(whole.written.bytes, bytes as u64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_map_compacted_in_pieces_is_the_one_that_a_single_thread_makes(
        held in prop::collection::btree_map(prop_oneof![8 => scattered_places(), 1 => odd_places()], frequencies(), 1..60),
        papers in any_papers(),
        size in 1..400usize,
    ) {
        check(&held, &papers, size)?;
    }

    #[test]
    fn large_hosts_in_pieces_are_what_a_single_thread_makes_of_them(
        held in prop::collection::btree_map(crowded_places(), frequencies(), 1..80),
        papers in any_papers(),
        size in 1..300usize,
    ) {
        check(&held, &papers, size)?;
    }
}
