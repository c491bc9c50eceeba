//! Splits a file into ranges: a plain file anywhere, a gzip file at its members.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use waypost_io::{Compression, FileReader, IoContext, Result, Stream, members};

use super::Range;

/// How far to search for the next member.
const WINDOW: usize = 4 << 20;

/// Splits a file into ranges of about `size` bytes.
///
/// # Errors
/// If the file cannot be read.
pub fn ranges(path: &Path, size: u64) -> Result<Vec<Range>> {
    let file = Arc::new(File::open(path).doing("open", path)?);
    let length = file.metadata().doing("open", path)?.len();
    let mut start = [0; 16];
    let mut reader = FileReader::new(Arc::clone(&file), 0);
    let filled = read_full(&mut reader, &mut start).doing("read", path)?;
    let mut cuts = vec![0];
    let size = size.max(1);
    let mut next = size;
    while next < length {
        match Compression::detect(&start[..filled]) {
            Compression::Plain => cuts.push(next),
            Compression::Gzip => match member_after(&file, path, next)? {
                Some(cut) => {
                    cuts.push(cut);
                    next = cut;
                }
                None => break,
            },
            Compression::Zstd | Compression::Bzip2 => break,
        }
        next += size;
    }
    let ends = cuts[1..].iter().copied().chain([length]);
    Ok(cuts
        .iter()
        .zip(ends)
        .map(|(&start, end)| Range {
            path: path.to_owned(),
            start,
            end,
            last: end == length,
        })
        .collect())
}

/// The offset of the first member at `from` or later that can be inflated.
fn member_after(file: &Arc<File>, path: &Path, from: u64) -> Result<Option<u64>> {
    let mut window = vec![0; WINDOW];
    let mut base = from;
    loop {
        let mut reader = FileReader::new(Arc::clone(file), base);
        let filled = read_full(&mut reader, &mut window).doing("read", path)?;
        let bytes = &window[..filled];
        let mut at = 0;
        while let Some(found) = members::next_start(bytes, at) {
            let place = base + found as u64;
            let member = FileReader::new(Arc::clone(file), place);
            let name = path.display().to_string();
            let opened = Stream::gzip_at(name, Box::new(member), place);
            // Compressed data may look like the start of a member, but cannot be inflated.
            let inflates = opened.is_ok_and(|mut stream| {
                let (length, error) = stream.read_full(&mut [0; 4096]);
                length > 0 && error.is_none()
            });
            if inflates {
                return Ok(Some(place));
            }
            at = found + 1;
        }
        if filled < WINDOW {
            return Ok(None);
        }
        // The magic number may cross the border.
        base += (WINDOW - 8) as u64;
    }
}

pub(super) fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
