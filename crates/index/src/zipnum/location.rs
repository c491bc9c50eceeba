//! The locations of data files: the rows of a `.loc` file.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use waypost_io::{IoContext, Result};

/// The locations to try, in order, for each part name.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    places: HashMap<Vec<u8>, Vec<String>>,
    folder: PathBuf,
    anywhere: bool,
}

/// The candidate locations of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// Files, of which the first that exists is used.
    pub(crate) files: Vec<PathBuf>,
    /// Files outside the folder, which are not read: an untrusted index must not decide which files
    /// of this machine are read.
    pub(crate) outside: Vec<PathBuf>,
    /// URLs.
    pub(crate) remote: Vec<String>,
}

impl Locations {
    /// Parts are files with the same name next to the `.idx` file.
    pub(crate) fn beside(folder: &Path) -> Locations {
        Locations {
            places: HashMap::new(),
            folder: folder.to_owned(),
            anywhere: false,
        }
    }

    /// Parses `part ⇥ location ⇥ another location …`; locations are relative to the file.
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

    /// Whether files outside the folder may be read.
    pub(crate) fn anywhere(&mut self, anywhere: bool) {
        self.anywhere = anywhere;
    }

    /// The parts with locations.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.places.keys().map(Vec::as_slice)
    }

    /// Where a part may be.
    pub(crate) fn candidates(&self, part: &[u8]) -> Candidates {
        let mut candidates = Candidates::default();
        let mut add = |path: &Path| {
            let path = self.folder.join(path);
            if self.anywhere || self.is_inside(&path) {
                candidates.files.push(path);
            } else {
                candidates.outside.push(path);
            }
        };
        for place in self.places.get(part).into_iter().flatten() {
            if let Some(path) = place.strip_prefix("file://") {
                add(Path::new(path));
            } else if place.contains("://") {
                candidates.remote.push(place.clone());
            } else {
                add(Path::new(place));
            }
        }
        let name = String::from_utf8_lossy(part);
        // Parts are often named without their extension, and their locations omitted.
        add(Path::new(&*name));
        add(Path::new(&format!("{name}.gz")));
        candidates
    }

    /// Whether a path is inside the folder, judging by names alone.
    fn is_inside(&self, path: &Path) -> bool {
        let absolute = |path: &Path| std::path::absolute(path).ok();
        let (Some(folder), Some(path)) = (absolute(&self.folder), absolute(path)) else {
            return false;
        };
        let Ok(below) = path.strip_prefix(&folder) else {
            return false;
        };
        let mut depth = 0_usize;
        for component in below.components() {
            match component {
                Component::Normal(_) => depth += 1,
                Component::ParentDir if depth > 0 => depth -= 1,
                Component::CurDir => {}
                _ => return false,
            }
        }
        depth > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_tried_in_order_and_urls_are_told_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.loc");
        let below = folder.path().join("below.gz");
        let below = below.display();
        fs::write(
            &path,
            format!("a\thttp://far/a.gz\tsub/a.gz\tfile:///data/a.gz\tfile://{below}\r\n\nb\n"),
        )
        .unwrap();
        let mut locations = Locations::read(&path).unwrap();
        let inside = |name: &str| folder.path().join(name);
        let expected = Candidates {
            files: ["sub/a.gz", "below.gz", "a", "a.gz"].map(inside).to_vec(),
            outside: vec![PathBuf::from("/data/a.gz")],
            remote: vec!["http://far/a.gz".to_owned()],
        };
        assert_eq!(locations.candidates(b"a"), expected);
        assert_eq!(locations.candidates(b"b").files[1], inside("b.gz"));
        locations.anywhere(true);
        let followed = locations.candidates(b"a");
        assert_eq!(followed.files[1], PathBuf::from("/data/a.gz"));
        assert_eq!(followed.outside, [] as [PathBuf; 0]);
    }

    #[test]
    fn paths_that_leave_the_folder_are_told() {
        for folder in ["/data/zipnum", "zipnum", "."] {
            let locations = Locations::beside(Path::new(folder));
            for inside in ["a", "sub/a", "sub/../a", "./a"] {
                let candidates = locations.candidates(inside.as_bytes());
                assert_eq!(candidates.outside, [] as [PathBuf; 0], "{inside}");
            }
            for outside in ["../a", "/etc/a", "sub/../../a", "../zipnum/../a"] {
                let candidates = locations.candidates(outside.as_bytes());
                assert_eq!(candidates.files, [] as [PathBuf; 0], "{outside}");
            }
        }
    }
}
