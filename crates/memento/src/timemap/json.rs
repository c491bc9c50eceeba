//! TimeMaps in JSON: one object, as MemGator and Time Travel write it, or the rows of an index, as
//! pywb does.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{FORMAT_KEYS, Format, Memento, Page, Relations, TimeMap, TimeMapLink, cdxj};
use crate::{Datetime, Error, ErrorKind, Replay};

#[derive(Deserialize)]
struct Document<'a> {
    original_uri: Option<String>,
    #[serde(rename = "self")]
    this: Option<String>,
    timegate_uri: Option<String>,
    #[serde(borrow)]
    timemap_uri: Option<&'a RawValue>,
    #[serde(borrow)]
    mementos: Option<Mementos<'a>>,
    #[serde(borrow, default)]
    timemap_index: Vec<&'a RawValue>,
    #[serde(borrow)]
    pages: Option<Pages<'a>>,
}

#[derive(Deserialize)]
struct Mementos<'a> {
    /// The published note calls it `all`, every implementation `list`.
    #[serde(borrow, alias = "all")]
    list: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    first: Option<&'a RawValue>,
    #[serde(borrow)]
    prev: Option<&'a RawValue>,
    #[serde(borrow)]
    closest: Option<&'a RawValue>,
    #[serde(borrow)]
    next: Option<&'a RawValue>,
    #[serde(borrow)]
    last: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Pages<'a> {
    #[serde(borrow)]
    prev: Option<&'a RawValue>,
    #[serde(borrow)]
    next: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item {
    datetime: Option<String>,
    uri: Option<OneOrMany>,
    from: Option<String>,
    until: Option<String>,
}

/// Time Travel lists the URIs of all archives with the same datetime.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMany::One(uri) => vec![uri],
            OneOrMany::Many(uris) => uris,
        }
    }
}

pub(super) fn read(
    document: &[u8],
    replay: Option<&Replay>,
) -> Result<(TimeMap, Vec<Error>), Error> {
    let mut values = serde_json::Deserializer::from_slice(document).into_iter::<&RawValue>();
    let first = match values.next() {
        // pywb answers with nothing if it has nothing.
        None => return Ok((TimeMap::default(), Vec::new())),
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(json_error(document, document, &error)),
    };
    let is_one = matches!(values.next(), None | Some(Err(_)));
    let parsed: Result<Document<'_>, _> = serde_json::from_str(first.get());
    match parsed {
        Ok(parsed) if is_one && (parsed.original_uri.is_some() || parsed.mementos.is_some()) => {
            Ok(Reader::new(document).read(parsed))
        }
        Err(error) if is_one => Err(json_error(document, first.get().as_bytes(), &error)),
        _ => Ok(cdxj::read(document, replay)),
    }
}

/// An error of a part of the document, with its offset in the whole.
pub(super) fn json_error(document: &[u8], part: &[u8], error: &serde_json::Error) -> Error {
    let start = (part.as_ptr() as usize).saturating_sub(document.as_ptr() as usize);
    let lines_before = error.line().saturating_sub(1);
    let line = memchr::memchr_iter(b'\n', part)
        .nth(lines_before.wrapping_sub(1))
        .map_or(0, |end| end + 1);
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    Error::new(
        ErrorKind::BadJson(text.to_owned()),
        (start + line + error.column().saturating_sub(1)).min(document.len()),
    )
}

struct Reader<'a> {
    document: &'a [u8],
    timemap: TimeMap,
    problems: Vec<Error>,
}

