//! Scans only the first or the last lines of a file.

use std::io::Read;

use waypost_io::{Compression, Source};

use super::{Job, block, cut};
use crate::layout::FileLayout;
use crate::select::Select;

/// How much text of the last gzip members is read.
const MOST_TEXT: usize = 64 << 20;

/// Scans the lines in the first `size` bytes of a file. `None` if the source is damaged or can be read only
/// once.
pub fn head<J: Job>(source: &Source, job: &J, select: &Select, size: usize) -> Option<J::Partial> {
    source.file().ok()??;
    let bytes = start(source, size)?.0;
    let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    scan(
        &bytes[..end],
        &FileLayout::detect(&bytes[..end]),
        job,
        select,
    )
}

/// Scans the lines in the last `size` bytes of a file; if it is a gzip file, in the members that begin
/// there. `None` if no member begins there, or if the source is damaged or can be read only once.
pub fn tail<J: Job>(source: &Source, job: &J, select: &Select, size: u64) -> Option<J::Partial> {
    source.file().ok()??;
    let length = source.stored().ok()??;
    let (sample, compression) = start(source, FileLayout::SAMPLE)?;
    let from = length.saturating_sub(size);
    let mut text = Vec::new();
    match compression {
        Compression::Plain => {
            let mut section = source.section(from, length).ok()??;
            section.read_to_end(&mut text).ok()?;
        }
        Compression::Gzip => {
            let member = cut::member_after(source, from, length).ok()??;
            let mut stream = source.gzip_at(member).ok()?.members_end_lines();
            // Only what is read takes memory.
            text = vec![0; MOST_TEXT];
            let (len, error) = stream.read_full(&mut text);
            if error.is_some() || len == text.len() {
                return None;
            }
            text.truncate(len);
        }
        Compression::Zstd | Compression::Bzip2 => return None,
    }
    // The first line may have begun before.
    let first = match from {
        0 => 0,
        _ => memchr::memchr(b'\n', &text)? + 1,
    };
    scan(&text[first..], &FileLayout::detect(&sample), job, select)
}

/// The first bytes of the text of a source, and how it is compressed.
fn start(source: &Source, size: usize) -> Option<(Vec<u8>, Compression)> {
    let mut stream = source.open().ok()?;
    let mut bytes = vec![0; size];
    let (len, error) = stream.read_full(&mut bytes);
    bytes.truncate(len);
    error.is_none().then_some((bytes, stream.compression()))
}

fn scan<J: Job>(lines: &[u8], layout: &FileLayout, job: &J, select: &Select) -> Option<J::Partial> {
    let reading = block::Reading {
        job,
        select,
        wanted: job.fields() | select.fields(),
        whole: false,
        list: false,
    };
    let mut found = block::read(&reading, layout, lines, None);
    job.seal(&mut found.partial).ok()?;
    Some(found.partial)
}
