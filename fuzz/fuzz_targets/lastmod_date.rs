//! Any bytes are a date within its bounds or a rejection; a date that was read is read again as itself
//! in every form of HTTP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_insight::lastmod::date::{self, Form};

fuzz_target!(|value: &[u8]| {
    // The first second of the year 1 and the last of the year 9999.
    const BOUNDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    if let Ok(parsed) = date::parse(value) {
        assert!(BOUNDS.contains(&parsed.time));
        for form in [Form::Rfc1123, Form::Asctime, Form::Iso8601] {
            let text = date::format(parsed.time, form).unwrap();
            assert_eq!(date::parse(text.as_bytes()).unwrap().time, parsed.time, "{text}");
        }
    }
    let captured = 1_566_390_896;
    if let Ok(parsed) = date::credible(value, captured, date::LATEST) {
        assert!((date::EARLIEST..=captured + date::LATEST).contains(&parsed.time));
    }
});
