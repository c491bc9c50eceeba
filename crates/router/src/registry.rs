//! The archives that can be asked.

use serde::Deserialize;

/// The archives that can be asked, in the order of preference.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Archives that are to be asked; those with a higher probability first, then in the order of
    /// the file.
    pub archives: Vec<Archive>,
}

/// An archive and where it answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Archive {
    /// Unique name, used in logs.
    pub id: String,
    /// Name for people.
    pub name: Option<String>,
    /// The start of TimeMap URIs, to which the original URI is appended; ends with a slash.
    pub timemap: Option<String>,
    /// The start of TimeGate URIs, to which the original URI is appended; ends with a slash.
    pub timegate: Option<String>,
    /// How likely it is that this archive has a memento.
    #[serde(default)]
    pub probability: f64,
    #[serde(default)]
    ignore: bool,
}

impl Registry {
    /// Reads MemGator's list of archives; unknown keys are ignored.
    ///
    /// # Errors
    /// If it is not such a list.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Registry> {
        let mut archives: Vec<Archive> = serde_json::from_slice(text)?;
        archives.retain(|archive| !archive.ignore);
        for archive in &mut archives {
            for prefix in [&mut archive.timemap, &mut archive.timegate] {
                if let Some(prefix) = prefix.as_mut().filter(|prefix| !prefix.ends_with('/')) {
                    prefix.push('/');
                }
            }
        }
        archives.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Ok(Registry { archives })
    }
}
