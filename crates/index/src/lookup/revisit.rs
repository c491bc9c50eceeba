//! Finding the capture that a revisit repeats.
//!
//! A revisit has the digest of the content but neither its media type nor its status, and the
//! content itself is in another record. Among the captures of one key, in the order of time, the
//! first that is no revisit and has the same digest is the one.

use std::collections::HashMap;

use crate::capture::{Capture, Field};

/// What a revisit takes from the capture that it repeats. Text, decoded; empty where missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) mime: Vec<u8>,
    pub(crate) status: Vec<u8>,
    pub(crate) length: Vec<u8>,
    pub(crate) offset: Vec<u8>,
    pub(crate) filename: Vec<u8>,
}

/// The fields that must be read for this.
pub(crate) const WANTED: [Field; 6] = [
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Length,
    Field::Offset,
    Field::Filename,
];

/// Sees the captures in order and remembers the originals of the current key.
#[derive(Default)]
pub(crate) struct Resolver {
    key: Vec<u8>,
    originals: HashMap<Vec<u8>, Original>,
}

impl Resolver {
    /// The original of a revisit, if it was seen. Captures of another key are forgotten.
    pub(crate) fn see(&mut self, capture: &Capture<'_>) -> Option<Original> {
        if self.key != capture.key() {
            self.key.clear();
            self.key.extend_from_slice(capture.key());
            self.originals.clear();
        }
        let digest = capture.text(Field::Digest)?.into_owned();
        if capture.is_revisit() {
            return self.originals.get(&digest).cloned();
        }
        let text = |field| capture.text(field).unwrap_or_default().into_owned();
        self.originals.entry(digest).or_insert_with(|| Original {
            mime: text(Field::Mime),
            status: text(Field::Status),
            length: text(Field::Length),
            offset: text(Field::Offset),
            filename: text(Field::Filename),
        });
        None
    }
}
