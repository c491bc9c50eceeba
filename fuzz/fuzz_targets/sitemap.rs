//! Any bytes are a sitemap or an error, and what is read from one is written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_archive::sitemap::{Listing, MOST_ENTRIES, parse, write};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Listing::Files(entries)) = parse(bytes) else {
        return;
    };
    assert!(entries.len() <= MOST_ENTRIES);
    // Control characters are not written.
    let plain = |text: &str| !text.chars().any(char::is_control);
    let all = entries.iter().all(|entry| {
        let texts = entry.elements.iter().map(|(name, text)| (name, text));
        plain(&entry.location)
            && entry.modified.as_deref().is_none_or(plain)
            && texts.into_iter().all(|(name, text)| {
                plain(text) && name.bytes().all(|byte| byte.is_ascii_lowercase())
            })
    });
    if all && !entries.is_empty() {
        let again = parse(write(&entries).as_bytes()).expect("a sitemap");
        assert_eq!(again, Listing::Files(entries));
    }
});
