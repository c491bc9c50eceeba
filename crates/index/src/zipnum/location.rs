//! The locations of data files: the rows of a `.loc` file.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use waypost_io::{IoContext, Result};

/// The locations to try, in order, for each part name.
#[derive(Debug)]
pub(crate) struct Locations {
    places: HashMap<Vec<u8>, Vec<String>>,
    base: Base,
    /// The `.loc` file.
    file: Option<PathBuf>,
    anywhere: bool,
}

/// What locations are relative to.
#[derive(Debug)]
enum Base {
    Folder(PathBuf),
    /// A URL, or a name in an archive file, up to its last slash.
    Url(String),
}

/// A candidate location of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    File(PathBuf),
    Url(String),
    /// A file that is not read: an untrusted index must not decide which files of this machine are
    /// read.
    Refused(String),
}

impl Locations {
    /// Parts are files with the same name next to the `.idx` file.
    pub(crate) fn beside(folder: &Path) -> Locations {
        Locations::new(Base::Folder(folder.to_owned()))
    }

    /// Parts are next to the `.idx` file at a URL.
    pub(crate) fn beside_url(url: &str) -> Locations {
        let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
        let end = path.rfind('/').map_or(0, |slash| slash + 1);
        Locations::new(Base::Url(path[..end].to_owned()))
    }

    fn new(base: Base) -> Locations {
        Locations {
            places: HashMap::new(),
            base,
            file: None,
            anywhere: false,
        }
    }

    /// Reads a `.loc` file; locations are relative to it.
    pub(crate) fn read(path: &Path) -> Result<Locations> {
        let text = fs::read(path).doing("read", path)?;
        let mut locations = Locations::beside(path.parent().unwrap_or(Path::new("")));
        locations.file = Some(path.to_owned());
        locations.parse(&text);
        Ok(locations)
    }

    /// Parses `part ⇥ location ⇥ another location …`.
    pub(crate) fn parse(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let mut fields = line.split(|&byte| byte == b'\t');
            let Some(part) = fields.next().filter(|part| !part.is_empty()) else {
                continue;
            };
            let places = fields
                .filter(|place| !place.is_empty())
                .map(|place| String::from_utf8_lossy(place).into_owned());
            self.places.entry(part.to_vec()).or_default().extend(places);
        }
    }

    /// The `.loc` file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether files outside the folder may be read. Has no effect on a remote index.
    pub(crate) fn anywhere(&mut self, anywhere: bool) {
        self.anywhere = anywhere;
    }

    /// The parts with locations.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.places.keys().map(Vec::as_slice)
    }

    /// Whether the index is not in a folder.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.base, Base::Url(_))
    }

    /// Whether any location is a URL.
    pub(crate) fn any_url(&self) -> bool {
        self.is_remote() || self.places.values().flatten().any(|place| is_url(place))
    }

    /// Where a part may be, in the order in which to try.
    pub(crate) fn candidates(&self, part: &[u8]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let mut add = |place: &str| {
            let candidate = match &self.base {
                Base::Folder(folder) => self.in_folder(folder, place),
                Base::Url(base) => below_url(base, place),
            };
            if !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        };
        let places = self.places.get(part).map_or(&[][..], Vec::as_slice);
        places.iter().for_each(|place| add(place));
        let name = String::from_utf8_lossy(part);
        match &self.base {
            // Only the listed locations are tried, or else the name of the part: a request for
            // another name would cost time.
            Base::Url(_) if !places.is_empty() => {}
            Base::Url(_) if name.ends_with(".gz") => add(&escaped(&name)),
            Base::Url(_) => {
                add(&escaped(&name));
                add(&escaped(&format!("{name}.gz")));
            }
            // Parts are often named without their extension, and their locations omitted.
            Base::Folder(_) => {
                add(&name);
                add(&format!("{name}.gz"));
            }
        }
        candidates
    }

    fn in_folder(&self, folder: &Path, place: &str) -> Candidate {
        let file = place.strip_prefix("file://");
        if file.is_none() && is_url(place) {
            return Candidate::Url(place.to_owned());
        }
        let path = folder.join(file.unwrap_or(place));
        if self.anywhere || is_inside(folder, &path) {
            Candidate::File(path)
        } else {
            Candidate::Refused(path.display().to_string())
        }
    }
}

