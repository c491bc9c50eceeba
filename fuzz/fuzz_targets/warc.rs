//! Any bytes are a WARC or ARC file, whole or damaged: every record becomes a line that can be read, or
//! is named as damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_index::Fields;
use waypost_index::layout::{FileLayout, Line};
use waypost_index::rejects::Bad;
use waypost_index::warc::{self, Options, Records};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let options = Options {
        records: match first & 1 {
            0 => Records::All,
            _ => Records::Usual,
        },
        post_append: first & 2 != 0,
        digest: first & 4 != 0,
        ..Options::default()
    };
    let Some((lines, report)) = warc::index_bytes(bytes, "a.warc", &options) else {
        return;
    };
    let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(count, report.lines);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap();
        match FileLayout::default().read(line, Fields::ALL, true) {
            // The URL of a record is copied, whatever it is.
            Line::Capture(..) | Line::Bad(Bad::Url) => {}
            Line::Header | Line::Bad(_) => panic!("{}", String::from_utf8_lossy(line)),
        }
    }
});
