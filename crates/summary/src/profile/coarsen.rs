//! Converting a profile to a coarser policy.

use std::fs::File;
use std::path::{Path, PathBuf};

use waypost_io::Source;
use waypost_io::partial::{Spill, push_number, take_number};
use waypost_surt::{Policy, Surt};

use super::order::{Order, Piece, Sink, TextRow};
use super::records::{Count, Records};
use super::row::Row;
use super::store::{check_order, open_rows};
use crate::about::About;
use crate::error::{Error, Result};

impl Count for Row {
    /// Rows of one profile: a source that has one of the keys may also have the other, so only the
    /// larger number of sources is certain.
    fn add(&mut self, other: &Row) {
        self.frequency = self.frequency.plus(other.frequency);
        self.spread = self.spread.max(other.spread);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        push_number(out, self.spread);
        out.extend_from_slice(self.frequency.to_string().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Row> {
        let (spread, text) = take_number(bytes)?;
        let frequency = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(Row { frequency, spread })
    }
}

/// Writes a profile under a coarser policy to a file in `folder`.
pub(super) fn coarsen(
    source: &Source,
    about: &About,
    policy: Policy,
    memory: usize,
    folder: &Path,
    number: usize,
) -> Result<PathBuf> {
    let finer = about.policy.unwrap_or(Policy::Whole);
    // Keys of domain policies have numbers after the domain: they aren't SURTs that could be cut
    // again.
    let can_be_cut = !matches!(finer, Policy::Domain(_));
    if !can_be_cut || !policy.is_coarser_or_equal(finer) {
        return Err(Error::invalid(format!(
            "keys of {policy} cannot be cut from keys of {finer}"
        ))
        .in_file(source));
    }
    let out_path = folder.join(format!("coarser-{number}"));
    let mut out = Writer::create(&out_path)?;
    let fields = 1 + usize::from(about.by.is_some());
    let (mut reader, _) = open_rows(source)?;
    let mut header = Vec::new();
    reader.headers().write(&mut header);
    out.write(&header)?;
    // Rows of a profile are sorted, but their coarser keys need not be: `com,example` comes before
    // `com:8080`, but `com)/` before both.
    let mut order: Order<Row> = Order::new(policy, memory / 4, true, &Spill::new(folder));
    let mut batch: Records<Row> = Records::default();
    let (mut key, mut before, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = 0;
    loop {
        let row = match reader.next_line()? {
            None => break,
            Some(line) => Row::parse(line, fields, &mut key),
        };
        let row = row.map_err(|error| reader.error(error))?;
        check_order(&before, &key, rows).map_err(|error| reader.error(error))?;
        rows += 1;
        let end = memchr::memchr(b' ', &key)
            .filter(|_| fields > 1)
            .unwrap_or(key.len());
        cut.clear();
        policy.cut(&Surt::new(&key[..end]), &mut cut);
        cut.extend_from_slice(&key[end..]);
        batch.push(&cut, row);
        if rows % 4096 == 0 {
            let piece = Piece::new(std::mem::take(&mut batch));
            order.take(&piece, &key, &mut out)?;
        }
        std::mem::swap(&mut before, &mut key);
    }
    order.take(&Piece::new(batch), &before, &mut out)?;
    order.finish(&mut out)?;
    out.finish()?;
    Ok(out_path)
}

struct Writer {
    path: PathBuf,
    out: std::io::BufWriter<File>,
    line: Vec<u8>,
}

impl Writer {
    fn create(path: &Path) -> Result<Writer> {
        let file = File::create(path).map_err(|error| Error::io("write", path, error))?;
        Ok(Writer {
            path: path.to_owned(),
            out: std::io::BufWriter::with_capacity(1 << 20, file),
            line: Vec::new(),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        use std::io::Write;
        self.out
            .write_all(bytes)
            .map_err(|error| Error::io("write", &self.path, error))
    }

    fn finish(mut self) -> Result<()> {
        use std::io::Write;
        self.out
            .flush()
            .map_err(|error| Error::io("write", &self.path, error))
    }
}

impl Sink<Row> for Writer {
    fn row(&mut self, key: &[u8], row: &Row) -> Result<()> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        row.write(key, &mut line);
        let written = self.write(&line);
        self.line = line;
        written
    }

    fn text(&mut self, text: &[u8], _: &[TextRow], _: usize) -> Result<()> {
        self.write(text)
    }
}
