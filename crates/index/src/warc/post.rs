//! The body of a request as a query, which pywb and cdxj-indexer append to the URL before they make
//! the key of its response.

use std::borrow::Cow;
use std::io::Read;

use memchr::memmem;

use super::head::Head;
use super::text::{base64, decoded, form_decoded, push_form};

/// A query is cut after this many characters.
const LONGEST_QUERY: usize = 4096;
/// How much is read of a body whose length is unknown.
const UNKNOWN_LENGTH: usize = 8192;
/// What a compressed body may inflate to.
const LARGEST_BODY: u64 = 16 << 20;
/// How deep JSON may be nested.
const DEEPEST: usize = 400;

/// The parts of a request that are needed.
pub(super) struct Request {
    method: String,
    mime: String,
    body: Option<Vec<u8>>,
}

/// What is appended to the URL of a request.
#[derive(Clone)]
pub(super) struct Query {
    pub(super) method: String,
    /// `None` if the length of the body is invalid.
    pub(super) body: Option<String>,
}

impl Query {
    pub(super) fn appended_to(&self, url: &str) -> String {
        let separator = if url.contains('?') { '&' } else { '?' };
        let mut out = format!("{url}{separator}__wb_method={}", self.method);
        if let Some(body) = self.body.as_ref().filter(|body| !body.is_empty()) {
            out.push('&');
            out.push_str(body);
        }
        out
    }
}

impl Request {
    pub(super) fn new(http: &Head<'_>, body: &[u8]) -> Request {
        let method = decoded(http.words().0).into_owned();
        let has_body = matches!(&method.to_ascii_uppercase()[..], "POST" | "PUT");
        let mime = http
            .get("Content-Type")
            .map_or_else(String::new, |mime| decoded(mime).into());
        Request {
            body: has_body.then(|| content(http, body)).flatten(),
            method,
            mime,
        }
    }

    /// The query of a POST or PUT request.
    pub(super) fn into_query(self) -> Option<Query> {
        let is_exact = matches!(&self.method[..], "POST" | "PUT");
        if !matches!(&self.method.to_ascii_uppercase()[..], "POST" | "PUT") {
            return None;
        }
        let body = match (is_exact, self.body) {
            (true, Some(body)) => Some(query(&self.mime, &body)),
            (true, None) => None,
            (false, _) => Some(String::new()),
        };
        Some(Query {
            method: self.method,
            body,
        })
    }
}

/// The body without chunks and compression, as far as its length says. `None` if that is invalid.
fn content(http: &Head<'_>, body: &[u8]) -> Option<Vec<u8>> {
    let length = match http.get("Content-Length") {
        Some(length) => decoded(length).trim().parse().ok()?,
        None => UNKNOWN_LENGTH,
    };
    let mut body = Cow::Borrowed(body);
    if http.get("Transfer-Encoding") == Some(b"chunked") {
        body = dechunked(&body).into();
    }
    let encoding = http.get("Content-Encoding").unwrap_or_default();
    if encoding.eq_ignore_ascii_case(b"gzip") {
        let mut inflated = Vec::new();
        let stream = flate2::read::MultiGzDecoder::new(&body[..]);
        // What can be inflated of a damaged body counts.
        let _ = stream.take(LARGEST_BODY).read_to_end(&mut inflated);
        if !inflated.is_empty() {
            body = inflated.into();
        }
    }
    Some(body[..body.len().min(length)].to_vec())
}

fn dechunked(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    while let Some(end) = memmem::find(rest, b"\r\n") {
        let size = decoded(&rest[..end]);
        let size = size.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else {
            break;
        };
        let start = end + 2;
        let stop = start.saturating_add(size).min(rest.len());
        if size == 0 || start > rest.len() {
            return out;
        }
        out.extend_from_slice(&rest[start..stop]);
        rest = rest.get(stop + 2..).unwrap_or_default();
    }
    if out.is_empty() { body.to_vec() } else { out }
}

/// A body as a query, by its media type.
fn query(mime: &str, body: &[u8]) -> String {
    let binary = || format!("__wb_post_data={}", base64(body));
    let query = if body.is_empty() {
        String::new()
    } else if mime.starts_with("application/x-www-form-urlencoded") {
        std::str::from_utf8(body).map_or_else(|_| binary(), form_decoded)
    } else if mime.starts_with("multipart/") {
        multipart(mime, body).unwrap_or_else(binary)
    } else if mime.starts_with("application/json") {
        json(body).unwrap_or_default()
    } else if mime.starts_with("text/plain") {
        json(body).unwrap_or_else(binary)
    } else {
        binary()
    };
    match query.char_indices().nth(LONGEST_QUERY) {
        Some((end, _)) => query[..end].to_owned(),
        None => query,
    }
}

