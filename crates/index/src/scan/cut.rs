//! Splits a file into ranges: a plain file anywhere, a gzip file at its members.

use std::io::{Cursor, Read};
use std::path::Path;

use waypost_io::adapters;
use waypost_io::{Compression, Error, Result, Source, Stream, members};

use super::Range;

/// How much of a file is searched at a time for the next member.
const WINDOW: usize = 4 << 20;
/// The same of a remote file, where everything that is read takes time: a few ZipNum blocks.
const REMOTE_WINDOW: usize = 512 << 10;
/// How much of a member is read at most to see whether it can be inflated.
const PROBE: u64 = 1 << 20;

/// Splits a file, or a remote file if its path is a URL, into ranges of about `size` bytes.
///
/// # Errors
/// If the file cannot be read.
pub fn ranges(path: &Path, size: u64) -> Result<Vec<Range>> {
    let source = Source::new(path);
    let length = match source.stored()? {
        Some(length) => length,
        None => return Err(not_seekable(path)),
    };
    let mut cuts = vec![0];
    let size = size.max(1);
    let mut next = size;
    // Tables have no sections: what is stored are not lines.
    if let Some(mut reader) = source.section(0, length.min(16))? {
        let mut start = [0; 16];
        let filled = read_full(&mut reader, &mut start).map_err(|error| failed(error, &source))?;
        let compression = Compression::detect(&start[..filled]);
        while next < length {
            match compression {
                Compression::Plain => cuts.push(next),
                Compression::Gzip => match member_after(&source, next, length)? {
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
pub(super) fn member_after(source: &Source, from: u64, length: u64) -> Result<Option<u64>> {
    let section = |start: u64, end: u64| -> Result<Box<dyn Read + Send>> {
        let reader = source.section(start, end.min(length))?;
        reader.ok_or_else(|| not_seekable(source.path()))
    };
    let is_remote = adapters::url_of(source.path()).is_some();
    let size = if is_remote { REMOTE_WINDOW } else { WINDOW };
    let mut window = vec![0; size];
    let mut base = from;
    loop {
        let end = base + size as u64;
        let filled = read_full(&mut section(base, end)?, &mut window)
            .map_err(|error| failed(error, source))?;
        let mut at = 0;
        while let Some(found) = members::next_start(&window[..filled], at) {
            let place = base + found as u64;
            let rest = base + filled as u64;
            let member = Cursor::new(window[found..filled].to_vec());
            let member = member.chain(section(rest, rest + PROBE)?);
            let opened = Stream::gzip_at(source.to_string(), Box::new(member), place);
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
        if filled < size {
            return Ok(None);
        }
        // The magic number may cross the border.
        base += (size - 8) as u64;
    }
}

fn not_seekable(path: &Path) -> Error {
    let error = std::io::Error::from(std::io::ErrorKind::NotSeekable);
    Error::io("read a range of", path, error)
}

/// The error of reading a section of a source.
pub(super) fn failed(error: std::io::Error, source: &Source) -> Error {
    match Error::from_read(error) {
        error if error.place().file.is_some() => error,
        error => error.in_file(source),
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
