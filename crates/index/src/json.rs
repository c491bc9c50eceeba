//! A scanner for the JSON of CDXJ lines that stops as soon as it has the requested fields.
//!
//! The objects are flat and their values are short strings, so most of the work is finding quotes.
//! Values are returned raw. Rare cases are left to `serde_json`: it decodes escapes on demand
//! ([`text`]), and checks nested values and unusual numbers when a whole line is checked.

use std::borrow::Cow;

use memchr::memchr;
use serde::de::IgnoredAny;

use crate::structure::{ScalarStrings, Strings};

/// A raw value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// The bytes between the quotes of a string; numbers, literals and nested values as written.
    pub bytes: &'a [u8],
    /// The kind of value.
    pub kind: Kind,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string without escapes: the bytes are the text.
    Text,
    /// A string with escapes: the bytes need decoding.
    Escaped,
    /// A number, `true`, `false` or `null`.
    Word,
    /// An object or an array.
    Nested,
}

/// Whether to continue after a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the next member.
    More,
    /// Stop: all requested members were found.
    Enough,
}

/// The text is not a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// The members of the lines before, in their order.
///
/// All lines of an index were written by the same tool, so the members of a line are nearly always
/// those of the line before. One comparison then recognises the comma, the name, its colon and the
/// quote after it, and what the name means is already known.
#[derive(Clone, Debug)]
pub(crate) struct Order<T> {
    expected: Vec<Expected<T>>,
    /// The most members that are remembered.
    most: usize,
}

/// What precedes a value, from the end of the value before: `, "name": "`.
#[derive(Clone, Copy, Debug)]
struct Expected<T> {
    /// Its first bytes, and which of them there are.
    start: u128,
    mask: u128,
    /// Its last bytes, if there are more.
    end: u128,
    length: usize,
    meaning: T,
}

impl<T> Default for Order<T> {
    /// Remembers nothing.
    fn default() -> Order<T> {
        Order {
            expected: Vec::new(),
            most: 0,
        }
    }
}

impl<T: Copy> Order<T> {
    /// Remembers the members of lines.
    pub(crate) fn remembering() -> Order<T> {
        Order {
            expected: Vec::new(),
            most: 24,
        }
    }

    /// If what is expected after the value before is here: what the name means, and the offset of the
    /// string after its quote.
    #[inline(always)]
    fn find(&self, number: usize, object: &[u8], at: usize) -> Option<(T, usize)> {
        let expected = self.expected.get(number)?;
        let start = object.get(at..)?.first_chunk::<16>()?;
        if (u128::from_le_bytes(*start) ^ expected.start) & expected.mask != 0 {
            return None;
        }
        let after = at + expected.length;
        if expected.length > 16 {
            let end = object.get(..after)?.last_chunk::<16>()?;
            if u128::from_le_bytes(*end) != expected.end {
                return None;
            }
        }
        Some((expected.meaning, after))
    }

    /// Remembers what precedes a value.
    fn learn(&mut self, number: usize, text: &[u8], meaning: T) {
        if number >= self.most || number > self.expected.len() || text.len() > 32 {
            return;
        }
        let (mut start, mut mask) = ([0; 16], [0; 16]);
        let here = text.len().min(16);
        start[..here].copy_from_slice(&text[..here]);
        mask[..here].fill(0xff);
        let expected = Expected {
            start: u128::from_le_bytes(start),
            mask: u128::from_le_bytes(mask),
            end: text.last_chunk().map_or(0, |end| u128::from_le_bytes(*end)),
            length: text.len(),
            meaning,
        };
        match self.expected.get_mut(number) {
            Some(known) => *known = expected,
            None => self.expected.push(expected),
        }
    }
}

/// Visits the members of `object` in order, with the texts of their names. With `whole`, the object is checked to its end even after [`Next::Enough`], and accepted only if
/// `serde_json` would accept it (except that strings may contain bytes that are not UTF-8, which
/// occur in old indexes).
pub fn members<'a>(
    object: &'a [u8],
    whole: bool,
    mut visit: impl FnMut(&[u8], Raw<'a>) -> Next,
) -> Result<(), NotJson> {
    let mut order = Order::default();
    let visit = |name: &'a [u8], raw| visit(&unescaped(name), raw);
    members_in(object, whole, ScalarStrings, &mut order, |name| name, visit)
}

