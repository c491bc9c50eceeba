//! The papers' rule in pieces gives the same map.

use super::*;
use crate::map::compact::Report;
use crate::map::tree::cut::{Pieces, Sharing};
use crate::map::write::{Summed, pieces};

/// Places of many hosts, so that maps can be cut.
fn scattered_places() -> impl Strategy<Value = String> {
    let hosts = prop_oneof![
        6 => "(c|co|com|d)(,[a-d1-]{1,2}){0,3}(:8)?",
        1 => "(com|x)(,[a-c])?",
        // `uk,co` is a public suffix.
        2 => "uk,co(,[a-d]{1,2}){0,2}",
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
        size in 12..400usize,
    ) {
        check(&held, &papers, size)?;
    }

    #[test]
    fn large_hosts_in_pieces_are_what_a_single_thread_makes_of_them(
        held in prop::collection::btree_map(crowded_places(), frequencies(), 1..80),
        papers in any_papers(),
        size in 12..300usize,
    ) {
        check(&held, &papers, size)?;
    }
}

/// Sorted rows of keys.
fn text_of(keys: impl IntoIterator<Item = String>) -> String {
    let keys: BTreeSet<String> = keys.into_iter().collect();
    keys.iter().map(|key| format!("{key} 2/1\n")).collect()
}

/// Compacts a map in pieces, which has to be possible, and on a single thread.
fn both(text: &str, papers: &Papers, size: usize) -> (String, String) {
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", text);
    let (expected, _) = alone(&folder, &path, papers);
    let (found, _) = in_pieces(&folder, &path, papers, size).unwrap();
    (found, expected)
}

#[test]
fn one_large_host_is_cut_wherever_its_keys_differ() {
    let files = (0..40).flat_map(|n| {
        let file = move |m| format!("com,example)/wp-content/dir-{n:02}/file-{m:02}.html");
        (0..30).map(file)
    });
    let text = text_of(files.chain(["com,example)/wp/x".into(), "com,example)/wp".into()]));
    let folder = quick_folder();
    let source = Source::new(write_map(&folder, "a.ukvs", &text));
    let progress = Progress::default();
    let sharing = Sharing::Prefixes;
    let mut pieces = Pieces::open(&source, &progress, sharing, 500, 1 << 20).unwrap();
    let (mut cut, mut count) = (Vec::new(), 0);
    while let Some(piece) = pieces.next() {
        cut.extend(piece.text.unwrap().bytes(Vec::new()).unwrap().0);
        count += 1;
    }
    assert_eq!(cut, text.as_bytes());
    assert!(count > text.len() / 1000, "{count}");
    for weight in [0.1, 1.0, 1e6, f64::INFINITY] {
        let (found, expected) = both(&text, &papers(weight, weight), 500);
        assert_eq!(rows(&found), rows(&expected));
    }
}

#[test]
fn ports_and_directories_that_cuts_tear_off_are_joined() {
    let keys = [
        "com,a)/",
        "com,a)/x",
        "com,a)/x-1",
        "com,a)/x-2",
        "com,a)/x.3",
        "com,a)/x/4",
        "com,a)/x/5",
        "com,a,b)/",
        "com,a-b)/",
        "com,a0)/",
        "com,a1)/",
        "com,a:80)/",
        "com,a:81)/",
        "com,b)/",
    ];
    let text = text_of(keys.map(str::to_owned));
    // Hosts with more than three children roll up, and paths with more than one.
    for (host, path) in [(3.0, 1.0), (9.0, 1.0), (2.0, 9.0), (9.0, 9.0)] {
        let law = |a| PowerLaw { a, k: 0.0 };
        let papers = Papers {
            host: law(host),
            path: law(path),
            ..papers(1.0, 1.0)
        };
        for size in 25..90 {
            let (found, expected) = both(&text, &papers, size);
            assert_eq!(rows(&found), rows(&expected), "pieces of {size} bytes");
        }
    }
}

#[test]
fn a_wildcard_that_belongs_before_a_piece_is_left_to_a_single_thread() {
    let ports = (0..9).map(|port| format!("com,a:8{port})/"));
    let others = (0..9).map(|n| format!("com,a{n})/"));
    let text = text_of(ports.chain(others));
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", &text);
    let papers = papers(0.1, 0.1);
    assert!(in_pieces(&folder, &path, &papers, 20).is_none());
    let mut given = given(&path);
    given.piece = Some(20);
    let out = folder.path().join("b.ukvs");
    let report = compact(
        &mut given,
        &Rule::Papers(papers),
        Style::Published,
        &out,
        false,
    );
    assert_eq!(report.unwrap().rolled, Some(1));
    let found = std::fs::read_to_string(out).unwrap();
    assert_eq!(rows(&found)[0], "com,a,* 18/9");
}

#[test]
fn very_deep_keys_are_left_to_a_single_thread() {
    let deep = "/a".repeat(2000);
    let text = text_of((0..9).map(|n| format!("com,a){deep}/{n}")));
    let folder = quick_folder();
    let path = write_map(&folder, "a.ukvs", &text);
    assert!(in_pieces(&folder, &path, &papers(1.0, 1.0), 5000).is_none());
}

#[test]
fn rows_that_wait_for_a_large_host_are_written_after_it() {
    let keys = (0..60_000).map(|n| {
        format!(
            "com,a)/{:02}/{:02}/{:02}/page",
            n / 2500,
            n / 50 % 50,
            n % 50
        )
    });
    let text = text_of(keys.chain(["com,0)/".to_owned(), "com,b)/".to_owned()]));
    assert!(text.len() > 1 << 20);
    for weight in [30.0, 1e3] {
        let (found, expected) = both(&text, &papers(weight, weight), 50_000);
        assert_eq!(rows(&found), rows(&expected));
        assert!(rows(&found).len() > 60_000);
    }
}

#[test]
fn maps_are_the_same_for_any_number_of_threads_even_if_they_have_to_be_sorted() {
    let keys = (0..3000).map(|n| format!("com,site{}:{})/{}/{n}", n / 100, n % 3, n % 7));
    let mut lines: Vec<String> = text_of(keys)
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    let rule = Rule::Papers(papers(0.5, 0.2));
    let folder = quick_folder();
    let by = |text: &str, threads: usize| {
        let path = write_map(&folder, "a.ukvs", text);
        let mut given = given(&path);
        given.room.threads = threads;
        given.piece = Some(2000);
        let out = folder.path().join("b.ukvs");
        let report = compact(&mut given, &rule, Style::Published, &out, false).unwrap();
        (std::fs::read(out).unwrap(), report.sorted, given.piece)
    };
    let (expected, ..) = by(&lines.concat(), 1);
    lines.swap(1234, 1235);
    for threads in [1, 2, 5] {
        let (found, sorted, piece) = by(&lines.concat(), threads);
        assert!(
            found == expected && sorted && piece.is_some(),
            "{threads} threads"
        );
    }
}
