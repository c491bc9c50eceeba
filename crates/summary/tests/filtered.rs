//! The format of maps with filters, held to its golden files.

use std::path::Path;

use waypost_index::Source;
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filtered, FilteredBudget, Given, Map, Prior, Room, companion_of};
use waypost_summary::{Archive, Lookup, Summary};
use waypost_surt::Surt;

#[test]
fn a_map_with_filters_is_still_written_as_its_golden_files_and_read_from_them() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.cdxj");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let holdings = Input::new(vec![Source::File(example.clone())]);
    map::build(&holdings, &Archive::default(), None, &at("full.ukvs")).unwrap();
    let mut given = Given::open(&Source::File(at("full.ukvs")), &Room::default()).unwrap();
    let filtered = Filtered {
        budget: FilteredBudget::Lambda(30.0),
        sample: None,
        prior: Some(Prior::power(0.02, 1.0)),
        top: None,
        max_width: 16,
        growth: None,
        miss_price: 0.0,
        holdings,
    };
    let made = at("filtered.ukvs");
    map::compact_filtered(&mut given, &filtered, &made).unwrap();
    let kept = golden.join("filtered.ukvs");
    if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
        std::fs::copy(&made, &kept).unwrap();
        std::fs::copy(companion_of(&made), companion_of(&kept)).unwrap();
    }
    let read = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!(
        String::from_utf8(read(&made)),
        String::from_utf8(read(&kept))
    );
    assert!(read(&companion_of(&made)) == read(&companion_of(&kept)));
    let map = Map::open(&kept, &Room::default()).unwrap();
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
    assert!(held > 700 && filtered > 100, "{filtered} of {held}");
}
