//! Properties of all maps: nothing held is lost, and least cost is least.

mod answers;
mod compact;
mod cut;
mod faults;
mod least_cost;
mod pieces;
mod recall;

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
        1 => "[ab](:[0a])?\\?[ab](,[ab]?){0,3}",
    ];
    prop_oneof![
        8 => (host, "(/[ab0.!-]{0,2}){0,3}").prop_map(place),
        1 => ("[ab](,[ab]){0,1}", "(/([ab*]|%2f|[{\"\\\\])){0,2}(/\\*)?").prop_map(place),
        1 => prop::sample::select(vec![
            "urn:a", "b", "urn:a,*", "mailto:a/*", "a:b,*", "!urn:x", "@a", "{a", "[::1]:80", "\"a", "\\a", "dns:a", "a,*)", ",", ":", "/",
        ]).prop_map(|text| text.trim_end_matches('/').to_owned()),
    ]
}
