//! The memory that `--memory` promises, measured from outside while the command runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Two gigabytes of CDXJ-like lines in no order.
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
