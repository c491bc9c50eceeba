//! The lengths of URIs and of their parts.

use waypost_io::Result;
use waypost_io::partial::{Decoder, Encoder};

/// Sums over some URIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UriStats {
    /// URIs.
    pub count: u64,
    /// Bytes of all of them.
    pub total: u64,
    /// Bytes of the schemes.
    pub scheme: u64,
    /// Bytes of hosts and ports.
    pub host: u64,
    /// Bytes of the paths.
    pub path: u64,
    /// Bytes of the queries.
    pub query: u64,
    /// URIs with a path that is not empty.
    pub with_path: u64,
    /// Percent-encoded characters in paths.
    pub path_escapes: u64,
    /// URIs with a query that is not empty.
    pub with_query: u64,
    /// Percent-encoded characters in queries.
    pub query_escapes: u64,
    /// URIs whose host is internationalised (`xn--`).
    pub idna: u64,
}

impl UriStats {
    /// Adds a URI.
    pub fn add(&mut self, uri: &[u8]) {
        let uri = &uri[..memchr::memchr(b'#', uri).unwrap_or(uri.len())];
        let scheme = memchr::memmem::find(uri, b"://");
        let rest = scheme.map_or(uri, |at| &uri[at + 3..]);
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(end);
        let question = memchr::memchr(b'?', rest);
        let path = &rest[..question.unwrap_or(rest.len())];
        let query = question.map_or(&[][..], |at| &rest[at + 1..]);
        self.count += 1;
        self.total += uri.len() as u64;
        self.scheme += scheme.unwrap_or(0) as u64;
        self.host += host.len() as u64;
        self.path += path.len() as u64;
        self.query += query.len() as u64;
        self.with_path += u64::from(!path.is_empty());
        self.with_query += u64::from(!query.is_empty());
        self.path_escapes += escapes(path);
        self.query_escapes += escapes(query);
        let is_idna = host.split(|&byte| byte == b'.').any(|label| {
            label
                .get(..4)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"))
        });
        self.idna += u64::from(is_idna);
    }

    fn fields(&mut self) -> [&mut u64; 11] {
        [
            &mut self.count,
            &mut self.total,
            &mut self.scheme,
            &mut self.host,
            &mut self.path,
            &mut self.query,
            &mut self.with_path,
            &mut self.path_escapes,
            &mut self.with_query,
            &mut self.query_escapes,
            &mut self.idna,
        ]
    }

    /// Adds other sums.
    pub fn merge(&mut self, mut other: UriStats) {
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }

    /// Takes away sums that were added.
    pub fn remove(&mut self, mut other: UriStats) {
        for (sum, less) in self.fields().into_iter().zip(other.fields()) {
            *sum = sum.saturating_sub(*less);
        }
    }

    pub(super) fn encode(mut self, out: &mut Encoder) {
        self.fields()
            .into_iter()
            .for_each(|field| out.number(*field));
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<UriStats> {
        let mut stats = UriStats::default();
        for field in stats.fields() {
            *field = from.number()?;
        }
        Ok(stats)
    }
}

/// The number of `%` with two hexadecimal digits.
fn escapes(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'%', text)
        .filter(|at| {
            let digits = text.get(at + 1..at + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        })
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_measured_as_pythons_urlsplit_divides_them() {
        let mut stats = UriStats::default();
        stats.add(b"https://xn--bcher-kva.example:80/a%20b/%zz?q=%C3%A9&x#frag");
        assert_eq!(
            (stats.scheme, stats.host, stats.path, stats.query),
            (5, 24, 10, 10)
        );
        assert_eq!(
            (stats.path_escapes, stats.query_escapes, stats.idna),
            (1, 2, 1)
        );
        assert_eq!(stats.total, 5 + 3 + 24 + 10 + 1 + 10);
        let mut other = UriStats::default();
        other.add(b"http://a.example");
        assert_eq!((other.with_path, other.with_query, other.path), (0, 0, 0));
        stats.merge(other);
        stats.remove(other);
        assert_eq!(stats.count, 1);
    }
}
