//! A cell of a table: what people read, and the plain value for files.

use crate::number;

/// A cell of a [`Table`](crate::Table): text, or a number that is shown with separators or units
/// and exported plain.
///
/// ```
/// use waypost_report::{Align, Cell, Table};
///
/// let mut table = Table::new(&[("year", Align::Left), ("captures", Align::Right)]);
/// table.row([Cell::from("2004"), Cell::count(48_213)]);
/// assert_eq!(table.to_string(), "year  captures\n2004    48,213\n");
/// assert_eq!(table.csv(), "year,captures\n2004,48213\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub(crate) shown: String,
    /// The plain value, if it differs.
    pub(crate) plain: Option<String>,
}

impl Cell {
    fn new(shown: String, plain: String) -> Cell {
        Cell {
            plain: (plain != shown).then_some(plain),
            shown,
        }
    }

    /// A count, with thousands separators.
    pub fn count(n: u64) -> Cell {
        Cell::new(number::count(n), n.to_string())
    }

    /// A size, with a unit.
    pub fn bytes(n: u64) -> Cell {
        Cell::new(number::bytes(n), n.to_string())
    }

    /// A number with this many decimals.
    pub fn number(value: f64, decimals: usize) -> Cell {
        if !value.is_finite() {
            return Cell::from("-");
        }
        let shown = format!("{value:.decimals$}");
        let shown = match shown.split_once('.') {
            Some((whole, rest)) => format!("{}.{rest}", grouped(whole)),
            None => grouped(&shown),
        };
        Cell::new(shown, value.to_string())
    }

    /// A share between 0 and 1, as a percentage.
    pub fn percent(value: f64) -> Cell {
        if !value.is_finite() {
            return Cell::from("-");
        }
        Cell::new(format!("{:.2}%", value * 100.0), value.to_string())
    }

    /// The plain value.
    pub(crate) fn plain(&self) -> &str {
        self.plain.as_deref().unwrap_or(&self.shown)
    }
}

/// Thousands separators in digits that may have a sign.
fn grouped(digits: &str) -> String {
    match digits.strip_prefix('-') {
        Some(rest) => format!("-{}", grouped(rest)),
        None => digits.parse().map_or(digits.to_owned(), number::count),
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell {
            shown: text,
            plain: None,
        }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::from(text.clone())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_for_people_and_exported_plain() {
        let number = Cell::number(1_170_527.414_1, 2);
        assert_eq!(
            (&number.shown[..], number.plain()),
            ("1,170,527.41", "1170527.4141")
        );
        assert_eq!(Cell::number(-1234.5, 0).shown, "-1,234");
        assert_eq!(Cell::percent(0.0544).shown, "5.44%");
        assert_eq!(Cell::percent(f64::NAN).shown, "-");
        assert_eq!(Cell::count(999).plain, None);
    }
}
