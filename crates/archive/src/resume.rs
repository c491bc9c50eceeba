//! Where a query that was cut off continues.
//!
//! The Wayback Machine continues at the next second, which loses the other captures of the same
//! second. Our keys also say how many captures with the same key and timestamp were returned.

use waypost_index::timestamp::is_timestamp;

/// The position after the last row that a client has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The start of the next line: `key timestamp`.
    pub line: Vec<u8>,
    /// How many lines that start so the client already has.
    pub skip: u64,
}

impl Resume {
    /// Parses `key timestamp` or `key timestamp count`.
    pub fn parse(text: &[u8]) -> Option<Resume> {
        let mut words = text.split(|&byte| byte == b' ');
        let (key, timestamp) = (words.next()?, words.next()?);
        let skip = match words.next() {
            Some(count) => std::str::from_utf8(count).ok()?.parse().ok()?,
            None => 0,
        };
        let valid = !key.is_empty() && is_timestamp(timestamp) && words.next().is_none();
        valid.then(|| Resume {
            line: [key, b" ", timestamp].concat(),
            skip,
        })
    }

    /// The text that [`parse`](Resume::parse) reads, encoded for a query string.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let count = format!(" {}", self.skip);
        for &byte in self.line.iter().chain(count.as_bytes()) {
            match byte {
                b' ' => text.push('+'),
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                    text.push(byte as char);
                }
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let resume = Resume {
            line: b"com,example)/a?b=%c3 20200101000000".to_vec(),
            skip: 3,
        };
        let query = format!("resumeKey={}", resume.encode());
        let parameters = crate::parameters::Parameters::parse(&query);
        let read = Resume::parse(parameters.bytes("resumeKey").unwrap());
        assert_eq!(read, Some(resume));
        assert_eq!(Resume::parse(b"com,example)/ 20200102").unwrap().skip, 0);
        for bad in [
            &b""[..],
            b"com,example)/",
            b" 2020",
            b"a b",
            b"a 2020 x",
            b"a 2020 1 2",
        ] {
            assert_eq!(Resume::parse(bad), None);
        }
    }
}
