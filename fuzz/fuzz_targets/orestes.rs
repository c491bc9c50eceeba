//! Any bytes are a file of classic Bloom filters or an error, and lookups in it stay within it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_summary::filter::orestes::ClassicFilter;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(filter) = ClassicFilter::from_bytes(bytes.to_vec()) {
        for url in ["", "http://example.com/", "https://www.example.org/a?b=c"] {
            let _ = filter.contains(url.as_bytes());
        }
        assert!((0.0..=1.0).contains(&filter.rate()));
    }
});
