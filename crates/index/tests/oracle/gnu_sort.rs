use std::fs;
use std::path::Path;
use std::process::Command;

use waypost_index::merge::merge;
use waypost_io::sort::{LEAST_MEMORY, Options, sort};
use waypost_io::{Format, LineWriter, Resources, Source};

/// A generator of numbers that needs no crate and is the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

fn gnu(arguments: &[&str], inputs: &[&Path]) -> Vec<u8> {
    let output = Command::new("sort")
        .env("LC_ALL", "C")
        .args(arguments)
        .args(inputs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn ours(inputs: &[&Path], unique: bool, threads: usize, merging: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let options = Options {
        resources: Resources {
            memory: LEAST_MEMORY,
            temporary: folder.path().to_owned(),
            threads,
        },
        unique,
        progress: waypost_io::Progress::default(),
    };
    let sources: Vec<Source> = inputs.iter().map(|path| Source::new(*path)).collect();
    let mut out = LineWriter::create(&path, &Format::Plain, threads).unwrap();
    if merging {
        merge(&sources, &options, None, &mut out).unwrap();
    } else {
        sort(&sources, &options, &mut out).unwrap();
    }
    out.finish().unwrap();
    fs::read(path).unwrap()
}

/// Bytes without a pattern, from alphabets that are hard on a sorter.
fn hostile(random: &mut Random, size: u64) -> Vec<u8> {
    let alphabets: [&[u8]; 5] = [
        b"\n\0\r\xffa",
        b"\n\n\n\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\n",
        b"ab\n",
        b"\x00\x01\x1f\x20\x21\x7f\x80\xfe\xff\n",
    ];
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        let alphabet = alphabets[random.below(5) as usize];
        for _ in 0..random.below(2000) {
            bytes.push(alphabet[random.below(alphabet.len() as u64) as usize]);
        }
        if random.below(50) == 0 {
            bytes.resize(bytes.len() + random.below(300_000) as usize, b'z');
        }
    }
    // Not by chance a compressed file.
    bytes.insert(0, b'x');
    bytes
}

fn captures(random: &mut Random, count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..count {
        let line = format!(
            "com,{})/{} 20{:012} {{\"url\": \"u\", \"length\": \"{}\"}}\n",
            ["example", "example,www", "example:8080", "a"][random.below(4) as usize],
            random.below(5000),
            random.below(1_000_000),
            random.below(3)
        );
        out.extend_from_slice(line.as_bytes());
    }
    out
}

#[test]
fn sort_equals_gnu_sort_on_any_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for seed in 0..12 {
        let mut random = Random(seed);
        let content = if seed % 3 == 0 {
            captures(&mut random, 100_000)
        } else {
            hostile(&mut random, 3 << 20)
        };
        // Cut anywhere: files need not end with a newline.
        let middle = random.below(content.len() as u64) as usize;
        fs::write(&first, &content[..middle]).unwrap();
        fs::write(&second, [b"x", &content[middle..]].concat()).unwrap();
        let inputs = [first.as_path(), second.as_path()];
        let threads = 1 + seed as usize % 3;
        assert!(
            ours(&inputs, false, threads, false) == gnu(&[], &inputs),
            "seed {seed}"
        );
        assert!(
            ours(&inputs, true, threads, false) == gnu(&["-u"], &inputs),
            "seed {seed}"
        );
    }
}

#[test]
fn merge_equals_gnu_sort_m() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..4 {
        let mut random = Random(seed);
        let paths: Vec<_> = (0..20)
            .map(|n| {
                let path = folder.path().join(format!("{n}"));
                let content = if n % 2 == 0 {
                    captures(&mut random, 2000)
                } else {
                    hostile(&mut random, 50_000)
                };
                fs::write(&path, content).unwrap();
                let mut sorted = gnu(&[], &[&path]);
                // The smallest line may be empty or look compressed: what begins so is not plain.
                sorted.splice(0..0, *b"\n");
                fs::write(&path, sorted).unwrap();
                path
            })
            .collect();
        let inputs: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
        assert!(
            ours(&inputs, false, 2, true) == gnu(&["-m"], &inputs),
            "seed {seed}"
        );
        assert!(
            ours(&inputs, true, 2, true) == gnu(&["-m", "-u"], &inputs),
            "seed {seed}"
        );
    }
}
