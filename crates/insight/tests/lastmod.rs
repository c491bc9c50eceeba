//! Extracting Last-Modified times from a generated crawl, and adding them to its index.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use waypost_index::warc;
use waypost_index::zipnum::{self, ZipNum};
use waypost_insight::generate::{Crawl, Generated};
use waypost_insight::lastmod::add::{self, Added, Index, add};
use waypost_insight::lastmod::extract::{self, Extracted, extract};
use waypost_io::{Progress, Resources, Source};

struct World {
    folder: tempfile::TempDir,
    captures: Vec<Generated>,
}

fn world(captures: u64, seed: u64) -> World {
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures,
        segments: 3,
        seed,
        ..Crawl::default()
    };
    let captures = crawl.write_archive(folder.path()).unwrap();
    World { folder, captures }
}

impl World {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The files in folders of this name.
    fn files(&self, folder: &str) -> Vec<Source> {
        let data = self.path("crawl-data");
        let mut files = Vec::new();
        let mut folders = vec![data];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.parent().unwrap().ends_with(folder) {
                    files.push(path);
                }
            }
        }
        files.sort();
        files.into_iter().map(Source::new).collect()
    }

    fn extract(&self, files: &[Source], name: &str) -> (PathBuf, Extracted) {
        let out = self.path(name);
        let options = extract::Options::default();
        let found = extract(
            files,
            &options,
            &Resources::default(),
            &Progress::default(),
            &out,
        )
        .unwrap();
        (out, found)
    }

    fn index(&self) -> String {
        self.captures
            .iter()
            .map(|capture| capture.line.clone() + "\n")
            .collect()
    }

    /// The index with the times that were generated.
    fn expected(&self) -> String {
        self.captures
            .iter()
            .map(|capture| match capture.lastmod {
                Some(time) => format!(
                    "{}, \"lastmod\": \"{time}\"}}\n",
                    capture.line.strip_suffix('}').unwrap()
                ),
                None => capture.line.clone() + "\n",
            })
            .collect()
    }
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    Source::new(path)
        .open()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn options(memory: usize) -> add::Options {
    add::Options {
        resources: Resources {
            memory,
            ..Resources::default()
        },
        ..add::Options::default()
    }
}

#[test]
fn warc_and_wat_files_give_the_same_times_and_every_row_gets_its_own() {
    let world = world(1500, 1);
    let (from_warc, warc) = world.extract(&world.files("warc"), "warc.lastmod");
    let (from_wat, wat) = world.extract(&world.files("wat"), "wat.lastmod.gz");
    assert_eq!(text(&from_warc), text(&from_wat));
    assert_eq!((warc.damaged, wat.damaged), (0, 0));
    let with_time = world
        .captures
        .iter()
        .filter(|capture| capture.lastmod.is_some())
        .count() as u64;
    assert_eq!(warc.accepted, with_time);
    assert!(with_time > 150);
    assert_eq!(
        (warc.responses, warc.with_header),
        (wat.responses, wat.with_header)
    );
    assert_eq!(
        warc.accepted + warc.rejections.values().map(|e| e.count).sum::<u64>(),
        warc.with_header
    );
    assert_eq!(warc.rejections.len(), 3, "{:?}", warc.rejections);
    assert!(
        warc.oddities
            .values()
            .all(|examples| examples.count > 0 && !examples.first.is_empty())
    );

    let index = world.path("index.cdxj");
    fs::write(&index, world.index()).unwrap();
    for (memory, slices) in [(1 << 30, 1), (4000, 5)] {
        for name in ["out.cdxj", "out.cdxj.gz"] {
            let out = world.path(name);
            let source = Index::File(Source::new(&index));
            let added = add(&source, &[Source::new(&from_warc)], &options(memory), &out).unwrap();
            assert!(text(&out) == world.expected());
            assert_eq!(
                (added.rows, added.added, added.left_over),
                (1500, with_time, 0)
            );
            assert!(added.slices >= slices, "{}", added.slices);
            let _ = fs::remove_file(out);
        }
    }
}