fn push_pair(name: &[u8], value: &[u8], out: &mut String) {
    if !out.is_empty() {
        out.push('&');
    }
    push_form(name, out);
    out.push('=');
    push_form(value, out);
}

/// The fields of a form in parts. `None` without a boundary.
fn multipart(mime: &str, body: &[u8]) -> Option<String> {
    let boundary = mime.split("boundary=").nth(1)?;
    let boundary = boundary.split(';').next()?.trim().trim_matches('"');
    let delimiter = format!("--{boundary}");
    let mut out = String::new();
    let starts: Vec<usize> = memmem::find_iter(body, delimiter.as_bytes()).collect();
    for (place, &start) in starts.iter().enumerate() {
        let start = start + delimiter.len();
        let end = starts.get(place + 1).copied().unwrap_or(body.len());
        let part = &body[start..end];
        if part.starts_with(b"--") {
            break;
        }
        let part = part
            .strip_prefix(b"\r\n")
            .or(part.strip_prefix(b"\n"))
            .unwrap_or(part);
        // A head needs a first line.
        let with_first = [b"part\r\n", part].concat();
        let head = Head::parse(&with_first);
        let Some(name) = head.get("Content-Disposition").and_then(name_of) else {
            continue;
        };
        let value = &with_first[head.length..];
        let value = value
            .strip_suffix(b"\r\n")
            .or(value.strip_suffix(b"\n"))
            .unwrap_or(value);
        push_pair(&name, value, &mut out);
    }
    Some(out)
}

/// `form-data; name="a"` → `a`.
fn name_of(disposition: &[u8]) -> Option<Vec<u8>> {
    let at = memmem::find_iter(disposition, b"name=")
        .find(|&at| at == 0 || matches!(disposition[at - 1], b' ' | b';' | b'\t'))?;
    let value = &disposition[at + 5..];
    match value.strip_prefix(b"\"") {
        None => Some(
            value
                .split(|&byte| byte == b';')
                .next()?
                .trim_ascii()
                .to_vec(),
        ),
        Some(quoted) => {
            let mut name = Vec::new();
            let mut bytes = quoted.iter();
            while let Some(&byte) = bytes.next() {
                match byte {
                    b'"' => break,
                    b'\\' => name.extend(bytes.next()),
                    byte => name.push(byte),
                }
            }
            Some(name)
        }
    }
}

/// The leaves of JSON, or of a document a line, as a query. `None` if it is invalid.
fn json(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)).ok()?;
    let mut leaves = Leaves::default();
    if let Some(value) = Json::parse(text) {
        leaves.add(&value, "")?;
    } else if text.contains('\n') {
        for line in text.split('\n') {
            leaves.add(&Json::parse(line)?, "")?;
        }
    } else {
        return None;
    }
    let mut out = String::new();
    for (name, value) in &leaves.leaves {
        push_pair(name.as_bytes(), value.as_bytes(), &mut out);
    }
    Some(out)
}

/// Names and values of leaves. A name that comes again gets a number.
#[derive(Default)]
struct Leaves {
    leaves: Vec<(String, String)>,
    places: std::collections::HashMap<String, usize>,
    repeats: std::collections::HashMap<String, usize>,
}

impl Leaves {
    /// `None` if a number has no text.
    fn add(&mut self, value: &Json<'_>, name: &str) -> Option<()> {
        match value {
            Json::Object(members) => {
                for (name, value) in members {
                    self.add(value, name)?;
                }
            }
            Json::Array(values) => {
                for value in values {
                    self.add(value, name)?;
                }
            }
            Json::Text(text) if !name.is_empty() => self.push(name, text.clone()),
            Json::Word(word) if !name.is_empty() => self.push(name, word_text(word)?),
            _ => {}
        }
        Some(())
    }

    fn push(&mut self, name: &str, value: String) {
        let mut name = name.to_owned();
        if self.places.contains_key(&name) {
            let count = self.repeats.entry(name.clone()).or_insert(1);
            *count += 1;
            name = format!("{name}.{count}_");
        }
        // A number may make a name that is there already: its value is replaced.
        match self.places.get(&name) {
            Some(&place) => self.leaves[place].1 = value,
            None => {
                self.places.insert(name.clone(), self.leaves.len());
                self.leaves.push((name, value));
            }
        }
    }
}

