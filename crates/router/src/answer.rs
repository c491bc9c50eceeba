//! What clients are answered: TimeMaps, descriptions of mementos and `Link` headers.
//!
//! Pure: an [`Aggregate`](crate::Aggregate) in, documents out.

use std::ops;

use serde_json::{Value, json};
use waypost_memento::{Datetime, Format, Link, Memento, Relations, TimeMap, TimeMapLink};

use crate::{Decision, Found, Registry};

/// Where clients find this service: the start of its URLs, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(String);

impl Addresses {
    /// The addresses under a base URL, as `https://aggregator.example/memento`.
    pub fn new(base: &str) -> Addresses {
        Addresses(base.trim_end_matches('/').to_owned())
    }

    /// The base URL, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.0
    }

    /// The TimeMap of an original URI in a format.
    pub fn timemap(&self, format: Format, uri: &str) -> String {
        format!("{}/timemap/{}/{uri}", self.0, format.name())
    }

    /// The TimeGate of an original URI.
    pub fn timegate(&self, uri: &str) -> String {
        format!("{}/timegate/{uri}", self.0)
    }

    /// What can be asked about an original URI: a TimeMap without mementos.
    pub fn links(&self, uri: &str) -> TimeMap {
        let timemaps =
            Format::ALL.map(|format| TimeMapLink::new(self.timemap(format, uri), format));
        TimeMap {
            original: uri.to_owned(),
            this: None,
            timegate: Some(self.timegate(uri)),
            timemaps: timemaps.to_vec(),
            mementos: Vec::new(),
        }
    }

    /// The TimeMap of these mementos without them, to be written with
    /// [`TimeMapWriter`](waypost_memento::TimeMapWriter). With `span`, its link to itself names the
    /// datetimes of the first and last memento.
    pub fn timemap_of(&self, uri: &str, format: Format, mementos: &[Found], span: bool) -> TimeMap {
        let datetime = |found: Option<&Found>| found.map(|found| found.memento.datetime);
        let this = TimeMapLink {
            from: datetime(mementos.first()).filter(|_| span),
            until: datetime(mementos.last()).filter(|_| span),
            ..TimeMapLink::new(self.timemap(format, uri), format)
        };
        TimeMap {
            this: Some(this),
            ..self.links(uri)
        }
    }

    /// The TimeMap of these mementos, which must be sorted by datetime.
    pub fn whole_timemap(
        &self,
        uri: &str,
        format: Format,
        mementos: &[Found],
        span: bool,
    ) -> Vec<u8> {
        let mut timemap = self.timemap_of(uri, format, mementos, span);
        let mementos = mementos.iter();
        timemap.mementos = mementos.map(|found| found.memento.clone()).collect();
        timemap.sort();
        document(&timemap, format)
    }

    /// A description of the mementos around a datetime; of none if there are none.
    pub fn description(
        &self,
        uri: &str,
        format: Format,
        mementos: &[Found],
        datetime: Datetime,
    ) -> Vec<u8> {
        let mut links = self.links(uri);
        if let Some(around) = Around::find(mementos, datetime) {
            links.mementos = around.mementos(mementos);
        }
        document(&links, format)
    }
}

/// The mementos around a datetime, by their places in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The closest.
    pub closest: usize,
    /// One before the closest, at another datetime.
    pub prev: Option<usize>,
    /// One after the closest, at another datetime.
    pub next: Option<usize>,
    /// The last.
    pub last: usize,
}

impl Around {
    /// Finds the mementos around a datetime in a list that is sorted by datetime and then by
    /// preference. Of two datetimes at the same distance, the later is the closest; of mementos with
    /// the same datetime, the first. `None` if the list is empty.
    pub fn find(mementos: &[Found], datetime: Datetime) -> Option<Around> {
        let at = |place: usize| mementos[place].memento.datetime;
        let start_of = |datetime: Datetime| {
            mementos.partition_point(|found| found.memento.datetime < datetime)
        };
        let last = mementos.len().checked_sub(1)?;
        let distance = |place: usize| {
            let difference = at(place).to_jiff().as_second() - datetime.to_jiff().as_second();
            difference.abs()
        };
        let after = start_of(datetime);
        let closest = match after.checked_sub(1) {
            Some(before) if after > last || distance(before) < distance(after) => before,
            _ => after,
        };
        let closest = start_of(at(closest));
        let next = mementos.partition_point(|found| found.memento.datetime <= at(closest));
        Some(Around {
            closest,
            prev: closest.checked_sub(1).map(|before| start_of(at(before))),
            next: (next <= last).then_some(next),
            last,
        })
    }

