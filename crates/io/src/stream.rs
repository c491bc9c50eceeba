//! The decompressed bytes of one source.

use std::fmt;
use std::io::{self, Read};

use crate::compression::{Codec, Compression};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

const BYTE_ORDER_MARK: &[u8; 3] = b"\xef\xbb\xbf";

/// How much is read from the source at a time.
const CHUNK: usize = 256 * 1024;

/// Reads a source and decompresses it on the way.
///
/// If the data is truncated or corrupt, everything that could be decoded is returned first. Then
/// [`read`](Read::read) fails with an error that [`Error::from_read`] converts back to an [`Error`]
/// with the file and the byte, for which [`is_damage`](Error::is_damage) is true. After that, the
/// stream is at its end.
pub struct Stream {
    name: String,
    source: Box<dyn Read + Send>,
    compression: Compression,
    codec: Option<Codec>,
    chunk: Vec<u8>,
    start: usize,
    end: usize,
    /// Compressed bytes consumed by the decoder.
    taken: u64,
    /// Decompressed bytes returned.
    given: u64,
    between_members: bool,
    source_ended: bool,
    done: bool,
    /// Whether the bytes are those of a text: see [`Stream::text`].
    text: bool,
    /// Whether a byte-order mark was skipped.
    marked: bool,
    /// Whether the end of a gzip member ends a line.
    members_end_lines: bool,
    /// The last byte that was decoded.
    last: u8,
    /// Decoded, but not returned yet.
    unread: Vec<u8>,
    /// An error found while decoding, returned after everything before it.
    fault: Option<Error>,
    progress: Option<Progress>,
}

