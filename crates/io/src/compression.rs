//! Decoders for each compression that report how far they got.
//!
//! The readers of the libraries discard what they have decoded when they find an error and do not
//! report its position. An index that was truncated while it was copied still has all the captures
//! before its end, so this module uses the low-level decoders.

use bzip2::Decompress as Bunzip;
use flate2::{Decompress as Inflate, FlushDecompress, Status};
use libdeflater::Crc;
use zstd::stream::raw::{Decoder as Unzstd, Operation};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, with one member or several.
    Gzip,
    /// Zstandard, with one frame or several.
    Zstd,
    /// bzip2, with one stream or several.
    Bzip2,
}

impl Compression {
    /// Detects the compression from the first bytes.
    pub fn detect(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A skippable frame, with which seekable and pzstd files begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            _ => Compression::Plain,
        }
    }

    /// Whether such data can start with `start`, which is short.
    pub(crate) fn begins_with(self, start: &[u8]) -> bool {
        let magic: &[u8] = match self {
            Compression::Plain => &[],
            Compression::Gzip => &[0x1f, 0x8b],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            Compression::Bzip2 => b"BZh",
        };
        start.len() < 4 && magic.starts_with(&start[..start.len().min(magic.len())])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
        }
    }
}

/// The result of one step of a decoder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Bytes consumed.
    pub(crate) read: usize,
    /// Bytes produced.
    pub(crate) written: usize,
    /// Whether a member, frame or stream is complete.
    pub(crate) end: bool,
}

/// Why a decoder cannot continue, after the result of its last step.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) step: Step,
    pub(crate) detail: String,
}

/// A decoder for one member after another.
pub(crate) enum Codec {
    Gzip(Box<Gunzip>),
    Zstd(Box<Unzstd<'static>>),
    Bzip2(Box<Bunzip>),
}

impl Codec {
    /// A decoder, unless the data is plain.
    pub(crate) fn new(compression: Compression) -> std::io::Result<Option<Codec>> {
        Ok(match compression {
            Compression::Plain => None,
            Compression::Gzip => Some(Codec::Gzip(Box::default())),
            Compression::Zstd => Some(Codec::Zstd(Box::new(Unzstd::new()?))),
            Compression::Bzip2 => Some(Codec::Bzip2(Box::new(Bunzip::new(false)))),
        })
    }

    /// Prepares for the next member.
    pub(crate) fn restart(&mut self) -> std::io::Result<()> {
        match self {
            Codec::Gzip(gunzip) => gunzip.restart(),
            Codec::Zstd(unzstd) => unzstd.reinit()?,
            Codec::Bzip2(bunzip) => **bunzip = Bunzip::new(false),
        }
        Ok(())
    }

    /// Whether the end of the member that was decoded last ends a line of text: see
    /// [`Stream::text`](crate::Stream::text).
    pub(crate) fn ends_line(&self) -> bool {
        matches!(self, Codec::Gzip(gunzip) if gunzip.flags & EXTRA == 0)
    }

    /// Decodes as much as fits.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Fault> {
        match self {
            Codec::Gzip(gunzip) => gunzip.step(input, output),
            Codec::Zstd(unzstd) => match unzstd.run_on_buffers(input, output) {
                Ok(status) => Ok(Step {
                    read: status.bytes_read,
                    written: status.bytes_written,
                    end: status.remaining == 0,
                }),
                Err(error) => Err(Fault {
                    step: Step::default(),
                    detail: error.to_string(),
                }),
            },
            Codec::Bzip2(bunzip) => {
                let (read, written) = (bunzip.total_in(), bunzip.total_out());
                let result = bunzip.decompress(input, output);
                let step = Step {
                    read: (bunzip.total_in() - read) as usize,
                    written: (bunzip.total_out() - written) as usize,
                    end: matches!(result, Ok(bzip2::Status::StreamEnd)),
                };
                match result {
                    Ok(_) => Ok(step),
                    Err(error) => Err(Fault {
                        step,
                        detail: error.to_string(),
                    }),
                }
            }
        }
    }
}

/// The flag of a gzip header with extra fields, as blocked gzip has.
pub(crate) const EXTRA: u8 = 4;

/// A gzip member: header, deflated data, trailer.
pub(crate) struct Gunzip {
    part: Part,
    flags: u8,
    /// Bytes of the current part that were consumed.
    seen: usize,
    /// The little-endian number in the current part.
    number: u64,
    inflate: Inflate,
    crc: Crc,
    size: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Fixed,
    ExtraLength,
    Extra,
    Name,
    Comment,
    HeaderCrc,
    Data,
    Trailer,
}

