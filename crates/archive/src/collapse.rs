//! Reduces adjacent captures that are alike to the first.

use std::borrow::Cow;

use waypost_index::{Field, Fields};

use crate::row::{Row, value};

/// What adjacent captures have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collapse {
    field: String,
    /// How many bytes of the field are compared.
    digits: usize,
    /// Whether the status is compared, too.
    status: bool,
    last: Option<Vec<u8>>,
}

impl Collapse {
    /// Parses `field` or `field:N`, of which the first `N` bytes are compared.
    pub fn parse(text: &str) -> Option<Collapse> {
        let (field, digits) = match text.rsplit_once(':') {
            Some((field, digits)) => (field, digits.parse().ok()?),
            None => (text, usize::MAX),
        };
        (!field.is_empty()).then(|| Collapse {
            field: field.to_owned(),
            digits,
            status: false,
            last: None,
        })
    }

    /// The first digits of the timestamp, and the status, as pywb's `collapseTime`.
    pub fn time_and_status(digits: usize) -> Collapse {
        Collapse {
            field: "timestamp".to_owned(),
            digits,
            status: true,
            last: None,
        }
    }

    /// The fields that are compared.
    pub(crate) fn wanted(&self) -> Fields {
        let named = Field::of_json(self.field.as_bytes()).map_or(Fields::NONE, Fields::from);
        match self.status {
            true => named | Field::Status,
            false => named,
        }
    }

    /// Whether the row differs from the one before, which is then forgotten.
    pub(crate) fn passes(&mut self, row: &Row<'_>) -> bool {
        let value = value(row, &self.field).unwrap_or_default();
        let mut token = value[..value.len().min(self.digits)].to_vec();
        if self.status {
            token.push(b' ');
            token.extend_from_slice(&row.text(Field::Status).unwrap_or(Cow::Borrowed(b"")));
        }
        let differs = self.last.as_deref() != Some(&token[..]);
        if differs {
            self.last = Some(token);
        }
        differs
    }
}
