//! Any bytes are lines of the format or errors, and what is read is written back without loss.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_summary::profile::Row;
use waypost_summary::ukvs::{Line, Reader};

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Ok(parsed) = Line::parse(line) {
            let mut again = Vec::new();
            parsed.write(&mut again);
            assert_eq!(Line::parse(&again).unwrap(), parsed);
        }
        let _ = Row::parse(line, 1, &mut Vec::new());
        let _ = Row::parse(line, 2, &mut Vec::new());
    }
    if let Ok(mut reader) = Reader::new("fuzz", bytes) {
        while let Ok(Some(_)) = reader.next_row() {}
    }
});
