//! Lookups, and the canonical spelling of SURTs that holdings and lookups share.
//!
//! A lookup can only find what was put into a summary if both are spelled the same. So every SURT
//! that enters a summary or is looked up in one goes through [`SurtWriter`] (or [`spelled`], if the
//! index already had it as a key): variant forms of a SURT are normalised, and white space and
//! control bytes, which rows can't contain, are percent-encoded. [`Lookup`] has no other
//! constructor.

use std::borrow::Cow;

use waypost_index::key::{KeyForm, completed, usual_form};
use waypost_surt::{Canonicalizer, Dialect, Error, Surt, is_surt};

use crate::filter::{Hash, Hasher};
use crate::map::{HashedKey, hashed_keys};
use crate::scope::{EVERYTHING, Scope};

/// Writes SURTs in the spelling of summaries. Reuse it: after the first few URIs, only the output
/// allocates.
#[derive(Clone, Debug)]
pub struct SurtWriter {
    dialect: Dialect,
    canonicalizer: Canonicalizer,
}

impl SurtWriter {
    /// Canonicalises URIs by the rules of `dialect`.
    pub fn new(dialect: Dialect) -> SurtWriter {
        SurtWriter {
            dialect,
            canonicalizer: Canonicalizer::new(dialect),
        }
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Appends the SURT of a line that contains a URI or a SURT.
    ///
    /// # Errors
    /// If the URI has no SURT; `out` is left unchanged.
    pub fn write(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let line = line.trim_ascii();
        if is_surt(line) {
            self.write_surt(line, out);
            return Ok(());
        }
        let start = out.len();
        let line = completed(self.canonicalizer.dialect(), line);
        self.canonicalizer.canonicalize(&line, out)?;
        spell(out, start);
        Ok(())
    }

    /// The SURT of a line that contains a URI or a SURT, with its hashes: for lookups in many
    /// summaries.
    ///
    /// # Errors
    /// If the URI has no SURT.
    pub fn hashed(&mut self, line: &[u8]) -> Result<HashedSurt, Error> {
        let mut surt = Vec::with_capacity(line.len() + 8);
        self.write(line, &mut surt)?;
        let parsed = Surt::new(&surt);
        let hashes = Hashes {
            whole: Hasher::Public.hash(&surt),
            keys: hashed_keys(&parsed),
        };
        Ok(HashedSurt { surt, hashes })
    }

    /// Appends a string that is known to be a SURT, in the spelling of summaries.
    pub fn write_surt(&mut self, surt: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(surt);
        spell(out, start);
    }
}

/// Normalises the SURT at the end of `out`.
fn spell(out: &mut Vec<u8>, start: usize) {
    if let Cow::Owned(surt) = spelled(&out[start..]) {
        out.truncate(start);
        out.extend_from_slice(&surt);
    }
}

/// A SURT in the spelling of summaries: normalised and percent-encoded.
pub(crate) fn spelled(surt: &[u8]) -> Cow<'_, [u8]> {
    match KeyForm::of(surt).is_surt() {
        true => escaped(surt),
        false => Cow::Owned(escaped(&usual_form(surt)).into_owned()),
    }
}

/// Percent-encodes white space and control bytes, which rows can't contain.
pub(crate) fn escaped(surt: &[u8]) -> Cow<'_, [u8]> {
    if !needs_escapes(surt) {
        return Cow::Borrowed(surt);
    }
    let mut out = Vec::with_capacity(surt.len() + 8);
    for &byte in surt {
        if is_escaped(byte) {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    Cow::Owned(out)
}

#[inline]
fn needs_escapes(surt: &[u8]) -> bool {
    // No early exit, so that the compiler can vectorise the loop.
    surt.iter()
        .fold(false, |found, &byte| found | is_escaped(byte))
}

#[inline]
fn is_escaped(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// A SURT in the spelling of summaries, with the hashes that summaries of any kind need.
#[derive(Clone, Debug)]
pub struct HashedSurt {
    surt: Vec<u8>,
    hashes: Hashes,
}

impl HashedSurt {
    /// A lookup of a URI that has this SURT, which may be repeated in any number of summaries of this
    /// dialect.
    pub fn lookup<'a>(&'a self, uri: &'a [u8]) -> Lookup<'a> {
        Lookup {
            hashes: Some(&self.hashes),
            ..Lookup::spelled(uri, &self.surt)
        }
    }
}

/// The hashes of a SURT.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    /// That of the SURT, for filters without a secret.
    pub(crate) whole: Hash,
    /// Those of the keys that match it, for maps.
    pub(crate) keys: Vec<HashedKey>,
}

/// A URI to look up, with its SURT in the spelling of summaries.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    uri: &'a [u8],
    surt: Surt<'a>,
    /// The captures to look for.
    wanted: &'a Scope,
    /// The hashes of the SURT, if they were computed before.
    hashes: Option<&'a Hashes>,
}

impl<'a> Lookup<'a> {
    /// Creates a lookup for a URI or SURT in summaries of one dialect. The SURT is written to
    /// `buffer`. For many lookups, use [`LookupBuffer`].
    ///
    /// # Errors
    /// If the URI has no SURT.
    pub fn new(
        uri: &'a [u8],
        dialect: Dialect,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Lookup<'a>, Error> {
        buffer.clear();
        SurtWriter::new(dialect).write(uri, buffer)?;
        Ok(Lookup::spelled(uri, buffer))
    }

