//! Links (RFC 8288), as in `Link` headers and link-format documents.
//!
//! Reading accepts what archives send: line breaks, empty elements, values without quotes, spaces
//! around `=`, commas and semicolons inside URIs and quotes. What cannot be read is skipped up to the
//! next link.

use std::fmt::{self, Write as _};

use memchr::{memchr, memchr2};

use crate::{Error, ErrorKind};

/// A URI and what is said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The URI between `<` and `>`, which may be relative.
    pub uri: String,
    /// Parameters in their order, without quotes: `rel`, `datetime`, `type`, ….
    pub parameters: Vec<(String, String)>,
    /// The offset of `<`, if the link was read.
    pub offset: usize,
}

impl Link {
    /// A link to a URI.
    pub fn new(uri: impl Into<String>) -> Link {
        Link {
            uri: uri.into(),
            ..Link::default()
        }
    }

    /// The link with another parameter.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Link {
        self.parameters.push((name.to_owned(), value.into()));
        self
    }

    /// The value of a parameter: the first of that name, in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| &value[..])
    }

    /// The relation types.
    pub fn relations(&self) -> impl Iterator<Item = &str> {
        self.get("rel").unwrap_or_default().split_ascii_whitespace()
    }

    /// Whether the link has a relation type, in any case.
    pub fn has_relation(&self, relation: &str) -> bool {
        self.relations()
            .any(|known| known.eq_ignore_ascii_case(relation))
    }
}

impl fmt::Display for Link {
    /// As RFC 8288 says: every value in quotes. Bytes that a URI cannot have are percent-encoded;
    /// control characters in values, which could end a header, become spaces. Parameters whose
    /// names are not tokens are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('<')?;
        for &byte in self.uri.as_bytes() {
            match byte {
                b'<' | b'>' | b'"' | 0..=b' ' | 0x7F.. => write!(f, "%{byte:02X}")?,
                _ => f.write_char(byte as char)?,
            }
        }
        f.write_char('>')?;
        for (name, value) in self.parameters.iter().filter(|(name, _)| is_token(name)) {
            write!(f, "; {name}=\"")?;
            for c in value.chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    c if c.is_control() => f.write_char(' ')?,
                    c => f.write_char(c)?,
                }
            }
            f.write_char('"')?;
        }
        Ok(())
    }
}

/// The links of a `Link` header or a link-format document, one at a time. An error stands for a
/// link that was skipped.
///
/// ```
/// let header = b"<http://a.example/>; rel=\"original\", <http://b.example/?x=1,2;y>; rel=timegate";
/// let links: Result<Vec<_>, _> = waypost_memento::links(header).collect();
/// assert_eq!(links?[1].uri, "http://b.example/?x=1,2;y");
/// # Ok::<(), waypost_memento::Error>(())
/// ```
pub fn links(text: &[u8]) -> Links<'_> {
    Links { text, at: 0 }
}

/// Iterator of [`links`].
#[derive(Clone, Debug)]
pub struct Links<'a> {
    text: &'a [u8],
    at: usize,
}

impl Iterator for Links<'_> {
    type Item = Result<Link, Error>;

    fn next(&mut self) -> Option<Result<Link, Error>> {
        while self.peek()? == b',' {
            self.at += 1;
        }
        let start = self.at;
        let result = self.link();
        if result.is_err() {
            self.skip_to_next_link(start);
        }
        Some(result)
    }
}

