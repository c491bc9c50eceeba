//! The memory of a server that looks up lines of a ZipNum index from many threads. A program of its own,
//! because it measures all memory of the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;

use waypost_index::lookup::{BlockCache, Cursor, Direction, Index};
use waypost_index::range::Range;
use waypost_index::zipnum;

const BLOCKS: u64 = 64;
const LINES: u64 = 1000;
const THREADS: u64 = 40;
const LOOKUPS: u64 = 60;

/// The anonymous memory of this process in bytes.
fn anonymous() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let size = line.unwrap().trim().strip_suffix(" kB").unwrap();
    size.parse::<usize>().unwrap() << 10
}

/// A number that looks random.
fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

fn key(block: u64, line: u64) -> String {
    format!("com,site{block:03})/{line:04}")
}

#[test]
fn a_cache_takes_little_more_memory_than_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zipnum");
    let options = zipnum::Options {
        lines: LINES,
        level: 1,
        ..Default::default()
    };
    let mut out = zipnum::create(&path, &options, 1).unwrap();
    for block in 0..BLOCKS {
        // Blocks are of similar sizes, from 0.9 to 1.1 MB.
        let rest = "x".repeat(850 + (scatter(block) % 200) as usize);
        for line in 0..LINES {
            let line = format!(
                "{} 20200101000000 {{\"url\": \"{rest}\"}}",
                key(block, line)
            );
            out.push(line.as_bytes()).unwrap();
        }
    }
    out.finish().unwrap();

    let before = anonymous();
    let limit = 24 << 20;
    let cache = Arc::new(BlockCache::new(limit));
    let index = Index::open(&path).unwrap().cached(&cache);
    // A server, too, has more threads than queries that run at the same time.
    let turns = [(); 4].map(Mutex::new);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (index, turns) = (&index, &turns);
            scope.spawn(move || {
                for number in 0..LOOKUPS {
                    let random = scatter(thread * LOOKUPS + number);
                    // Some blocks are asked for more often than others.
                    let block = (random % BLOCKS) * (random / BLOCKS % BLOCKS) / BLOCKS;
                    let start = key(block, random / BLOCKS / BLOCKS % LINES).into_bytes();
                    let range = Range {
                        end: [&start[..], b"!"].concat(),
                        start,
                    };
                    let _turn = turns[(random % 4) as usize].lock().unwrap();
                    let mut cursor = Cursor::new(index);
                    cursor.seek(range, Direction::Forward).unwrap();
                    assert!(cursor.advance().unwrap() && !cursor.advance().unwrap());
                }
            });
        }
    });
    let used = anonymous().saturating_sub(before);
    assert!(cache.hits() > 0 && cache.bytes() > limit / 2);
    // The blocks in the cache, some memory for the next ones, and one block for each lookup under way.
    assert!(
        used < limit + (16 << 20),
        "{used} bytes with a cache of {limit}"
    );
}
