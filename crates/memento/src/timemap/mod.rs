//! TimeMaps: the mementos of an original URI.

mod cdxj;
mod json;
mod link;
mod writer;

use std::fmt;
use std::io::{self, Write};

use crate::{Datetime, Error, Replay};

pub use writer::TimeMapWriter;

/// A format of TimeMaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// link-format (RFC 6690), the one that RFC 7089 requires.
    Link,
    /// JSON as MemGator and Time Travel write it; rows of an index (NDJSON) as pywb writes them.
    Json,
    /// CDXJ as MemGator writes it; rows of an index as pywb writes them.
    Cdxj,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Link, Format::Json, Format::Cdxj];

    /// The name in paths and options: `link`, `json` or `cdxj`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Link => "link",
            Format::Json => "json",
            Format::Cdxj => "cdxj",
        }
    }

    /// The media type that is written.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Link => "application/link-format",
            Format::Json => "application/json",
            Format::Cdxj => "application/cdxj+ors",
        }
    }

    /// The format of a media type, which may have parameters.
    pub fn of_media_type(text: &str) -> Option<Format> {
        let essence = text.split(';').next().unwrap_or_default().trim();
        match &essence.to_ascii_lowercase()[..] {
            "application/link-format" => Some(Format::Link),
            "application/json" | "text/x-ndjson" | "application/x-ndjson" => Some(Format::Json),
            "application/cdxj+ors" | "text/x-cdxj" => Some(Format::Cdxj),
            _ => None,
        }
    }
}

/// The mementos of an original URI, and where else to ask for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMap {
    /// The original URI; empty if the document did not name it.
    pub original: String,
    /// The TimeMap itself.
    pub this: Option<TimeMapLink>,
    /// The TimeGate of the original URI.
    pub timegate: Option<String>,
    /// The same TimeMap in other formats, its other pages, or the TimeMaps of an index.
    pub timemaps: Vec<TimeMapLink>,
    /// The mementos, in the order of the document.
    pub mementos: Vec<Memento>,
}

/// A capture of the original URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memento {
    /// The URI of the memento.
    pub uri: String,
    /// When it was captured.
    pub datetime: Datetime,
    /// What it is beside a memento.
    pub relations: Relations,
    /// Other parameters of its link, such as `license` and pywb's `collection`. Only link-format
    /// has them.
    pub parameters: Vec<(String, String)>,
}

impl Memento {
    /// A memento without further relations or parameters.
    pub fn new(uri: impl Into<String>, datetime: Datetime) -> Memento {
        Memento {
            uri: uri.into(),
            datetime,
            relations: Relations::default(),
            parameters: Vec::new(),
        }
    }
}

/// What a memento is among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// The earliest.
    pub first: bool,
    /// The latest.
    pub last: bool,
    /// The nearest to a requested datetime.
    pub closest: bool,
    /// The one before the closest.
    pub prev: bool,
    /// The one after the closest.
    pub next: bool,
}

impl Relations {
    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Relations {
        let mut relations = Relations::default();
        for word in words {
            match &word.to_ascii_lowercase()[..] {
                "first" => relations.first = true,
                "last" => relations.last = true,
                "closest" => relations.closest = true,
                "prev" | "previous" => relations.prev = true,
                "next" => relations.next = true,
                _ => {}
            }
        }
        relations
    }
}

impl fmt::Display for Relations {
    /// The value of `rel`: `first last memento`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (is, word) in [
            (self.first, "first "),
            (self.last, "last "),
            (self.closest, "closest "),
            (self.next, "next "),
            (self.prev, "prev "),
        ] {
            if is {
                f.write_str(word)?;
            }
        }
        f.write_str("memento")
    }
}

/// A link to a TimeMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMapLink {
    /// The URI of the TimeMap.
    pub uri: String,
    /// Its format.
    pub format: Option<Format>,
    /// The datetime of its first memento.
    pub from: Option<Datetime>,
    /// The datetime of its last memento.
    pub until: Option<Datetime>,
    /// The page before or after this one: `prev` or `next`.
    pub page: Option<Page>,
}

