//! Any bytes are links or errors; what was read is written on one line and read again as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_memento::links;

fuzz_target!(|header: &[u8]| {
    for link in links(header).flatten() {
        let text = link.to_string();
        assert!(!text.contains(['\r', '\n']));
        let again: Vec<_> = links(text.as_bytes()).collect();
        assert_eq!(again.len(), 1);
    }
});
