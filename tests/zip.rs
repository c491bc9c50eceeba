//! Writes zip archives of every kind for tests, also invalid ones: included by the tests of several
//! crates.
#![allow(dead_code, reason = "no test file needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// An entry to write.
#[derive(Clone, Default)]
pub(crate) struct File<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: Vec<u8>,
    pub(crate) deflated: bool,
    /// Sizes and checksum follow the data instead of preceding it.
    pub(crate) descriptor: bool,
    /// Sizes and offset are in zip64 fields.
    pub(crate) zip64: bool,
    pub(crate) encrypted: bool,
    /// The compression method to claim.
    pub(crate) method: Option<u16>,
    pub(crate) wrong_checksum: bool,
}

pub(crate) fn stored<'a>(name: &'a str, content: impl Into<Vec<u8>>) -> File<'a> {
    File {
        name,
        content: content.into(),
        ..File::default()
    }
}

pub(crate) fn deflated<'a>(name: &'a str, content: impl Into<Vec<u8>>) -> File<'a> {
    File {
        deflated: true,
        ..stored(name, content)
    }
}

/// An archive of `files`, with `before` bytes before it and a comment after it.
pub(crate) fn zip(files: &[File<'_>], before: usize, comment: &[u8]) -> Vec<u8> {
    zip_with_hole(files, 0, before, comment).0
}

/// The same with a hole after the content of the first file, which counts as part of it. Returns also
/// where the hole belongs.
pub(crate) fn zip_with_hole(
    files: &[File<'_>],
    hole: u64,
    before: usize,
    comment: &[u8],
) -> (Vec<u8>, usize) {
    let mut out = vec![b'x'; before];
    let mut cut = 0;
    let mut directory = Vec::new();
    let is_64 = files.iter().any(|file| file.zip64);
    for (number, file) in files.iter().enumerate() {
        let (moved, grown) = match number {
            0 => (0, hole),
            _ => (hole, 0),
        };
        let offset = (out.len() - before) as u64 + moved;
        let mut crc = Crc::new();
        crc.update(&file.content);
        let sum = crc.sum() ^ u32::from(file.wrong_checksum);
        let data = match file.deflated {
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&file.content).unwrap();
                encoder.finish().unwrap()
            }
            false => file.content.clone(),
        };
        let method = file.method.unwrap_or(if file.deflated { 8 } else { 0 });
        let flags = u16::from(file.encrypted) | u16::from(file.descriptor) << 3 | 1 << 11;
        let (size, packed) = (file.content.len() as u64 + grown, data.len() as u64 + grown);
        let short = |number: u64| match file.zip64 {
            true => u32::MAX,
            false => number as u32,
        };
        let name = file.name.as_bytes();
        let mut extra64 = Vec::new();
        if file.zip64 {
            extra64.extend_from_slice(&1_u16.to_le_bytes());
            extra64.extend_from_slice(&24_u16.to_le_bytes());
            for number in [size, packed, offset] {
                extra64.extend_from_slice(&number.to_le_bytes());
            }
        }
        // Another field, and in the local header of another length than in the directory.
        let other: &[u8] = b"\x55\x54\x03\0abc";
        let local_sizes = match file.descriptor {
            true => [0, 0, 0],
            false => [sum, short(packed), short(size)],
        };
        out.extend_from_slice(b"PK\x03\x04\x14\0");
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&method.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        put(&mut out, local_sizes.map(u32::to_le_bytes));
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(&(other.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(other);
        out.extend_from_slice(&data);
        if number == 0 {
            cut = out.len();
        }
        if file.descriptor {
            out.extend_from_slice(b"PK\x07\x08");
            put(
                &mut out,
                [sum, packed as u32, size as u32].map(u32::to_le_bytes),
            );
        }
        directory.extend_from_slice(b"PK\x01\x02\x14\0\x14\0");
        directory.extend_from_slice(&flags.to_le_bytes());
        directory.extend_from_slice(&method.to_le_bytes());
        directory.extend_from_slice(&[0; 4]);
        put(
            &mut directory,
            [sum, short(packed), short(size)].map(u32::to_le_bytes),
        );
        directory.extend_from_slice(&(name.len() as u16).to_le_bytes());
        directory.extend_from_slice(&(extra64.len() as u16).to_le_bytes());
        directory.extend_from_slice(&3_u16.to_le_bytes());
        directory.extend_from_slice(&[0; 8]);
        directory.extend_from_slice(&short(offset).to_le_bytes());
        directory.extend_from_slice(name);
        directory.extend_from_slice(&extra64);
        directory.extend_from_slice(b"???");
    }
    let (offset, size) = ((out.len() - before) as u64 + hole, directory.len() as u64);
    let count = files.len() as u64;
    out.extend_from_slice(&directory);
    if is_64 {
        let at = (out.len() - before) as u64 + hole;
        out.extend_from_slice(b"PK\x06\x06");
        out.extend_from_slice(&44_u64.to_le_bytes());
        out.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        put(&mut out, [count, count, size, offset].map(u64::to_le_bytes));
        out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
    }
    let (count, size, offset) = match is_64 {
        true => (u16::MAX, u32::MAX, u32::MAX),
        false => (count as u16, size as u32, offset as u32),
    };
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&(comment.len() as u16).to_le_bytes());
    out.extend_from_slice(comment);
    (out, cut)
}

fn put<const N: usize, const M: usize>(out: &mut Vec<u8>, numbers: [[u8; N]; M]) {
    out.extend(numbers.into_iter().flatten());
}
