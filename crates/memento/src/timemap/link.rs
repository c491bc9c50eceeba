//! TimeMaps in link-format.

use std::io::{self, Write};

use super::{Format, Memento, Page, Relations, TimeMap, TimeMapLink};
use crate::{Datetime, Error, ErrorKind, Link, links};

pub(super) fn read(document: &[u8]) -> (TimeMap, Vec<Error>) {
    let mut timemap = TimeMap::default();
    let mut problems = Vec::new();
    for link in links(document) {
        match link {
            Ok(link) => add(&mut timemap, link, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    if timemap.original.is_empty() {
        problems.push(Error::new(ErrorKind::MissingOriginal, document.len()));
    }
    (timemap, problems)
}

fn add(timemap: &mut TimeMap, link: Link, problems: &mut Vec<Error>) {
    if link.has_relation("memento") {
        let Some(text) = link.get("datetime") else {
            problems.push(Error::new(ErrorKind::MissingDatetime, link.offset));
            return;
        };
        match Datetime::parse(text) {
            Ok(datetime) => timemap.mementos.push(Memento {
                datetime,
                relations: Relations::of(link.relations()),
                parameters: link
                    .parameters
                    .into_iter()
                    .filter(|(name, _)| {
                        !["rel", "datetime"]
                            .iter()
                            .any(|known| name.eq_ignore_ascii_case(known))
                    })
                    .collect(),
                uri: link.uri,
            }),
            Err(error) => {
                problems.push(Error::new(ErrorKind::BadDatetime(error.0), link.offset));
            }
        }
    } else if link.has_relation("self") {
        // ipwb's says `self timemap`.
        timemap.this = Some(timemap_link(link, problems));
    } else if link.has_relation("timemap") {
        let found = timemap_link(link, problems);
        timemap.timemaps.push(found);
    } else if link.has_relation("timegate") {
        timemap.timegate = Some(link.uri);
    } else if link.has_relation("original") && timemap.original.is_empty() {
        timemap.original = link.uri;
    }
}

fn timemap_link(link: Link, problems: &mut Vec<Error>) -> TimeMapLink {
    let mut datetime = |name: &str| {
        let text = link.get(name)?;
        Datetime::parse(text)
            .map_err(|error| {
                problems.push(Error::new(ErrorKind::BadDatetime(error.0), link.offset));
            })
            .ok()
    };
    TimeMapLink {
        from: datetime("from"),
        until: datetime("until"),
        format: link.get("type").and_then(Format::of_media_type),
        page: match () {
            () if link.has_relation("next") => Some(Page::Next),
            () if link.has_relation("prev") => Some(Page::Prev),
            () => None,
        },
        uri: link.uri,
    }
}

pub(super) fn write(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    let mut is_first = true;
    for link in links_of(timemap) {
        if !is_first {
            out.write_all(b",\n")?;
        }
        is_first = false;
        write!(out, "{link}")?;
    }
    out.write_all(b"\n")
}

/// The links of a TimeMap in the order of MemGator.
fn links_of(timemap: &TimeMap) -> impl Iterator<Item = Link> + '_ {
    let original = Link::new(&timemap.original).with("rel", "original");
    let this = timemap.this.iter().map(|this| link_to(this, "self"));
    let mementos = timemap.mementos.iter().map(|memento| {
        // `closest` is not a relation type of links.
        let relations = Relations {
            closest: false,
            ..memento.relations
        };
        let mut link = Link::new(&memento.uri)
            .with("rel", relations.to_string())
            .with("datetime", memento.datetime.http());
        link.parameters.extend(memento.parameters.iter().cloned());
        link
    });
    let timemaps = timemap.timemaps.iter().map(|other| {
        link_to(
            other,
            match other.page {
                None => "timemap",
                Some(Page::Prev) => "prev timemap",
                Some(Page::Next) => "next timemap",
            },
        )
    });
    let timegate = timemap
        .timegate
        .iter()
        .map(|uri| Link::new(uri).with("rel", "timegate"));
    std::iter::once(original)
        .chain(this)
        .chain(mementos)
        .chain(timemaps)
        .chain(timegate)
}

fn link_to(timemap: &TimeMapLink, relation: &str) -> Link {
    let mut link = Link::new(&timemap.uri).with("rel", relation);
    if let Some(format) = timemap.format {
        link = link.with("type", format.media_type());
    }
    for (name, datetime) in [("from", timemap.from), ("until", timemap.until)] {
        if let Some(datetime) = datetime {
            link = link.with(name, datetime.http());
        }
    }
    link
}
