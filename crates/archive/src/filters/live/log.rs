//! The write-ahead log: hashes that were added since the last filter was written.
//!
//! ```text
//! magic (8) │ length (4) │ keys: JSON │ checksum (8) ║ frame ║ frame ║ …
//! frame: magic (4) │ count (4) │ checksum (8) │ hashes (16 each)
//! ```
//!
//! Numbers are little-endian. The checksum of a frame covers its offset, so that old bytes are never
//! taken for a frame. A frame is acknowledged when it is synced; an incomplete one at the end, which a
//! crash leaves, was not acknowledged and is cut off.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use waypost_io::{AtomicFile, Error, ErrorKind, IoContext, Result};
use waypost_summary::filter::{Hash, Keyer};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const MAGIC: [u8; 8] = *b"WPADDLOG";
const FRAME: [u8; 4] = *b"WPAF";
/// The length of a frame without its hashes.
const HEAD: usize = 16;

/// A log that can be appended to.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// The end of the last synced frame.
    end: u64,
    start: u64,
    /// Set if the file could not be brought back to a known state.
    broken: bool,
    /// What was cut off its end.
    pub(super) warning: Option<Error>,
}

/// What a log says about the keys of its hashes, so that it is never read with others.
fn header(keyer: &Keyer) -> Vec<u8> {
    let (dialect, policy, hasher) = keyer.parts();
    // The fingerprint of a secret, by a hash that only it gives.
    let probe = hasher.hash(b"waypost add log");
    let keys = serde_json::json!({
        "dialect": dialect.name(),
        "policy": policy.to_string(),
        "hash": hasher.function().name(),
        "probe": format!("{probe:032x}"),
    });
    let keys = keys.to_string().into_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((keys.len() as u32).to_le_bytes());
    bytes.extend(&keys);
    let checksum = xxh3_64(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn checksum(offset: u64, hashes: &[u8]) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(&(hashes.len() as u64).to_le_bytes());
    hasher.update(hashes);
    hasher.digest()
}

/// The frame at an offset: its hashes. `None` if there is no valid one.
fn frame(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..)?.get(..HEAD)?;
    if head[..4] != FRAME {
        return None;
    }
    let count = u32::from_le_bytes(*head[4..].first_chunk()?) as usize;
    let hashes = bytes[at + HEAD..].get(..count.checked_mul(16)?)?;
    let stated = u64::from_le_bytes(*head[8..].first_chunk()?);
    (stated == checksum(at as u64, hashes)).then_some(hashes)
}

/// Reads a log. Returns where its last frame ends, and a warning if something follows it.
///
/// # Errors
/// If it is damaged, or was written with other keys.
pub(super) fn replay(
    path: &Path,
    keyer: &Keyer,
    mut take: impl FnMut(Hash),
) -> Result<(u64, Option<Error>)> {
    let wrong = |what: String| Error::new(ErrorKind::Format(what)).in_file(path.display());
    let bytes = fs::read(path).doing("read", path)?;
    let header = header(keyer);
    if !bytes.starts_with(&header) {
        return Err(wrong(match bytes.starts_with(&MAGIC) {
            true => "the log was written with other keys: dialect, policy or secret".to_owned(),
            false => "not a log of added URIs".to_owned(),
        }));
    }
    let mut at = header.len();
    while let Some(hashes) = frame(&bytes, at) {
        let (hashes, _) = hashes.as_chunks::<16>();
        hashes
            .iter()
            .for_each(|hash| take(u128::from_le_bytes(*hash)));
        at += HEAD + hashes.len() * 16;
    }
    // Frames after a damaged one were acknowledged: something else than a crash happened.
    let later = memchr::memmem::find_iter(&bytes[at..], &FRAME)
        .skip_while(|&later| later == 0)
        .find(|&later| frame(&bytes, at + later).is_some());
    match later {
        Some(_) => Err(wrong(format!("the log is damaged at byte {at}"))),
        None => {
            let rest = bytes.len() - at;
            let warning = (rest > 0).then(|| {
                wrong(format!(
                    "the last record, {rest} bytes at byte {at}, is incomplete or damaged and was ignored: add the \
                     last URIs again"
                ))
            });
            Ok((at as u64, warning))
        }
    }
}

