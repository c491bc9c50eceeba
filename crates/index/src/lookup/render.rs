//! Formats captures as CDXJ, as JSON, or as text in columns.
//!
//! JSON in the index is copied, not decoded and encoded again.

use std::borrow::Cow;

use crate::capture::{Capture, Field, Fields};
use crate::json::{self, Kind, Next};
use crate::revisit::Original;

/// The output format of captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// `key timestamp {json}`. CDXJ lines are copied.
    #[default]
    Cdxj,
    /// One JSON object per line, with `urlkey` and `timestamp`.
    Json,
    /// `key timestamp url mime status digest length offset filename`, `-` for missing values.
    Text,
}

/// The columns of [`Form::Text`] after key and timestamp.
const COLUMNS: [Field; 7] = [
    Field::Url,
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Length,
    Field::Offset,
    Field::Filename,
];

impl Form {
    /// The fields needed to format a CDX line.
    pub fn wanted(self) -> Fields {
        match self {
            Form::Text => COLUMNS.into_iter().collect(),
            Form::Cdxj | Form::Json => Fields::ALL,
        }
    }

    /// Appends the capture, with a newline. If it is a revisit of `original`, with the media type,
    /// status and location of that.
    pub fn write(self, capture: &Capture<'_>, original: Option<&Original>, out: &mut Vec<u8>) {
        match self {
            Form::Cdxj => {
                out.extend_from_slice(capture.key());
                out.push(b' ');
                out.extend_from_slice(capture.timestamp());
                out.extend_from_slice(b" {");
                members(capture, original, out);
                out.push(b'}');
            }
            Form::Json => {
                out.extend_from_slice(b"{\"urlkey\": ");
                string(capture.key(), out);
                out.extend_from_slice(b", \"timestamp\": ");
                string(capture.timestamp(), out);
                let before = out.len();
                out.extend_from_slice(b", ");
                members(capture, original, out);
                if out.len() == before + 2 {
                    out.truncate(before);
                }
                out.push(b'}');
            }
            Form::Text => {
                out.extend_from_slice(capture.key());
                out.push(b' ');
                out.extend_from_slice(capture.timestamp());
                for field in COLUMNS {
                    let value = match (field, original) {
                        (Field::Mime, Some(original)) => Some(Cow::from(&original.mime)),
                        (Field::Status, Some(original)) => Some(Cow::from(&original.status)),
                        _ => capture.text(field),
                    };
                    column(value.as_deref().unwrap_or_default(), out);
                }
                for (_, value) in original.map(places).into_iter().flatten() {
                    column(value, out);
                }
            }
        }
        out.push(b'\n');
    }
}

/// The location of the original record.
fn places(original: &Original) -> [(Field, &[u8]); 3] {
    [
        (Field::OriginalLength, &original.length),
        (Field::OriginalOffset, &original.offset),
        (Field::OriginalFilename, &original.filename),
    ]
}

/// The members of the JSON object, without its braces.
fn members(capture: &Capture<'_>, original: Option<&Original>, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b"";
    let mut write = |name: &[u8], value: &dyn Fn(&mut Vec<u8>)| {
        out.extend_from_slice(separator);
        json::push_string(name, out);
        out.extend_from_slice(b": ");
        value(out);
        separator = b", ";
    };
    let replaced = |field: Field| match (field, original) {
        (Field::Mime, Some(original)) => Some(&original.mime),
        (Field::Status, Some(original)) => Some(&original.status),
        _ => None,
    };
    let mut unwritten = vec![Field::Mime, Field::Status];
    match capture.json() {
        Some(object) => {
            // The layout has parsed this object before, so it is valid JSON.
            let _ = json::members(object, false, |name, raw| {
                let field = Field::of_json(name);
                if matches!(name, b"urlkey" | b"timestamp") {
                    return Next::More;
                }
                match field.and_then(replaced) {
                    Some(value) => {
                        unwritten.retain(|unwritten| Some(*unwritten) != field);
                        write(name, &|out| string(value, out));
                    }
                    None => write(name, &|out| match raw.kind {
                        Kind::Text | Kind::Escaped => {
                            out.push(b'"');
                            out.extend_from_slice(raw.bytes);
                            out.push(b'"');
                        }
                        Kind::Word | Kind::Nested => out.extend_from_slice(raw.bytes),
                    }),
                }
                Next::More
            });
        }
        None => {
            for field in Field::ALL {
                if replaced(field).is_none()
                    && let Some(value) = capture.text(field)
                {
                    write(field.name().as_bytes(), &|out| string(&value, out));
                }
            }
        }
    }
    let Some(original) = original else {
        return;
    };
    for field in unwritten {
        if let Some(value) = replaced(field).filter(|value| !value.is_empty()) {
            write(field.name().as_bytes(), &|out| string(value, out));
        }
    }
    for (field, value) in places(original) {
        if !value.is_empty() {
            write(field.name().as_bytes(), &|out| string(value, out));
        }
    }
}

/// Writes a JSON string. Bytes that are not UTF-8 become replacement characters.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(bytes);
    out.extend_from_slice(serde_json::Value::from(&*text).to_string().as_bytes());
}

fn column(value: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    if value.is_empty() {
        out.push(b'-');
    }
    for &byte in value {
        match byte {
            // A space would split the column.
            b' ' => out.extend_from_slice(b"%20"),
            _ => out.push(byte),
        }
    }
}
