//! Gzip members, and the gzipped size of a text.
//!
//! The gzip files of this crate are series of members, each with about [`MEMBER`] bytes of text. The
//! gzipped size of a text can therefore be measured, or estimated, member by member without writing
//! it:
//!
//! ```
//! use waypost_io::gzip;
//!
//! let text = "com,example)/ 2004\n".repeat(1000);
//! assert!(gzip::size(text.as_bytes()) < 200);
//! ```

use std::io::{self, Read};

use libdeflater::{CompressionLvl, Compressor};
use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};

/// How many bytes of text a member has.
pub const MEMBER: usize = 1 << 20;

/// The usual compression level.
pub const LEVEL: u8 = 6;

/// How many members are read before they are compressed in parallel.
const BATCH: usize = 16;

/// Compresses text to gzip members.
pub struct Gzip(Compressor);

impl Gzip {
    /// A compressor with a level from 0 to 12.
    pub fn new(level: u8) -> Gzip {
        Gzip(Compressor::new(
            CompressionLvl::new(i32::from(level)).unwrap_or_default(),
        ))
    }

    /// Replaces `out` by one member with `text`.
    ///
    /// # Errors
    /// If the compressor fails.
    pub fn compress(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.resize(self.0.gzip_compress_bound(text.len()), 0);
        let size = self
            .0
            .gzip_compress(text, out)
            .map_err(|error| Error::new(ErrorKind::Format(format!("cannot compress: {error}"))))?;
        out.truncate(size);
        Ok(())
    }

    /// The size of one member with `text`.
    fn size(&mut self, text: &[u8], out: &mut Vec<u8>) -> u64 {
        match self.compress(text, out) {
            Ok(()) => out.len() as u64,
            // Not reached: the output has the size that the compressor asks for.
            Err(_) => text.len() as u64,
        }
    }
}

/// A member with `text` that is not compressed: its size depends only on that of the text.
///
/// # Errors
/// If the compressor fails.
pub fn stored(text: &[u8]) -> Result<Vec<u8>> {
    let mut member = Vec::new();
    Gzip::new(0).compress(text, &mut member)?;
    Ok(member)
}

/// Adds up the gzipped sizes of members. With a sample, the size of the others is estimated.
pub struct GzipSize {
    /// Compress the first member, and then one in this many.
    every: u64,
    gzip: Option<Gzip>,
    members: u64,
    /// Text that was compressed, and its gzipped size.
    measured: u64,
    gzipped: u64,
    /// Text that was not compressed.
    skipped: u64,
}

impl GzipSize {
    /// Compresses the first member, and then one in `every`. 1 measures the exact size.
    pub fn new(every: u64) -> GzipSize {
        GzipSize {
            every: every.max(1),
            gzip: None,
            members: 0,
            measured: 0,
            gzipped: 0,
            skipped: 0,
        }
    }

    /// Adds a member with `text`.
    pub fn add(&mut self, text: &[u8]) {
        if !self.compresses_next() {
            self.skip(text.len() as u64);
            return;
        }
        let mut gzip = self.gzip.take().unwrap_or_else(|| Gzip::new(LEVEL));
        let gzipped = gzip.size(text, &mut Vec::new());
        self.add_compressed(text.len() as u64, gzipped);
        // A compressor takes much memory, and a sample rarely needs it.
        self.gzip = Some(gzip).filter(|_| self.every == 1);
    }

    /// Whether the next member is compressed. If not, its text is not needed.
    pub fn compresses_next(&self) -> bool {
        self.members.is_multiple_of(self.every)
    }

    /// Adds a member with so many bytes of text that is not compressed.
    pub fn skip(&mut self, text: u64) {
        self.members += 1;
        self.skipped += text;
    }

    /// Adds a member that has already been compressed from `text` bytes to `gzipped` bytes.
    pub fn add_compressed(&mut self, text: u64, gzipped: u64) {
        self.members += 1;
        self.measured += text;
        self.gzipped += gzipped;
    }

    /// The gzipped size of all members, estimated for those that were not compressed.
    pub fn bytes(&self) -> u64 {
        let rest =
            u128::from(self.gzipped) * u128::from(self.skipped) / u128::from(self.measured.max(1));
        self.gzipped + rest as u64
    }

    /// Whether all members were compressed.
    pub fn is_exact(&self) -> bool {
        self.skipped == 0
    }
}

/// The gzipped size of a text, measured on all cores.
pub fn size(text: &[u8]) -> u64 {
    text.par_chunks(MEMBER)
        .map_init(
            || (Gzip::new(LEVEL), Vec::new()),
            |(gzip, out), member| gzip.size(member, out),
        )
        .sum()
}

/// The gzipped size of all that a reader gives, measured on all cores.
///
/// # Errors
/// If the reader fails.
pub fn size_of(mut reader: impl Read) -> io::Result<u64> {
    let mut text = Vec::new();
    let mut bytes = 0;
    loop {
        text.clear();
        let most = (BATCH * MEMBER) as u64;
        if reader.by_ref().take(most).read_to_end(&mut text)? == 0 {
            return Ok(bytes);
        }
        bytes += size(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Vec<u8> {
        let mut number = 7u64;
        (0..bytes)
            .map(|_| {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                b"abcdefgh"[(number >> 61) as usize]
            })
            .collect()
    }

    #[test]
    fn a_size_does_not_depend_on_how_the_text_arrives() {
        let text = text(BATCH * MEMBER + MEMBER / 2);
        let mut exact = GzipSize::new(1);
        text.chunks(MEMBER).for_each(|member| exact.add(member));
        assert!(exact.is_exact());
        assert_eq!(size(&text), exact.bytes());
        assert_eq!(size_of(&text[..]).unwrap(), exact.bytes());
        let mut gzip = Gzip::new(LEVEL);
        let mut out = Vec::new();
        let members = text.chunks(MEMBER).map(|member| {
            gzip.compress(member, &mut out).unwrap();
            out.len() as u64
        });
        assert_eq!(members.sum::<u64>(), exact.bytes());
        assert_eq!((size(b""), size_of(&b""[..]).unwrap()), (0, 0));
    }

    #[test]
    fn a_sample_gives_about_the_size() {
        let text = text(1 << 20);
        let (mut exact, mut sampled) = (GzipSize::new(1), GzipSize::new(8));
        for member in text.chunks(1 << 14) {
            exact.add(member);
            sampled.add(member);
        }
        assert!(exact.is_exact() && !sampled.is_exact());
        let ratio = sampled.bytes() as f64 / exact.bytes() as f64;
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
    }
}
