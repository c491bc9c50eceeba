//! Counts how the keys of an index compare with its URLs.

use waypost_io::{Error, ErrorKind, Result};
use waypost_surt::Dialect;

use crate::rejects::printable;

/// How the keys of some captures compare with the SURTs of their URLs. Checks of parts of an index
/// can be merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyCheck {
    /// Number of captures with a URL whose key looks like a SURT.
    pub compared: u64,
    /// Number of those whose key is not the SURT of the URL under the given dialect.
    pub differ: u64,
    /// Number of different keys that are the SURT under another dialect, in the order of
    /// [`Dialect::ALL`].
    pub fit: [u64; Dialect::ALL.len()],
    /// The first key that differs.
    pub example: Option<Different>,
}

/// A key that is not the SURT of its URL, printable.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Different {
    /// The key.
    pub key: String,
    /// The SURT of the URL.
    pub surt: String,
    /// The URL.
    pub url: String,
}

impl KeyCheck {
    /// Serialises the check for partials.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Deserialises the result of [`to_bytes`](KeyCheck::to_bytes).
    ///
    /// # Errors
    /// If the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<KeyCheck> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))
    }

    /// Counts a different key and the other dialects under which it is the SURT.
    pub(crate) fn add_different(
        &mut self,
        key: &[u8],
        surt: &[u8],
        url: &[u8],
        fits: impl Iterator<Item = Dialect>,
    ) {
        self.differ += 1;
        for dialect in fits {
            for (known, count) in Dialect::ALL.iter().zip(&mut self.fit) {
                *count += u64::from(*known == dialect);
            }
        }
        if self.example.is_none() {
            self.example = Some(Different {
                key: printable(key),
                surt: printable(surt),
                url: printable(url),
            });
        }
    }

    /// Merges the check of a later part.
    pub fn merge(&mut self, later: &KeyCheck) {
        self.compared += later.compared;
        self.differ += later.differ;
        for (count, more) in self.fit.iter_mut().zip(later.fit) {
            *count += more;
        }
        if self.example.is_none() {
            self.example.clone_from(&later.example);
        }
    }

    /// Whether every key is the SURT of its URL.
    pub fn fits(&self) -> bool {
        self.differ == 0
    }

    /// Another dialect that fits all different keys, if there is one.
    pub fn other_dialect(&self) -> Option<Dialect> {
        let place = self.fit.iter().position(|count| *count == self.differ)?;
        (self.differ > 0).then_some(Dialect::ALL[place])
    }
}