/// The text of a name, or the name as written if its escapes are invalid.
pub(crate) fn unescaped(name: &[u8]) -> Cow<'_, [u8]> {
    match memchr(b'\\', name) {
        None => Cow::Borrowed(name),
        Some(_) => decode(name).map_or(Cow::Borrowed(name), Cow::Owned),
    }
}

/// The same for objects in which `strings` finds strings, and whose members are usually in the same
/// `order`. Instead of the names, what they mean is passed.
#[inline]
pub(crate) fn members_in<'a, T: Copy>(
    object: &'a [u8],
    whole: bool,
    strings: impl Strings,
    order: &mut Order<T>,
    meaning: impl Fn(&'a [u8]) -> T,
    mut visit: impl FnMut(T, Raw<'a>) -> Next,
) -> Result<(), NotJson> {
    let start = space(object, 0);
    if object.get(start) != Some(&b'{') {
        return Err(NotJson);
    }
    // Control characters are invalid inside strings but allowed between tokens. Lines with any are
    // rare enough to be checked twice.
    if whole && strings.has_control(object) {
        slowly(object)?;
    }
    let mut wanted = true;
    let mut number = 0;
    // The end of the value before, or of the opening brace.
    let mut before = start + 1;
    loop {
        let (meant, raw) = match order.find(number, object, before) {
            Some((meant, at)) => {
                let (bytes, kind, after) = string(object, at, strings)?;
                before = after;
                (meant, Raw { bytes, kind })
            }
            None => {
                let mut at = space(object, before);
                match object.get(at) {
                    Some(b'}') => return end(object, at + 1),
                    Some(b',') if number > 0 => at = space(object, at + 1),
                    _ if number > 0 => return Err(NotJson),
                    _ => {}
                }
                if object.get(at) != Some(&b'"') {
                    return Err(NotJson);
                }
                let (name, name_kind, after) = string(object, at + 1, strings)?;
                if whole && name_kind == Kind::Escaped {
                    decode(name)?;
                }
                at = space(object, after);
                if object.get(at) != Some(&b':') {
                    return Err(NotJson);
                }
                at = space(object, at + 1);
                let meant = meaning(name);
                if object.get(at) == Some(&b'"') {
                    order.learn(number, &object[before..=at], meant);
                }
                let (raw, after) = value(object, at, strings)?;
                before = after;
                (meant, raw)
            }
        };
        number += 1;
        if whole && raw.kind != Kind::Text {
            check(raw)?;
        }
        if wanted && visit(meant, raw) == Next::Enough {
            if !whole {
                return Ok(());
            }
            wanted = false;
        }
    }
}

/// Visits the members of a [usual](Strings::usual_object) object, whose members are usually in the same
/// `order`, until there was enough. There is nothing to check.
#[inline(always)]
pub(crate) fn usual_members<'a, T: Copy>(
    object: &'a [u8],
    strings: impl Strings,
    order: &mut Order<T>,
    meaning: impl Fn(&'a [u8]) -> T,
    mut visit: impl FnMut(T, &'a [u8]) -> Next,
) {
    // The end of the value before, or of the opening brace.
    let mut before = 1;
    for number in 0.. {
        let (meant, start) = match order.find(number, object, before) {
            Some(known) => known,
            None => {
                // `"name": "` after a comma and a space, or the brace.
                let name = before + if number == 0 { 1 } else { 3 };
                let Some(end) = strings.next_mark(object, name) else {
                    return;
                };
                let meant = meaning(&object[name..end]);
                order.learn(number, &object[before..end + 4], meant);
                (meant, end + 4)
            }
        };
        let Some(end) = strings.next_mark(object, start) else {
            return;
        };
        if visit(meant, &object[start..end]) == Next::Enough || end + 2 >= object.len() {
            return;
        }
        before = end + 1;
    }
}

/// The text of a value: strings are decoded, numbers and literals are returned as written, and
/// `null` and nested values give `None`.
pub fn text<'a>(raw: Raw<'a>) -> Option<Cow<'a, [u8]>> {
    match raw.kind {
        Kind::Text => Some(Cow::Borrowed(raw.bytes)),
        Kind::Escaped => decode(raw.bytes).ok().map(Cow::Owned),
        Kind::Word if raw.bytes == b"null" => None,
        Kind::Word => Some(Cow::Borrowed(raw.bytes)),
        Kind::Nested => None,
    }
}

