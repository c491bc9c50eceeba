//! Any bytes as the rows of a map and as the filter beside it: an error with a place, or answers; and
//! what the rows alone call absent, the filter does not call present.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_summary::map::{Map, Room, companion_of};
use waypost_surt::Surt;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (rows, filter) = input;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ukvs");
    std::fs::write(&path, rows).expect("a file");
    std::fs::write(companion_of(&path), filter).expect("a file");
    let Ok(alone) = Map::open_rows(&path, &Room::default()) else {
        return;
    };
    let with = Map::open(&path, &Room::default());
    for line in rows.split(|&byte| byte == b'\n') {
        let surt = Surt::new(line.split(|&byte| byte == b' ').next().unwrap_or_default());
        let present = alone.is_present(&surt).expect("rows alone need no filter");
        if let Ok(with) = &with {
            let confirmed = with.is_present(&surt).expect("it was looked over when it was opened");
            assert!(present || !confirmed, "{surt:?} is absent by the rows alone");
        }
    }
});
