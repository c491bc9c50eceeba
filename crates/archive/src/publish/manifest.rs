//! The manifest: what is published, for programs.

use serde::{Deserialize, Serialize};
use waypost_io::{Error, ErrorKind, Result};

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// The content of `manifest.json`. Unknown members are ignored, so that others can be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub version: u32,
    /// The files, ordered by path.
    pub files: Vec<PublishedFile>,
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest {
            version: VERSION,
            files: Vec::new(),
        }
    }
}

/// A published file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublishedFile {
    /// Its path, relative to the manifest.
    pub path: String,
    /// What it is: `filter`, `hashes`, `classic`, `classic-text`, `classic-json`, `map`, `profile`.
    pub kind: String,
    /// Its media type.
    pub media_type: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 checksum, in hexadecimal digits.
    pub sha256: String,
    /// When it was last modified: `2021-12-15T10:00:00Z`.
    pub modified: String,
    /// The id of its archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Its date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The number of its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// The number of URLs it stands for, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls: Option<u64>,
    /// The false positive rate of a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The policy of its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The dialect of its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The fingerprint of the secret key that lookups need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
}

impl Manifest {
    /// The text of the file.
    pub fn to_json(&self) -> String {
        // Cannot fail: all members are texts and finite numbers.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it is not a manifest of a known version.
    pub fn parse(text: &[u8]) -> Result<Manifest> {
        let wrong = |what: String| Error::new(ErrorKind::Format(what));
        let manifest: Manifest = serde_json::from_slice(text)
            .map_err(|error| wrong(format!("not a manifest: {error}")))?;
        match manifest.version {
            VERSION => Ok(manifest),
            other => Err(wrong(format!(
                "a manifest of version {other}: only version {VERSION} is supported"
            ))),
        }
    }
}
