//! The memory that `--memory` promises, measured from outside while the command runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// CDXJ-like lines in random order, about `size` bytes of them.
fn write_lines(path: &Path, size: u64) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let tail = format!("\", \"filename\": \"{}\"}}\n", "x".repeat(300));
    let (mut state, mut written) = (1u64, 0);
    while written < size {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let head = format!(
            "com,example{})/{:x} 2020 {{\"digest\": \"",
            (state >> 33) % 5000,
            state
        );
        out.write_all(head.as_bytes()).unwrap();
        out.write_all(tail.as_bytes()).unwrap();
        written += (head.len() + tail.len()) as u64;
    }
    out.flush().unwrap();
}

/// The most memory, in bytes, that the child had in use at once; waits for its end.
fn peak(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        // The system keeps the high-water mark itself, so nothing is missed between two looks.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        if let Some(kilobytes) = mark.and_then(|rest| rest.trim().strip_suffix(" kB")) {
            peak = peak.max(kilobytes.trim().parse::<u64>().unwrap() * 1024);
        }
        thread::sleep(Duration::from_millis(10));
    }
    peak
}

#[test]
fn sorting_two_gigabytes_with_256_megabytes_stays_under_400() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let input = folder.path().join("in.cdxj");
    write_lines(&input, 2 << 30);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args([
            "index",
            "sort",
            "--memory",
            "256M",
            "-o",
            "/dev/null",
            "--temporary",
        ])
        .arg(folder.path())
        .arg(&input)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let peak = peak(&mut child);
    assert!(child.wait().unwrap().success());
    assert!(peak > 100 << 20, "the measure works: {peak}");
    assert!(peak < 400_000_000, "{peak} bytes were resident");
}

/// Runs a command in `folder` and returns whether it succeeded, and its peak memory in bytes.
fn run(folder: &Path, command: &str) -> (bool, u64) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(command.split(' '))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let peak = peak(&mut child);
    (child.wait().unwrap().success(), peak)
}

#[test]
fn every_scan_of_any_input_keeps_to_64_megabytes() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    write_lines(&folder.path().join("in.cdxj"), 200 << 20);
    for command in [
        "index check in.cdxj",
        "profile in.cdxj -o profiles --policy H3P0,HxP1,URIR",
        "profile in.cdxj -o months --policy HxP1 --by month",
        "map build in.cdxj -o map.ukvs",
        "filter build in.cdxj -o in.filter",
        "index sort in.cdxj -o sorted.cdxj",
        "profile sorted.cdxj -o all",
        "stats in.cdxj --format json",
        "stats in.cdxj --approximate --format json",
    ] {
        let (_, peak) = run(
            folder.path(),
            &format!("{command} --memory 64M --temporary ."),
        );
        // Beside the limit, the program itself and one line of the input per thread.
        assert!(peak < 96 << 20, "{command}: {peak} bytes were resident");
    }
    assert!(folder.path().join("sorted.cdxj").exists());
}

#[test]
fn lookups_that_fit_into_the_memory_limit_are_evaluated_within_it_and_others_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name: &str, lookups: u64| {
        let mut out = BufWriter::new(File::create(folder.path().join(name)).unwrap());
        for n in 0..lookups {
            writeln!(out, "http://www.example{}.com/some/page/{n}", n % 1000).unwrap();
        }
        out.flush().unwrap();
    };
    write("held.txt", 1000);
    let (built, _) = run(folder.path(), "map build held.txt -o map.ukvs");
    assert!(built);
    let evaluate = "evaluate map.ukvs --holdings held.txt --memory 64M --temporary . --lookups";
    write("few.txt", 170_000);
    let (fit, peak) = run(folder.path(), &format!("{evaluate} few.txt"));
    assert!(fit);
    assert!(peak < 96 << 20, "{peak} bytes were resident");
    write("many.txt", 600_000);
    let (fit, peak) = run(folder.path(), &format!("{evaluate} many.txt"));
    assert!(!fit, "600,000 lookups were not refused");
    assert!(peak < 96 << 20, "{peak} bytes were resident");
}

#[test]
fn segments_and_last_modified_times_keep_to_64_megabytes() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let create = |name: &str| BufWriter::new(File::create(folder.path().join(name)).unwrap());
    let (mut index, mut times) = (create("in.cdxj"), create("in.lastmod"));
    writeln!(times, "!waypost-lastmod 1\n!file warc/x.warc.gz").unwrap();
    for n in 0..400_000 {
        let host = format!("example{:06}", n / 80);
        writeln!(
            index,
            "com,{host})/p{n} 20190817203056 {{\"url\": \"http://{host}.com/p{n}\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"{n:032x}\", \"length\": \"{}\", \"offset\": \"{}\", \"filename\": \"crawl-data/C/segments/{}/warc/x.warc.gz\"}}",
            n % 50_000,
            n * 100,
            n % 100
        )
        .unwrap();
        if n % 2 == 0 {
            writeln!(times, "{}\t{}\t20190817203056", n * 100, 1_500_000_000 + n).unwrap();
        }
    }
    index.flush().unwrap();
    times.flush().unwrap();
    for command in [
        "segments tabulate in.cdxj --by digest,host,length -o table",
        "segments overlap in.cdxj in.cdxj",
        "lastmod add in.cdxj --from in.lastmod -o dated.cdxj",
        "lastmod report dated.cdxj",
    ] {
        let (done, peak) = run(
            folder.path(),
            &format!("{command} --memory 64M --temporary ."),
        );
        assert!(done, "{command}");
        assert!(peak < 96 << 20, "{command}: {peak} bytes were resident");
    }
}
