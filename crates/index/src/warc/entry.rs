//! The line of a record in the index.

use sha1::{Digest, Sha1};
use sha2::Sha256;
use waypost_surt::Canonicalizer;

use super::record::Record;
use super::text::{base32, decoded, hex, push_json};
use super::units::{Unit, read_again};
use super::{DamageKind, Options, post};

/// What the index says about a record.
pub(super) struct Entry {
    /// Whether the index has a line for it. Requests are read without one, too, for their bodies.
    pub(super) is_included: bool,
    kind: Vec<u8>,
    uri: Option<String>,
    timestamp: String,
    mime: Option<String>,
    status: Option<String>,
    digest: Option<String>,
    offset: u64,
    length: u64,
    record_digest: Option<String>,
    id: Option<Vec<u8>>,
    concurrent_to: Option<Vec<u8>>,
    /// Of a request.
    request: Option<post::Request>,
    /// Of a response to a POST or PUT request, and of that request.
    query: Option<post::Query>,
    /// Whether the line names the method and the body.
    is_response: bool,
}

impl Entry {
    pub(super) fn new(
        record: &Record<'_>,
        unit: &Unit<'_>,
        file: &[u8],
        is_included: bool,
        options: &Options,
    ) -> Result<Entry, DamageKind> {
        let kind = record.kind().unwrap_or_default();
        let uri = record.uri();
        let has_uri = uri.is_some();
        if is_included && !has_uri && matches!(kind, b"response" | b"revisit" | b"request") {
            return Err(DamageKind::BadHeader("WARC-Target-URI"));
        }
        let http = record.http(uri.as_deref());
        let http_length = http.as_ref().map_or(0, |http| http.length);
        let http = http.filter(|http| !http.is_empty());
        let mime = match kind {
            b"revisit" => Some("warc/revisit".to_owned()),
            // Without it, the line could not be told from that of a capture.
            b"request" => Some("warc/request".to_owned()),
            b"response" => http
                .as_ref()
                .and_then(|http| http.get("Content-Type"))
                .map(essence),
            _ => record.content_type().map(essence),
        };
        let status = match (&http, kind) {
            (Some(http), b"response" | b"revisit") => Some(decoded(http.words().1).into_owned()),
            _ => None,
        };
        let digest = match record.digest() {
            Some(digest) => Some(decoded(digest).into_owned()),
            // Neither has a payload.
            None if !is_included || matches!(kind, b"warcinfo" | b"revisit") => None,
            None => Some(payload_digest(record, unit, file, http_length)?),
        };
        let timestamp = match record.timestamp() {
            Some(timestamp) => timestamp,
            None if is_included => return Err(DamageKind::BadHeader("WARC-Date")),
            None => String::new(),
        };
        let request = match (&http, kind, options.post_append) {
            (Some(http), b"request", true) => {
                Some(post::Request::new(http, &record.content[http_length..]))
            }
            _ => None,
        };
        // Only pairs of requests and responses need them.
        let paired = |id: Option<&[u8]>| id.filter(|_| options.post_append).map(<[u8]>::to_vec);
        let stored = &file[unit.offset as usize..(unit.offset + unit.length) as usize];
        Ok(Entry {
            is_included,
            kind: kind.to_vec(),
            uri: uri.map(|uri| uri.into_owned()),
            timestamp,
            mime,
            status,
            digest,
            offset: unit.offset,
            length: unit.length,
            record_digest: (options.digest && is_included)
                .then(|| format!("sha256:{}", hex(&Sha256::digest(stored)))),
            id: paired(record.id()),
            concurrent_to: paired(record.concurrent_to()),
            request,
            query: None,
            is_response: false,
        })
    }

