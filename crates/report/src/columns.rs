//! Tables that are streamed: the widths of the columns are those of the first rows, and a wider cell
//! moves the rest of its row to the right.

use crate::table::Align;

/// The cells of some rows, before the widths of their columns are known.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    text: Vec<u8>,
    /// Where each cell ends.
    ends: Vec<usize>,
}

impl Cells {
    /// Adds a cell whose text `write` appends. Bytes that are not UTF-8 are printed as they are.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
        self.ends.push(self.text.len());
    }

    /// Removes all cells and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let cell = &self.text[start..end];
            start = end;
            cell
        })
    }
}

/// The widest column: a URI may have a million characters, and the other rows are padded to its width.
const WIDEST: usize = 500;

/// The columns of a streamed table.
#[derive(Clone, Debug)]
pub struct Columns {
    header: Vec<String>,
    align: Vec<Align>,
    widths: Vec<usize>,
}

impl Columns {
    /// Columns as wide as their headers.
    pub fn new(columns: &[(&str, Align)]) -> Columns {
        let (header, align) = columns
            .iter()
            .map(|(name, align)| ((*name).to_owned(), align))
            .unzip();
        Columns::of(header, align)
    }

    pub(crate) fn of(header: Vec<String>, align: Vec<Align>) -> Columns {
        let widths = header.iter().map(|name| name.chars().count()).collect();
        Columns {
            header,
            align,
            widths,
        }
    }

    /// Sets minimum widths.
    pub fn widen(&mut self, least: &[usize]) {
        for (width, least) in self.widths.iter_mut().zip(least) {
            *width = (*width).max(*least);
        }
    }

    /// Widens columns to fit these cells, except for huge ones.
    pub fn fit(&mut self, cells: &Cells) {
        let columns = self.widths.len();
        for (at, cell) in cells.iter().enumerate() {
            let width = &mut self.widths[at % columns];
            *width = (*width).max(width_of(cell).min(WIDEST));
        }
    }

    /// Appends the header.
    pub fn push_header(&self, out: &mut Vec<u8>) {
        let mut cells = Cells::default();
        for name in &self.header {
            cells.push(|text| text.extend_from_slice(name.as_bytes()));
        }
        self.push_rows(&cells, out);
    }

    /// Appends rows, without trailing spaces.
    pub fn push_rows(&self, cells: &Cells, out: &mut Vec<u8>) {
        let columns = self.widths.len();
        let mut line = out.len();
        for (at, cell) in cells.iter().enumerate() {
            let column = at % columns;
            let padding = self.widths[column].saturating_sub(width_of(cell));
            match self.align[column] {
                Align::Left => {
                    out.extend_from_slice(cell);
                    push_spaces(padding, out);
                }
                Align::Right => {
                    push_spaces(padding, out);
                    out.extend_from_slice(cell);
                }
            }
            if column + 1 < columns {
                out.extend_from_slice(b"  ");
            } else {
                while out.len() > line && out.last() == Some(&b' ') {
                    out.pop();
                }
                out.push(b'\n');
                line = out.len();
            }
        }
    }
}

fn push_spaces(n: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + n, b' ');
}

/// The number of characters in a text that is nearly always ASCII.
fn width_of(cell: &[u8]) -> usize {
    cell.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    fn cells(texts: &[&str]) -> Cells {
        let mut cells = Cells::default();
        for text in texts {
            cells.push(|out| out.extend_from_slice(text.as_bytes()));
        }
        cells
    }

    #[test]
    fn rows_that_fit_look_as_those_of_a_table() {
        let head = [("uri", Align::Left), ("captures", Align::Right)];
        let rows = ["http://example.com/ä", "7", "x", ""];
        let mut table = Table::new(&head);
        rows.chunks(2).for_each(|row| table.row(row.to_vec()));
        let mut columns = Columns::new(&head);
        columns.fit(&cells(&rows));
        let mut out = Vec::new();
        columns.push_header(&mut out);
        columns.push_rows(&cells(&rows), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), table.to_string());
    }

    #[test]
    fn a_cell_that_is_too_wide_is_whole() {
        let mut columns = Columns::new(&[("a", Align::Left), ("b", Align::Left)]);
        columns.widen(&[3]);
        let mut out = Vec::new();
        columns.push_rows(&cells(&["12345", "x", "1", "y"]), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "12345  x\n1    y\n");
    }
}
