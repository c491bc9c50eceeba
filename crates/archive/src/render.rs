//! Formats the rows of an answer.

use waypost_index::layout::Shape;
use waypost_index::lookup::{Form, WAYBACK_COLUMNS};
use waypost_index::timestamp::Time;
use waypost_index::{Field, Fields};
use waypost_memento::{Datetime, Link, Replay};

use crate::query::{Api, Output, Query};
use crate::resume::Resume;
use crate::row::{Row, json_value, string, value};

/// The columns of text answers.
const TEXT: [&str; 9] = [
    "urlkey",
    "timestamp",
    "url",
    "mime",
    "status",
    "digest",
    "length",
    "offset",
    "filename",
];

/// Writes the rows of one answer.
pub(crate) struct Renderer<'q> {
    output: Output,
    /// Only these fields.
    fields: Option<Vec<&'q str>>,
    /// Whether to name the index of each capture.
    source: bool,
    head: Option<TimeMapHead<'q>>,
    replay: Option<&'q Replay>,
    rows: u64,
}

/// The links at the start of a TimeMap.
pub(crate) struct TimeMapHead<'q> {
    pub(crate) original: &'q str,
    pub(crate) timemap: String,
    pub(crate) timegate: String,
}

impl<'q> Renderer<'q> {
    pub(crate) fn new(query: &'q Query, replay: Option<&'q Replay>) -> Renderer<'q> {
        let given = query.fields.as_ref();
        let given = given.map(|fields| fields.iter().map(String::as_str).collect());
        let columns: Option<&[&str]> = match (query.output, query.api) {
            (Output::Text, Api::Pywb) => Some(&TEXT),
            (Output::Text | Output::Arrays, _) => Some(&WAYBACK_COLUMNS),
            _ => None,
        };
        Renderer {
            output: query.output,
            fields: given.or(columns.map(<[&str]>::to_vec)),
            source: query.source,
            head: None,
            replay,
            rows: 0,
        }
    }

    /// The same, with the links of a TimeMap before the first memento.
    pub(crate) fn timemap(self, head: TimeMapHead<'q>) -> Renderer<'q> {
        Renderer {
            head: Some(head),
            ..self
        }
    }

    /// The fields to parse in JSON, which is copied where that is possible.
    pub(crate) fn wanted(&self) -> Fields {
        let names = self.fields.iter().flatten();
        let named: Fields = names
            .filter_map(|name| Field::of_json(name.as_bytes()))
            .collect();
        match self.output {
            Output::Link => named | Field::Url,
            _ => named,
        }
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) {
        match (self.output, &self.fields) {
            (Output::Link, _) => return self.link(row, out),
            (Output::Cdxj, None) => self.whole(row, Form::Cdxj, out),
            (Output::Json, None) => self.whole(row, Form::Json, out),
            (Output::Cdxj, Some(fields)) => {
                out.extend_from_slice(row.capture.key());
                out.push(b' ');
                out.extend_from_slice(row.capture.timestamp());
                out.push(b' ');
                let fields = fields.iter();
                object(
                    row,
                    fields.filter(|name| !["urlkey", "timestamp"].contains(name)),
                    out,
                );
                out.push(b'\n');
            }
            (Output::Json, Some(fields)) => {
                object(row, fields.iter(), out);
                out.push(b'\n');
            }
            (Output::Arrays, fields) => {
                let fields = fields.as_deref().unwrap_or(&WAYBACK_COLUMNS);
                if self.rows == 0 {
                    out.push(b'[');
                    array(fields.iter().map(|name| name.as_bytes().into()), out);
                }
                out.extend_from_slice(b",\n");
                array(
                    fields
                        .iter()
                        .map(|name| value(row, name).unwrap_or(b"-".into())),
                    out,
                );
            }
            (Output::Text, fields) => {
                let fields = fields.as_deref().unwrap_or(&TEXT);
                for (number, name) in fields.iter().enumerate() {
                    if number > 0 {
                        out.push(b' ');
                    }
                    column(&value(row, name).unwrap_or(b"-".into()), out);
                }
                out.push(b'\n');
            }
        }
        self.rows += 1;
    }

    /// Appends what follows the last row.
    pub(crate) fn end(&self, resume: Option<&Resume>, out: &mut Vec<u8>) {
        match self.output {
            Output::Link if self.rows > 0 => out.push(b'\n'),
            Output::Arrays if self.rows == 0 => out.extend_from_slice(b"[]\n"),
            Output::Arrays => {
                if let Some(resume) = resume {
                    out.extend_from_slice(b",\n[],\n[");
                    string(resume.encode().as_bytes(), out);
                    out.push(b']');
                }
                out.extend_from_slice(b"]\n");
            }
            Output::Json => {
                if let Some(resume) = resume {
                    out.extend_from_slice(b"{\"resumeKey\": ");
                    string(resume.encode().as_bytes(), out);
                    out.extend_from_slice(b"}\n");
                }
            }
            Output::Cdxj | Output::Text | Output::Link => {
                if let Some(resume) = resume {
                    out.push(b'\n');
                    out.extend_from_slice(resume.encode().as_bytes());
                    out.push(b'\n');
                }
            }
        }
    }

    /// All fields as JSON, with those that pywb adds.
    fn whole(&self, row: &Row<'_>, form: Form, out: &mut Vec<u8>) {
        let start = out.len();
        match (&row.resolved, row.capture.json()) {
            // The object is copied.
            (None, Some(object)) if row.shape == Shape::Cdxj => {
                if form == Form::Cdxj {
                    out.extend_from_slice(row.capture.line().trim_ascii_end());
                } else {
                    out.extend_from_slice(b"{\"urlkey\": ");
                    string(row.capture.key(), out);
                    out.extend_from_slice(b", \"timestamp\": ");
                    string(row.capture.timestamp(), out);
                    let members = object[1..].trim_ascii();
                    if members != b"}" {
                        out.extend_from_slice(b", ");
                    }
                    out.extend_from_slice(members);
                }
            }
            (resolved, _) => {
                let original = resolved.as_ref().map(|(_, original)| *original);
                form.write(&row.capture, original, out);
                out.pop();
            }
        }
        // The closing brace.
        out.pop();
        let written = out[start..].trim_ascii_end().len();
        out.truncate(start + written);
        if out.last() != Some(&b'{') {
            out.extend_from_slice(b", ");
        }
        if self.source {
            out.extend_from_slice(&row.origin.members);
        }
        out.extend_from_slice(b"\"access\": \"allow\"}\n");
    }

    /// A link of a TimeMap. The one before it gets its comma now.
    fn link(&mut self, row: &Row<'_>, out: &mut Vec<u8>) {
        let url = row.text(Field::Url).unwrap_or_default();
        let url = String::from_utf8_lossy(&url);
        let Some(datetime) = datetime(row.capture.timestamp()) else {
            return;
        };
        if self.rows > 0 {
            out.extend_from_slice(b",\n");
        } else if let Some(head) = &self.head {
            let link_format = Output::Link.media_type();
            let links = [
                Link::new(&head.timemap[..])
                    .with("rel", "self")
                    .with("type", link_format)
                    .with("from", datetime.http()),
                Link::new(&head.timegate[..]).with("rel", "timegate"),
                Link::new(head.original).with("rel", "original"),
            ];
            for link in links {
                out.extend_from_slice(format!("{link},\n").as_bytes());
            }
        }
        let uri = match self.replay {
            Some(replay) => replay.uri(datetime, &url),
            None => url.into_owned(),
        };
        let link = Link::new(uri)
            .with("rel", "memento")
            .with("datetime", datetime.http())
            .with("collection", &row.origin.collection[..]);
        out.extend_from_slice(link.to_string().as_bytes());
        self.rows += 1;
    }
}

