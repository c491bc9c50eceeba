//! Heads of records and of HTTP messages: a first line and fields, as warcio parses them.

use std::borrow::Cow;

use memchr::memchr;

/// A first line and the fields below it.
#[derive(Debug, Default)]
pub(super) struct Head<'a> {
    /// The first line, without white space at its end.
    pub(super) first: &'a [u8],
    fields: Vec<(&'a [u8], Cow<'a, [u8]>)>,
    /// The length up to and with the empty line.
    pub(super) length: usize,
}

impl<'a> Head<'a> {
    /// Parses up to an empty line or the end. A line that starts with white space continues the
    /// field before it; a line without a colon is ignored.
    pub(super) fn parse(bytes: &'a [u8]) -> Head<'a> {
        let mut lines = Lines { bytes, at: 0 };
        let mut head = Head {
            first: lines.next().unwrap_or_default(),
            // Usually enough.
            fields: Vec::with_capacity(16),
            length: 0,
        };
        // An empty first line is all there is.
        if !head.first.is_empty() {
            let mut in_field = false;
            while let Some(line) = lines.next().filter(|line| !line.is_empty()) {
                if matches!(line[0], b' ' | b'\t') {
                    if let Some((_, value)) = head.fields.last_mut().filter(|_| in_field) {
                        value.to_mut().extend_from_slice(line);
                    }
                    continue;
                }
                in_field = false;
                if let Some(colon) = memchr(b':', line) {
                    let name = line[..colon].trim_ascii_end();
                    head.fields
                        .push((name, line[colon + 1..].trim_ascii_start().into()));
                    in_field = true;
                }
            }
        }
        head.length = lines.at;
        head
    }

    /// The value of the first field of a name, in any case.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        fields
            .find(|(known, _)| {
                known.len() == name.len() && known.eq_ignore_ascii_case(name.as_bytes())
            })
            .map(|(_, value)| &value[..])
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.fields.is_empty()
    }

    /// The first line up to the first space, and the word behind it.
    pub(super) fn words(&self) -> (&[u8], &[u8]) {
        let space = memchr(b' ', self.first).unwrap_or(self.first.len());
        let rest = self.first[space..].trim_ascii();
        let end = memchr(b' ', rest).unwrap_or(rest.len());
        (&self.first[..space], &rest[..end])
    }
}

/// Lines without white space at their ends.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        self.at += length;
        Some(rest[..length].trim_ascii_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_any_case_and_continued() {
        let bytes = b"HTTP/1.1  200 OK\r\nA : 1\r\n b\r\nnonsense\r\nB:2\r\na: 3\r\n\r\nbody";
        let head = Head::parse(bytes);
        assert_eq!(head.words(), (&b"HTTP/1.1"[..], &b"200"[..]));
        assert_eq!(head.get("a"), Some(&b"1 b"[..]));
        assert_eq!(head.get("B"), Some(&b"2"[..]));
        assert_eq!(&bytes[head.length..], b"body");
    }

    #[test]
    fn an_empty_first_line_ends_the_head() {
        let head = Head::parse(b"\r\nA: 1\r\n\r\n");
        assert!(head.is_empty());
        assert_eq!(head.length, 2);
        assert!(Head::parse(b"").is_empty());
    }
}
