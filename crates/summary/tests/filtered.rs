//! The format of maps with filters, held to its golden files. Which rows and widths are best may change;
//! the bytes of a filter for given rows may not.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use waypost_index::Source;
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filters, Map, Room, companion_of};
use waypost_summary::{Lookup, Summary};
use waypost_surt::Surt;

fn at(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Rows without headers.
fn rows(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('!'));
    rows.map(str::to_owned).collect()
}

fn is_written_as_its_golden_files_and_read_from_them(name: &str) {
    let kept = at("tests/golden").join(name);
    let example = at("../../examples/small.cdxj");
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join(name);
    let holdings = Input::new(vec![Source::File(example.clone())]);
    let room = Room::default();
    map::merge(
        std::slice::from_ref(&kept),
        Filters::Rebuild(&holdings),
        &room,
        &made,
    )
    .unwrap();
    if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
        std::fs::copy(&made, &kept).unwrap();
        std::fs::copy(companion_of(&made), companion_of(&kept)).unwrap();
    }
    let read = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!(rows(&made), rows(&kept));
    assert!(read(&companion_of(&made)) == read(&companion_of(&kept)));
    let map = Map::open(&kept, &room).unwrap();
    let index = std::fs::read_to_string(example).unwrap();
    let (mut held, mut filtered) = (0, 0);
    for line in index.lines() {
        let surt = Surt::new(line.split(' ').next().unwrap().as_bytes());
        let lookup = Lookup { uri: b"", surt };
        let answer = map.lookup(&lookup).unwrap();
        assert!(
            matches!(answer, waypost_summary::Answer::Present(_)),
            "{line}"
        );
        held += 1;
        filtered += usize::from(map.find(&surt, None).unwrap().filter.is_some());
    }
    assert!(held > 700 && filtered > 50, "{filtered} of {held}");
}

#[test]
fn a_map_with_filters_of_one_width_is_still_written_and_read() {
    is_written_as_its_golden_files_and_read_from_them("filtered.ukvs");
}

#[test]
fn a_map_with_filters_of_several_widths_below_each_other_is_still_written_and_read() {
    is_written_as_its_golden_files_and_read_from_them("widths.ukvs");
}
