//! Uploading a filter, and the switch to it.

use std::path::Path;

use jiff::Timestamp;
use waypost_io::{Error, ErrorKind, Mapped, Result};
use waypost_summary::filter::{Filter, LONGEST_RANGE, RangedFilter, Secret};

use super::{PIECE, Store, current_key, generation_key, head_key, piece_key};
use crate::filters::check_id;

/// The size of a command.
const CHUNK: usize = 8 << 20;

/// How long keys live that were not switched to, and those of the generation before.
const UNFINISHED: u64 = 24 * 3600;
const OUTDATED: u64 = 3600;

/// What was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadReport {
    /// The generation that is now current.
    pub generation: String,
    /// The generation before, which is removed in an hour.
    pub before: Option<String>,
    /// The size of the filter.
    pub bytes: u64,
    /// The number of pieces.
    pub pieces: u64,
}

/// Uploads a filter as the current generation of an archive. Lookups use the generation before until
/// all of it is there. An upload that is interrupted is removed by the server after a day.
///
/// # Errors
/// If the filter is damaged, cannot be looked up by ranges, or the server fails.
pub fn upload(
    store: &Store,
    id: &str,
    path: &Path,
    secret: Option<Secret>,
    progress: impl Fn(u64),
) -> Result<UploadReport> {
    check_id(id)?;
    let io = waypost_summary::Error::into_io;
    let filter = Filter::open(path).map_err(io)?;
    filter.verify_all().map_err(io)?;
    let bytes = Mapped::open(path)?;
    let length = bytes.len() as u64;
    let prefix = RangedFilter::prefix(&bytes).map_err(io)?;
    let prefix = &bytes[..usize::try_from(prefix).unwrap_or(0).min(bytes.len())];
    let ranged = match RangedFilter::new(prefix, length, secret) {
        Ok(ranged) => ranged,
        Err(error) => return Err(error.in_file(path.display()).into_io()),
    };
    if ranged.identity() != filter.identity() {
        let problem = "the file changed while it was read".to_owned();
        return Err(Error::new(ErrorKind::Invalid(problem)).in_file(path.display()));
    }
    // The same filter is the same generation, so that an upload can be repeated.
    let generation = format!("{:016x}", ranged.identity());
    let pieces = length.div_ceil(PIECE);
    let mut keys = vec![generation_key(id, &generation), head_key(id, &generation)];
    for piece in 0..pieces {
        let key = piece_key(id, &generation, piece);
        let start = (piece * PIECE) as usize;
        let end = length.min((piece + 1) * PIECE + LONGEST_RANGE) as usize;
        put(store, &key, &bytes[start..end], &progress)?;
        keys.push(key);
    }
    let head = ranged.head();
    let mut about = redis::cmd("HSET");
    about
        .arg(&keys[0])
        .arg("format")
        .arg(1)
        .arg("bytes")
        .arg(length)
        .arg("piece")
        .arg(PIECE)
        .arg("kind")
        .arg(head.kind.name())
        .arg("keys")
        .arg(head.count)
        .arg("rate")
        .arg(head.rate)
        .arg("policy")
        .arg(head.policy.to_string())
        .arg("dialect")
        .arg(head.dialect.name())
        .arg("hash")
        .arg(head.hash.name())
        .arg("uploaded")
        .arg(Timestamp::now().as_second());
    for (element, text) in ranged.metadata().iter() {
        about.arg(format!("dc:{element}")).arg(text);
    }
    store.query::<()>(&about)?;
    store.query::<()>(redis::cmd("SET").arg(&keys[1]).arg(prefix))?;
    for key in &keys[..2] {
        store.query::<()>(redis::cmd("EXPIRE").arg(key).arg(UNFINISHED))?;
    }
    // All or nothing: a reader never sees a generation that is about to expire.
    let mut switch = redis::pipe();
    switch.atomic();
    for key in &keys {
        switch.cmd("PERSIST").arg(key).ignore();
    }
    switch.cmd("GETSET").arg(current_key(id)).arg(&generation);
    let (before,): (Option<String>,) = store.run(|connection| switch.query(connection))?;
    let before = before.filter(|before| *before != generation);
    if let Some(before) = &before {
        expire(store, id, before)?;
    }
    Ok(UploadReport {
        generation,
        before,
        bytes: length,
        pieces,
    })
}

/// Writes a string in chunks.
fn put(store: &Store, key: &str, bytes: &[u8], progress: &impl Fn(u64)) -> Result<()> {
    store.query::<()>(redis::cmd("DEL").arg(key))?;
    if let Some(last) = bytes.last() {
        // All of its memory at once, instead of growing and copying.
        let mut command = redis::cmd("SETRANGE");
        command.arg(key).arg(bytes.len() - 1).arg(&[*last][..]);
        store.query::<()>(&command)?;
        store.query::<()>(redis::cmd("EXPIRE").arg(key).arg(UNFINISHED))?;
    }
    for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
        let mut command = redis::cmd("SETRANGE");
        command.arg(key).arg(number * CHUNK).arg(chunk);
        let length: usize = store.query(&command)?;
        if length != bytes.len() {
            let problem = format!("the key {key} was changed by someone else");
            return Err(Error::new(ErrorKind::Invalid(problem)).in_file(store.name()));
        }
        progress(chunk.len() as u64);
    }
    Ok(())
}

/// Lets the server remove a generation, when lookups under way are done.
fn expire(store: &Store, id: &str, generation: &str) -> Result<()> {
    let hash = generation_key(id, generation);
    let bytes: Option<u64> = store.query(redis::cmd("HGET").arg(&hash).arg("bytes"))?;
    let pieces = bytes.unwrap_or(0).div_ceil(PIECE);
    let mut keys = vec![hash, head_key(id, generation)];
    keys.extend((0..pieces).map(|piece| piece_key(id, generation, piece)));
    for key in keys {
        store.query::<()>(redis::cmd("EXPIRE").arg(key).arg(OUTDATED))?;
    }
    Ok(())
}