    /// These mementos, marked with their relations, in their order.
    pub fn mementos(&self, mementos: &[Found]) -> Vec<Memento> {
        let places = [
            Some(0),
            self.prev,
            Some(self.closest),
            self.next,
            Some(self.last),
        ];
        let mut places: Vec<usize> = places.into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        let marked = places.into_iter().map(|place| Memento {
            relations: Relations {
                first: place == 0,
                last: place == self.last,
                closest: place == self.closest,
                prev: Some(place) == self.prev,
                next: Some(place) == self.next,
            },
            ..mementos[place].memento.clone()
        });
        marked.collect()
    }

    /// These mementos in the JSON of Time Travel, which lists the mementos of all archives that have
    /// the same datetime.
    pub fn time_travel(&self, links: &TimeMap, mementos: &[Found]) -> Value {
        let same = |place: usize| {
            let datetime = mementos[place].memento.datetime;
            let first = mementos.partition_point(|found| found.memento.datetime < datetime);
            let those = mementos[first..].iter();
            let those = those.take_while(|found| found.memento.datetime == datetime);
            let uris: Vec<&str> = those.map(|found| &found.memento.uri[..]).collect();
            json!({"datetime": datetime.iso(), "uri": uris})
        };
        let mut marked = serde_json::Map::new();
        for (name, place) in [
            ("first", Some(0)),
            ("prev", self.prev),
            ("closest", Some(self.closest)),
            ("next", self.next),
            ("last", Some(self.last)),
        ] {
            if let Some(place) = place {
                marked.insert(name.to_owned(), same(place));
            }
        }
        let timemap = |wanted: Format| {
            let mut timemaps = links.timemaps.iter();
            let found = timemaps.find(|timemap| timemap.format == Some(wanted));
            found.map(|timemap| &timemap.uri)
        };
        json!({
            "original_uri": links.original,
            "timegate_uri": links.timegate,
            "timemap_uri": {
                "link_format": timemap(Format::Link),
                "json_format": timemap(Format::Json),
            },
            "mementos": marked,
        })
    }
}

/// The places of the mementos from and until a datetime, at most `limit` from the start, or from the
/// end if it is negative. The list must be sorted by datetime.
pub fn select(
    mementos: &[Found],
    from: Option<Datetime>,
    until: Option<Datetime>,
    limit: Option<i64>,
) -> ops::Range<usize> {
    let start = from.map_or(0, |from| {
        mementos.partition_point(|found| found.memento.datetime < from)
    });
    let end = until.map_or(mementos.len(), |until| {
        mementos.partition_point(|found| found.memento.datetime <= until)
    });
    let end = end.max(start);
    let most = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX)
    });
    match limit.is_some_and(|limit| limit < 0) {
        true => end - most.min(end - start)..end,
        false => start..start + most.min(end - start),
    }
}

/// A document in a format.
pub fn document(timemap: &TimeMap, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = timemap.write(format, &mut out);
    out
}

/// The value of a `Link` header with the links of a TimeMap.
pub fn link_header(timemap: &TimeMap) -> String {
    let links = document(timemap, Format::Link);
    String::from_utf8_lossy(&links)
        .trim_end()
        .replace('\n', " ")
}

/// A memento's URI as it is in a `Link` header: only what a header can have. Clients compare
/// `Location` with it.
pub fn header_uri(uri: &str) -> String {
    let link = Link::new(uri).to_string();
    link[1..link.len() - 1].to_owned()
}

/// The body of a redirect.
pub fn redirect_body(location: &str) -> String {
    let mut escaped = String::with_capacity(location.len());
    for c in location.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    format!("<a href=\"{escaped}\">Found</a>.\n\n")
}

