//! Any bytes are a list of archives or an error; the ids in it are unique and the addresses are on the Web.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use url::Url;
use waypost_router::{ArchiveLimits, Registry};

fuzz_target!(|text: &[u8]| {
    let Ok(registry) = Registry::from_json(text, &ArchiveLimits::default()) else {
        return;
    };
    let mut ids = HashSet::new();
    for (place, archive) in registry.archives.iter().enumerate() {
        assert!(ids.insert(&archive.id));
        assert_eq!(registry.position(&archive.id), Some(place));
        for address in [&archive.timemap, &archive.timegate].into_iter().flatten() {
            let url = Url::parse(address).expect("it was checked");
            assert!(matches!(url.scheme(), "http" | "https"));
            assert!(address.ends_with('/') || url.query().is_some());
        }
    }
});
