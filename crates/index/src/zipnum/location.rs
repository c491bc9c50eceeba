//! Where the data files are: the rows of a `.loc` file.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};

/// For the name of each part, the places to try in order.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    places: HashMap<Vec<u8>, Vec<String>>,
    folder: PathBuf,
}

impl Locations {
    /// Parts are files of their own names beside the index of blocks.
    pub(crate) fn beside(folder: &Path) -> Locations {
        Locations {
            places: HashMap::new(),
            folder: folder.to_owned(),
        }
    }

    /// Reads `part ⇥ place ⇥ another place …`; places are relative to the file.
    pub(crate) fn read(path: &Path) -> Result<Locations> {
        let text = fs::read(path).doing("read", path)?;
        let mut locations = Locations::beside(path.parent().unwrap_or(Path::new("")));
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let mut fields = line.split(|&byte| byte == b'\t');
            let Some(part) = fields.next().filter(|part| !part.is_empty()) else {
                continue;
            };
            let places = fields
                .filter(|place| !place.is_empty())
                .map(|place| String::from_utf8_lossy(place).into_owned());
            locations
                .places
                .entry(part.to_vec())
                .or_default()
                .extend(places);
        }
        Ok(locations)
    }

    /// The files that may hold a part, the first that exists to be taken, and the places that are
    /// no files, such as URLs.
    pub(crate) fn candidates(&self, part: &[u8]) -> (Vec<PathBuf>, Vec<String>) {
        let (mut files, mut elsewhere) = (Vec::new(), Vec::new());
        for place in self.places.get(part).into_iter().flatten() {
            if let Some(path) = place.strip_prefix("file://") {
                files.push(PathBuf::from(path));
            } else if place.contains("://") {
                elsewhere.push(place.clone());
            } else {
                files.push(self.folder.join(place));
            }
        }
        let name = String::from_utf8_lossy(part);
        // A part is often named without its ending, and its place left out.
        files.push(self.folder.join(&*name));
        files.push(self.folder.join(format!("{name}.gz")));
        (files, elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_tried_in_order_and_urls_are_told_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.loc");
        fs::write(
            &path,
            "a\thttp://far/a.gz\tsub/a.gz\tfile:///data/a.gz\r\n\nb\n",
        )
        .unwrap();
        let locations = Locations::read(&path).unwrap();
        let (files, elsewhere) = locations.candidates(b"a");
        let expected = [
            folder.path().join("sub/a.gz"),
            PathBuf::from("/data/a.gz"),
            folder.path().join("a"),
            folder.path().join("a.gz"),
        ];
        assert_eq!(files, expected);
        assert_eq!(elsewhere, ["http://far/a.gz"]);
        assert_eq!(locations.candidates(b"b").0[1], folder.path().join("b.gz"));
    }
}
