//! The decompressed bytes of one source.

use std::fmt;
use std::io::{self, Read};

use crate::compression::{Codec, Compression};
use crate::error::{Error, ErrorKind, Result};

/// How much is read from the source at a time.
const CHUNK: usize = 256 * 1024;

/// Reads a source and decompresses it on the way.
///
/// When the compression is cut or corrupt, everything that could be decoded is given first; then
/// [`read`](Read::read) fails with an error that [`Error::from_read`] turns back into one that
/// names the file and the byte, and that [`is_damage`](Error::is_damage). After it, the stream is
/// at its end.
pub struct Stream {
    name: String,
    source: Box<dyn Read + Send>,
    compression: Compression,
    codec: Option<Codec>,
    chunk: Vec<u8>,
    start: usize,
    end: usize,
    /// Compressed bytes taken by the decoder.
    taken: u64,
    /// Decompressed bytes given.
    given: u64,
    between_members: bool,
    source_ended: bool,
    done: bool,
    /// Met while decoding; told when what came before it has been given.
    fault: Option<Error>,
}

impl Stream {
    /// A stream over any reader. `name` is used in errors.
    ///
    /// # Errors
    /// When the first bytes cannot be read.
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
            fault: None,
        };
        stream.fill(4)?;
        stream.compression = Compression::detect(stream.waiting());
        stream.codec =
            Codec::new(stream.compression).map_err(|error| stream.cannot("decompress", error))?;
        Ok(stream)
    }

    /// A stream over the rest of a gzip file, from `offset` on, where a member should begin.
    ///
    /// # Errors
    /// When the first bytes cannot be read.
    pub fn gzip_at(name: String, source: Box<dyn Read + Send>, offset: u64) -> Result<Stream> {
        let mut stream = Stream::new(name, source)?;
        stream.taken = offset;
        stream.compression = Compression::Gzip;
        stream.codec =
            Codec::new(stream.compression).map_err(|error| stream.cannot("decompress", error))?;
        stream.between_members = true;
        Ok(stream)
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

    /// Reads until `buffer` is full or the stream ends. Gives how much was read and, if the
    /// stream ended because of it, the error; what was read before it is in `buffer`.
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

    /// Reads from the source until `wanted` bytes wait or it ends.
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
        Error::new(ErrorKind::Io { doing, source })
            .in_file(&self.name)
            .at_byte(self.taken)
    }

    fn damage(&self, kind: ErrorKind) -> Error {
        Error::new(kind).in_file(&self.name).at_byte(self.taken)
    }

    fn take(&mut self, read: usize) {
        self.start += read;
        self.taken += read as u64;
    }

    fn read_some(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.done || out.is_empty() {
            return Ok(0);
        }
        let result = if self.codec.is_some() {
            self.read_compressed(out)
        } else {
            self.read_plain(out)
        };
        match &result {
            Ok(0) | Err(_) => self.done = true,
            Ok(read) => self.given += *read as u64,
        }
        result
    }

    fn read_plain(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.start == self.end && !self.source_ended {
            // Straight into the caller's buffer: nothing is to be done to the bytes.
            loop {
                match self.source.read(out) {
                    Ok(read) => {
                        self.taken += read as u64;
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
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
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
                    self.take(step.read);
                    self.between_members = step.end;
                    if step.written > 0 {
                        return Ok(step.written);
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
                    // What was decoded before the fault is given first.
                    self.fault = Some(error);
                    return Ok(fault.step.written);
                }
            }
        }
    }

    /// Makes ready for the next member. False at the end of the data.
    fn next_member(&mut self) -> Result<bool> {
        self.fill(4)?;
        // Tapes and block devices pad with zeros, which gzip, too, passes over.
        while self.compression == Compression::Gzip && self.waiting().first() == Some(&0) {
            self.take(1);
            self.fill(4)?;
        }
        if self.start == self.end {
            return Ok(false);
        }
        if Compression::detect(self.waiting()) != self.compression {
            let compression = self.compression.name();
            // Too short to tell: the first bytes of a member that was cut.
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
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    const TEXT: &[u8] = b"com,example)/ 20200101000000 {}\norg,example)/ 20200101000000 {}\n";

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(data).unwrap();
        out.finish().unwrap()
    }

    fn bzip2(data: &[u8]) -> Vec<u8> {
        let mut out = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
        out.write_all(data).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> (Compression, Vec<u8>, Option<Error>) {
        let mut stream = Stream::new("test", Box::new(Cursor::new(bytes))).unwrap();
        let mut out = Vec::new();
        let mut buffer = vec![0; 10];
        loop {
            let (read, error) = stream.read_full(&mut buffer);
            out.extend_from_slice(&buffer[..read]);
            assert_eq!(stream.position(), out.len() as u64);
            if error.is_some() || read == 0 {
                assert_eq!(stream.read_full(&mut buffer).0, 0, "a stream ends once");
                return (stream.compression(), out, error);
            }
        }
    }

    #[test]
    fn every_compression_is_told_by_its_bytes_and_members_follow_each_other() {
        let many = [TEXT; 3].concat();
        let cases = [
            (Compression::Plain, many.clone()),
            (
                Compression::Gzip,
                [gzip(TEXT), gzip(b""), gzip(&[TEXT; 2].concat())].concat(),
            ),
            (
                Compression::Zstd,
                [
                    vec![0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9],
                    zstd::encode_all(TEXT, 3).unwrap(),
                    zstd::encode_all(&*[TEXT; 2].concat(), 3).unwrap(),
                ]
                .concat(),
            ),
            (
                Compression::Bzip2,
                [bzip2(TEXT), bzip2(&[TEXT; 2].concat())].concat(),
            ),
        ];
        for (compression, bytes) in cases {
            let (found, out, error) = read(bytes);
            assert!(error.is_none(), "{compression:?}: {error:?}");
            assert_eq!(found, compression);
            assert_eq!(out, many, "{compression:?}");
        }
        assert_eq!(read(Vec::new()).1, b"");
    }

    #[test]
    fn cut_data_gives_what_was_there_and_names_the_byte() {
        for (name, bytes) in [
            ("gzip", gzip(TEXT)),
            ("zstd", zstd::encode_all(TEXT, 3).unwrap()),
            ("bzip2", bzip2(TEXT)),
        ] {
            for cut in 4..bytes.len() {
                let (_, out, error) = read(bytes[..cut].to_vec());
                let error = error.unwrap_or_else(|| panic!("{name} cut at {cut} seems whole"));
                assert!(error.is_damage(), "{name} {cut}: {error}");
                assert_eq!(error.place().byte, Some(cut as u64), "{name}: {error}");
                assert!(TEXT.starts_with(&out), "{name} {cut}");
            }
            let second = [bytes.clone(), bytes[..bytes.len() - 3].to_vec()].concat();
            let (_, out, error) = read(second);
            assert!(error.is_some_and(|e| e.is_damage()), "{name}");
            assert!(out.starts_with(TEXT), "{name}: the first member is kept");
        }
    }

    #[test]
    fn a_cut_gzip_member_gives_the_lines_before_the_cut() {
        let text: Vec<u8> = (0..20_000u32)
            .flat_map(|n| {
                format!(
                    "com,example)/{} 20200101000000 {{}}\n",
                    n.wrapping_mul(2_654_435_761)
                )
                .into_bytes()
            })
            .collect();
        let bytes = gzip(&text);
        let (_, out, error) = read(bytes[..bytes.len() / 2].to_vec());
        assert!(matches!(error.unwrap().kind(), ErrorKind::Truncated { .. }));
        assert!(
            out.len() > text.len() / 3,
            "{} of {}",
            out.len(),
            text.len()
        );
        assert!(text.starts_with(&out));
    }

    #[test]
    fn flipped_bits_are_found_and_what_came_before_is_kept() {
        let text: Vec<u8> = (0..50_000u32)
            .flat_map(|n| {
                format!(
                    "com,example)/{} 20200101000000 {{}}\n",
                    n.wrapping_mul(2_654_435_761)
                )
                .into_bytes()
            })
            .collect();
        let mut bytes = gzip(&text);
        let middle = bytes.len() / 2;
        for byte in &mut bytes[middle..middle + 64] {
            *byte ^= 0x55;
        }
        let (_, out, error) = read(bytes);
        let error = error.unwrap();
        assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
        assert!(error.place().byte.unwrap() >= middle as u64);
        let common = out.iter().zip(&text).take_while(|(a, b)| a == b).count();
        assert!(common > text.len() / 3, "{common}");
    }

    #[test]
    fn what_follows_the_data_is_named_and_zeros_are_padding() {
        let (_, out, error) = read([gzip(TEXT), b"garbage".to_vec()].concat());
        let error = error.unwrap();
        assert_eq!(out, TEXT);
        assert!(
            matches!(error.kind(), ErrorKind::TrailingGarbage { .. }),
            "{error}"
        );
        assert_eq!(error.place().byte, Some(gzip(TEXT).len() as u64));
        let (_, out, error) = read([gzip(TEXT), vec![0; 1000]].concat());
        assert_eq!(out, TEXT);
        assert!(error.is_none(), "{error:?}");
    }

    #[test]
    fn a_header_with_every_optional_part_is_read() {
        let plain = gzip(TEXT);
        let mut bytes = plain[..10].to_vec();
        bytes[3] = 2 | 4 | 8 | 16;
        bytes.extend([3, 0, b'a', b'b', b'c']);
        bytes.extend(b"name\0comment\0\x12\x34");
        bytes.extend(&plain[10..]);
        let (_, out, error) = read(bytes);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(out, TEXT);
    }
}