impl<'a> Reader<'a> {
    fn new(document: &'a [u8]) -> Reader<'a> {
        Reader {
            document,
            timemap: TimeMap::default(),
            problems: Vec::new(),
        }
    }

    fn read(mut self, parsed: Document<'a>) -> (TimeMap, Vec<Error>) {
        self.timemap.original = parsed.original_uri.unwrap_or_default();
        if self.timemap.original.is_empty() {
            let end = self.document.len();
            self.problems
                .push(Error::new(ErrorKind::MissingOriginal, end));
        }
        self.timemap.this = parsed.this.map(|uri| TimeMapLink::new(uri, Format::Json));
        self.timemap.timegate = parsed.timegate_uri;
        if let Some(mementos) = parsed.mementos {
            self.mementos(&mementos);
        }
        if let Some(uris) = parsed.timemap_uri
            && let Err(error) = add_formats(uris.get(), &mut self.timemap)
        {
            self.problem(uris, &error);
        }
        for item in parsed.timemap_index {
            self.timemap_link(item, None);
        }
        let pages = parsed.pages.into_iter();
        for (item, page) in pages.flat_map(|p| [(p.prev, Page::Prev), (p.next, Page::Next)]) {
            if let Some(item) = item {
                self.timemap_link(item, Some(page));
            }
        }
        (self.timemap, self.problems)
    }

    fn problem(&mut self, part: &RawValue, error: &serde_json::Error) {
        let problem = json_error(self.document, part.get().as_bytes(), error);
        self.problems.push(problem);
    }

    /// The list, and the marked mementos: those of the list if it has them.
    fn mementos(&mut self, mementos: &Mementos<'a>) {
        for item in mementos.list.iter().flatten() {
            for memento in self.item(item) {
                self.timemap.mementos.push(memento);
            }
        }
        let marked: [(_, fn(&mut Relations)); 5] = [
            (mementos.first, |r| r.first = true),
            (mementos.prev, |r| r.prev = true),
            (mementos.closest, |r| r.closest = true),
            (mementos.next, |r| r.next = true),
            (mementos.last, |r| r.last = true),
        ];
        for (item, mark) in marked {
            let Some(item) = item else { continue };
            for found in self.item(item) {
                let known = &mut self.timemap.mementos;
                let same = |m: &Memento| m.uri == found.uri && m.datetime == found.datetime;
                // The last memento is most likely at the end.
                match known.iter().rposition(same) {
                    Some(place) => mark(&mut known[place].relations),
                    None => {
                        known.push(found);
                        if let Some(last) = known.last_mut() {
                            mark(&mut last.relations);
                        }
                    }
                }
            }
        }
    }

    fn parsed(&mut self, raw: &RawValue) -> Option<Item> {
        serde_json::from_str(raw.get())
            .map_err(|error| self.problem(raw, &error))
            .ok()
    }

    fn offset(&self, raw: &RawValue) -> usize {
        (raw.get().as_ptr() as usize).saturating_sub(self.document.as_ptr() as usize)
    }

    fn datetime(&mut self, text: &str, offset: usize) -> Option<Datetime> {
        Datetime::parse(text)
            .map_err(|error| {
                let kind = ErrorKind::BadDatetime(error.0);
                self.problems.push(Error::new(kind, offset));
            })
            .ok()
    }

    fn item(&mut self, raw: &RawValue) -> Vec<Memento> {
        let offset = self.offset(raw);
        let Some(item) = self.parsed(raw) else {
            return Vec::new();
        };
        let Some(text) = item.datetime else {
            self.problems
                .push(Error::new(ErrorKind::MissingDatetime, offset));
            return Vec::new();
        };
        let Some(datetime) = self.datetime(&text, offset) else {
            return Vec::new();
        };
        let uris = item.uri.map_or_else(Vec::new, OneOrMany::into_vec);
        if uris.is_empty() {
            self.problems
                .push(Error::new(ErrorKind::MissingUri, offset));
        }
        let uris = uris.into_iter();
        uris.map(|uri| Memento::new(uri, datetime)).collect()
    }

    fn timemap_link(&mut self, raw: &RawValue, page: Option<Page>) {
        let offset = self.offset(raw);
        let Some(item) = self.parsed(raw) else { return };
        let from = item.from.and_then(|text| self.datetime(&text, offset));
        let until = item.until.and_then(|text| self.datetime(&text, offset));
        for uri in item.uri.map_or_else(Vec::new, OneOrMany::into_vec) {
            self.timemap.timemaps.push(TimeMapLink {
                from,
                until,
                page,
                ..TimeMapLink::new(uri, Format::Json)
            });
        }
    }
}

/// Adds the TimeMaps that an object like `{"link_format": "http://…"}` names.
pub(super) fn add_formats(json: &str, timemap: &mut TimeMap) -> serde_json::Result<()> {
    let uris: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    for (format, key) in FORMAT_KEYS {
        if let Some(uri) = uris.get(key).and_then(|uri| uri.as_str()) {
            timemap.timemaps.push(TimeMapLink::new(uri, format));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Written<'a> {
    original_uri: &'a str,
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    this: Option<&'a str>,
    mementos: WrittenMementos<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timemap_uri: Option<WrittenFormats<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timegate_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<WrittenPages<'a>>,
}

#[derive(Serialize)]
struct WrittenMementos<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Vec<WrittenItem<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<WrittenItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<WrittenItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closest: Option<WrittenItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<WrittenItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<WrittenItem<'a>>,
}

#[derive(Serialize)]
struct WrittenItem<'a> {
    datetime: String,
    uri: &'a str,
}

#[derive(Serialize)]
struct WrittenFormats<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    link_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdxj_format: Option<&'a str>,
}

