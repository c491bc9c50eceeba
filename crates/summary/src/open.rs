//! Opening a summary of any kind.

use std::path::Path;

use waypost_io::{Mapped, Resources, Source};

use crate::error::{Error, Result};
use crate::filter::orestes::{ClassicFilter, Form};
use crate::filter::{Filter, Secret};
use crate::frequency::Frequency;
use crate::holdings::{Content, content_of};
use crate::map::{Map, is_companion};
use crate::profile::Profile;
use crate::summary::{Kind, Summary};

/// Opens a summary. Its kind is detected from its first bytes.
///
/// # Errors
/// If the file is missing, unreadable or not a summary, or if it is a map with filters whose
/// companion is missing, damaged or belongs to another map.
pub fn open(path: &Path) -> Result<Box<dyn Summary>> {
    open_source(&Source::new(path), false, None)
}

/// Reads a summary from a source. If `ignore_filter` is set, only the rows of a map are read. Keyed
/// filters need their secret.
///
/// # Errors
/// Like [`open`], except for filters that are ignored.
pub fn open_source(
    source: &Source,
    ignore_filter: bool,
    secret: Option<Secret>,
) -> Result<Box<dyn Summary>> {
    let kind = kind_of_source(source)?
        .ok_or_else(|| Error::format("this is not a summary").in_file(source))?;
    check_alone(source)?;
    let room = Resources::default();
    Ok(match kind {
        Kind::Filter if ClassicFilter::is(source)? => Box::new(ClassicFilter::of(source)?),
        Kind::Filter => Box::new(Filter::load_of(source)?.unlock(secret)?),
        Kind::Map if ignore_filter => Box::new(Map::rows_of(source, &room)?),
        Kind::Map => Box::new(Map::of(source, &room)?),
        Kind::Profile => Box::new(Profile::of(source)?),
    })
}

/// Refuses the companion of a map, which contains only a part of what is held.
///
/// # Errors
/// If the file is one by its name.
pub fn check_alone(source: &Source) -> Result<()> {
    match is_companion(source.path()) {
        true => Err(Error::format("the filter of a map: use the map").in_file(source)),
        false => Ok(()),
    }
}

/// Opens a summary from its bytes: a `Vec<u8>`, an `Arc<[u8]>` or a [`Mapped`] file. If rows of a map
/// have filters, they are ignored.
///
/// # Errors
/// If it is not a summary, or is damaged.
pub fn from_bytes(bytes: impl Into<Mapped>) -> Result<Box<dyn Summary>> {
    let bytes = bytes.into();
    let start = &bytes[..bytes.len().min(START)];
    Ok(match kind_of(start) {
        None => return Err(Error::format("this is not a summary")),
        Some(Kind::Filter) if Form::of(start).is_some() => {
            Box::new(ClassicFilter::from_bytes(bytes)?)
        }
        Some(Kind::Filter) => Box::new(Filter::from_bytes(bytes)?),
        Some(Kind::Map) => Box::new(Map::from_bytes(bytes)?),
        Some(Kind::Profile) => Box::new(Profile::from_bytes(bytes)?),
    })
}

/// How many bytes tell the kind of a summary.
const START: usize = 64 << 10;

/// Detects the kind of the summary in a source, which can still be read from its start. `None` if it
/// is not a summary.
///
/// # Errors
/// If it can't be read.
pub fn kind_of_source(source: &Source) -> Result<Option<Kind>> {
    let mut start = vec![0; START];
    let (length, _) = source.open()?.read_full(&mut start);
    Ok(kind_of(&start[..length]))
}