fn zipped(world: &World, lines: u64, shards: u64) -> Arc<ZipNum> {
    let blocks = world.path("blocks");
    let options = zipnum::Options {
        lines,
        shards,
        ..zipnum::Options::default()
    };
    let mut writer = zipnum::create(&blocks, &options, 2).unwrap();
    writer.push_lines(world.index().as_bytes()).unwrap();
    writer.finish().unwrap();
    Arc::new(ZipNum::open(&blocks).unwrap())
}

/// The lines of each block, by its row.
fn blocks(folder: &Path) -> Vec<(String, usize)> {
    fs::read_to_string(folder.join("cluster.idx"))
        .unwrap()
        .lines()
        .map(|row| {
            let columns: Vec<&str> = row.split('\t').collect();
            let (offset, length): (usize, usize) =
                (columns[2].parse().unwrap(), columns[3].parse().unwrap());
            let bytes = fs::read(folder.join(columns[1])).unwrap();
            let mut text = String::new();
            flate2::read::GzDecoder::new(&bytes[offset..offset + length])
                .read_to_string(&mut text)
                .unwrap();
            assert!(text.starts_with(columns[0]));
            (
                format!("{} {} {}", columns[0], columns[1], columns[4]),
                text.lines().count(),
            )
        })
        .collect()
}

#[test]
fn a_zipnum_index_keeps_its_blocks_and_its_rows_say_where_they_are() {
    let world = world(700, 2);
    let (lastmod, _) = world.extract(&world.files("warc"), "a.lastmod");
    let zipnum = zipped(&world, 50, 3);
    for (memory, name) in [(1 << 30, "one"), (2000, "many")] {
        let out = world.path(name);
        let added = add(
            &Index::ZipNum(Arc::clone(&zipnum)),
            &[Source::new(&lastmod)],
            &options(memory),
            &out,
        )
        .unwrap();
        assert_eq!(added.left_over, 0);
        assert_eq!(blocks(&out), blocks(&world.path("blocks")));
        let rewritten = ZipNum::open(&out).unwrap();
        rewritten.check_rows().unwrap();
        let lines: String = rewritten
            .sources()
            .unwrap()
            .iter()
            .map(|source| text(source.path()))
            .collect();
        assert!(lines == world.expected());
        // Nothing is added twice.
        let again = world.path(&format!("{name} again"));
        let twice = add(
            &Index::ZipNum(Arc::new(rewritten)),
            &[Source::new(&lastmod)],
            &options(memory),
            &again,
        )
        .unwrap();
        assert_eq!((twice.added, twice.had), (0, added.added));
        assert_eq!(blocks(&again), blocks(&out));
    }
}

#[test]
fn rows_that_do_not_match_and_lines_that_are_no_rows_stay_as_they_are() {
    let world = world(200, 3);
    let (lastmod, _) = world.extract(&world.files("warc"), "a.lastmod");
    let lines = world.index();
    let lines: Vec<&str> = lines.lines().collect();
    // No line end at the end, others of Windows, a header, a bad line, another time of capture.
    let at = world
        .captures
        .iter()
        .position(|capture| capture.lastmod.is_some())
        .unwrap();
    let other = lines[at].replacen(" 2019", " 2018", 1);
    let mut all = vec![
        " CDX N b".to_owned(),
        other.clone(),
        "not a row".to_owned(),
        String::new(),
    ];
    all.extend(lines.iter().map(|line| (*line).to_owned()));
    let index = world.path("index.cdxj");
    let joined = all.join("\r\n");
    fs::write(&index, &joined).unwrap();
    let out = world.path("out.cdxj");
    let added = add(
        &Index::File(Source::new(&index)),
        &[Source::new(&lastmod)],
        &options(1 << 30),
        &out,
    )
    .unwrap();
    assert_eq!((added.other_capture, added.other_lines), (1, 3));
    let expected = world.expected();
    let mut expected: Vec<String> = expected.lines().map(str::to_owned).collect();
    expected.splice(0..0, all[..4].to_vec());
    assert_eq!(fs::read_to_string(&out).unwrap(), expected.join("\r\n"));
    let stripped: String = fs::read_to_string(&out)
        .unwrap()
        .split(", \"lastmod\": \"")
        .enumerate()
        .map(|(n, part)| {
            if n == 0 {
                part
            } else {
                &part[part.find('"').unwrap() + 1..]
            }
        })
        .collect();
    assert_eq!(stripped, joined);
}

