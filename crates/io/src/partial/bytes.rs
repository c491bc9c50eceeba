//! Serialised partials: magic bytes, a kind, a version, then the fields.
//!
//! Numbers are LEB128; bytes are preceded by their length. Partials may come from another machine, so
//! invalid bytes are an error, never a panic.

use crate::error::{Error, ErrorKind, Result};

const MAGIC: &[u8; 4] = b"WPPT";

/// Writes the fields of a partial.
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Starts a partial of this kind (a short name) and version.
    pub fn new(kind: &str, version: u8) -> Encoder {
        let mut encoder = Encoder {
            bytes: MAGIC.to_vec(),
        };
        encoder.text(kind.as_bytes());
        encoder.bytes.push(version);
        encoder
    }

    /// A number.
    pub fn number(&mut self, number: u64) {
        push_number(&mut self.bytes, number);
    }

    /// A hash of 128 bits.
    pub fn hash(&mut self, hash: u128) {
        self.bytes.extend_from_slice(&hash.to_le_bytes());
    }

    /// Some bytes.
    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text);
    }

    /// A number that may be missing.
    pub fn option(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        if let Some(number) = number {
            self.number(number);
        }
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads what an [`Encoder`] wrote.
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads a partial of this kind and version.
    ///
    /// # Errors
    /// If the bytes are something else.
    pub fn new(bytes: &'a [u8], kind: &str, version: u8) -> Result<Decoder<'a>> {
        let rest = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| format("these bytes are not a partial"))?;
        let mut decoder = Decoder { bytes: rest };
        let found = decoder.text()?;
        if found != kind.as_bytes() {
            return Err(format(&format!(
                "expected a partial of kind {kind}, found {}",
                found.escape_ascii()
            )));
        }
        let (found, rest) = decoder.bytes.split_first().ok_or_else(damaged)?;
        if *found != version {
            return Err(format(&format!(
                "a partial of version {found}, but this program reads version {version}"
            )));
        }
        decoder.bytes = rest;
        Ok(decoder)
    }

    /// A number.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn number(&mut self) -> Result<u64> {
        let (number, rest) = take_number(self.bytes).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(number)
    }

    /// The number of items that follow, each of which has at least one byte.
    ///
    /// # Errors
    /// If there are fewer bytes than items.
    pub fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        if count > self.bytes.len() as u64 {
            return Err(damaged());
        }
        Ok(count as usize)
    }

    /// A hash of 128 bits.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn hash(&mut self) -> Result<u128> {
        let (hash, rest) = self.bytes.split_first_chunk::<16>().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(u128::from_le_bytes(*hash))
    }

    /// Some bytes.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn text(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(text)
    }

    /// A number that may be missing.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn option(&mut self) -> Result<Option<u64>> {
        Ok(match self.number()? {
            0 => None,
            1 => Some(self.number()?),
            _ => return Err(damaged()),
        })
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// If something is.
    pub fn finish(self) -> Result<()> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(damaged())
        }
    }
}

fn format(message: &str) -> Error {
    Error::new(ErrorKind::Format(message.to_owned()))
}

/// The error for bytes that no encoder wrote.
pub(super) fn damaged() -> Error {
    format("the bytes of a partial are damaged")
}

/// Appends a number of one to ten bytes.
#[inline]
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number at the start of `bytes`, and what follows it.
#[inline]
pub fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * at);
        if byte < 0x80 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Fields = (Vec<u64>, Vec<u8>, u128, Option<u64>);

    proptest! {
        #[test]
        fn fields_come_back_and_damage_is_an_error(
            numbers in prop::collection::vec(any::<u64>(), 0..5),
            text in prop::collection::vec(any::<u8>(), 0..20),
            hash: u128,
            cut in 0usize..60,
        ) {
            let mut encoder = Encoder::new("x", 1);
            encoder.number(numbers.len() as u64);
            numbers.iter().for_each(|number| encoder.number(*number));
            encoder.text(&text);
            encoder.hash(hash);
            encoder.option(numbers.first().copied());
            let bytes = encoder.finish();
            let read = |bytes: &[u8]| -> Result<Fields> {
                let mut decoder = Decoder::new(bytes, "x", 1)?;
                let count = decoder.count()?;
                let numbers = (0..count).map(|_| decoder.number()).collect::<Result<_>>()?;
                let fields = (numbers, decoder.text()?.to_vec(), decoder.hash()?, decoder.option()?);
                decoder.finish()?;
                Ok(fields)
            };
            let first = numbers.first().copied();
            prop_assert_eq!(read(&bytes).unwrap(), (numbers, text, hash, first));
            if cut < bytes.len() {
                prop_assert!(read(&bytes[..cut]).is_err());
            }
            prop_assert!(Decoder::new(&bytes, "y", 1).is_err());
            prop_assert!(Decoder::new(&bytes, "x", 2).is_err());
        }
    }
}
