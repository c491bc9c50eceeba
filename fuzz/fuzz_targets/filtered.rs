//! Any bytes as the rows of a map and as the filter beside it: an error with a place, or answers; and
//! what the rows alone call absent, the filter does not call present.
//!
//! Rows end at the first zero byte. What follows describes a filter: a byte for what is wrong with it,
//! six for each shard up to one of width zero, and what is in the shards. Its checksums are
//! corrected, so that the code behind the checks is reached; some are then broken again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use waypost_io::Resources;
use waypost_summary::map::{Map, check::check, companion_of};
use waypost_summary::{Answer, Lookup, Summary};
use xxhash_rust::xxh3::xxh3_64;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let mut halves = bytes.splitn(2, |&byte| byte == 0);
    let rows = halves.next().unwrap_or_default();
    let path = FOLDER.path().join("a.ukvs");
    // The headers name the filter that follows.
    let filter = filter(halves.next().unwrap_or_default());
    let identity = filter.get(120..128).map_or(0, |bytes| {
        bytes
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    });
    let head = format!("!meta {{\"filter\": \"{identity:016x}\"}}\n");
    std::fs::write(&path, [head.as_bytes(), rows].concat()).expect("a file");
    if let Ok(Some(companion)) = companion_of(&path) {
        std::fs::write(companion, filter).expect("a file");
    }
    let resources = Resources::default();
    let _ = check(&waypost_io::Source::new(path.clone()));
    let Ok(alone) = Map::open_rows(&path, &resources) else {
        return;
    };
    let with = Map::open(&path, &resources);
    for line in rows.split(|&byte| byte == b'\n') {
        let key = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        for surt in [key.to_vec(), [key, b"/more?of=it"].concat()] {
            let present = is_present(&alone, &surt);
            if let Ok(with) = &with {
                let confirmed = is_present(with, &surt);
                assert!(
                    present || !confirmed,
                    "{surt:?} is absent by the rows alone"
                );
            }
        }
    }
});

/// The described filter.
fn filter(bytes: &[u8]) -> Vec<u8> {
    let Some((&wrong, rest)) = bytes.split_first() else {
        return Vec::new();
    };
    if wrong == u8::MAX {
        return rest.to_vec();
    }
    let described: Vec<&[u8]> = rest
        .chunks(6)
        .take_while(|shard| shard.len() == 6 && shard[0] > 0)
        .take(20)
        .collect();
    let inside = &rest[6 * described.len()..];
    let pattern = if inside.is_empty() { b"\x5a" } else { inside };
    let mut head = vec![0; 128];
    head[..13].copy_from_slice(b"WPFILTER\x03\0\x04\x01\x01");
    head[64..68].copy_from_slice(b"URIR");
    head[60..64].copy_from_slice(&(described.len() as u32).to_le_bytes());
    let inner = |shard: &[u8]| {
        u32::from_le_bytes([shard[5], shard[4] % 64, 0, 0])
            .div_ceil(1024)
            .saturating_sub(1)
    };
    let all_inner: u32 = described.iter().map(|shard| inner(shard)).sum();
    head[96..100].copy_from_slice(&all_inner.to_le_bytes());
    let mut offset = 128 + 32 * described.len() + all_inner as usize;
    let (mut table, mut shards, mut keys) = (Vec::<u8>::new(), Vec::new(), 0u64);
    let mut boundaries = Vec::new();
    for shard in &described {
        let &[width, narrow, low, high, many, count] = *shard else {
            continue;
        };
        let rows = u32::from(u16::from_le_bytes([low, high]));
        let count = u32::from_le_bytes([count, many % 64, 0, 0]);
        let length = (u64::from(rows) / 8 * u64::from(width)).saturating_sub(8 * u64::from(narrow));
        let length = length.min(1 << 12) as usize;
        boundaries.extend(std::iter::repeat_n(narrow ^ low, inner(shard) as usize));
        let mut filled = pattern.repeat(length / pattern.len() + 1);
        filled.truncate(length);
        table.extend_from_slice(&(offset as u64).to_le_bytes());
        table.extend_from_slice(&xxh3_64(&filled).to_le_bytes());
        table.extend_from_slice(&count.to_le_bytes());
        table.extend_from_slice(&rows.to_le_bytes());
        table.extend_from_slice(&[width, 0, 0, 0, narrow, 0, 0, 0]);
        offset += length;
        keys += u64::from(count);
        shards.extend(filled);
    }
    for at in [16, 24] {
        head[at..at + 8].copy_from_slice(&keys.to_le_bytes());
    }
    head[32..40].copy_from_slice(&0.5f64.to_le_bytes());
    // One byte of the head or the table is another one.
    if wrong > 128 {
        let at = usize::from(wrong) % 120;
        head[at] ^= inside.first().copied().unwrap_or(1);
    }
    table.extend(boundaries);
    let sum = xxh3_64(&[&head[..120], &table].concat());
    head[120..].copy_from_slice(&sum.to_le_bytes());
    let mut all = [head, table, shards].concat();
    if (1..=128).contains(&wrong) {
        let at = usize::from(wrong) * 7 % all.len();
        all[at] ^= 1 << (wrong % 8);
    }
    all
}

fn is_present(map: &Map, surt: &[u8]) -> bool {
    let mut buffer = Vec::new();
    let answer = map.lookup(&Lookup::of_surt(surt, &mut buffer));
    matches!(
        answer.expect("it was checked when it was opened"),
        Answer::Present(_)
    )
}