    /// Creates a lookup for a string that is known to be a SURT. [`Lookup::new`] recognises most
    /// SURTs, but takes `com,a/b)/` for a URI because there is no `)` before the first slash.
    pub fn of_surt(surt: &'a [u8], buffer: &'a mut Vec<u8>) -> Lookup<'a> {
        buffer.clear();
        buffer.extend_from_slice(surt);
        spell(buffer, 0);
        Lookup::spelled(surt, buffer)
    }

    /// Creates a lookup whose SURT was written by a [`SurtWriter`].
    pub(crate) fn spelled(uri: &'a [u8], surt: &'a [u8]) -> Lookup<'a> {
        Lookup {
            uri,
            surt: Surt::new(surt),
            wanted: &EVERYTHING,
            hashes: None,
        }
    }

    /// Restricts the lookup to some captures: those of a time, a status or a media type. A summary
    /// whose scope does not cover all of them can't call the lookup absent.
    #[must_use]
    pub fn wanting(self, wanted: &'a Scope) -> Lookup<'a> {
        Lookup { wanted, ..self }
    }

    /// The captures to look for.
    pub fn wanted(&self) -> &'a Scope {
        self.wanted
    }

    pub(crate) fn hashes(&self) -> Option<&'a Hashes> {
        self.hashes
    }

    /// The URI or SURT as given.
    pub fn uri(&self) -> &'a [u8] {
        self.uri
    }

    /// The SURT.
    pub fn surt(&self) -> &Surt<'a> {
        &self.surt
    }
}

/// A buffer for the SURTs of many lookups. Reuse it: there is no allocation per lookup.
#[derive(Clone, Debug)]
pub struct LookupBuffer {
    writer: SurtWriter,
    bytes: Vec<u8>,
    /// The end of each SURT.
    ends: Vec<Result<usize, Error>>,
}

impl LookupBuffer {
    /// Creates a buffer for lookups in summaries of one dialect.
    pub fn new(dialect: Dialect) -> LookupBuffer {
        LookupBuffer {
            writer: SurtWriter::new(dialect),
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Clears the buffer and reads these lines, each a URI or a SURT.
    pub fn fill<'a>(&'a mut self, uris: &'a [&'a [u8]]) -> LookupBatch<'a> {
        self.bytes.clear();
        self.ends.clear();
        for uri in uris {
            let written = self.writer.write(uri, &mut self.bytes);
            self.ends.push(written.map(|()| self.bytes.len()));
        }
        LookupBatch {
            uris,
            bytes: &self.bytes,
            ends: &self.ends,
            wanted: &EVERYTHING,
        }
    }
}

/// Many lookups, with the SURTs of those that have one.
#[derive(Clone, Copy, Debug)]
pub struct LookupBatch<'a> {
    uris: &'a [&'a [u8]],
    bytes: &'a [u8],
    ends: &'a [Result<usize, Error>],
    wanted: &'a Scope,
}

impl<'a> LookupBatch<'a> {
    /// Restricts all lookups to [some captures](Lookup::wanting).
    #[must_use]
    pub fn wanting(self, wanted: &'a Scope) -> LookupBatch<'a> {
        LookupBatch { wanted, ..self }
    }

    /// Each line in order, with its lookup or the reason why it has no SURT.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], Result<Lookup<'a>, Error>)> {
        let mut start = 0;
        self.uris.iter().zip(self.ends).map(move |(&uri, end)| {
            let lookup = end.map(|end| {
                let surt = &self.bytes[std::mem::replace(&mut start, end)..end];
                Lookup::spelled(uri, surt).wanting(self.wanted)
            });
            (uri, lookup)
        })
    }

    /// The lookups that have a SURT, in order.
    pub fn valid(self) -> impl Iterator<Item = Lookup<'a>> {
        self.iter().filter_map(|(_, lookup)| lookup.ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surt(line: &str, dialect: Dialect) -> String {
        let mut buffer = Vec::new();
        let lookup = Lookup::new(line.as_bytes(), dialect, &mut buffer).unwrap();
        String::from_utf8(lookup.surt().as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn lookups_are_spelled_as_rows_are() {
        for (line, dialect, expected) in [
            ("http://a.com/x\x7fy", Dialect::CommonCrawl, "com,a)/x%7fy"),
            ("com,a)/x y\tz", Dialect::Ia, "com,a)/x%20y%09z"),
            (" http://a.com/b \r", Dialect::Ia, "com,a)/b"),
            ("com,a,)/b", Dialect::Ia, "com,a)/b"),
            ("com,,)/b", Dialect::Ia, "com)/b"),
            ("com,a):8080/b", Dialect::Ia, "com,a:8080)/b"),
            ("http://[::1]/a", Dialect::Ia, "::1)/a"),
        ] {
            assert_eq!(surt(line, dialect), expected, "{line:?}");
        }
    }

    #[test]
    fn a_batch_keeps_the_order_and_tells_what_has_no_surt() {
        let uris: [&[u8]; 3] = [b"http://b.com/", b"http://b.com:99999/", b"com,a)/"];
        let mut buffer = LookupBuffer::new(Dialect::Ia);
        let batch = buffer.fill(&uris);
        let surts: Vec<Option<&[u8]>> = batch
            .iter()
            .map(|(_, lookup)| lookup.ok().map(|lookup| lookup.surt().as_bytes()))
            .collect();
        assert_eq!(surts, [Some(&b"com,b)/"[..]), None, Some(b"com,a)/")]);
        assert_eq!(batch.valid().count(), 2);
    }
}