#[derive(Serialize)]
struct WrittenPages<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<WrittenPage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<WrittenPage<'a>>,
}

#[derive(Serialize)]
struct WrittenPage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    uri: &'a str,
}

/// The list in the layout of the rest, which is written by serde around an empty one.
const EMPTY_LIST: &str = "\"list\": []";

pub(super) fn write_head(links: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    let document = around_list(links)?;
    let list = document.find(EMPTY_LIST).unwrap_or(document.len());
    out.write_all(&document.as_bytes()[..list])?;
    out.write_all(b"\"list\": [")
}

pub(super) fn write_memento(
    memento: &Memento,
    is_first: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let comma = if is_first { "" } else { "," };
    write!(
        out,
        "{comma}\n      {{\n        \"datetime\": \"{}\",\n        \"uri\": {}\n      }}",
        memento.datetime.iso(),
        cdxj::quoted(&memento.uri)
    )
}

pub(super) fn write_tail(links: &TimeMap, is_empty: bool, out: &mut impl Write) -> io::Result<()> {
    let document = around_list(links)?;
    let list = document.find(EMPTY_LIST).unwrap_or_default();
    let indent = if is_empty { "" } else { "\n    " };
    write!(out, "{indent}]{}", &document[list + EMPTY_LIST.len()..])
}

/// The document with an empty list.
fn around_list(links: &TimeMap) -> io::Result<String> {
    let mut text = Vec::new();
    let mut document = written_document(links);
    document.mementos.list = Some(Vec::new());
    serde_json::to_writer_pretty(&mut text, &document)?;
    text.push(b'\n');
    // JSON is UTF-8.
    Ok(String::from_utf8(text).unwrap_or_default())
}

pub(super) fn write(timemap: &TimeMap, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &written_document(timemap))?;
    out.write_all(b"\n")
}

fn written_document(timemap: &TimeMap) -> Written<'_> {
    let is_description = timemap.mementos.iter().any(|m| m.relations.closest);
    let marked = |is: fn(&Relations) -> bool| {
        timemap
            .mementos
            .iter()
            .find(|m| is(&m.relations))
            .map(written)
    };
    let formats = WrittenFormats {
        link_format: timemap.uri_of(Format::Link),
        json_format: timemap.uri_of(Format::Json),
        cdxj_format: timemap.uri_of(Format::Cdxj),
    };
    let has_formats = timemap.timemaps.iter().any(|t| t.page.is_none());
    let page = |wanted: Page| {
        let found = timemap.timemaps.iter().find(|t| t.page == Some(wanted))?;
        Some(WrittenPage {
            from: found.from.map(Datetime::iso),
            until: found.until.map(Datetime::iso),
            uri: &found.uri,
        })
    };
    let pages = WrittenPages {
        prev: page(Page::Prev),
        next: page(Page::Next),
    };
    Written {
        original_uri: &timemap.original,
        this: timemap.this.as_ref().map(|this| &this.uri[..]),
        mementos: WrittenMementos {
            list: (!is_description).then(|| timemap.mementos.iter().map(written).collect()),
            first: marked(|r| r.first),
            prev: marked(|r| r.prev),
            closest: marked(|r| r.closest),
            next: marked(|r| r.next),
            last: marked(|r| r.last),
        },
        timemap_uri: has_formats.then_some(formats),
        timegate_uri: timemap.timegate.as_deref(),
        pages: (pages.prev.is_some() || pages.next.is_some()).then_some(pages),
    }
}

fn written(memento: &Memento) -> WrittenItem<'_> {
    WrittenItem {
        datetime: memento.datetime.iso(),
        uri: &memento.uri,
    }
}
