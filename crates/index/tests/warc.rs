//! WARCs of every compression, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use waypost_index::Fields;
use waypost_index::layout::{FileLayout, Line};
use waypost_index::warc::{self, Options, Records};
use waypost_io::{Progress, Resources, Source};

fn record(number: usize, size: usize, with_digest: bool) -> Vec<u8> {
    let mut body =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html; x\r\n\r\n{number}").into_bytes();
    // Something that does not compress, so that large records are large on disk, too.
    body.extend((0..size).map(|at| {
        (at as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_be_bytes()[1]
    }));
    let digest = match with_digest {
        true => format!("WARC-Payload-Digest: sha1:{number:032}\r\n"),
        false => String::new(),
    };
    let mut out = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.com/{number:04}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n{digest}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    out.extend(body);
    out.extend(b"\r\n\r\n");
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// With a checksum: without one, nothing tells that content changed.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A frame whose header gives the length of the content.
fn zstd_with_size(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = ::zstd::bulk::Compressor::new(1).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(bytes).unwrap()
}

/// The keys, lines and damaged offsets of a file.
struct Indexed {
    urls: Vec<usize>,
    lines: Vec<String>,
    damage: Vec<(u64, String)>,
}

fn index(path: &Path, options: &Options, memory: usize) -> Indexed {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lines");
    let resources = Resources {
        memory,
        ..Resources::default()
    };
    let files = [Source::new(path)];
    let report = warc::index(&files, options, &resources, &Progress::default(), &out).unwrap();
    assert_eq!(report.damage.len() as u64, report.damaged);
    let text = fs::read(out).unwrap();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    Indexed {
        urls: lines
            .iter()
            // A damaged URL may have no number.
            .filter_map(|line| line.get(13..17)?.parse().ok())
            .collect(),
        lines,
        damage: report
            .damage
            .iter()
            .map(|error| (error.place().byte.unwrap(), error.kind().to_string()))
            .collect(),
    }
}

fn write(folder: &Path, name: &str, units: &[Vec<u8>]) -> (std::path::PathBuf, Vec<usize>) {
    let path = folder.join(name);
    fs::write(&path, units.concat()).unwrap();
    let mut starts = vec![0];
    starts.extend(units.iter().scan(0, |at, unit| {
        *at += unit.len();
        Some(*at)
    }));
    (path, starts)
}

/// A file name and how its records are compressed.
type Compression = (&'static str, fn(&[u8]) -> Vec<u8>);

fn compressions() -> [Compression; 3] {
    [
        ("a.warc", |bytes| bytes.to_vec()),
        ("a.warc.gz", gzip),
        ("a.warc.zst", zstd),
    ]
}

/// The two ways to read bodies.
fn reading() -> [Options; 2] {
    [false, true].map(|skip_bodies| Options {
        skip_bodies,
        ..Options::default()
    })
}

#[test]
fn offsets_and_lengths_lead_to_the_record() {
    let folder = tempfile::tempdir().unwrap();
    for (name, compress) in compressions() {
        let records: Vec<Vec<u8>> = (0..20)
            .map(|n| record(n, 3 << (n / 2), n % 3 == 0))
            .collect();
        let units: Vec<Vec<u8>> = records.iter().map(|record| compress(record)).collect();
        let (path, starts) = write(folder.path(), name, &units);
        let [indexed, skipped] = reading().map(|options| index(&path, &options, 1 << 30));
        assert_eq!(indexed.urls, (0..20).collect::<Vec<_>>(), "{name}");
        assert_eq!(indexed.damage, [], "{name}");
        assert_eq!(indexed.lines, skipped.lines, "{name}");
        assert_eq!(skipped.damage, [], "{name}");
        for (n, line) in indexed.lines.iter().enumerate() {
            assert!(
                line.contains(&format!("\"offset\": \"{}\"", starts[n])),
                "{name} {line}"
            );
            // Without compression, the empty lines behind a record do not count.
            let length = units[n].len() - if name == "a.warc" { 4 } else { 0 };
            assert!(
                line.contains(&format!("\"length\": \"{length}\"")),
                "{name} {line}"
            );
        }
    }
}

#[test]
fn a_record_larger_than_the_memory_is_read_as_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let records = [
        record(0, 10, false),
        record(1, 40 << 20, false),
        record(2, 10, true),
    ];
    let mut digests = Vec::new();
    for (name, compress) in compressions() {
        let units: Vec<Vec<u8>> = records.iter().map(|record| compress(record)).collect();
        let (path, _) = write(folder.path(), name, &units);
        for options in reading() {
            let indexed = index(&path, &options, 64 << 20);
            assert_eq!(indexed.urls, [0, 1, 2], "{name}");
            let digest = indexed.lines[1].split("\"digest\": \"").nth(1).unwrap();
            digests.push(digest[..37].to_owned());
        }
    }
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
}

#[test]
fn records_compressed_with_a_dictionary_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let records: Vec<Vec<u8>> = (0..50).map(|n| record(n, 10, true)).collect();
    // Any bytes are a dictionary.
    let dictionary = record(999, 100, true);
    for stored in [dictionary.clone(), zstd(&dictionary)] {
        let mut head = b"\x5d\x2a\x4d\x18".to_vec();
        head.extend((stored.len() as u32).to_le_bytes());
        head.extend(stored);
        let mut units = vec![head];
        let mut compressor = zstd::bulk::Compressor::with_dictionary(3, &dictionary).unwrap();
        units.extend(
            records
                .iter()
                .map(|record| compressor.compress(record).unwrap()),
        );
        let (path, _) = write(folder.path(), "d.warc.zst", &units);
        let indexed = index(&path, &Options::default(), 1 << 30);
        assert_eq!(indexed.urls.len(), 50);
        assert_eq!(indexed.damage, []);
    }
}

#[test]
fn records_compressed_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let together = gzip(&[record(0, 9, true), record(1, 9, true)].concat());
    let (path, _) = write(
        folder.path(),
        "a.warc.gz",
        &[together, gzip(&record(2, 9, true))],
    );
    let indexed = index(&path, &Options::default(), 1 << 30);
    assert!(indexed.urls.is_empty());
    assert!(
        indexed.damage[0].1.contains("compressed together"),
        "{:?}",
        indexed.damage
    );
}

