//! Recorded answers of MemGator and pywb. Runs where `WAYPOST_SHARED` names the folder that holds them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and say that it is skipped"
)]

use waypost_memento::{Datetime, Format, Replay, TimeMap, links};

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// The header lines and the body of a recorded answer.
fn recorded(path: &str) -> Option<(String, String)> {
    let path = oracles::shared()?.join("vectors").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap();
    Some((head.to_owned(), body.to_owned()))
}

fn read(format: Format, body: &str, replay: Option<&Replay>) -> TimeMap {
    let (timemap, problems) = TimeMap::read(format, body.as_bytes(), replay).unwrap();
    assert_eq!(problems, []);
    timemap
}

#[test]
fn answers_of_memgator_are_read_and_written_to_the_byte() {
    for (path, format) in [
        ("memgator/02_timemap_link.txt", Format::Link),
        ("memgator/03_timemap_json.txt", Format::Json),
        ("memgator/04_timemap_cdxj.txt", Format::Cdxj),
        ("memgator/10_memento_link.txt", Format::Link),
        ("memgator/11_memento_json.txt", Format::Json),
        ("memgator/12_memento_cdxj.txt", Format::Cdxj),
        ("pywb/20_memgator_over_pywb_timemap.txt", Format::Link),
    ] {
        let Some((_, body)) = recorded(path) else {
            return;
        };
        let timemap = read(format, &body, None);
        assert!(!timemap.original.is_empty(), "{path}");
        let mut written = Vec::new();
        timemap.write(format, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written.trim_end(), body.trim_end(), "{path}");
    }
}

#[test]
fn the_formats_of_one_answer_hold_the_same() {
    let mut timemaps = Vec::new();
    for (path, format) in [
        ("memgator/02_timemap_link.txt", Format::Link),
        ("memgator/03_timemap_json.txt", Format::Json),
        ("memgator/04_timemap_cdxj.txt", Format::Cdxj),
    ] {
        let Some((_, body)) = recorded(path) else {
            return;
        };
        timemaps.push(TimeMap {
            this: None,
            ..read(format, &body, None)
        });
    }
    assert_eq!(timemaps[0].mementos.len(), 7);
    assert_eq!(timemaps[0], timemaps[1]);
    assert_eq!(timemaps[0], timemaps[2]);
}

#[test]
fn a_description_of_memgator_is_made_from_its_timemap() {
    let Some((_, list)) = recorded("memgator/02_timemap_link.txt") else {
        return;
    };
    let (_, expected) = recorded("memgator/12_memento_cdxj.txt").unwrap();
    let at = Datetime::parse_timestamp("20120615").unwrap();
    let mut around = read(Format::Link, &list, None).around(at);
    around.this = None;
    let mut written = Vec::new();
    around.write(Format::Cdxj, &mut written).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap().trim_end(),
        expected.trim_end()
    );
}

#[test]
fn answers_of_pywb_are_read() {
    let Some((head, body)) = recorded("pywb/01_timemap_link.txt") else {
        return;
    };
    let timemap = read(Format::Link, &body, None);
    let memento = &timemap.mementos[0];
    assert_eq!(timemap.original, "http://www.iana.org/");
    assert_eq!(memento.datetime.timestamp(), "20140126200624");
    assert_eq!(
        memento.parameters,
        [("collection".to_owned(), "test".to_owned())]
    );
    assert_eq!(timemap.this.as_ref().unwrap().from, Some(memento.datetime));

    let header = head
        .lines()
        .find_map(|line| line.strip_prefix("Link: "))
        .unwrap();
    let relations: Vec<_> = links(header.as_bytes())
        .map(|link| link.unwrap().get("rel").unwrap().to_owned())
        .collect();
    assert_eq!(relations, ["original", "timegate", "timemap"]);

    // Its JSON and CDXJ are rows of the index.
    let replay: Replay = "http://127.0.0.1:8080/test/{timestamp}mp_/{url}"
        .parse()
        .unwrap();
    for (path, format) in [
        ("pywb/02_timemap_json.txt", Format::Json),
        ("pywb/03_timemap_cdxj.txt", Format::Cdxj),
    ] {
        let (_, body) = recorded(path).unwrap();
        let rows = read(format, &body, Some(&replay));
        assert_eq!(rows.original, timemap.original, "{path}");
        assert_eq!(rows.mementos[0].uri, memento.uri, "{path}");
        assert_eq!(rows.mementos[0].datetime, memento.datetime, "{path}");
        assert!(
            TimeMap::read(format, body.as_bytes(), None).is_err(),
            "{path}"
        );
    }
    let (_, nothing) = recorded("pywb/04_timemap_nf.txt").unwrap();
    for format in [Format::Json, Format::Cdxj] {
        assert_eq!(read(format, nothing.trim(), None).mementos, []);
    }
}
