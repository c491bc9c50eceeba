//! Self-contained HTML pages: no scripts, no external resources.

use std::fmt::Write;

use crate::Table;

/// A page of headings, tables and plots.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left}\
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto;margin:1rem 0}\
svg text{font:11px system-ui,sans-serif;fill:#333}svg .title{font-size:15px;font-weight:600}\
.grid{stroke:#e3e3e3}.frontier{fill:none;stroke:#b5442e;stroke-width:1.5}.point circle{fill:#7a8ba3}.best circle{fill:#b5442e}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg text{fill:#ccc}.grid{stroke:#333}th,td{border-color:#333}}";

impl Page {
    /// A page with this title.
    pub fn new(title: &str) -> Page {
        Page {
            title: title.to_owned(),
            body: format!("<h1>{}</h1>\n", escape(title)),
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html());
    }

    /// Adds an SVG element.
    pub fn svg(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// The whole page.
    pub fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}</style>\n{}</html>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// Escapes text for HTML and XML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Align;

    #[test]
    fn a_page_holds_what_was_added_and_nothing_acts() {
        let mut table = Table::new(&[("uri", Align::Left), ("n", Align::Right)]);
        table.row(["<b>", "1"]);
        let mut page = Page::new("A & B");
        page.heading("one");
        page.table(&table);
        let html = page.html();
        assert!(html.contains("<title>A &amp; B</title>"));
        assert!(html.contains("<td>&lt;b&gt;</td><td class=\"number\">1</td>"));
        assert!(!html.contains("<script"));
    }
}
