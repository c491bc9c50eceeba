//! WACZ files of every kind, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File as Output};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use proptest::prelude::*;
use waypost_index::check::{self, Report};
use waypost_index::input;
use waypost_index::kind::{FileKind, detect};
use waypost_index::lookup::{Index, Lookup, Query, Wanted};
use waypost_index::range::{Match, ranges};
use waypost_index::wacz::Wacz;
use waypost_io::{Error, Mapped, Source, Zip};

#[path = "../../../tests/zip.rs"]
mod zip;

use zip::{File, deflated, stored};

fn lines(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..count {
        writeln!(
            out,
            "com,example)/{number:06} 20200101000000 {{\"url\": \"https://example.com/{number:06}\", \"status\": 200}}"
        )
        .unwrap();
    }
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn write(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("a.wacz");
    fs::write(&path, bytes).unwrap();
    path
}

fn report(path: &Path) -> Result<Report, Error> {
    let sources = input::expand([path])?.sources;
    check::check(&sources, check::Options::default())
}

fn all(source: &Source) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut stream = source.open()?;
    stream.read_to_end(&mut bytes).map_err(Error::from_read)?;
    Ok(bytes)
}

fn file() -> impl Strategy<Value = (Vec<u8>, [bool; 3])> {
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        (0_usize..400_000).prop_map(|length| b"waypost".repeat(length / 7)),
    ];
    (content, any::<[bool; 3]>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_entry_has_its_content_however_it_is_packed(
        files in prop::collection::vec(file(), 1..5),
        before in prop_oneof![Just(0_usize), 1_usize..5000],
        comment in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let names: Vec<String> = (0..files.len()).map(|n| format!("folder/é{n}")).collect();
        let files: Vec<File<'_>> = files.iter().zip(&names).map(|((content, [deflated, descriptor, zip64]), name)| {
            File { deflated: *deflated, descriptor: *descriptor, zip64: *zip64, ..stored(name, content.clone()) }
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &zip::zip(&files, before, &comment));
        let archive = Zip::open(&Source::new(path)).unwrap();
        prop_assert_eq!(archive.entries().len(), files.len());
        for (entry, file) in archive.entries().iter().zip(&files) {
            prop_assert_eq!(&entry.name, file.name);
            archive.check(entry).unwrap();
            let source = archive.source(entry).unwrap();
            prop_assert_eq!(source.size(), Some(file.content.len() as u64));
            // As a stream, twice; mapped; and in ranges.
            for _ in 0..2 {
                let mut content = Vec::new();
                if let Some(section) = source.file().unwrap() {
                    section.reader(0).read_to_end(&mut content).unwrap();
                    prop_assert_eq!(&content, &file.content);
                }
            }
            prop_assert_eq!(&Mapped::of(&source).unwrap()[..], &file.content[..]);
            let ranged = source.ranged(folder.path()).unwrap();
            let middle = file.content.len() / 2;
            let mut content = vec![0; file.content.len() - middle];
            ranged.read_at(middle as u64, &mut content).unwrap();
            prop_assert_eq!(&content, &file.content[middle..]);
            prop_assert!(ranged.read_at(file.content.len() as u64, &mut [0]).is_err());
        }
    }
}

/// A WACZ file with one index, packed in some way.
fn with_index(index: File<'_>) -> Vec<u8> {
    zip::zip(
        &[
            stored("archive/data.warc.gz", gzip(b"WARC/1.0\r\n")),
            index,
            deflated("pages/pages.jsonl", "{\"url\": \"https://example.com/\"}\n"),
            deflated("datapackage.json", "{}"),
        ],
        0,
        b"",
    )
}

#[test]
fn an_index_in_a_wacz_file_is_read_like_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(20_000);
    let plain = folder.path().join("plain.cdxj");
    fs::write(&plain, &text).unwrap();
    let expected = report(&plain).unwrap();
    for index in [
        stored("indexes/index.cdx", &text[..]),
        deflated("indexes/index.cdxj", &text[..]),
        stored("indexes/index.cdx.gz", gzip(&text)),
        deflated("indexes/index.cdxj.gz", gzip(&text)),
        File {
            descriptor: true,
            zip64: true,
            ..deflated("indexes/index.cdxj", &text[..])
        },
    ] {
        let name = format!("a.wacz/{}", index.name);
        let path = write(folder.path(), &with_index(index));
        assert_eq!(detect(&Source::new(&path)).unwrap().kind, FileKind::Wacz);
        let report = report(&path).unwrap();
        assert_eq!(report.outcome.tally, expected.outcome.tally, "{name}");
        assert!(report.is_clean() && report.uri_rs == 20_000, "{name}");
        assert!(report.outcome.files[0].name.ends_with(&name), "{name}");
        // Also in a folder, next to other files.
        let sources = input::expand([folder.path()]).unwrap().sources;
        assert_eq!(sources.len(), 2);
        assert!(!input::are_wacz(&sources) && input::are_wacz(&sources[..1]));
    }
}

