//! Any bytes are a map or an error with a place; what a map calls present stays present when it is
//! compacted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_index::Source;
use waypost_summary::map::{self, Given, Map, Papers, Room, Rule, Style};
use waypost_surt::Surt;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ukvs");
    std::fs::write(&path, bytes).expect("a file");
    let Ok(before) = Map::open(&path, &Room::default()) else {
        return;
    };
    let Ok(mut given) = Given::open(&Source::File(path.clone()), &Room::default()) else {
        return;
    };
    let out = folder.path().join("b.ukvs");
    let papers = Papers { host_weight: 0.0, path_weight: 0.0, ..Papers::default() };
    if map::compact(&mut given, &Rule::Papers(papers), Style::Published, &out, false).is_err() {
        return;
    }
    let after = Map::open(&out, &Room::default()).expect("what we write we read");
    for line in bytes.split(|&byte| byte == b'\n') {
        let surt = Surt::new(line.split(|&byte| byte == b' ').next().unwrap_or_default());
        if before.find(&surt, None).is_some_and(|found| !found.frequency.is_void()) {
            let found = after.find(&surt, None);
            assert!(found.is_some_and(|found| !found.frequency.is_void()), "{surt:?} is lost");
        }
    }
});
