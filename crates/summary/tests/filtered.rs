//! The format of maps with filters, checked against golden files. Which rows and widths are best
//! may change; the bytes of a filter for given rows may not.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use waypost_io::{Resources, Source};
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filters, Finder, Map, companion_of};
use waypost_summary::{Lookup, Summary};

fn at(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Rows without headers.
fn rows(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('!'));
    rows.map(str::to_owned).collect()
}

fn example() -> PathBuf {
    at("../../examples/small.cdxj")
}

fn is_still_read(name: &str) {
    let map = Map::open(&at("tests/golden").join(name), &Resources::default()).unwrap();
    let index = std::fs::read_to_string(example()).unwrap();
    let (mut held, mut filtered) = (0, 0);
    for line in index.lines() {
        let surt = line.split(' ').next().unwrap().as_bytes();
        let mut buffer = Vec::new();
        let lookup = Lookup::of_surt(surt, &mut buffer);
        let answer = map.lookup(&lookup).unwrap();
        assert!(
            matches!(answer, waypost_summary::Answer::Present(_)),
            "{line}"
        );
        held += 1;
        filtered += usize::from(
            Finder::new(&map)
                .find(&lookup, None)
                .unwrap()
                .filter
                .is_some(),
        );
    }
    assert!(held > 700 && filtered > 50, "{filtered} of {held}");
}

#[test]
fn filters_of_several_widths_are_still_written_as_they_were() {
    let kept = at("tests/golden/widths.ukvs");
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("widths.ukvs");
    let holdings = Input::new(vec![Source::new(example())]);
    let maps = std::slice::from_ref(&kept);
    map::merge(
        maps,
        Filters::Rebuild(&holdings),
        &Resources::default(),
        &made,
    )
    .unwrap();
    let filter = |map: &Path| companion_of(map).unwrap().unwrap();
    if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_file(filter(&kept));
        std::fs::copy(&made, &kept).unwrap();
        std::fs::copy(filter(&made), filter(&kept)).unwrap();
    }
    assert_eq!(rows(&made), rows(&kept));
    let read = |map: &Path| std::fs::read(filter(map)).unwrap();
    assert!(read(&made) == read(&kept));
}

#[test]
fn filters_of_several_widths_are_still_read() {
    is_still_read("widths.ukvs");
}

#[test]
fn a_filter_truncated_while_its_map_is_open_gives_errors_and_never_absent() {
    let kept = at("tests/golden/widths.ukvs");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("widths.ukvs");
    std::fs::copy(&kept, &copy).unwrap();
    let filter = companion_of(&kept).unwrap().unwrap();
    let filter_copy = folder.path().join(filter.file_name().unwrap());
    std::fs::copy(&filter, &filter_copy).unwrap();
    let map = Map::open(&copy, &Resources::default()).unwrap();
    let index = std::fs::read_to_string(example()).unwrap();
    let surts: Vec<&str> = index
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let size = std::fs::metadata(&filter_copy).unwrap().len();
    let file = std::fs::File::options()
        .write(true)
        .open(&filter_copy)
        .unwrap();
    let mut errors = 0;
    for length in [size / 2, 0] {
        file.set_len(length).unwrap();
        for surt in &surts {
            let mut buffer = Vec::new();
            match map.lookup(&Lookup::of_surt(surt.as_bytes(), &mut buffer)) {
                Ok(answer) => assert_ne!(answer, waypost_summary::Answer::Absent, "{surt}"),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 0, "nothing was found wrong");
}
