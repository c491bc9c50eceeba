//! Whatever an archive sends: a document or an error, and what is found is on the Web.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use http::header::{HeaderMap, HeaderValue, LINK, LOCATION};
use proptest::prelude::*;
use url::Url;
use waypost_memento::{Datetime, Format, Memento, Replay, TimeMap};
use waypost_router::ask::{document, timegate};

fn base() -> Url {
    Url::parse("https://a.example/timemap/link/http://b.example/").unwrap()
}

/// Parts of answers, in any order.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "<http://m/1>",
            "</2>",
            "<>",
            "<x",
            "; rel=\"memento\"",
            "; rel=timemap",
            "; rel=next timemap",
            "; datetime=\"Fri, 01 Jan 2010 00:00:00 GMT\"",
            "; datetime=2010",
            "; type=application/json",
            ",",
            "\n",
            " ",
            "\"",
            "{",
            "}",
            "[",
            "]",
            "!meta ",
            "20100101000000",
            "com,b)/ ",
            "http://b/",
            "\"uri\": \"/m\"",
            "\"mementos\": ",
            "\"list\": ",
            "\"datetime\": \"2010\"",
            "<html>",
            "<!x",
            "\"timestamp\"",
            "\"original\"",
            "javascript:x",
            "http://[",
            "//m/x",
            "\u{feff}",
        ])
        .prop_map(|part| part.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

fn is_web(memento: &Memento) -> bool {
    Url::parse(&memento.uri).map_or(memento.uri.starts_with("http"), |url| {
        matches!(url.scheme(), "http" | "https")
    })
}

proptest! {
    #[test]
    fn any_answer_is_a_document_or_an_error(body in answer(), choice in 0_usize..5) {
        let types = ["application/link-format", "application/json", "text/x-cdxj", "text/html"];
        let replay: Replay = "http://a.example/{timestamp}/{url}".parse().unwrap();
        for replay in [None, Some(&replay)] {
            let read = document::read(types.get(choice).copied(), &body, &base(), replay);
            if let Ok(document) = read {
                prop_assert!(document.mementos.iter().all(is_web), "{document:?}");
                prop_assert!(!document.pages.contains(&base()));
            }
        }
    }

    #[test]
    fn any_headers_are_an_answer_of_a_timegate(
        links in prop::collection::vec(answer(), 0..3), location in answer(), status in 200_u16..600
    ) {
        let mut headers = HeaderMap::new();
        for link in &links {
            if let Ok(value) = HeaderValue::from_bytes(link) {
                headers.append(LINK, value);
            }
        }
        if let Ok(value) = HeaderValue::from_bytes(&location) {
            headers.insert(LOCATION, value);
        }
        let gate = timegate::read(status, &headers, &base(), "http://b.example/");
        prop_assert!(gate.mementos.iter().all(is_web), "{gate:?}");
    }

    /// A TimeMap in any format is read back, whatever the archive says that it is.
    #[test]
    fn the_format_is_found_out(years in prop::collection::vec(1900_u16..2100, 1..20), choice in 0_usize..5) {
        let mut timemap = TimeMap { original: "http://b.example/".to_owned(), ..TimeMap::default() };
        for (place, year) in years.iter().enumerate() {
            let datetime = Datetime::parse_timestamp(&year.to_string()).unwrap();
            timemap.mementos.push(Memento::new(format!("https://a.example/{place}"), datetime));
        }
        let types = ["text/plain", "application/octet-stream", "text/html; charset=ISO-8859-1", ""];
        for format in Format::ALL {
            let mut body = Vec::new();
            timemap.write(format, &mut body).unwrap();
            let document = document::read(types.get(choice).copied(), &body, &base(), None).unwrap();
            prop_assert_eq!(&document.mementos, &timemap.mementos);
        }
    }
}