impl Default for Gunzip {
    fn default() -> Gunzip {
        Gunzip {
            part: Part::Fixed,
            flags: 0,
            seen: 0,
            number: 0,
            inflate: Inflate::new(false),
            crc: Crc::new(),
            size: 0,
        }
    }
}

impl Gunzip {
    pub(crate) fn restart(&mut self) {
        self.inflate.reset(false);
        self.crc = Crc::new();
        self.size = 0;
        self.enter(Part::Fixed);
    }

    fn enter(&mut self, part: Part) {
        self.part = part;
        self.seen = 0;
        if part != Part::Extra {
            self.number = 0;
        }
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Fault> {
        let mut step = Step::default();
        while self.part != Part::Data {
            let Some(&byte) = input.get(step.read) else {
                return Ok(step);
            };
            step.read += 1;
            match self.head_or_trailer(byte) {
                Ok(end) => step.end = end,
                Err(detail) => {
                    return Err(Fault {
                        step,
                        detail: detail.to_owned(),
                    });
                }
            }
            if step.end {
                return Ok(step);
            }
        }
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        let result = self
            .inflate
            .decompress(&input[step.read..], output, FlushDecompress::None);
        step.read += (self.inflate.total_in() - read) as usize;
        step.written = (self.inflate.total_out() - written) as usize;
        self.crc.update(&output[..step.written]);
        self.size = self.size.wrapping_add(step.written as u32);
        match result {
            Ok(Status::StreamEnd) => {
                self.enter(Part::Trailer);
                Ok(step)
            }
            Ok(Status::Ok | Status::BufError) => Ok(step),
            Err(error) => Err(Fault {
                step,
                detail: error
                    .message()
                    .unwrap_or("no valid deflate data")
                    .to_owned(),
            }),
        }
    }

    /// Consumes one byte of the header or trailer. `true` when the member is complete.
    fn head_or_trailer(&mut self, byte: u8) -> Result<bool, &'static str> {
        let place = self.seen;
        self.seen += 1;
        match self.part {
            Part::Fixed => {
                match (place, byte) {
                    (0, 0x1f) | (1, 0x8b) | (2, 8) => {}
                    (0..=2, _) => return Err("no gzip header"),
                    (3, flags) if flags & 0xe0 != 0 => return Err("unknown flags in the header"),
                    (3, flags) => self.flags = flags,
                    _ => {}
                }
                if self.seen == 10 {
                    self.enter(Part::ExtraLength);
                    self.pass_absent();
                }
            }
            Part::ExtraLength => {
                self.number |= u64::from(byte) << (8 * place);
                if self.seen == 2 {
                    self.enter(Part::Extra);
                    self.pass_absent();
                }
            }
            Part::Extra => {
                if self.seen as u64 == self.number {
                    self.enter(Part::Name);
                    self.pass_absent();
                }
            }
            Part::Name | Part::Comment => {
                if byte == 0 {
                    self.enter(if self.part == Part::Name {
                        Part::Comment
                    } else {
                        Part::HeaderCrc
                    });
                    self.pass_absent();
                }
            }
            Part::HeaderCrc => {
                if self.seen == 2 {
                    self.enter(Part::Data);
                }
            }
            Part::Data => {}
            Part::Trailer => {
                self.number |= u64::from(byte) << (8 * place);
                if self.seen == 8 {
                    if self.number as u32 != self.crc.sum() {
                        return Err("the checksum differs");
                    }
                    if (self.number >> 32) as u32 != self.size {
                        return Err("the length differs");
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Skips parts of the header that are absent according to the flags.
    fn pass_absent(&mut self) {
        loop {
            let (present, next) = match self.part {
                Part::ExtraLength => (self.flags & EXTRA != 0, Part::Name),
                Part::Extra => (self.number > 0, Part::Name),
                Part::Name => (self.flags & 8 != 0, Part::Comment),
                Part::Comment => (self.flags & 16 != 0, Part::HeaderCrc),
                Part::HeaderCrc => (self.flags & 2 != 0, Part::Data),
                Part::Fixed | Part::Data | Part::Trailer => (true, Part::Data),
            };
            if present {
                return;
            }
            self.enter(next);
        }
    }
}