#[test]
fn what_is_not_an_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("a.txt", b"some text\nand more\n".to_vec()),
        ("a.gz", gzip(b"some text\n")),
        ("a.zst", zstd(b"some text\n")),
    ] {
        let (path, _) = write(folder.path(), name, &[bytes]);
        let out = folder.path().join("out");
        let result = warc::index(
            &[Source::new(path)],
            &Options::default(),
            &Resources::default(),
            &Progress::default(),
            &out,
        );
        let message = result.unwrap_err().to_string();
        assert!(
            message.contains("not a WARC or ARC file"),
            "{name}: {message}"
        );
        assert!(!out.exists());
    }
}

#[test]
fn a_member_within_a_payload_is_not_a_record() {
    let folder = tempfile::tempdir().unwrap();
    // A WARC that holds a WARC: stored, so that the inner members can be seen.
    let inner = [gzip(&record(7, 50, true)), gzip(&record(8, 50, true))].concat();
    let mut outer = format!(
        "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/0000\r\nWARC-Date: 2020-01-01T00:00:00Z\r\nContent-Length: {}\r\n\r\n",
        inner.len()
    )
    .into_bytes();
    outer.extend(&inner);
    outer.extend(b"\r\n\r\n");
    let mut stored = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    stored.write_all(&outer).unwrap();
    let units = [stored.finish().unwrap(), gzip(&record(1, 9, true))];
    let (path, _) = write(folder.path(), "a.warc.gz", &units);
    let indexed = index(&path, &Options::default(), 1 << 30);
    assert_eq!(indexed.urls, [0, 1]);
    assert_eq!(indexed.damage, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damage_costs_the_records_it_hits(
        which in 0..3_usize, sizes in prop::collection::vec(0..9000_usize, 3..9), skip_bodies: bool,
        hit in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (name, compress) = compressions()[which];
        let mut units: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(n, size)| compress(&record(n, *size, true))).collect();
        let hit = hit.index(units.len());
        let byte = byte.index(units[hit].len());
        units[hit][byte] ^= with | 1;
        let (path, starts) = write(folder.path(), name, &units);
        // The file is refused if the damage makes it look like another kind.
        if hit == 0 && byte < 8 {
            return Ok(());
        }
        let indexed = index(&path, &Options { records: Records::All, skip_bodies, ..Options::default() }, 1 << 30);
        // Without compression nothing tells that content changed, and a changed length may hide
        // what follows up to the next record.
        let untouched = (0..units.len()).filter(|n| *n != hit);
        if which == 0 {
            let found = untouched.filter(|n| indexed.urls.contains(n)).count();
            prop_assert!(found + 2 >= units.len(), "{:?} {:?}", indexed.urls, indexed.damage);
        } else {
            for n in untouched {
                prop_assert!(indexed.urls.contains(&n), "{:?} {:?}", indexed.urls, indexed.damage);
            }
            if !indexed.urls.contains(&hit) {
                prop_assert_eq!(indexed.damage[0].0, starts[hit] as u64);
            }
        }
    }

    #[test]
    fn a_truncated_file_keeps_its_whole_records(
        which in 0..3_usize, sizes in prop::collection::vec(0..9000_usize, 2..6), skip_bodies: bool,
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (name, compress) = compressions()[which];
        let units: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(n, size)| compress(&record(n, *size, true))).collect();
        let (path, starts) = write(folder.path(), name, &units);
        let whole = fs::read(&path).unwrap();
        let first = starts[1];
        let cut = first + cut.index(whole.len() - first);
        fs::write(&path, &whole[..cut]).unwrap();
        let indexed = index(&path, &Options { skip_bodies, ..Options::default() }, 1 << 30);
        // Without compression, a record is whole without the empty lines behind it.
        let behind = if which == 0 { 4 } else { 0 };
        let complete = starts[1..].iter().filter(|end| **end - behind <= cut).count();
        prop_assert_eq!(&indexed.urls, &(0..complete).collect::<Vec<_>>());
        let is_between = starts[complete] >= cut || which == 0 && starts[complete] + 1 > cut;
        if !is_between {
            prop_assert_eq!(indexed.damage.len(), 1, "{:?}", &indexed.damage);
            prop_assert_eq!(indexed.damage[0].0, starts[complete] as u64);
        }
    }
}