#[inline]
fn space(object: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = object.get(at) {
        at += 1;
    }
    at
}

fn end(object: &[u8], at: usize) -> Result<(), NotJson> {
    if space(object, at) == object.len() {
        Ok(())
    } else {
        Err(NotJson)
    }
}

/// The string that starts at `at`, after its opening quote, and the offset after its closing quote.
#[inline(always)]
fn string(
    object: &[u8],
    at: usize,
    strings: impl Strings,
) -> Result<(&[u8], Kind, usize), NotJson> {
    let mut stop = strings.next_mark(object, at).ok_or(NotJson)?;
    if object[stop] == b'"' {
        return Ok((&object[at..stop], Kind::Text, stop + 1));
    }
    loop {
        // A backslash escapes the next byte, whatever it is.
        stop = strings.next_mark(object, stop + 2).ok_or(NotJson)?;
        if object[stop] == b'"' {
            return Ok((&object[at..stop], Kind::Escaped, stop + 1));
        }
    }
}

// Always inlined, and functions that are not return only integers: returned through memory, the kind
// would be stored as a byte and loaded as a word, which stalls the processor at every value.
#[inline(always)]
fn value(object: &[u8], at: usize, strings: impl Strings) -> Result<(Raw<'_>, usize), NotJson> {
    if object.get(at) == Some(&b'"') {
        let (bytes, kind, after) = string(object, at + 1, strings)?;
        return Ok((Raw { bytes, kind }, after));
    }
    let (kind, after) = rare_value(object, at)?;
    let bytes = &object[at..after];
    Ok((Raw { bytes, kind }, after))
}

/// A value other than a string, and the offset of its end.
#[inline(never)]
fn rare_value(object: &[u8], at: usize) -> Result<(Kind, usize), NotJson> {
    if let Some(b'{' | b'[') = object.get(at) {
        return nested(object, at);
    }
    let rest = object.get(at..).ok_or(NotJson)?;
    let len = rest
        .iter()
        .position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n'))
        .filter(|len| *len > 0)
        .ok_or(NotJson)?;
    Ok((Kind::Word, at + len))
}

/// Skips an object or array by counting brackets outside strings.
fn nested(object: &[u8], at: usize) -> Result<(Kind, usize), NotJson> {
    let mut depth = 0usize;
    let mut place = at;
    loop {
        match object.get(place).ok_or(NotJson)? {
            b'"' => {
                place = string(object, place + 1, ScalarStrings)?.2;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        place += 1;
        if depth == 0 {
            return Ok((Kind::Nested, place));
        }
    }
}

/// Whether `serde_json` would accept the value.
fn check(raw: Raw<'_>) -> Result<(), NotJson> {
    let fine = match raw.kind {
        Kind::Text => true,
        Kind::Escaped => decode(raw.bytes).is_ok(),
        Kind::Word => {
            matches!(raw.bytes, b"true" | b"false" | b"null")
                || is_plain_number(raw.bytes)
                || serde_json::from_slice::<serde_json::Number>(raw.bytes).is_ok()
        }
        Kind::Nested => valid(raw.bytes),
    };
    if fine { Ok(()) } else { Err(NotJson) }
}

fn is_plain_number(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_digit) && (bytes[0] != b'0' || bytes.len() == 1)
}

fn slowly(object: &[u8]) -> Result<(), NotJson> {
    if valid(object) { Ok(()) } else { Err(NotJson) }
}

fn valid(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str::<IgnoredAny>(text).is_ok(),
        Err(_) => serde_json::from_str::<IgnoredAny>(&String::from_utf8_lossy(bytes)).is_ok(),
    }
}

