//! The tool and maps of the papers' authors, compared with ours.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking and say what they skip"
)]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use waypost_io::{Resources, Source};
use waypost_summary::map::{self, Papers, Rule, SourceMap, Style};

#[path = "../../../tests/oracles.rs"]
mod oracles;

fn compact(path: &Path, papers: Papers) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let mut given = SourceMap::open(&Source::new(path.to_owned()), &Resources::default()).unwrap();
    map::compact(
        &mut given,
        &Rule::Papers(papers),
        Style::Reference,
        &out,
        false,
    )
    .unwrap();
    std::fs::read(out).unwrap()
}

fn weights(host_weight: f64, path_weight: f64) -> Papers {
    Papers {
        host_weight,
        path_weight,
        ..Papers::default()
    }
}

#[test]
fn the_authors_compacted_maps_of_real_seeds_are_reproduced() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let folder = shared.join("vectors/seed-analyzer");
    let surts = std::fs::read_to_string(folder.join("COVID19-IIPC.SURT")).unwrap();
    let mut keys: Vec<String> = surts
        .lines()
        .map(|surt| {
            surt.split('?')
                .next()
                .unwrap_or("")
                .trim_matches(['/', ','])
                .to_owned()
        })
        .collect();
    keys.sort();
    keys.dedup();
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("seeds.ukvs");
    std::fs::write(
        &path,
        keys.iter()
            .map(|key| format!("{key} 1\n"))
            .collect::<String>(),
    )
    .unwrap();
    for weight in ["2.00", "1.00", "0.50", "0.10", "0.05", "0.01"] {
        let w: f64 = weight.parse().unwrap();
        let found = String::from_utf8(compact(&path, weights(w, w))).unwrap();
        let strip = |key: &str| {
            let key = key
                .strip_suffix("/*")
                .or(key.strip_suffix(",*"))
                .unwrap_or(key);
            key.strip_suffix(')').unwrap_or(key).to_owned()
        };
        let mut found: Vec<String> = found
            .lines()
            .filter_map(|row| row.split(' ').next())
            .map(strip)
            .collect();
        found.sort();
        let expected =
            std::fs::read_to_string(folder.join(format!("COVID19-IIPC.W{weight}"))).unwrap();
        let mut expected: Vec<&str> = expected.lines().collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "weight {weight}");
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn the_reference_tool_gives_the_same_bytes_on_clean_maps() {
    let Some(python) = oracles::python() else {
        return;
    };
    let has_tool = Command::new(&python)
        .args(["-c", "import mementomap"])
        .status()
        .unwrap();
    if !has_tool.success() {
        oracles::skip("the package mementomap is not installed");
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut dice = Dice(1);
    let mut compared = 0;
    for round in 0..60 {
        let mut keys = std::collections::BTreeSet::new();
        // A host with pages has no subdomains: the tool would leave stale lines there (B3).
        for _ in 0..(1 + dice.below(400)) {
            let labels = 2 + dice.below(if round % 3 == 0 { 9 } else { 2 });
            let mut key = String::from(["com", "org", "uk"][dice.below(3) as usize]);
            for level in 1..labels {
                key += &format!(
                    ",{}{}",
                    ["a", "b", "co"][dice.below(3) as usize],
                    dice.below(4 + level)
                );
            }
            key += &format!(",leaf{}l)", dice.below(4));
            for _ in 0..dice.below(if round % 4 == 0 { 13 } else { 4 }) {
                key += &format!("/{}{}", ["x", "y"][dice.below(2) as usize], dice.below(9));
            }
            keys.insert(key);
        }
        let text: String = keys
            .iter()
            .map(|key| format!("{key} {}\n", 1 + key.len() % 7))
            .collect();
        let path = folder.path().join("in.ukvs");
        std::fs::write(&path, &text).unwrap();
        let (wh, wp) = (
            [0.0, 0.1, 0.25, 0.5, 1.0, f64::INFINITY][dice.below(6) as usize],
            [0.0, 0.1, 0.25, 1.0, f64::INFINITY][dice.below(5) as usize],
        );
        let (hdepth, pdepth) = (
            [8, 3, 5][dice.below(3) as usize],
            [9, 2, 4][dice.below(3) as usize],
        );
        let out = folder.path().join("out.ukvs");
        let ran = Command::new(&python)
            .args(["-m", "mementomap", "compact"])
            .args(["--hcf", &wh.to_string(), "--pcf", &wp.to_string()])
            .args([
                "--hdepth",
                &hdepth.to_string(),
                "--pdepth",
                &pdepth.to_string(),
            ])
            .args([&path, &out])
            .output()
            .unwrap();
        assert!(ran.status.success());
        let expected = std::fs::read(&out).unwrap();
        let papers = Papers {
            host_depth: hdepth,
            path_depth: pdepth,
            ..weights(wh, wp)
        };
        let found = compact(&path, papers);
        assert_eq!(
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(&expected),
            "round {round}: --hcf {wh} --pcf {wp} --hdepth {hdepth} --pdepth {pdepth}"
        );
        compared += 1;
    }
    assert_eq!(compared, 60);
}