/// A body, and whether it compresses.
#[derive(Clone, Debug)]
enum Body {
    Text(usize),
    Noise(usize),
    /// A WARC file of records of these sizes.
    Warc(Vec<usize>),
    /// What the end of its own record looks like, and then another record; again at its end, if true.
    Forged(usize, bool),
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        (0..40_000_usize).prop_map(Body::Text),
        (0..20_000_usize).prop_map(Body::Noise),
        prop::collection::vec(0..9000_usize, 1..4).prop_map(Body::Warc),
        (0..9000_usize, any::<bool>()).prop_map(|(size, twice)| Body::Forged(size, twice)),
    ]
}

/// A record with a body. `fields` pads its head.
fn record_of(number: usize, kind: &str, body: &Body, with_digest: bool, fields: usize) -> Vec<u8> {
    let http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let head = |length: usize| {
        let digest = match with_digest {
            true => format!("WARC-Payload-Digest: sha1:{number:032}\r\n"),
            false => String::new(),
        };
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://example.com/{number:04}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\nX: {}\r\n{digest}Content-Length: {length:07}\r\n\r\n",
            "x".repeat(fields)
        )
    };
    let mut content = http.as_bytes().to_vec();
    match body {
        Body::Text(size) => content.extend(b"some words and more ".iter().cycle().take(*size)),
        Body::Noise(size) => content.extend(&record(0, *size, true)[..*size]),
        Body::Warc(sizes) => content.extend(
            sizes
                .iter()
                .enumerate()
                .flat_map(|(n, size)| gzip(&record(7000 + n, *size, true))),
        ),
        Body::Forged(size, twice) => {
            let inner = gzip(&record(8000 + number, *size, true));
            let copies = 1 + usize::from(*twice);
            let length = content.len() + copies * (4 + inner.len()) + 100;
            let total = (head(length).len() + length + 4) as u32;
            for _ in 0..copies {
                content.extend(total.to_le_bytes());
                content.extend(&inner);
            }
            content.extend([b'x'; 100]);
        }
    }
    let mut out = head(content.len()).into_bytes();
    out.extend(content);
    out.extend(b"\r\n\r\n");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn skipping_bodies_changes_no_line(
        records in prop::collection::vec(
            (body(), 0..4_usize, any::<bool>(), 0..3_usize, prop_oneof![Just(0), 0..20_000_usize]), 1..6),
        post_append: bool, digest: bool, in_zstd: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let units: Vec<Vec<u8>> = records
            .iter()
            .enumerate()
            .map(|(n, (body, kind, with_digest, level, fields))| {
                let kind = ["response", "resource", "request", "metadata"][*kind];
                let record = record_of(n, kind, body, *with_digest, *fields);
                if in_zstd {
                    return zstd_with_size(&record);
                }
                // Stored, so that everything in the body can be seen; with one table; and as usual.
                let level = flate2::Compression::new([0, 1, 6][*level]);
                let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
                out.write_all(&record).unwrap();
                out.finish().unwrap()
            })
            .collect();
        let (path, _) = write(folder.path(), "a.warc.gz", &units);
        let [full, skipped] = reading()
            .map(|options| index(&path, &Options { post_append, digest, ..options }, 1 << 30));
        prop_assert_eq!(full.lines, skipped.lines);
        prop_assert_eq!(&full.damage, &[]);
        prop_assert_eq!(&skipped.damage, &[]);
    }
}

