//! URI → SURT.
//!
//! The dialects share their steps (`escape`, `host`, `path`, `query`) and differ in how they split a
//! URI and handle odd hosts. Every step first checks whether it has anything to do, so that a usual URI
//! is read a few times and written once.

mod commoncrawl;
mod escape;
mod host;
mod ia;
mod idna2003;
mod path;
mod plain;
mod query;
mod webrecorder;

use crate::{Dialect, Error};
use commoncrawl::Edition;

pub(crate) use host::without_www;

/// Turns URIs into SURTs under one dialect. Create one and reuse it: its buffers grow to fit, and
/// later URIs allocate only the output.
///
/// ```
/// use waypost_surt::{Canonicalizer, Dialect};
///
/// let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
/// let mut surt = Vec::new();
/// canonicalizer.canonicalize(b"https://www.Example.com:443/a/../b/?y=2&x=1#top", &mut surt)?;
/// assert_eq!(surt, b"com,example)/b?x=1&y=2");
/// # Ok::<(), waypost_surt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Canonicalizer {
    dialect: Dialect,
    scratch: Scratch,
    plain: plain::Plain,
}

/// Buffers that are reused.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// The URI without its line breaks, if it had any; the UTF-8 text of a host.
    text: Vec<u8>,
    /// The host.
    host: Vec<u8>,
    /// A host, path or query with its escapes decoded.
    unescaped: Vec<u8>,
    /// The same with letters decoded, for dialects that work on text.
    letters: Vec<u8>,
    /// A path with its dots resolved.
    normal: Vec<u8>,
    /// For the conversion of internationalised hosts.
    idna: idna2003::Idna,
    /// The positions of the parameters of a query.
    parameters: Vec<(usize, usize)>,
    /// A SURT to compare with.
    compared: Vec<u8>,
}

impl Canonicalizer {
    /// A canonicaliser of this dialect.
    pub fn new(dialect: Dialect) -> Canonicalizer {
        Canonicalizer {
            dialect,
            scratch: Scratch::default(),
            plain: plain::Plain::new(dialect),
        }
    }

    /// Whether `surt` is the SURT of `uri`. Equivalent to comparing it with the result of
    /// [`canonicalize`](Canonicalizer::canonicalize), but several times faster for most URIs. A URI
    /// without a SURT matches nothing.
    ///
    /// ```
    /// use waypost_surt::{Canonicalizer, Dialect};
    ///
    /// let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    /// assert!(canonicalizer.matches(b"http://www.example.com/A%20b", b"com,example)/a%20b"));
    /// assert!(!canonicalizer.matches(b"http://www.example.com/A%41", b"com,example)/a%41"));
    /// ```
    pub fn matches(&mut self, uri: &[u8], surt: &[u8]) -> bool {
        if let Some(verdict) = self.plain.matches(uri, surt) {
            return verdict;
        }
        let mut computed = std::mem::take(&mut self.scratch.compared);
        computed.clear();
        let matches = self.canonicalize(uri, &mut computed).is_ok() && computed == surt;
        self.scratch.compared = computed;
        matches
    }

    /// Whether `surt` is the SURT of `uri` and both are plain, as most are: a host by name without a port, and
    /// graphic ASCII with nothing to escape. `false` if they are not, even if they match.
    ///
    /// ```
    /// use waypost_surt::{Canonicalizer, Dialect};
    ///
    /// let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    /// assert!(canonicalizer.matches_plainly(b"http://www.example.com/A", b"com,example)/a"));
    /// assert!(!canonicalizer.matches_plainly(b"http://example.com/%41", b"com,example)/a"));
    /// ```
    #[inline]
    pub fn matches_plainly(&mut self, uri: &[u8], surt: &[u8]) -> bool {
        self.plain.matches(uri, surt) == Some(true)
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Appends the SURT of `uri`, which may be any bytes, to `out`. On an error, `out` is unchanged.
    pub fn canonicalize(&mut self, uri: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let result = match self.dialect {
            Dialect::Ia => ia::canonicalize(uri, &mut self.scratch, out),
            Dialect::CommonCrawl => {
                commoncrawl::canonicalize(uri, Edition::Current, &mut self.scratch, out)
            }
            Dialect::CommonCrawlLegacy => {
                commoncrawl::canonicalize(uri, Edition::Legacy, &mut self.scratch, out)
            }
            Dialect::Webrecorder | Dialect::WebrecorderLegacy => {
                let as_form = self.dialect == Dialect::WebrecorderLegacy;
                webrecorder::canonicalize(uri, as_form, &mut self.scratch, out)
            }
        };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

impl Scratch {
    /// Appends the canonical form of a path: escapes decoded, dot segments resolved if it follows a host,
    /// escaped again, lower-cased, without sessions and the last slash.
    fn push_path(&mut self, path: &[u8], behind_host: bool, out: &mut Vec<u8>) {
        let path = unescaped(path, &mut self.unescaped);
        let start = out.len();
        if behind_host {
            let path = path::normalized(path, &mut self.normal);
            escape::escape_lower(path, out);
        } else {
            escape::escape_lower(path, out);
        }
        path::strip(out, start);
    }

    /// Appends `?` and the canonical form of a query, or nothing if nothing is left of it.
    fn push_query(&mut self, query: &[u8], out: &mut Vec<u8>) {
        let query = unescaped(query, &mut self.unescaped);
        out.push(b'?');
        let start = out.len();
        escape::escape_lower(query, out);
        self.finish_query(start, out);
    }

    /// Removes sessions from the query at `start`, sorts the rest, and removes the `?` if nothing is
    /// left.
    fn finish_query(&mut self, start: usize, out: &mut Vec<u8>) {
        query::strip_and_sort(out, start, &mut self.parameters);
        if out.len() == start {
            out.pop();
        }
    }
}

/// `text` with its escapes decoded: itself, or in `buffer` if it has any.
fn unescaped<'a>(text: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memchr(b'%', text).is_none() {
        return text;
    }
    buffer.clear();
    escape::unescape(text, buffer);
    buffer
}
