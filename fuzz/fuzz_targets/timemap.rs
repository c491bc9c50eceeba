//! Any bytes are a TimeMap or an error, in every format, and what was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_memento::{Format, TimeMap};

fuzz_target!(|document: &[u8]| {
    for format in Format::ALL {
        let Ok((timemap, problems)) = TimeMap::read(format, document, None) else {
            continue;
        };
        assert!(
            problems
                .iter()
                .all(|problem| problem.offset <= document.len())
        );
        // Without its original it cannot be read again; a description lists only what is marked.
        let is_description = timemap.mementos.iter().any(|m| m.relations.closest);
        if timemap.original.is_empty() || is_description {
            continue;
        }
        for format in Format::ALL {
            let mut written = Vec::new();
            timemap
                .write(format, &mut written)
                .expect("memory takes everything");
            let (again, _) = TimeMap::read(format, &written, None).expect("it was just written");
            assert_eq!(again.mementos.len(), timemap.mementos.len());
        }
    }
});