#[test]
fn what_is_wrong_with_a_zip_archive_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(3000);
    let index = || deflated("indexes/index.cdxj", &text[..]);
    let with = |index: File<'_>| with_index(index);
    let whole = with(index());
    for (what, bytes, message) in [
        (
            "no WACZ file",
            zip::zip(&[stored("a.cdxj", &text[..])], 0, b""),
            "a zip archive, not a WACZ file",
        ),
        (
            "no entry",
            zip::zip(&[], 0, b""),
            "a zip archive, not a WACZ file",
        ),
        (
            "no index",
            zip::zip(&[stored("archive/a.warc", "")], 0, b""),
            "a WACZ file without an index",
        ),
        (
            "truncated",
            whole[..whole.len() - 1].to_vec(),
            "zip data ends too early",
        ),
        (
            "cut in half",
            whole[..whole.len() / 2].to_vec(),
            "zip data ends too early",
        ),
        (
            "encrypted",
            with(File {
                encrypted: true,
                ..index()
            }),
            "index.cdxj: the entry of the zip archive is encrypted",
        ),
        (
            "zstd",
            with(File {
                method: Some(93),
                ..index()
            }),
            "zip method 93",
        ),
        (
            "stored, wrong checksum",
            with(File {
                wrong_checksum: true,
                ..stored("indexes/index.cdxj", &text[..])
            }),
            "checksum of an entry differs",
        ),
    ] {
        let error = report(&write(folder.path(), &bytes))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(message) && error.contains("a.wacz"),
            "{what}: {error}"
        );
    }
    // What is inflated is read up to the damage.
    for wrong in [
        with(File {
            wrong_checksum: true,
            ..index()
        }),
        with(File {
            method: Some(8),
            ..stored("indexes/index.cdxj", &text[..])
        }),
    ] {
        let report = report(&write(folder.path(), &wrong)).unwrap();
        assert!(!report.is_clean());
        let damage = report.outcome.damage[0].to_string();
        assert!(damage.contains("the deflate data is corrupt"), "{damage}");
    }
}

#[test]
fn archives_of_more_than_four_gibibytes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(2000);
    let hole = 5 << 30;
    let files = [
        File {
            zip64: true,
            ..stored("archive/a.warc.gz", gzip(b""))
        },
        File {
            zip64: true,
            ..stored("indexes/index.cdxj", &text[..])
        },
    ];
    let (bytes, cut) = zip::zip_with_hole(&files, hole, 0, b"");
    let path = folder.path().join("a.wacz");
    let file = Output::create(&path).unwrap();
    file.write_all_at(&bytes[..cut], 0).unwrap();
    file.write_all_at(&bytes[cut..], cut as u64 + hole).unwrap();
    assert_eq!(report(&path).unwrap().uri_rs, 2000);
    let warcs = Wacz::open(&Source::new(&path)).unwrap();
    assert!(warcs.warcs().unwrap()[0].size() > Some(hole));
}

#[test]
fn no_damage_of_a_wacz_file_ends_in_a_panic_or_a_wrong_answer() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(10);
    for index in [
        stored("indexes/index.cdx", &text[..]),
        deflated("indexes/index.cdx", &text[..]),
    ] {
        let whole = zip::zip(
            &[File {
                zip64: true,
                ..index
            }],
            0,
            b"comment",
        );
        let read = |bytes: &[u8]| -> Result<Vec<u8>, Error> {
            let path = write(folder.path(), bytes);
            let sources = Wacz::open(&Source::new(path))?.indexes()?;
            all(&sources[0])
        };
        assert_eq!(read(&whole).unwrap(), text);
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
            let mut bytes = whole.clone();
            bytes[at] ^= [1, 0x80, 0xff][at % 3];
            if let Ok(read) = read(&bytes) {
                assert_eq!(read, text, "byte {at}");
            }
        }
    }
}

/// The `.idx` file and the data file of a ZipNum index in blocks of 300 lines.
fn zipnum(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut idx =
        b"!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": \"index.cdx.gz\"}\n".to_vec();
    let mut data = Vec::new();
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for block in lines.chunks(300) {
        let packed = gzip(&block.concat());
        let start = block[0].split(|byte| *byte == b'{').next().unwrap();
        idx.extend_from_slice(start);
        let place = format!(
            "{{\"offset\": {}, \"length\": {}}}\n",
            data.len(),
            packed.len()
        );
        idx.extend_from_slice(place.as_bytes());
        data.extend_from_slice(&packed);
    }
    (idx, data)
}

#[test]
fn lookups_find_what_is_in_the_index_of_a_wacz_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(3000);
    let (idx, data) = zipnum(&text);
    for files in [
        vec![stored("indexes/index.cdx", &text[..])],
        vec![deflated("indexes/index.cdxj", &text[..])],
        vec![
            deflated("indexes/index.idx", &idx[..]),
            stored("indexes/index.cdx.gz", &data[..]),
        ],
        vec![
            stored("indexes/index.idx", &idx[..]),
            deflated("indexes/index.cdx.gz", &data[..]),
        ],
    ] {
        let index = Index::open(&write(folder.path(), &zip::zip(&files, 0, b""))).unwrap();
        let mut search = Lookup::new(&index, Wanted::default());
        for number in [0, 1, 299, 300, 301, 2999, 3000] {
            let surt = format!("com,example)/{number:06}");
            let query = Query {
                ranges: ranges(b"", surt.as_bytes(), Match::Exact),
            };
            let mut found = Vec::new();
            search
                .one(&query, |row| {
                    found.extend_from_slice(row);
                    Ok(())
                })
                .unwrap();
            let expected: &[u8] = text
                .split_inclusive(|b| *b == b'\n')
                .nth(number)
                .unwrap_or_default();
            assert_eq!(found, expected, "{number}");
        }
    }
    // A gzip file without an .idx file cannot be searched.
    let files = [stored("indexes/index.cdx.gz", gzip(&text))];
    let path = write(folder.path(), &zip::zip(&files, 0, b""));
    let error = Index::open(&path).err().unwrap().to_string();
    assert!(error.contains("gzip"), "{error}");
    // Neither can several indexes at once.
    let files = [
        stored("indexes/a.cdxj", &text[..]),
        stored("indexes/b.cdxj", &text[..]),
    ];
    let path = write(folder.path(), &zip::zip(&files, 0, b""));
    let error = Index::open(&path).err().unwrap().to_string();
    assert!(error.contains("several indexes"), "{error}");
}
