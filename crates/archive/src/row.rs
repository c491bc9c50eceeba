//! A capture on its way to the client.

use std::borrow::Cow;

use waypost_index::json::{self, Kind, Next};
use waypost_index::layout::Shape;
use waypost_index::revisit::Original;
use waypost_index::{Capture, Field};

/// A capture, and where it is from.
pub(crate) struct Row<'l> {
    /// As in the index.
    pub(crate) capture: Capture<'l>,
    /// The same with the fields of the capture that it repeats.
    pub(crate) resolved: Option<(Capture<'l>, &'l Original)>,
    pub(crate) shape: Shape,
    pub(crate) origin: &'l Origin,
}

/// The index that a capture is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its name, as pywb has it.
    pub(crate) source: String,
    pub(crate) collection: String,
    /// Both as members of a JSON object.
    pub(crate) members: Vec<u8>,
}

impl Origin {
    pub(crate) fn new(source: String, collection: String) -> Origin {
        let mut members = b"\"source\": ".to_vec();
        string(source.as_bytes(), &mut members);
        members.extend_from_slice(b", \"source-coll\": ");
        string(collection.as_bytes(), &mut members);
        members.extend_from_slice(b", ");
        Origin {
            source,
            collection,
            members,
        }
    }
}

impl Row<'_> {
    /// The capture, resolved if it is a revisit and that was asked for.
    pub(crate) fn capture(&self) -> &Capture<'_> {
        match &self.resolved {
            Some((resolved, _)) => resolved,
            None => &self.capture,
        }
    }

    /// The text of a field.
    pub(crate) fn text(&self, field: Field) -> Option<Cow<'_, [u8]>> {
        self.capture().text(field)
    }
}

/// The value of a field by any of its names.
pub(crate) fn value<'r>(row: &'r Row<'_>, name: &str) -> Option<Cow<'r, [u8]>> {
    match name {
        "urlkey" | "k" => Some(row.capture.key().into()),
        "timestamp" | "t" => Some(row.capture.timestamp().into()),
        "source" => Some(row.origin.source.as_bytes().into()),
        "source-coll" => Some(row.origin.collection.as_bytes().into()),
        "access" => Some(b"allow".into()),
        _ => match Field::of_json(name.as_bytes()) {
            Some(field) => row.text(field),
            None => row.capture.other(name),
        },
    }
}

/// Appends the value of a field as JSON. Values that are not known fields are copied from the index.
/// Returns whether there is one.
pub(crate) fn json_value(row: &Row<'_>, name: &str, out: &mut Vec<u8>) -> bool {
    if let Some(value) = value(row, name) {
        string(&value, out);
        return true;
    }
    let mut found = false;
    if let Some(object) = row.capture.json() {
        let _ = json::members(object, false, |member, raw| {
            if member != name.as_bytes() || raw.kind != Kind::Nested {
                return Next::More;
            }
            out.extend_from_slice(raw.bytes);
            found = true;
            Next::Enough
        });
    }
    found
}

/// Appends a JSON string. Bytes that are not UTF-8 become replacement characters.
pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if bytes.iter().all(plain) {
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
    } else {
        let text = String::from_utf8_lossy(bytes);
        out.extend_from_slice(serde_json::Value::from(&*text).to_string().as_bytes());
    }
}