fn is_url(place: &str) -> bool {
    place.contains("://") && !place.starts_with("file://")
}

/// A location named by an index that is not in a folder: never a local file.
fn below_url(base: &str, place: &str) -> Candidate {
    if is_url(place) {
        Candidate::Url(place.to_owned())
    } else if place.starts_with('/') || place.starts_with("file:") {
        Candidate::Refused(place.to_owned())
    } else {
        Candidate::Url(format!("{base}{place}"))
    }
}

/// The name of a part in a URL.
fn escaped(name: &str) -> String {
    let mut url = String::new();
    for c in name.chars() {
        match c {
            '%' | '?' | '#' => url += &format!("%{:02X}", c as u32),
            c => url.push(c),
        }
    }
    url
}

/// Whether a path is inside the folder, judging by names alone.
fn is_inside(folder: &Path, path: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let (Some(folder), Some(path)) = (absolute(folder), absolute(path)) else {
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
        let file = |name: &str| Candidate::File(inside(name));
        let expected = [
            Candidate::Url("http://far/a.gz".to_owned()),
            file("sub/a.gz"),
            Candidate::Refused("/data/a.gz".to_owned()),
            file("below.gz"),
            file("a"),
            file("a.gz"),
        ];
        assert!(locations.any_url());
        assert_eq!(locations.candidates(b"a"), expected);
        assert_eq!(locations.candidates(b"b")[1], file("b.gz"));
        locations.anywhere(true);
        let followed = locations.candidates(b"a");
        assert_eq!(followed[2], Candidate::File(PathBuf::from("/data/a.gz")));
    }

    #[test]
    fn a_remote_index_names_no_local_file() {
        let mut locations = Locations::beside_url("https://h/x/cluster.idx?key=a/b");
        locations.parse(b"a\t/etc/a.gz\tfile:///etc/a.gz\tsub/a.gz\thttp://far/a.gz\nb\n");
        locations.anywhere(true);
        let url = |url: &str| Candidate::Url(url.to_owned());
        let refused = |name: &str| Candidate::Refused(name.to_owned());
        assert_eq!(
            locations.candidates(b"a"),
            [
                refused("/etc/a.gz"),
                refused("file:///etc/a.gz"),
                url("https://h/x/sub/a.gz"),
                url("http://far/a.gz")
            ]
        );
        assert_eq!(locations.candidates(b"b.gz"), [url("https://h/x/b.gz")]);
        assert_eq!(
            locations.candidates(b"b%?"),
            [url("https://h/x/b%25%3F"), url("https://h/x/b%25%3F.gz")]
        );
        assert_eq!(locations.candidates(b"/etc/b.gz"), [refused("/etc/b.gz")]);
        assert_eq!(
            locations.candidates(b"file:///etc/b.gz"),
            [refused("file:///etc/b.gz")]
        );
    }

    #[test]
    fn paths_that_leave_the_folder_are_told() {
        for folder in ["/data/zipnum", "zipnum", "."] {
            let locations = Locations::beside(Path::new(folder));
            for inside in ["a", "sub/a", "sub/../a", "./a"] {
                let candidates = locations.candidates(inside.as_bytes());
                let is_file = |c: &Candidate| matches!(c, Candidate::File(_));
                assert!(candidates.iter().all(is_file), "{inside}");
            }
            for outside in ["../a", "/etc/a", "sub/../../a", "../zipnum/../a"] {
                let candidates = locations.candidates(outside.as_bytes());
                let is_refused = |c: &Candidate| matches!(c, Candidate::Refused(_));
                assert!(candidates.iter().all(is_refused), "{outside}");
            }
        }
    }
}
