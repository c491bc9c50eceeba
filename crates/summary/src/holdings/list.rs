//! Lists of URIs, one a line.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use waypost_index::input::Source;
use waypost_index::rejects::{RejectsFile, printable};
use waypost_surt::{Canonicalizer, is_surt};

use super::run::escaped;
use super::spool::{Spool, Spooled};
use super::{Input, Reading};
use crate::error::{Error, ErrorKind, Result};
use crate::ukvs::LONGEST;

/// How much is read at a time.
const BLOCK: usize = 4 << 20;

/// How many examples are kept.
const EXAMPLES: usize = 3;

/// Lines of lists that have no SURT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadUri {
    /// How many there are.
    pub count: u64,
    /// The first of them: where, and what is wrong.
    pub examples: Vec<String>,
}

struct Part {
    lines: Spooled,
    uris: u64,
    /// Which lines are bad, and why.
    bad: Vec<(usize, waypost_surt::Error)>,
}

/// Writes down the URIs of a list.
pub(super) fn read(
    input: &Input,
    source: &Source,
    bit: u64,
    mut rejects: Option<&mut RejectsFile>,
    spool: &Mutex<Spool>,
    reading: &mut Reading,
) -> Result<()> {
    let mut first_line = 1;
    let bytes = for_blocks(source, &input.progress, reading, |bytes, reading| {
        let lines: Vec<&[u8]> = bytes
            .strip_suffix(b"\n")
            .unwrap_or(bytes)
            .split(|&byte| byte == b'\n')
            .collect();
        let parts: Vec<Part> = lines
            .par_chunks(4_000)
            .map(|lines| part(input, lines, bit))
            .collect();
        for (part, chunk) in parts.into_iter().zip(lines.chunks(4_000)) {
            for (at, why) in part.bad {
                let line = first_line + at as u64;
                let error = Error::new(ErrorKind::Syntax(format!(
                    "{why}: {}",
                    printable(chunk[at])
                )))
                .in_file(source)
                .at_line(line);
                if input.strict {
                    return Err(error);
                }
                if let Some(rejects) = rejects.as_deref_mut() {
                    rejects.write(chunk[at])?;
                }
                reading.bad_uris.count += 1;
                if reading.bad_uris.examples.len() < EXAMPLES {
                    reading.bad_uris.examples.push(error.to_string());
                }
            }
            first_line += chunk.len() as u64;
            reading.captures += part.uris;
            if let Ok(mut spool) = spool.lock() {
                spool.take(&part.lines);
            }
        }
        Ok(())
    })?;
    reading.lines += first_line - 1;
    reading.bytes += bytes;
    Ok(())
}

fn part(input: &Input, lines: &[&[u8]], bit: u64) -> Part {
    let mut canonicalizer = Canonicalizer::new(input.dialect);
    let mut part = Part {
        lines: Spooled::new(bit),
        uris: 0,
        bad: Vec::new(),
    };
    let mut surt = Vec::new();
    // A list knows neither times nor languages nor types.
    let second: &[u8] = if input.by.is_some() { b"-" } else { b"" };
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        surt.clear();
        if is_surt(line) {
            surt.extend_from_slice(line);
        } else if let Err(error) = canonicalizer.canonicalize(line, &mut surt) {
            part.bad.push((at, error));
            continue;
        }
        part.uris += 1;
        part.lines.add(&escaped(&surt), second);
    }
    part.lines.end_line();
    part
}

/// Gives a source to `take` in blocks of whole lines. Returns how many bytes it has; `progress` counts
/// them as they are stored.
pub(crate) fn for_blocks(
    source: &Source,
    progress: &AtomicU64,
    reading: &mut Reading,
    mut take: impl FnMut(&[u8], &mut Reading) -> Result<()>,
) -> Result<u64> {
    let mut stream = source.open()?;
    let mut buffer = Vec::new();
    let mut kept = 0;
    let mut total = 0;
    loop {
        if kept > LONGEST {
            return Err(Error::format("a line is longer than 16 MiB").in_file(source));
        }
        buffer.resize(kept + BLOCK, 0);
        let before = stream.source_position();
        let (length, error) = stream.read_full(&mut buffer[kept..]);
        progress.fetch_add(stream.source_position() - before, Ordering::Relaxed);
        total += length as u64;
        let filled = kept + length;
        let damaged = match error {
            Some(error) if error.is_damage() => {
                reading.damage.push(error);
                true
            }
            Some(error) => return Err(error.into()),
            None => false,
        };
        let feed = memchr::memrchr(b'\n', &buffer[..filled]);
        if damaged || length == 0 {
            // Half a line of a damaged file is no line.
            let end = if damaged {
                feed.map_or(0, |at| at + 1)
            } else {
                filled
            };
            if end > 0 {
                take(&buffer[..end], reading)?;
            }
            return Ok(total);
        }
        let end = feed.map_or(0, |at| at + 1);
        if end > 0 {
            take(&buffer[..end], reading)?;
        }
        buffer.copy_within(end..filled, 0);
        kept = filled - end;
    }
}
