//! Finds the capture that a revisit repeats.
//!
//! A revisit has the digest of the content, but neither its media type nor its status, and the
//! content itself is in another record: that of the first capture with the same key and digest that
//! is not a revisit itself.

use std::collections::HashMap;

use memchr::memchr;

use crate::capture::{Capture, Field};

/// The fields that a revisit takes from the capture that it repeats, decoded; empty if missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Original {
    pub(crate) mime: Vec<u8>,
    pub(crate) mime_detected: Vec<u8>,
    pub(crate) status: Vec<u8>,
    pub(crate) length: Vec<u8>,
    pub(crate) offset: Vec<u8>,
    pub(crate) filename: Vec<u8>,
}

impl Original {
    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let fields = [
            &self.mime,
            &self.mime_detected,
            &self.status,
            &self.length,
            &self.offset,
            &self.filename,
        ];
        // Each has an allocation of its own.
        size_of::<Original>()
            + fields
                .iter()
                .map(|field| field.capacity() + 16)
                .sum::<usize>()
    }

    /// Fills the revisit with the fields of the original, and the `orig.*` fields with its location.
    pub fn stand_in_for<'b>(&'b self, revisit: &Capture<'b>) -> Capture<'b> {
        let mut resolved = revisit.clone();
        for (field, value) in [
            (Field::Mime, &self.mime),
            (Field::MimeDetected, &self.mime_detected),
            (Field::Status, &self.status),
            (Field::OriginalLength, &self.length),
            (Field::OriginalOffset, &self.offset),
            (Field::OriginalFilename, &self.filename),
        ] {
            if !value.is_empty() {
                resolved.replace(field, value);
            }
        }
        resolved
    }
}

/// The fields needed for this.
pub const WANTED: [Field; 7] = [
    Field::Mime,
    Field::MimeDetected,
    Field::Status,
    Field::Digest,
    Field::Length,
    Field::Offset,
    Field::Filename,
];

/// Reads captures in order and remembers the originals of the current key.
#[derive(Debug, Default)]
pub struct Resolver {
    key: Vec<u8>,
    originals: HashMap<Vec<u8>, Original>,
}

impl Resolver {
    /// The original of a revisit, if there was one. Captures of other keys are forgotten.
    pub fn see(&mut self, capture: &Capture<'_>) -> Option<&Original> {
        if self.key != capture.key() {
            self.key.clear();
            self.key.extend_from_slice(capture.key());
            self.originals.clear();
        }
        let digest = capture.text(Field::Digest)?;
        let digest = bare(&digest);
        if capture.is_revisit() {
            return self.originals.get(digest);
        }
        if !self.originals.contains_key(digest) {
            let text = |field| capture.text(field).unwrap_or_default().into_owned();
            let original = Original {
                mime: text(Field::Mime),
                mime_detected: text(Field::MimeDetected),
                status: text(Field::Status),
                length: text(Field::Length),
                offset: text(Field::Offset),
                filename: text(Field::Filename),
            };
            self.originals.insert(digest.to_vec(), original);
        }
        None
    }
}

/// `sha1:ABC` and `ABC` are the same digest.
pub(crate) fn bare(digest: &[u8]) -> &[u8] {
    match memchr(b':', digest) {
        Some(colon) => &digest[colon + 1..],
        None => digest,
    }
}
