//! Sorting and merging: nothing lost, nothing invented, in order, whatever the memory.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waypost_index::merge::{Addition, merge};
use waypost_index::zipnum;
use waypost_io::gzip::Gzip;
use waypost_io::sort::{LEAST_MEMORY, Options, Report, sort};
use waypost_io::{ErrorKind, Format, LineWriter, Progress, Resources, Source};

fn options(folder: &Path, threads: usize, unique: bool) -> Options {
    Options {
        resources: Resources {
            memory: LEAST_MEMORY,
            temporary: folder.to_owned(),
            threads,
        },
        unique,
        progress: Progress::default(),
    }
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn write_all(folder: &Path, contents: &[Vec<u8>]) -> Vec<Source> {
    let write = |(at, content): (usize, &Vec<u8>)| {
        let path = folder.join(format!("in-{at}"));
        fs::write(&path, content).unwrap();
        Source::new(path)
    };
    contents.iter().enumerate().map(write).collect()
}

fn run(
    folder: &Path,
    work: impl FnOnce(&mut LineWriter) -> waypost_io::Result<Report>,
) -> (Vec<u8>, Report) {
    let path: PathBuf = folder.join("out");
    let mut out = LineWriter::create(&path, &Format::Plain, 2).unwrap();
    let report = work(&mut out).unwrap();
    let written = out.finish().unwrap();
    assert_eq!(written.lines, report.lines_out);
    (fs::read(path).unwrap(), report)
}

/// Bytes that are hard on a sorter: zeros, carriage returns, high bytes, long common beginnings.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![b'\n', b'\n', 0, b'\r', b'a', 0xff, b' ', 0x0b]);
    prop_oneof![
        prop::collection::vec(byte, 0..200),
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec("com,example\\)/[ab]{0,9} 20[0-9]{2}", 0..30)
            .prop_map(|lines| lines.join("\n").into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sorting_keeps_every_line_and_no_other(
        contents in prop::collection::vec(hostile(), 0..4),
        threads in 1usize..4,
        unique: bool,
    ) {
        // Bytes that look compressed are read as such, which is another test.
        let plain = |c: &Vec<u8>| !matches!(c[..], [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [b'B', b'Z', ..] | [_, 0x2a, 0x4d, ..]);
        prop_assume!(contents.iter().all(plain));
        let folder = tempfile::tempdir().unwrap();
        let sources = write_all(folder.path(), &contents);
        let (out, report) = run(folder.path(), |out| {
            sort(&sources, &options(folder.path(), threads, unique), out)
        });
        let mut expected: Vec<Vec<u8>> = contents.iter().flat_map(|c| lines(c)).collect();
        prop_assert_eq!(report.lines_in, expected.len() as u64);
        expected.sort();
        if unique {
            expected.dedup();
        }
        prop_assert_eq!(lines(&out), expected);
    }

    #[test]
    fn merging_sorted_files_is_sorting_them(
        contents in prop::collection::vec(hostile(), 0..5),
        unique: bool,
    ) {
        let plain = |c: &Vec<u8>| !matches!(c[..], [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [b'B', b'Z', ..] | [_, 0x2a, 0x4d, ..]);
        let folder = tempfile::tempdir().unwrap();
        let sorted: Vec<Vec<u8>> = contents
            .iter()
            .map(|content| {
                let mut lines = lines(content);
                lines.sort();
                lines.join(&b'\n')
            })
            .collect();
        prop_assume!(sorted.iter().all(plain));
        // Joining drops the newline of a last empty line.
        let mut expected: Vec<Vec<u8>> = sorted.iter().flat_map(|c| lines(c)).collect();
        expected.sort();
        if unique {
            expected.dedup();
        }
        let sources = write_all(folder.path(), &sorted);
        let (out, _) = run(folder.path(), |out| {
            merge(&sources, &options(folder.path(), 2, unique), None, out)
        });
        prop_assert_eq!(lines(&out), expected);
    }
}

fn gzip(text: &[u8], level: u8) -> Vec<u8> {
    let mut packed = Vec::new();
    Gzip::new(level).compress(text, &mut packed).unwrap();
    packed
}

/// Enough memory to inflate members in parallel.
const MEMBERS: usize = 64 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn members_are_read_in_parallel_like_a_stream(
        contents in prop::collection::vec(
            prop::collection::vec((hostile(), prop::sample::select(vec![0u8, 1, 6])), 0..6), 1..4),
        repeats in prop::sample::select(vec![1usize, 3, 2000]),
        damage in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
        padding in prop::sample::select(vec![0usize, 0, 7]),
        unique: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut files: Vec<Vec<u8>> = contents
            .iter()
            .map(|members| {
                let packed = members.iter().map(|(text, level)| gzip(text, *level));
                let mut file = packed.collect::<Vec<_>>().concat().repeat(repeats);
                // A file of one member, and one that is not compressed when it is empty.
                file.resize(file.len() + padding, 0);
                file
            })
            .collect();
        if let Some((at, change)) = damage
            && let Some(file) = files.first_mut().filter(|file| !file.is_empty())
        {
            let at = at.index(file.len());
            file[at] ^= change;
        }
        let sources = write_all(folder.path(), &files);
        let sorted = |threads| {
            let mut options = options(folder.path(), threads, unique);
            options.resources.memory = MEMBERS;
            let path = folder.path().join("out");
            let mut out = LineWriter::create(&path, &Format::Plain, threads).unwrap();
            let report = sort(&sources, &options, &mut out).map_err(|error| error.to_string())?;
            out.finish().unwrap();
            let damaged: Vec<_> = report.damaged.iter().map(ToString::to_string).collect();
            Ok::<_, String>((fs::read(path).unwrap(), report.lines_in, damaged))
        };
        prop_assert!(sorted(1) == sorted(4));
    }
}

#[test]
fn many_members_are_sorted_into_many_chunks_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let content = many_lines(600_000);
    let packed = folder.path().join("in.gz");
    let mut out = LineWriter::create(&packed, &Format::Gzip { level: 1 }, 2).unwrap();
    out.push_lines(&content).unwrap();
    out.finish().unwrap();
    let mut expected = lines(&content);
    expected.sort();
    for threads in [1, 3, 9] {
        let mut options = options(folder.path(), threads, false);
        options.resources.memory = MEMBERS;
        let sources = [Source::new(&packed), Source::new(&packed)];
        let (out, report) = run(folder.path(), |out| sort(&sources[..1], &options, out));
        assert!(lines(&out) == expected, "{threads} threads");
        assert!(report.damaged.is_empty());
        options.unique = true;
        let (out, report) = run(folder.path(), |out| sort(&sources, &options, out));
        expected.dedup();
        assert!(lines(&out) == expected, "{threads} threads");
        assert_eq!(report.lines_in, 1_200_000);
    }
}

#[test]
fn pipes_are_sorted_and_merged_like_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("plain", b"b\nc\n".to_vec()), ("gzip", gzip(b"a\nb\n", 6))] {
        let path = folder.path().join(name);
        for merging in [false, true] {
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            let (out, report) = std::thread::scope(|scope| {
                scope.spawn(|| fs::write(&path, &text).unwrap());
                let mut options = options(folder.path(), 3, false);
                options.resources.memory = MEMBERS;
                let sources = [Source::new(&path)];
                run(folder.path(), |out| match merging {
                    false => sort(&sources, &options, out),
                    true => merge(&sources, &options, None, out),
                })
            });
            assert_eq!((lines(&out).len(), report.lines_in), (2, 2), "{name}");
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Lines in a scrambled order, more than fit in the least memory several times over.
fn many_lines(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0..count {
        let scrambled = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = format!(
            "com,example{})/{:x} 2020 {{\"length\": \"{}\"}}\n",
            scrambled % 97,
            scrambled >> 20,
            n % 1000
        );
        out.extend_from_slice(line.as_bytes());
    }
    out
}

#[test]
fn results_do_not_depend_on_threads_or_memory() {
    let folder = tempfile::tempdir().unwrap();
    let content = many_lines(400_000);
    let sources = write_all(folder.path(), std::slice::from_ref(&content));
    let mut expected = lines(&content);
    expected.sort();
    for (memory, threads) in [
        (LEAST_MEMORY, 1),
        (LEAST_MEMORY, 3),
        (9 << 20, 2),
        (1 << 30, 2),
    ] {
        let mut options = options(folder.path(), threads, false);
        options.resources.memory = memory;
        let (out, report) = run(folder.path(), |out| sort(&sources, &options, out));
        assert_eq!(report.runs > 0, memory < (1 << 30), "{report:?}");
        assert!(
            lines(&out) == expected,
            "memory {memory}, threads {threads}"
        );
    }
}

#[test]
fn more_runs_than_can_be_merged_at_once_are_merged_in_several_passes() {
    let folder = tempfile::tempdir().unwrap();
    // Short lines, which fill the memory with their places: hundreds of runs.
    let content = many_lines(1_500_000);
    let sources = write_all(folder.path(), std::slice::from_ref(&content));
    let (out, report) = run(folder.path(), |out| {
        sort(&sources, &options(folder.path(), 2, false), out)
    });
    assert!(report.runs > 32, "{report:?}");
    let mut expected = lines(&content);
    expected.sort();
    assert!(lines(&out) == expected);
}

#[test]
fn five_hundred_files_are_merged_without_as_many_open() {
    let folder = tempfile::tempdir().unwrap();
    let contents: Vec<Vec<u8>> = (0..500u32)
        .map(|n| {
            (0..20)
                .map(|i| format!("{:05} {n}\n", i * 7 + n))
                .collect::<String>()
        })
        .map(String::into_bytes)
        .collect();
    let sources = write_all(folder.path(), &contents);
    let (out, report) = run(folder.path(), |out| {
        merge(&sources, &options(folder.path(), 2, false), None, out)
    });
    assert!(report.runs > 0, "{report:?}");
    assert_eq!(report.lines_in, 10_000);
    let mut expected = lines(&contents.concat());
    expected.sort();
    assert_eq!(lines(&out), expected);
}

#[test]
fn a_merge_of_unsorted_input_names_the_file_the_line_and_both_lines() {
    let folder = tempfile::tempdir().unwrap();
    let sources = write_all(folder.path(), &[b"a\nb\n".to_vec(), b"a\nz\nc\n".to_vec()]);
    let path = folder.path().join("out");
    let mut out = LineWriter::create(&path, &Format::Plain, 1).unwrap();
    let error = merge(&sources, &options(folder.path(), 1, false), None, &mut out).unwrap_err();
    drop(out);
    let text = error.to_string();
    assert!(text.contains("in-1: line 3"), "{text}");
    assert!(
        text.contains("before: z") && text.contains("here:   c"),
        "{text}"
    );
    assert!(!path.exists(), "a failed merge leaves no file");
}

#[test]
fn a_damaged_input_gives_its_whole_lines_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let content = many_lines(20_000);
    let packed = folder.path().join("whole.gz");
    let mut out = LineWriter::create(&packed, &Format::Gzip { level: 6 }, 1).unwrap();
    for line in lines(&content) {
        out.push(&line).unwrap();
    }
    out.finish().unwrap();
    let packed = fs::read(packed).unwrap();
    let sources = write_all(folder.path(), &[packed[..packed.len() / 2].to_vec()]);
    let (out, report) = run(folder.path(), |out| {
        sort(&sources, &options(folder.path(), 1, false), out)
    });
    assert_eq!(report.damaged.len(), 1);
    assert!(report.damaged[0].place().byte.is_some());
    let all: std::collections::HashSet<Vec<u8>> = lines(&content).into_iter().collect();
    let kept = lines(&out);
    assert!(!kept.is_empty());
    assert!(
        kept.iter().all(|line| all.contains(line)),
        "no cut line is kept"
    );
}

#[test]
fn a_line_longer_than_the_memory_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut content = b"short\n".to_vec();
    content.resize(LEAST_MEMORY * 2, b'x');
    let sources = write_all(folder.path(), &[content]);
    let mut out = LineWriter::create(&folder.path().join("out"), &Format::Plain, 1).unwrap();
    let error = sort(&sources, &options(folder.path(), 1, false), &mut out).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::LineTooLong { .. }),
        "{error}"
    );
    assert_eq!(error.place().line, Some(2));
}

