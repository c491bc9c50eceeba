//! The row of a capture: its SURT, its second key and its source.

use std::borrow::Cow;
use std::sync::Arc;

use waypost_index::{Capture, Fields};
use waypost_surt::{Dialect, Surt};

use super::run::{fields_of, second_key};
use super::surts::Surts;
use crate::about::By;
use crate::classes::Classes;
use crate::lookup::escaped;

/// Reads the rows of captures.
#[derive(Clone)]
pub(super) struct RowReader {
    dialect: Dialect,
    by: Option<By>,
    /// The classes that [`By::Class`] counts by.
    pub(super) classes: Option<Arc<Classes>>,
    /// The bit of the source.
    pub(super) source: u64,
}

/// What a worker needs to read rows.
pub(super) struct RowTools {
    pub(super) surts: Surts,
    second: Vec<u8>,
}

impl RowReader {
    /// Rows of the first source.
    pub(super) fn new(dialect: Dialect, by: Option<By>) -> RowReader {
        RowReader {
            dialect,
            by,
            classes: None,
            source: 1,
        }
    }

    /// The same for the source with this number, which must be below 64.
    pub(super) fn of_source(&self, number: usize) -> RowReader {
        RowReader {
            source: 1 << number.min(63),
            ..self.clone()
        }
    }

    /// The fields of captures that are used.
    pub(super) fn fields(&self) -> Fields {
        fields_of(self.by)
    }

    pub(super) fn tools(&self) -> Box<RowTools> {
        Box::new(RowTools {
            surts: Surts::new(self.dialect),
            second: Vec::new(),
        })
    }

    /// The SURT of a capture, and its second key; empty without second keys.
    #[inline]
    pub(super) fn of_capture<'a>(
        &self,
        tools: &'a mut RowTools,
        capture: &'a Capture<'_>,
    ) -> (Cow<'a, [u8]>, &'a [u8]) {
        tools.second.clear();
        second_key(self.by, capture, &mut tools.second);
        let surt = tools.surts.of(capture);
        if let Some(class) = self.class(&surt) {
            tools.second.clear();
            tools.second.extend_from_slice(&class);
        }
        (surt, &tools.second)
    }

    /// The second key of a URI without a capture: a list has neither times nor languages nor types.
    pub(super) fn second_of_uri(&self, surt: &[u8]) -> Cow<'_, [u8]> {
        match self.class(surt) {
            Some(class) => class,
            None if self.by.is_some() => Cow::Borrowed(b"-"),
            None => Cow::Borrowed(b""),
        }
    }

    /// The class of a URI-R, if it is the second key.
    fn class(&self, surt: &[u8]) -> Option<Cow<'_, [u8]>> {
        let classes = self
            .classes
            .as_ref()
            .filter(|_| self.by == Some(By::Class))?;
        Some(escaped(classes.name(&Surt::new(surt)).as_bytes()))
    }
}
