//! A table with aligned columns, for terminals and files.

use std::fmt::{self, Write};

use crate::cell::Cell;
use crate::columns::{Cells, Columns};
use crate::html::escape;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a header; `Display` prints them with each column as wide as its widest cell of the usual size.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Vec<Cell>>,
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
        I::Item: Into<Cell>,
    {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert!(row.len() <= self.align.len(), "more cells than columns");
        row.resize(self.align.len(), Cell::default());
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.align.len()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The head and the body of the table as HTML. Plain values are in `data-value`.
    pub(crate) fn html(&self) -> String {
        let class = |align: &Align| match align {
            Align::Left => "",
            Align::Right => " class=\"number\"",
        };
        let mut html = String::from("<thead><tr>");
        for (name, align) in self.header.iter().zip(&self.align) {
            let _ = write!(
                html,
                "<th scope=\"col\"{}>{}</th>",
                class(align),
                escape(name)
            );
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (cell, align) in row.iter().zip(&self.align) {
                let plain = cell.plain.as_ref();
                let plain = plain.map(|plain| format!(" data-value=\"{}\"", escape(plain)));
                let _ = write!(
                    html,
                    "<td{}{}>{}</td>",
                    class(align),
                    plain.unwrap_or_default(),
                    escape(&cell.shown)
                );
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>");
        html
    }

    /// The table as CSV, with plain values. Cells with commas, quotes or line breaks are quoted.
    pub fn csv(&self) -> String {
        fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
            let cells: Vec<String> = cells
                .map(|cell| {
                    if cell.contains([',', '"', '\n', '\r']) {
                        format!("\"{}\"", cell.replace('"', "\"\""))
                    } else {
                        cell.to_owned()
                    }
                })
                .collect();
            format!("{}\n", cells.join(","))
        }
        let mut text = line(self.header.iter().map(|name| &name[..]));
        for row in &self.rows {
            text += &line(row.iter().map(Cell::plain));
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cells = Cells::default();
        for cell in self.rows.iter().flatten() {
            cells.push(|text| text.extend_from_slice(cell.shown.as_bytes()));
        }
        let mut columns = Columns::of(self.header.clone(), self.align.clone());
        columns.fit(&cells);
        let mut text = Vec::new();
        columns.push_header(&mut text);
        columns.push_rows(&cells, &mut text);
        f.write_str(&String::from_utf8_lossy(&text))
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

    #[test]
    fn a_huge_cell_is_whole_and_widens_no_other_row() {
        let mut table = Table::new(&[("uri", Align::Left), ("captures", Align::Right)]);
        let huge = "ä".repeat(70_000);
        table.row([&huge[..], "7"]);
        table.row(["x", "8"]);
        let text = table.to_string();
        assert!(text.contains(&format!("{huge}         7\n")));
        assert!(text.lines().last().unwrap().len() < 1000);
    }
}