/// The kind of a summary that starts with these bytes. In a profile, keys are followed by `{…}`, in
/// a map by a frequency; in a file without rows, the type in the headers of a profile names its
/// policy.
fn kind_of(start: &[u8]) -> Option<Kind> {
    if Filter::begins(start) || Form::of(start).is_some() {
        return Some(Kind::Filter);
    }
    let row = start
        .split(|&byte| byte == b'\n')
        .find(|line| !line.is_empty() && !matches!(line[0], b'!' | b'@'));
    let mut columns = row.unwrap_or_default().split(|&byte| byte == b' ').skip(1);
    let frequency = columns.next().unwrap_or_default();
    let is_frequency = |column: &[u8]| {
        std::str::from_utf8(column).is_ok_and(|text| text.parse::<Frequency>().is_ok())
    };
    match content_of(start) {
        Content::Index(_) => None,
        Content::Summary => Some(match row {
            Some(_) if frequency.starts_with(b"{") => Kind::Profile,
            // A second key precedes the frequency.
            Some(_)
                if columns
                    .next()
                    .is_some_and(|column| column.starts_with(b"{\"freq")) =>
            {
                Kind::Profile
            }
            Some(_) => Kind::Map,
            None if memchr::memmem::find(start, b"urikey#").is_some() => Kind::Profile,
            None => Kind::Map,
        }),
        // The papers' tool writes maps without headers.
        Content::List if is_frequency(frequency) => Some(Kind::Map),
        Content::List | Content::Empty => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lookup, Presence, filter};

    #[test]
    fn kinds_are_told_by_how_they_begin() {
        for (start, kind) in [
            ("WPFILTER\u{1}", Some(Kind::Filter)),
            ("WPORESTE\u{1}", Some(Kind::Filter)),
            ("# dc:title A\nname,hash,m,k,n,bits\n", Some(Kind::Filter)),
            ("{\"b\": \"AAQI", Some(Kind::Filter)),
            ("{\"url\": \"http://a/\", \"m\": 1, \"h\": 2}\n", None),
            (
                "!keys [\"surt\"]\ncom)/ {\"frequency\": 1}\n",
                Some(Kind::Profile),
            ),
            (
                "@about {}\ncom)/ 2004 {\"frequency\": 1}\n",
                Some(Kind::Profile),
            ),
            (
                "!keys [\"surt\"]\n!meta {\"type\": \"urikey#H1P0\"}\n",
                Some(Kind::Profile),
            ),
            ("com,* 54321/20000\n", Some(Kind::Map)),
            ("!fields {}\ncom,* 54321 {\"filter\": 8}\n", Some(Kind::Map)),
            (
                "!fields {}\n!meta {\"type\": \"MementoMap\"}\n",
                Some(Kind::Map),
            ),
            (
                "com,a)/ 20040102030405 {\"url\": \"http://a.com/\"}\n",
                None,
            ),
            ("http://example.com/\n", None),
            ("", None),
        ] {
            assert_eq!(kind_of(start.as_bytes()), kind, "{start}");
        }
    }

    #[test]
    fn what_replaces_a_file_after_its_kind_was_detected_is_not_read_instead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        let held = "com,example)/a";
        let map = format!("{held} 1\n").into_bytes();
        let profile = format!(
            "!keys [\"surt\"]\n!meta {{\"type\": \"urikey#HxPx\"}}\n{held} {{\"frequency\": 1}}\n"
        );
        let list = folder.path().join("list");
        std::fs::write(&list, format!("{held}\n")).unwrap();
        let sources = [Source::new(&list)];
        let (input, recipe) = (filter::Input::new(&sources), filter::Recipe::default());
        filter::build(input, &recipe, &path).unwrap();
        let filter = std::fs::read(&path).unwrap();
        for (summary, kind) in [
            (map, Kind::Map),
            (profile.into_bytes(), Kind::Profile),
            (filter, Kind::Filter),
        ] {
            std::fs::write(&path, summary).unwrap();
            let source = Source::new(&path);
            assert_eq!(kind_of_source(&source).unwrap(), Some(kind));
            let other = folder.path().join("other");
            std::fs::write(&other, "org,other)/ 1\n").unwrap();
            std::fs::rename(&other, &path).unwrap();
            let summary = open_source(&source, false, None).unwrap();
            let mut buffer = Vec::new();
            let lookup = Lookup::of_surt(held.as_bytes(), &mut buffer);
            let answer = summary.lookup(&lookup).unwrap();
            assert_eq!(answer.presence(), Presence::Present, "{kind:?}");
        }
    }
}
