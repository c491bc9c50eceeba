//! What is written is read again, in every format; any bytes are read without panics.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use waypost_memento::{
    Datetime, Format, Link, Memento, Page, TimeMap, TimeMapLink, TimeMapWriter, links,
};

fn datetime() -> impl Strategy<Value = Datetime> {
    // The years 0 to 9999.
    (-62_167_219_200_i64..253_402_207_200)
        .prop_map(|second| Datetime::new(jiff::Timestamp::from_second(second).unwrap()).unwrap())
}

/// A URI that needs no escapes, with what parsers stumble over.
fn uri() -> impl Strategy<Value = String> {
    "http://[a-z.]{1,9}/[a-z0-9,;'=?&%:/#~-]{0,20}"
}

fn timemap_link(format: Format) -> impl Strategy<Value = TimeMapLink> {
    uri().prop_map(move |uri| TimeMapLink::new(uri, format))
}

/// A TimeMap of what all formats can hold.
fn timemap() -> impl Strategy<Value = TimeMap> {
    let mementos = prop::collection::vec((uri(), datetime()), 0..8);
    let formats = (
        timemap_link(Format::Link),
        timemap_link(Format::Json),
        timemap_link(Format::Cdxj),
    );
    (
        uri(),
        prop::option::of(uri()),
        prop::option::of(formats),
        mementos,
    )
        .prop_map(|(original, timegate, formats, mementos)| {
            let mut timemap = TimeMap {
                original,
                timegate,
                timemaps: formats.map_or_else(Vec::new, |(a, b, c)| vec![a, b, c]),
                mementos: mementos
                    .into_iter()
                    .map(|(uri, datetime)| Memento::new(uri, datetime))
                    .collect(),
                ..TimeMap::default()
            };
            timemap.sort();
            timemap
        })
}

fn written(timemap: &TimeMap, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    timemap.write(format, &mut out).unwrap();
    out
}

proptest! {
    #[test]
    fn a_timemap_survives_every_format(timemap in timemap(), this in prop::option::of(uri())) {
        for format in Format::ALL {
            let timemap = TimeMap {
                this: this.clone().map(|uri| TimeMapLink::new(uri, format)),
                ..timemap.clone()
            };
            let document = written(&timemap, format);
            let (read, problems) = TimeMap::read(format, &document, None).unwrap();
            prop_assert_eq!(problems, []);
            let mut read = read;
            // JSON names the first and last by URI and datetime, which may be those of several.
            read.sort();
            prop_assert_eq!(read, timemap, "{}", String::from_utf8_lossy(&document));
        }
    }

    #[test]
    fn what_only_links_hold_survives_them(
        timemap in timemap(),
        spans in prop::collection::vec((uri(), prop::option::of(datetime()), prop::option::of(datetime()), 0..3_usize), 0..4),
        license in ".{0,12}",
    ) {
        let mut timemap = timemap;
        for (uri, from, until, page) in spans {
            timemap.timemaps.push(TimeMapLink {
                uri, format: None, from, until,
                page: [None, Some(Page::Prev), Some(Page::Next)][page],
            });
        }
        let license: String = license.chars().filter(|c| !c.is_control()).collect();
        if let Some(memento) = timemap.mementos.first_mut() {
            memento.parameters.push(("license".to_owned(), license));
        }
        let document = written(&timemap, Format::Link);
        prop_assert_eq!(TimeMap::read(Format::Link, &document, None), Ok((timemap, vec![])));
    }

    #[test]
    fn a_timemap_written_by_memento_is_the_same(timemap in timemap(), this in prop::option::of(uri())) {
        for format in Format::ALL {
            let timemap = TimeMap {
                this: this.clone().map(|uri| TimeMapLink::new(uri, format)),
                ..timemap.clone()
            };
            let mut pieces = Vec::new();
            let mut writer = TimeMapWriter::start(timemap.clone(), format, &mut pieces).unwrap();
            for memento in &timemap.mementos {
                let (first, last) = (memento.relations.first, memento.relations.last);
                writer.memento(memento, first, last, &mut pieces).unwrap();
            }
            writer.finish(&mut pieces).unwrap();
            prop_assert_eq!(pieces, written(&timemap, format));
        }
    }

    #[test]
    fn any_link_is_written_as_one_link_on_one_line(
        uri in ".{0,20}", names in prop::collection::vec(("[a-z]{1,5}", ".{0,12}"), 0..4)
    ) {
        let mut link = Link::new(uri);
        for (name, value) in &names {
            link = link.with(name, value);
        }
        let text = link.to_string();
        prop_assert!(!text.contains(['\r', '\n', '\0']), "{}", text);
        let read: Vec<_> = links(text.as_bytes()).collect();
        prop_assert_eq!(read.len(), 1);
        let read = read[0].clone().unwrap();
        for ((name, value), (read_name, read_value)) in names.iter().zip(&read.parameters) {
            prop_assert_eq!(name, read_name);
            let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            prop_assert_eq!(&value, read_value);
        }
        // Once written, it does not change any more.
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_bytes_are_read(document in prop::collection::vec(
        prop::sample::select(&b"<>;,=\" \n\\{}[]:!.+relmntoadi201534T-Z\xff"[..]), 0..60)
    ) {
        let problems = links(&document).count();
        prop_assert!(problems <= document.len());
        for format in Format::ALL {
            match TimeMap::read(format, &document, None) {
                Ok((_, problems)) => {
                    for problem in problems {
                        prop_assert!(problem.offset <= document.len());
                    }
                }
                Err(error) => prop_assert!(error.offset <= document.len()),
            }
        }
    }

    #[test]
    fn datetimes_survive_every_form(at in datetime()) {
        prop_assert_eq!(Datetime::parse_http(&at.http()), Ok(at));
        prop_assert_eq!(Datetime::parse_timestamp(&at.timestamp()), Ok(at));
        for text in [at.http(), at.timestamp(), at.iso()] {
            prop_assert_eq!(Datetime::parse(&text), Ok(at));
        }
    }

    #[test]
    fn the_closest_is_the_closest(timemap in timemap(), at in datetime()) {
        let around = timemap.around(at);
        prop_assert!(around.mementos.len() <= 5);
        let distance = |m: &Memento| (m.datetime.to_jiff().as_second() - at.to_jiff().as_second()).abs();
        let closest = around.mementos.iter().find(|m| m.relations.closest);
        prop_assert_eq!(closest.map(distance), timemap.mementos.iter().map(distance).min());
        prop_assert!(around.mementos.is_sorted_by_key(|m| m.datetime));
    }
}

#[test]
fn a_million_links_and_broken_ones_take_linear_time() {
    let good = "<http://a/>; rel=\"memento\"; datetime=\"Fri, 01 Jan 2010 00:00:00 GMT\",\n";
    let document = good.repeat(200_000);
    let (timemap, _) = TimeMap::read(Format::Link, document.as_bytes(), None).unwrap();
    assert_eq!(timemap.mementos.len(), 200_000);
    for piece in [
        "<", "<a", ",<", "<>;\"", "<>;a=", "<>;a=\"", "\n<a> ", "<>;a=b,", "\\",
    ] {
        let text = piece.repeat(200_000);
        assert!(links(text.as_bytes()).count() <= 200_000);
    }
}
