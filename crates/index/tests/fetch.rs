//! Records read by file, offset and length, as an index gives them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;

use proptest::prelude::*;
use waypost_index::warc::WarcRecord;
use waypost_io::{ErrorKind, FileRange};

fn record(number: usize, body: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let mut record = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.com/{number}\r\n\
         WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Length: {}\r\n\r\n{head}",
        head.len() + body.len()
    )
    .into_bytes();
    record.extend_from_slice(body);
    record.extend_from_slice(b"\r\n\r\n");
    record
}

fn packed(compression: u8, record: &[u8]) -> Vec<u8> {
    match compression {
        0 => record.to_vec(),
        1 => zstd::encode_all(record, 1).unwrap(),
        _ => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(record).unwrap();
            out.finish().unwrap()
        }
    }
}

/// Bytes that do not compress well.
fn noise(size: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        (seed >> 33) as u8
    };
    (0..size).map(|_| next()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_is_read_with_and_without_its_length(
        sizes in prop::collection::vec(prop_oneof![0usize..100, 60_000usize..300_000], 1..4),
        compression in 0u8..3,
        seed: u64,
        cut: prop::sample::Index,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.warc");
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (number, size) in sizes.iter().enumerate() {
            let record = record(number, &noise(*size, seed));
            let stored = packed(compression, &record);
            places.push((bytes.len() as u64, stored.len() as u64, record));
            bytes.extend_from_slice(&stored);
        }
        fs::write(&path, &bytes).unwrap();
        let file = FileRange::open(&path).unwrap();
        for (number, (offset, length, record)) in places.iter().enumerate() {
            for length in [Some(*length), None, Some(0)] {
                let read = WarcRecord::read(&file, *offset, length, 1 << 20).unwrap();
                prop_assert_eq!(read.bytes(), &record[..]);
                let uri = format!("http://example.com/{number}");
                prop_assert_eq!(read.uri(), Some(&*uri));
                prop_assert_eq!(read.kind(), "response");
                let body = noise(sizes[number], seed);
                prop_assert_eq!(&read.body(1 << 20).unwrap()[..], &body[..]);
                prop_assert!(read.http_head().unwrap().ends_with(b"\r\n\r\n"));
                prop_assert_eq!(read.content().len(), read.http_head().unwrap().len() + body.len());
                let small = WarcRecord::read(&file, *offset, length, 50).unwrap_err();
                prop_assert!(matches!(small.kind(), ErrorKind::TooLarge { bytes: 50 }), "{}", small);
            }
            if compression > 0 {
                // A length that is too short or too long, or another place.
                prop_assert!(WarcRecord::read(&file, *offset, Some(length - 1), 1 << 20).is_err());
                prop_assert!(WarcRecord::read(&file, *offset, Some(length + 1), 1 << 20).is_err());
            }
            prop_assert!(WarcRecord::read(&file, offset + 1, None, 1 << 20).is_err());
        }
        // A file that is cut within its last record. The empty lines behind it are not needed.
        let (offset, length, _) = places.last().unwrap();
        let needed = if compression == 0 { length - 4 } else { *length };
        let cut = offset + cut.index(needed as usize) as u64;
        fs::write(&path, &bytes[..cut as usize]).unwrap();
        let file = FileRange::open(&path).unwrap();
        for length in [Some(*length), None] {
            let error = WarcRecord::read(&file, *offset, length, 1 << 20).unwrap_err();
            prop_assert!(error.to_string().contains("a.warc: byte"), "{}", error);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), start in 0usize..4) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.warc");
        let starts: [&[u8]; 4] = [b"", b"WARC/1.0\r\nContent-Length: 9\r\n\r\n", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd"];
        fs::write(&path, [starts[start], &bytes].concat()).unwrap();
        let file = FileRange::open(&path).unwrap();
        for length in [None, Some(10), Some(u64::MAX)] {
            if let Ok(read) = WarcRecord::read(&file, 0, length, 1 << 20) {
                let _ = read.body(1 << 20);
            }
        }
    }
}

#[test]
fn frames_with_a_dictionary_are_read() {
    let samples: Vec<Vec<u8>> = (0..10).map(|n| record(n, &noise(40, n as u64))).collect();
    // Any bytes can be a dictionary.
    let dictionary = samples[..10].concat();
    let mut bytes = b"\x5d\x2a\x4d\x18".to_vec();
    bytes.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&dictionary);
    let offset = bytes.len() as u64;
    let mut compressor = zstd::bulk::Compressor::with_dictionary(1, &dictionary).unwrap();
    bytes.extend_from_slice(&compressor.compress(&samples[7]).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.warc.zst");
    fs::write(&path, bytes).unwrap();
    let file = FileRange::open(&path).unwrap();
    let read = WarcRecord::read(&file, offset, None, 1 << 20).unwrap();
    assert_eq!(read.bytes(), samples[7]);
}

#[test]
fn records_of_arc_files_are_read() {
    let http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>Old</h1>";
    let arc = format!(
        "http://example.com/old 1.2.3.4 20000101000000 text/html {}\n{http}\n",
        http.len()
    );
    let folder = tempfile::tempdir().unwrap();
    for compression in [0, 2] {
        let path = folder.path().join("a.arc");
        fs::write(&path, packed(compression, arc.as_bytes())).unwrap();
        let file = FileRange::open(&path).unwrap();
        let read = WarcRecord::read(&file, 0, None, 1 << 20).unwrap();
        assert_eq!(read.bytes(), arc.as_bytes());
        assert_eq!(read.uri(), Some("http://example.com/old"));
        assert_eq!(&read.body(100).unwrap()[..], b"<h1>Old</h1>");
    }
}
