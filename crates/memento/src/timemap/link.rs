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

/// The links of a TimeMap in the order of MemGator.
pub(super) fn write(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    write_head(timemap, out)?;
    for memento in &timemap.mementos {
        write_memento(memento, memento.relations, out)?;
    }
    write_tail(timemap, out)
}

pub(super) fn write_head(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "{}",
        Link::new(&timemap.original).with("rel", "original")
    )?;
    match &timemap.this {
        Some(this) => write!(out, ",\n{}", link_to(this, "self")),
        None => Ok(()),
    }
}

pub(super) fn write_memento(
    memento: &Memento,
    relations: Relations,
    out: &mut impl Write,
) -> io::Result<()> {
    // `closest` is not a relation type of links.
    let relations = Relations {
        closest: false,
        ..relations
    };
    let mut link = Link::new(&memento.uri)
        .with("rel", relations.to_string())
        .with("datetime", memento.datetime.http());
    link.parameters.extend(memento.parameters.iter().cloned());
    write!(out, ",\n{link}")
}

pub(super) fn write_tail(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    for other in &timemap.timemaps {
        let relation = match other.page {
            None => "timemap",
            Some(Page::Prev) => "prev timemap",
            Some(Page::Next) => "next timemap",
        };
        write!(out, ",\n{}", link_to(other, relation))?;
    }
    if let Some(timegate) = &timemap.timegate {
        write!(out, ",\n{}", Link::new(timegate).with("rel", "timegate"))?;
    }
    out.write_all(b"\n")
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