#[test]
fn an_added_field_comes_first_and_the_rest_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let rows = concat!(
        "!meta {\"a\": 1}\n",
        "com,a)/ 2020 {}\n",
        "com,a)/ 2021 {\"url\":\"http://a.com/\\u00e9\",  \"n\": 1e5}\n",
    );
    let sources = write_all(folder.path(), &[rows.as_bytes().to_vec()]);
    let addition = Addition::parse("collection=A \"b\"").unwrap();
    let (out, _) = run(folder.path(), |out| {
        merge(
            &sources,
            &options(folder.path(), 1, false),
            Some(&addition),
            out,
        )
    });
    let expected = concat!(
        "!meta {\"a\": 1}\n",
        "com,a)/ 2020 {\"collection\": \"A \\\"b\\\"\"}\n",
        "com,a)/ 2021 {\"collection\": \"A \\\"b\\\"\", \"url\":\"http://a.com/\\u00e9\",  \"n\": 1e5}\n",
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_field_is_not_added_twice_nor_to_lines_that_are_not_cdxj() {
    let folder = tempfile::tempdir().unwrap();
    let addition = Addition::parse("collection=A").unwrap();
    for (row, message) in [
        ("com,a)/ 2020 {\"collection\": \"B\"}", "already"),
        ("com,a)/ 2020 http://a.com/ text/html 200", "only to CDXJ"),
    ] {
        let sources = write_all(folder.path(), &[row.as_bytes().to_vec()]);
        let mut out = LineWriter::create(&folder.path().join("out"), &Format::Plain, 1).unwrap();
        let options = options(folder.path(), 1, false);
        let error = merge(&sources, &options, Some(&addition), &mut out).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    assert!(Addition::parse("collection").is_err());
}

#[test]
fn an_output_that_is_not_finished_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.cdxj");
    fs::write(&path, "old").unwrap();
    let mut out = LineWriter::create(&path, &Format::Plain, 1).unwrap();
    out.push(b"new").unwrap();
    drop(out);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let mut out = LineWriter::create(&path, &Format::Plain, 1).unwrap();
    out.push(b"new").unwrap();
    out.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new\n");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[test]
fn a_folder_that_is_not_empty_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "x").unwrap();
    assert!(zipnum::create(folder.path(), &zipnum::Options::default(), 1).is_err());
}

#[test]
fn a_sort_reports_reading_then_sorting_then_writing_of_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let text = many_lines(50_000);
    let sources = write_all(folder.path(), std::slice::from_ref(&text));
    let options = options(folder.path(), 2, false);
    let progress = options.progress.clone();
    let mut out = LineWriter::create(&folder.path().join("out"), &Format::Plain, 1).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let phase = progress.snapshot().phase.name();
                if seen.last() != Some(&phase) {
                    seen.push(phase);
                }
            }
            seen
        });
        sort(&sources, &options, &mut out).unwrap();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        watcher.join().unwrap()
    });
    // A phase may be too short to be seen, but none comes back.
    let order = ["reading", "sorting", "writing"];
    let places: Vec<_> = seen
        .iter()
        .map(|phase| order.iter().position(|known| known == phase).unwrap())
        .collect();
    assert!(places.is_sorted(), "{seen:?}");
    let last = progress.snapshot();
    assert_eq!(last.phase.name(), "writing");
    assert_eq!(last.done, text.len() as u64);
    assert_eq!(last.total, Some(text.len() as u64));
}
