//! What is written as Parquet is read as the same captures, whatever their order was.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use waypost_io::{FileRange, Source};
use waypost_parquet::{Options, write};

/// The lines of all part files, in order.
fn lines(folder: &Path) -> Vec<String> {
    let mut text = String::new();
    for path in parts(folder) {
        let file = Arc::new(FileRange::open(&path).unwrap());
        let mut lines = waypost_parquet::lines(file).unwrap();
        lines.read_to_string(&mut text).unwrap();
    }
    text.lines().map(str::to_owned).collect()
}

fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(parts(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// A line as it is read back: with every field that a row has.
fn line((path, time, status, size): &(String, u64, Option<u16>, u32)) -> String {
    let status = status.map_or(String::new(), |status| {
        format!("\"status\": \"{status}\", ")
    });
    let digest = format!("{size:032}");
    format!(
        "com,example)/{path} {time} {{\"url\": \"http://example.com/{path}\", \"mime\": \"text/html\", \
         {status}\"digest\": \"{digest}\", \"length\": \"{size}\", \"offset\": \"{}\", \
         \"filename\": \"a.warc.gz\", \"languages\": \"deu,eng\"}}",
        size / 2
    )
}

fn options() -> Options<'static> {
    Options {
        crawl: "test".to_owned(),
        rows: Some(7),
        ..Options::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn captures_of_any_order_are_read_back_sorted(
        captures in prop::collection::vec(
            ("[a-z]{0,6}", 20_000_101_000_000..=20_000_101_000_059_u64, prop::option::of(100..600_u16), 0..1_000_000_u32),
            1..40,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut expected: Vec<String> = captures.iter().map(line).collect();
        let index = folder.path().join("index.cdxj");
        fs::write(&index, expected.join("\n") + "\n").unwrap();
        let out = folder.path().join("table");
        let was_sorted = expected.is_sorted_by_key(|line| line.split(' ').next().unwrap().to_owned());
        let report = write(&[Source::new(&index)], options(), &out).unwrap();
        prop_assert_eq!(report.rows, captures.len() as u64);
        prop_assert_eq!(report.sorted, !was_sorted);
        if !was_sorted {
            expected.sort();
        }
        prop_assert_eq!(lines(&out), expected);
    }
}

#[test]
fn damage_is_found_and_other_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.cdxj");
    let text: Vec<String> = (0..500)
        .map(|number| {
            line(&(
                format!("{number:04}"),
                20_200_101_000_000,
                Some(200),
                number,
            ))
        })
        .collect();
    fs::write(&index, text.join("\n") + "\n").unwrap();
    let out = folder.path().join("table");
    let options = Options {
        rows: Some(250),
        ..options()
    };
    write(&[Source::new(&index)], options, &out).unwrap();
    let path = parts(&out).remove(0);
    let whole = fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        let copy = folder.path().join("copy.parquet");
        fs::write(&copy, bytes).unwrap();
        let file = Arc::new(FileRange::open(&copy).unwrap());
        let mut text = Vec::new();
        waypost_parquet::lines(file).and_then(|mut lines| {
            lines
                .read_to_end(&mut text)
                .map_err(waypost_io::Error::from_read)?;
            Ok(text)
        })
    };
    assert_eq!(
        open(&whole)
            .unwrap()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count(),
        500
    );
    // Cut anywhere, or with other bytes anywhere: an error that names the file, or the same rows.
    for cut in [0, 4, 8, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        let error = open(&whole[..cut]).unwrap_err();
        assert!(error.to_string().contains("copy.parquet"), "{error}");
    }
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut other = whole.clone();
        other[at] ^= 0x55;
        if let Err(error) = open(&other) {
            assert!(error.to_string().contains("copy.parquet"), "{error}");
        }
    }
}
