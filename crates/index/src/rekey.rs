//! Replaces every key of an index by the SURT of its URL.
//!
//! Lookups search for the SURT of a URI under a dialect. An index with other keys must be rekeyed and
//! sorted again before it can be searched.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use waypost_io::partial::{Decoder, Encoder};
use waypost_io::{Error, ErrorKind, Format, LineWriter, Progress, Result, Source};
use waypost_surt::Dialect;

use crate::capture::{Capture, Field, Fields};
use crate::key::{KeyCheck, Rekeyer};
use crate::scan::{self, At, Job};

/// The result of rekeying.
#[derive(Debug, Default)]
pub struct Rekeyed {
    /// The comparison of keys with URLs.
    pub keys: KeyCheck,
    /// Number of lines whose key was replaced.
    pub replaced: u64,
    /// Number of captures without a key column, such as NDJSON.
    pub without_key: u64,
    /// Sources with damaged compression; everything before the damage is included.
    pub damage: Vec<Error>,
}

/// Writes the lines of `sources` to the file `out`, unsorted, with the SURTs of their URLs under
/// `dialect` as keys. Captures without a URL and lines that are not captures are copied unchanged.
///
/// # Errors
/// If a source cannot be read or the file cannot be written.
pub fn rekey(
    sources: &[Source],
    dialect: Dialect,
    progress: &Progress,
    out: &Path,
) -> Result<Rekeyed> {
    let job = Rewriting {
        dialect,
        out: Mutex::new((LineWriter::create(out, &Format::Plain, 1)?, Ok(()))),
    };
    progress.read(sources);
    let options = scan::Options {
        progress: progress.clone(),
        ..scan::Options::default()
    };
    let (lines, outcome) = scan::scan(sources, &job, options)?;
    let (out, written) = job.out.into_inner().unwrap_or_else(PoisonError::into_inner);
    written?;
    out.finish()?;
    if lines.without_key > 0 {
        return Err(Error::new(ErrorKind::Invalid(format!(
            "{} lines have no column for a key",
            lines.without_key
        ))));
    }
    Ok(Rekeyed {
        keys: lines.keys,
        replaced: lines.replaced,
        without_key: lines.without_key,
        damage: outcome.damage,
    })
}

struct Rewriting {
    dialect: Dialect,
    out: Mutex<(LineWriter, Result<()>)>,
}

#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The offset of the last line in `bytes`, which a capture may replace.
    last: usize,
    replaced: u64,
    without_key: u64,
    keys: KeyCheck,
    rekeyer: Option<Rekeyer>,
}

impl Job for Rewriting {
    type Partial = Lines;

    fn fields(&self) -> Fields {
        Field::Url.into()
    }

    fn empty(&self) -> Lines {
        Lines::default()
    }

    fn line(&self, lines: &mut Lines, line: &[u8], _: At) {
        lines.last = lines.bytes.len();
        lines.bytes.extend_from_slice(&with_key_column(line));
        lines.bytes.push(b'\n');
    }

    fn add(&self, lines: &mut Lines, capture: &Capture<'_>, _: At) {
        let rekeyer = lines
            .rekeyer
            .get_or_insert_with(|| Rekeyer::new(self.dialect));
        let surt = rekeyer.surt(capture);
        if surt == capture.key() {
            return;
        }
        let Some((before, behind)) = capture.around_key() else {
            lines.without_key += 1;
            return;
        };
        lines.bytes.truncate(lines.last);
        lines.bytes.extend_from_slice(before);
        lines.bytes.extend_from_slice(surt);
        lines.bytes.extend_from_slice(behind);
        lines.bytes.push(b'\n');
        lines.replaced += 1;
    }

    fn seal(&self, lines: &mut Lines) -> Result<()> {
        if let Some(rekeyer) = lines.rekeyer.take() {
            lines.keys.merge(rekeyer.check());
        }
        Ok(())
    }

    fn merge(&self, earlier: &mut Lines, later: Lines, _: At) -> Result<()> {
        earlier.replaced += later.replaced;
        earlier.without_key += later.without_key;
        earlier.keys.merge(&later.keys);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let (writer, written) = &mut *out;
        if written.is_ok() {
            *written = writer.push_lines(&later.bytes);
        }
        Ok(())
    }

    fn to_bytes(&self, lines: &Lines) -> Result<Vec<u8>> {
        let mut out = Encoder::new("rekeyed", 1);
        out.text(&lines.bytes);
        out.number(lines.replaced);
        out.number(lines.without_key);
        out.text(&lines.keys.to_bytes());
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Lines> {
        let mut from = Decoder::new(bytes, "rekeyed", 1)?;
        let lines = Lines {
            bytes: from.text()?.to_vec(),
            replaced: from.number()?,
            without_key: from.number()?,
            keys: KeyCheck::from_bytes(from.text()?)?,
            ..Lines::default()
        };
        from.finish()?;
        Ok(lines)
    }
}

/// Changes a header whose first column is the URL to name a key there; returns other lines unchanged.
fn with_key_column(line: &[u8]) -> Cow<'_, [u8]> {
    match line.strip_prefix(b" CDX a b a ") {
        Some(rest) => Cow::Owned([b" CDX N b a ", rest].concat()),
        None => Cow::Borrowed(line),
    }
}
