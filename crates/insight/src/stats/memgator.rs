//! What a MemGator log says about the archives that it asked: table 3 of the MementoMap paper.
//!
//! ```text
//! INFO: 2026/11/15 18:20:43.609860 ID => Success: 12 mementos                      a hit
//! INFO: 2026/11/15 18:20:43.609860 ID => Response error: 404 Not Found             a miss
//! ERROR: 2026/11/15 18:20:43.609860 main.go:292: ID => Network error: …            an error
//! INFO: 2026/11/15 18:20:43.609860 ID => Dormant after 5 consecutive failures      a sleep
//! ```

use std::collections::BTreeMap;

use waypost_io::pieces::{PIECE, Pieces};
use waypost_io::{Result, Source};

use super::model::Upstream;

/// Reads the answers of archives from a log. Lines of other kinds are skipped; a log without such
/// lines gives none.
///
/// # Errors
/// If the log cannot be read.
pub fn read(source: &Source) -> Result<Vec<Upstream>> {
    let mut archives: BTreeMap<Vec<u8>, Upstream> = BTreeMap::new();
    let mut pieces = Pieces::new(source.to_string(), source.open()?, PIECE);
    while let Some(piece) = pieces.next()? {
        for line in piece.lines() {
            add(line, &mut archives);
        }
    }
    let mut archives: Vec<Upstream> = archives
        .into_iter()
        .map(|(id, archive)| Upstream {
            archive: String::from_utf8_lossy(&id).into_owned(),
            ..archive
        })
        .collect();
    let rate = |archive: &Upstream| archive.hits as f64 / archive.requests.max(1) as f64;
    archives.sort_by(|a, b| {
        rate(b)
            .total_cmp(&rate(a))
            .then_with(|| a.archive.cmp(&b.archive))
    });
    Ok(archives)
}

fn add(line: &[u8], archives: &mut BTreeMap<Vec<u8>, Upstream>) {
    const ARROW: &[u8] = b" => ";
    let Some(at) = memchr::memmem::find(line, ARROW) else {
        return;
    };
    let (before, said) = (&line[..at], &line[at + ARROW.len()..]);
    // The identifier is the last word before the arrow.
    let id = before
        .rsplit(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    let starts = |text: &str| said.starts_with(text.as_bytes());
    let (hit, miss, error, sleep) = if starts("Success") {
        let none = starts("Success: 0 ");
        (!none, none, false, false)
    } else if starts("Response error: 404") || starts("Response error: 400") {
        (false, true, false, false)
    } else if [
        "Response error",
        "Network error",
        "Request error",
        "Response read error",
    ]
    .into_iter()
    .any(starts)
    {
        (false, false, true, false)
    } else if starts("Dormant") {
        (false, false, false, true)
    } else {
        return;
    };
    if id.is_empty() {
        return;
    }
    if !archives.contains_key(id) {
        archives.insert(id.to_vec(), Upstream::default());
    }
    if let Some(archive) = archives.get_mut(id) {
        archive.requests += u64::from(hit || miss || error);
        archive.hits += u64::from(hit);
        archive.misses += u64::from(miss);
        archive.errors += u64::from(error);
        archive.sleeps += u64::from(sleep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_archive() {
        let log = "INFO: 2026/11/15 18:20:43.609860 Aggregating Mementos for http://example.com/\n\
            INFO: 2026/11/15 18:20:43.609860 ia => Success: 12 mementos\n\
            INFO: 2026/11/15 18:20:43.609860 pt => Response error: 404 Not Found\n\
            INFO: 2026/11/15 18:20:43.609860 pt => Response error: 503 Service Unavailable\n\
            ERROR: 2026/11/15 18:20:43.609860 main.go:292: pt => Network error: dial tcp\n\
            INFO: 2026/11/15 18:20:43.609860 pt => Dormant after 2 consecutive failures\n\
            INFO: 2026/11/15 18:20:46.609860 pt => Awake after 3s\n\
            INFO: 2026/11/15 18:20:43.609860 Total Mementos: 12 in 1s\n";
        let mut archives = BTreeMap::new();
        log.lines()
            .for_each(|line| add(line.as_bytes(), &mut archives));
        let of = |id: &str| {
            let archive = &archives[id.as_bytes()];
            [
                archive.requests,
                archive.hits,
                archive.misses,
                archive.errors,
                archive.sleeps,
            ]
        };
        assert_eq!(of("ia"), [1, 1, 0, 0, 0]);
        assert_eq!(of("pt"), [3, 0, 1, 2, 1]);
        assert_eq!(archives.len(), 2);
    }
}