impl Stream {
    /// A stream over any reader. `name` is used in errors.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub fn new(name: impl Into<String>, source: Box<dyn Read + Send>) -> Result<Stream> {
        let mut stream = Stream {
            name: name.into(),
            source,
            compression: Compression::Plain,
            codec: None,
            chunk: vec![0; CHUNK],
            start: 0,
            end: 0,
            taken: 0,
            given: 0,
            between_members: false,
            source_ended: false,
            done: false,
            text: false,
            marked: false,
            members_end_lines: false,
            last: b'\n',
            unread: Vec::new(),
            fault: None,
            progress: None,
        };
        match stream.fill(4) {
            // Returned by the first read, like damage further on.
            Err(error) if error.is_damage() => stream.fault = Some(error),
            filled => filled?,
        }
        stream.compression = Compression::detect(stream.waiting());
        stream.codec =
            Codec::new(stream.compression).map_err(|error| stream.cannot("decompress", error))?;
        Ok(stream)
    }

    /// A stream over the rest of a gzip file, from `offset` on, where a member should begin.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub fn gzip_at(name: String, source: Box<dyn Read + Send>, offset: u64) -> Result<Stream> {
        let mut stream = Stream::new(name, source)?;
        stream.taken = offset;
        stream.compression = Compression::Gzip;
        stream.codec =
            Codec::new(stream.compression).map_err(|error| stream.cannot("decompress", error))?;
        stream.between_members = true;
        Ok(stream)
    }

    /// Reads the source as a text of lines: a byte-order mark is skipped, UTF-16 is an error, and the
    /// end of a gzip member ends a line.
    ///
    /// Writers of ZipNum start a member for every block of lines, and some omit the last newline of a
    /// block. Members of blocked gzip (BGZF), which can be recognised by their headers, are not such
    /// blocks: they end in the middle of lines. So do zstd frames and bzip2 streams, which parallel
    /// compressors cut anywhere.
    #[must_use]
    pub fn text(mut self) -> Stream {
        self.text = true;
        self.members_end_lines()
    }

    /// Reads a part of a text, from one of its gzip members on: the end of a member ends a line, but
    /// there is no byte-order mark to look for.
    #[must_use]
    pub fn members_end_lines(mut self) -> Stream {
        self.members_end_lines = true;
        self
    }

    /// Reports the bytes of the source that are read from now on, as they are stored.
    #[must_use]
    pub fn reporting_to(mut self, progress: &Progress) -> Stream {
        self.progress = Some(progress.clone());
        self
    }

    /// Whether a byte-order mark was skipped. Known once something has been read.
    pub fn had_byte_order_mark(&self) -> bool {
        self.marked
    }

    /// How the source is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// How many decompressed bytes were read.
    pub fn position(&self) -> u64 {
        self.given
    }

    /// How many bytes of the source were used, as it is stored: for progress, and for errors.
    pub fn source_position(&self) -> u64 {
        self.taken
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads until `buffer` is full or the stream ends. Returns how much was read and the error that
    /// ended the stream, if any; what was read before the error is in `buffer`.
    pub fn read_full(&mut self, buffer: &mut [u8]) -> (usize, Option<Error>) {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_some(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => return (filled, Some(error)),
            }
        }
        (filled, None)
    }

    fn waiting(&self) -> &[u8] {
        &self.chunk[self.start..self.end]
    }

    /// Reads from the source until `wanted` bytes are buffered or it ends.
    fn fill(&mut self, wanted: usize) -> Result<()> {
        while self.end - self.start < wanted && !self.source_ended {
            if self.start > 0 {
                self.chunk.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.source.read(&mut self.chunk[self.end..]) {
                Ok(0) => self.source_ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cannot("read", error)),
            }
        }
        Ok(())
    }

    fn cannot(&self, doing: &'static str, source: io::Error) -> Error {
        let error = match source.downcast::<Error>() {
            // Damage of what the source itself inflates.
            Ok(ours) => ours,
            Err(source) => Error::new(ErrorKind::Io { doing, source }),
        };
        error.in_file(&self.name).at_byte(self.taken)
    }

    fn damage(&self, kind: ErrorKind) -> Error {
        Error::new(kind).in_file(&self.name).at_byte(self.taken)
    }

    fn take(&mut self, read: usize) {
        self.start += read;
        self.count(read);
    }

    /// Counts bytes of the source as used.
    fn count(&mut self, read: usize) {
        self.taken += read as u64;
        if let Some(progress) = &self.progress {
            progress.add(read as u64);
        }
    }

    fn read_some(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.done || out.is_empty() {
            return Ok(0);
        }
        let result = if self.text && self.given == 0 && !self.marked {
            self.read_start(out)
        } else {
            self.read_any(out)
        };
        match &result {
            Ok(0) | Err(_) => self.done = true,
            Ok(read) => self.given += *read as u64,
        }
        result
    }

    fn read_any(&mut self, out: &mut [u8]) -> Result<usize> {
        if !self.unread.is_empty() {
            let read = out.len().min(self.unread.len());
            out[..read].copy_from_slice(&self.unread[..read]);
            self.unread.drain(..read);
            return Ok(read);
        }
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let read = if self.codec.is_some() {
            self.read_compressed(out)?
        } else {
            self.read_plain(out)?
        };
        if read > 0 {
            self.last = out[read - 1];
        }
        Ok(read)
    }

    /// The first bytes of a text.
    fn read_start(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut start = [0; 3];
        let mut filled = 0;
        let mut ended = Ok(0);
        while filled < 3 {
            ended = self.read_any(&mut start[filled..]);
            match ended {
                Ok(read) if read > 0 => filled += read,
                _ => break,
            }
        }
        self.marked = &start == BYTE_ORDER_MARK;
        if self.marked {
            return self.read_any(out);
        }
        if matches!(start[..filled], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Err(Error::new(ErrorKind::Utf16).in_file(&self.name));
        }
        if filled == 0 {
            return ended;
        }
        let now = filled.min(out.len());
        out[..now].copy_from_slice(&start[..now]);
        self.unread.extend_from_slice(&start[now..filled]);
        if let Err(error) = ended {
            self.fault = Some(error);
        }
        Ok(now)
    }

    fn read_plain(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.start == self.end && !self.source_ended {
            // Straight into the caller's buffer: the bytes need no decoding.
            loop {
                match self.source.read(out) {
                    Ok(read) => {
                        self.count(read);
                        return Ok(read);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.cannot("read", error)),
                }
            }
        }
        let read = out.len().min(self.end - self.start);
        out[..read].copy_from_slice(&self.chunk[self.start..self.start + read]);
        self.take(read);
        Ok(read)
    }

    fn read_compressed(&mut self, out: &mut [u8]) -> Result<usize> {
        let compression = self.compression.name();
        loop {
            if self.between_members && !self.next_member()? {
                return Ok(0);
            }
            self.fill(1)?;
            let Some(codec) = self.codec.as_mut() else {
                return Ok(0);
            };
            match codec.step(&self.chunk[self.start..self.end], out) {
                Ok(step) => {
                    let ends_line = codec.ends_line();
                    self.take(step.read);
                    self.between_members = step.end;
                    if step.written > 0 {
                        return Ok(step.written);
                    }
                    if step.end && self.members_end_lines && self.last != b'\n' && ends_line {
                        out[0] = b'\n';
                        return Ok(1);
                    }
                    if step.read == 0 && self.source_ended && !step.end {
                        return Err(self.damage(ErrorKind::Truncated { compression }));
                    }
                }
                Err(fault) => {
                    self.take(fault.step.read);
                    let error = self.damage(ErrorKind::Corrupt {
                        compression,
                        detail: fault.detail,
                    });
                    if fault.step.written == 0 {
                        return Err(error);
                    }
                    // What was decoded before the damage is returned first.
                    self.fault = Some(error);
                    return Ok(fault.step.written);
                }
            }
        }
    }

    /// Prepares for the next member. `false` at the end of the data.
    fn next_member(&mut self) -> Result<bool> {
        self.fill(4)?;
        // Tapes and block devices pad with zeros, which gzip skips, too.
        while self.compression == Compression::Gzip && self.waiting().first() == Some(&0) {
            self.take(1);
            self.fill(4)?;
        }
        if self.start == self.end {
            return Ok(false);
        }
        if Compression::detect(self.waiting()) != self.compression {
            let compression = self.compression.name();
            // The first bytes of a truncated member.
            let kind = if self.compression.begins_with(self.waiting()) {
                ErrorKind::Truncated { compression }
            } else {
                ErrorKind::TrailingGarbage { compression }
            };
            return Err(self.damage(kind));
        }
        if let Some(codec) = self.codec.as_mut()
            && let Err(error) = codec.restart()
        {
            return Err(self.cannot("decompress", error));
        }
        self.between_members = false;
        Ok(true)
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_some(out).map_err(io::Error::from)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("name", &self.name)
            .field("compression", &self.compression)
            .field("source_position", &self.taken)
            .field("position", &self.given)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
