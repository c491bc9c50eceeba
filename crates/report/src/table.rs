//! A table with aligned columns, for terminals and files.

use std::fmt;

use crate::html::escape;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a header; `Display` prints them with each column as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            header: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            align: columns.iter().map(|(_, align)| *align).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert!(row.len() <= self.align.len(), "more cells than columns");
        row.resize(self.align.len(), String::new());
        self.rows.push(row);
    }

    /// The table as HTML.
    pub(crate) fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells: Vec<String> = cells
                .iter()
                .zip(&self.align)
                .map(|(cell, align)| {
                    let class = match align {
                        Align::Left => "",
                        Align::Right => " class=\"number\"",
                    };
                    format!("<{tag}{class}>{}</{tag}>", escape(cell))
                })
                .collect();
            format!("<tr>{}</tr>\n", cells.concat())
        };
        let rows: Vec<String> = self.rows.iter().map(|cells| row(cells, "td")).collect();
        format!(
            "<table>\n{}{}</table>\n",
            row(&self.header, "th"),
            rows.concat()
        )
    }

    /// The table as CSV. Cells with commas, quotes or line breaks are quoted.
    pub fn csv(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells
                .iter()
                .map(|cell| {
                    if cell.contains([',', '"', '\n', '\r']) {
                        format!("\"{}\"", cell.replace('"', "\"\""))
                    } else {
                        cell.clone()
                    }
                })
                .collect();
            format!("{}\n", cells.join(","))
        };
        std::iter::once(&self.header)
            .chain(&self.rows)
            .map(|cells| line(cells))
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.align.len())
            .map(|i| lines().map(|row| row[i].chars().count()).max().unwrap_or(0))
            .collect();
        for row in lines() {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.align) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_trailing_space() {
        let mut table = Table::new(&[("uri", Align::Left), ("captures", Align::Right)]);
        table.row(["http://example.com/ä", "7"]);
        table.row(["x"]);
        assert_eq!(
            table.to_string(),
            "uri                   captures\nhttp://example.com/ä         7\nx\n"
        );
    }
}