#[test]
fn entries_without_a_row_are_counted_and_named() {
    let world = world(200, 4);
    let (lastmod, found) = world.extract(&world.files("warc"), "a.lastmod");
    let index = world.path("index.cdxj");
    let half: String = world
        .captures
        .iter()
        .take(100)
        .map(|capture| capture.line.clone() + "\n")
        .collect();
    fs::write(&index, half).unwrap();
    let kept = world
        .captures
        .iter()
        .take(100)
        .filter(|capture| capture.lastmod.is_some())
        .count() as u64;
    let add = |memory: usize| -> Added {
        let out = world.path(&format!("out{memory}"));
        add(
            &Index::File(Source::new(&index)),
            &[Source::new(&lastmod)],
            &options(memory),
            &out,
        )
        .unwrap()
    };
    for added in [add(1 << 30), add(1500)] {
        assert_eq!(
            (added.added, added.left_over),
            (kept, found.accepted - kept)
        );
        assert!(added.first_left_over[0].0.starts_with("crawl-data/"));
    }
    let cdx = world.path("a.cdx");
    fs::write(
        &cdx,
        "com,a)/ 20200101000000 http://a.com/ text/html 200 X - - 5 6 a.warc.gz\n",
    )
    .unwrap();
    let result = waypost_insight::lastmod::add(
        &Index::File(Source::new(&cdx)),
        &[Source::new(&lastmod)],
        &options(1 << 30),
        &world.path("x"),
    );
    assert!(result.unwrap_err().to_string().contains("not CDXJ"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Damage anywhere in a WARC: never a panic, and what is found is in the undamaged file, too.
    #[test]
    fn a_damaged_warc_gives_times_of_records_that_are_whole(at in 0usize..100_000, length in 1usize..300, byte in any::<u8>()) {
        let world = world(60, 5);
        let files = world.files("warc");
        let (whole, _) = world.extract(&files[..1], "whole");
        let mut bytes = fs::read(files[0].path()).unwrap();
        let at = at % bytes.len();
        let end = (at + length).min(bytes.len());
        bytes[at..end].fill(byte);
        fs::write(files[0].path(), bytes).unwrap();
        let out = world.path("damaged");
        let source = Source::new(files[0].path());
        if extract(&[source], &extract::Options::default(), &Resources::default(), &Progress::default(), &out).is_ok() {
            let whole = text(&whole);
            for line in text(&out).lines() {
                let offset = line.split('\t').next().unwrap();
                prop_assert!(line.starts_with('!') || whole.contains(&format!("\n{offset}\t")), "{}", line);
            }
        }
    }
}

/// The starts of records are those that are found when everything is inflated.
#[test]
fn starts_of_records_are_found_without_inflating_bodies() {
    let world = world(400, 6);
    for source in world
        .files("warc")
        .iter()
        .chain(&world.files("wat"))
        .chain(&world.files("robotstxt"))
    {
        let mut starts = Vec::new();
        let report =
            warc::read_starts(source, world.folder.path(), &Progress::default(), |start| {
                if start.kind() == Some(b"response") {
                    starts.push((start.offset(), start.uri().unwrap().into_owned()));
                }
            })
            .unwrap();
        assert!(report.damage.is_empty());
        let name = source.to_string();
        let in_index: Vec<u64> = world
            .captures
            .iter()
            .filter(|capture| {
                capture
                    .line
                    .contains(name.split_once("crawl-data").unwrap().1)
            })
            .map(|capture| {
                capture
                    .line
                    .split("\"offset\": \"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        let mut offsets: Vec<u64> = starts.iter().map(|start| start.0).collect();
        let mut expected = in_index;
        offsets.sort_unstable();
        expected.sort_unstable();
        assert_eq!(offsets, expected, "{name}");
    }
}
