//! Any bytes are cut without a panic, and every candidate covers what it is a candidate of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_surt::{Key, Policy, Reach, Surt};

fuzz_target!(|bytes: &[u8]| {
    let surt = Surt::new(bytes);
    let mut key = Vec::new();
    for policy in Policy::ALL {
        key.clear();
        policy.cut(&surt, &mut key);
    }
    assert_eq!(
        surt.candidates().last().map(|key| key.reach()),
        Some(Reach::All)
    );
    for candidate in surt.candidates() {
        assert!(candidate.covers(&surt));
    }
    let _ = Key::new(bytes).covers(&surt);
    for prefix in surt.prefixes() {
        let _ = surt.cmp_by_segment(&Surt::new(prefix));
    }
});
