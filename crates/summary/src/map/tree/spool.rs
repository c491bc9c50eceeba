//! Rows in any order, written to a temporary file as lines whose bytes sort like their keys.
//!
//! ```text
//! key ⟨1⟩ second key ⟨1⟩ frequency [width of the filter]
//! ```

use std::io::Write;

use tempfile::NamedTempFile;
use waypost_io::{Format, IoContext, LineWriter, Ordered, Resources, Source, sort, temporary};

use super::row;
use super::spooled::Spooled;
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::ukvs::push_digits;

/// How much is written at a time.
const BUFFER: usize = 1 << 18;

/// Fewer bytes of lines are copied to the buffer.
const FEW: usize = 1 << 14;

/// Lines to be sorted.
pub(crate) struct Spool {
    /// Written by another thread.
    file: Ordered<Vec<u8>, NamedTempFile>,
    buffer: Vec<u8>,
    room: Resources,
    line: Vec<u8>,
    last: Vec<u8>,
    in_order: bool,
}

impl Spool {
    pub(crate) fn new(room: &Resources) -> Result<Spool> {
        let file = temporary::file_in(&room.temporary)?;
        let folder = room.temporary.clone();
        let write = move |file: &mut NamedTempFile, lines: Vec<u8>| {
            file.write_all(&lines).doing("write", folder.as_path())
        };
        Ok(Spool {
            file: Ordered::new(1, || |lines| lines, file, write)?,
            buffer: Vec::new(),
            room: room.clone(),
            line: Vec::new(),
            last: Vec::new(),
            in_order: true,
        })
    }

    /// Adds lines that [`push_head`] started, in any order.
    pub(crate) fn push_lines(&mut self, lines: Vec<u8>, in_order: bool) -> Result<()> {
        self.in_order &= in_order;
        if lines.len() < FEW {
            self.buffer.extend_from_slice(&lines);
            return self.flush(BUFFER);
        }
        self.flush(1)?;
        Ok(self.file.give(lines)?)
    }

    /// Has what is in the buffer written, if there are at least so many bytes.
    fn flush(&mut self, least: usize) -> Result<()> {
        if self.buffer.len() >= least {
            self.file.give(std::mem::take(&mut self.buffer))?;
        }
        Ok(())
    }

    /// Adds a row.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        second: Option<&[u8]>,
        frequency: &Frequency,
        filter: Option<u8>,
    ) -> Result<()> {
        self.line.clear();
        push_head(key, second.unwrap_or_default(), &mut self.line);
        row::write_frequency(frequency, &mut self.line);
        if let Some(width) = filter {
            self.line.push(b' ');
            push_digits(u64::from(width), &mut self.line);
        }
        self.buffer.extend_from_slice(&self.line);
        self.buffer.push(b'\n');
        if self.in_order {
            self.in_order = self.last <= self.line;
            std::mem::swap(&mut self.last, &mut self.line);
        }
        self.flush(BUFFER)
    }

    /// Sorts the lines, if necessary.
    pub(crate) fn finish(mut self) -> Result<Spooled> {
        self.flush(1)?;
        let mut written = self.file.finish()?.into_temp_path();
        if !self.in_order {
            let sorted = temporary::file_in(&self.room.temporary)?.into_temp_path();
            let mut out = LineWriter::create(&sorted, &Format::Plain, 1)?;
            let options = sort::Options {
                resources: self.room,
                ..sort::Options::default()
            };
            sort::sort(&[Source::new(written.to_path_buf())], &options, &mut out)?;
            // Removing a large file takes as long as syncing one.
            let unsorted = std::mem::replace(&mut written, sorted);
            let ((), finished) = rayon::join(|| drop(unsorted), || out.finish());
            finished?;
        }
        Spooled::open(written)
    }
}

/// Appends the part of a line before the frequency.
#[inline]
pub(crate) fn push_head(key: &[u8], second: &[u8], out: &mut Vec<u8>) {
    escape(key, out);
    out.push(END);
    escape(second, out);
    out.push(END);
}

/// Terminates the key in a line. Less than every byte of an escaped key.
const END: u8 = 1;
const ESCAPE: u8 = 2;

/// Escapes bytes that lines can't contain, without changing the order.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().all(|&byte| byte > b'\n') {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        if byte > b'\n' {
            out.push(byte);
        } else {
            out.extend_from_slice(&[ESCAPE, byte + 0x20]);
        }
    }
}

/// Undoes [`escape`], with `scratch` as a buffer.
fn unescape<'a>(text: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memchr(ESCAPE, text).is_none() {
        return text;
    }
    scratch.clear();
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            ESCAPE => scratch.extend(bytes.next().map(|byte| byte.wrapping_sub(0x20))),
            _ => scratch.push(byte),
        }
    }
    scratch
}

/// What a row says: its frequency, and the width of its filter.
pub(super) type Said = (Frequency, Option<u8>);

/// Splits a line into its head, which rows of the same key share, and what the row says.
pub(super) fn split(line: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = memchr::memrchr(END, line).ok_or_else(changed)?;
    Ok((&line[..end], &line[end + 1..]))
}

/// The key and the second key in a head, with a buffer for each.
pub(super) fn keys_in<'a>(
    head: &'a [u8],
    (key, second): (&'a mut Vec<u8>, &'a mut Vec<u8>),
) -> (&'a [u8], &'a [u8]) {
    let end = memchr::memchr(END, head).unwrap_or(head.len());
    let rest = head.get(end + 1..).unwrap_or_default();
    (unescape(&head[..end], key), unescape(rest, second))
}

/// Parses what follows the head of a line.
pub(super) fn said(text: &[u8]) -> Result<Said> {
    let text = str::from_utf8(text).map_err(|_| changed())?;
    let (frequency, filter) = match text.split_once(' ') {
        Some((frequency, width)) => (frequency, Some(width.parse().map_err(|_| changed())?)),
        None => (text, None),
    };
    Ok((frequency.parse().map_err(|_| changed())?, filter))
}

pub(super) fn changed() -> Error {
    Error::format("a temporary file was changed while it was in use")
}