/// Where another page of a TimeMap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Before this one.
    Prev,
    /// After this one.
    Next,
}

impl TimeMapLink {
    /// A link to a TimeMap in a format.
    pub fn new(uri: impl Into<String>, format: Format) -> TimeMapLink {
        TimeMapLink {
            uri: uri.into(),
            format: Some(format),
            ..TimeMapLink::default()
        }
    }
}

impl TimeMap {
    /// Reads a TimeMap leniently: what cannot be read is skipped and returned as errors. pywb's JSON
    /// and CDXJ list captures without the URIs of their mementos; `replay` makes them.
    ///
    /// # Errors
    /// If the document cannot be read at all: its JSON is invalid, or nothing in it can be read.
    pub fn read(
        format: Format,
        document: &[u8],
        replay: Option<&Replay>,
    ) -> Result<(TimeMap, Vec<Error>), Error> {
        let (timemap, problems) = match format {
            Format::Link => link::read(document),
            Format::Json => json::read(document, replay)?,
            Format::Cdxj => cdxj::read(document, replay),
        };
        match problems.first() {
            Some(problem) if timemap == TimeMap::default() => Err(problem.clone()),
            _ => Ok((timemap, problems)),
        }
    }

    /// Writes the TimeMap as MemGator does. If a memento is marked as closest, JSON names the
    /// marked mementos and has no list of all, as in answers about a datetime.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Link => link::write(self, out),
            Format::Json => json::write(self, out),
            Format::Cdxj => cdxj::write(self, out),
        }
    }

    /// Sorts the mementos by datetime, keeping the order of equal ones, and marks the first and last.
    pub fn sort(&mut self) {
        self.mementos.sort_by_key(|memento| memento.datetime);
        let last = self.mementos.len().saturating_sub(1);
        for (place, memento) in self.mementos.iter_mut().enumerate() {
            memento.relations.first = place == 0;
            memento.relations.last = place == last;
        }
    }

    /// The mementos around a datetime, marked: the first, the one before the closest, the closest,
    /// the one after it and the last. The TimeMap must be [sorted](TimeMap::sort). Of two at the same
    /// distance, the later is the closest.
    pub fn around(&self, datetime: Datetime) -> TimeMap {
        let distance = |memento: &Memento| {
            let difference =
                memento.datetime.to_jiff().as_second() - datetime.to_jiff().as_second();
            difference.abs()
        };
        let mut around = TimeMap {
            this: None,
            mementos: Vec::new(),
            ..self.clone_links()
        };
        let places = 0..self.mementos.len();
        let Some(closest) = places
            .rev()
            .min_by_key(|&place| distance(&self.mementos[place]))
        else {
            return around;
        };
        let last = self.mementos.len() - 1;
        let mut wanted = vec![
            0,
            closest.saturating_sub(1),
            closest,
            (closest + 1).min(last),
            last,
        ];
        wanted.dedup();
        for place in wanted {
            around.mementos.push(Memento {
                relations: Relations {
                    first: place == 0,
                    last: place == last,
                    closest: place == closest,
                    prev: place + 1 == closest,
                    next: place == closest + 1,
                },
                ..self.mementos[place].clone()
            });
        }
        around
    }

    fn clone_links(&self) -> TimeMap {
        TimeMap {
            original: self.original.clone(),
            this: self.this.clone(),
            timegate: self.timegate.clone(),
            timemaps: self.timemaps.clone(),
            mementos: Vec::new(),
        }
    }

    /// The URI of this TimeMap in a format, as JSON and CDXJ name them.
    fn uri_of(&self, format: Format) -> Option<&str> {
        let mut known = self.timemaps.iter();
        known
            .find(|timemap| timemap.format == Some(format) && timemap.page.is_none())
            .map(|timemap| &timemap.uri[..])
    }
}

/// The names under which JSON and CDXJ list the TimeMap in each format.
const FORMAT_KEYS: [(Format, &str); 3] = [
    (Format::Link, "link_format"),
    (Format::Json, "json_format"),
    (Format::Cdxj, "cdxj_format"),
];