/// The datetime of a capture, whose timestamp may be abbreviated or out of range.
pub(crate) fn datetime(timestamp: &[u8]) -> Option<Datetime> {
    let text = String::from_utf8_lossy(timestamp);
    Datetime::parse_timestamp(&text).ok().or_else(|| {
        let nearest = Time::parse(timestamp)?.to_string();
        Datetime::parse(&nearest).ok()
    })
}

fn object<'n>(row: &Row<'_>, names: impl Iterator<Item = &'n &'n str>, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut separator: &[u8] = b"";
    for name in names {
        let before = out.len();
        out.extend_from_slice(separator);
        string(name.as_bytes(), out);
        out.extend_from_slice(b": ");
        if json_value(row, name, out) {
            separator = b", ";
        } else {
            out.truncate(before);
        }
    }
    out.push(b'}');
}

fn array<'v>(values: impl Iterator<Item = std::borrow::Cow<'v, [u8]>>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (number, value) in values.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        string(&value, out);
    }
    out.push(b']');
}

/// A column of text, in which a space or a line break would start another one.
fn column(value: &[u8], out: &mut Vec<u8>) {
    if value.is_empty() {
        out.push(b'-');
    }
    for &byte in value {
        match byte {
            b' ' | b'\n' | b'\r' => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(byte),
        }
    }
}