    /// Appends the line.
    pub(super) fn push_line(
        &self,
        file: &str,
        canonicalizer: &mut Canonicalizer,
        out: &mut Vec<u8>,
    ) {
        let uri = self.uri.as_deref();
        let appended;
        let keyed = match (&self.query, uri) {
            (Some(query), Some(uri)) => {
                appended = query.appended_to(uri);
                &appended[..]
            }
            (_, Some(uri)) => uri,
            (_, None) => "",
        };
        let start = out.len();
        if keyed.is_empty() {
            out.push(b'-');
        } else if canonicalizer.canonicalize(keyed.as_bytes(), out).is_err() {
            out.extend_from_slice(keyed.as_bytes());
        }
        // Whatever a URI without a SURT contains, the key is one column.
        if out[start..].iter().any(u8::is_ascii_whitespace) {
            let key = out.split_off(start);
            for byte in key {
                match byte.is_ascii_whitespace() {
                    true => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                    false => out.push(byte),
                }
            }
        }
        // Nor is it taken for a header or for JSON.
        if let Some(first @ (b'!' | b'{')) = out.get(start).copied() {
            out.splice(start..=start, format!("%{first:02x}").into_bytes());
        }
        out.push(b' ');
        out.extend_from_slice(self.timestamp.as_bytes());
        out.extend_from_slice(b" {");
        let (length, offset) = (self.length.to_string(), self.offset.to_string());
        let mut is_first = true;
        for (name, value) in [
            ("url", uri),
            ("mime", self.mime.as_deref()),
            ("status", self.status.as_deref()),
            ("digest", self.digest.as_deref()),
            ("length", Some(&length[..])),
            ("offset", Some(&offset[..])),
            ("filename", Some(file)),
            ("recordDigest", self.record_digest.as_deref()),
        ] {
            if let Some(value) = value {
                push_member(name, value, &mut is_first, out);
            }
        }
        if let Some(query) = self.query.as_ref().filter(|_| self.is_response) {
            match &query.body {
                Some(body) => push_member("requestBody", body, &mut is_first, out),
                None => out.extend_from_slice(b", \"requestBody\": null"),
            }
            push_member(
                "method",
                &query.method.to_ascii_uppercase(),
                &mut is_first,
                out,
            );
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Whether more than the heads of a record is needed for the index.
pub(super) fn needs_body(record: &Record<'_>, options: &Options) -> bool {
    let kind = record.kind().unwrap_or_default();
    let is_digested = options.records.includes(record)
        && record.digest().is_none()
        && !matches!(kind, b"warcinfo" | b"revisit");
    is_digested || options.post_append && kind == b"request"
}

fn push_member(name: &str, value: &str, is_first: &mut bool, out: &mut Vec<u8>) {
    if !*is_first {
        out.extend_from_slice(b", ");
    }
    *is_first = false;
    push_json(name, out);
    out.extend_from_slice(b": ");
    push_json(value, out);
}

/// A media type without its parameters.
fn essence(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|byte| *byte == b';' || byte.is_ascii_whitespace());
    decoded(&value[..end.unwrap_or(value.len())]).into_owned()
}

/// The SHA-1 of what follows the HTTP headers.
fn payload_digest(
    record: &Record<'_>,
    unit: &Unit<'_>,
    file: &[u8],
    http_length: usize,
) -> Result<String, DamageKind> {
    let mut sha1 = Sha1::new();
    if record.content.len() as u64 == record.length {
        sha1.update(&record.content[http_length..]);
    } else {
        let mut left = record.length - http_length as u64;
        read_again(file, unit, record.start + http_length, |bytes| {
            let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            sha1.update(&bytes[..length]);
            left -= length as u64;
        })
        .map_err(|_| DamageKind::Corrupt)?;
    }
    Ok(format!("sha1:{}", base32(&sha1.finalize())))
}

/// Brings a request and its response together. They follow each other, and the second names the
/// first.
#[derive(Default)]
pub(super) struct Pairs {
    before: Option<Entry>,
}

impl Pairs {
    /// Adds a record; returns those that are complete.
    pub(super) fn push(&mut self, mut entry: Entry) -> [Option<Entry>; 2] {
        let Some(mut before) = self.before.take() else {
            self.before = Some(entry);
            return [None, None];
        };
        let is_pair = before.uri == entry.uri && entry.concurrent_to == before.id;
        let (request, response) = match (&before.kind[..], &entry.kind[..]) {
            (b"request", b"response") if is_pair => (&mut before, &mut entry),
            (b"response", b"request") if is_pair => (&mut entry, &mut before),
            _ => {
                self.before = Some(entry);
                return [Some(before), None];
            }
        };
        if let Some(query) = request.request.take().and_then(post::Request::into_query) {
            response.query = Some(query.clone());
            response.is_response = true;
            request.query = Some(query);
        }
        [Some(before), Some(entry)]
    }

    /// The last record.
    pub(super) fn finish(&mut self) -> Option<Entry> {
        self.before.take()
    }
}