/// Decodes the content of a string with escapes. Bytes that are not UTF-8 stay as they are; half of a pair
/// of UTF-16, which Python accepts, becomes a replacement character.
fn decode(bytes: &[u8]) -> Result<Vec<u8>, NotJson> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"u")?.first_chunk::<4>()?;
        let mut digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
        digits.try_fold(0, |unit, digit| Some(unit << 4 | digit? as u16))
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let escaped = *rest.first().ok_or(NotJson)?;
        let simple = match escaped {
            b'"' | b'\\' | b'/' => escaped,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => {
                let first = unit(rest).ok_or(NotJson)?;
                rest = &rest[5..];
                let second = rest.strip_prefix(b"\\").and_then(unit);
                let pair = [first, second.unwrap_or_default()];
                let is_pair = String::from_utf16(&pair).is_ok() && matches!(first, 0xd800..0xdc00);
                let units = &pair[..1 + usize::from(is_pair)];
                text.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
                rest = &rest[6 * usize::from(is_pair)..];
                continue;
            }
        };
        text.push(simple);
        rest = &rest[1..];
    }
    text.extend_from_slice(rest);
    Ok(text)
}

/// Appends a string. Bytes that are not UTF-8 stay as they are, which [`members`] accepts.
pub fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn scan(object: &[u8], whole: bool) -> Result<Pairs, NotJson> {
        let mut pairs = Vec::new();
        members(object, whole, |name, raw| {
            pairs.push((name.to_vec(), text(raw).map(Cow::into_owned)));
            Next::More
        })?;
        Ok(pairs)
    }

    fn pairs(list: &[(&str, Option<&str>)]) -> Pairs {
        list.iter()
            .map(|(name, text)| {
                (
                    name.as_bytes().to_vec(),
                    text.map(|t| t.as_bytes().to_vec()),
                )
            })
            .collect()
    }

    #[test]
    fn strings_numbers_words_and_nested_values_are_told_apart() {
        let line = br#"{"url": "http://a/?x=\"\u00e9", "status":200, "n":null,"o":{"a":["}"]}, "t":true }"#;
        let expected = pairs(&[
            ("url", Some("http://a/?x=\"é")),
            ("status", Some("200")),
            ("n", None),
            ("o", None),
            ("t", Some("true")),
        ]);
        assert_eq!(scan(line, true).unwrap(), expected);
        assert_eq!(scan(line, false).unwrap(), expected);
        assert_eq!(scan(b" {} ", true).unwrap(), Vec::new());
    }

    #[test]
    fn it_stops_when_it_has_enough_unless_all_is_to_be_checked() {
        let line = br#"{"a": "1", "b": broken"#;
        let mut seen = 0;
        let mut visit = |_: &[u8], _: Raw<'_>| {
            seen += 1;
            Next::Enough
        };
        assert_eq!(members(line, false, &mut visit), Ok(()));
        assert_eq!(members(line, true, &mut visit), Err(NotJson));
        assert_eq!(seen, 2);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            "{",
            "}",
            "{}}",
            "[]",
            "{\"a\"}",
            "{\"a\"=\"b\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"b\tc\"}",
            "{\"a\":tru}",
            "{\"a\":[1,]}",
            "{\"a\":\"b\" \"c\":1}",
            "{\"a\":\"\\",
            "{\"a\":\"\\u00g0\"}",
            "{\"a\":\"\\u00\"}",
            "{\"a\\x\":1}",
        ] {
            assert_eq!(scan(bad.as_bytes(), true), Err(NotJson), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn remembered_members_change_nothing(
            lines in prop::collection::vec(
                "\\{(\"(url|mime|mime-detected|a-name-that-is-too-long-to-be-remembered|n\\\\u00e9)\" ?: ?(\"[a-z]{0,20}\"|\"\\\\\"\"|200|null|\\{\\}|x), ?){0,4}\"end\": ?(\"[a-z]{0,30}\"|1)\\}?",
                1..12,
            ),
            whole: bool,
        ) {
            let mut order = Order::remembering();
            for line in &lines {
                let mut found = Pairs::new();
                let read = members_in(line.as_bytes(), whole, ScalarStrings, &mut order, |name| name, |name, raw| {
                    found.push((unescaped(name).into_owned(), text(raw).map(Cow::into_owned)));
                    Next::More
                });
                let expected = scan(line.as_bytes(), whole);
                prop_assert_eq!(read.map(|()| found), expected, "{}", line);
            }
        }
    }

    #[test]
    fn half_a_pair_is_read_as_python_reads_it() {
        let line = br#"{"a": "x\ud83dy", "\ud83d\ude00": "\ud83d\ud83d\ude00", "c": "\ude00"}"#;
        let expected = pairs(&[
            ("a", Some("x\u{fffd}y")),
            ("😀", Some("\u{fffd}😀")),
            ("c", Some("\u{fffd}")),
        ]);
        assert_eq!(scan(line, true).unwrap(), expected);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_let_pass_in_strings() {
        let found = scan(b"{\"url\": \"http://a/\xe9\"}", true).unwrap();
        assert_eq!(found[0].1.as_deref(), Some(&b"http://a/\xe9"[..]));
    }

    /// All members in order, as `serde_json` reads them.
    fn by_serde(text: &str) -> Option<Pairs> {
        struct Members(Pairs);
        impl<'de> serde::Deserialize<'de> for Members {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Members, D::Error> {
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = Members;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Members, A::Error> {
                        let mut out = Vec::new();
                        while let Some((name, value)) =
                            map.next_entry::<String, Box<serde_json::value::RawValue>>()?
                        {
                            let value = match serde_json::from_str(value.get()) {
                                Ok(serde_json::Value::String(text)) => Some(text.into_bytes()),
                                Ok(
                                    serde_json::Value::Null
                                    | serde_json::Value::Array(_)
                                    | serde_json::Value::Object(_),
                                ) => None,
                                _ => Some(value.get().as_bytes().to_vec()),
                            };
                            out.push((name.into_bytes(), value));
                        }
                        Ok(Members(out))
                    }
                }
                d.deserialize_map(Visitor)
            }
        }
        serde_json::from_str::<Members>(text)
            .ok()
            .map(|members| members.0)
    }

    proptest! {
        #[test]
        fn objects_are_read_as_serde_json_reads_them(
            members in proptest::collection::vec(("[a-z-]{1,12}", ".{0,20}", 0u8..6), 0..8)
        ) {
            let escaped = |text: &str| -> String {
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
            };
            let mut text = String::from("{");
            for (i, (name, value, kind)) in members.iter().enumerate() {
                if i > 0 { text.push_str(if *kind == 1 { "," } else { ", " }); }
                let value = match kind {
                    0 => format!("{}", value.len()),
                    1 => serde_json::to_string(&vec![value.as_str()]).unwrap(),
                    2 => "null".to_owned(),
                    5 => format!("\"{}\"", escaped(value)),
                    _ => serde_json::to_string(value).unwrap(),
                };
                let name = if *kind == 5 { escaped(name) } else { name.clone() };
                text.push_str(&format!("\"{name}\": {value}"));
            }
            text.push('}');
            prop_assert_eq!(scan(text.as_bytes(), true).ok(), by_serde(&text));
            prop_assert_eq!(scan(text.as_bytes(), false).ok(), by_serde(&text));
        }

        #[test]
        fn broken_objects_are_refused_as_serde_json_refuses_them(
            text in r#"\{("[ab]": ?("[cd\\"]{0,3}"|[-0-9.e]{1,3}|\[[\],]{0,2}|null|\{\})[,} ]{1,2}){0,3}\}?"#
        ) {
            let ours = scan(text.as_bytes(), true).ok();
            prop_assert_eq!(ours, by_serde(&text), "{}", text);
        }
    }
}