#[test]
fn bodies_are_skipped_only_on_request_and_only_with_a_digest() {
    let folder = tempfile::tempdir().unwrap();
    for (with_digest, is_skipped) in [(true, true), (false, false)] {
        let text = Body::Text(40_000);
        let records = [0, 1].map(|n| record_of(n, "response", &text, with_digest, n));
        for name in ["a.warc.gz", "a.warc.zst"] {
            let mut units = records.clone().map(|record| match name {
                "a.warc.zst" => zstd_with_size(&record),
                _ => gzip(&record),
            });
            // The last byte of the checksum.
            let length = units[0].len();
            let place = if name == "a.warc.gz" { 5 } else { 1 };
            units[0][length - place] ^= 0x55;
            let (path, _) = write(folder.path(), name, &units);
            let [full, skipped] = reading().map(|options| index(&path, &options, 1 << 30));
            assert_eq!((full.urls.len(), full.damage.len()), (1, 1), "{name}");
            if is_skipped {
                assert_eq!(skipped.urls, [0, 1], "{name}");
                assert_eq!(skipped.damage, [], "{name}");
            } else {
                assert_eq!(skipped.lines, full.lines, "{name}");
                assert_eq!(skipped.damage, full.damage, "{name}");
            }
        }
    }
}

#[test]
fn a_damaged_start_behind_a_record_of_the_same_length_is_noticed_without_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let records = [0, 1, 2].map(|n| gzip(&record(n, 9000, true)));
    let mut bytes = records.concat();
    let second = records[0].len();
    bytes[second + 1] ^= 0xff;
    let (path, _) = write(folder.path(), "a.warc.gz", &[bytes]);
    for options in reading() {
        let indexed = index(&path, &options, 1 << 30);
        assert_eq!(indexed.urls, [0, 2]);
        assert_eq!(indexed.damage.len(), 1);
        assert_eq!(indexed.damage[0].0, second as u64);
    }
}

#[test]
fn every_url_gives_a_line_that_is_read_as_a_capture() {
    for uri in [
        "{a}.com/",
        "!a.com/",
        "http://{a}/",
        "a b.com/ c",
        "urn:x y",
    ] {
        let record = format!(
            "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
        );
        let (lines, report) =
            warc::index_bytes(record.as_bytes(), "a.warc", &Options::default()).unwrap();
        assert_eq!((report.lines, report.damaged), (1, 0), "{uri}");
        let line = lines.strip_suffix(b"\n").unwrap();
        let read = FileLayout::default().read(line, Fields::ALL, true);
        assert!(
            matches!(read, Line::Capture(..)),
            "{read:?} {}",
            String::from_utf8_lossy(line)
        );
    }
}