/// Which archives would be asked for a URI, in the JSON of Time Travel, with the reasons.
pub fn prediction(registry: &Registry, decision: &Decision, uri: &str) -> Value {
    let choices = decision.choices.iter();
    let asked = choices.filter(|choice| choice.asked).filter_map(|choice| {
        let archive = registry.archives.get(choice.archive)?;
        let address =
            |prefix: &Option<String>| prefix.as_ref().map(|prefix| format!("{prefix}{uri}"));
        Some(json!({
            "archive_id": archive.id,
            "timegate_uri": address(&archive.timegate),
            "timemap_uri": address(&archive.timemap),
            "memento_compliant": "yes",
            "reason": choice.reason.name(),
        }))
    });
    let asked: Vec<Value> = asked.collect();
    json!({"original_uri": uri, "memento_info": asked})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(timestamp: &str, archive: usize) -> Found {
        let uri = format!("http://archive{archive}.example/{timestamp}/http://a.example/");
        let datetime = Datetime::parse_timestamp(timestamp).unwrap();
        Found {
            memento: Memento::new(uri, datetime),
            archive,
        }
    }

    fn at(timestamp: &str) -> Datetime {
        Datetime::parse_timestamp(timestamp).unwrap()
    }

    fn relations(mementos: &[Found], datetime: &str) -> Vec<String> {
        let around = Around::find(mementos, at(datetime)).unwrap();
        let marked = around.mementos(mementos).into_iter();
        marked
            .map(|m| format!("{} {}", &m.uri[7..15], m.relations))
            .collect()
    }

    #[test]
    fn the_preferred_archive_is_closest_and_neighbours_are_at_other_datetimes() {
        let list = [
            found("2010", 0),
            found("2012", 0),
            found("2012", 1),
            found("2014", 1),
            found("2014", 2),
        ];
        assert_eq!(
            relations(&list, "2012"),
            [
                "archive0 first prev memento",
                "archive0 closest memento",
                "archive1 next memento",
                "archive2 last memento"
            ]
        );
        assert_eq!(
            relations(&list, "2020"),
            [
                "archive0 first memento",
                "archive0 prev memento",
                "archive1 closest memento",
                "archive2 last memento"
            ]
        );
        assert_eq!(
            relations(&list[..1], "1999"),
            ["archive0 first last closest memento"]
        );
        assert_eq!(Around::find(&[], at("1999")), None);
        // The later of two at the same distance.
        let list = [found("20120101", 0), found("20120103", 0)];
        assert_eq!(
            relations(&list, "20120102"),
            [
                "archive0 first prev memento",
                "archive0 last closest memento"
            ]
        );
    }

    #[test]
    fn time_travel_lists_all_archives_of_a_datetime() {
        let list = [found("2010", 0), found("2012", 0), found("2012", 1)];
        let links = Addresses::new("http://localhost:1208/").links("http://a.example/");
        let around = Around::find(&list, at("2012")).unwrap();
        let json = around.time_travel(&links, &list);
        assert_eq!(
            json["mementos"]["closest"],
            json!({"datetime": "2012-01-01T00:00:00Z", "uri": [list[1].memento.uri, list[2].memento.uri]})
        );
        assert_eq!(json["mementos"]["closest"], json["mementos"]["last"]);
        assert_eq!(json["mementos"]["next"], Value::Null);
        assert_eq!(
            json["timemap_uri"]["json_format"],
            "http://localhost:1208/timemap/json/http://a.example/"
        );
    }

    #[test]
    fn a_range_and_a_limit_select_mementos() {
        let list = [
            found("2010", 0),
            found("2011", 0),
            found("2012", 0),
            found("2013", 0),
        ];
        let all = |from: Option<&str>, until: Option<&str>, limit| {
            select(&list, from.map(at), until.map(at), limit)
        };
        assert_eq!(all(None, None, None), 0..4);
        assert_eq!(all(Some("2011"), Some("2012"), None), 1..3);
        assert_eq!(all(Some("2011"), None, Some(2)), 1..3);
        assert_eq!(all(None, Some("2012"), Some(-2)), 1..3);
        assert_eq!(all(Some("2012"), Some("2011"), Some(1)), 2..2);
        assert_eq!(all(None, None, Some(0)), 0..0);
        assert_eq!(all(None, None, Some(i64::MIN)), 0..4);
    }

    #[test]
    fn headers_and_bodies_are_safe() {
        let uri = "http://a/\r\nSet-Cookie: x?<\"é&'";
        assert_eq!(
            header_uri(uri),
            "http://a/%0D%0ASet-Cookie:%20x?%3C%22%C3%A9&'"
        );
        assert_eq!(
            redirect_body("http://a/?b&c='\"<"),
            "<a href=\"http://a/?b&amp;c=&#39;&#34;&lt;\">Found</a>.\n\n"
        );
        let links = Addresses::new("http://b/").links("http://a/");
        assert_eq!(
            link_header(&links),
            "<http://a/>; rel=\"original\", \
             <http://b/timemap/link/http://a/>; rel=\"timemap\"; type=\"application/link-format\", \
             <http://b/timemap/json/http://a/>; rel=\"timemap\"; type=\"application/json\", \
             <http://b/timemap/cdxj/http://a/>; rel=\"timemap\"; type=\"application/cdxj+ors\", \
             <http://b/timegate/http://a/>; rel=\"timegate\""
        );
    }

    proptest! {
        #[test]
        fn the_closest_is_the_closest(mut years in prop::collection::vec(2000..2030_i16, 1..20), wanted in 1990..2040_i16) {
            years.sort_unstable();
            let list: Vec<Found> = years.iter().map(|year| found(&year.to_string(), 0)).collect();
            let datetime = at(&wanted.to_string());
            let distance = |found: &Found| {
                (found.memento.datetime.to_jiff().as_second() - datetime.to_jiff().as_second()).abs()
            };
            let around = Around::find(&list, datetime).unwrap();
            prop_assert_eq!(Some(distance(&list[around.closest])), list.iter().map(distance).min());
            let year = |place: usize| years[place];
            prop_assert!(around.prev.is_none_or(|prev| year(prev) < year(around.closest)));
            prop_assert!(around.next.is_none_or(|next| year(next) > year(around.closest)));
        }
    }
}
