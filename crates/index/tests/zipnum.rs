//! ZipNum indexes that are not what they should be are refused, and never read in part.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use waypost_index::lookup::{Index, Lookup, Query, Wanted};
use waypost_index::range::Range;
use waypost_index::zipnum::{self, Flavour, ZipNum, unzip};
use waypost_io::{Format, LineWriter, Progress};

fn line(number: u32) -> String {
    format!(
        "com,example)/{number:04} 20200101000000 {{\"url\": \"http://example.com/{number:04}\"}}"
    )
}

/// A ZipNum index of so many lines, two in each block.
fn create(folder: &Path, lines: u32, shards: u64, flavour: Flavour) -> PathBuf {
    let path = folder.join("zipnum");
    let options = zipnum::Options {
        lines: 2,
        shards,
        flavour,
        ..Default::default()
    };
    let mut out = zipnum::create(&path, &options, 2).unwrap();
    for number in 0..lines {
        out.push(line(number).as_bytes()).unwrap();
    }
    out.finish().unwrap();
    path
}

fn idx(path: &Path) -> PathBuf {
    let cluster = path.join("cluster.idx");
    if cluster.exists() {
        cluster
    } else {
        path.join("index.idx")
    }
}

fn rows(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(idx(path)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn set_rows(path: &Path, rows: &[String]) {
    fs::write(idx(path), rows.join("\n") + "\n").unwrap();
}

fn unzipped(path: &Path, anywhere: bool) -> Result<Vec<u8>, String> {
    let flat = path.with_extension("flat");
    let zipnum = ZipNum::open(path).map_err(|error| error.to_string())?;
    let out = LineWriter::create(&flat, &Format::Plain, 2).unwrap();
    unzip(zipnum.anywhere(anywhere), 2, &Progress::default(), out)
        .map_err(|error| error.to_string())?;
    Ok(fs::read(flat).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_that_are_not_all_there_once_and_in_order_are_refused(
        lines in 5u32..30,
        shards in 1u64..4,
        wacz: bool,
        changes in prop::collection::vec((0..3, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (shards, flavour) = if wacz { (1, Flavour::Wacz) } else { (shards, Flavour::Cluster) };
        let path = create(folder.path(), lines, shards, flavour);
        let all: String = (0..lines).map(|number| line(number) + "\n").collect();
        prop_assert_eq!(unzipped(&path, false).unwrap(), all.as_bytes());
        let before = rows(&path);
        let headers = usize::from(wacz);
        let mut after = before.clone();
        for (change, a, b) in changes {
            let (a, b) = (headers + a.index(after.len() - headers), headers + b.index(after.len() - headers));
            match change {
                0 => after.swap(a, b),
                1 if after.len() > headers + 1 => { after.remove(a); }
                _ => after.insert(b, after[a].clone()),
            }
        }
        set_rows(&path, &after);
        match unzipped(&path, false) {
            Ok(bytes) => {
                prop_assert_eq!(bytes, all.as_bytes());
                prop_assert_eq!(after, before);
            }
            Err(error) => {
                prop_assert_ne!(after, before);
                prop_assert!(error.contains(".idx"), "{}", error);
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_row_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), 10, 2, Flavour::Cluster);
    let good = rows(&path);
    let size = |name: &str| fs::metadata(path.join(name)).unwrap().len();
    let (first, second) = (size("cdx-00000.gz"), size("cdx-00001.gz"));
    let length = |row: &String| row.split('\t').nth(3).unwrap().parse::<u64>().unwrap();
    let start = length(&good[0]);

    let without_last = &good[..good.len() - 1];
    let end = second - length(&good[4]);
    let mut swapped = good.clone();
    swapped.swap(1, 3);
    let mut beyond = good.clone();
    beyond[0] = good[0].replace(&format!("\t0\t{start}\t"), &format!("\t0\t{}\t", first + 1));
    let mut nowhere = good.clone();
    nowhere[0] = good[0].replace("\t0\t", &format!("\t{}\t", u64::MAX));
    let mut overlapping = good.clone();
    overlapping[1] = good[1].replace(&format!("\t{start}\t"), &format!("\t{}\t", start - 1));
    let cases: [(&[String], String); 7] = [
        (
            without_last,
            format!("no row covers bytes {end} to {second} of"),
        ),
        (&good[1..], format!("no row covers bytes 0 to {start} of")),
        (&good[..2], "no row refers to".to_owned()),
        (&swapped, "line 3: not sorted".to_owned()),
        (&beyond, format!("ends at byte {} of", first + 1)),
        (&nowhere, "beyond any file".to_owned()),
        (&overlapping, "overlaps that of another row".to_owned()),
    ];
    for (rows, expected) in cases {
        set_rows(&path, rows);
        let error = unzipped(&path, false).unwrap_err();
        assert!(error.contains("cluster.idx"), "{error}");
        assert!(error.contains(&expected), "{error} should say {expected}");
    }
}

#[test]
fn an_empty_member_at_the_end_needs_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), 5, 1, Flavour::Cluster);
    let data = path.join("cdx-00000.gz");
    let mut bytes = fs::read(&data).unwrap();
    bytes.extend_from_slice(&[
        31, 139, 8, 0, 0, 0, 0, 0, 0, 255, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    fs::write(&data, bytes).unwrap();
    assert!(unzipped(&path, false).is_ok());
}

#[test]
fn data_outside_the_folder_is_read_only_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), 5, 1, Flavour::Cluster);
    let outside = folder.path().join("outside.gz");
    fs::rename(path.join("cdx-00000.gz"), &outside).unwrap();
    let absolute = outside.display().to_string();
    for place in ["../outside.gz", &absolute, &format!("file://{absolute}")] {
        fs::write(path.join("cluster.loc"), format!("cdx-00000.gz\t{place}\n")).unwrap();
        let error = unzipped(&path, false).unwrap_err();
        assert!(error.contains("outside the folder"), "{error}");
        assert!(unzipped(&path, true).is_ok());
    }
    // The rows can name files, too.
    fs::remove_file(path.join("cluster.loc")).unwrap();
    for part in ["../outside", &absolute] {
        let named: Vec<String> = rows(&path)
            .iter()
            .map(|row| {
                let mut fields: Vec<&str> = row.split('\t').collect();
                fields[1] = part;
                fields.join("\t")
            })
            .collect();
        set_rows(&path, &named);
        let error = unzipped(&path, false).unwrap_err();
        assert!(error.contains("outside the folder"), "{error}");
        assert!(unzipped(&path, true).is_ok());
    }
}

#[test]
fn a_pipe_or_folder_as_data_is_refused_and_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), 5, 1, Flavour::Cluster);
    let data = path.join("cdx-00000.gz");
    fs::remove_file(&data).unwrap();
    for make in ["mkfifo", "mkdir"] {
        assert!(Command::new(make).arg(&data).status().unwrap().success());
        let error = unzipped(&path, false).unwrap_err();
        assert!(error.contains("regular file"), "{error}");
        let index = Index::open(&path).unwrap();
        let query = Query {
            ranges: vec![Range {
                start: b"com,".to_vec(),
                end: b"d".to_vec(),
            }],
        };
        let mut lookup = Lookup::new(&index, Wanted::default());
        assert!(lookup.one(&query, |_| Ok(())).is_err());
        assert!(
            Command::new("rm")
                .arg("-d")
                .arg(&data)
                .status()
                .unwrap()
                .success()
        );
    }
}