impl Links<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += space.count();
        self.text.get(self.at).copied()
    }

    fn error<T>(&self, kind: ErrorKind, offset: usize) -> Result<T, Error> {
        Err(Error::new(kind, offset))
    }

    fn link(&mut self) -> Result<Link, Error> {
        let offset = self.at;
        if self.text[offset] != b'<' {
            return self.error(ErrorKind::ExpectedUri, offset);
        }
        let rest = &self.text[offset + 1..];
        // A `<` before the `>` starts another link.
        let length = match memchr2(b'>', b'<', rest) {
            Some(end) if rest[end] == b'>' => end,
            _ => return self.error(ErrorKind::UnclosedUri, offset),
        };
        let mut link = Link {
            uri: text(rest[..length].trim_ascii()),
            parameters: Vec::new(),
            offset,
        };
        self.at = offset + 1 + length + 1;
        loop {
            match self.peek() {
                None | Some(b',') => return Ok(link),
                Some(b';') => self.at += 1,
                Some(_) => return self.error(ErrorKind::ExpectedSeparator, self.at),
            }
            if !matches!(self.peek(), None | Some(b',' | b';')) {
                link.parameters.push(self.parameter()?);
            }
        }
    }

    fn parameter(&mut self) -> Result<(String, String), Error> {
        let rest = &self.text[self.at..];
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'=' | b';' | b',') || byte.is_ascii_whitespace())
            .unwrap_or(rest.len());
        let name = text(&rest[..end]);
        self.at += end;
        if self.peek() != Some(b'=') {
            return Ok((name, String::new()));
        }
        self.at += 1;
        let value = match self.peek() {
            Some(b'"') => self.quoted()?,
            _ => self.unquoted(),
        };
        Ok((name, value))
    }

    fn quoted(&mut self) -> Result<String, Error> {
        let mut value = Vec::new();
        let mut at = self.at + 1;
        loop {
            let Some(next) = memchr2(b'"', b'\\', &self.text[at..]) else {
                return self.error(ErrorKind::UnclosedQuote, self.at);
            };
            value.extend_from_slice(&self.text[at..at + next]);
            at += next + 1;
            if self.text[at - 1] == b'"' {
                self.at = at;
                return Ok(text(&value));
            }
            if let Some(&escaped) = self.text.get(at) {
                value.push(escaped);
                at += 1;
            }
        }
    }

    /// A value without quotes ends at a semicolon, or at a comma before the next link: some archives
    /// leave out the quotes around dates.
    fn unquoted(&mut self) -> String {
        let start = self.at;
        let mut at = start;
        while let Some(found) = memchr2(b';', b',', &self.text[at..]) {
            at += found;
            if self.text[at] == b';' || is_before_link(&self.text[at + 1..]) {
                break;
            }
            at += 1;
        }
        let ended = self
            .text
            .get(at)
            .is_some_and(|byte| matches!(byte, b';' | b','));
        let end = if ended { at } else { self.text.len() };
        self.at = end;
        text(self.text[start..end].trim_ascii())
    }

    /// Skips to the comma or line break before the next `<`.
    fn skip_to_next_link(&mut self, start: usize) {
        let mut at = start + 1;
        while let Some(found) = memchr(b'<', &self.text[at..]) {
            at += found;
            let before = self.text[..at].trim_ascii_end();
            let is_on_new_line = self.text[before.len()..at].contains(&b'\n');
            if at > start && (before.ends_with(b",") || is_on_new_line) {
                self.at = at;
                return;
            }
            at += 1;
        }
        self.at = self.text.len();
    }
}

/// Whether a text may be the name of a parameter.
fn is_token(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~*%'".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

fn is_before_link(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    rest.is_empty() || rest.starts_with(b"<") || rest.starts_with(b",")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<Link, Error>> {
        links(text.as_bytes())
            .map(|link| link.map(|link| Link { offset: 0, ..link }))
            .collect()
    }

    fn one(text: &str) -> Link {
        let mut links = read(text);
        assert_eq!(links.len(), 1, "{links:?}");
        links.remove(0).unwrap()
    }

    #[test]
    fn what_archives_send_is_read() {
        let memento = Link::new("http://a/")
            .with("rel", "first memento")
            .with("datetime", "Fri, 01 Jan 2010 00:00:00 GMT");
        for text in [
            r#"<http://a/>; rel="first memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT""#,
            r#",, < http://a/ > ;rel = "first memento";; datetime= "Fri, 01 Jan 2010 00:00:00 GMT" , "#,
            "<http://a/>;rel=first memento;datetime=Fri, 01 Jan 2010 00:00:00 GMT,",
            "<http://a/>\n;\nrel=\"first memento\"\r\n; datetime=\"Fri, 01 Jan 2010 00:00:00 GMT\";",
            r#"<http://a/>; rel="first \memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT""#,
        ] {
            assert_eq!(one(text), memento, "{text}");
        }
        assert_eq!(one("<>"), Link::new(""));
        assert_eq!(
            one("<a>; crossorigin; x="),
            Link::new("a").with("crossorigin", "").with("x", "")
        );
        assert!(one(r#"<a>; REL="x Memento""#).has_relation("memento"));
        assert!(!one(r#"<a>; rel="http://x/memento""#).has_relation("memento"));
    }

    #[test]
    fn a_broken_link_is_skipped_and_named() {
        for (text, kind, offset) in [
            ("http://x; rel=y,\n", ErrorKind::ExpectedUri, 0),
            ("<http://x; rel=\"y\",\n", ErrorKind::UnclosedUri, 0),
            ("<x> rel=\"y\", ", ErrorKind::ExpectedSeparator, 4),
            ("<x>; rel=\"y\" z,", ErrorKind::ExpectedSeparator, 13),
        ] {
            let links = read(&format!("{text}<b>; rel=\"z\""));
            assert_eq!(links[0], Err(Error::new(kind, offset)), "{text}");
            assert_eq!(links[1..], [Ok(Link::new("b").with("rel", "z"))], "{text}");
        }
        let links = read("<x>; rel=\"y,\n<b>; rel=z");
        assert_eq!(links[0], Err(Error::new(ErrorKind::UnclosedQuote, 9)));
        assert_eq!(links[1..], [Ok(Link::new("b").with("rel", "z"))]);
    }

    #[test]
    fn what_is_written_cannot_end_a_header() {
        let link = Link::new("http://a/<\"é\r\n").with("title", "a\"\\\r\nSet-Cookie: x");
        assert_eq!(
            link.to_string(),
            r#"<http://a/%3C%22%C3%A9%0D%0A>; title="a\"\\  Set-Cookie: x""#
        );
    }
}
