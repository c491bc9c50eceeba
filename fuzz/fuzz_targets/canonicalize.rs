//! Any bytes have a SURT or an error, in every dialect, whatever came before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_surt::{Canonicalizer, Dialect, Surt};

fuzz_target!(|uri: &[u8]| {
    for dialect in Dialect::ALL {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut first = Vec::new();
        let result = canonicalizer.canonicalize(uri, &mut first);
        let mut second = Vec::new();
        assert_eq!(result, canonicalizer.canonicalize(uri, &mut second));
        assert_eq!(first, second);
        let _ = Surt::new(&first).to_uri();
    }
});
