//! Any bytes are an index: its layout is found, and every line is a capture, a header or a bad line
//! of a kind. Fewer fields asked for never change what is read of the others.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_index::key::Rekeyer;
use waypost_index::layout::{FileLayout, Line};
use waypost_index::{Field, Fields, Select};

fuzz_target!(|bytes: &[u8]| {
    let layout = FileLayout::detect(bytes);
    let _ = layout.to_string();
    let mut rekeyer = Rekeyer::new(Default::default());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Line::Capture(whole, _) = layout.read(line, Fields::ALL, true) else {
            continue;
        };
        let Line::Capture(some, _) = layout.read(line, Field::Url | Field::Status, false) else {
            panic!("a line that is right to its end is right before it");
        };
        assert_eq!(whole.key(), some.key());
        assert_eq!(whole.text(Field::Url), some.text(Field::Url));
        assert_eq!(whole.status(), some.status());
        let _ = (whole.time(), whole.other("x"), whole.number(Field::Length));
        let _ = Select::new().accepts(&whole);
        assert!(!rekeyer.surt(&whole).is_empty());
    }
});