impl Log {
    /// Opens a log for appending, or creates it. Its hashes are passed to `take`. No other process may
    /// have it open.
    ///
    /// # Errors
    /// Like [`replay`], or if it cannot be written.
    pub(super) fn open(path: &Path, keyer: &Keyer, take: impl FnMut(Hash)) -> Result<Log> {
        if !path.exists() {
            write_empty(path, keyer)?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .doing("open", path)?;
        let (end, warning) = replay(path, keyer, take)?;
        // What was not acknowledged.
        file.set_len(end).doing("write", path)?;
        file.sync_all().doing("write", path)?;
        Ok(Log {
            path: path.to_owned(),
            file,
            end,
            start: header(keyer).len() as u64,
            broken: false,
            warning,
        })
    }

    /// Appends hashes. They are on the disk when this returns.
    ///
    /// # Errors
    /// If they are not. The log is as before, or accepts nothing more.
    pub(super) fn append(&mut self, hashes: &[Hash]) -> Result<()> {
        if self.broken {
            let problem = "the log could not be written before".to_owned();
            return Err(Error::new(ErrorKind::Invalid(problem)).in_file(self.path.display()));
        }
        let payload: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let mut bytes = FRAME.to_vec();
        bytes.extend((hashes.len() as u32).to_le_bytes());
        bytes.extend(checksum(self.end, &payload).to_le_bytes());
        bytes.extend(payload);
        let written = self
            .file
            .write_all_at(&bytes, self.end)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // After a failed sync, nobody knows what is on the disk.
            let restored = self
                .file
                .set_len(self.end)
                .and_then(|()| self.file.sync_all());
            self.broken = restored.is_err();
            return Err(error).doing("write", &self.path);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The size of its frames.
    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Removes all frames, after their hashes were written elsewhere.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn clear(&mut self) -> Result<()> {
        let cleared = self
            .file
            .set_len(self.start)
            .and_then(|()| self.file.sync_all());
        cleared.doing("write", &self.path)?;
        self.end = self.start;
        self.broken = false;
        Ok(())
    }
}

fn write_empty(path: &Path, keyer: &Keyer) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(&header(keyer)).doing("write", path)?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waypost_summary::filter::{Hasher, Secret};
    use waypost_surt::{Dialect, Policy};

    fn keyer() -> Keyer {
        Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public)
    }

    fn read(path: &Path) -> Result<Vec<Hash>> {
        let mut hashes = Vec::new();
        replay(path, &keyer(), |hash| hashes.push(hash)).map(|_| hashes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_cut_anywhere_loses_only_the_frames_behind_it(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u128>(), 1..20), 1..8),
            cut in any::<prop::sample::Index>(),
            garbage in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let mut log = Log::open(&path, &keyer(), |_| {}).unwrap();
            let mut ends = Vec::new();
            for hashes in &frames {
                log.append(hashes).unwrap();
                ends.push(log.end);
            }
            let (start, end) = (log.start, log.end);
            drop(log);
            prop_assert_eq!(read(&path).unwrap(), frames.concat());
            // A crash in the middle of a frame, with or without old bytes behind it.
            let cut = start + cut.index((end - start) as usize) as u64;
            let mut bytes = fs::read(&path).unwrap();
            bytes.truncate(cut as usize);
            bytes.extend(&garbage);
            fs::write(&path, &bytes).unwrap();
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let kept = frames[..whole].concat();
            prop_assert_eq!(&read(&path).unwrap()[..kept.len()], &kept[..]);
            let mut found = Vec::new();
            let mut log = Log::open(&path, &keyer(), |hash| found.push(hash)).unwrap();
            prop_assert_eq!(&found[..], &kept[..]);
            log.append(&[7]).unwrap();
            prop_assert_eq!(read(&path).unwrap(), [kept, vec![7]].concat());
            log.clear().unwrap();
            prop_assert!(read(&path).unwrap().is_empty());
        }
    }

    #[test]
    fn a_damaged_last_frame_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(&path, &keyer(), |_| {}).unwrap();
        log.append(&[1, 2]).unwrap();
        let end = log.end as usize;
        log.append(&[3]).unwrap();
        drop(log);
        assert!(replay(&path, &keyer(), |_| {}).unwrap().1.is_none());
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), [1, 2]);
        for _ in 0..2 {
            let warning = Log::open(&path, &keyer(), |_| {}).unwrap().warning;
            // It is cut off, and the next start has nothing to warn about.
            let expected = fs::metadata(&path).unwrap().len() as usize == end && bytes.len() > end;
            assert!(expected);
            if let Some(warning) = warning {
                assert!(warning.to_string().contains("add the last URIs again"));
                bytes.truncate(end + 1);
            } else {
                assert_eq!(bytes.len(), end + 1, "the first start warns");
            }
        }
    }

    #[test]
    fn damage_before_acknowledged_frames_and_other_keys_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(&path, &keyer(), |_| {}).unwrap();
        let first = log.end as usize;
        log.append(&[1, 2, 3]).unwrap();
        log.append(&[4]).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[first + 20] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("damaged"));
        let secret = Secret::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let other = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Keyed(secret));
        assert!(replay(&path, &other, |_| {}).is_err());
        fs::write(&path, "something else").unwrap();
        assert!(read(&path).is_err());
    }
}
