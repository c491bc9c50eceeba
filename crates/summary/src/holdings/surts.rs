//! The SURTs of captures and of URIs, in the one spelling that summaries have.

use std::borrow::Cow;

use waypost_index::key::{KeyCheck, Rekeyer};
use waypost_index::{Capture, Select};
use waypost_surt::Dialect;

use crate::lookup::{SurtWriter, spelled};

/// Computes SURTs as the holdings have them.
pub struct Surts {
    rekeyer: Rekeyer,
    writer: SurtWriter,
    buffer: Vec<u8>,
}

impl Surts {
    /// SURTs of this dialect.
    pub fn new(dialect: Dialect) -> Surts {
        Surts {
            rekeyer: Rekeyer::new(dialect),
            writer: SurtWriter::new(dialect),
            buffer: Vec::new(),
        }
    }

    /// The SURT of a capture.
    #[inline]
    pub fn of<'a>(&'a mut self, capture: &'a Capture<'_>) -> Cow<'a, [u8]> {
        match self.rekeyer.has_plain_key(capture) {
            true => Cow::Borrowed(capture.key()),
            false => spelled(self.rekeyer.other_surt(capture)),
        }
    }

    /// The SURT of a line of a list; `None` if it does not pass the filters.
    ///
    /// # Errors
    /// If it has no SURT.
    pub fn of_uri(
        &mut self,
        line: &[u8],
        select: &Select,
    ) -> Result<Option<&[u8]>, waypost_surt::Error> {
        self.buffer.clear();
        self.writer.write(line, &mut self.buffer)?;
        let accepted = select.accepts_uri(line, &self.buffer);
        Ok(accepted.then_some(&self.buffer[..]))
    }

    /// How the keys of captures compared with their URLs.
    pub fn check(&self) -> &KeyCheck {
        self.rekeyer.check()
    }
}