/// A number or literal as pywb writes it: as JavaScript does.
fn word_text(word: &str) -> Option<String> {
    if matches!(word, "true" | "false" | "null") {
        return Some(word.to_owned());
    }
    if !word.contains(['.', 'e', 'E']) {
        return Some(if word == "-0" {
            "0".to_owned()
        } else {
            word.to_owned()
        });
    }
    let number: f64 = word.parse().ok()?;
    if !number.is_finite() {
        return None;
    }
    if number.fract() == 0.0 {
        let text = format!("{number:.0}");
        return Some(if text == "-0" { "0".to_owned() } else { text });
    }
    if number.abs() >= 1e-4 {
        return Some(number.to_string());
    }
    // Python writes small numbers with an exponent of two digits.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once("e-")?;
    Some(format!("{digits}e-{exponent:0>2}"))
}

/// JSON as Python reads it: members keep their order, of equal names the last value counts, numbers
/// keep their digits.
enum Json<'a> {
    Object(Vec<(String, Json<'a>)>),
    Array(Vec<Json<'a>>),
    Text(String),
    Word(&'a str),
}

impl<'a> Json<'a> {
    fn parse(text: &'a str) -> Option<Json<'a>> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.peek().is_none().then_some(value)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(is_space).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Json<'a>> {
        if depth > DEEPEST {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Json::Text),
            _ => self.word().map(Json::Word),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json<'a>> {
        let mut members: Vec<(String, Json<'a>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(Json::Object(members));
        }
        loop {
            self.peek().filter(|byte| *byte == b'"')?;
            let name = self.string()?;
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            match places.get(&name) {
                Some(&place) => {
                    let member: &mut (String, Json<'a>) = &mut members[place];
                    member.1 = value;
                }
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                }
            }
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(Json::Object(members));
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json<'a>> {
        let mut values = Vec::new();
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(Json::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(Json::Array(values));
                }
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', &bytes[at..])?;
            if bytes[at] == b'"' {
                break;
            }
            at += 2;
            if at > bytes.len() {
                return None;
            }
        }
        self.at = at + 1;
        serde_json::from_str(&self.text[start..=at]).ok()
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-')))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        // The grammar of numbers is checked elsewhere.
        serde_json::from_str::<&serde_json::value::RawValue>(word).ok()?;
        self.at += end;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_become_queries() {
        for (mime, body, expected) in [
            (
                "application/x-www-form-urlencoded",
                "a=b+c&d=%C3%A9",
                "a=b c&d=é",
            ),
            (
                "application/json",
                r#"{"a": {"b": 1, "c": [true, null, 4.0]}, "b": "x y"}"#,
                "b=1&c=true&c.2_=null&c.3_=4&b.2_=x+y",
            ),
            (
                "application/json",
                r#"{"a": 1, "a": 2e-7, "b": 123456789012345678901234567890}"#,
                "a=2e-07&b=123456789012345678901234567890",
            ),
            (
                "application/json",
                "{\"a\": 1}\n{\"a\": 2.50}",
                "a=1&a.2_=2.5",
            ),
            ("application/json", "{", ""),
            ("application/json", "[1, 2]", ""),
            ("text/plain", "abc", "__wb_post_data=YWJj"),
            ("text/plain", r#"{"a": "b"}"#, "a=b"),
            ("image/png", "\u{1}", "__wb_post_data=AQ=="),
            (
                "multipart/form-data; boundary=xx",
                "==xx\r\nContent-Disposition: form-data; name=\"a b\"\r\n\r\n1\r\n2\r\n==xx\r\nContent-Disposition: form-data; name=f; filename=\"x\"\r\nContent-Type: image/png\r\n\r\n\u{1}\r\n==xx==\r\n",
                "a+b=1%0D%0A2&f=%01",
            ),
            ("multipart/form-data", "a", "__wb_post_data=YQ=="),
        ] {
            let body = body.replace("==", "--");
            assert_eq!(query(mime, body.as_bytes()), expected, "{mime} {body}");
        }
        assert_eq!(query("x", &[0; 9000]).len(), LONGEST_QUERY);
        let deep = "[".repeat(100_000);
        assert_eq!(query("application/json", deep.as_bytes()), "");
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(dechunked(b"3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n"), b"abcde");
        assert_eq!(dechunked(b"not chunked"), b"not chunked");
        assert_eq!(dechunked(b"ff\r\nabc"), b"abc");
    }
}
