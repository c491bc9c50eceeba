//! Opening a summary of whatever kind it is.

use std::path::Path;

use waypost_index::Source;

use crate::error::Result;
use crate::filter::Filter;
use crate::map::{Map, Room};
use crate::profile::Profile;
use crate::summary::{Kind, Summary};

/// Opens a summary, told by how it begins.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn open(path: &Path) -> Result<Box<dyn Summary>> {
    let mut start = vec![0; 64 << 10];
    let (length, _) = Source::File(path.to_owned()).open()?.read_full(&mut start);
    Ok(match kind_of(&start[..length]) {
        Kind::Filter => Box::new(Filter::open(path)?),
        Kind::Map => Box::new(Map::open(path, &Room::default())?),
        Kind::Profile => Box::new(Profile::open(path)?),
    })
}

/// The kind of a summary that begins with these bytes. A profile says of its keys `{…}`, a map a
/// frequency; without any rows, the type in the headers of a profile names its policy.
fn kind_of(start: &[u8]) -> Kind {
    if Filter::begins(start) {
        return Kind::Filter;
    }
    let row = start
        .split(|&byte| byte == b'\n')
        .find(|line| !line.is_empty() && !matches!(line[0], b'!' | b'@'));
    let is_profile = match row {
        Some(row) => memchr::memmem::find(row, b" {").is_some_and(|at| {
            // A map may have JSON too, behind its frequency.
            !row[..at].contains(&b' ') || row[at..].starts_with(b" {\"frequency\"")
        }),
        None => memchr::memmem::find(start, b"urikey#").is_some(),
    };
    if is_profile { Kind::Profile } else { Kind::Map }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_how_they_begin() {
        assert_eq!(kind_of(b"WPFILTER\x01"), Kind::Filter);
        assert_eq!(
            kind_of(b"!meta {}\ncom)/ {\"frequency\": 1}\n"),
            Kind::Profile
        );
        assert_eq!(
            kind_of(b"@about {}\ncom)/ 2004 {\"frequency\": 1}\n"),
            Kind::Profile
        );
        assert_eq!(
            kind_of(b"!meta {\"type\": \"urikey#H1P0\"}\n"),
            Kind::Profile
        );
        assert_eq!(kind_of(b"com,* 54321/20000\n"), Kind::Map);
        assert_eq!(kind_of(b"com,* 54321 {\"filter\": 8}\n"), Kind::Map);
        assert_eq!(kind_of(b"!meta {\"type\": \"MementoMap\"}\n"), Kind::Map);
    }
}
