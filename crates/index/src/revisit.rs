//! Finds the capture that a revisit repeats.
//!
//! A revisit has the digest of the content, but neither its media type nor its status, and the
//! content itself is in another record: that of the first capture with the same key and digest that
//! is not a revisit itself.

use std::collections::HashMap;

use memchr::memchr;
use serde::{Deserialize, Serialize};

use crate::capture::{Capture, Field};

/// The fields that a revisit takes from the capture that it repeats, decoded; empty if missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Resolver {
    key: Vec<u8>,
    /// By digest. A list in serialised form, because digests are bytes.
    #[serde(with = "as_list")]
    originals: HashMap<Vec<u8>, Original>,
    /// The first key, and whether it has revisits: they may depend on captures before.
    first: Option<(Vec<u8>, bool)>,
    /// Whether there was another key since.
    is_past_first: bool,
}

mod as_list {
    use std::collections::HashMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Original;

    type Originals = HashMap<Vec<u8>, Original>;

    pub(super) fn serialize<S: Serializer>(
        originals: &Originals,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list: Vec<_> = originals.iter().collect();
        list.sort_by_key(|(digest, _)| *digest);
        out.collect_seq(list)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Originals, D::Error> {
        let list = Vec::<(Vec<u8>, Original)>::deserialize(from)?;
        Ok(list.into_iter().collect())
    }
}

impl Resolver {
    /// The original of a revisit, if there was one. Captures of other keys are forgotten.
    pub fn see(&mut self, capture: &Capture<'_>) -> Option<&Original> {
        if self.key != capture.key() || self.first.is_none() {
            self.key.clear();
            self.key.extend_from_slice(capture.key());
            self.originals.clear();
            self.is_past_first = self.first.is_some();
            self.first
                .get_or_insert_with(|| (capture.key().to_vec(), false));
        }
        if let Some((_, has_revisits)) = self.first.as_mut().filter(|_| !self.is_past_first) {
            *has_revisits |= capture.is_revisit();
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

    /// Whether revisits that `later` has seen may repeat captures that this one has seen before.
    pub(crate) fn matters_to(&self, later: &Resolver) -> bool {
        let first = later.first.as_ref();
        !self.originals.is_empty()
            && first.is_some_and(|(key, has_revisits)| *has_revisits && *key == self.key)
    }

    /// Adds what `later` has seen, to which this one does not [matter](Resolver::matters_to).
    pub(crate) fn append(&mut self, later: Resolver) {
        let Some((first_key, has_revisits)) = later.first else {
            return;
        };
        let Some(first) = &mut self.first else {
            self.key = later.key;
            self.originals = later.originals;
            self.first = Some((first_key, has_revisits));
            self.is_past_first = later.is_past_first;
            return;
        };
        let continues = first_key == self.key;
        if continues && !self.is_past_first {
            first.1 |= has_revisits;
        }
        self.is_past_first |= !continues || later.is_past_first;
        if !continues || later.is_past_first {
            self.originals.clear();
        }
        for (digest, original) in later.originals {
            self.originals.entry(digest).or_insert(original);
        }
        self.key = later.key;
    }
}

/// `sha1:ABC` and `ABC` are the same digest.
pub(crate) fn bare(digest: &[u8]) -> &[u8] {
    match memchr(b':', digest) {
        Some(colon) => &digest[colon + 1..],
        None => digest,
    }
}
