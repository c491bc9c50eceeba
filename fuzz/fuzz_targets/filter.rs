//! Any bytes are a filter or are refused; what is accepted answers without a panic. The checksums
//! are corrected, so that the code behind the checks is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_summary::filter::{Filter, check};

fuzz_target!(|bytes: &[u8]| {
    try_all(bytes.to_vec());
    let mut sealed = bytes.to_vec();
    if sealed.len() >= 128 {
        seal(&mut sealed);
        try_all(sealed);
    }
});

fn try_all(bytes: Vec<u8>) {
    let Ok(filter) = Filter::from_bytes(bytes) else {
        return;
    };
    for hash in [
        0,
        1,
        u128::MAX,
        1 << 127,
        0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
    ] {
        let _ = filter.contains(hash);
        for width in filter.widths() {
            let _ = filter.contains_at(width, hash);
        }
    }
    let _ = check::check(&filter);
}

/// Gives shard and head the checksums that they should have.
fn seal(bytes: &mut [u8]) {
    bytes[..10].copy_from_slice(b"WPFILTER\x03\0");
    let number = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    };
    let shards = number(bytes, 60).min(8);
    bytes[60..64].copy_from_slice(&(shards as u32).to_le_bytes());
    let table = 128 + number(bytes, 56);
    let end = table + 32 * shards + number(bytes, 96);
    if end > bytes.len() {
        return;
    }
    if shards == 1 {
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[end..]);
        bytes[table..table + 8].copy_from_slice(&(end as u64).to_le_bytes());
        bytes[table + 8..table + 16].copy_from_slice(&sum.to_le_bytes());
    }
    let covered = [&bytes[..120], &bytes[128..end]].concat();
    let sum = xxhash_rust::xxh3::xxh3_64(&covered);
    bytes[120..128].copy_from_slice(&sum.to_le_bytes());
}
